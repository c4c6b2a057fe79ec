//go:build verbs

// What the Go side sees of libibverbs and librdmacm: batches, copies and error numbers. See doc.go for who owns what.
#ifndef GOSRPT_VERBS_SHIM_H
#define GOSRPT_VERBS_SHIM_H

#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <stdint.h>

// gv_wr is a work request without its elements, which are max_sge places of gv_queue.sges.
struct gv_wr {
	uint64_t remote;
	uint32_t rkey;
	uint16_t nsge;
	uint8_t opcode; // enum ibv_wr_opcode
	uint8_t flags;  // enum ibv_send_flags
};

// gv_queue is a ring of work requests: done <= handed <= tail, as counters that wrap.
struct gv_queue {
	struct gv_wr *wrs;
	struct ibv_sge *sges;
	uint32_t mask;    // places - 1
	uint32_t max_sge; // elements of each
	uint32_t depth;   // work requests that are taken
	uint32_t hw;      // of those, what the hardware takes at once
	uint32_t tail;    // written by Go
	uint32_t handed;  // to the hardware; written by C
	uint32_t done;    // written by Go
};

// gv_qp is a queue pair.
struct gv_qp {
	struct ibv_qp *qp;
	uint64_t tag; // upper half of every wr_id
	struct gv_queue sq, rq;
	uint32_t max_inline;
	int hold; // nothing is sent: on iWARP the accepting side may not before the other has (RFC 5044, 7.1.2); written by Go
	int err; // why the hardware took no more, an errno
};

// gv_srq is a shared receive queue. Its work requests may complete in any order, so they lie in places of Go's choice: order says in
// which, by the counter of the queue.
struct gv_srq {
	struct ibv_srq *srq;
	uint64_t tag; // upper half of every wr_id
	struct gv_queue q;
	uint32_t *order;
};

#define GV_RECV 0x80000000u   // in a wr_id: of a receive queue
#define GV_SHARED 0x40000000u // and that is a shared one
#define GV_PLACE 0x3fffffffu  // in a wr_id: the place in the ring
#define GV_BATCH 128          // completions fetched at once

// gv_cq is a completion queue.
struct gv_cq {
	struct ibv_cq *cq;
	struct ibv_comp_channel *channel;
	int bell;             // an eventfd, drained by gv_cq_arm
	int armed;            // a notification is under way
	unsigned int unacked; // events
	struct ibv_wc wc[GV_BATCH];
	struct gv_qp **dirty; // ring of Go's choice for gv_cq_turn
};

// gv_event is a copy of an event of the connection manager. The fields after data are those of a request.
struct gv_event {
	uint64_t id, listener; // what gv_cm_create was told
	int type, status;
	uint32_t qpn;
	uint8_t responder_resources, initiator_depth;
	uint8_t len;
	uint8_t data[256];
	struct rdma_cm_id *request;
};

// gv_path is what an id knows of its connection.
struct gv_path {
	char device[64];
	uint8_t port;
	uint16_t family;
	uint16_t pkey;
	struct sockaddr_storage local, remote;
	uint8_t sgid[16], dgid[16];
};

// gv_async is a copy of an asynchronous event.
struct gv_async {
	int type;
	int port;
	uint64_t handle; // of the queue pair, completion queue or shared receive queue
};

// Unless said otherwise these return 0 or an errno.

int gv_nonblock(int fd);

int gv_cq_create(struct ibv_context *ctx, int depth, int vector, uint64_t handle, struct gv_cq **out);
int gv_cq_destroy(struct gv_cq *c);
// gv_cq_turn hands over what n queue pairs of c->dirty have, and fetches up to room completions. It returns how many.
int gv_cq_turn(struct gv_cq *c, int n, int room);
// gv_cq_arm asks for an event at the next completion, and returns how many there are already, fetched. If rung it silences the bell.
int gv_cq_arm(struct gv_cq *c, int rung);

// gv_srq_create returns EINVAL if the device has less than what is asked for.
int gv_srq_create(struct ibv_pd *pd, uint64_t handle, uint32_t depth, uint32_t sge, struct gv_srq **out);
// gv_srq_turn hands over what there is. The hardware has room for all of it.
int gv_srq_turn(struct gv_srq *s);
int gv_srq_destroy(struct gv_srq *s);
void gv_srq_free(struct gv_srq *s);

// gv_room is what a queue pair has room for: work requests, elements of each, and bytes of inline data.
struct gv_room {
	uint32_t sends, recvs, elements, inl;
};

// gv_qp_create asks for a queue pair with room, whose receives come from srq unless that is NULL, and which becomes what has been granted. It has no rings before gv_qp_prepare.
int gv_qp_create(struct ibv_pd *pd, struct gv_cq *c, struct gv_srq *srq, uint64_t handle, struct gv_room *room, struct gv_qp **out);
// gv_qp_prepare makes rings of send and recv places, and the queue pair ready for receives. After an error the queue pair is to be destroyed
// and freed.
int gv_qp_prepare(struct gv_qp *q, uint32_t send, uint32_t recv, const struct gv_room *granted);
// gv_qp_destroy destroys the queue pair; its queues stay.
int gv_qp_destroy(struct gv_qp *q);
void gv_qp_free(struct gv_qp *q);
int gv_qp_error(struct gv_qp *q);

// gv_reads is how many RDMA READs may be outstanding, as requester and as responder.
struct gv_reads {
	uint8_t made, served;
};

// gv_conn is the outcome of gv_cm_ready.
struct gv_conn {
	uint8_t port, has_gid, has_pkey, sgid_index;
	uint16_t pkey_index;
	int mtu; // bytes
	uint8_t dgid[16];
};

int gv_cm_open(struct rdma_event_channel **out);
int gv_cm_next(struct rdma_event_channel *ch, struct gv_event *ev);
int gv_cm_create(struct rdma_event_channel *ch, uint64_t handle, int ib, struct rdma_cm_id **out);
void gv_cm_adopt(struct rdma_cm_id *id, uint64_t handle);
// gv_service_addr is the address of a service id at the port of a GID: a struct sockaddr_ib.
void gv_service_addr(uint64_t service, const uint8_t *gid, struct sockaddr_storage *addr);
int gv_cm_bind(struct rdma_cm_id *id, struct sockaddr_storage *addr, int only_family);
int gv_cm_listen(struct rdma_cm_id *id, int backlog);
int gv_cm_resolve(struct rdma_cm_id *id, struct sockaddr_storage *from, struct sockaddr_storage *to, int ms);
int gv_cm_route(struct rdma_cm_id *id, int ms);
void gv_cm_path(struct rdma_cm_id *id, struct gv_path *p);
// gv_cm_partition tells the port of the path and, if has_pkey, where in its table the partition is that a queue pair would get.
int gv_cm_partition(struct rdma_cm_id *id, struct gv_conn *c);
// gv_cm_init takes the queue pair to INIT on the port and partition of the path.
int gv_cm_init(struct rdma_cm_id *id, struct gv_qp *q, struct gv_conn *c);
// gv_cm_ready takes it on to RTS. reads is what both sides agreed on.
int gv_cm_ready(struct rdma_cm_id *id, struct gv_qp *q, struct gv_reads reads, uint8_t rnr_timer, struct gv_conn *c);
int gv_cm_connect(struct rdma_cm_id *id, struct gv_qp *q, struct gv_reads reads, const void *data, uint8_t len);
int gv_cm_establish(struct rdma_cm_id *id);
int gv_cm_accept(struct rdma_cm_id *id, struct gv_qp *q, struct gv_reads reads, const void *data, uint8_t len);
int gv_cm_reject(struct rdma_cm_id *id, const void *data, uint8_t len);
int gv_cm_disconnect(struct rdma_cm_id *id);
int gv_cm_comm_est(struct rdma_cm_id *id);
int gv_cm_destroy(struct rdma_cm_id *id);
// gv_cm_forget makes librdmacm close the devices that are gone.
void gv_cm_forget(void);

int gv_async_next(struct ibv_context *ctx, struct gv_async *ev);
int gv_port(struct ibv_context *ctx, int port, struct ibv_port_attr *a);

#endif
