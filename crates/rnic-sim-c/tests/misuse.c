/* Wrong calls of the library: each is refused, with a sentence, and without a crash. */
#include "rnic_sim.h"

#include <stdio.h>
#include <string.h>

_Static_assert(sizeof(rnic_flow) == 24 && offsetof(rnic_flow, src) == 16, "rnic_flow");
_Static_assert(sizeof(rnic_completion) == 32 && offsetof(rnic_completion, known_ps) == 24, "rnic_completion");
_Static_assert(sizeof(rnic_port) == 32 && offsetof(rnic_port, number) == 28, "rnic_port");

static int failures;

#define CHECK(condition)                                              \
    do                                                                \
        if (!(condition)) {                                           \
            printf("line %d: %s\n", __LINE__, #condition);            \
            failures++;                                               \
        }                                                             \
    while (0)

static const char SCENARIO[] = "[fabric]\ntopology = \"single-switch\"\nhosts = 4\nrate = \"100 Gbps\"\ndelay = \"1 us\"\n"
                               "[traffic]\npattern = \"outside\"\n[[run]]\nname = \"a\"\ntransport = \"roce\"\n"
                               "[[run]]\nname = \"b\"\ntransport = \"irn\"\n";

static int says(rnic_sim *sim, const char *text) {
    if (strstr(rnic_sim_error(sim), text) == NULL) {
        printf("error: %s\n", rnic_sim_error(sim));
        return 0;
    }
    return 1;
}

static void refused_scenarios(void) {
    char error[400] = "", small[8];
    CHECK(rnic_sim_open(NULL, 5, NULL, 1, error, sizeof error) == NULL && strstr(error, "null"));
    CHECK(rnic_sim_open("[fabric", 7, NULL, 1, error, sizeof error) == NULL && strstr(error, "scenario:1"));
    CHECK(rnic_sim_open("[fabric", 7, NULL, 1, NULL, 0) == NULL);
    CHECK(rnic_sim_open("[fabric", 7, NULL, 1, small, sizeof small) == NULL && strlen(small) == 7);
    CHECK(rnic_sim_open("\xff", 1, NULL, 1, error, sizeof error) == NULL && strstr(error, "UTF-8"));
    CHECK(rnic_sim_open(SCENARIO, sizeof SCENARIO - 1, NULL, 1, error, sizeof error) == NULL && strstr(error, "\"a\", \"b\""));
    CHECK(rnic_sim_open(SCENARIO, sizeof SCENARIO - 1, "c", 1, error, sizeof error) == NULL && strstr(error, "no run \"c\""));
    CHECK(rnic_sim_open_file("missing.toml", NULL, 1, error, sizeof error) == NULL && strstr(error, "missing.toml"));
    CHECK(rnic_sim_open_file(NULL, NULL, 1, error, sizeof error) == NULL && strstr(error, "path is a null pointer"));
}

static void no_simulation(rnic_sim *sim) {
    rnic_flow flow = {0, 1, 0, 1};
    rnic_completion completion;
    CHECK(rnic_sim_submit(sim, &flow, 1, NULL) == RNIC_SIM_INVALID);
    CHECK(rnic_sim_advance(sim, 1) == RNIC_SIM_INVALID && rnic_sim_advance_to_completion(sim, 1) == RNIC_SIM_INVALID);
    CHECK(rnic_sim_poll(sim, &completion, 1) == 0 && rnic_sim_ports(sim, NULL, 0, NULL) == 0);
    CHECK(rnic_sim_now(sim) == 0 && rnic_sim_hosts(sim) == 0 && rnic_sim_under_way(sim) == 0);
    CHECK(rnic_sim_finish(sim, NULL) == RNIC_SIM_INVALID && rnic_sim_reaction(sim) == 0);
    CHECK(says(sim, "no such open simulation"));
    rnic_sim_close(sim);
}

static void refused_calls(void) {
    rnic_sim *sim = rnic_sim_open(SCENARIO, sizeof SCENARIO - 1, "b", 2, NULL, 0);
    CHECK(sim != NULL && rnic_sim_hosts(sim) == 4 && rnic_sim_error(sim)[0] == 0);
    rnic_flow flow = {5, 1000, 0, 9};
    uint64_t first = 77;
    CHECK(rnic_sim_submit(sim, &flow, 1, &first) == RNIC_SIM_REFUSED && first == 77 && says(sim, "hosts from 0 to 3"));
    CHECK(rnic_sim_submit(sim, NULL, 1, NULL) == RNIC_SIM_INVALID && says(sim, "flows is a null pointer"));
    flow.dst = 2;
    CHECK(rnic_sim_submit(sim, &flow, 1, &first) == RNIC_SIM_OK && first == 0 && rnic_sim_under_way(sim) == 1);
    CHECK(rnic_sim_submit(sim, NULL, 0, NULL) == RNIC_SIM_OK && rnic_sim_poll(sim, NULL, 1) == 0);
    CHECK(rnic_sim_advance(sim, 100) == RNIC_SIM_OK && rnic_sim_advance(sim, 99) == RNIC_SIM_REFUSED && says(sim, "100 ps"));
    CHECK(rnic_sim_now(sim) == 100 && rnic_sim_submit(sim, &flow, 1, NULL) == RNIC_SIM_REFUSED);
    rnic_port ports[8];
    uint64_t at;
    char name[32];
    CHECK(rnic_sim_ports(sim, ports, 8, &at) == 8 && at <= 100 && rnic_sim_ports(sim, NULL, 3, NULL) == 0);
    CHECK(rnic_sim_port_name(sim, 0, name, sizeof name) == RNIC_SIM_OK && strcmp(name, "h0 s0") == 0);
    CHECK(rnic_sim_port_name(sim, 8, name, sizeof name) == RNIC_SIM_REFUSED);
    CHECK(rnic_sim_advance_to_completion(sim, 200) == RNIC_SIM_NONE && rnic_sim_now(sim) == 200);
    CHECK(rnic_sim_advance_to_completion(sim, RNIC_SIM_NEVER) == RNIC_SIM_OK);
    rnic_completion completion;
    CHECK(rnic_sim_poll(sim, &completion, 1) == 1 && completion.id == 0 && completion.visible_ps == rnic_sim_now(sim));
    CHECK(completion.visible_ps - completion.delivered_ps == rnic_sim_reaction(sim));
    CHECK(rnic_sim_advance_to_completion(sim, RNIC_SIM_NEVER) == RNIC_SIM_NONE && rnic_sim_under_way(sim) == 0);
    CHECK(rnic_sim_finish(sim, NULL) == RNIC_SIM_OK && rnic_sim_finish(sim, NULL) == RNIC_SIM_INVALID);
    CHECK(says(sim, "has been finished"));
    rnic_sim_close(sim);
    no_simulation(sim);
}

int main(void) {
    CHECK(rnic_sim_version() == RNIC_SIM_VERSION_MAJOR * 65536 + RNIC_SIM_VERSION_MINOR);
    refused_scenarios();
    no_simulation(NULL);
    no_simulation((rnic_sim *)"text");
    refused_calls();
    return failures != 0;
}
