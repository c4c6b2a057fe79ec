/* SPDX-License-Identifier: Apache-2.0 */
/* The plugin's half of a ring, as sdk/PROTOCOL.md lays it out. */
#ifndef RING_H
#define RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { RING_HEAD = 4096, SQE_SIZE = 64, CQE_SIZE = 32, RING_MAX_ENTRIES = 4096 };

enum { OP_READ = 1, OP_WRITE = 2, OP_FLUSH = 3 };
enum { FLAG_FUA = 1 };

/* A request as it was taken: copied out of the region, its data inside the arena. */
struct entry {
	uint64_t tag;
	uint8_t op, flags;
	uint64_t offset; /* in the store, bytes; not checked here */
	uint64_t arena;  /* in the arena, bytes */
	uint32_t length; /* bytes */
};

struct ring {
	const uint8_t *sqes;
	uint8_t *cqes;
	_Atomic uint32_t *tail, *taken, *wake;           /* own words */
	_Atomic uint64_t *beat;                          /* own word */
	const _Atomic uint32_t *peer_tail, *peer_wake;   /* the host's words */
	uint32_t entries, generation;
	uint64_t arena; /* its length in bytes */

	/* Of the thread that takes. The words above are never read back. */
	uint32_t popped, wake_word;
	uint64_t beats;

	/* Of the threads that complete, which take turns. */
	uint32_t done, rung;

	/* Requests taken and not completed. */
	_Atomic uint32_t outstanding;
};

size_t ring_host_size(uint32_t entries);
size_t ring_plugin_size(uint32_t entries);

/* Checks that the host formatted both regions, of the sizes above, as announced. Returns NULL, or what is wrong. */
const char *ring_init(struct ring *r, const uint8_t *host, uint8_t *plugin, uint32_t entries, uint32_t generation,
		      uint64_t arena);

/* Takes up to max requests. *why is set, for ever, when the host has broken the protocol; requests before that count. */
size_t ring_take(struct ring *r, struct entry *out, size_t max, const char **why);

/* Writes a completion. There is always room. The host sees it after ring_publish. */
void ring_complete(struct ring *r, uint64_t tag, uint16_t code, uint32_t bytes);

/* Shows the host the completions. Returns whether its bell must be rung. */
bool ring_publish(struct ring *r);

/* Returns true if the caller may wait for the bell; then ring_awake must follow. */
bool ring_sleep(struct ring *r);
void ring_awake(struct ring *r);

/* Moves the heartbeat. */
void ring_beat(struct ring *r);

#endif
