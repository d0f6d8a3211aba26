/* Uses the objects of one device from several threads at the same time, as the manual of libibverbs allows: it says
 * that all verbs may be called by several threads. Each step has a number of rounds, so that it takes about a second. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHECK(condition) do { \
    if (!(condition)) { printf("line %d: not true: %s (errno %d)\n", __LINE__, #condition, errno); exit(1); } \
} while (0)

/* Messages of the streams, and rounds in which objects are created and destroyed. */
enum { MESSAGES = 1000, WINDOW = 32, ROUNDS = 150 };

static struct ibv_context *context;
static struct ibv_pd *pd;
static union ibv_gid gid;

static pthread_t start(void *(*run)(void *), void *argument) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, run, argument) == 0);
    return thread;
}

static void join(pthread_t thread) {
    CHECK(pthread_join(thread, NULL) == 0);
}

static struct ibv_qp *queue_pair(struct ibv_cq *send, struct ibv_cq *recv, struct ibv_srq *srq) {
    struct ibv_qp_init_attr_ex init = {
        .send_cq = send, .recv_cq = recv, .srq = srq, .qp_type = IBV_QPT_RC, .pd = pd,
        .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, .send_ops_flags = IBV_QP_EX_WITH_SEND,
        .cap = {.max_send_wr = 2 * WINDOW, .max_recv_wr = 2 * WINDOW, .max_send_sge = 1, .max_recv_sge = 1},
    };
    struct ibv_qp *qp = ibv_create_qp_ex(context, &init);
    CHECK(qp);
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};
    CHECK(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0);
    return qp;
}

static void connect_to(struct ibv_qp *qp, struct ibv_qp *peer) {
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = peer->qp_num, .max_dest_rd_atomic = 1,
        .min_rnr_timer = 1, .ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = gid, .hop_limit = 64}},
    };
    CHECK(ibv_modify_qp(qp, &attr,
        IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
        IBV_QP_MIN_RNR_TIMER) == 0);
    /* The longest timeout, since a sanitizer and a busy machine make threads wait. */
    attr = (struct ibv_qp_attr){
        .qp_state = IBV_QPS_RTS, .timeout = 20, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1,
    };
    CHECK(ibv_modify_qp(qp, &attr,
        IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
        IBV_QP_MAX_QP_RD_ATOMIC) == 0);
}

static void fail(struct ibv_qp *qp) {
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
    CHECK(ibv_modify_qp(qp, &attr, IBV_QP_STATE) == 0);
}

/* A stream: two threads post to one queue pair, two receive at its peer, and all poll the one completion queue. */
static struct {
    struct ibv_cq_ex *cq;
    struct ibv_qp *sender, *receiver;
    /* Whether completions are read field by field, and sends posted by `ibv_wr_*`. */
    int extended;
    /* Threads that have begun, which numbers them. */
    atomic_int threads;
    /* Sends and receives that are posted and not completed, in all and finished ones. */
    atomic_int sending, receiving, sent, received;
    /* How often each number was completed, in the two directions. */
    atomic_int seen[2][MESSAGES];
} stream;

static void completed(int status, uint64_t number, int is_receive) {
    CHECK(status == IBV_WC_SUCCESS && number < MESSAGES);
    atomic_fetch_add(&stream.seen[is_receive][number], 1);
    atomic_fetch_sub(is_receive ? &stream.receiving : &stream.sending, 1);
    atomic_fetch_add(is_receive ? &stream.received : &stream.sent, 1);
}

static void poll_stream(void) {
    if (stream.extended) {
        struct ibv_poll_cq_attr none = {0};
        int result = ibv_start_poll(stream.cq, &none);
        CHECK(result == 0 || result == ENOENT);
        if (result) return;
        do {
            int is_receive = ibv_wc_read_opcode(stream.cq) == IBV_WC_RECV;
            uint32_t own = (is_receive ? stream.receiver : stream.sender)->qp_num;
            CHECK(ibv_wc_read_qp_num(stream.cq) == own);
            completed(stream.cq->status, stream.cq->wr_id, is_receive);
        } while ((result = ibv_next_poll(stream.cq)) == 0);
        CHECK(result == ENOENT);
        ibv_end_poll(stream.cq);
        return;
    }
    struct ibv_wc wc[4];
    int count = ibv_poll_cq(ibv_cq_ex_to_cq(stream.cq), 4, wc);
    CHECK(count >= 0);
    for (int i = 0; i < count; i++) completed(wc[i].status, wc[i].wr_id, wc[i].opcode == IBV_WC_RECV);
}

static void post_send(uint64_t number) {
    if (stream.extended) {
        struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(stream.sender);
        ibv_wr_start(qp);
        qp->wr_id = number;
        qp->wr_flags = IBV_SEND_SIGNALED;
        ibv_wr_send(qp);
        CHECK(ibv_wr_complete(qp) == 0);
        return;
    }
    struct ibv_send_wr send = {.wr_id = number, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED}, *bad;
    CHECK(ibv_post_send(stream.sender, &send, &bad) == 0);
}

/* Posts the messages of one parity, in one direction. */
static void *run_stream(void *none) {
    (void)none;
    int at = atomic_fetch_add(&stream.threads, 1), is_receive = at & 1;
    atomic_int *posted = is_receive ? &stream.receiving : &stream.sending;
    for (uint64_t number = at >> 1; number < MESSAGES; number += 2) {
        while (atomic_fetch_add(posted, 1) >= WINDOW) {
            atomic_fetch_sub(posted, 1);
            poll_stream();
            sched_yield();
        }
        if (is_receive) {
            struct ibv_recv_wr receive = {.wr_id = number}, *bad;
            CHECK(ibv_post_recv(stream.receiver, &receive, &bad) == 0);
        } else {
            post_send(number);
        }
    }
    while (atomic_load(&stream.sent) + atomic_load(&stream.received) < 2 * MESSAGES) {
        poll_stream();
        sched_yield();
    }
    return NULL;
}

static void streams(int extended) {
    memset(&stream, 0, sizeof stream);
    stream.extended = extended;
    struct ibv_cq_init_attr_ex init = {.cqe = 4 * WINDOW, .wc_flags = IBV_WC_STANDARD_FLAGS};
    CHECK((stream.cq = ibv_create_cq_ex(context, &init)));
    struct ibv_cq *cq = ibv_cq_ex_to_cq(stream.cq);
    stream.sender = queue_pair(cq, cq, NULL);
    stream.receiver = queue_pair(cq, cq, NULL);
    connect_to(stream.sender, stream.receiver);
    connect_to(stream.receiver, stream.sender);
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) threads[i] = start(run_stream, NULL);
    for (int i = 0; i < 4; i++) join(threads[i]);
    for (int i = 0; i < MESSAGES; i++) CHECK(stream.seen[0][i] == 1 && stream.seen[1][i] == 1);
    CHECK(ibv_destroy_qp(stream.sender) == 0 && ibv_destroy_qp(stream.receiver) == 0 && ibv_destroy_cq(cq) == 0);
}

/* Completion queues are destroyed while two threads take their events and acknowledge them. */
static struct ibv_comp_channel *channel;
static atomic_int events, has_ended;

/* Goes on at once, after a moment, or when a thread has taken an event since there were `before`. */
static void pass_time(int round, int before) {
    if (round % 8 == 7) {
        for (int turn = 0; turn < 2000 && atomic_load(&events) == before; turn++) usleep(1000);
        return;
    }
    for (int spin = 0; spin < round % 8; spin++) sched_yield();
}

static void *take_completion_events(void *none) {
    (void)none;
    struct ibv_cq *cq;
    void *about;
    while (!atomic_load(&has_ended)) {
        struct pollfd fd = {.fd = channel->fd, .events = POLLIN};
        if (poll(&fd, 1, 10) == 1 && ibv_get_cq_event(channel, &cq, &about) == 0) {
            CHECK(about == &channel);
            atomic_fetch_add(&events, 1);
            /* The destruction of the queue may have begun, and waits for the acknowledgement. */
            struct ibv_wc wc;
            CHECK(ibv_poll_cq(cq, 1, &wc) >= 0 && ibv_req_notify_cq(cq, 0) == 0);
            CHECK(ibv_poll_cq(cq, 1, &wc) >= 0);
            ibv_ack_cq_events(cq, 1);
        }
    }
    return NULL;
}

static void completion_events(void) {
    CHECK((channel = ibv_create_comp_channel(context)));
    /* One event wakes both threads. */
    CHECK(fcntl(channel->fd, F_SETFL, O_NONBLOCK) == 0);
    atomic_store(&has_ended, 0);
    pthread_t threads[2] = {start(take_completion_events, NULL), start(take_completion_events, NULL)};
    for (int i = 0; i < ROUNDS; i++) {
        int before = atomic_load(&events);
        struct ibv_cq *cq = ibv_create_cq(context, 4, &channel, channel, 0);
        CHECK(cq && ibv_req_notify_cq(cq, 0) == 0);
        struct ibv_qp *qp = queue_pair(cq, cq, NULL);
        struct ibv_recv_wr receive = {.wr_id = i}, *bad;
        CHECK(ibv_post_recv(qp, &receive, &bad) == 0);
        /* The receive is flushed, which is a completion. */
        fail(qp);
        pass_time(i, before);
        CHECK(ibv_destroy_qp(qp) == 0 && ibv_destroy_cq(cq) == 0);
    }
    atomic_store(&has_ended, 1);
    join(threads[0]);
    join(threads[1]);
    CHECK(events > 0 && ibv_destroy_comp_channel(channel) == 0);
}

/* Shared receive queues and queue pairs are destroyed while a thread takes their asynchronous events. */
static void *take_events(void *opened) {
    struct ibv_async_event event;
    while (ibv_get_async_event(opened, &event) == 0) {
        atomic_fetch_add(&events, 1);
        ibv_ack_async_event(&event);
    }
    /* The device was closed. */
    CHECK(errno == EIO);
    return NULL;
}

static void asynchronous_events(struct ibv_device *device) {
    struct ibv_context *old = context;
    struct ibv_pd *old_pd = pd;
    CHECK((context = ibv_open_device(device)) && (pd = ibv_alloc_pd(context)));
    atomic_store(&events, 0);
    pthread_t taker = start(take_events, context);
    struct ibv_cq *cq = ibv_create_cq(context, 4, NULL, NULL, 0);
    CHECK(cq);
    for (int i = 0; i < ROUNDS; i++) {
        int before = atomic_load(&events);
        struct ibv_srq_init_attr init = {.attr = {.max_wr = 4, .max_sge = 1}};
        struct ibv_srq *srq = ibv_create_srq(pd, &init);
        CHECK(srq);
        struct ibv_qp *qp = queue_pair(cq, cq, srq);
        /* The queue has fewer receives than the limit. */
        struct ibv_srq_attr limit = {.srq_limit = 1};
        CHECK(ibv_modify_srq(srq, &limit, IBV_SRQ_LIMIT) == 0);
        /* The queue pair will take no more receives. */
        fail(qp);
        pass_time(i, before);
        CHECK(ibv_destroy_qp(qp) == 0 && ibv_destroy_srq(srq) == 0);
    }
    CHECK(ibv_destroy_cq(cq) == 0 && ibv_dealloc_pd(pd) == 0);
    /* Long enough that the thread waits in the call. */
    usleep(100000);
    CHECK(ibv_close_device(context) == 0);
    join(taker);
    CHECK(events > 0);
    context = old;
    pd = old_pd;
}

/* Queue pairs, regions and completion queues come and go in several threads, while another polls. */
static struct ibv_cq *shared;

static void *poll_shared(void *none) {
    (void)none;
    struct ibv_wc wc[8];
    while (!atomic_load(&has_ended)) {
        CHECK(ibv_poll_cq(shared, 8, wc) >= 0);
        sched_yield();
    }
    return NULL;
}

static void *come_and_go(void *none) {
    (void)none;
    char bytes[64];
    for (int i = 0; i < ROUNDS / 2; i++) {
        struct ibv_mr *mr = ibv_reg_mr(pd, bytes, sizeof bytes, IBV_ACCESS_LOCAL_WRITE);
        struct ibv_cq *own = ibv_create_cq(context, 4, NULL, NULL, 0);
        CHECK(mr && own);
        struct ibv_qp *qp = queue_pair(shared, own, NULL), *peer = queue_pair(own, shared, NULL);
        connect_to(qp, peer);
        connect_to(peer, qp);
        struct ibv_sge sge = {(uintptr_t)bytes, sizeof bytes, mr->lkey};
        struct ibv_recv_wr receive = {.wr_id = i, .sg_list = &sge, .num_sge = 1}, *bad_receive;
        struct ibv_send_wr send = {
            .wr_id = i, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED,
        }, *bad_send;
        CHECK(ibv_post_recv(peer, &receive, &bad_receive) == 0 && ibv_post_send(qp, &send, &bad_send) == 0);
        struct ibv_qp_attr attr;
        struct ibv_qp_init_attr init;
        CHECK(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init) == 0);
        CHECK(ibv_destroy_qp(qp) == 0 && ibv_destroy_qp(peer) == 0);
        CHECK(ibv_dereg_mr(mr) == 0 && ibv_destroy_cq(own) == 0);
    }
    return NULL;
}

static void objects(void) {
    CHECK((shared = ibv_create_cq(context, 4096, NULL, NULL, 0)));
    atomic_store(&has_ended, 0);
    pthread_t poller = start(poll_shared, NULL);
    pthread_t threads[2] = {start(come_and_go, NULL), start(come_and_go, NULL)};
    join(threads[0]);
    join(threads[1]);
    atomic_store(&has_ended, 1);
    join(poller);
    CHECK(ibv_destroy_cq(shared) == 0);
}

/* Devices are opened and closed by several threads. */
static void *open_and_close(void *none) {
    (void)none;
    for (int i = 0; i < 10; i++) {
        struct ibv_device **list = ibv_get_device_list(NULL);
        CHECK(list && list[0]);
        struct ibv_context *own = ibv_open_device(list[0]);
        CHECK(own);
        ibv_free_device_list(list);
        struct ibv_device_attr attr;
        CHECK(ibv_query_device(own, &attr) == 0 && ibv_close_device(own) == 0);
    }
    return NULL;
}

int main(void) {
    struct ibv_device **list = ibv_get_device_list(NULL);
    CHECK(list && list[0] && (context = ibv_open_device(list[0])));
    CHECK(ibv_query_gid(context, 1, 0, &gid) == 0 && (pd = ibv_alloc_pd(context)));
    streams(0);
    streams(1);
    completion_events();
    asynchronous_events(list[0]);
    objects();
    pthread_t threads[2] = {start(open_and_close, NULL), start(open_and_close, NULL)};
    join(threads[0]);
    join(threads[1]);
    CHECK(ibv_dealloc_pd(pd) == 0 && ibv_close_device(context) == 0);
    ibv_free_device_list(list);
    printf("the threads agree\n");
    return 0;
}
