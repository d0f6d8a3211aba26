/* Calls rsockets in right and in wrong ways. */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rsocket.h>
#include <stdlib.h>
#include <string.h>
#include <netinet/tcp.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "checks.h"

#define ADDRESS(ip, port) ((struct sockaddr *)(struct sockaddr_in[]){ address(ip, port) }), sizeof(struct sockaddr_in)

static short events(int fd, short wanted, int timeout)
{
    struct pollfd one = { .fd = fd, .events = wanted };

    return rpoll(&one, 1, timeout) == 1 ? one.revents : 0;
}

static void without_connection(void)
{
    int fd, other, value = 7;
    char data[8];
    struct sockaddr_in sin;
    socklen_t len = sizeof(sin);

    REFUSED(rsocket(AF_UNIX, SOCK_STREAM, 0), ENOTSUP);
    REFUSED(rsocket(AF_INET, SOCK_DGRAM, IPPROTO_TCP), ENOTSUP);
    REFUSED(rsocket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), ENOTSUP);
    REFUSED(rsend(0, data, 1, 0), EBADF);
    REFUSED(rclose(12345), EBADF);
    fd = rsocket(AF_INET, SOCK_STREAM, 0);
    CHECK(fd > 2);
    REFUSED(rsend(fd, data, 1, 0), ENOTCONN);
    REFUSED(rrecv(fd, data, 1, 0), ENOTCONN);
    REFUSED(rshutdown(fd, SHUT_RDWR), ENOTCONN);
    REFUSED(rshutdown(fd, 7), EINVAL);
    REFUSED(raccept(fd, NULL, NULL), EINVAL);
    REFUSED(rgetpeername(fd, (struct sockaddr *)&sin, &len), ENOTCONN);
    CHECK(rgetsockname(fd, (struct sockaddr *)&sin, &len) == 0 && sin.sin_family == AF_INET && sin.sin_port == 0);
    REFUSED(rbind(fd, ADDRESS("192.0.2.1", 7)), EADDRNOTAVAIL);
    REFUSED(rbind(fd, (struct sockaddr *)&sin, 4), EINVAL);
    CHECK(rsetsockopt(fd, SOL_RDMA, RDMA_SQSIZE, &value, sizeof(value)) == 0);
    REFUSED(rsetsockopt(fd, SOL_RDMA, RDMA_ROUTE, &value, sizeof(value)), ENOTSUP);
    REFUSED(rsetsockopt(fd, SOL_SOCKET, SO_BROADCAST, &value, sizeof(value)), ENOTSUP);
    REFUSED(rsetsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &value, 2), EINVAL);
    CHECK(rsetsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &value, sizeof(value)) == 0);
    value = 0;
    len = sizeof(value);
    CHECK(rgetsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &value, &len) == 0 && value == 7);
    CHECK(rfcntl(fd, F_SETFL, O_NONBLOCK) == 0 && rfcntl(fd, F_GETFL) & O_NONBLOCK);

    /* The port has no listener. */
    REFUSED(rconnect(fd, ADDRESS("127.0.0.1", 9)), EINPROGRESS);
    REFUSED(rsend(fd, data, 1, 0), EAGAIN);
    CHECK(events(fd, POLLOUT, 30000) & POLLERR);
    len = sizeof(value);
    CHECK(rgetsockopt(fd, SOL_SOCKET, SO_ERROR, &value, &len) == 0 && value == ECONNREFUSED);
    REFUSED(rconnect(fd, ADDRESS("127.0.0.1", 9)), ENOTCONN);
    CHECK(rclose(fd) == 0);
    REFUSED(rclose(fd), EBADF);

    /* The same port twice, with and without SO_REUSEADDR. */
    fd = rsocket(AF_INET, SOCK_STREAM, 0);
    other = rsocket(AF_INET, SOCK_STREAM, 0);
    value = 1;
    CHECK(rbind(fd, ADDRESS("127.0.0.1", 9100)) == 0);
    REFUSED(rbind(other, ADDRESS("127.0.0.1", 9100)), EADDRINUSE);
    CHECK(rsetsockopt(other, SOL_SOCKET, SO_REUSEADDR, &value, sizeof(value)) == 0);
    REFUSED(rbind(other, ADDRESS("127.0.0.1", 9100)), EADDRINUSE);
    CHECK(rclose(fd) == 0);
    CHECK(rbind(other, ADDRESS("127.0.0.1", 9100)) == 0);
    fd = rsocket(AF_INET, SOCK_STREAM, 0);
    CHECK(rsetsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &value, sizeof(value)) == 0);
    CHECK(rbind(fd, ADDRESS("127.0.0.1", 9100)) == 0);
    /* Who listens has the port alone. */
    REFUSED(rlisten(fd, 1), EADDRINUSE);
    CHECK(rclose(other) == 0 && rlisten(fd, 1) == 0 && rlisten(fd, 1) == 0);
    other = rsocket(AF_INET, SOCK_STREAM, 0);
    CHECK(rsetsockopt(other, SOL_SOCKET, SO_REUSEADDR, &value, sizeof(value)) == 0);
    REFUSED(rbind(other, ADDRESS("127.0.0.1", 9100)), EADDRINUSE);
    CHECK(events(fd, POLLIN, 0) == 0);
    CHECK(rfcntl(fd, F_SETFL, O_NONBLOCK) == 0);
    REFUSED(raccept(fd, NULL, NULL), EAGAIN);
    CHECK(rclose(fd) == 0 && rclose(other) == 0);
}

static int listener;

/* Echoes until the end. */
static void *echo(void *unused)
{
    struct sockaddr_in sin;
    socklen_t len = sizeof(sin);
    static char data[200000];
    int fd = raccept(listener, (struct sockaddr *)&sin, &len);
    ssize_t got;

    (void)unused;
    CHECK(fd > 2 && sin.sin_family == AF_INET);
    while ((got = rrecv(fd, data, sizeof(data), 0)) > 0)
        CHECK(rsend(fd, data, got, 0) == got);
    CHECK(got == 0);
    CHECK(rclose(fd) == 0);
    return NULL;
}

static void *receiver(void *about)
{
    static char data[3000000];
    size_t at = 0;
    ssize_t got;

    while (at < sizeof(data) && (got = rrecv(*(int *)about, data + at, sizeof(data) - at, MSG_WAITALL)) > 0)
        at += got;
    for (size_t i = 0; i < sizeof(data); i++)
        if (data[i] != (char)(i * 13)) {
            CHECK(!"the byte is right");
            break;
        }
    CHECK(at == sizeof(data));
    return NULL;
}

static void with_connection(void)
{
    static char data[3000000];
    char small[16] = "";
    int fd, value, size = 20000;
    socklen_t len = sizeof(value);
    pthread_t server, reader;
    struct sockaddr_in sin;
    struct iovec vectors[3] = { { "one", 3 }, { "", 0 }, { "three", 5 } };
    struct iovec into[2] = { { small, 3 }, { small + 3, 13 } };
    struct msghdr message = { .msg_iov = vectors, .msg_iovlen = 3 };
    fd_set set;
    struct timeval time = { 0, 1000 };

    listener = rsocket(AF_INET, SOCK_STREAM, 0);
    CHECK(rsetsockopt(listener, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size)) == 0);
    CHECK(rbind(listener, ADDRESS("0.0.0.0", 9200)) == 0 && rlisten(listener, 5) == 0);
    pthread_create(&server, NULL, echo, NULL);
    fd = rsocket(AF_INET, SOCK_STREAM, 0);
    CHECK(rconnect(fd, ADDRESS("127.0.0.1", 9200)) == 0);
    REFUSED(rconnect(fd, ADDRESS("127.0.0.1", 9200)), EISCONN);
    REFUSED(rsetsockopt(fd, SOL_RDMA, RDMA_SQSIZE, &size, sizeof(size)), EINVAL);
    len = sizeof(sin);
    CHECK(rgetpeername(fd, (struct sockaddr *)&sin, &len) == 0 && ntohs(sin.sin_port) == 9200);
    len = sizeof(sin);
    CHECK(rgetsockname(fd, (struct sockaddr *)&sin, &len) == 0 && ntohl(sin.sin_addr.s_addr) == INADDR_LOOPBACK);
    REFUSED(rrecv(fd, small, 16, MSG_DONTWAIT), EAGAIN);
    CHECK(events(fd, POLLIN | POLLOUT, 1000) == POLLOUT);
    FD_ZERO(&set);
    FD_SET(fd, &set);
    CHECK(rselect(fd + 1, &set, NULL, NULL, &time) == 0 && !FD_ISSET(fd, &set));

    /* Vectors, and looks at data that stays. */
    CHECK(rwritev(fd, vectors, 3) == 8);
    CHECK(events(fd, POLLIN, 30000) == POLLIN);
    CHECK(rrecv(fd, small, 8, MSG_PEEK) >= 1 && small[0] == 'o');
    while (rrecv(fd, small, 8, MSG_PEEK) < 8)
        usleep(1000);
    CHECK(rreadv(fd, into, 2) == 8 && !memcmp(small, "onethree", 8));
    CHECK(rsendmsg(fd, &message, 0) == 8);
    CHECK(rrecv(fd, small, 8, MSG_WAITALL) == 8 && !memcmp(small, "onethree", 8));
    CHECK(rsend(fd, small, 0, 0) == 0 && rrecv(fd, small, 0, 0) == 0);

    /* Both directions at the same time, by two threads, with buffers that are much smaller. */
    for (size_t i = 0; i < sizeof(data); i++)
        data[i] = i * 13;
    pthread_create(&reader, NULL, receiver, &fd);
    CHECK(rsend(fd, data, sizeof(data), 0) == sizeof(data));
    pthread_join(reader, NULL);

    CHECK(rshutdown(fd, SHUT_WR) == 0);
    errno = 0;
    CHECK(rsend(fd, small, 1, 0) == -1 && errno == ECONNRESET);
    CHECK(rrecv(fd, small, 1, 0) == 0);
    CHECK(events(fd, POLLIN, 30000) & POLLIN);
    pthread_join(server, NULL);
    CHECK(rclose(fd) == 0 && rclose(listener) == 0);
}

static char *mapped;

static void *mapper(void *unused)
{
    int fd = raccept(listener, NULL, NULL);
    char one;

    (void)unused;
    /* The peer keeps one mapping. */
    CHECK(riomap(fd, mapped, 100000, PROT_WRITE, 0, 5000) == 5000);
    REFUSED(riomap(fd, mapped, 100000, PROT_WRITE, 0, 0), ENOMEM);
    REFUSED(riomap(fd, mapped, 100000, PROT_EXEC, 0, 0), EINVAL);
    /* The peer gets the mapping before the next data. */
    CHECK(rsend(fd, "m", 1, 0) == 1);
    CHECK(rrecv(fd, &one, 1, 0) == 1 && one == 'w');
    for (int i = 0; i < 90000; i++)
        if (mapped[10000 + i] != (char)(i * 7)) {
            CHECK(!"the byte was written");
            break;
        }
    CHECK(mapped[9999] == 0);
    CHECK(riounmap(fd, mapped, 100000) == 0);
    REFUSED(riounmap(fd, mapped, 100000), EINVAL);
    CHECK(rclose(fd) == 0);
    return NULL;
}

static void direct_writes(void)
{
    static char data[90000];
    int fd, one = 1;
    char byte;
    pthread_t server;

    mapped = calloc(1, 100000);
    listener = rsocket(AF_INET, SOCK_STREAM, 0);
    CHECK(rbind(listener, ADDRESS("127.0.0.1", 9300)) == 0 && rlisten(listener, 5) == 0);
    pthread_create(&server, NULL, mapper, NULL);
    fd = rsocket(AF_INET, SOCK_STREAM, 0);
    CHECK(rsetsockopt(fd, SOL_RDMA, RDMA_IOMAPSIZE, &one, sizeof(one)) == 0);
    CHECK(rconnect(fd, ADDRESS("127.0.0.1", 9300)) == 0);
    CHECK(rrecv(fd, &byte, 1, 0) == 1 && byte == 'm');
    for (size_t i = 0; i < sizeof(data); i++)
        data[i] = i * 7;
    CHECK(riowrite(fd, data, sizeof(data), 15000, 0) == sizeof(data));
    /* Nothing is mapped there, or not all. */
    CHECK(riowrite(fd, data, 10, 4000, 0) == 0);
    CHECK(rsend(fd, "w", 1, 0) == 1);
    pthread_join(server, NULL);
    CHECK(rclose(fd) == 0 && rclose(listener) == 0);
}

/* A sender and a receiver of datagrams, and strangers that send other things to the receiver's UDP port. */
static void datagrams(void)
{
    int a = rsocket(AF_INET, SOCK_DGRAM, 0), b = rsocket(AF_INET, SOCK_DGRAM, IPPROTO_UDP), stranger, value = 0;
    /* Tags, versions, operations and lengths that do not fit, and a header that ends early. */
    static const unsigned char junk[][16] = {
        "", "UUUU", { 'U', 'U', 'U', 'U', 4, 0, 28 }, { 'U', 'U', 'U', 'U', 6, 0, 28 }, { 'U', 'U', 'U', 'U', 4, 3, 16 },
        { 'U', 'U', 'U', 'U', 4, 0, 255 }, { 'U', 'U', 'U', 'V', 4, 0, 16 },
    };
    static char data[3000], got[3000];
    struct sockaddr_in sin;
    socklen_t len = sizeof(sin);

    CHECK(a >= 0 && b >= 0);
    CHECK(rgetsockopt(a, SOL_SOCKET, SO_TYPE, &value, &(socklen_t){ sizeof(value) }) == 0 && value == SOCK_DGRAM);
    REFUSED(rlisten(a, 1), EOPNOTSUPP);
    REFUSED(raccept(a, NULL, NULL), EOPNOTSUPP);
    REFUSED(rsend(a, data, 1, 0), EDESTADDRREQ);
    REFUSED(rgetpeername(a, (struct sockaddr *)&sin, &len), ENOTCONN);
    CHECK(rbind(b, ADDRESS("127.0.0.1", 9400)) == 0);
    REFUSED(rrecv(b, got, 1, MSG_DONTWAIT), EAGAIN);
    CHECK(events(b, POLLIN | POLLOUT, 0) == POLLOUT);
    stranger = socket(AF_INET, SOCK_DGRAM, 0);
    for (size_t i = 0; i < sizeof(junk) / sizeof(junk[0]); i++)
        for (size_t some = 0; some <= sizeof(junk[0]); some += 4)
            CHECK(sendto(stranger, junk[i], some, 0, ADDRESS("127.0.0.1", 9400)) == (ssize_t)some);
    close(stranger);
    REFUSED(rsendto(a, data, 2033, 0, ADDRESS("127.0.0.1", 9400)), EMSGSIZE);
    /* The first datagrams take UDP, those after the peer's answer the queue pairs. */
    for (int i = 0; i < 20; i++) {
        size_t size = i * 107 % 2032;

        memset(data, 'a' + i, size);
        CHECK(rsendto(a, data, size, 0, ADDRESS("127.0.0.1", 9400)) == (ssize_t)size);
        len = sizeof(sin);
        CHECK(rrecvfrom(b, got, sizeof(got), MSG_PEEK, NULL, NULL) == (ssize_t)size);
        CHECK(rrecvfrom(b, got, sizeof(got), 0, (struct sockaddr *)&sin, &len) == (ssize_t)size);
        CHECK(memcmp(data, got, size) == 0 && sin.sin_addr.s_addr == htonl(INADDR_LOOPBACK));
        CHECK(rsendto(b, got, size, 0, (struct sockaddr *)&sin, len) == (ssize_t)size);
        CHECK(events(a, POLLIN, 5000) == POLLIN);
        memset(got, 0, sizeof(got));
        CHECK(rrecv(a, got, sizeof(got), 0) == (ssize_t)size && memcmp(data, got, size) == 0);
    }
    /* What has no room is lost. */
    CHECK(rconnect(a, ADDRESS("127.0.0.1", 9400)) == 0);
    CHECK(rwrite(a, "abcdef", 6) == 6 && rwrite(a, "xyz", 3) == 3);
    {
        struct iovec io[2] = { { got, 1 }, { got + 10, 2 } };
        struct msghdr message = { .msg_name = &sin, .msg_namelen = sizeof(sin), .msg_iov = io, .msg_iovlen = 2 };

        CHECK(rrecvmsg(b, &message, 0) == 3 && got[0] == 'a' && got[11] == 'c' && message.msg_flags == MSG_TRUNC);
        CHECK(rrecv(b, got, 9, MSG_TRUNC) == 3 && memcmp(got, "xyz", 3) == 0);
    }
    CHECK(rshutdown(b, SHUT_RD) == 0 && rrecv(b, got, 9, 0) == 0);
    CHECK(rclose(a) == 0 && rclose(b) == 0);
    REFUSED(rclose(a), EBADF);
}

int main(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    without_connection();
    with_connection();
    direct_writes();
    datagrams();
    if (!wrong)
        puts("all calls are right");
    return wrong;
}
