/* A server offers a region of memory by librpma, and a client reads it, changes it and reads it again: what the examples
 * of librpma do, which Debian does not package. */
#include <librpma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LEN 4096
#define CHECK(call) do { int r = (call); if (r) { fprintf(stderr, #call ": %s\n", rpma_err_2str(r)); exit(1); } } while (0)

static void wait_event(struct rpma_conn *conn, enum rpma_conn_event wanted) {
    enum rpma_conn_event event;
    CHECK(rpma_conn_next_event(conn, &event));
    if (event != wanted) {
        fprintf(stderr, "event %s\n", rpma_utils_conn_event_2str(event));
        exit(1);
    }
}

static void complete(struct rpma_conn *conn) {
    struct rpma_cq *cq;
    struct ibv_wc wc;
    CHECK(rpma_conn_get_cq(conn, &cq));
    CHECK(rpma_cq_wait(cq));
    CHECK(rpma_cq_get_wc(cq, 1, &wc, NULL));
    if (wc.status != IBV_WC_SUCCESS) {
        fprintf(stderr, "completion: %d\n", wc.status);
        exit(1);
    }
}

int main(int argc, char **argv) {
    int serves = argc == 2;
    const char *address = argv[argc - 1];
    struct ibv_context *context;
    struct rpma_peer *peer;
    CHECK(rpma_utils_get_ibv_context(address, serves ? RPMA_UTIL_IBV_CONTEXT_LOCAL : RPMA_UTIL_IBV_CONTEXT_REMOTE, &context));
    CHECK(rpma_peer_new(context, &peer));
    char *memory = aligned_alloc(4096, LEN);
    memset(memory, serves ? 'a' : 0, LEN);
    int usage = serves ? RPMA_MR_USAGE_READ_SRC | RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY
                       : RPMA_MR_USAGE_READ_DST | RPMA_MR_USAGE_WRITE_SRC;
    struct rpma_mr_local *mr;
    CHECK(rpma_mr_reg(peer, memory, LEN, usage, &mr));
    struct rpma_conn_req *request;
    struct rpma_conn *conn;
    if (serves) {
        struct rpma_ep *ep;
        CHECK(rpma_ep_listen(peer, address, "7204", &ep));
        CHECK(rpma_ep_next_conn_req(ep, NULL, &request));
        char descriptor[64];
        size_t size;
        CHECK(rpma_mr_get_descriptor_size(mr, &size));
        CHECK(rpma_mr_get_descriptor(mr, descriptor));
        struct rpma_conn_private_data data = { descriptor, size };
        CHECK(rpma_conn_req_connect(&request, &data, &conn));
        wait_event(conn, RPMA_CONN_ESTABLISHED);
        wait_event(conn, RPMA_CONN_CLOSED);
        CHECK(rpma_conn_disconnect(conn));
        CHECK(rpma_conn_delete(&conn));
        printf("%s\n", memory[0] == 'b' ? "changed" : "not changed");
        CHECK(rpma_mr_dereg(&mr));
        CHECK(rpma_ep_shutdown(&ep));
    } else {
        CHECK(rpma_conn_req_new(peer, address, "7204", NULL, &request));
        CHECK(rpma_conn_req_connect(&request, NULL, &conn));
        wait_event(conn, RPMA_CONN_ESTABLISHED);
        struct rpma_conn_private_data data;
        CHECK(rpma_conn_get_private_data(conn, &data));
        struct rpma_mr_remote *remote;
        CHECK(rpma_mr_remote_from_descriptor(data.ptr, data.len, &remote));
        CHECK(rpma_read(conn, mr, 0, remote, 0, LEN, RPMA_F_COMPLETION_ALWAYS, NULL));
        complete(conn);
        int read = memory[0] == 'a' && memory[LEN - 1] == 'a';
        memset(memory, 'b', LEN);
        CHECK(rpma_write(conn, remote, 0, mr, 0, LEN, RPMA_F_COMPLETION_ON_ERROR, NULL));
        CHECK(rpma_flush(conn, remote, 0, LEN, RPMA_FLUSH_TYPE_VISIBILITY, RPMA_F_COMPLETION_ALWAYS, NULL));
        complete(conn);
        memset(memory, 0, LEN);
        CHECK(rpma_read(conn, mr, 0, remote, 0, LEN, RPMA_F_COMPLETION_ALWAYS, NULL));
        complete(conn);
        printf("%s\n", read && memory[0] == 'b' && memory[LEN - 1] == 'b' ? "read, written and flushed" : "wrong bytes");
        CHECK(rpma_conn_disconnect(conn));
        wait_event(conn, RPMA_CONN_CLOSED);
        CHECK(rpma_mr_remote_delete(&remote));
        CHECK(rpma_conn_delete(&conn));
        CHECK(rpma_mr_dereg(&mr));
    }
    CHECK(rpma_peer_delete(&peer));
    return 0;
}
