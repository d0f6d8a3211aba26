/* A ping-pong between two queue pairs of one process. Arguments: the number of rounds, and the code of the timeout, which
 * is retried 7 times. Without rounds, a queue pair sends to a peer that does not exist. Prints the milliseconds that it
 * takes. */
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CHECK(condition) do { if (!(condition)) { perror(#condition); exit(1); } } while (0)

static long now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

int main(int argc, char **argv) {
    int rounds = argc > 1 ? atoi(argv[1]) : 1000, timeout = argc > 2 ? atoi(argv[2]) : 14;
    struct ibv_device **list = ibv_get_device_list(NULL);
    CHECK(list && list[0]);
    struct ibv_context *context = ibv_open_device(list[0]);
    CHECK(context);
    struct ibv_pd *pd = ibv_alloc_pd(context);
    struct ibv_cq *cq = ibv_create_cq(context, 64, NULL, NULL, 0);
    char *bytes = calloc(1, 8192);
    struct ibv_mr *mr = ibv_reg_mr(pd, bytes, 8192, IBV_ACCESS_LOCAL_WRITE);
    CHECK(pd && cq && mr);
    union ibv_gid gid;
    CHECK(ibv_query_gid(context, 1, 0, &gid) == 0);
    struct ibv_qp *qps[2];
    for (int i = 0; i < 2; i++) {
        struct ibv_qp_init_attr init = {
            .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
            .cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
        };
        CHECK(qps[i] = ibv_create_qp(pd, &init));
    }
    for (int i = 0; i < 2; i++) {
        struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};
        CHECK(ibv_modify_qp(qps[i], &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0);
        attr = (struct ibv_qp_attr){
            .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = qps[1 - i]->qp_num,
            .max_dest_rd_atomic = 1, .min_rnr_timer = 1,
            .ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = gid, .hop_limit = 64}},
        };
        CHECK(ibv_modify_qp(qps[i], &attr,
            IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
            IBV_QP_MIN_RNR_TIMER) == 0);
        attr = (struct ibv_qp_attr){
            .qp_state = IBV_QPS_RTS, .timeout = timeout, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1,
        };
        CHECK(ibv_modify_qp(qps[i], &attr,
            IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
            IBV_QP_MAX_QP_RD_ATOMIC) == 0);
    }
    if (rounds == 0) CHECK(ibv_destroy_qp(qps[1]) == 0);
    long begin = now(), worst = 0, last = begin;
    for (int i = 0; i <= 2 * rounds; i++) {
        struct ibv_qp *from = qps[i % 2], *to = qps[1 - i % 2];
        struct ibv_sge into = {(uintptr_t)bytes + 4096, 64, mr->lkey}, data = {(uintptr_t)bytes, 64, mr->lkey};
        struct ibv_recv_wr receive = {.wr_id = 2, .sg_list = &into, .num_sge = 1}, *bad_receive;
        struct ibv_send_wr send = {
            .wr_id = 1, .sg_list = &data, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED,
        }, *bad;
        if (rounds > 0) CHECK(ibv_post_recv(to, &receive, &bad_receive) == 0);
        CHECK(ibv_post_send(from, &send, &bad) == 0);
        for (int left = rounds > 0 ? 2 : 1; left > 0;) {
            struct ibv_wc wc;
            int count = ibv_poll_cq(cq, 1, &wc);
            CHECK(count >= 0);
            if (count > 0 && wc.status != (rounds > 0 ? IBV_WC_SUCCESS : IBV_WC_RETRY_EXC_ERR)) {
                printf("round %d: %s\n", i, ibv_wc_status_str(wc.status));
                return 1;
            }
            left -= count;
        }
        worst = now() - last > worst ? now() - last : worst;
        last = now();
    }
    printf("%ld ms, longest round %ld ms\n", now() - begin, worst);
    return 0;
}
