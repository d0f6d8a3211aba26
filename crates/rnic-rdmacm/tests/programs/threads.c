/* Uses identifiers from several threads at the same time: some threads take events and acknowledge them, while others
 * connect identifiers, and destroy them at any step. Each part has a number of rounds, so that it takes seconds. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "checks.h"

#define ADDRESS(port) ((struct sockaddr *)(struct sockaddr_in[]){ address("127.0.0.1", port) })

enum { ROUNDS = 15, LISTENERS = 30, PORT = 7300 };

static pthread_t start(void *(*run)(void *), void *argument)
{
    pthread_t thread;

    if (pthread_create(&thread, NULL, run, argument))
        abort();
    return thread;
}

static void attributes(struct ibv_qp_init_attr *attr)
{
    memset(attr, 0, sizeof(*attr));
    attr->qp_type = IBV_QPT_RC;
    attr->cap.max_send_wr = attr->cap.max_recv_wr = 4;
    attr->cap.max_send_sge = attr->cap.max_recv_sge = 1;
}

/* A channel that several threads may poll. */
static struct rdma_event_channel *new_channel(void)
{
    struct rdma_event_channel *channel = rdma_create_event_channel();

    CHECK(channel && fcntl(channel->fd, F_SETFL, O_NONBLOCK) == 0);
    return channel;
}

/* The next event of a channel, or null after a while. */
static struct rdma_cm_event *next(struct rdma_event_channel *channel)
{
    struct pollfd fd = { .fd = channel->fd, .events = POLLIN };
    struct rdma_cm_event *event = NULL;

    if (poll(&fd, 1, 10) == 1 && rdma_get_cm_event(channel, &event))
        CHECK(errno == EAGAIN);
    return event;
}

static atomic_int has_ended;

/* The server accepts all connections, and destroys those that end. */
static void *serve(void *argument)
{
    struct rdma_event_channel *channel = argument;

    while (!atomic_load(&has_ended)) {
        struct rdma_cm_event *event = next(channel);
        struct ibv_qp_init_attr attr;
        struct rdma_cm_id *id;
        int kind;

        if (!event)
            continue;
        id = event->id;
        kind = event->event;
        if (kind == RDMA_CM_EVENT_CONNECT_REQUEST) {
            attributes(&attr);
            CHECK(rdma_create_qp(id, NULL, &attr) == 0);
            /* The client may have ended. */
            if (rdma_accept(id, NULL))
                kind = RDMA_CM_EVENT_DISCONNECTED;
        }
        rdma_ack_cm_event(event);
        if (kind != RDMA_CM_EVENT_CONNECT_REQUEST && kind != RDMA_CM_EVENT_ESTABLISHED &&
            kind != RDMA_CM_EVENT_TIMEWAIT_EXIT) {
            rdma_destroy_qp(id);
            CHECK(rdma_destroy_id(id) == 0);
        }
    }
    return NULL;
}

/* What a client knows of its identifier. */
struct client {
    /* The event that it has got last, plus 1. */
    atomic_int last;
    /* Whether a thread has an event of it. */
    atomic_int held;
};

/* Takes the events of all clients. */
static void *take(void *argument)
{
    struct rdma_event_channel *channel = argument;

    while (!atomic_load(&has_ended)) {
        struct rdma_cm_event *event = next(channel);
        struct client *client;

        if (!event)
            continue;
        client = event->id->context;
        atomic_fetch_add(&client->held, 1);
        if (event->event != RDMA_CM_EVENT_TIMEWAIT_EXIT)
            atomic_store(&client->last, event->event + 1);
        sched_yield();
        atomic_fetch_sub(&client->held, 1);
        CHECK(rdma_ack_cm_event(event) == 0);
    }
    return NULL;
}

static void pause_briefly(void)
{
    struct timespec millisecond = { .tv_nsec = 1000000 };

    nanosleep(&millisecond, NULL);
}

static int await(struct client *client, enum rdma_cm_event_type kind)
{
    for (int turn = 0; turn < 60000; turn++) {
        int last = atomic_load(&client->last);

        if (last == (int)kind + 1)
            return 1;
        if (last == RDMA_CM_EVENT_UNREACHABLE + 1 || last == RDMA_CM_EVENT_CONNECT_ERROR + 1)
            break;
        pause_briefly();
    }
    printf("%s after %s\n", rdma_event_str(atomic_load(&client->last) - 1), rdma_event_str(kind));
    return 0;
}

static struct rdma_event_channel *channels[2];

/* Connects and destroys identifiers: at once, while the connection is set up, or after its end. */
static void *drive(void *none)
{
    (void)none;
    for (int round = 0; round < ROUNDS; round++) {
        struct client *client = calloc(1, sizeof(*client));
        struct rdma_cm_id *id;
        struct ibv_qp_init_attr attr;

        CHECK(rdma_create_id(channels[0], &id, client, RDMA_PS_TCP) == 0);
        CHECK(rdma_resolve_addr(id, NULL, ADDRESS(PORT), 1000) == 0);
        if (round % 3 == 0)
            goto destroy;
        CHECK(await(client, RDMA_CM_EVENT_ADDR_RESOLVED));
        CHECK(rdma_migrate_id(id, channels[round & 1]) == 0);
        CHECK(rdma_resolve_route(id, 1000) == 0);
        CHECK(rdma_migrate_id(id, channels[round >> 1 & 1]) == 0);
        CHECK(await(client, RDMA_CM_EVENT_ROUTE_RESOLVED));
        attributes(&attr);
        CHECK(rdma_create_qp(id, NULL, &attr) == 0);
        CHECK(rdma_connect(id, NULL) == 0);
        if (round % 3 == 1) {
            /* The event may be in the hands of a thread, which connects the queue pair. */
            for (int spin = 0; spin < round; spin++)
                sched_yield();
            goto destroy;
        }
        CHECK(await(client, RDMA_CM_EVENT_ESTABLISHED));
        CHECK(rdma_disconnect(id) == 0);
        CHECK(await(client, RDMA_CM_EVENT_DISCONNECTED));
destroy:
        rdma_destroy_qp(id);
        CHECK(rdma_destroy_id(id) == 0);
        /* No thread has an event of it any more. */
        CHECK(atomic_load(&client->held) == 0);
        free(client);
    }
    return NULL;
}

static void connections(void)
{
    struct rdma_event_channel *channel = new_channel();
    pthread_t threads[5];
    struct rdma_cm_id *listener;

    atomic_store(&has_ended, 0);
    for (int i = 0; i < 2; i++)
        channels[i] = new_channel();
    CHECK(rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP) == 0);
    CHECK(rdma_bind_addr(listener, ADDRESS(PORT)) == 0 && rdma_listen(listener, 16) == 0);
    threads[0] = start(serve, channel);
    for (int i = 0; i < 2; i++)
        threads[1 + i] = start(take, channels[i]);
    for (int i = 0; i < 2; i++)
        threads[3 + i] = start(drive, NULL);
    pthread_join(threads[3], NULL);
    pthread_join(threads[4], NULL);
    atomic_store(&has_ended, 1);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    CHECK(rdma_destroy_id(listener) == 0);
    rdma_destroy_event_channel(channel);
    for (int i = 0; i < 2; i++)
        rdma_destroy_event_channel(channels[i]);
}

/* A client that takes back its request is no event of the listener, whether the request was seen or not. */
static void withdrawn(void)
{
    struct rdma_event_channel *channel = new_channel(), *of_client = new_channel();
    struct rdma_conn_param param = { .qp_num = 2 };
    struct rdma_cm_id *listener;

    CHECK(rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP) == 0);
    CHECK(rdma_bind_addr(listener, ADDRESS(PORT)) == 0 && rdma_listen(listener, 16) == 0);
    for (int round = 0; round < 4; round++) {
        struct pollfd fd = { .fd = channel->fd, .events = POLLIN };
        struct rdma_cm_event *event = NULL;
        struct rdma_cm_id *client, *id = NULL;

        CHECK(rdma_create_id(NULL, &client, NULL, RDMA_PS_TCP) == 0);
        CHECK(rdma_resolve_addr(client, NULL, ADDRESS(PORT), 1000) == 0 && rdma_resolve_route(client, 1000) == 0);
        CHECK(rdma_migrate_id(client, of_client) == 0 && rdma_connect(client, &param) == 0);
        CHECK(poll(&fd, 1, 10000) == 1);
        if (round & 1) {
            CHECK(rdma_get_cm_event(channel, &event) == 0 && event->event == RDMA_CM_EVENT_CONNECT_REQUEST);
            id = event->id;
            CHECK(id != listener && rdma_ack_cm_event(event) == 0);
        }
        CHECK(rdma_destroy_id(client) == 0);
        for (int turn = 0; turn < 30; turn++) {
            event = next(channel);
            if (!event)
                continue;
            CHECK(event->id != listener);
            if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST)
                id = event->id;
            CHECK(rdma_ack_cm_event(event) == 0);
        }
        if (id)
            CHECK(rdma_destroy_id(id) == 0);
    }
    CHECK(rdma_destroy_id(listener) == 0);
    rdma_destroy_event_channel(channel);
    rdma_destroy_event_channel(of_client);
}

/* Takes requests for connections, and refuses them. */
static void *refuse(void *argument)
{
    struct rdma_event_channel *channel = argument;

    while (!atomic_load(&has_ended)) {
        struct rdma_cm_event *event = next(channel);
        struct rdma_cm_id *id;

        if (!event)
            continue;
        id = event->id;
        CHECK(event->event == RDMA_CM_EVENT_CONNECT_REQUEST);
        rdma_reject(id, NULL, 0);
        CHECK(rdma_ack_cm_event(event) == 0 && rdma_destroy_id(id) == 0);
    }
    return NULL;
}

static atomic_int attempts;

/* Connects again and again. No attempt waits for a listener that is destroyed. */
static void *attempt(void *none)
{
    (void)none;
    while (!atomic_load(&has_ended)) {
        struct rdma_conn_param param = { .qp_num = 2 };
        struct timespec before, after;
        struct rdma_cm_id *id;

        CHECK(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP) == 0);
        CHECK(rdma_resolve_addr(id, NULL, ADDRESS(PORT), 1000) == 0 && rdma_resolve_route(id, 1000) == 0);
        clock_gettime(CLOCK_MONOTONIC, &before);
        REFUSED(rdma_connect(id, &param), ECONNREFUSED);
        clock_gettime(CLOCK_MONOTONIC, &after);
        CHECK(after.tv_sec - before.tv_sec < 20);
        CHECK(rdma_destroy_id(id) == 0);
        atomic_fetch_add(&attempts, 1);
    }
    return NULL;
}

/* Listening identifiers are destroyed while peers ask for connections. */
static void listeners(void)
{
    struct rdma_event_channel *channel = new_channel();
    pthread_t threads[4];

    atomic_store(&has_ended, 0);
    for (int i = 0; i < 2; i++) {
        threads[i] = start(refuse, channel);
        threads[2 + i] = start(attempt, NULL);
    }
    for (int round = 0; round < LISTENERS; round++) {
        int before = atomic_load(&attempts);
        struct rdma_cm_id *listener;

        CHECK(rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP) == 0);
        CHECK(rdma_bind_addr(listener, ADDRESS(PORT)) == 0 && rdma_listen(listener, 16) == 0);
        for (int turn = 0; turn < 50 && atomic_load(&attempts) == before; turn++)
            pause_briefly();
        CHECK(rdma_destroy_id(listener) == 0);
    }
    atomic_store(&has_ended, 1);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    rdma_destroy_event_channel(channel);
}

int main(void)
{
    withdrawn();
    connections();
    listeners();
    if (!wrong)
        printf("the threads agree\n");
    return wrong;
}
