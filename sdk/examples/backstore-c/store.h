/* SPDX-License-Identifier: Apache-2.0 */
/* The store: one regular file. */
#ifndef STORE_H
#define STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

/* The codes of sdk/backstore that this plugin uses. */
enum {
	CODE_OK = 0,
	CODE_IO = 1,
	CODE_UNAVAILABLE = 2,
	CODE_BUSY = 3,
	CODE_NO_SPACE = 4,
	CODE_READ_ONLY = 5,
	CODE_RANGE = 6,
	CODE_NOT_SUPPORTED = 7,
	CODE_ABORTED = 8,
	CODE_INVALID = 9,
};

/* Why a call failed. A code of 0 means that it did not. */
struct error {
	uint32_t code;
	char text[512]; /* UTF-8, for the operator */
};

/* Sets e and returns its code. */
uint32_t fail(struct error *e, uint32_t code, const char *format, ...) __attribute__((format(printf, 3, 4)));

struct setting {
	const char *key, *value;
};

struct store {
	int fd;
	uint64_t size; /* bytes, whole blocks */
	uint32_t block_size;
	bool read_only;
};

/* Opens the store that the settings describe, and waits until deadline for the end of an earlier process's I/O. It gives
 * up when *cancelled is set. */
uint32_t store_open(struct store *s, const struct setting *settings, size_t n, const struct timespec *deadline,
		    bool (*cancelled)(void *), void *arg, struct error *e);

/* Holds a request against the store. Returns a code. */
uint32_t store_check(const struct store *s, uint8_t op, uint8_t flags, uint64_t offset, uint32_t length);

/* Does a request that store_check has passed. Any thread may call it. Returns a code. */
uint32_t store_do(const struct store *s, uint8_t op, uint8_t flags, uint64_t offset, void *data, uint32_t length);

void store_close(struct store *s);

/* Whether the monotonic clock has reached t. */
bool reached(const struct timespec *t);

#endif
