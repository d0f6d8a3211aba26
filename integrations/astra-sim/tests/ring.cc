// Two ranks that exchange messages, and a ring all-reduce of all ranks, through the interface of ASTRA-sim.
#include "astra_network.hh"

#include <cstdio>
#include <cstdlib>
#include <memory>

namespace {

struct Rank {
    std::unique_ptr<rnic::AstraNetwork> network;
    int ranks = 0, left = 0, sent = 0;
    std::uint64_t chunk = 0;
    double end_ns = 0;
};

void fail(const char *what) {
    std::printf("%s\n", what);
    std::exit(1);
}

void sent(void *argument) { static_cast<Rank *>(argument)->sent++; }

// A step of the ring: the chunk goes on to the successor 100 ns after it has arrived.
void step(void *argument) {
    Rank &rank = *static_cast<Rank *>(argument);
    const int own = rank.network->sim_comm_get_rank();
    rank.network->sim_send(nullptr, rank.chunk, 0, (own + 1) % rank.ranks, 7, nullptr, sent, &rank);
}

void arrived(void *argument) {
    Rank &rank = *static_cast<Rank *>(argument);
    rank.end_ns = static_cast<double>(rank.network->sim_get_time().time_val);
    if (--rank.left == 0)
        return;
    const int own = rank.network->sim_comm_get_rank();
    rank.network->sim_recv(nullptr, rank.chunk, 0, (own + rank.ranks - 1) % rank.ranks, 7, nullptr, arrived, &rank);
    rank.network->sim_schedule({AstraSim::US, 0.1L}, step, &rank);
}

double ring(const char *scenario, int ranks, std::uint64_t bytes) {
    rnic::Network network(scenario);
    std::vector<Rank> all(ranks);
    for (int own = 0; own < ranks; own++) {
        Rank &rank = all[own];
        rank.network = std::make_unique<rnic::AstraNetwork>(own, network);
        rank.ranks = ranks;
        rank.chunk = bytes / ranks;
        rank.left = 2 * (ranks - 1);
        // The first message waits for its receive on odd ranks, and the receive for the message on the others.
        if (own % 2 == 0)
            rank.network->sim_recv(nullptr, rank.chunk, 0, (own + ranks - 1) % ranks, 7, nullptr, arrived, &rank);
        step(&rank);
        if (own % 2 == 1)
            rank.network->sim_recv(nullptr, rank.chunk, 0, (own + ranks - 1) % ranks, 7, nullptr, arrived, &rank);
    }
    network.run();
    double end = 0;
    for (const Rank &rank : all) {
        if (rank.left != 0 || rank.sent != 2 * (ranks - 1))
            fail("a rank has not ended");
        end = rank.end_ns > end ? rank.end_ns : end;
    }
    if (network.unmatched() != 0)
        fail("a message has no receive");
    network.finish("");
    return end;
}

} // namespace

int main(int count, char **arguments) {
    if (count != 2)
        fail("usage: ring SCENARIO");
    std::printf("two ranks: %.3f ns\n", ring(arguments[1], 2, 200000));
    std::printf("ring: %.3f ns\n", ring(arguments[1], 8, 800000));
    try {
        rnic::Network network(arguments[1]);
        rnic::AstraNetwork last(8, network);
        fail("rank 8 was accepted");
    } catch (const std::runtime_error &error) {
        std::printf("%s\n", error.what());
    }
    return 0;
}
