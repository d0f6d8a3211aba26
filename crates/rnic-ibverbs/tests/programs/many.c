/* Connects many queue pairs of one process in pairs; each sends a message of some 64-bit words to its partner. The
 * arguments are the numbers of queue pairs and of words, and the code of the timeout, which is retried 7 times. */
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition) do { if (!(condition)) { perror(#condition); exit(1); } } while (0)

int main(int argc, char **argv) {
    int count = argc > 1 ? atoi(argv[1]) : 100;
    size_t words = argc > 2 ? atoi(argv[2]) : 1, bytes = words * sizeof(uint64_t);
    int timeout = argc > 3 ? atoi(argv[3]) : 14;
    struct ibv_device **list = ibv_get_device_list(NULL);
    CHECK(list && list[0]);
    struct ibv_context *context = ibv_open_device(list[0]);
    CHECK(context);
    struct ibv_pd *pd = ibv_alloc_pd(context);
    struct ibv_cq *cq = ibv_create_cq(context, 4 * count, NULL, NULL, 0);
    uint64_t *memory = calloc(2 * count, bytes);
    CHECK(pd && cq && memory);
    struct ibv_mr *mr = ibv_reg_mr(pd, memory, 2 * count * bytes, IBV_ACCESS_LOCAL_WRITE);
    CHECK(mr);
    struct ibv_qp **qps = calloc(count, sizeof *qps);
    for (int i = 0; i < count; i++) {
        struct ibv_qp_init_attr init = {
            .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
            .cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
        };
        qps[i] = ibv_create_qp(pd, &init);
        CHECK(qps[i]);
    }
    union ibv_gid gid;
    CHECK(ibv_query_gid(context, 1, 0, &gid) == 0);
    for (int i = 0; i < count; i++) {
        struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};
        CHECK(ibv_modify_qp(qps[i], &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0);
        struct ibv_sge sge = {(uintptr_t)&memory[(count + i) * words], bytes, mr->lkey};
        struct ibv_recv_wr receive = {.wr_id = i, .sg_list = &sge, .num_sge = 1}, *bad;
        CHECK(ibv_post_recv(qps[i], &receive, &bad) == 0);
        attr = (struct ibv_qp_attr){
            .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = qps[i ^ 1]->qp_num, .rq_psn = i ^ 1,
            .max_dest_rd_atomic = 1, .min_rnr_timer = 12,
            .ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = gid, .hop_limit = 64}},
        };
        CHECK(ibv_modify_qp(qps[i], &attr,
            IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
            IBV_QP_MIN_RNR_TIMER) == 0);
        attr = (struct ibv_qp_attr){
            .qp_state = IBV_QPS_RTS, .sq_psn = i, .timeout = timeout, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1,
        };
        CHECK(ibv_modify_qp(qps[i], &attr,
            IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
            IBV_QP_MAX_QP_RD_ATOMIC) == 0);
    }
    for (int i = 0; i < count; i++) {
        for (size_t word = 0; word < words; word++) {
            memory[i * words + word] = 1000000 * (word + 1) + i;
        }
        struct ibv_sge sge = {(uintptr_t)&memory[i * words], bytes, mr->lkey};
        struct ibv_send_wr send = {
            .wr_id = i, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED,
        }, *bad;
        CHECK(ibv_post_send(qps[i], &send, &bad) == 0);
    }
    int received = 0;
    for (int left = 2 * count; left > 0;) {
        struct ibv_wc wc[32];
        int polled = ibv_poll_cq(cq, 32, wc);
        CHECK(polled >= 0);
        for (int i = 0; i < polled; i++) {
            CHECK(wc[i].status == IBV_WC_SUCCESS);
            received += wc[i].opcode == IBV_WC_RECV;
        }
        left -= polled;
    }
    for (int i = 0; i < count; i++) {
        for (size_t word = 0; word < words; word++) {
            CHECK(memory[(count + i) * words + word] == 1000000 * (word + 1) + (i ^ 1));
        }
        CHECK(ibv_destroy_qp(qps[i]) == 0);
    }
    CHECK(ibv_dereg_mr(mr) == 0 && ibv_destroy_cq(cq) == 0 && ibv_dealloc_pd(pd) == 0);
    CHECK(ibv_close_device(context) == 0);
    ibv_free_device_list(list);
    printf("%d queue pairs, %d messages\n", count, received);
    return 0;
}
