/* SPDX-License-Identifier: Apache-2.0 */
/* One queue: a thread that takes requests, and workers that do them. */
#ifndef QUEUE_H
#define QUEUE_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "memory.h"
#include "store.h"

enum { QUEUE_FDS = 4 };

struct queue;

/* Maps the four descriptors, which it takes over, and serves the ring in them. store and arena outlive the queue.
 * Returns NULL and sets e if that cannot be. */
struct queue *queue_start(const struct store *store, const struct memory *arena, const int fds[QUEUE_FDS],
			  uint32_t entries, uint32_t generation, struct error *e);

/* Ends the queue. It returns true when every request taken has been completed and nothing touches the data any more, false
 * at the deadline; then it may be called again. */
bool queue_stop(struct queue *q, const struct timespec *deadline);

/* Frees a queue that queue_stop has ended. */
void queue_free(struct queue *q);

uint32_t queue_outstanding(struct queue *q);

/* Why the queue is not served any more, or NULL. The text is static. */
const char *queue_broken(struct queue *q);

#endif
