/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that the host shares. */
#ifndef MEMORY_H
#define MEMORY_H

#include <stdbool.h>
#include <stddef.h>

struct error;

struct memory {
	void *base;
	size_t size;
};

/* Maps a memfd of exactly size bytes that is sealed against a change of its size. The descriptor stays the caller's.
 * Returns 0, or the code of e. */
unsigned memory_map(struct memory *m, int fd, size_t size, bool writable, struct error *e);

/* Unmaps what was mapped; nothing if nothing was. */
void memory_unmap(struct memory *m);

#endif
