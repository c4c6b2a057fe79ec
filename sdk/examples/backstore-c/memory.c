/* SPDX-License-Identifier: Apache-2.0 */
#include "memory.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "store.h"

unsigned memory_map(struct memory *m, int fd, size_t size, bool writable, struct error *e)
{
	struct stat st;
	if (fstat(fd, &st) < 0)
		return fail(e, CODE_INVALID, "fstat of shared memory: %s", strerror(errno));
	if (size == 0 || (unsigned long long)st.st_size != size)
		return fail(e, CODE_INVALID, "shared memory has %lld bytes, not %zu", (long long)st.st_size, size);
	/* Memory that can shrink kills whoever touches the missing page. */
	int seals = fcntl(fd, F_GET_SEALS);
	if (seals < 0 || (seals & (F_SEAL_SHRINK | F_SEAL_GROW)) != (F_SEAL_SHRINK | F_SEAL_GROW))
		return fail(e, CODE_INVALID, "shared memory is not sealed against a change of its size");
	void *base = mmap(NULL, size, PROT_READ | (writable ? PROT_WRITE : 0), MAP_SHARED, fd, 0);
	if (base == MAP_FAILED)
		return fail(e, CODE_IO, "mmap of %zu bytes: %s", size, strerror(errno));
	*m = (struct memory){base, size};
	return CODE_OK;
}

void memory_unmap(struct memory *m)
{
	if (m->base)
		munmap(m->base, m->size);
	m->base = NULL;
}
