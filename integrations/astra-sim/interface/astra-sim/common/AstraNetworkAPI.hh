// The interface between ASTRA-sim and its network, as far as the adapter uses it: the functions that a network
// implements, in the words of this project. With ASTRA-sim, its own header of this name takes the place of this file.
#pragma once

#include <cstdint>

namespace AstraSim {

enum time_type_e { SE, MS, US, NS, FS };

struct timespec_t {
    time_type_e time_res;
    long double time_val;
};

struct sim_request;

class AstraNetworkAPI {
  public:
    explicit AstraNetworkAPI(int rank) : rank(rank) {}
    virtual ~AstraNetworkAPI() = default;

    virtual int sim_send(void *buffer, std::uint64_t count, int type, int dst, int tag, sim_request *request,
                         void (*msg_handler)(void *fun_arg), void *fun_arg) = 0;
    virtual int sim_recv(void *buffer, std::uint64_t count, int type, int src, int tag, sim_request *request,
                         void (*msg_handler)(void *fun_arg), void *fun_arg) = 0;
    virtual void sim_schedule(timespec_t delta, void (*fun_ptr)(void *fun_arg), void *fun_arg) = 0;
    virtual timespec_t sim_get_time() = 0;
    virtual void sim_notify_finished() {}

    virtual int sim_comm_get_rank() { return rank; }

    int rank;
};

} // namespace AstraSim
