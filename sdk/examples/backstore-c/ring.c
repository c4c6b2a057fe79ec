/* SPDX-License-Identifier: Apache-2.0 */
#include "ring.h"

#include <endian.h>
#include <string.h>

/* Offsets in the heads of the regions. */
enum {
	AT_MAGIC = 0x000,
	AT_VERSION = 0x008,
	AT_ENTRIES = 0x00c,
	AT_GENERATION = 0x010,
	AT_SQE_SIZE = 0x014,
	AT_CQE_SIZE = 0x018,
	AT_TAIL = 0x080,
	AT_TAKEN = 0x100,
	AT_WAKE = 0x180,
	AT_BEAT = 0x200,
};

enum { LAYOUT_VERSION = 1 };

/* The words in shared memory are plain little-endian numbers that the processor reads and writes in one step. */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the atomics of this file are little-endian");
_Static_assert(ATOMIC_INT_LOCK_FREE == 2 && ATOMIC_LLONG_LOCK_FREE == 2, "a lock would not be shared with the host");

static uint32_t u32(const uint8_t *p)
{
	uint32_t v;
	memcpy(&v, p, sizeof v);
	return v;
}

static uint64_t u64(const uint8_t *p)
{
	uint64_t v;
	memcpy(&v, p, sizeof v);
	return v;
}

size_t ring_host_size(uint32_t entries)
{
	return RING_HEAD + (size_t)entries * SQE_SIZE;
}

size_t ring_plugin_size(uint32_t entries)
{
	return (RING_HEAD + (size_t)entries * CQE_SIZE + 4095) & ~(size_t)4095;
}

static const char *check_head(const uint8_t *b, const char *magic, uint32_t entries, uint32_t generation)
{
	if (memcmp(b + AT_MAGIC, magic, 8) != 0)
		return "a region has no magic number";
	if (u32(b + AT_VERSION) != LAYOUT_VERSION)
		return "the ring has another layout version than 1";
	if (u32(b + AT_ENTRIES) != entries)
		return "the ring has another number of entries than announced";
	if (u32(b + AT_GENERATION) != generation)
		return "the ring has another generation than announced";
	if (u32(b + AT_SQE_SIZE) != SQE_SIZE || u32(b + AT_CQE_SIZE) != CQE_SIZE)
		return "the ring has other entry sizes";
	return NULL;
}

const char *ring_init(struct ring *r, const uint8_t *host, uint8_t *plugin, uint32_t entries, uint32_t generation,
		      uint64_t arena)
{
	const char *why = check_head(host, "SRPTRNGH", entries, generation);
	if (!why)
		why = check_head(plugin, "SRPTRNGP", entries, generation);
	if (why)
		return why;
	*r = (struct ring){
		.sqes = host + RING_HEAD,
		.cqes = plugin + RING_HEAD,
		.tail = (_Atomic uint32_t *)(plugin + AT_TAIL),
		.taken = (_Atomic uint32_t *)(plugin + AT_TAKEN),
		.wake = (_Atomic uint32_t *)(plugin + AT_WAKE),
		.beat = (_Atomic uint64_t *)(plugin + AT_BEAT),
		.peer_tail = (const _Atomic uint32_t *)(host + AT_TAIL),
		.peer_wake = (const _Atomic uint32_t *)(host + AT_WAKE),
		.entries = entries,
		.generation = generation,
		.arena = arena,
	};
	return NULL;
}

static const char *get(const struct ring *r, struct entry *e)
{
	uint8_t b[SQE_SIZE];
	/* The host may change its region at any time: what is checked is a copy. */
	memcpy(b, r->sqes + (size_t)(r->popped & (r->entries - 1)) * SQE_SIZE, sizeof b);
	*e = (struct entry){
		.tag = u64(b + 0), .op = b[12], .flags = b[13],
		.offset = u64(b + 16), .arena = u64(b + 24), .length = u32(b + 32),
	};
	if (u32(b + 8) != r->generation)
		return "the host submitted an entry of another generation";
	switch (e->op) {
	case OP_FLUSH:
		e->offset = e->arena = e->length = 0;
		return NULL;
	case OP_READ:
	case OP_WRITE:
		if (e->arena > r->arena || e->length > r->arena - e->arena)
			return "the host submitted an entry whose data lie outside the arena";
		return NULL;
	}
	return "the host submitted an entry with an operation that was not offered";
}

size_t ring_take(struct ring *r, struct entry *out, size_t max, const char **why)
{
	uint32_t tail = atomic_load(r->peer_tail);
	uint32_t ready = tail - r->popped;
	/* After tail: whoever completes lowers this before the host can submit in its stead. */
	if (ready > r->entries - atomic_load(&r->outstanding)) {
		*why = "the host submitted more requests than the ring has room for";
		return 0;
	}
	size_t n = 0;
	while (n < max && n < ready) {
		*why = get(r, &out[n]);
		if (*why)
			break;
		r->popped++;
		n++;
	}
	if (n > 0) {
		atomic_fetch_add(&r->outstanding, n);
		atomic_store(r->taken, r->popped);
	}
	return n;
}

void ring_complete(struct ring *r, uint64_t tag, uint16_t code, uint32_t bytes)
{
	uint8_t *b = r->cqes + (size_t)(r->done & (r->entries - 1)) * CQE_SIZE;
	memset(b, 0, CQE_SIZE);
	memcpy(b + 0, &tag, 8);
	memcpy(b + 8, &r->generation, 4);
	memcpy(b + 12, &code, 2);
	memcpy(b + 16, &bytes, 4);
	r->done++;
	/* Before the host can see the completion: a new request may come in its stead at once. */
	atomic_fetch_sub(&r->outstanding, 1);
}

/* Every atomic below is sequentially consistent, C11's default. A weaker order loses wake-ups. */

bool ring_publish(struct ring *r)
{
	atomic_store(r->tail, r->done);
	uint32_t w = atomic_load(r->peer_wake);
	if (!(w & 1) || w == r->rung)
		return false;
	r->rung = w;
	return true;
}

bool ring_sleep(struct ring *r)
{
	atomic_store(r->wake, ++r->wake_word);
	if (atomic_load(r->peer_tail) == r->popped)
		return true;
	ring_awake(r);
	return false;
}

void ring_awake(struct ring *r)
{
	atomic_store(r->wake, ++r->wake_word);
}

void ring_beat(struct ring *r)
{
	atomic_store(r->beat, ++r->beats);
}
