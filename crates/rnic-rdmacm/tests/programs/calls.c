/* Calls librdmacm in right and in wrong ways, and says which answer was not expected. */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "checks.h"

#define ADDRESS(ip, port) ((struct sockaddr *)(struct sockaddr_in[]){ address(ip, port) })

/* The next event of a channel, which must be of this kind. */
static struct rdma_cm_event *next(struct rdma_event_channel *channel, enum rdma_cm_event_type kind)
{
    struct pollfd fd = { .fd = channel->fd, .events = POLLIN };
    struct rdma_cm_event *event = NULL;

    CHECK(poll(&fd, 1, 30000) == 1);
    if (rdma_get_cm_event(channel, &event)) {
        printf("no event of kind %d\n", kind);
        exit(1);
    }
    if (event->event != kind) {
        printf("the event is %s, not %s\n", rdma_event_str(event->event), rdma_event_str(kind));
        exit(1);
    }
    return event;
}

static void ack(struct rdma_cm_event *event)
{
    CHECK(rdma_ack_cm_event(event) == 0);
}

static void resolve(struct rdma_cm_id *id, struct rdma_event_channel *channel, int port)
{
    CHECK(rdma_resolve_addr(id, NULL, ADDRESS("127.0.0.1", port), 1000) == 0);
    ack(next(channel, RDMA_CM_EVENT_ADDR_RESOLVED));
    CHECK(rdma_resolve_route(id, 1000) == 0);
    ack(next(channel, RDMA_CM_EVENT_ROUTE_RESOLVED));
}

static void attributes(struct ibv_qp_init_attr *attr)
{
    memset(attr, 0, sizeof(*attr));
    attr->qp_type = IBV_QPT_RC;
    attr->cap.max_send_wr = attr->cap.max_recv_wr = 4;
    attr->cap.max_send_sge = attr->cap.max_recv_sge = 1;
}

static void identifiers(void)
{
    struct rdma_event_channel *channel = rdma_create_event_channel();
    struct rdma_cm_event *event;
    struct rdma_cm_id *a, *b, *c;
    struct sockaddr_in6 any = { .sin6_family = AF_INET6 };
    int on = 1;
    uint8_t tos = 8, timeout = 32;

    CHECK(channel && channel->fd > 2);
    REFUSED(rdma_create_id(channel, &a, NULL, 0x1234), EPROTONOSUPPORT);
    CHECK(rdma_create_id(channel, &a, &on, RDMA_PS_TCP) == 0);
    CHECK(a->context == &on && a->channel == channel && a->ps == RDMA_PS_TCP && !a->verbs && !a->qp);
    CHECK(rdma_get_src_port(a) == 0 && rdma_get_dst_port(a) == 0);
    REFUSED(rdma_bind_addr(a, ADDRESS("192.0.2.1", 5)), EADDRNOTAVAIL);
    CHECK(rdma_bind_addr(a, ADDRESS("127.0.0.1", 7000)) == 0);
    REFUSED(rdma_bind_addr(a, ADDRESS("127.0.0.1", 7001)), EINVAL);
    CHECK(a->verbs && a->pd && a->port_num == 1 && ntohs(rdma_get_src_port(a)) == 7000);
    /* A child destroys the identifier, as handlers may do that run when it exits, and has devices of its own. */
    pid_t child = fork();
    if (child == 0) {
        alarm(60);
        wrong |= rdma_destroy_id(a) != 0;
        struct rdma_event_channel *own = rdma_create_event_channel();
        wrong |= rdma_create_id(own, &b, NULL, RDMA_PS_TCP) != 0;
        CHECK(rdma_resolve_addr(b, NULL, ADDRESS("127.0.0.1", 7002), 1000) == 0);
        struct rdma_cm_event *event;
        CHECK(rdma_get_cm_event(own, &event) == 0 && event->event == RDMA_CM_EVENT_ADDR_RESOLVED);
        CHECK(rdma_ack_cm_event(event) == 0 && rdma_destroy_id(b) == 0);
        rdma_destroy_event_channel(own);
        exit(wrong);
    }
    int status = -1;
    CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    CHECK(rdma_create_id(channel, &b, NULL, RDMA_PS_TCP) == 0);
    REFUSED(rdma_bind_addr(b, ADDRESS("0.0.0.0", 7000)), EADDRINUSE);
    CHECK(rdma_bind_addr(b, ADDRESS("0.0.0.0", 0)) == 0);
    CHECK(!b->verbs && ntohs(rdma_get_src_port(b)) >= 32768);
    /* No device has an IPv6 address. An identifier may listen at all of them nevertheless. */
    CHECK(rdma_create_id(channel, &c, NULL, RDMA_PS_TCP) == 0);
    CHECK(rdma_set_option(c, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &on, sizeof(on)) == 0);
    CHECK(rdma_bind_addr(c, (struct sockaddr *)&any) == 0 && ntohs(rdma_get_src_port(c)) >= 32768);
    CHECK(rdma_listen(c, 1) == 0 && rdma_destroy_id(c) == 0);
    /* With IPv4 addresses too the port is that of `a`. */
    CHECK(rdma_create_id(channel, &c, NULL, RDMA_PS_TCP) == 0);
    any.sin6_port = htons(7000);
    REFUSED(rdma_bind_addr(c, (struct sockaddr *)&any), EADDRINUSE);
    CHECK(rdma_destroy_id(c) == 0);
    /* Another port space has ports of its own. */
    CHECK(rdma_create_id(channel, &c, NULL, RDMA_PS_UDP) == 0 && c->qp_type == IBV_QPT_UD);
    CHECK(rdma_bind_addr(c, ADDRESS("127.0.0.1", 7000)) == 0);
    CHECK(rdma_destroy_id(c) == 0 && rdma_destroy_id(a) == 0);
    /* The port is free again. */
    CHECK(rdma_create_id(channel, &a, NULL, RDMA_PS_TCP) == 0);
    CHECK(rdma_bind_addr(a, ADDRESS("127.0.0.1", 7000)) == 0);

    CHECK(rdma_set_option(a, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, 1) == 0);
    CHECK(rdma_set_option(a, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &on, sizeof(on)) == 0);
    REFUSED(rdma_set_option(a, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &on, sizeof(on)), EINVAL);
    REFUSED(rdma_set_option(a, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout, 1), EINVAL);
    REFUSED(rdma_set_option(a, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, &on, sizeof(on)), EOPNOTSUPP);
    REFUSED(rdma_join_multicast(a, ADDRESS("239.1.1.1", 0), NULL), EOPNOTSUPP);
    REFUSED(rdma_connect(a, NULL), EINVAL);
    REFUSED(rdma_accept(a, NULL), EINVAL);
    REFUSED(rdma_reject(a, NULL, 0), EINVAL);
    REFUSED(rdma_disconnect(a), EINVAL);
    REFUSED(rdma_resolve_route(a, 1), EINVAL);
    REFUSED(rdma_notify(a, IBV_EVENT_PORT_ERR), EINVAL);

    /* A non-blocking channel without events. */
    CHECK(fcntl(channel->fd, F_SETFL, O_NONBLOCK) == 0);
    REFUSED(rdma_get_cm_event(channel, &event), EAGAIN);
    /* The host has no listener. */
    CHECK(rdma_resolve_addr(b, NULL, ADDRESS("127.0.0.1", 7999), 1000) == 0);
    ack(next(channel, RDMA_CM_EVENT_ADDR_RESOLVED));
    CHECK(b->verbs == a->verbs);
    CHECK(rdma_destroy_id(a) == 0 && rdma_destroy_id(b) == 0);
    REFUSED(rdma_get_cm_event(channel, &event), EAGAIN);
    rdma_destroy_event_channel(channel);
    CHECK(!strcmp(rdma_event_str(RDMA_CM_EVENT_DISCONNECTED), "RDMA_CM_EVENT_DISCONNECTED"));
}

/* Both ends of a connection in one process. */
static void connections(void)
{
    struct rdma_event_channel *server = rdma_create_event_channel(), *client = rdma_create_event_channel();
    struct rdma_cm_id *listener, *a, *b;
    struct rdma_conn_param param = { .private_data = "hello", .private_data_len = 5, .responder_resources = 2,
                                     .initiator_depth = 3, .retry_count = 5, .rnr_retry_count = 6 };
    struct ibv_qp_init_attr attr, init;
    struct rdma_cm_event *event;
    struct ibv_qp_attr qp;
    struct ibv_wc wc;
    struct ibv_mr *mr;
    char buffer[64] = "to the other end";
    int mask;

    CHECK(rdma_create_id(server, &listener, &server, RDMA_PS_TCP) == 0);
    CHECK(rdma_bind_addr(listener, ADDRESS("0.0.0.0", 7100)) == 0);
    CHECK(rdma_listen(listener, 5) == 0);
    REFUSED(rdma_listen(listener, 5), EINVAL);

    /* The port has no listener; then the listener refuses. */
    CHECK(rdma_create_id(client, &a, NULL, RDMA_PS_TCP) == 0);
    resolve(a, client, 7101);
    CHECK(a->route.num_paths == 1 && a->route.path_rec->mtu == IBV_MTU_4096);
    attributes(&attr);
    CHECK(rdma_create_qp(a, NULL, &attr) == 0);
    CHECK(a->qp && a->pd && a->send_cq && a->recv_cq_channel && a->qp->state == IBV_QPS_INIT);
    REFUSED(rdma_create_qp(a, NULL, &attr), EINVAL);
    param.private_data_len = 57;
    REFUSED(rdma_connect(a, &param), EINVAL);
    param.private_data_len = 5;
    CHECK(rdma_connect(a, &param) == 0);
    event = next(client, RDMA_CM_EVENT_REJECTED);
    CHECK(event->status == 8 && event->id == a);
    ack(event);
    rdma_destroy_qp(a);
    CHECK(rdma_destroy_id(a) == 0);

    CHECK(rdma_create_id(client, &a, NULL, RDMA_PS_TCP) == 0);
    resolve(a, client, 7100);
    attributes(&attr);
    CHECK(rdma_create_qp(a, NULL, &attr) == 0);
    CHECK(rdma_connect(a, &param) == 0);
    event = next(server, RDMA_CM_EVENT_CONNECT_REQUEST);
    b = event->id;
    CHECK(event->listen_id == listener && b->context == &server && b->verbs == a->verbs);
    CHECK(event->param.conn.private_data_len == 56 && !memcmp(event->param.conn.private_data, "hello", 6));
    /* What the client responds to is what the server may ask for. */
    CHECK(event->param.conn.initiator_depth == 2 && event->param.conn.responder_resources == 3);
    CHECK(event->param.conn.retry_count == 5 && event->param.conn.rnr_retry_count == 6);
    CHECK(event->param.conn.qp_num == a->qp->qp_num);
    CHECK(rdma_get_dst_port(b) == rdma_get_src_port(a) && rdma_get_src_port(b) == htons(7100));
    CHECK(((struct sockaddr_in *)rdma_get_peer_addr(b))->sin_addr.s_addr == htonl(INADDR_LOOPBACK));
    ack(event);
    CHECK(rdma_reject(b, "no", 2) == 0);
    CHECK(rdma_destroy_id(b) == 0);
    event = next(client, RDMA_CM_EVENT_REJECTED);
    CHECK(event->status == 28 && !memcmp(event->param.conn.private_data, "no", 3));
    CHECK(event->param.conn.private_data_len == 148);
    ack(event);
    rdma_destroy_qp(a);
    CHECK(rdma_destroy_id(a) == 0);

    /* Accepted. */
    CHECK(rdma_create_id(client, &a, NULL, RDMA_PS_TCP) == 0);
    resolve(a, client, 7100);
    attributes(&attr);
    CHECK(rdma_create_qp(a, NULL, &attr) == 0);
    CHECK(rdma_connect(a, &param) == 0);
    event = next(server, RDMA_CM_EVENT_CONNECT_REQUEST);
    b = event->id;
    ack(event);
    attributes(&attr);
    CHECK(rdma_create_qp(b, NULL, &attr) == 0);
    mr = rdma_reg_msgs(b, buffer, sizeof(buffer));
    CHECK(mr && rdma_post_recv(b, NULL, buffer + 32, 32, mr) == 0);
    param.private_data = "answer";
    param.private_data_len = 6;
    CHECK(rdma_accept(b, &param) == 0);
    event = next(client, RDMA_CM_EVENT_ESTABLISHED);
    CHECK(event->param.conn.private_data_len == 196 && !memcmp(event->param.conn.private_data, "answer", 7));
    CHECK(event->param.conn.qp_num == b->qp->qp_num);
    ack(event);
    event = next(server, RDMA_CM_EVENT_ESTABLISHED);
    CHECK(event->param.conn.private_data_len == 0 && !event->param.conn.private_data);
    ack(event);
    CHECK(ibv_query_qp(a->qp, &qp, 0, &init) == 0 && qp.qp_state == IBV_QPS_RTS);
    CHECK(qp.dest_qp_num == b->qp->qp_num && qp.retry_cnt == 5 && qp.max_dest_rd_atomic == 2 && qp.max_rd_atomic == 2);
    qp.qp_state = IBV_QPS_RTS;
    CHECK(rdma_init_qp_attr(a, &qp, &mask) == 0 && mask & IBV_QP_SQ_PSN && qp.qp_state == IBV_QPS_RTS);
    qp.qp_state = IBV_QPS_SQD;
    REFUSED(rdma_init_qp_attr(a, &qp, &mask), EINVAL);
    {
        struct ibv_mr *own = rdma_reg_msgs(a, buffer, 32);

        CHECK(own && rdma_post_send(a, NULL, buffer, 17, own, IBV_SEND_SIGNALED) == 0);
        CHECK(rdma_get_send_comp(a, &wc) == 1 && wc.status == IBV_WC_SUCCESS);
        CHECK(rdma_get_recv_comp(b, &wc) == 1 && wc.byte_len == 17 && !strcmp(buffer + 32, "to the other end"));
        CHECK(rdma_dereg_mr(own) == 0);
    }
    /* The events of an identifier follow it to another channel. */
    CHECK(rdma_migrate_id(b, client) == 0 && b->channel == client);
    CHECK(rdma_disconnect(a) == 0);
    for (mask = 0; mask < 2; mask++)
        ack(next(client, RDMA_CM_EVENT_DISCONNECTED));
    CHECK(rdma_disconnect(b) == 0);
    for (mask = 0; mask < 2; mask++)
        ack(next(client, RDMA_CM_EVENT_TIMEWAIT_EXIT));
    CHECK(rdma_dereg_mr(mr) == 0);
    rdma_destroy_qp(a);
    rdma_destroy_qp(b);
    CHECK(!a->qp && !a->send_cq && !a->recv_cq_channel);
    CHECK(rdma_destroy_id(a) == 0 && rdma_destroy_id(b) == 0 && rdma_destroy_id(listener) == 0);
    rdma_destroy_event_channel(server);
    rdma_destroy_event_channel(client);
}

/* Calls without channels wait. */
static void *serve(void *listener)
{
    struct rdma_cm_id *id;

    CHECK(rdma_get_request(listener, &id) == 0);
    CHECK(id->event && id->event->event == RDMA_CM_EVENT_CONNECT_REQUEST && id->qp && id->channel != NULL);
    CHECK(rdma_accept(id, NULL) == 0);
    CHECK(rdma_disconnect(id) == 0);
    rdma_destroy_ep(id);
    return NULL;
}

static void endpoints(void)
{
    struct rdma_addrinfo hints = { .ai_port_space = RDMA_PS_TCP, .ai_flags = RAI_PASSIVE }, *info;
    struct rdma_cm_id *listener, *id;
    struct ibv_qp_init_attr attr;
    struct ibv_context **devices;
    pthread_t thread;
    int count = 0;

    CHECK(rdma_getaddrinfo("127.0.0.1", "7200", &hints, &info) == 0);
    CHECK(info->ai_src_len == sizeof(struct sockaddr_in) && !info->ai_dst_addr && info->ai_qp_type == IBV_QPT_RC);
    attributes(&attr);
    CHECK(rdma_create_ep(&listener, info, NULL, &attr) == 0);
    rdma_freeaddrinfo(info);
    CHECK(rdma_listen(listener, 0) == 0);
    pthread_create(&thread, NULL, serve, listener);

    hints.ai_flags = RAI_NUMERICHOST;
    CHECK(rdma_getaddrinfo("no such host", "7200", &hints, &info) == -1);
    hints.ai_family = AF_INET6;
    CHECK(rdma_getaddrinfo("127.0.0.1", "7201", &hints, &info) == -1);
    hints.ai_family = AF_INET;
    CHECK(rdma_getaddrinfo("127.0.0.1", "7201", &hints, &info) == 0);
    CHECK(info->ai_dst_len == sizeof(struct sockaddr_in) && info->ai_family == AF_INET);
    attributes(&attr);
    CHECK(rdma_create_ep(&id, info, NULL, &attr) == 0);
    REFUSED(rdma_connect(id, NULL), ECONNREFUSED);
    rdma_destroy_ep(id);
    /* A refused queue pair leaves no queues, neither at the identifier nor in the attributes. */
    CHECK(rdma_create_ep(&id, info, NULL, NULL) == 0);
    attributes(&attr);
    struct ibv_qp_init_attr_ex extended = {
        .qp_type = IBV_QPT_RC, .cap = attr.cap, .comp_mask = IBV_QP_INIT_ATTR_CREATE_FLAGS, .create_flags = 1 << 30,
    };
    attr.qp_type = IBV_QPT_RAW_PACKET;
    REFUSED(rdma_create_qp(id, NULL, &attr), EOPNOTSUPP);
    CHECK(!attr.send_cq && !attr.recv_cq && !id->send_cq && !id->recv_cq && !id->recv_cq_channel);
    REFUSED(rdma_create_qp_ex(id, &extended), EOPNOTSUPP);
    CHECK(!extended.send_cq && !extended.recv_cq && !extended.pd && !id->send_cq && !id->recv_cq);
    attr.qp_type = IBV_QPT_RC;
    CHECK(rdma_create_qp(id, NULL, &attr) == 0 && attr.send_cq == id->send_cq && attr.recv_cq == id->recv_cq);
    rdma_destroy_ep(id);
    ((struct sockaddr_in *)info->ai_dst_addr)->sin_port = htons(7200);
    attributes(&attr);
    CHECK(rdma_create_ep(&id, info, NULL, &attr) == 0);
    rdma_freeaddrinfo(info);
    CHECK(rdma_connect(id, NULL) == 0 && id->event->event == RDMA_CM_EVENT_ESTABLISHED);
    CHECK(rdma_disconnect(id) == 0);
    rdma_destroy_ep(id);
    pthread_join(thread, NULL);
    rdma_destroy_ep(listener);

    devices = rdma_get_devices(&count);
    CHECK(devices && count == 1 && devices[0] && !devices[1]);
    rdma_free_devices(devices);
}

/* Pointers to what was freed, or never was. */
static void freed(void)
{
    struct rdma_event_channel *channel = rdma_create_event_channel();
    struct rdma_cm_event *event;
    struct rdma_cm_id *ids[3], *other;
    struct ibv_qp_init_attr attr;
    struct ibv_qp_attr qp = { .qp_state = IBV_QPS_INIT };
    int mask, on = 1;

    CHECK(rdma_create_id(channel, &ids[0], NULL, RDMA_PS_TCP) == 0);
    CHECK(rdma_resolve_addr(ids[0], NULL, ADDRESS("127.0.0.1", 7999), 1000) == 0);
    event = next(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
    ack(event);
    REFUSED(rdma_ack_cm_event(event), EINVAL);
    REFUSED(rdma_ack_cm_event(NULL), EINVAL);
    CHECK(rdma_destroy_id(ids[0]) == 0);
    ids[1] = (struct rdma_cm_id *)(((char *)channel) + 3);
    ids[2] = NULL;
    attributes(&attr);
    for (int i = 0; i < 3; i++) {
        REFUSED(rdma_destroy_id(ids[i]), EINVAL);
        REFUSED(rdma_bind_addr(ids[i], ADDRESS("127.0.0.1", 1)), EINVAL);
        REFUSED(rdma_resolve_addr(ids[i], NULL, ADDRESS("127.0.0.1", 1), 1), EINVAL);
        REFUSED(rdma_resolve_route(ids[i], 1), EINVAL);
        REFUSED(rdma_listen(ids[i], 1), EINVAL);
        REFUSED(rdma_connect(ids[i], NULL), EINVAL);
        REFUSED(rdma_accept(ids[i], NULL), EINVAL);
        REFUSED(rdma_establish(ids[i]), EINVAL);
        REFUSED(rdma_reject(ids[i], NULL, 0), EINVAL);
        REFUSED(rdma_notify(ids[i], IBV_EVENT_COMM_EST), EINVAL);
        REFUSED(rdma_disconnect(ids[i]), EINVAL);
        REFUSED(rdma_create_qp(ids[i], NULL, &attr), EINVAL);
        REFUSED(rdma_init_qp_attr(ids[i], &qp, &mask), EINVAL);
        REFUSED(rdma_set_option(ids[i], RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &on, sizeof(on)), EINVAL);
        REFUSED(rdma_migrate_id(ids[i], channel), EINVAL);
        REFUSED(rdma_get_request(ids[i], &other), EINVAL);
        CHECK(rdma_get_src_port(ids[i]) == 0 && rdma_get_dst_port(ids[i]) == 0);
        rdma_destroy_qp(ids[i]);
        rdma_destroy_srq(ids[i]);
        rdma_destroy_ep(ids[i]);
    }
    rdma_destroy_event_channel(channel);
    rdma_destroy_event_channel(channel);
    REFUSED(rdma_get_cm_event(channel, &event), EINVAL);
    REFUSED(rdma_create_id(channel, &other, NULL, RDMA_PS_TCP), EINVAL);
}

/* The library's threads, which run by now, take no signal that the program has blocked in its own. */
static void signals(void)
{
    int numbers[] = { SIGUSR1, SIGUSR2, SIGTERM, SIGALRM, SIGRTMIN };
    struct timespec wait = { .tv_sec = 30 };
    sigset_t all;

    sigfillset(&all);
    CHECK(pthread_sigmask(SIG_SETMASK, &all, NULL) == 0);
    for (unsigned i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        CHECK(kill(getpid(), numbers[i]) == 0);
        CHECK(sigtimedwait(&all, NULL, &wait) == numbers[i]);
    }
}

int main(void)
{
    identifiers();
    freed();
    connections();
    endpoints();
    signals();
    if (!wrong)
        printf("all answers are right\n");
    return wrong;
}
