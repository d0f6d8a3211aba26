/* A process receives a message and ends without destroying anything. The sender must get its ACK. */
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(condition) do { if (!(condition)) { perror(#condition); _exit(1); } } while (0)

static struct ibv_cq *cq;

/* Connects a queue pair with that of the other process; it receives one message into `memory`. */
static struct ibv_qp *connect_qp(uint64_t *memory, struct ibv_mr **mr, int in, int out) {
    struct ibv_device **list = ibv_get_device_list(NULL);
    CHECK(list && list[0]);
    struct ibv_context *context = ibv_open_device(list[0]);
    CHECK(context);
    struct ibv_pd *pd = ibv_alloc_pd(context);
    cq = ibv_create_cq(context, 4, NULL, NULL, 0);
    CHECK(pd && cq);
    CHECK((*mr = ibv_reg_mr(pd, memory, sizeof *memory, IBV_ACCESS_LOCAL_WRITE)));
    struct ibv_qp_init_attr init = {
        .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
        .cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
    };
    struct ibv_qp *qp = ibv_create_qp(pd, &init);
    CHECK(qp);
    union ibv_gid gid;
    CHECK(ibv_query_gid(context, 1, 0, &gid) == 0);
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};
    CHECK(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0);
    struct ibv_sge sge = {(uintptr_t)memory, sizeof *memory, (*mr)->lkey};
    struct ibv_recv_wr receive = {.sg_list = &sge, .num_sge = 1}, *bad;
    CHECK(ibv_post_recv(qp, &receive, &bad) == 0);
    uint32_t peer;
    CHECK(write(out, &qp->qp_num, sizeof peer) == sizeof peer && read(in, &peer, sizeof peer) == sizeof peer);
    attr = (struct ibv_qp_attr){
        .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = peer, .max_dest_rd_atomic = 1,
        .min_rnr_timer = 12, .ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = gid, .hop_limit = 64}},
    };
    CHECK(ibv_modify_qp(qp, &attr,
        IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
        IBV_QP_MIN_RNR_TIMER) == 0);
    attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .max_rd_atomic = 1};
    CHECK(ibv_modify_qp(qp, &attr,
        IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
        IBV_QP_MAX_QP_RD_ATOMIC) == 0);
    /* Both are ready before one sends. */
    char ready = 1;
    CHECK(write(out, &ready, 1) == 1 && read(in, &ready, 1) == 1);
    return qp;
}

/* The next completion must be a success. */
static void await_success(void) {
    struct ibv_wc wc;
    int polled;
    while ((polled = ibv_poll_cq(cq, 1, &wc)) == 0) {
    }
    if (polled < 0 || wc.status != IBV_WC_SUCCESS) {
        printf("%s\n", polled < 0 ? "polling failed" : ibv_wc_status_str(wc.status));
        fflush(stdout);
        _exit(1);
    }
}

int main(void) {
    int there[2], back[2], status;
    CHECK(pipe(there) == 0 && pipe(back) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    uint64_t memory = 42;
    struct ibv_mr *mr;
    if (child == 0) {
        connect_qp(&memory, &mr, there[0], back[1]);
        await_success();
        exit(0);
    }
    struct ibv_qp *qp = connect_qp(&memory, &mr, back[0], there[1]);
    usleep(20000);
    struct ibv_sge sge = {(uintptr_t)&memory, sizeof memory, mr->lkey};
    struct ibv_send_wr send = {
        .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED,
    }, *bad;
    CHECK(ibv_post_send(qp, &send, &bad) == 0);
    await_success();
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    printf("acknowledged\n");
    return 0;
}
