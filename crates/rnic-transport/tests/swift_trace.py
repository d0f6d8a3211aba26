#!/usr/bin/env python3
"""Prints swift_trace.txt: algorithm 1 of "Swift: Delay is Simple and Effective for Congestion Control in the Datacenter"
(SIGCOMM 2020), written line by line from the publication, on a made-up sequence of ACKs, NACKs and timeouts.

The choices are those that the documentation of the Rust module lists: t_last_decrease changes only if the window has
become smaller, and a timeout during the pacing delay after a decrease counts for nothing. Windows are in packets,
times in nanoseconds. The flow always fills its window.
"""

AI, BETA, MAX_MDF = 1.0, 0.8, 0.5
BASE_TARGET = 20_000.0
FS_RANGE, FS_MIN_CWND, FS_MAX_CWND = 4.0 * BASE_TARGET, 0.1, 100.0
MIN_CWND, RETX_RESET_THRESHOLD = 0.1, 3

ALPHA = FS_RANGE / (1.0 / FS_MIN_CWND**0.5 - 1.0 / FS_MAX_CWND**0.5)
OFFSET = -ALPHA / FS_MAX_CWND**0.5


def target_delay(cwnd):
    """Section 3.5 without the part for each hop."""
    return BASE_TARGET + max(0.0, min(ALPHA / cwnd**0.5 + OFFSET, FS_RANGE))


def step(state, kind, now, rtt, acked):
    cwnd, rtt_last, t_last_decrease, retransmit_cnt = state
    cwnd_prev = cwnd
    if kind == "ack":
        rtt_last = rtt
    can_decrease = now - t_last_decrease >= rtt_last
    if kind == "ack":
        retransmit_cnt = 0
        delay, target = float(rtt), target_delay(cwnd)
        if delay < target:
            cwnd = cwnd + AI / cwnd * acked if cwnd >= 1 else cwnd + AI * acked
        elif can_decrease:
            cwnd = max(1 - BETA * (delay - target) / delay, 1 - MAX_MDF) * cwnd
    elif kind == "timeout":
        pacing_delay = rtt_last / cwnd if cwnd < 1 else 0
        if now - t_last_decrease >= pacing_delay:
            retransmit_cnt += 1
        if retransmit_cnt >= RETX_RESET_THRESHOLD:
            cwnd = MIN_CWND
        elif can_decrease:
            cwnd = (1 - MAX_MDF) * cwnd
    else:  # fast recovery
        retransmit_cnt = 0
        if can_decrease:
            cwnd = (1 - MAX_MDF) * cwnd
    cwnd = max(cwnd, MIN_CWND)
    if cwnd < cwnd_prev:
        t_last_decrease = now
    return cwnd, rtt_last, t_last_decrease, retransmit_cnt


def main():
    print("# event  now_ns  rtt_ns  acked  window_after; made by swift_trace.py")
    state, now, noise = (20.0, 10_000, 0, 0), 10_000, 1
    for n in range(120):
        noise = (noise * 1_103_515_245 + 12_345) % 2**31
        # Phases: an empty fabric, a growing queue, a long queue, an empty fabric again.
        middle = [12_000, 22_000, 30_000, 160_000, 60_000, 14_000][n // 20]
        rtt = middle + noise // 64 % 4_000
        acked = 1 + noise // 4_096 % 3
        # Below one packet, ACKs are far from each other.
        now += 1_500 + noise // 32_768 % 6_000 if state[0] >= 1 else 90_000
        kind = "ack"
        if n % 23 == 17:
            kind = "nack"
        elif n in (66, 67, 68, 90, 91, 92, 93, 112):
            kind = "timeout"
        state = step(state, kind, now, rtt, acked)
        print(f"{kind} {now} {rtt} {acked} {state[0]:.9f}")


main()
