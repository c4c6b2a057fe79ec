/* SPDX-License-Identifier: Apache-2.0 */
#include "store.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "ring.h"

/* Takes a character that was cut in two off the end of s: text that is not UTF-8 makes the host drop the whole answer. */
static void mend_end(char *s)
{
	size_t n = strlen(s), back = 1;
	while (back <= n && back < 4 && ((unsigned char)s[n - back] & 0xc0) == 0x80)
		back++;
	if (back > n)
		return;
	unsigned char lead = s[n - back];
	size_t need = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc0 ? 2 : 1;
	if (back < need)
		s[n - back] = 0;
}

uint32_t fail(struct error *e, uint32_t code, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	int n = vsnprintf(e->text, sizeof e->text, format, args);
	va_end(args);
	if (n >= (int)sizeof e->text)
		mend_end(e->text);
	return e->code = code;
}

bool reached(const struct timespec *t)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec > t->tv_sec || (now.tv_sec == t->tv_sec && now.tv_nsec >= t->tv_nsec);
}

struct config {
	const char *path;
	uint64_t size;
	uint32_t block_size;
	bool read_only;
};

/* A whole number, alone or with one of the units that sdk/schema has. */
static bool parse_size(const char *s, uint64_t *out)
{
	static const struct {
		const char *name;
		uint64_t bytes;
	} units[] = {
		{"", 1}, {"B", 1}, {"KiB", 1ull << 10}, {"MiB", 1ull << 20}, {"GiB", 1ull << 30}, {"TiB", 1ull << 40},
		{"kB", 1000}, {"KB", 1000}, {"MB", 1000000}, {"GB", 1000000000}, {"TB", 1000000000000},
	};
	char *end;
	if (*s < '0' || *s > '9')
		return false;
	errno = 0;
	unsigned long long n = strtoull(s, &end, 10);
	if (errno)
		return false;
	end += strspn(end, " ");
	for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
		if (strcmp(end, units[i].name) == 0 && n <= INT64_MAX / units[i].bytes) {
			*out = n * units[i].bytes;
			return true;
		}
	}
	return false;
}

static uint32_t set(struct config *c, const char *key, const char *value, struct error *e)
{
	if (strcmp(key, "path") == 0) {
		if (value[0] != '/')
			return fail(e, CODE_INVALID, "path: %s is not an absolute path", value);
		c->path = value;
	} else if (strcmp(key, "size") == 0) {
		if (!parse_size(value, &c->size) || c->size == 0)
			return fail(e, CODE_INVALID, "size: %s is not a size such as 64MiB", value);
	} else if (strcmp(key, "block_size") == 0) {
		if (strcmp(value, "512") != 0 && strcmp(value, "4096") != 0)
			return fail(e, CODE_INVALID, "block_size: %s is neither 512 nor 4096", value);
		c->block_size = value[0] == '5' ? 512 : 4096;
	} else if (strcmp(key, "read_only") == 0) {
		if (strcmp(value, "true") != 0 && strcmp(value, "false") != 0)
			return fail(e, CODE_INVALID, "read_only: %s is neither true nor false", value);
		c->read_only = value[0] == 't';
	} else {
		return fail(e, CODE_INVALID, "%s: no such setting; there are path, size, block_size, read_only", key);
	}
	return CODE_OK;
}

static uint32_t parse(struct config *c, const struct setting *settings, size_t n, struct error *e)
{
	*c = (struct config){.block_size = 512};
	for (size_t i = 0; i < n; i++) {
		if (set(c, settings[i].key, settings[i].value, e))
			return e->code;
	}
	if (!c->path)
		return fail(e, CODE_INVALID, "path: not set; name a file");
	return CODE_OK;
}

/* Opens the file, and creates it if it is missing and the configuration says its size. */
static int open_file(const struct config *c)
{
	int fd = open(c->path, (c->read_only ? O_RDONLY : O_RDWR) | O_CLOEXEC);
	if (fd >= 0 || errno != ENOENT || c->size == 0 || c->read_only)
		return fd;
	fd = open(c->path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	return fd;
}

/* Waits for the lock on the open file that does the I/O: the kernel drops an earlier process's when its last I/O has landed. */
static uint32_t fence(int fd, const struct timespec *deadline, bool (*cancelled)(void *), void *arg, struct error *e)
{
	for (;;) {
		if (flock(fd, LOCK_EX | LOCK_NB) == 0)
			return CODE_OK;
		if (errno != EWOULDBLOCK && errno != EINTR)
			return fail(e, CODE_UNAVAILABLE, "flock: %s", strerror(errno));
		if (reached(deadline) || cancelled(arg))
			return fail(e, CODE_UNAVAILABLE, "another process has the file open, or its last I/O is not over yet");
		nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
	}
}

/* Learns the size; a file that was just created gets it. Comes after the fence, so two processes do not both create. */
static uint32_t measure(struct store *s, const struct config *c, struct error *e)
{
	struct stat st;
	if (fstat(s->fd, &st) < 0)
		return fail(e, CODE_UNAVAILABLE, "fstat: %s", strerror(errno));
	if (!S_ISREG(st.st_mode))
		return fail(e, CODE_INVALID, "%s: is not a regular file", c->path);
	if (st.st_size == 0 && c->size != 0 && !c->read_only) {
		if (ftruncate(s->fd, c->size) < 0 || fsync(s->fd) < 0)
			return fail(e, CODE_NO_SPACE, "%s: setting its size: %s", c->path, strerror(errno));
		st.st_size = c->size;
	}
	if (c->size != 0 && c->size != (uint64_t)st.st_size)
		return fail(e, CODE_INVALID, "%s: has %lld bytes but size says %llu; make them agree", c->path,
			    (long long)st.st_size, (unsigned long long)c->size);
	s->size = (uint64_t)st.st_size / c->block_size * c->block_size;
	if (s->size == 0)
		return fail(e, CODE_INVALID, "%s: has less than one block; set size or use a larger file", c->path);
	return CODE_OK;
}

uint32_t store_open(struct store *s, const struct setting *settings, size_t n, const struct timespec *deadline,
		    bool (*cancelled)(void *), void *arg, struct error *e)
{
	struct config c;
	if (parse(&c, settings, n, e))
		return e->code;
	*s = (struct store){.fd = open_file(&c), .block_size = c.block_size, .read_only = c.read_only};
	if (s->fd < 0)
		return fail(e, CODE_UNAVAILABLE, "%s: %s", c.path, strerror(errno));
	if (fence(s->fd, deadline, cancelled, arg, e) || measure(s, &c, e)) {
		close(s->fd);
		return e->code;
	}
	return CODE_OK;
}

uint32_t store_check(const struct store *s, uint8_t op, uint8_t flags, uint64_t offset, uint32_t length)
{
	if ((flags & ~FLAG_FUA) || ((flags & FLAG_FUA) && op != OP_WRITE))
		return CODE_INVALID;
	if (op == OP_FLUSH)
		return CODE_OK;
	if (offset > s->size || length > s->size - offset)
		return CODE_RANGE;
	if (offset % s->block_size || length % s->block_size)
		return CODE_INVALID;
	if (op == OP_WRITE && s->read_only)
		return CODE_READ_ONLY;
	return CODE_OK;
}

static uint32_t code_of(int err)
{
	return err == ENOSPC || err == EDQUOT ? CODE_NO_SPACE : CODE_IO;
}

uint32_t store_do(const struct store *s, uint8_t op, uint8_t flags, uint64_t offset, void *data, uint32_t length)
{
	if (op == OP_FLUSH)
		return s->read_only || fdatasync(s->fd) == 0 ? CODE_OK : code_of(errno);
	struct iovec v = {.iov_base = data, .iov_len = length};
	while (v.iov_len > 0) {
		ssize_t n = op == OP_READ ? preadv2(s->fd, &v, 1, offset, 0)
					  : pwritev2(s->fd, &v, 1, offset, flags & FLAG_FUA ? RWF_DSYNC : 0);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? code_of(errno) : CODE_IO; /* the file is shorter than it was */
		v.iov_base = (char *)v.iov_base + n;
		v.iov_len -= n;
		offset += n;
	}
	return CODE_OK;
}

void store_close(struct store *s)
{
	close(s->fd);
}
