/* Checks of calls, which say what was not expected, and addresses. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>

static int wrong;

#define CHECK(condition) \
    do { \
        if (!(condition)) { \
            printf("line %d: not %s (errno %d)\n", __LINE__, #condition, errno); \
            wrong = 1; \
        } \
    } while (0)

#define REFUSED(call, error) \
    do { \
        errno = 0; \
        CHECK((call) == -1 && errno == (error)); \
    } while (0)

static struct sockaddr_in address(const char *ip, int port)
{
    struct sockaddr_in sin = { .sin_family = AF_INET, .sin_port = htons(port) };

    inet_pton(AF_INET, ip, &sin.sin_addr);
    return sin;
}
