/* SPDX-License-Identifier: Apache-2.0 */
#include "control.h"

#include <stdio.h>
#include <string.h>

#include "backstore/v1/backstore.pb-c.h"
#include "channel.h"
#include "lifecycle.pb-c.h"
#include "plugin.h"
#include "plugin/v1/plugin.pb-c.h"
#include "ring.h"

/* The generated names are long. */
#define PB(name) Gosrpt__Backstore__V1__##name

void (*control_end)(void);

static bool has_ring;

void control_init(bool ring)
{
	has_ring = ring;
	plugin_init();
}

void control_shutdown(int seconds)
{
	plugin_shutdown(seconds);
}

/* The answer's error, or NULL. out is what it is made of. */
static PB(Error) *error_of(PB(Error) *out, struct error *e)
{
	if (e->code == CODE_OK)
		return NULL;
	*out = (PB(Error))GOSRPT__BACKSTORE__V1__ERROR__INIT;
	out->code = e->code;
	out->text = e->text;
	return out;
}

#define SETTING(k, what, otherwise, text, ...) \
	(Gosrpt__Plugin__V1__Setting) { PROTOBUF_C_MESSAGE_INIT(&gosrpt__plugin__v1__setting__descriptor), \
		.key = (k), .kind = (what), .default_ = (otherwise), .help = (text), __VA_ARGS__ }

enum { KIND_SIZE = 2, KIND_BOOL = 3, KIND_PATH = 5, KIND_CHOICE = 6 };

static void describe(struct grpc_call *call, const ProtobufCMessage *request)
{
	(void)request;
	char *sizes[] = {"512", "4096"};
	Gosrpt__Plugin__V1__Setting settings[] = {
		SETTING("path", KIND_PATH, "", "the regular file that holds the blocks", .required = 1),
		SETTING("size", KIND_SIZE, "", "creates a file of this many bytes if path does not exist; must agree if it does",
			.min = 512, .max = INT64_MAX),
		SETTING("block_size", KIND_CHOICE, "512", "of a logical block, bytes", .n_choices = 2, .choices = sizes),
		SETTING("read_only", KIND_BOOL, "false", "refuses writes", .required = 0),
	};
	enum { N = sizeof settings / sizeof *settings };
	Gosrpt__Plugin__V1__Setting *list[N];
	for (int i = 0; i < N; i++)
		list[i] = &settings[i];
	Gosrpt__Plugin__V1__Description about = GOSRPT__PLUGIN__V1__DESCRIPTION__INIT;
	about.name = "example-c";
	about.version = "1.0.0";
	about.summary = "a file, served by a plugin in C";
	about.n_settings = N;
	about.settings = list;
	PB(DescribeResponse) out = GOSRPT__BACKSTORE__V1__DESCRIBE_RESPONSE__INIT;
	out.ring = has_ring;
	out.runtime = "C, without an SDK";
	out.description = &about;
	grpc_answer(call, &out.base);
}

static void attach_arena(struct grpc_call *call, const ProtobufCMessage *request)
{
	const PB(AttachArenaRequest) *r = (const void *)request;
	struct error e = {0};
	plugin_attach_arena(r->token, r->size, &call->deadline, &e);
	PB(Error) error;
	PB(AttachArenaResponse) out = GOSRPT__BACKSTORE__V1__ATTACH_ARENA_RESPONSE__INIT;
	out.error = error_of(&error, &e);
	grpc_answer(call, &out.base);
}

static void fill_info(PB(Info) *info, const struct store *s)
{
	*info = (PB(Info))GOSRPT__BACKSTORE__V1__INFO__INIT;
	info->block_size = s->block_size;
	info->blocks = s->size / s->block_size;
	info->read_only = s->read_only;
	info->write_cache = 1;
	info->fua = 1;
}

static void open_store(struct grpc_call *call, const ProtobufCMessage *request)
{
	const PB(OpenRequest) *r = (const void *)request;
	struct error e = {0};
	struct store s = {0};
	struct setting settings[16];
	size_t n = r->n_config;
	uint64_t id = 0;
	if (n > sizeof settings / sizeof *settings) {
		fail(&e, CODE_INVALID, "%zu settings; there are not so many", n);
	} else {
		for (size_t i = 0; i < n; i++)
			settings[i] = (struct setting){r->config[i]->key, r->config[i]->value};
		id = plugin_open(&s, settings, n, &call->deadline, grpc_cancelled, call, &e);
	}
	if (id) {
		/* A caller that has given up cannot close what it was never told of. */
		call->undo = plugin_abandon;
		call->undo_id = id;
	}
	PB(Error) error;
	PB(Info) info;
	PB(OpenResponse) out = GOSRPT__BACKSTORE__V1__OPEN_RESPONSE__INIT;
	out.error = error_of(&error, &e);
	out.store = id;
	if (id) {
		fill_info(&info, &s);
		out.info = &info;
	}
	grpc_answer(call, &out.base);
}

static void attach_queue(struct grpc_call *call, const ProtobufCMessage *request)
{
	const PB(AttachQueueRequest) *r = (const void *)request;
	struct error e = {0};
	PB(Error) error;
	PB(AttachQueueResponse) out = GOSRPT__BACKSTORE__V1__ATTACH_QUEUE_RESPONSE__INIT;
	out.queue = plugin_attach_queue(r->store, r->token, r->entries, r->generation, &call->deadline, &e);
	out.error = error_of(&error, &e);
	grpc_answer(call, &out.base);
}

static void detach_queue(struct grpc_call *call, const ProtobufCMessage *request)
{
	const PB(DetachQueueRequest) *r = (const void *)request;
	struct error e = {0};
	plugin_detach_queue(r->queue, &call->deadline, &e);
	PB(Error) error;
	PB(DetachQueueResponse) out = GOSRPT__BACKSTORE__V1__DETACH_QUEUE_RESPONSE__INIT;
	out.error = error_of(&error, &e);
	grpc_answer(call, &out.base);
}

static void close_store(struct grpc_call *call, const ProtobufCMessage *request)
{
	const PB(CloseStoreRequest) *r = (const void *)request;
	struct error e = {0};
	plugin_close_store(r->store, &call->deadline, &e);
	PB(Error) error;
	PB(CloseStoreResponse) out = GOSRPT__BACKSTORE__V1__CLOSE_STORE_RESPONSE__INIT;
	out.error = error_of(&error, &e);
	grpc_answer(call, &out.base);
}

static void health(struct grpc_call *call, const ProtobufCMessage *request)
{
	(void)request;
	_Static_assert(MAX_QUEUES <= 1024, "the answer lies on the stack");
	struct queue_health all[MAX_QUEUES];
	PB(QueueHealth) queues[MAX_QUEUES], *list[MAX_QUEUES];
	PB(HealthResponse) out = GOSRPT__BACKSTORE__V1__HEALTH_RESPONSE__INIT;
	out.n_queues = plugin_health(all);
	out.queues = list;
	for (size_t i = 0; i < out.n_queues; i++) {
		queues[i] = (PB(QueueHealth))GOSRPT__BACKSTORE__V1__QUEUE_HEALTH__INIT;
		queues[i].queue = all[i].id;
		queues[i].outstanding = all[i].outstanding;
		if (all[i].broken)
			queues[i].broken = (char *)all[i].broken;
		list[i] = &queues[i];
	}
	grpc_answer(call, &out.base);
}

static void check_health(struct grpc_call *call, const ProtobufCMessage *request)
{
	const Lifecycle__HealthCheckRequest *r = (const void *)request;
	if (*r->service && strcmp(r->service, "plugin") != 0) {
		call->status = GRPC_NOT_FOUND;
		return;
	}
	Lifecycle__HealthCheckResponse out = LIFECYCLE__HEALTH_CHECK_RESPONSE__INIT;
	out.status = 1;
	grpc_answer(call, &out.base);
}

static void shut_down(struct grpc_call *call, const ProtobufCMessage *request)
{
	(void)request;
	Lifecycle__Empty out = LIFECYCLE__EMPTY__INIT;
	grpc_answer(call, &out.base);
	control_end();
}

#define BACKSTORE(name, type, serve) \
	{"/gosrpt.backstore.v1.Backstore/" name, &gosrpt__backstore__v1__##type##_request__descriptor, serve}

const struct grpc_method control_methods[] = {
	BACKSTORE("Describe", describe, describe),
	BACKSTORE("AttachArena", attach_arena, attach_arena),
	BACKSTORE("Open", open, open_store),
	BACKSTORE("AttachQueue", attach_queue, attach_queue),
	BACKSTORE("DetachQueue", detach_queue, detach_queue),
	BACKSTORE("CloseStore", close_store, close_store),
	BACKSTORE("Health", health, health),
	{"/grpc.health.v1.Health/Check", &lifecycle__health_check_request__descriptor, check_health},
	{"/plugin.GRPCController/Shutdown", &lifecycle__empty__descriptor, shut_down},
	{0},
};
