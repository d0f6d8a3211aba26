/*
 * Peers that only wait, and processes that end in several ways.
 *
 *   deaths server ADDRESS PORT COUNT         accepts, and prints the events until all connections have ended
 *   deaths client ADDRESS PORT COUNT HOW     connects; HOW: wait for ever, exit, or fork children that end
 *   deaths listen ADDRESS PORT               listens, and nothing else
 */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define MUST(condition) \
    do { \
        if (!(condition)) { \
            printf("line %d: not %s (errno %d)\n", __LINE__, #condition, errno); \
            exit(1); \
        } \
    } while (0)

static char memory[64];

static void make_qp(struct rdma_cm_id *id)
{
    struct ibv_qp_init_attr attr = {
        .qp_type = IBV_QPT_RC,
        .cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
    };

    MUST(rdma_create_qp(id, NULL, &attr) == 0);
}

static struct rdma_cm_event *next(struct rdma_event_channel *channel)
{
    struct rdma_cm_event *event;

    MUST(rdma_get_cm_event(channel, &event) == 0);
    return event;
}

static void server(struct rdma_event_channel *channel, struct rdma_cm_id *id, struct sockaddr_in *sin, int count)
{
    struct rdma_cm_id *with_message = NULL;
    struct rdma_conn_param param = { .retry_count = 7 };
    int left = count;

    MUST(rdma_bind_addr(id, (struct sockaddr *)sin) == 0);
    MUST(rdma_listen(id, 1024) == 0);
    puts("listens");
    while (left) {
        struct pollfd fd = { .fd = channel->fd, .events = POLLIN };
        struct ibv_wc wc;

        if (poll(&fd, 1, 10) == 1) {
            struct rdma_cm_event *event = next(channel);
            struct rdma_cm_id *peer = event->id;
            int kind = event->event, status = event->status;

            if (kind == RDMA_CM_EVENT_CONNECT_REQUEST) {
                make_qp(peer);
                if (!with_message) {
                    struct ibv_mr *mr = rdma_reg_msgs(peer, memory, sizeof(memory));

                    MUST(mr && rdma_post_recv(peer, NULL, memory, sizeof(memory), mr) == 0);
                    with_message = peer;
                }
                MUST(rdma_accept(peer, &param) == 0);
            }
            MUST(rdma_ack_cm_event(event) == 0);
            if (kind == RDMA_CM_EVENT_DISCONNECTED) {
                printf("disconnected, status %d\n", status);
                left--;
            }
        } else if (with_message && ibv_poll_cq(with_message->recv_cq, 1, &wc) == 1) {
            printf("message, status %d\n", wc.status);
        }
    }
    puts("all have ended");
    /* Without the functions that end connections. */
    _exit(0);
}

static struct rdma_cm_id *connected(struct rdma_event_channel *channel, struct sockaddr_in *sin)
{
    static const int steps[] = {
        RDMA_CM_EVENT_ADDR_RESOLVED, RDMA_CM_EVENT_ROUTE_RESOLVED, RDMA_CM_EVENT_ESTABLISHED,
    };
    struct rdma_conn_param param = { .retry_count = 7, .rnr_retry_count = 7 };
    struct rdma_cm_id *id;

    MUST(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) == 0);
    MUST(rdma_resolve_addr(id, NULL, (struct sockaddr *)sin, 2000) == 0);
    for (int at = 0; at < 3; at++) {
        struct rdma_cm_event *event = next(channel);

        MUST((int)event->event == steps[at]);
        MUST(rdma_ack_cm_event(event) == 0);
        if (at == 0)
            MUST(rdma_resolve_route(id, 2000) == 0);
        if (at == 1) {
            make_qp(id);
            MUST(rdma_connect(id, &param) == 0);
        }
    }
    return id;
}

static void ended(pid_t child)
{
    int status;

    MUST(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* A child that exits, one that runs another program, and one that does so without a copy of the memory. */
static void children(void)
{
    pid_t child = fork();

    if (child == 0)
        exit(0);
    ended(child);
    child = fork();
    if (child == 0) {
        execl("/bin/true", "true", (char *)NULL);
        _exit(1);
    }
    ended(child);
    MUST(system("true") == 0);
}

int main(int argc, char **argv)
{
    struct rdma_event_channel *channel = rdma_create_event_channel();
    struct rdma_cm_id *id;

    setbuf(stdout, NULL);
    MUST(argc >= 4 && channel);
    struct sockaddr_in sin = { .sin_family = AF_INET, .sin_port = htons(atoi(argv[3])) };

    MUST(inet_pton(AF_INET, argv[2], &sin.sin_addr) == 1);

    if (!strcmp(argv[1], "client")) {
        const char *how = argv[5];

        for (int left = atoi(argv[4]); left; left--)
            id = connected(channel, &sin);
        puts("connected");
        if (!strcmp(how, "exit"))
            exit(0);
        if (!strcmp(how, "fork")) {
            struct ibv_mr *mr = rdma_reg_msgs(id, memory, sizeof(memory));
            struct ibv_wc wc;

            children();
            MUST(mr && rdma_post_send(id, NULL, memory, 8, mr, IBV_SEND_SIGNALED) == 0);
            MUST(rdma_get_send_comp(id, &wc) == 1 && wc.status == IBV_WC_SUCCESS);
            puts("the children have ended");
        }
        for (;;)
            pause();
    }
    MUST(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) == 0);
    if (!strcmp(argv[1], "server"))
        server(channel, id, &sin, atoi(argv[4]));
    MUST(rdma_bind_addr(id, (struct sockaddr *)&sin) == 0 && rdma_listen(id, 1) == 0);
    puts("listens");
    for (;;)
        pause();
}
