/* A program with ordinary stream sockets, which librspreload.so turns into rsockets. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define LEN 8000000

static unsigned char byte(size_t at)
{
    return at * 31 + at / 4093;
}

static void fail(const char *what)
{
    printf("%s: %s\n", what, strerror(errno));
    exit(1);
}

/* Sends the bytes, or receives and checks them. */
static void send_all(int fd)
{
    unsigned char *data = malloc(LEN);
    size_t at = 0;

    for (size_t i = 0; i < LEN; i++)
        data[i] = byte(i);
    while (at < LEN) {
        /* Calls of many sizes. */
        size_t len = 1 + at % 300007;
        ssize_t sent = write(fd, data + at, len < LEN - at ? len : LEN - at);

        if (sent <= 0)
            fail("write");
        at += sent;
    }
    free(data);
}

static void receive_all(int fd)
{
    unsigned char data[70000];
    size_t at = 0;

    while (at < LEN) {
        struct pollfd wait = { .fd = fd, .events = POLLIN };
        ssize_t got;

        if (poll(&wait, 1, 30000) != 1)
            fail("poll");
        got = recv(fd, data, 1 + at % sizeof(data), 0);
        if (got <= 0)
            fail("recv");
        for (ssize_t i = 0; i < got; i++)
            if (data[i] != byte(at + i)) {
                printf("byte %zu is wrong\n", at + i);
                exit(1);
            }
        at += got;
    }
    printf("%d bytes are right\n", LEN);
}

int main(int argc, char **argv)
{
    struct sockaddr_in sin = { .sin_family = AF_INET, .sin_port = htons(atoi(argv[2])) };
    const char *what = argv[1];
    int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    char end;

    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc > 3)
        inet_pton(AF_INET, argv[3], &sin.sin_addr);
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) ||
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)))
        fail("setsockopt");
    if (!strcmp(what, "server") || !strcmp(what, "idle")) {
        int peer;

        if (bind(fd, (struct sockaddr *)&sin, sizeof(sin)) || listen(fd, 5))
            fail("listen");
        peer = accept(fd, NULL, NULL);
        if (peer < 0)
            fail("accept");
        if (!strcmp(what, "idle"))
            pause();
        receive_all(peer);
        send_all(peer);
        if (read(peer, &end, 1) != 0)
            fail("the end");
        close(peer);
    } else {
        if (connect(fd, (struct sockaddr *)&sin, sizeof(sin)))
            fail("connect");
        if (!strcmp(what, "wait")) {
            ssize_t got;

            puts("waits");
            got = read(fd, &end, 1);
            printf("the peer has gone: %zd\n", got);
            return got > 0;
        }
        send_all(fd);
        receive_all(fd);
        if (shutdown(fd, SHUT_WR))
            fail("shutdown");
    }
    close(fd);
    return 0;
}
