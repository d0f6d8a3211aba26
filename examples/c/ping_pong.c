/* Two hosts send a message of 4 KB to each other in turn, 2 us after each arrival:
 *
 *     cc -Icrates/rnic-sim-c/include examples/c/ping_pong.c -Ltarget/release -lrnic_sim_c -o ping_pong
 *     LD_LIBRARY_PATH=target/release ./ping_pong examples/c/fabric.toml results
 */
#include "rnic_sim.h"

#include <inttypes.h>
#include <stdio.h>

enum { ROUNDS = 6 };

int main(int count, char **arguments) {
    char error[512];
    if (count != 3) {
        fprintf(stderr, "usage: %s SCENARIO FOLDER\n", arguments[0]);
        return 2;
    }
    rnic_sim *sim = rnic_sim_open_file(arguments[1], NULL, 1, error, sizeof error);
    if (sim == NULL) {
        fprintf(stderr, "%s\n", error);
        return 1;
    }
    rnic_flow flow = {.start_ps = 0, .bytes = 4096, .src = 0, .dst = 5};
    int code = rnic_sim_submit(sim, &flow, 1, NULL);
    for (int round = 0; code == RNIC_SIM_OK && round < ROUNDS; round++) {
        code = rnic_sim_advance_to_completion(sim, RNIC_SIM_NEVER);
        rnic_completion completion;
        if (code != RNIC_SIM_OK || rnic_sim_poll(sim, &completion, 1) != 1)
            break;
        printf("%" PRIu32 " -> %" PRIu32 ": %.3f us\n", flow.src, flow.dst, (completion.delivered_ps - flow.start_ps) / 1e6);
        uint32_t sender = flow.src;
        flow.src = flow.dst;
        flow.dst = sender;
        flow.start_ps = completion.visible_ps + 2000000;
        code = rnic_sim_submit(sim, &flow, 1, NULL);
    }
    if (code == RNIC_SIM_OK)
        code = rnic_sim_finish(sim, arguments[2]);
    if (code < 0)
        fprintf(stderr, "%s\n", rnic_sim_error(sim));
    rnic_sim_close(sim);
    return code < 0;
}
