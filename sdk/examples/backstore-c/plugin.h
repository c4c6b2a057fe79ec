/* SPDX-License-Identifier: Apache-2.0 */
/* What the process has: the arena, stores, queues, and the order of their beginnings and ends. Any thread may call. Functions that
 * take an error set it when they fail; those that return an id return 0 then. */
#ifndef PLUGIN_H
#define PLUGIN_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "store.h"

enum { MAX_STORES = 256, MAX_QUEUES = 512 };

void plugin_init(void);

void plugin_attach_arena(uint64_t token, uint64_t size, const struct timespec *deadline, struct error *e);

/* Opens a store and describes it in s, which is a copy. */
uint64_t plugin_open(struct store *s, const struct setting *settings, size_t n, const struct timespec *deadline,
		     bool (*cancelled)(void *), void *arg, struct error *e);

/* Closes a store that nobody was told of. */
void plugin_abandon(uint64_t store);

uint64_t plugin_attach_queue(uint64_t store, uint64_t token, uint32_t entries, uint32_t generation,
			     const struct timespec *deadline, struct error *e);
void plugin_detach_queue(uint64_t queue, const struct timespec *deadline, struct error *e);

/* Detaches the store's queues and closes it. */
void plugin_close_store(uint64_t store, const struct timespec *deadline, struct error *e);

struct queue_health {
	uint64_t id;
	uint32_t outstanding;
	const char *broken; /* NULL, or static text */
};

/* Tells about every queue and returns how many there are. */
size_t plugin_health(struct queue_health out[MAX_QUEUES]);

/* Opens and attaches nothing more, and closes every store, as far as that can be done within seconds. */
void plugin_shutdown(int seconds);

#endif
