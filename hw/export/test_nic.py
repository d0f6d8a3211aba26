# SPDX-License-Identifier: MIT OR Apache-2.0
"""A NIC in Icarus Verilog whose link leads back to itself: every message arrives with its payload, with pauses at all
ports. `python3 sim/test_nic.py` runs the tests; it needs Icarus Verilog and cocotb 2."""

import random
import sys
from pathlib import Path

import cocotb
from cocotb.triggers import FallingEdge, RisingEdge, Timer
from cocotb.clock import Clock

IP = 0x0A000001


def words(data: bytes) -> list[bytes]:
    return [data[at : at + 64] for at in range(0, len(data), 64)] or [b""]


async def reset(dut, cycles: int = 260) -> None:
    """Starts the clock and resets the NIC. Inputs change at the falling edge."""
    dut.aresetn.value = 0
    dut.nic_ip.value = IP
    dut.s_axis_send_tvalid.value = 0
    dut.s_axis_send_tdata.value = 0
    dut.s_axis_send_tkeep.value = 0
    dut.s_axis_send_tlast.value = 0
    dut.s_axis_send_tuser.value = 0
    dut.s_axis_rx_tvalid.value = 0
    dut.s_axis_rx_tdata.value = 0
    dut.s_axis_rx_tlast.value = 0
    dut.s_axis_rx_tuser.value = 0
    dut.m_axis_recv_tready.value = 0
    dut.m_axis_tx_tready.value = 0
    cocotb.start_soon(Clock(dut.aclk, 4, "step").start())
    for _ in range(cycles):
        await FallingEdge(dut.aclk)
    dut.aresetn.value = 1


async def take(dut, name: str, pauses: random.Random, pause: float, out: list) -> None:
    """Takes packets from an AXI-Stream port: (bytes, tuser). While a word waits, it must not change."""
    port = lambda signal: getattr(dut, f"m_axis_{name}_{signal}")
    data, waiting = b"", None
    while True:
        port("tready").value = pauses.random() >= pause
        await RisingEdge(dut.aclk)
        valid = port("tvalid").value
        assert valid.is_resolvable, f"{name} tvalid is X"
        if not int(valid):
            assert waiting is None, f"{name} took a word back"
            await FallingEdge(dut.aclk)
            continue
        word = tuple(int(port(signal).value) for signal in ("tlast", "tuser", "tkeep")) + (port("tdata").value,)
        assert waiting is None or str(waiting) == str(word), f"{name} changed a word that waits"
        waiting = word
        if int(port("tready").value):
            last, user, keep, bits = word
            count = keep.bit_length()
            assert keep == (1 << count) - 1, f"{name} has gaps in tkeep"
            if count:
                data += bits[8 * count - 1 : 0].to_bytes(byteorder="little")
            waiting = None
            if last:
                out.append((data, user))
                data = b""
        await FallingEdge(dut.aclk)


async def give(dut, name: str, packet: bytes, user: int, pauses: random.Random, pause: float) -> None:
    """Gives a packet to an AXI-Stream port, without a pause within it if `pause` is 0."""
    port = lambda signal: getattr(dut, f"s_axis_{name}_{signal}")
    all_words = words(packet)
    for index, word in enumerate(all_words):
        while pauses.random() < pause:
            await FallingEdge(dut.aclk)
        port("tvalid").value = 1
        port("tdata").value = int.from_bytes(word, "little")
        port("tlast").value = index == len(all_words) - 1
        port("tuser").value = user
        if name == "send":
            port("tkeep").value = (1 << len(word)) - 1
        while True:
            await RisingEdge(dut.aclk)
            ready = int(port("tready").value)
            await FallingEdge(dut.aclk)
            if ready:
                break
        port("tvalid").value = 0


async def loop(dut, frames: list) -> None:
    """The link: frames that leave arrive at the same NIC."""
    while True:
        while not frames:
            await FallingEdge(dut.aclk)
        frame, _ = frames.pop(0)
        await give(dut, "rx", frame, len(frame), random.Random(3), 0)


async def exchange(dut, lengths: list[int], pause: float) -> None:
    await reset(dut)
    pauses = random.Random(len(lengths))
    frames, received = [], []
    cocotb.start_soon(take(dut, "tx", random.Random(1), pause, frames))
    cocotb.start_soon(take(dut, "recv", random.Random(2), pause, received))
    cocotb.start_soon(loop(dut, frames))
    messages = [bytes(pauses.randrange(256) for _ in range(length)) for length in lengths]
    for message in messages:
        await give(dut, "send", message, IP | 5 << 32 | 7 << 48, pauses, pause)
    for _ in range(200_000):
        if len(received) >= len(messages):
            break
        await FallingEdge(dut.aclk)
    for data, user in received:
        assert user & 0xFFFFFFFF == IP and user >> 64 == len(data), hex(user)
    assert sorted(data for data, _ in received) == sorted(messages)
    assert int(dut.dropped.value) == 0 and int(dut.oversized.value) == 0


@cocotb.test()
async def messages_arrive(dut) -> None:
    await exchange(dut, [0, 1, 63, 64, 65, 1024, 1025, 3000, 5000], 0.0)


@cocotb.test()
async def messages_arrive_with_pauses_at_every_port(dut) -> None:
    await exchange(dut, [0, 64, 100, 2048, 2500, 777], 0.4)


@cocotb.test()
async def a_message_that_is_too_long_is_discarded(dut) -> None:
    await reset(dut)
    received: list = []
    frames: list = []
    cocotb.start_soon(take(dut, "tx", random.Random(1), 0.0, frames))
    cocotb.start_soon(take(dut, "recv", random.Random(2), 0.0, received))
    cocotb.start_soon(loop(dut, frames))
    pauses = random.Random(4)
    longest = 38 * 1024
    for message in [bytes(longest + 1), b"short"]:
        await give(dut, "send", message, IP | 5 << 32, pauses, 0.0)
    while not received:
        await FallingEdge(dut.aclk)
    assert received[0][0] == b"short" and int(dut.oversized.value) == 1


@cocotb.test()
async def nothing_is_unknown_after_a_reset(dut) -> None:
    await reset(dut, 2)
    await Timer(1, "step")
    for _ in range(50):
        for name in ("s_axis_send_tready", "m_axis_recv_tvalid", "m_axis_tx_tvalid", "s_axis_rx_tready", "sent_valid", "aborted_valid"):
            assert getattr(dut, name).value.is_resolvable, f"{name} is X"
        await FallingEdge(dut.aclk)


if __name__ == "__main__":
    from cocotb_tools.runner import get_runner

    folder = Path(__file__).resolve().parent.parent
    runner = get_runner("icarus")
    runner.build(sources=sorted((folder / "rtl").glob("*.v")), hdl_toplevel="nt_nic_axis", build_args=["-g2005"], build_dir="sim_build", always=True)
    results = runner.test(hdl_toplevel="nt_nic_axis", test_module="test_nic", test_dir=str(folder / "sim"), build_dir="sim_build")
    failures = Path(results).read_text().count("<failure")
    sys.exit(1 if failures else 0)
