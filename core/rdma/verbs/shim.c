//go:build verbs

#include "shim.h"

#include <errno.h>
#include <fcntl.h>
#include <infiniband/ib.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int gv_nonblock(int fd)
{
	int flags = fcntl(fd, F_GETFL);
	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
		return errno;
	return 0;
}

// Completion queues.

int gv_cq_create(struct ibv_context *ctx, int depth, int vector, uint64_t handle, struct gv_cq **out)
{
	struct gv_cq *c = calloc(1, sizeof(*c));
	int err;

	if (!c)
		return ENOMEM;
	c->bell = -1;
	c->channel = ibv_create_comp_channel(ctx);
	if (!c->channel)
		goto fail;
	err = gv_nonblock(c->channel->fd);
	if (err) {
		errno = err;
		goto fail;
	}
	c->cq = ibv_create_cq(ctx, depth, (void *)(uintptr_t)handle, c->channel, vector);
	if (!c->cq)
		goto fail;
	*out = c;
	return 0;
fail:
	err = errno ? errno : ENOMEM;
	if (c->channel)
		ibv_destroy_comp_channel(c->channel);
	free(c);
	return err;
}

static void take_events(struct gv_cq *c)
{
	struct ibv_cq *cq;
	void *context;

	while (c->armed && !ibv_get_cq_event(c->channel, &cq, &context)) {
		c->armed = 0;
		c->unacked++;
	}
	if (c->unacked >= 1024) {
		ibv_ack_cq_events(c->cq, c->unacked);
		c->unacked = 0;
	}
}

int gv_cq_destroy(struct gv_cq *c)
{
	int err;

	take_events(c);
	if (c->unacked)
		ibv_ack_cq_events(c->cq, c->unacked);
	c->unacked = 0;
	err = ibv_destroy_cq(c->cq);
	if (err)
		return err;
	err = ibv_destroy_comp_channel(c->channel);
	free(c->dirty);
	free(c);
	return err;
}

static uint32_t min32(uint32_t a, uint32_t b) { return a < b ? a : b; }

// batch is how many work requests can be handed over now.
static uint32_t batch(const struct gv_queue *s, uint32_t most)
{
	return min32(most, min32(s->tail - s->handed, s->hw - (s->handed - s->done)));
}

#define CHAIN 32

// posted is the errno of a call that posts: rxe's have a sign, others' none.
static int posted(int err) { return err < 0 ? -err : err; }

// set_receive makes the receive in a place one of a list of n.
static void set_receive(struct ibv_recv_wr *wr, uint32_t i, uint32_t n, const struct gv_queue *s, uint32_t at, uint64_t id)
{
	wr[i].wr_id = id | at;
	wr[i].next = i + 1 < n ? &wr[i + 1] : NULL;
	wr[i].sg_list = s->sges + (size_t)at * s->max_sge;
	wr[i].num_sge = s->wrs[at].nsge;
}

static int hand_receives(struct gv_qp *q)
{
	struct ibv_recv_wr wr[CHAIN], *bad;
	struct gv_queue *s = &q->rq;
	uint32_t i, n;
	int err;

	while ((n = batch(s, CHAIN)) > 0) {
		for (i = 0; i < n; i++)
			set_receive(wr, i, n, s, (s->handed + i) & s->mask, q->tag << 32 | GV_RECV);
		bad = NULL;
		err = posted(ibv_post_recv(q->qp, wr, &bad));
		if (err) {
			s->handed += bad ? bad - wr : 0;
			return err;
		}
		s->handed += n;
	}
	return 0;
}

static int hand_sends(struct gv_qp *q)
{
	struct ibv_send_wr wr[CHAIN], *bad;
	struct gv_queue *s = &q->sq;
	uint32_t i, n;
	int err;

	while ((n = batch(s, CHAIN)) > 0) {
		for (i = 0; i < n; i++) {
			uint32_t at = (s->handed + i) & s->mask;
			const struct gv_wr *w = &s->wrs[at];
			wr[i].wr_id = q->tag << 32 | at;
			wr[i].next = i + 1 < n ? &wr[i + 1] : NULL;
			wr[i].sg_list = s->sges + (size_t)at * s->max_sge;
			wr[i].num_sge = w->nsge;
			wr[i].opcode = w->opcode;
			wr[i].send_flags = w->flags;
			wr[i].wr.rdma.remote_addr = w->remote;
			wr[i].wr.rdma.rkey = w->rkey;
		}
		bad = NULL;
		err = posted(ibv_post_send(q->qp, wr, &bad));
		if (err) {
			s->handed += bad ? bad - wr : 0;
			return err;
		}
		s->handed += n;
	}
	return 0;
}

int gv_srq_turn(struct gv_srq *q)
{
	struct ibv_recv_wr wr[CHAIN], *bad;
	struct gv_queue *s = &q->q;
	uint32_t i, n;
	int err;

	while ((n = min32(s->tail - s->handed, CHAIN)) > 0) {
		for (i = 0; i < n; i++)
			set_receive(wr, i, n, s, q->order[(s->handed + i) & s->mask], q->tag << 32 | GV_RECV | GV_SHARED);
		bad = NULL;
		err = posted(ibv_post_srq_recv(q->srq, wr, &bad));
		if (err) {
			s->handed += bad ? bad - wr : 0;
			return err;
		}
		s->handed += n;
	}
	return 0;
}

int gv_cq_turn(struct gv_cq *c, int n, int room)
{
	int i;

	for (i = 0; i < n; i++) {
		struct gv_qp *q = c->dirty[i];
		if (!q->err)
			q->err = hand_receives(q);
		if (!q->err && !q->hold)
			q->err = hand_sends(q);
	}
	if (room <= 0)
		return 0;
	return ibv_poll_cq(c->cq, room < GV_BATCH ? room : GV_BATCH, c->wc);
}

int gv_cq_arm(struct gv_cq *c, int rung)
{
	uint64_t rings;

	take_events(c);
	if (rung && read(c->bell, &rings, sizeof(rings)) < 0 && errno != EAGAIN)
		return -1;
	if (!c->armed) {
		if (ibv_req_notify_cq(c->cq, 0))
			return -1;
		c->armed = 1;
	}
	return ibv_poll_cq(c->cq, GV_BATCH, c->wc);
}

// Queue pairs.

static int make_queue(struct gv_queue *s, uint32_t depth, uint32_t sge)
{
	uint32_t places = 1;

	while (places < depth)
		places *= 2;
	s->wrs = calloc(places, sizeof(*s->wrs));
	s->sges = calloc((size_t)places * sge, sizeof(*s->sges));
	s->mask = places - 1;
	s->max_sge = sge;
	s->depth = depth;
	return s->wrs && s->sges ? 0 : ENOMEM;
}

static void free_queue(struct gv_queue *s)
{
	free(s->wrs);
	free(s->sges);
}

int gv_srq_create(struct ibv_pd *pd, uint64_t handle, uint32_t depth, uint32_t sge, struct gv_srq **out)
{
	struct ibv_srq_init_attr a = { .srq_context = (void *)(uintptr_t)handle, .attr = { .max_wr = depth, .max_sge = sge } };
	struct gv_srq *s = calloc(1, sizeof(*s));
	int err;

	if (!s)
		return ENOMEM;
	err = make_queue(&s->q, depth, sge);
	if (err)
		goto fail;
	s->order = calloc(s->q.mask + (size_t)1, sizeof(*s->order));
	err = ENOMEM;
	if (!s->order)
		goto fail;
	errno = 0;
	s->srq = ibv_create_srq(pd, &a);
	err = errno ? errno : ENOMEM;
	if (!s->srq)
		goto fail;
	s->q.hw = a.attr.max_wr;
	err = EINVAL;
	if (a.attr.max_wr < depth || a.attr.max_sge < sge)
		goto fail;
	*out = s;
	return 0;
fail:
	gv_srq_destroy(s);
	gv_srq_free(s);
	return err;
}

int gv_srq_destroy(struct gv_srq *s)
{
	int err = s->srq ? ibv_destroy_srq(s->srq) : 0;

	if (!err)
		s->srq = NULL;
	return err;
}

void gv_srq_free(struct gv_srq *s)
{
	free_queue(&s->q);
	free(s->order);
	free(s);
}

int gv_qp_create(struct ibv_pd *pd, struct gv_cq *c, struct gv_srq *srq, uint64_t handle, struct gv_room *room, struct gv_qp **out)
{
	struct ibv_qp_init_attr a = {
		.qp_context = (void *)(uintptr_t)handle,
		.send_cq = c->cq,
		.recv_cq = c->cq,
		.srq = srq ? srq->srq : NULL,
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = room->sends, .max_recv_wr = srq ? 0 : room->recvs, .max_send_sge = room->elements,
			 .max_recv_sge = srq ? 0 : room->elements, .max_inline_data = room->inl },
	};
	struct gv_qp *q = calloc(1, sizeof(*q));
	int err;

	if (!q)
		return ENOMEM;
	errno = 0;
	q->qp = ibv_create_qp(pd, &a);
	if (!q->qp) {
		err = errno ? errno : ENOMEM;
		free(q);
		return err;
	}
	room->sends = a.cap.max_send_wr;
	room->recvs = a.cap.max_recv_wr;
	room->elements = srq ? a.cap.max_send_sge : min32(a.cap.max_send_sge, a.cap.max_recv_sge);
	room->inl = a.cap.max_inline_data;
	*out = q;
	return 0;
}

int gv_qp_prepare(struct gv_qp *q, uint32_t send, uint32_t recv, const struct gv_room *granted)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
	int err;

	err = make_queue(&q->sq, send, granted->elements);
	if (!err)
		err = make_queue(&q->rq, recv, granted->elements);
	q->sq.hw = granted->sends;
	q->rq.hw = granted->recvs;
	q->max_inline = granted->inl;
	// INIT, for receives to be posted. Port and partition are those of the connection later on.
	if (!err)
		err = ibv_modify_qp(q->qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	return err;
}

int gv_qp_destroy(struct gv_qp *q)
{
	int err = q->qp ? ibv_destroy_qp(q->qp) : 0;

	if (!err)
		q->qp = NULL;
	return err;
}

void gv_qp_free(struct gv_qp *q)
{
	free_queue(&q->sq);
	free_queue(&q->rq);
	free(q);
}

int gv_qp_error(struct gv_qp *q)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_ERR };

	return q->qp ? ibv_modify_qp(q->qp, &a, IBV_QP_STATE) : EIO;
}

// The connection manager. Functions of librdmacm return -1 and errno.

static int outcome(int ret)
{
	if (!ret)
		return 0;
	return errno ? errno : EIO;
}

int gv_cm_open(struct rdma_event_channel **out)
{
	errno = 0;
	*out = rdma_create_event_channel();
	if (!*out)
		return errno ? errno : ENODEV;
	return gv_nonblock((*out)->fd);
}

int gv_cm_next(struct rdma_event_channel *ch, struct gv_event *ev)
{
	struct rdma_cm_event *e;

	errno = 0;
	if (rdma_get_cm_event(ch, &e))
		return errno ? errno : EIO;
	ev->type = e->event;
	ev->status = e->status;
	ev->id = (uintptr_t)e->id->context;
	ev->request = NULL;
	ev->listener = 0;
	if (e->event == RDMA_CM_EVENT_CONNECT_REQUEST) {
		ev->listener = (uintptr_t)e->listen_id->context;
		ev->request = e->id;
	}
	ev->qpn = e->param.conn.qp_num;
	ev->responder_resources = e->param.conn.responder_resources;
	ev->initiator_depth = e->param.conn.initiator_depth;
	ev->len = e->param.conn.private_data ? e->param.conn.private_data_len : 0;
	memcpy(ev->data, e->param.conn.private_data ? e->param.conn.private_data : "", ev->len);
	return outcome(rdma_ack_cm_event(e));
}

int gv_cm_create(struct rdma_event_channel *ch, uint64_t handle, int ib, struct rdma_cm_id **out)
{
	return outcome(rdma_create_id(ch, out, (void *)(uintptr_t)handle, ib ? RDMA_PS_IB : RDMA_PS_TCP));
}

void gv_cm_adopt(struct rdma_cm_id *id, uint64_t handle) { id->context = (void *)(uintptr_t)handle; }

int gv_cm_bind(struct rdma_cm_id *id, struct sockaddr_storage *addr, int only_family)
{
	int ret = 0;

	if (only_family)
		ret = rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &only_family, sizeof(only_family));
	if (!ret)
		ret = rdma_bind_addr(id, (struct sockaddr *)addr);
	return outcome(ret);
}

// The flow label and the scope are 0, and the partition is that of each request.
void gv_service_addr(uint64_t service, const uint8_t *gid, struct sockaddr_storage *addr)
{
	struct sockaddr_ib a = { .sib_family = AF_IB, .sib_pkey = 0xffff };

	memcpy(a.sib_addr.sib_raw, gid, sizeof(a.sib_addr.sib_raw));
	a.sib_sid = htobe64(service);
	a.sib_sid_mask = htobe64(~0ull);
	memset(addr, 0, sizeof(*addr));
	memcpy(addr, &a, sizeof(a));
}

int gv_cm_listen(struct rdma_cm_id *id, int backlog) { return outcome(rdma_listen(id, backlog)); }

int gv_cm_resolve(struct rdma_cm_id *id, struct sockaddr_storage *from, struct sockaddr_storage *to, int ms)
{
	return outcome(rdma_resolve_addr(id, from->ss_family ? (struct sockaddr *)from : NULL, (struct sockaddr *)to, ms));
}

int gv_cm_route(struct rdma_cm_id *id, int ms) { return outcome(rdma_resolve_route(id, ms)); }

static void copy_addr(struct sockaddr_storage *to, struct sockaddr_storage *from) { memcpy(to, from, sizeof(*to)); }

void gv_cm_path(struct rdma_cm_id *id, struct gv_path *p)
{
	memset(p, 0, sizeof(*p));
	if (id->verbs)
		strncpy(p->device, ibv_get_device_name(id->verbs->device), sizeof(p->device) - 1);
	p->port = id->port_num;
	p->family = id->route.addr.src_addr.sa_family;
	// The path of the request says its partition; the address, which has that of the interface, only where there is no path.
	p->pkey = be16toh(id->route.num_paths > 0 ? id->route.path_rec[0].pkey : id->route.addr.addr.ibaddr.pkey);
	copy_addr(&p->local, &id->route.addr.src_storage);
	copy_addr(&p->remote, &id->route.addr.dst_storage);
	memcpy(p->sgid, id->route.addr.addr.ibaddr.sgid.raw, 16);
	memcpy(p->dgid, id->route.addr.addr.ibaddr.dgid.raw, 16);
}

// modify asks the connection manager for the attributes of a state.
static int modify(struct rdma_cm_id *id, struct ibv_qp_attr *a, int *mask, enum ibv_qp_state state)
{
	memset(a, 0, sizeof(*a));
	a->qp_state = state;
	*mask = 0;
	return outcome(rdma_init_qp_attr(id, a, mask));
}

int gv_cm_init(struct rdma_cm_id *id, struct gv_qp *q, struct gv_conn *c)
{
	struct ibv_qp_attr a;
	int mask, err;

	err = modify(id, &a, &mask, IBV_QPS_INIT);
	if (err)
		return err;
	c->port = a.port_num;
	c->pkey_index = a.pkey_index;
	return ibv_modify_qp(q->qp, &a, mask);
}

int gv_cm_partition(struct rdma_cm_id *id, struct gv_conn *c)
{
	struct ibv_qp_attr a;
	int mask, err;

	err = modify(id, &a, &mask, IBV_QPS_INIT);
	c->port = a.port_num;
	c->pkey_index = a.pkey_index;
	c->has_pkey = !err && mask & IBV_QP_PKEY_INDEX;
	return err;
}

int gv_cm_ready(struct rdma_cm_id *id, struct gv_qp *q, struct gv_reads reads, uint8_t rnr_timer, struct gv_conn *c)
{
	struct ibv_qp_attr a;
	int mask, err;

	err = modify(id, &a, &mask, IBV_QPS_RTR);
	if (err)
		return err;
	// Bits that kernels of old report for attributes of Ethernet, which are part of ah_attr now.
	mask &= ~0xe00000;
	if (mask & IBV_QP_MAX_DEST_RD_ATOMIC)
		a.max_dest_rd_atomic = reads.served;
	if (mask & IBV_QP_MIN_RNR_TIMER)
		a.min_rnr_timer = rnr_timer;
	err = ibv_modify_qp(q->qp, &a, mask);
	if (err)
		return err;
	c->mtu = a.path_mtu ? 128 << a.path_mtu : 0;
	c->has_gid = a.ah_attr.is_global;
	c->sgid_index = a.ah_attr.grh.sgid_index;
	memcpy(c->dgid, a.ah_attr.grh.dgid.raw, 16);
	err = modify(id, &a, &mask, IBV_QPS_RTS);
	if (err)
		return err;
	if (mask & IBV_QP_MAX_QP_RD_ATOMIC)
		a.max_rd_atomic = reads.made;
	return ibv_modify_qp(q->qp, &a, mask);
}

static struct rdma_conn_param param(const struct gv_qp *q, struct gv_reads reads, const void *data, uint8_t len)
{
	struct rdma_conn_param p = {
		.private_data = data,
		.private_data_len = len,
		.responder_resources = reads.served,
		.initiator_depth = reads.made,
		.flow_control = 1,
		.retry_count = 7,
		.rnr_retry_count = 7,
		.srq = q->qp->srq != NULL,
		.qp_num = q->qp->qp_num,
	};

	return p;
}

int gv_cm_connect(struct rdma_cm_id *id, struct gv_qp *q, struct gv_reads reads, const void *data, uint8_t len)
{
	struct rdma_conn_param p = param(q, reads, data, len);

	return outcome(rdma_connect(id, &p));
}

int gv_cm_establish(struct rdma_cm_id *id) { return outcome(rdma_establish(id)); }

int gv_cm_accept(struct rdma_cm_id *id, struct gv_qp *q, struct gv_reads reads, const void *data, uint8_t len)
{
	struct rdma_conn_param p = param(q, reads, data, len);

	return outcome(rdma_accept(id, &p));
}

int gv_cm_reject(struct rdma_cm_id *id, const void *data, uint8_t len) { return outcome(rdma_reject(id, data, len)); }
int gv_cm_disconnect(struct rdma_cm_id *id) { return outcome(rdma_disconnect(id)); }
int gv_cm_comm_est(struct rdma_cm_id *id) { return outcome(rdma_notify(id, IBV_EVENT_COMM_EST)); }
int gv_cm_destroy(struct rdma_cm_id *id) { return outcome(rdma_destroy_id(id)); }

void gv_cm_forget(void)
{
	struct ibv_context **list = rdma_get_devices(NULL);

	if (list)
		rdma_free_devices(list);
}

// Devices.

int gv_async_next(struct ibv_context *ctx, struct gv_async *ev)
{
	struct ibv_async_event e;

	errno = 0;
	if (ibv_get_async_event(ctx, &e))
		return errno ? errno : EIO;
	ev->type = e.event_type;
	ev->port = 0;
	ev->handle = 0;
	switch (e.event_type) {
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_PATH_MIG:
	case IBV_EVENT_PATH_MIG_ERR:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		ev->handle = (uintptr_t)e.element.qp->qp_context;
		break;
	case IBV_EVENT_CQ_ERR:
		ev->handle = (uintptr_t)e.element.cq->cq_context;
		break;
	case IBV_EVENT_SRQ_ERR:
	case IBV_EVENT_SRQ_LIMIT_REACHED:
		ev->handle = (uintptr_t)e.element.srq->srq_context;
		break;
	case IBV_EVENT_PORT_ACTIVE:
	case IBV_EVENT_PORT_ERR:
	case IBV_EVENT_LID_CHANGE:
	case IBV_EVENT_PKEY_CHANGE:
	case IBV_EVENT_SM_CHANGE:
	case IBV_EVENT_CLIENT_REREGISTER:
	case IBV_EVENT_GID_CHANGE:
		ev->port = e.element.port_num;
		break;
	default:
		break;
	}
	ibv_ack_async_event(&e);
	return 0;
}

int gv_port(struct ibv_context *ctx, int port, struct ibv_port_attr *a) { return ibv_query_port(ctx, port, a); }
