/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin.h"

#include <pthread.h>
#include <string.h>

#include "channel.h"
#include "memory.h"
#include "queue.h"
#include "ring.h"

struct open_store {
	uint64_t id; /* 0: none is here */
	bool closing;
	struct store store;
};

struct open_queue {
	uint64_t id; /* 0: none is here */
	uint64_t store;
	bool detaching; /* a thread is at it, without the lock */
	struct queue *queue;
};

static struct {
	pthread_mutex_t lock;
	pthread_cond_t changed; /* a queue has gone, or was not let go of in time */
	bool ended;
	uint64_t last; /* id */
	struct memory arena;
	struct open_store stores[MAX_STORES];
	struct open_queue queues[MAX_QUEUES];
} plugin = {.lock = PTHREAD_MUTEX_INITIALIZER};

void plugin_init(void)
{
	pthread_condattr_t monotonic;
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&plugin.changed, &monotonic);
}

static void lock(void)
{
	pthread_mutex_lock(&plugin.lock);
}

static void unlock(void)
{
	pthread_mutex_unlock(&plugin.lock);
}

/* Finds a store, or with id 0 a free place. */
static struct open_store *find_store(uint64_t id)
{
	for (int i = 0; i < MAX_STORES; i++) {
		if (plugin.stores[i].id == id)
			return &plugin.stores[i];
	}
	return NULL;
}

static struct open_queue *find_queue(uint64_t id)
{
	for (int i = 0; i < MAX_QUEUES; i++) {
		if (plugin.queues[i].id == id)
			return &plugin.queues[i];
	}
	return NULL;
}

void plugin_attach_arena(uint64_t token, uint64_t size, const struct timespec *deadline, struct error *e)
{
	int fd;
	struct memory m = {0};
	if (channel_take(token, &fd, 1, deadline, e))
		return;
	if (size > SIZE_MAX / 2)
		fail(e, CODE_INVALID, "an arena of %llu bytes cannot be mapped", (unsigned long long)size);
	else
		memory_map(&m, fd, size, true, e);
	close_all(&fd, 1);
	if (e->code)
		return;
	lock();
	if (plugin.arena.base || plugin.ended)
		fail(e, CODE_INVALID, "the process has an arena, or is shutting down");
	else
		plugin.arena = m;
	unlock();
	if (e->code)
		memory_unmap(&m);
}

uint64_t plugin_open(struct store *s, const struct setting *settings, size_t n, const struct timespec *deadline,
		     bool (*cancelled)(void *), void *arg, struct error *e)
{
	if (store_open(s, settings, n, deadline, cancelled, arg, e))
		return 0;
	lock();
	struct open_store *place = find_store(0);
	uint64_t id = 0;
	if (place && !plugin.ended) {
		id = ++plugin.last;
		*place = (struct open_store){.id = id, .store = *s};
	}
	unlock();
	if (!id) {
		store_close(s);
		fail(e, CODE_BUSY, "%d stores are open, or the process is shutting down", MAX_STORES);
	}
	return id;
}

/* Serves the ring in fds, which it takes over. The caller has the lock. */
static uint64_t attach(uint64_t store, const int fds[], uint32_t entries, uint32_t generation, struct error *e)
{
	struct open_store *s = store ? find_store(store) : NULL;
	struct open_queue *place = find_queue(0);
	if (!s || s->closing || plugin.ended)
		fail(e, CODE_INVALID, "no store %llu is open", (unsigned long long)store);
	else if (!plugin.arena.base)
		fail(e, CODE_INVALID, "a queue before an arena");
	else if (entries == 0 || entries > RING_MAX_ENTRIES || (entries & (entries - 1)))
		fail(e, CODE_INVALID, "%u entries; a power of two from 1 to %d is needed", entries, RING_MAX_ENTRIES);
	else if (!place)
		fail(e, CODE_BUSY, "%d queues are attached", MAX_QUEUES);
	if (e->code) {
		close_all(fds, QUEUE_FDS);
		return 0;
	}
	struct queue *q = queue_start(&s->store, &plugin.arena, fds, entries, generation, e);
	if (!q)
		return 0;
	*place = (struct open_queue){.id = ++plugin.last, .store = store, .queue = q};
	return place->id;
}

uint64_t plugin_attach_queue(uint64_t store, uint64_t token, uint32_t entries, uint32_t generation,
			     const struct timespec *deadline, struct error *e)
{
	int fds[QUEUE_FDS];
	if (channel_take(token, fds, QUEUE_FDS, deadline, e))
		return 0;
	lock();
	uint64_t id = attach(store, fds, entries, generation, e);
	unlock();
	return id;
}

/* Ends a queue. The caller has the lock, which is not held meanwhile, and nobody else is at the queue. */
static void detach(struct open_queue *q, const struct timespec *deadline, struct error *e)
{
	q->detaching = true;
	unlock();
	bool ended = queue_stop(q->queue, deadline);
	if (ended)
		queue_free(q->queue);
	else
		fail(e, CODE_BUSY, "requests are still under way");
	lock();
	q->detaching = false;
	if (ended)
		*q = (struct open_queue){0};
	pthread_cond_broadcast(&plugin.changed);
}

void plugin_detach_queue(uint64_t queue, const struct timespec *deadline, struct error *e)
{
	lock();
	struct open_queue *q = queue ? find_queue(queue) : NULL;
	if (!q)
		fail(e, CODE_INVALID, "no queue %llu is attached", (unsigned long long)queue);
	else if (q->detaching)
		fail(e, CODE_BUSY, "queue %llu is being detached", (unsigned long long)queue);
	else
		detach(q, deadline, e);
	unlock();
}

/* Ends every queue of a store. The caller has the lock. */
static void detach_all(uint64_t store, const struct timespec *deadline, struct error *e)
{
	for (int i = 0; i < MAX_QUEUES && !e->code; i++) {
		struct open_queue *q = &plugin.queues[i];
		while (q->store == store && q->detaching && !e->code) {
			if (pthread_cond_timedwait(&plugin.changed, &plugin.lock, deadline) != 0)
				fail(e, CODE_BUSY, "a queue of the store is being detached");
		}
		if (q->id && q->store == store && !e->code)
			detach(q, deadline, e);
	}
}

void plugin_close_store(uint64_t store, const struct timespec *deadline, struct error *e)
{
	lock();
	struct open_store *s = store ? find_store(store) : NULL;
	if (!s || s->closing) {
		fail(e, CODE_INVALID, "no store %llu is open", (unsigned long long)store);
		unlock();
		return;
	}
	s->closing = true;
	detach_all(store, deadline, e);
	s->closing = false;
	if (!e->code) {
		store_close(&s->store);
		*s = (struct open_store){0};
	}
	unlock();
}

void plugin_abandon(uint64_t store)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	struct error e = {0};
	plugin_close_store(store, &now, &e); /* it has no queues, so there is nothing to wait for */
}

size_t plugin_health(struct queue_health out[MAX_QUEUES])
{
	size_t n = 0;
	lock();
	for (int i = 0; i < MAX_QUEUES; i++) {
		struct open_queue *q = &plugin.queues[i];
		if (q->id && !q->detaching)
			out[n++] = (struct queue_health){q->id, queue_outstanding(q->queue), queue_broken(q->queue)};
	}
	unlock();
	return n;
}

void plugin_shutdown(int seconds)
{
	struct timespec deadline;
	clock_gettime(CLOCK_MONOTONIC, &deadline);
	deadline.tv_sec += seconds;
	lock();
	plugin.ended = true;
	unlock();
	for (int i = 0; i < MAX_STORES; i++) {
		struct error e = {0};
		lock();
		uint64_t id = plugin.stores[i].id;
		unlock();
		/* A store that does not close in time is closed by the end of the process. */
		if (id)
			plugin_close_store(id, &deadline, &e);
	}
}
