/* rnic's packet-level simulator as a library: another program submits flows, lets simulated time advance, and learns
 * when the flows have completed.
 *
 *     rnic_sim *sim = rnic_sim_open_file("fabric.toml", NULL, 1, error, sizeof error);
 *     rnic_flow flow = { .start_ps = 0, .bytes = 1000000, .src = 0, .dst = 1 };
 *     rnic_sim_submit(sim, &flow, 1, NULL);
 *     while (rnic_sim_advance_to_completion(sim, RNIC_SIM_NEVER) == RNIC_SIM_OK)
 *         while (rnic_sim_poll(sim, &completion, 1) == 1) ...
 *     rnic_sim_finish(sim, "results");
 *     rnic_sim_close(sim);
 *
 * Link with -lrnic_sim_c. Times are picoseconds of simulated time. Hosts are numbered from 0. The scenario has a traffic
 * source with pattern = "outside".
 *
 * Time: rnic_sim_advance(sim, T) promises that no flow submitted later starts before T, and makes all completions
 * visible whose time `visible_ps` is at most T. A completion is visible rnic_sim_reaction(sim) after the last byte has
 * arrived. The results are those of a scenario with the same list of flows, to the byte, whatever steps a program takes.
 *
 * Errors: a function that fails returns a negative number, and rnic_sim_error describes the failure. A refused call
 * changes nothing. Every function accepts a null pointer, a simulation that was closed, and calls from several threads,
 * which wait for each other.
 *
 * Versions: functions are only added, and structures do not change, as long as RNIC_SIM_VERSION_MAJOR stays the same. */
#ifndef RNIC_SIM_H
#define RNIC_SIM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RNIC_SIM_VERSION_MAJOR 1
#define RNIC_SIM_VERSION_MINOR 0

#define RNIC_SIM_OK 0
/* No completion until the limit. */
#define RNIC_SIM_NONE 1
/* An argument is null, or the simulation has been closed or finished. */
#define RNIC_SIM_INVALID -1
/* An argument is out of range: a flow, a time, the scenario, or the folder for results. */
#define RNIC_SIM_REFUSED -2
/* The simulation has ended: its duration is over, or it failed. */
#define RNIC_SIM_ENDED -3
/* An error of the library. */
#define RNIC_SIM_INTERNAL -4

/* As a limit: no limit. */
#define RNIC_SIM_NEVER UINT64_MAX

/* A simulation. The pointer is a number, not an address. */
typedef struct rnic_sim rnic_sim;

/* A flow to submit. */
typedef struct rnic_flow {
    uint64_t start_ps; /* at least the time of the simulation */
    uint64_t bytes;    /* payload: 1 to `largest` of the scenario */
    uint32_t src;      /* sending host */
    uint32_t dst;      /* receiving host */
} rnic_flow;

/* The completion of a flow. */
typedef struct rnic_completion {
    uint64_t id;           /* number of the flow, in order of submission from 0 */
    uint64_t visible_ps;   /* the program may react from this time on */
    uint64_t delivered_ps; /* the last byte had arrived at the receiver */
    uint64_t known_ps;     /* the sender can know this: one minimum frame over an empty fabric later */
} rnic_completion;

/* The state of a port. */
typedef struct rnic_port {
    uint64_t queued_bytes; /* wait in the switch for this output port; 0 for a host's port */
    uint64_t sent_bytes;   /* of frames that the port has begun to transmit */
    uint64_t busy_ps;      /* time for which the port has been transmitting */
    uint32_t paused;       /* bitmap of paused priorities */
    uint32_t number;       /* number of the port in its node */
} rnic_port;

/* Version of the library: major * 65536 + minor. */
uint32_t rnic_sim_version(void);

/* Begins a simulation of a scenario in TOML of `length` bytes. Relative paths in it begin at the current directory.
 * `run` is the name of the run to simulate, or null if the scenario has one run. `threads` is the number of threads of
 * the simulation, on which results do not depend. On failure returns null, and writes a message of at most `error_size`
 * bytes, its end included, to `error` unless that is null. */
rnic_sim *rnic_sim_open(const char *scenario, size_t length, const char *run, uint32_t threads, char *error, size_t error_size);
/* As rnic_sim_open, with the scenario file `path`. */
rnic_sim *rnic_sim_open_file(const char *path, const char *run, uint32_t threads, char *error, size_t error_size);

/* Submits `count` flows, all or none. Writes the number of the first one to `first` unless that is null; the numbers of
 * the others follow. */
int rnic_sim_submit(rnic_sim *sim, const rnic_flow *flows, size_t count, uint64_t *first);
/* Advances simulated time to `until_ps`. */
int rnic_sim_advance(rnic_sim *sim, uint64_t until_ps);
/* Advances simulated time to the first time at which a completion is visible, at most to `limit_ps`. Returns
 * RNIC_SIM_NONE if no completion is visible until then; time is then `limit_ps`, or unchanged with RNIC_SIM_NEVER. */
int rnic_sim_advance_to_completion(rnic_sim *sim, uint64_t limit_ps);
/* Takes up to `count` visible completions, in order of `visible_ps`, then `id`; returns their number. */
size_t rnic_sim_poll(rnic_sim *sim, rnic_completion *completions, size_t count);

/* Simulated time in picoseconds; 0 for a simulation that does not exist. */
uint64_t rnic_sim_now(rnic_sim *sim);
/* Time in picoseconds from the arrival of a flow's last byte until its completion is visible. */
uint64_t rnic_sim_reaction(rnic_sim *sim);
/* Number of submitted flows whose completion has not been polled. */
uint64_t rnic_sim_under_way(rnic_sim *sim);
/* Number of hosts. */
uint32_t rnic_sim_hosts(rnic_sim *sim);

/* Writes the state of the first `count` ports to `ports`, and its time, at most that of the simulation, to `at_ps`
 * unless that is null. Returns the number of ports of the fabric, or 0 on failure. */
size_t rnic_sim_ports(rnic_sim *sim, rnic_port *ports, size_t count, uint64_t *at_ps);
/* Writes the names of the node of a port and of its peer, as "NODE PEER", to `name`, truncated to `size` bytes, its end
 * included. */
int rnic_sim_port_name(rnic_sim *sim, size_t port, char *name, size_t size);

/* Simulates all submitted flows to their end, and writes the result files of `rnic run --flows csv` into `folder` unless
 * that is null. Returns RNIC_SIM_ENDED if the run failed; the files say so, too. Afterwards only rnic_sim_error and
 * rnic_sim_close accept the simulation. */
int rnic_sim_finish(rnic_sim *sim, const char *folder);
/* The latest failure of a call for this simulation; an empty text without failures. Valid until the next call for this
 * simulation. */
const char *rnic_sim_error(rnic_sim *sim);
/* Ends a simulation and frees it. */
void rnic_sim_close(rnic_sim *sim);

#ifdef __cplusplus
}
#endif

#endif
