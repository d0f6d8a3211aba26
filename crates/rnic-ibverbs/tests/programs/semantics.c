/* Calls verbs where NICs, Linux's drivers and programs agree on more than the manual pages say, and checks the answers. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static int wrong;

#define EXPECT(condition) do { \
    if (!(condition)) { printf("line %d: not true: %s (errno %d)\n", __LINE__, #condition, errno); wrong = 1; } \
} while (0)

enum { SIZE = 65536, ALL = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
    IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND };

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static union ibv_gid gid;
static char *bytes;
static struct ibv_mr *mr;

static struct ibv_qp *queue_pair(enum ibv_qp_type type, struct ibv_srq *srq) {
    struct ibv_qp_init_attr init = {
        .send_cq = cq, .recv_cq = cq, .srq = srq, .qp_type = type,
        .cap = {.max_send_wr = 64, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1},
    };
    struct ibv_qp *qp = ibv_create_qp(pd, &init);
    EXPECT(qp);
    return qp;
}

static void connect_to(struct ibv_qp *qp, struct ibv_qp *peer) {
    int rc = qp->qp_type == IBV_QPT_RC;
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = ALL & ~IBV_ACCESS_MW_BIND};
    EXPECT(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0);
    attr = (struct ibv_qp_attr){
        /* The upper bits of PSNs and of the number of the peer's queue pair do not count. */
        .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = 0xab000000 | peer->qp_num,
        .rq_psn = 0x1000005, .max_dest_rd_atomic = 4, .min_rnr_timer = 1,
        .ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = gid}},
    };
    EXPECT(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
        (rc ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0)) == 0);
    attr = (struct ibv_qp_attr){
        .qp_state = IBV_QPS_RTS, .sq_psn = 0x2000005, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 4,
    };
    EXPECT(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN |
        (rc ? IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC : 0)) == 0);
    struct ibv_qp_init_attr init;
    EXPECT(ibv_query_qp(qp, &attr, IBV_QP_RQ_PSN, &init) == 0);
    EXPECT(attr.rq_psn == 5 && attr.sq_psn == 5 && attr.dest_qp_num == peer->qp_num);
}

static void pair(enum ibv_qp_type type, struct ibv_srq *srq, struct ibv_qp *qps[2]) {
    qps[0] = queue_pair(type, NULL);
    qps[1] = queue_pair(type, srq);
    connect_to(qps[0], qps[1]);
    connect_to(qps[1], qps[0]);
}

static void destroy(struct ibv_qp *qps[2]) {
    EXPECT(ibv_destroy_qp(qps[0]) == 0 && ibv_destroy_qp(qps[1]) == 0);
}

/* The next completion; returns its status. */
static int completed(struct ibv_wc *wc) {
    for (long turns = 0; turns < 2000000000; turns++) {
        int count = ibv_poll_cq(cq, 1, wc);
        if (count != 0) return count < 0 ? -1 : (int)wc->status;
    }
    return -2;
}

static enum ibv_qp_state state(struct ibv_qp *qp) {
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;
    EXPECT(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init) == 0);
    return attr.qp_state;
}

static struct ibv_sge sge(size_t offset, uint32_t len) {
    return (struct ibv_sge){(uintptr_t)bytes + offset, len, mr->lkey};
}

/* A signalled request with one element of the region. Its remote address is in the second half of the region. */
static struct ibv_send_wr request(uint64_t id, enum ibv_wr_opcode opcode, struct ibv_sge *local) {
    struct ibv_send_wr wr = {.wr_id = id, .opcode = opcode, .sg_list = local, .num_sge = 1};
    wr.send_flags = IBV_SEND_SIGNALED;
    if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
        wr.wr.atomic.remote_addr = (uintptr_t)bytes + SIZE / 2;
        wr.wr.atomic.rkey = mr->rkey;
        wr.wr.atomic.compare_add = 1;
    } else {
        wr.wr.rdma.remote_addr = (uintptr_t)bytes + SIZE / 2;
        wr.wr.rdma.rkey = mr->rkey;
    }
    return wr;
}

static int post(struct ibv_qp *qp, struct ibv_send_wr *wr) {
    struct ibv_send_wr *bad = NULL;
    return ibv_post_send(qp, wr, &bad);
}

/* The status of one request. */
static int tried(struct ibv_qp *qp, struct ibv_send_wr *wr) {
    struct ibv_wc wc = {0};
    EXPECT(post(qp, wr) == 0);
    int status = completed(&wc);
    EXPECT(wc.wr_id == wr->wr_id && wc.qp_num == qp->qp_num);
    return status;
}

static void receive(struct ibv_qp *qp, uint64_t id, struct ibv_sge where) {
    struct ibv_recv_wr wr = {.wr_id = id, .sg_list = &where, .num_sge = 1}, *bad;
    EXPECT(ibv_post_recv(qp, &wr, &bad) == 0);
}

/* Programs give their local key to the peer, as NICs with one key admit. Without remote rights the keys differ. */
static void keys(void) {
    EXPECT(mr->lkey == mr->rkey);
    struct ibv_qp *qps[2];
    pair(IBV_QPT_RC, NULL, qps);
    struct ibv_sge local = sge(0, 64);
    struct ibv_send_wr write = request(1, IBV_WR_RDMA_WRITE, &local);
    write.wr.rdma.rkey = mr->lkey;
    memset(bytes, 7, 64);
    EXPECT(tried(qps[0], &write) == IBV_WC_SUCCESS && !memcmp(bytes, bytes + SIZE / 2, 64));
    destroy(qps);
    int rights[] = {IBV_ACCESS_REMOTE_READ, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC, IBV_ACCESS_LOCAL_WRITE, 0};
    for (int i = 0; i < 4; i++) {
        struct ibv_mr *one = ibv_reg_mr(pd, bytes, SIZE, rights[i]);
        EXPECT(one && (one->lkey == one->rkey) == (i < 2));
        EXPECT(ibv_dereg_mr(one) == 0);
    }
}

/* The program chooses the low eight bits of the key of a type 2 window, whatever it has in the others. */
static void windows(void) {
    for (int extended = 0; extended < 2; extended++) {
        struct ibv_qp *qps[2];
        pair(IBV_QPT_RC, NULL, qps);
        struct ibv_mw *mw = ibv_alloc_mw(pd, IBV_MW_TYPE_2);
        EXPECT(mw);
        uint32_t before = mw->rkey;
        struct ibv_mw_bind_info info = {mr, (uintptr_t)bytes + SIZE / 2, 4096, IBV_ACCESS_REMOTE_WRITE};
        struct ibv_send_wr bind = {.wr_id = 2, .opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED};
        bind.bind_mw.mw = mw;
        bind.bind_mw.rkey = 0x455;
        bind.bind_mw.bind_info = info;
        if (extended) {
            struct ibv_qp_init_attr_ex init = {
                .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .pd = pd, .send_ops_flags = IBV_QP_EX_WITH_BIND_MW,
                .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
                .cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
            };
            EXPECT(ibv_destroy_qp(qps[1]) == 0);
            qps[1] = ibv_create_qp_ex(context, &init);
            EXPECT(qps[1]);
            struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};
            EXPECT(ibv_modify_qp(qps[0], &reset, IBV_QP_STATE) == 0);
            connect_to(qps[0], qps[1]);
            connect_to(qps[1], qps[0]);
            struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(qps[1]);
            ibv_wr_start(ex);
            ex->wr_id = 2;
            ex->wr_flags = IBV_SEND_SIGNALED;
            ibv_wr_bind_mw(ex, mw, 0x455, &info);
            EXPECT(mw->rkey == before);
            EXPECT(ibv_wr_complete(ex) == 0);
            struct ibv_wc wc;
            EXPECT(completed(&wc) == IBV_WC_SUCCESS && wc.wr_id == 2);
        } else {
            EXPECT(tried(qps[1], &bind) == IBV_WC_SUCCESS);
        }
        EXPECT(mw->rkey == ((before & ~0xffu) | 0x55));
        struct ibv_sge local = sge(0, 64);
        struct ibv_send_wr write = request(3, IBV_WR_RDMA_WRITE, &local);
        write.wr.rdma.rkey = mw->rkey;
        EXPECT(tried(qps[0], &write) == IBV_WC_SUCCESS);
        /* A queue pair invalidates only its own windows. */
        struct ibv_send_wr invalidate = {.wr_id = 4, .opcode = IBV_WR_LOCAL_INV, .send_flags = IBV_SEND_SIGNALED};
        invalidate.invalidate_rkey = mw->rkey;
        EXPECT(tried(qps[0], &invalidate) == IBV_WC_MW_BIND_ERR && state(qps[0]) == IBV_QPS_ERR);
        EXPECT(tried(qps[1], &invalidate) == IBV_WC_SUCCESS);
        EXPECT(ibv_dealloc_mw(mw) == 0);
        destroy(qps);
    }
}

/* A shared receive queue serves queue pairs of other protection domains; its own domain's regions receive. */
static void shared_receive_queue(void) {
    struct ibv_pd *other = ibv_alloc_pd(context);
    struct ibv_srq_init_attr init = {.attr = {.max_wr = 4, .max_sge = 1}};
    struct ibv_srq *srq = ibv_create_srq(other, &init);
    static char into[64];
    struct ibv_mr *its = ibv_reg_mr(other, into, sizeof into, IBV_ACCESS_LOCAL_WRITE);
    EXPECT(other && srq && its);
    struct ibv_qp *qps[2];
    pair(IBV_QPT_RC, srq, qps);
    struct ibv_sge where = {(uintptr_t)into, sizeof into, its->lkey};
    struct ibv_recv_wr wr = {.wr_id = 8, .sg_list = &where, .num_sge = 1}, *bad;
    EXPECT(ibv_post_srq_recv(srq, &wr, &bad) == 0);
    struct ibv_sge local = sge(0, 64);
    struct ibv_send_wr send = request(1, IBV_WR_SEND, &local);
    memset(bytes, 9, 64);
    EXPECT(post(qps[0], &send) == 0);
    struct ibv_wc wc[2];
    EXPECT(completed(&wc[0]) == IBV_WC_SUCCESS && completed(&wc[1]) == IBV_WC_SUCCESS && into[63] == 9);
    /* A region of the queue pair's domain does not receive. */
    where = sge(0, 64);
    EXPECT(ibv_post_srq_recv(srq, &wr, &bad) == 0 && post(qps[0], &send) == 0);
    int statuses[2] = {completed(&wc[0]), completed(&wc[1])};
    EXPECT(statuses[0] == IBV_WC_LOC_PROT_ERR || statuses[1] == IBV_WC_LOC_PROT_ERR);
    destroy(qps);
    EXPECT(ibv_destroy_srq(srq) == 0 && ibv_dereg_mr(its) == 0 && ibv_dealloc_pd(other) == 0);
}

/* NICs accept requests that they cannot execute, and complete them with an error, after all earlier requests. */
static void late_errors(void) {
    struct {
        enum ibv_qp_type type;
        enum ibv_wr_opcode opcode;
        uint32_t len, shift;
        int status;
        enum ibv_qp_state after;
    } cases[] = {
        {IBV_QPT_RC, IBV_WR_ATOMIC_FETCH_AND_ADD, 8, 4, IBV_WC_REM_INV_REQ_ERR, IBV_QPS_ERR},
        {IBV_QPT_RC, IBV_WR_ATOMIC_CMP_AND_SWP, 8, 1, IBV_WC_REM_INV_REQ_ERR, IBV_QPS_ERR},
        {IBV_QPT_RC, IBV_WR_ATOMIC_FETCH_AND_ADD, 9, 0, IBV_WC_LOC_LEN_ERR, IBV_QPS_ERR},
        {IBV_QPT_RC, IBV_WR_ATOMIC_CMP_AND_SWP, 7, 0, IBV_WC_LOC_LEN_ERR, IBV_QPS_ERR},
        {IBV_QPT_UC, IBV_WR_RDMA_READ, 8, 0, IBV_WC_LOC_QP_OP_ERR, IBV_QPS_SQE},
        {IBV_QPT_UC, IBV_WR_ATOMIC_FETCH_AND_ADD, 8, 0, IBV_WC_LOC_QP_OP_ERR, IBV_QPS_SQE},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct ibv_qp *qps[2];
        pair(cases[i].type, NULL, qps);
        struct ibv_sge local = sge(0, cases[i].len), more = sge(0, 4000);
        struct ibv_send_wr first = request(1, IBV_WR_RDMA_WRITE, &more), bad = request(2, cases[i].opcode, &local);
        struct ibv_send_wr last = request(3, IBV_WR_RDMA_WRITE, &more);
        if (cases[i].opcode != IBV_WR_RDMA_READ) bad.wr.atomic.remote_addr += cases[i].shift;
        memset(bytes + SIZE / 2 + 4096, 1, 64);
        first.next = &bad;
        bad.next = &last;
        struct ibv_wc wc[3];
        EXPECT(post(qps[0], &first) == 0);
        EXPECT(completed(&wc[0]) == IBV_WC_SUCCESS && wc[0].wr_id == 1);
        int status = completed(&wc[1]);
        if (status != cases[i].status || wc[1].wr_id != 2) {
            printf("case %u: status %d of request %lu\n", i, status, (unsigned long)wc[1].wr_id);
            wrong = 1;
        }
        EXPECT(completed(&wc[2]) == IBV_WC_WR_FLUSH_ERR && wc[2].wr_id == 3);
        EXPECT(state(qps[0]) == cases[i].after);
        if (status == IBV_WC_REM_INV_REQ_ERR) EXPECT(state(qps[1]) == IBV_QPS_ERR);
        destroy(qps);
    }
    /* The receive that a refused Write with Immediate has used. */
    struct ibv_qp *qps[2];
    pair(IBV_QPT_RC, NULL, qps);
    receive(qps[1], 7, sge(0, 64));
    struct ibv_sge local = sge(0, 64);
    struct ibv_send_wr write = request(1, IBV_WR_RDMA_WRITE_WITH_IMM, &local);
    write.wr.rdma.rkey += 1;
    EXPECT(post(qps[0], &write) == 0);
    for (int i = 0; i < 2; i++) {
        struct ibv_wc wc;
        int status = completed(&wc);
        EXPECT(status == (wc.wr_id == 7 ? IBV_WC_LOC_ACCESS_ERR : IBV_WC_REM_ACCESS_ERR));
    }
    destroy(qps);
}

static struct ibv_qp *datagram_qp(void) {
    struct ibv_qp *qp = queue_pair(IBV_QPT_UD, NULL);
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = 7};
    EXPECT(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY) == 0);
    attr.qp_state = IBV_QPS_RTR;
    EXPECT(ibv_modify_qp(qp, &attr, IBV_QP_STATE) == 0);
    attr.qp_state = IBV_QPS_RTS;
    EXPECT(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN) == 0);
    return qp;
}

static void datagrams(void) {
    struct ibv_ah_attr path = {.is_global = 1, .port_num = 1, .grh = {.dgid = gid}};
    struct ibv_ah *ah = ibv_create_ah(pd, &path);
    EXPECT(ah);
    struct ibv_qp *to = datagram_qp();
    struct {
        enum ibv_wr_opcode opcode;
        uint32_t len;
        int status;
    } cases[] = {
        {IBV_WR_SEND, 4097, IBV_WC_LOC_LEN_ERR},
        {IBV_WR_RDMA_WRITE, 8, IBV_WC_LOC_QP_OP_ERR},
        {IBV_WR_RDMA_READ, 8, IBV_WC_LOC_QP_OP_ERR},
        {IBV_WR_ATOMIC_FETCH_AND_ADD, 8, IBV_WC_LOC_QP_OP_ERR},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct ibv_qp *qp = datagram_qp();
        struct ibv_sge small = sge(0, 32), local = sge(0, cases[i].len);
        struct ibv_send_wr sends[4];
        for (int at = 0; at < 4; at++) {
            /* The operations of connections leave no address handle in the request. */
            sends[at] = request(at, at == 2 ? cases[i].opcode : IBV_WR_SEND, at == 2 ? &local : &small);
            sends[at].next = at < 3 ? &sends[at + 1] : NULL;
            if (sends[at].opcode == IBV_WR_SEND) {
                sends[at].wr.ud.ah = ah;
                /* The upper byte of the number does not count. */
                sends[at].wr.ud.remote_qpn = 0xde000000 | to->qp_num;
                sends[at].wr.ud.remote_qkey = 7;
            }
        }
        for (int at = 0; at < 2; at++) receive(to, 10 + at, sge(8192, 4096));
        EXPECT(post(qp, sends) == 0);
        int received = 0, next = 0;
        for (int count = 0; count < 6; count++) {
            struct ibv_wc wc;
            int status = completed(&wc);
            if (wc.qp_num == to->qp_num) {
                received += status == IBV_WC_SUCCESS && wc.byte_len == 72 && wc.src_qp == qp->qp_num;
                continue;
            }
            int expected[] = {IBV_WC_SUCCESS, IBV_WC_SUCCESS, cases[i].status, IBV_WC_WR_FLUSH_ERR};
            EXPECT((int)wc.wr_id == next && status == expected[next]);
            next++;
        }
        EXPECT(received == 2 && state(qp) == IBV_QPS_SQE);
        /* The send queue works again after the transition to RTS. */
        struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS};
        EXPECT(ibv_modify_qp(qp, &attr, IBV_QP_STATE) == 0);
        receive(to, 12, sge(8192, 4096));
        sends[0].next = NULL;
        EXPECT(post(qp, &sends[0]) == 0);
        struct ibv_wc wc;
        EXPECT(completed(&wc) == IBV_WC_SUCCESS && completed(&wc) == IBV_WC_SUCCESS);
        EXPECT(ibv_destroy_qp(qp) == 0);
    }
    EXPECT(ibv_destroy_qp(to) == 0 && ibv_destroy_ah(ah) == 0);
}

/* As many objects can be made as the device says, and one more is ENOMEM. */
static void limits(void) {
    struct ibv_device_attr device;
    EXPECT(ibv_query_device(context, &device) == 0);
    struct ibv_qp **qps = calloc(device.max_qp + 1, sizeof *qps);
    struct ibv_qp_init_attr init = {
        .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
        .cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
    };
    int made = 0;
    while (made <= device.max_qp && (qps[made] = ibv_create_qp(pd, &init))) made++;
    EXPECT(made == device.max_qp && errno == ENOMEM);
    while (made > 0) EXPECT(ibv_destroy_qp(qps[--made]) == 0);
    free(qps);
    struct ibv_pd **pds = calloc(device.max_pd + 1, sizeof *pds);
    while (made <= device.max_pd && (pds[made] = ibv_alloc_pd(context))) made++;
    /* One exists already. */
    EXPECT(made == device.max_pd - 1 && errno == ENOMEM);
    while (made > 0) EXPECT(ibv_dealloc_pd(pds[--made]) == 0);
    free(pds);
    struct ibv_mr **mrs = calloc(device.max_mr + 1, sizeof *mrs);
    while (made <= device.max_mr && (mrs[made] = ibv_reg_mr(pd, bytes, 64, 0))) made++;
    EXPECT(made == device.max_mr - 1 && errno == ENOMEM);
    while (made > 0) EXPECT(ibv_dereg_mr(mrs[--made]) == 0);
    free(mrs);
    struct ibv_srq **srqs = calloc(device.max_srq + 1, sizeof *srqs);
    struct ibv_srq_init_attr shared = {.attr = {.max_wr = 1, .max_sge = 1}};
    while (made <= device.max_srq && (srqs[made] = ibv_create_srq(pd, &shared))) made++;
    EXPECT(made == device.max_srq && errno == ENOMEM);
    while (made > 0) EXPECT(ibv_destroy_srq(srqs[--made]) == 0);
    free(srqs);
}

/* The time of day of completions in the order of the queue never goes back, and is the time of day. */
static void time_of_day(void) {
    struct ibv_cq_init_attr_ex attr = {
        .cqe = 256, .wc_flags = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK,
    };
    struct ibv_cq_ex *ex = ibv_create_cq_ex(context, &attr);
    struct ibv_cq *usual = cq;
    EXPECT(ex);
    cq = ibv_cq_ex_to_cq(ex);
    struct ibv_qp *qps[2];
    pair(IBV_QPT_RC, NULL, qps);
    uint64_t last = 0, last_raw = 0;
    int back = 0;
    for (int round = 0; round < 20; round++) {
        struct ibv_sge local = sge(0, 64);
        struct ibv_send_wr write = request(1, IBV_WR_RDMA_WRITE, &local);
        for (int i = 0; i < 64; i++) EXPECT(post(qps[0], &write) == 0);
        usleep(2000);
        for (int got = 0; got < 64;) {
            struct ibv_poll_cq_attr poll = {0};
            if (ibv_start_poll(ex, &poll)) continue;
            do {
                uint64_t now = ibv_wc_read_completion_wallclock_ns(ex), raw = ibv_wc_read_completion_ts(ex);
                back += now < last || raw < last_raw;
                EXPECT(last == 0 || now - last == raw - last_raw);
                last = now;
                last_raw = raw;
                got++;
            } while (ibv_next_poll(ex) == 0);
            ibv_end_poll(ex);
        }
    }
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    long long age = now.tv_sec * 1000000000LL + now.tv_nsec - (long long)last;
    EXPECT(back == 0 && age > 0 && age < 10000000000LL);
    destroy(qps);
    EXPECT(ibv_destroy_cq(cq) == 0);
    cq = usual;
}

/* The results of ibv_rereg_mr say who has found the mistake; the region stays as it was. */
static void reregistration(void) {
    EXPECT(ibv_rereg_mr(mr, 1 << 7, NULL, NULL, 0, 0) == IBV_REREG_MR_ERR_INPUT);
    EXPECT(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, NULL, 10, 0) == IBV_REREG_MR_ERR_INPUT);
    EXPECT(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, bytes, SIZE, ALL) == IBV_REREG_MR_ERR_INPUT);
    EXPECT(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_REMOTE_WRITE) == IBV_REREG_MR_ERR_CMD);
    EXPECT(errno == EINVAL);
    uint32_t key = mr->rkey;
    EXPECT(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, ALL) == 0 && mr->rkey == key && mr->lkey == key);
}

static int descriptors(void) {
    int count = 0;
    DIR *folder = opendir("/proc/self/fd");
    while (readdir(folder)) count++;
    closedir(folder);
    return count;
}

/* A context with a completion channel needs 7 descriptors. Without descriptors the error is EMFILE. */
static void few_descriptors(struct ibv_device *device) {
    int before = descriptors();
    struct ibv_context *other = ibv_open_device(device);
    EXPECT(other);
    struct ibv_comp_channel *channel = ibv_create_comp_channel(other);
    EXPECT(channel);
    int more = descriptors() - before;
    if (more > 7) {
        printf("a context needs %d descriptors\n", more);
        wrong = 1;
    }
    EXPECT(ibv_destroy_comp_channel(channel) == 0 && ibv_close_device(other) == 0);
    /* When a close returns, its descriptors are free, also that of the device that has the UDP port of the address. */
    for (int round = 0; round < 50; round++) {
        EXPECT(descriptors() == before);
        other = ibv_open_device(device);
        EXPECT(other && ibv_close_device(other) == 0);
    }
    EXPECT(descriptors() == before);
    struct rlimit limit;
    EXPECT(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    int next = dup(0);
    close(next);
    for (int spare = 0; spare < 6; spare++) {
        struct rlimit low = {next + spare, limit.rlim_max};
        EXPECT(setrlimit(RLIMIT_NOFILE, &low) == 0);
        errno = 0;
        EXPECT(!ibv_open_device(device) && errno == EMFILE);
    }
    EXPECT(setrlimit(RLIMIT_NOFILE, &limit) == 0);
}

int main(void) {
    struct ibv_device **list = ibv_get_device_list(NULL);
    EXPECT(list && list[0]);
    context = ibv_open_device(list[0]);
    if (!context) return 1;
    pd = ibv_alloc_pd(context);
    cq = ibv_create_cq(context, 256, NULL, NULL, 0);
    bytes = aligned_alloc(4096, SIZE);
    memset(bytes, 0, SIZE);
    mr = ibv_reg_mr(pd, bytes, SIZE, ALL);
    EXPECT(pd && cq && mr && ibv_query_gid(context, 1, 0, &gid) == 0);
    keys();
    windows();
    shared_receive_queue();
    late_errors();
    datagrams();
    time_of_day();
    reregistration();
    limits();
    few_descriptors(list[0]);
    EXPECT(ibv_dereg_mr(mr) == 0 && ibv_destroy_cq(cq) == 0 && ibv_dealloc_pd(pd) == 0);
    EXPECT(ibv_close_device(context) == 0);
    ibv_free_device_list(list);
    if (!wrong) puts("as NICs do");
    return wrong;
}
