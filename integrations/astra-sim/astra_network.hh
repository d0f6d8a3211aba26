// ASTRA-sim's network, simulated by rnic: one object for each rank, all with the same `rnic::Network`.
#pragma once

#include "rnic_network.hh"

#include <astra-sim/common/AstraNetworkAPI.hh>

#include <stdexcept>

namespace rnic {

class AstraNetwork : public AstraSim::AstraNetworkAPI {
  public:
    AstraNetwork(int rank, Network &network) : AstraSim::AstraNetworkAPI(rank), own_rank_(rank), network_(network) {
        if (rank < 0 || static_cast<std::uint32_t>(rank) >= network.ranks())
            throw std::runtime_error("rank " + std::to_string(rank) + " has no host in the scenario");
    }

    int sim_send(void *, std::uint64_t count, int, int dst, int tag, AstraSim::sim_request *, void (*msg_handler)(void *),
                 void *fun_arg) override {
        network_.send(own_rank_, dst, tag, count, msg_handler, fun_arg);
        return 0;
    }

    int sim_recv(void *, std::uint64_t, int, int src, int tag, AstraSim::sim_request *, void (*msg_handler)(void *),
                 void *fun_arg) override {
        network_.receive(src, own_rank_, tag, msg_handler, fun_arg);
        return 0;
    }

    void sim_schedule(AstraSim::timespec_t delta, void (*fun_ptr)(void *), void *fun_arg) override {
        network_.schedule(picoseconds(delta), fun_ptr, fun_arg);
    }

    AstraSim::timespec_t sim_get_time() override {
        return {AstraSim::NS, static_cast<long double>(network_.now()) / 1000};
    }

  private:
    static std::uint64_t picoseconds(const AstraSim::timespec_t &time) {
        static const long double units[] = {1e12L, 1e9L, 1e6L, 1e3L, 1e-3L}; // seconds to femtoseconds
        const long double value = time.time_val * units[time.time_res];
        if (!(value >= 0 && value < 1.8e19L))
            throw std::runtime_error("a delay is negative or longer than 213 days");
        return static_cast<std::uint64_t>(value + 0.5L);
    }

    int own_rank_;
    Network &network_;
};

} // namespace rnic
