/* Calls verbs in right and in wrong ways, and checks the answers. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <malloc.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static int wrong;

#define EXPECT(condition) do { \
    if (!(condition)) { printf("line %d: not true: %s (errno %d)\n", __LINE__, #condition, errno); wrong = 1; } \
} while (0)

static struct ibv_context *context;
static struct ibv_pd *pd;
static union ibv_gid gid;

static struct ibv_qp *queue_pair(struct ibv_cq *cq, struct ibv_srq *srq, enum ibv_qp_type type) {
    struct ibv_qp_init_attr init = {
        .send_cq = cq, .recv_cq = cq, .srq = srq, .qp_type = type,
        .cap = {.max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 2, .max_recv_sge = 2, .max_inline_data = 64},
    };
    return ibv_create_qp(pd, &init);
}

static int to_init(struct ibv_qp *qp) {
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
    };
    return ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

static void connect_for_reads(struct ibv_qp *qp, struct ibv_qp *peer, int reads) {
    EXPECT(to_init(qp) == 0);
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = peer->qp_num, .max_dest_rd_atomic = reads,
        .min_rnr_timer = 1, .ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = gid}},
    };
    EXPECT(ibv_modify_qp(qp, &attr,
        IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
        IBV_QP_MIN_RNR_TIMER) == 0);
    attr = (struct ibv_qp_attr){
        .qp_state = IBV_QPS_RTS, .timeout = 10, .retry_cnt = 3, .rnr_retry = 1, .max_rd_atomic = reads,
    };
    EXPECT(ibv_modify_qp(qp, &attr,
        IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
        IBV_QP_MAX_QP_RD_ATOMIC) == 0);
}

static void connect_to(struct ibv_qp *qp, struct ibv_qp *peer) {
    connect_for_reads(qp, peer, 1);
}

/* Waits for a completion; returns its status. */
static int completed(struct ibv_cq *cq, struct ibv_wc *wc) {
    for (long turns = 0; turns < 2000000000; turns++) {
        int count = ibv_poll_cq(cq, 1, wc);
        if (count != 0) return count < 0 ? -1 : (int)wc->status;
    }
    return -2;
}

static void memory(void) {
    static char bytes[10000];
    EXPECT(!ibv_reg_mr(pd, bytes, sizeof bytes, IBV_ACCESS_REMOTE_WRITE) && errno == EINVAL);
    EXPECT(!ibv_reg_mr(pd, bytes, sizeof bytes, IBV_ACCESS_ON_DEMAND) && errno == EOPNOTSUPP);
    EXPECT(!ibv_reg_mr(pd, bytes, sizeof bytes, 1 << 15) && errno == EINVAL);
    EXPECT(!ibv_reg_dmabuf_mr(pd, 0, 4096, 0, 0, 0) && errno == EOPNOTSUPP);
    /* Memory that does not exist, and memory that cannot be written. */
    char *map = mmap(NULL, 8192, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(!ibv_reg_mr(pd, map, 8192, IBV_ACCESS_LOCAL_WRITE) && errno == EFAULT);
    struct ibv_mr *mr = ibv_reg_mr(pd, map, 8192, IBV_ACCESS_REMOTE_READ);
    EXPECT(mr && ibv_dereg_mr(mr) == 0);
    EXPECT(munmap(map + 4096, 4096) == 0);
    EXPECT(!ibv_reg_mr(pd, map, 8192, 0) && errno == EFAULT);
    EXPECT(!ibv_reg_mr(pd, (void *)-4096, 8192, 0) && errno == EFAULT);
    mr = ibv_reg_mr(pd, bytes, sizeof bytes, IBV_ACCESS_LOCAL_WRITE);
    EXPECT(mr && ibv_dealloc_pd(pd) == EBUSY);
    uint32_t rkey = mr->rkey;
    EXPECT(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0) == 0 && mr->rkey == rkey);
    EXPECT(ibv_rereg_mr(mr, 1 << 7, NULL, NULL, 0, 0) != 0);
    EXPECT(ibv_dereg_mr(mr) == 0);
}

static void queues(void) {
    EXPECT(!ibv_create_cq(context, 0, NULL, NULL, 0) && errno == EINVAL);
    EXPECT(!ibv_create_cq(context, 10, NULL, NULL, 1) && errno == EINVAL);
    struct ibv_cq *cq = ibv_create_cq(context, 10, NULL, NULL, 0);
    EXPECT(cq && ibv_resize_cq(cq, 100) == 0 && cq->cqe == 100 && ibv_resize_cq(cq, 0) != 0);
    EXPECT(!queue_pair(cq, NULL, IBV_QPT_RAW_PACKET) && errno == EOPNOTSUPP);
    struct ibv_qp *qp = queue_pair(cq, NULL, IBV_QPT_RC);
    EXPECT(qp && ibv_destroy_cq(cq) == EBUSY);
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS};
    EXPECT(ibv_modify_qp(qp, &attr, IBV_QP_STATE) == EINVAL);
    attr.qp_state = IBV_QPS_INIT;
    EXPECT(ibv_modify_qp(qp, &attr, IBV_QP_STATE) == EINVAL);
    EXPECT(qp->state == IBV_QPS_RESET && to_init(qp) == 0 && qp->state == IBV_QPS_INIT);
    struct ibv_qp_init_attr init;
    EXPECT(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init) == 0 && attr.qp_state == IBV_QPS_INIT);
    EXPECT(init.cap.max_send_wr == 8 && init.send_cq == cq && init.qp_type == IBV_QPT_RC);
    EXPECT(!ibv_qp_to_qp_ex(qp));
    EXPECT(ibv_attach_mcast(qp, &gid, 0) == EOPNOTSUPP);
    EXPECT(ibv_destroy_qp(qp) == 0 && ibv_destroy_cq(cq) == 0);

    /* A queue that overflows says so, and cannot ignore it. */
    struct ibv_cq_init_attr_ex extended = {.cqe = 10, .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS};
    extended.flags = IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;
    EXPECT(!ibv_create_cq_ex(context, &extended) && errno == EOPNOTSUPP);
    extended.flags = 1 << 7;
    EXPECT(!ibv_create_cq_ex(context, &extended) && errno == EOPNOTSUPP);
    extended.flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED;
    struct ibv_cq_ex *cq_ex = ibv_create_cq_ex(context, &extended);
    EXPECT(cq_ex && ibv_destroy_cq(ibv_cq_ex_to_cq(cq_ex)) == 0);

    struct ibv_ah_attr path = {.port_num = 1};
    EXPECT(!ibv_create_ah(pd, &path) && errno == EINVAL);
    path.is_global = 1;
    path.grh.dgid.raw[0] = 0xff;
    EXPECT(!ibv_create_ah(pd, &path) && errno == EINVAL);
    path.grh.dgid = gid;
    path.grh.sgid_index = 4;
    EXPECT(!ibv_create_ah(pd, &path) && errno == EINVAL);
    path.grh.sgid_index = 3;
    path.port_num = 0;
    EXPECT(!ibv_create_ah(pd, &path) && errno == EINVAL);
    path.port_num = 1;
    struct ibv_pd *domain = ibv_alloc_pd(context);
    struct ibv_ah *ah = ibv_create_ah(domain, &path);
    EXPECT(ah && ibv_dealloc_pd(domain) == EBUSY);
    EXPECT(ibv_destroy_ah(ah) == 0 && ibv_dealloc_pd(domain) == 0);
}

/* Wrong requests end as completions with an error, and as asynchronous events. */
static void errors(void) {
    static char bytes[4096], other[4096];
    struct ibv_mr *mr = ibv_reg_mr(pd, bytes, sizeof bytes, IBV_ACCESS_LOCAL_WRITE);
    struct ibv_mr *remote = ibv_reg_mr(pd, other, sizeof other, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
    struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
    struct ibv_cq *cq = ibv_create_cq(context, 100, &wrong, channel, 0);
    EXPECT(mr && remote && channel && cq);
    EXPECT(ibv_destroy_comp_channel(channel) == EBUSY);
    struct {
        uint32_t lkey, rkey;
        uint64_t offset;
        int status;
    } cases[] = {
        {mr->lkey + 1, remote->rkey, 0, IBV_WC_LOC_PROT_ERR},
        {mr->lkey, remote->rkey + 1, 0, IBV_WC_REM_ACCESS_ERR},
        {mr->lkey, remote->rkey, 4000, IBV_WC_REM_ACCESS_ERR},
        {mr->lkey, remote->rkey, 0, IBV_WC_REM_ACCESS_ERR}, /* no right to write */
    };
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct ibv_qp *a = queue_pair(cq, NULL, IBV_QPT_RC), *b = queue_pair(cq, NULL, IBV_QPT_RC);
        connect_to(a, b);
        connect_to(b, a);
        EXPECT(ibv_req_notify_cq(cq, 0) == 0);
        struct ibv_sge sge = {(uintptr_t)bytes, 128, cases[i].lkey};
        struct ibv_send_wr write = {
            .wr_id = i, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED,
            .wr.rdma = {(uintptr_t)other + cases[i].offset, cases[i].rkey},
        }, *bad;
        EXPECT(ibv_post_send(a, &write, &bad) == 0);
        struct pollfd fd = {channel->fd, POLLIN, 0};
        EXPECT(poll(&fd, 1, 20000) == 1);
        struct ibv_cq *which;
        void *cookie;
        EXPECT(ibv_get_cq_event(channel, &which, &cookie) == 0 && which == cq && cookie == &wrong);
        ibv_ack_cq_events(cq, 1);
        EXPECT(poll(&fd, 1, 0) == 0);
        struct ibv_wc wc;
        EXPECT(completed(cq, &wc) == cases[i].status && wc.wr_id == i && wc.qp_num == a->qp_num);
        struct ibv_qp_attr attr;
        struct ibv_qp_init_attr init;
        EXPECT(ibv_query_qp(a, &attr, IBV_QP_STATE, &init) == 0 && attr.qp_state == IBV_QPS_ERR);
        struct pollfd async = {context->async_fd, POLLIN, 0};
        EXPECT(poll(&async, 1, 20000) == 1);
        struct ibv_async_event event;
        EXPECT(ibv_get_async_event(context, &event) == 0);
        EXPECT(event.element.qp == a || event.element.qp == b);
        ibv_ack_async_event(&event);
        EXPECT(ibv_destroy_qp(a) == 0 && ibv_destroy_qp(b) == 0);
    }
    /* No more events come for queue pairs that were destroyed. */
    EXPECT(fcntl(context->async_fd, F_SETFL, O_NONBLOCK) == 0);
    struct ibv_async_event event;
    EXPECT(ibv_get_async_event(context, &event) == -1 && errno == EAGAIN);
    EXPECT(fcntl(channel->fd, F_SETFL, O_NONBLOCK) == 0);
    struct ibv_cq *which;
    void *cookie;
    EXPECT(ibv_get_cq_event(channel, &which, &cookie) == -1 && errno == EAGAIN);
    EXPECT(ibv_destroy_cq(cq) == 0 && ibv_destroy_comp_channel(channel) == 0);
    EXPECT(ibv_dereg_mr(mr) == 0 && ibv_dereg_mr(remote) == 0);
}

/* Events that wait are announced although another object was destroyed in the meantime, and so are later ones. */
static void events_of_others(void) {
    static char bytes[64];
    struct ibv_mr *mr = ibv_reg_mr(pd, bytes, sizeof bytes, IBV_ACCESS_LOCAL_WRITE);
    struct ibv_cq *cq = ibv_create_cq(context, 100, NULL, NULL, 0);
    struct ibv_qp *a = queue_pair(cq, NULL, IBV_QPT_RC), *b = queue_pair(cq, NULL, IBV_QPT_RC);
    struct ibv_qp *other = queue_pair(cq, NULL, IBV_QPT_RC);
    EXPECT(mr && cq && a && b && other);
    connect_to(a, b);
    connect_to(b, a);
    struct ibv_sge sge = {(uintptr_t)bytes, sizeof bytes, mr->lkey};
    struct ibv_send_wr write = {
        .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED,
        .wr.rdma = {(uintptr_t)bytes, mr->rkey},
    }, *bad;
    struct ibv_wc wc;
    EXPECT(ibv_post_send(a, &write, &bad) == 0 && completed(cq, &wc) == IBV_WC_REM_ACCESS_ERR);
    struct pollfd async = {context->async_fd, POLLIN, 0};
    EXPECT(poll(&async, 1, 20000) == 1);
    EXPECT(ibv_destroy_qp(other) == 0);
    EXPECT(poll(&async, 1, 20000) == 1);
    struct ibv_async_event event;
    EXPECT(ibv_get_async_event(context, &event) == 0 && (event.element.qp == a || event.element.qp == b));
    ibv_ack_async_event(&event);
    /* All events of a destroyed pair were removed. The next event of another one is announced. */
    EXPECT(ibv_destroy_qp(a) == 0 && ibv_destroy_qp(b) == 0);
    EXPECT(ibv_get_async_event(context, &event) == -1 && errno == EAGAIN && poll(&async, 1, 0) == 0);
    a = queue_pair(cq, NULL, IBV_QPT_RC);
    b = queue_pair(cq, NULL, IBV_QPT_RC);
    connect_to(a, b);
    struct ibv_qp_attr drain = {.qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1};
    EXPECT(ibv_modify_qp(a, &drain, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY) == 0);
    EXPECT(poll(&async, 1, 20000) == 1 && ibv_get_async_event(context, &event) == 0);
    EXPECT(event.event_type == IBV_EVENT_SQ_DRAINED && event.element.qp == a);
    ibv_ack_async_event(&event);
    EXPECT(ibv_destroy_qp(a) == 0 && ibv_destroy_qp(b) == 0 && ibv_destroy_cq(cq) == 0 && ibv_dereg_mr(mr) == 0);
}

/* A child destroys all objects of its parent, as handlers may do that run when it exits. The parent keeps them. */
static void children(void) {
    static char bytes[64];
    struct ibv_mr *mr = ibv_reg_mr(pd, bytes, sizeof bytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    struct ibv_srq_init_attr init = {.attr = {.max_wr = 4, .max_sge = 1}};
    struct ibv_srq *srq = ibv_create_srq(pd, &init);
    struct ibv_mw *mw = ibv_alloc_mw(pd, IBV_MW_TYPE_1);
    struct ibv_cq *cq = ibv_create_cq(context, 100, NULL, NULL, 0);
    struct ibv_qp *a = queue_pair(cq, NULL, IBV_QPT_RC), *b = queue_pair(cq, NULL, IBV_QPT_RC);
    EXPECT(mr && srq && mw && cq && a && b);
    connect_to(a, b);
    connect_to(b, a);
    pid_t child = fork();
    if (child == 0) {
        alarm(60);
        int refused = ibv_destroy_qp(a) || ibv_destroy_qp(b) || ibv_destroy_cq(cq) || ibv_destroy_srq(srq);
        refused |= ibv_dealloc_mw(mw) || ibv_dereg_mr(mr) || ibv_dealloc_pd(pd) || ibv_close_device(context);
        _exit(refused);
    }
    int status = -1;
    EXPECT(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    struct ibv_sge sge = {(uintptr_t)bytes, sizeof bytes, mr->lkey};
    struct ibv_send_wr write = {
        .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED,
        .wr.rdma = {(uintptr_t)bytes, mr->rkey},
    }, *bad;
    struct ibv_wc wc;
    EXPECT(ibv_post_send(a, &write, &bad) == 0 && completed(cq, &wc) == IBV_WC_SUCCESS);
    EXPECT(ibv_destroy_qp(a) == 0 && ibv_destroy_qp(b) == 0 && ibv_destroy_cq(cq) == 0 && ibv_destroy_srq(srq) == 0);
    EXPECT(ibv_dealloc_mw(mw) == 0 && ibv_dereg_mr(mr) == 0);
}

/* One of each object is made and destroyed, and no asynchronous event comes. */
static void turn(void) {
    static char bytes[64];
    struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
    struct ibv_cq *cq = ibv_create_cq(context, 10, NULL, channel, 0);
    struct ibv_pd *domain = ibv_alloc_pd(context);
    struct ibv_mr *mr = ibv_reg_mr(domain, bytes, sizeof bytes, IBV_ACCESS_LOCAL_WRITE);
    struct ibv_mw *mw = ibv_alloc_mw(domain, IBV_MW_TYPE_2);
    struct ibv_srq_init_attr init = {.attr = {.max_wr = 4, .max_sge = 1}};
    struct ibv_srq *srq = ibv_create_srq(domain, &init);
    struct ibv_ah_attr path = {.is_global = 1, .port_num = 1, .grh = {.dgid = gid}};
    struct ibv_ah *ah = ibv_create_ah(domain, &path);
    struct ibv_qp *qp = queue_pair(cq, NULL, IBV_QPT_RC);
    connect_to(qp, qp);
    EXPECT(ibv_req_notify_cq(cq, 0) == 0);
    struct ibv_async_event event;
    for (int i = 0; i < 10; i++) EXPECT(ibv_get_async_event(context, &event) == -1 && errno == EAGAIN);
    EXPECT(ibv_destroy_qp(qp) == 0 && ibv_destroy_ah(ah) == 0 && ibv_destroy_srq(srq) == 0 && ibv_dealloc_mw(mw) == 0);
    EXPECT(ibv_dereg_mr(mr) == 0 && ibv_dealloc_pd(domain) == 0 && ibv_destroy_cq(cq) == 0);
    EXPECT(ibv_destroy_comp_channel(channel) == 0);
}

/* Nothing stays of what was destroyed. */
static void leaks(void) {
    for (int i = 0; i < 200; i++) turn();
    struct mallinfo2 before = mallinfo2();
    for (int i = 0; i < 1000; i++) turn();
    struct mallinfo2 after = mallinfo2();
    long more = (long)after.uordblks - (long)before.uordblks;
    if (more > 20000) {
        printf("1000 turns leave %ld bytes\n", more);
        wrong = 1;
    }
}

/* A full queue refuses requests, and says which. */
static void full_queues(void) {
    struct ibv_cq *cq = ibv_create_cq(context, 100, NULL, NULL, 0);
    struct ibv_srq_init_attr init = {.attr = {.max_wr = 4, .max_sge = 1}};
    struct ibv_srq *srq = ibv_create_srq(pd, &init);
    EXPECT(srq);
    struct ibv_recv_wr list[6] = {0}, *bad = NULL;
    for (int i = 0; i < 5; i++) list[i].next = &list[i + 1];
    EXPECT(ibv_post_srq_recv(srq, list, &bad) == ENOMEM && bad == &list[4]);
    struct ibv_srq_attr attr = {.srq_limit = 5};
    EXPECT(ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT) == EINVAL);
    attr.srq_limit = 3;
    EXPECT(ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT) == 0);
    EXPECT(ibv_query_srq(srq, &attr) == 0 && attr.max_wr == 4 && attr.srq_limit == 3);
    struct ibv_qp *a = queue_pair(cq, srq, IBV_QPT_RC), *b = queue_pair(cq, NULL, IBV_QPT_RC);
    EXPECT(a && b && ibv_destroy_srq(srq) == EBUSY);
    struct ibv_recv_wr receive = {0};
    EXPECT(ibv_post_recv(a, &receive, &bad) == EINVAL && bad == &receive);
    connect_to(a, b);
    connect_to(b, a);
    char text[65] = "inline data of at most 64 bytes";
    struct ibv_sge sge = {(uintptr_t)text, 65, 0};
    struct ibv_send_wr send = {
        .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED,
    }, *bad_send = NULL;
    EXPECT(ibv_post_send(b, &send, &bad_send) == EINVAL && bad_send == &send);
    sge.length = 0;
    struct ibv_wc wc;
    for (int i = 0; i < 2; i++) {
        EXPECT(ibv_post_send(b, &send, &bad_send) == 0);
        EXPECT(completed(cq, &wc) == 0 && completed(cq, &wc) == 0);
    }
    /* Two of four receives were used: below the limit of three. */
    struct ibv_async_event event;
    struct pollfd async = {context->async_fd, POLLIN, 0};
    int limits = 0;
    for (int i = 0; i < 3 && poll(&async, 1, 2000) == 1 && !limits; i++) {
        EXPECT(ibv_get_async_event(context, &event) == 0);
        limits += event.event_type == IBV_EVENT_SRQ_LIMIT_REACHED && event.element.srq == srq;
        ibv_ack_async_event(&event);
    }
    EXPECT(limits == 1);
    EXPECT(ibv_destroy_qp(a) == 0 && ibv_destroy_qp(b) == 0 && ibv_destroy_srq(srq) == 0 && ibv_destroy_cq(cq) == 0);
}

/* Programs send requests for connections inline, whose buffers they use again at once: UCX has 68 bytes, and asks for
   64. */
static void datagrams(void) {
    struct ibv_cq *cq = ibv_create_cq(context, 100, NULL, NULL, 0);
    struct ibv_qp_init_attr init = {
        .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_UD,
        .cap = {.max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 64},
    };
    struct ibv_qp *qp = ibv_create_qp(pd, &init);
    EXPECT(qp && init.cap.max_inline_data >= 128);
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = 7};
    EXPECT(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY) == 0);
    attr.qp_state = IBV_QPS_RTR;
    EXPECT(ibv_modify_qp(qp, &attr, IBV_QP_STATE) == 0);
    attr.qp_state = IBV_QPS_RTS;
    EXPECT(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN) == 0);
    struct ibv_ah_attr path = {.is_global = 1, .port_num = 1, .grh = {.dgid = gid}};
    struct ibv_ah *ah = ibv_create_ah(pd, &path);
    static char into[4][168], from[128];
    struct ibv_mr *mr = ibv_reg_mr(pd, into, sizeof into, IBV_ACCESS_LOCAL_WRITE);
    EXPECT(ah && mr);
    for (int i = 0; i < 4; i++) {
        struct ibv_sge sge = {(uintptr_t)into[i], sizeof into[i], mr->lkey};
        struct ibv_recv_wr receive = {.sg_list = &sge, .num_sge = 1}, *bad;
        EXPECT(ibv_post_recv(qp, &receive, &bad) == 0);
    }
    for (int i = 0; i < 4; i++) {
        memset(from, 'a' + i, sizeof from);
        struct ibv_sge sge = {(uintptr_t)from, sizeof from, 0};
        struct ibv_send_wr send = {
            .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_INLINE,
            .wr.ud = {.ah = ah, .remote_qpn = qp->qp_num, .remote_qkey = 7},
        }, *bad;
        EXPECT(ibv_post_send(qp, &send, &bad) == 0);
    }
    memset(from, 0, sizeof from);
    struct ibv_wc wc;
    for (int i = 0; i < 4; i++) {
        EXPECT(completed(cq, &wc) == 0 && wc.byte_len == 168);
        EXPECT(into[i][40] == 'a' + i && into[i][167] == 'a' + i);
    }
    EXPECT(ibv_destroy_ah(ah) == 0 && ibv_destroy_qp(qp) == 0 && ibv_dereg_mr(mr) == 0 && ibv_destroy_cq(cq) == 0);
}

/* Programs ask for as many reads as their peers have, and may limit rates as the device says. */
static void limits(void) {
    struct ibv_device_attr_ex device;
    EXPECT(ibv_query_device_ex(context, NULL, &device) == 0);
    struct ibv_cq *cq = ibv_create_cq(context, 10, NULL, NULL, 0);
    struct ibv_qp *qp = queue_pair(cq, NULL, IBV_QPT_RC);
    EXPECT(qp);
    connect_for_reads(qp, qp, 128);
    struct ibv_packet_pacing_caps *pacing = &device.packet_pacing_caps;
    EXPECT(pacing->supported_qpts == (1 << IBV_QPT_RC | 1 << IBV_QPT_UC | 1 << IBV_QPT_UD));
    struct ibv_qp_rate_limit_attr rate = {.rate_limit = pacing->qp_rate_limit_min};
    EXPECT(pacing->qp_rate_limit_min > 0 && ibv_modify_qp_rate_limit(qp, &rate) == 0);
    rate.rate_limit = pacing->qp_rate_limit_max;
    EXPECT(ibv_modify_qp_rate_limit(qp, &rate) == 0);
    EXPECT(ibv_destroy_qp(qp) == 0 && ibv_destroy_cq(cq) == 0);
}

int main(void) {
    int count = 0;
    struct ibv_device **list = ibv_get_device_list(&count);
    EXPECT(list && count == 1 && strcmp(ibv_get_device_name(list[0]), "rnic0") == 0);
    context = ibv_open_device(list[0]);
    if (!context) return 1;
    ibv_free_device_list(list);
    struct ibv_port_attr port;
    EXPECT(ibv_query_port(context, 1, &port) == 0 && port.state == IBV_PORT_ACTIVE && port.active_mtu == IBV_MTU_4096);
    EXPECT(ibv_query_port(context, 2, &port) == EINVAL);
    EXPECT(ibv_query_gid(context, 1, 0, &gid) == 0 && ibv_query_gid(context, 1, 99, &gid) == -1);
    pd = ibv_alloc_pd(context);
    EXPECT(pd);
    memory();
    queues();
    limits();
    errors();
    events_of_others();
    children();
    leaks();
    full_queues();
    datagrams();
    EXPECT(ibv_dealloc_pd(pd) == 0 && ibv_close_device(context) == 0);
    if (!wrong) puts("all answers are right");
    return wrong;
}
