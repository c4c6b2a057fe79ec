/* SPDX-License-Identifier: Apache-2.0 */
#include "channel.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "store.h"

enum { MAX_UNCLAIMED = 64, MESSAGE_SIZE = 16 };

struct message {
	uint64_t token; /* 0: none is here */
	int n;
	int fds[CHANNEL_MAX_FDS];
};

static struct {
	int fd;
	void (*gone)(void);
	pthread_mutex_t lock;
	pthread_cond_t more;
	bool ended;
	struct message unclaimed[MAX_UNCLAIMED];
} channel = {.lock = PTHREAD_MUTEX_INITIALIZER};

void close_all(const int fds[], int n)
{
	for (int i = 0; i < n; i++)
		close(fds[i]);
}

/* Takes the descriptors out of a control message. There are never more than there was room for. */
static void take_rights(struct msghdr *h, struct message *m)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(h); c; c = CMSG_NXTHDR(h, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < n && m->n < CHANNEL_MAX_FDS; i++)
			memcpy(&m->fds[m->n++], CMSG_DATA(c) + i * sizeof(int), sizeof(int));
	}
}

/* Receives one message. Returns false at the end, or when the host sends what the protocol does not have. */
static bool receive(struct message *m)
{
	uint8_t b[MESSAGE_SIZE];
	union {
		struct cmsghdr align;
		char b[CMSG_SPACE(CHANNEL_MAX_FDS * sizeof(int))];
	} control;
	struct iovec v = {.iov_base = b, .iov_len = sizeof b};
	struct msghdr h = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = control.b, .msg_controllen = sizeof control.b};
	ssize_t n;
	do
		n = recvmsg(channel.fd, &h, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	*m = (struct message){0};
	if (n <= 0)
		return false;
	take_rights(&h, m);
	uint32_t count;
	memcpy(&m->token, b, 8);
	memcpy(&count, b + 8, 4);
	if (n == MESSAGE_SIZE && !(h.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) && count == (uint32_t)m->n && m->token != 0)
		return true;
	fprintf(stderr, "backstore-c: a malformed message on the descriptor channel\n");
	close_all(m->fds, m->n);
	return false;
}

static bool keep(const struct message *m)
{
	pthread_mutex_lock(&channel.lock);
	struct message *place = NULL;
	for (int i = 0; i < MAX_UNCLAIMED && !place; i++) {
		if (channel.unclaimed[i].token == 0)
			place = &channel.unclaimed[i];
	}
	if (place)
		*place = *m;
	pthread_cond_broadcast(&channel.more);
	pthread_mutex_unlock(&channel.lock);
	if (!place) {
		fprintf(stderr, "backstore-c: more than %d messages that no call has named\n", MAX_UNCLAIMED);
		close_all(m->fds, m->n);
	}
	return place;
}

static void *run(void *arg)
{
	struct message m;
	while (receive(&m) && keep(&m))
		;
	pthread_mutex_lock(&channel.lock);
	channel.ended = true;
	pthread_cond_broadcast(&channel.more);
	pthread_mutex_unlock(&channel.lock);
	channel.gone();
	return arg;
}

int channel_start(int fd, void (*gone)(void))
{
	pthread_condattr_t monotonic;
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&channel.more, &monotonic);
	channel.fd = fd;
	channel.gone = gone;
	pthread_t t;
	if (pthread_create(&t, NULL, run, NULL) != 0)
		return -1;
	pthread_detach(t);
	return 0;
}

static struct message *find(uint64_t token)
{
	for (int i = 0; i < MAX_UNCLAIMED; i++) {
		if (channel.unclaimed[i].token == token)
			return &channel.unclaimed[i];
	}
	return NULL;
}

unsigned channel_take(uint64_t token, int fds[], int n, const struct timespec *deadline, struct error *e)
{
	if (token == 0)
		return fail(e, CODE_INVALID, "no message has the token 0");
	pthread_mutex_lock(&channel.lock);
	struct message *m;
	int late = 0;
	while (!(m = find(token)) && !channel.ended && !late)
		late = pthread_cond_timedwait(&channel.more, &channel.lock, deadline);
	struct message got = m ? *m : (struct message){0};
	if (m)
		m->token = 0;
	pthread_mutex_unlock(&channel.lock);
	if (!m)
		return fail(e, CODE_ABORTED, "message %llu did not come over the descriptor channel", (unsigned long long)token);
	if (got.n != n) {
		close_all(got.fds, got.n);
		return fail(e, CODE_INVALID, "message %llu carries %d descriptors, not %d", (unsigned long long)token, got.n, n);
	}
	memcpy(fds, got.fds, n * sizeof *fds);
	return CODE_OK;
}
