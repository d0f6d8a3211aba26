#include "rnic_network.hh"

#include <algorithm>
#include <stdexcept>

namespace rnic {

Network::Network(const std::string &path, const std::string &run, unsigned threads) : completions_(256) {
    char error[1024] = "";
    sim_ = rnic_sim_open_file(path.c_str(), run.empty() ? nullptr : run.c_str(), threads, error, sizeof error);
    if (sim_ == nullptr)
        throw std::runtime_error(error);
}

Network::~Network() { rnic_sim_close(sim_); }

void Network::check(int code) {
    if (code < 0)
        throw std::runtime_error(rnic_sim_error(sim_));
}

void Network::at(std::uint64_t time, Call call) {
    if (call.handler != nullptr)
        events_.push({time, events_made_++, call});
}

void Network::schedule(std::uint64_t delay, Handler handler, void *argument) {
    if (delay > RNIC_SIM_NEVER - 1 - now_)
        throw std::runtime_error("an event is scheduled after the end of simulated time (213 days)");
    at(now_ + delay, {handler, argument});
}

void Network::send(int src, int dst, int tag, std::uint64_t bytes, Handler handler, void *argument) {
    const Route route{src, dst, tag};
    // A rank's message to itself, or an empty message, needs no packet.
    if (src == dst || bytes == 0) {
        at(now_, {handler, argument});
        return arrive(route);
    }
    if (src < 0 || dst < 0)
        throw std::runtime_error("a message from rank " + std::to_string(src) + " to rank " + std::to_string(dst));
    const rnic_flow flow{now_, bytes, static_cast<std::uint32_t>(src), static_cast<std::uint32_t>(dst)};
    std::uint64_t number = 0;
    check(rnic_sim_submit(sim_, &flow, 1, &number));
    under_way_[number] = {route, {handler, argument}};
}

void Network::receive(int src, int dst, int tag, Handler handler, void *argument) {
    const Route route{src, dst, tag};
    const auto found = arrived_.find(route);
    if (found == arrived_.end()) {
        waiting_[route].push_back({handler, argument});
        return;
    }
    if (--found->second == 0)
        arrived_.erase(found);
    at(now_, {handler, argument});
}

void Network::arrive(const Route &route) {
    const auto found = waiting_.find(route);
    if (found == waiting_.end()) {
        arrived_[route]++;
        return;
    }
    at(now_, found->second.front());
    found->second.pop_front();
    if (found->second.empty())
        waiting_.erase(found);
}

void Network::run_events() {
    while (!events_.empty() && events_.top().at <= now_) {
        const Call call = events_.top().call;
        events_.pop();
        call.handler(call.argument);
    }
}

void Network::run() {
    for (;;) {
        run_events();
        const std::uint64_t next = events_.empty() ? RNIC_SIM_NEVER : events_.top().at;
        const int code = rnic_sim_advance_to_completion(sim_, next);
        check(code);
        if (code == RNIC_SIM_NONE && next == RNIC_SIM_NEVER)
            return;
        now_ = rnic_sim_now(sim_);
        while (const std::size_t count = rnic_sim_poll(sim_, completions_.data(), completions_.size())) {
            for (std::size_t index = 0; index < count; index++) {
                const rnic_completion &completion = completions_[index];
                const auto found = under_way_.find(completion.id);
                at(std::max(now_, completion.known_ps), found->second.sent);
                arrive(found->second.route);
                under_way_.erase(found);
            }
        }
    }
}

void Network::finish(const std::string &folder) { check(rnic_sim_finish(sim_, folder.empty() ? nullptr : folder.c_str())); }

std::size_t Network::unmatched() const {
    std::size_t count = 0;
    for (const auto &[route, calls] : waiting_)
        count += calls.size();
    for (const auto &[route, messages] : arrived_)
        count += messages;
    return count;
}

} // namespace rnic
