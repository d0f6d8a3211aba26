// A network of rnic for simulators with an event queue: messages between ranks, and events, in simulated time.
#pragma once

#include "rnic_sim.h"

#include <cstdint>
#include <deque>
#include <map>
#include <queue>
#include <string>
#include <tuple>
#include <vector>

namespace rnic {

using Handler = void (*)(void *);

// The fabric of a scenario, with one rank on each host, and the event queue of the simulator above. Times are
// picoseconds.
class Network {
  public:
    // Reads the scenario file `path`; `run` may be empty. Throws std::runtime_error with the reason if it cannot be
    // simulated.
    Network(const std::string &path, const std::string &run = "", unsigned threads = 1);
    ~Network();
    Network(const Network &) = delete;
    Network &operator=(const Network &) = delete;

    std::uint64_t now() const { return now_; }
    std::uint32_t ranks() const { return rnic_sim_hosts(sim_); }

    // Sends `bytes` from `src` to `dst` now. `handler` runs when the sender can know that all bytes have arrived.
    void send(int src, int dst, int tag, std::uint64_t bytes, Handler handler, void *argument);
    // `handler` runs when the next message from `src` to `dst` with this tag has arrived. Messages match in order of
    // arrival.
    void receive(int src, int dst, int tag, Handler handler, void *argument);
    // `handler` runs after `delay`.
    void schedule(std::uint64_t delay, Handler handler, void *argument);

    // Processes all events and messages. Throws std::runtime_error if the simulation fails.
    void run();
    // Writes the result files into `folder` unless it is empty. The network accepts no further message.
    void finish(const std::string &folder);

    // Number of receives without a message, and of messages without a receive.
    std::size_t unmatched() const;

  private:
    using Route = std::tuple<int, int, int>; // src, dst, tag
    struct Call {
        Handler handler;
        void *argument;
    };
    struct Event {
        std::uint64_t at, number;
        Call call;
        bool operator>(const Event &other) const { return std::tie(at, number) > std::tie(other.at, other.number); }
    };
    struct Message {
        Route route;
        Call sent;
    };

    void check(int code);
    void at(std::uint64_t time, Call call);
    void arrive(const Route &route);
    void run_events();

    rnic_sim *sim_;
    std::uint64_t now_ = 0, events_made_ = 0;
    std::priority_queue<Event, std::vector<Event>, std::greater<Event>> events_;
    std::map<std::uint64_t, Message> under_way_; // by number of the flow
    std::map<Route, std::deque<Call>> waiting_;
    std::map<Route, std::uint64_t> arrived_;
    std::vector<rnic_completion> completions_;
};

} // namespace rnic
