/* SPDX-License-Identifier: Apache-2.0 */
#include "queue.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "channel.h"
#include "ring.h"

enum { WORKERS = 8, BATCH = 64 };

struct queue {
	const struct store *store;
	const struct memory *arena;
	struct memory host, own;
	int bell, host_bell;
	struct ring ring;
	_Atomic bool stopping;
	_Atomic(const char *) broken;

	pthread_mutex_t lock;
	/* One for each job, and one for each worker when there will be none. Not a condition variable: in glibc before 2.41
	 * pthread_cond_signal can wake nobody (bug 25847), and a lost job is a request without an answer. */
	sem_t work;
	pthread_cond_t idle; /* nothing is under way, or ended */
	bool ended;
	uint32_t busy;        /* jobs queued or in a worker */
	uint32_t first, jobs; /* the queued ones, in a circle of ring.entries */
	struct entry *job;
	pthread_t loop, worker[WORKERS];
	int workers;
};

/* The host's bell does not block, and a full counter is a ring too. */
static void ring_bell(int fd)
{
	uint64_t one = 1;
	while (write(fd, &one, sizeof one) < 0 && errno == EINTR)
		;
}

/* Waits for the bell, and reads it before anybody looks for what it was rung for. */
static bool wait_bell(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	uint64_t count;
	if (poll(&p, 1, -1) < 0)
		return errno == EINTR;
	return read(fd, &count, sizeof count) > 0 || errno == EAGAIN || errno == EINTR;
}

/* Completes a request. The caller holds the lock, publishes, and rings. */
static void complete(struct queue *q, const struct entry *e, uint32_t code)
{
	ring_complete(&q->ring, e->tag, code, code == CODE_OK ? e->length : 0);
}

static void *work(void *arg)
{
	struct queue *q = arg;
	for (;;) {
		while (sem_wait(&q->work) < 0 && errno == EINTR)
			;
		pthread_mutex_lock(&q->lock);
		if (q->jobs == 0)
			break;
		struct entry e = q->job[q->first++ & (q->ring.entries - 1)];
		q->jobs--;
		pthread_mutex_unlock(&q->lock);
		uint32_t code = store_do(q->store, e.op, e.flags, e.offset, (char *)q->arena->base + e.arena, e.length);
		pthread_mutex_lock(&q->lock);
		complete(q, &e, code);
		bool ring = ring_publish(&q->ring);
		if (ring)
			ring_bell(q->host_bell);
		if (--q->busy == 0)
			pthread_cond_broadcast(&q->idle);
		pthread_mutex_unlock(&q->lock);
	}
	pthread_mutex_unlock(&q->lock);
	return NULL;
}

/* Lets the workers end. No job is queued. */
static void dismiss(struct queue *q)
{
	for (int i = 0; i < q->workers; i++)
		sem_post(&q->work);
}

/* Gives requests to the workers. What the store refuses is completed at once. */
static void accept_batch(struct queue *q, const struct entry *e, size_t n)
{
	bool refused = false;
	pthread_mutex_lock(&q->lock);
	for (size_t i = 0; i < n; i++) {
		uint32_t code = store_check(q->store, e[i].op, e[i].flags, e[i].offset, e[i].length);
		if (code) {
			complete(q, &e[i], code);
			refused = true;
			continue;
		}
		q->job[(q->first + q->jobs++) & (q->ring.entries - 1)] = e[i];
		q->busy++;
		sem_post(&q->work);
	}
	if (refused && ring_publish(&q->ring))
		ring_bell(q->host_bell);
	pthread_mutex_unlock(&q->lock);
}

/* Takes requests until the queue is stopped or the host breaks the protocol. It never waits for the medium: the host's
 * watchdog looks at the words that it moves. */
static void serve(struct queue *q)
{
	struct entry batch[BATCH];
	while (!atomic_load(&q->stopping)) {
		const char *why = NULL;
		ring_beat(&q->ring);
		size_t n = ring_take(&q->ring, batch, BATCH, &why);
		if (n > 0)
			accept_batch(q, batch, n);
		if (why) {
			atomic_store(&q->broken, why);
			return;
		}
		if (n == 0 && ring_sleep(&q->ring)) {
			if (!wait_bell(q->bell)) {
				atomic_store(&q->broken, "the host sent a bell that cannot be waited for");
				return;
			}
			ring_awake(&q->ring);
		}
	}
}

static void *loop(void *arg)
{
	struct queue *q = arg;
	serve(q);
	pthread_mutex_lock(&q->lock);
	while (q->busy > 0)
		pthread_cond_wait(&q->idle, &q->lock);
	q->ended = true;
	dismiss(q);
	pthread_cond_broadcast(&q->idle);
	pthread_mutex_unlock(&q->lock);
	return NULL;
}

static uint32_t map(struct queue *q, const int fds[QUEUE_FDS], uint32_t entries, uint32_t generation, struct error *e)
{
	if (memory_map(&q->host, fds[0], ring_host_size(entries), false, e) ||
	    memory_map(&q->own, fds[1], ring_plugin_size(entries), true, e))
		return e->code;
	const char *why = ring_init(&q->ring, q->host.base, q->own.base, entries, generation, q->arena->size);
	if (why)
		return fail(e, CODE_INVALID, "%s", why);
	q->job = calloc(entries, sizeof *q->job);
	return q->job ? CODE_OK : fail(e, CODE_BUSY, "out of memory");
}

static bool start_threads(struct queue *q)
{
	while (q->workers < WORKERS && pthread_create(&q->worker[q->workers], NULL, work, q) == 0)
		q->workers++;
	return q->workers > 0 && pthread_create(&q->loop, NULL, loop, q) == 0;
}

static void join_workers(struct queue *q)
{
	for (int i = 0; i < q->workers; i++)
		pthread_join(q->worker[i], NULL);
}

static void release(struct queue *q)
{
	memory_unmap(&q->host);
	memory_unmap(&q->own);
	close(q->bell);
	close(q->host_bell);
	pthread_cond_destroy(&q->idle);
	sem_destroy(&q->work);
	free(q->job);
	free(q);
}

struct queue *queue_start(const struct store *store, const struct memory *arena, const int fds[QUEUE_FDS],
			  uint32_t entries, uint32_t generation, struct error *e)
{
	struct queue *q = calloc(1, sizeof *q);
	if (!q) {
		close_all(fds, QUEUE_FDS);
		fail(e, CODE_BUSY, "out of memory");
		return NULL;
	}
	q->store = store;
	q->arena = arena;
	q->bell = fds[2];
	q->host_bell = fds[3];
	pthread_condattr_t monotonic;
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_mutex_init(&q->lock, NULL);
	sem_init(&q->work, 0, 0);
	pthread_cond_init(&q->idle, &monotonic);
	uint32_t code = map(q, fds, entries, generation, e);
	close_all(fds, 2); /* a mapping needs no descriptor */
	if (!code && start_threads(q))
		return q;
	if (!code) {
		fail(e, CODE_BUSY, "no threads for the queue");
		dismiss(q);
		join_workers(q);
	}
	release(q);
	return NULL;
}

bool queue_stop(struct queue *q, const struct timespec *deadline)
{
	atomic_store(&q->stopping, true);
	ring_bell(q->bell);
	pthread_mutex_lock(&q->lock);
	int late = 0;
	while (!q->ended && !late)
		late = pthread_cond_timedwait(&q->idle, &q->lock, deadline);
	bool ended = q->ended;
	pthread_mutex_unlock(&q->lock);
	return ended;
}

void queue_free(struct queue *q)
{
	pthread_join(q->loop, NULL);
	join_workers(q);
	release(q);
}

uint32_t queue_outstanding(struct queue *q)
{
	return atomic_load(&q->ring.outstanding);
}

const char *queue_broken(struct queue *q)
{
	return atomic_load(&q->broken);
}
