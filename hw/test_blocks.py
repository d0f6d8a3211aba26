# SPDX-License-Identifier: MIT OR Apache-2.0
"""Tests of the blocks in Icarus Verilog, for engineers who change one: `python3 hw/test_blocks.py` runs all, and
`python3 hw/test_blocks.py irn_sender` those of a block. They need Icarus Verilog and cocotb 2. The comparison with the
transport core, `rnic hw irn` and `rnic hw nanotransport`, covers far more."""

import os
import sys
import tempfile
from pathlib import Path

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge

FOLDER = Path(__file__).resolve().parent
BLOCKS = {
    "irn_sender": "irn",
    "irn_receiver": "irn",
    "irn_receive_data": "irn",
    "irn_tx_free": "irn",
    "irn_receive_ack": "irn",
    "irn_timeout": "irn",
    "nt_packetization": "nanotransport",
    "nt_reassembly": "nanotransport",
    "nt_generator": "nanotransport",
    "nt_scheduler": "nanotransport",
}
RESET, TX_FREE, RECEIVE_ACK = 0, 1, 2


async def start(dut) -> None:
    """Sets all inputs to 0, and resets the block for one cycle. Inputs change at the falling edge."""
    for handle in dut:
        name = handle._name
        if (name.startswith("in_") and name != "in_ready" or name in INPUTS) and hasattr(handle, "value"):
            handle.value = 0
    dut.rst.value = 1
    cocotb.start_soon(Clock(dut.clk, 4, "step").start())
    await FallingEdge(dut.clk)
    await FallingEdge(dut.clk)
    dut.rst.value = 0


INPUTS = (
    "now rtt_pkts timeout max_timeouts rx_timeout pace event_valid event_fields event_immediate event_paced pop request id "
    "remove rank granted grantable levels"
).split()


def block(*names: str):
    """A test of these blocks only."""

    def decorate(function):
        return cocotb.test(skip=os.environ.get("BLOCK") not in names)(function)

    return decorate


@cocotb.test()
async def valid_is_known_after_a_reset(dut) -> None:
    await start(dut)
    names = [name for name in ("out_valid", "in_ready", "head_valid", "full", "may_send") if hasattr(dut, name)]
    for _ in range(20):
        await FallingEdge(dut.clk)
        for name in names:
            assert getattr(dut, name).value.is_resolvable, f"{name} is X"


@block("irn_sender", "irn_receiver", "irn_receive_data", "irn_tx_free", "irn_receive_ack", "irn_timeout", "nt_packetization", "nt_reassembly")
async def a_reset_forgets_what_is_under_way(dut) -> None:
    await start(dut)
    dut.in_valid.value = 1
    await FallingEdge(dut.clk)
    dut.in_valid.value = 0
    dut.rst.value = 1
    await FallingEdge(dut.clk)
    dut.rst.value = 0
    for _ in range(12):
        assert int(dut.out_valid.value) == 0
        await FallingEdge(dut.clk)


async def result_of(dut) -> None:
    """Waits until the operation at the inputs has entered, and then for its result."""
    while not int(dut.in_ready.value):
        await FallingEdge(dut.clk)
    await FallingEdge(dut.clk)
    dut.in_valid.value = 0
    while not int(dut.out_valid.value):
        await FallingEdge(dut.clk)


async def operate(dut, **inputs) -> tuple[int, int]:
    """One operation of irn_sender on queue pair 0: (flags, value)."""
    for name, value in inputs.items():
        getattr(dut, f"in_{name}").value = value
    dut.in_valid.value = 1
    await result_of(dut)
    return int(dut.out_flags.value), int(dut.out_value.value)


@block("irn_sender")
async def an_acknowledgement_before_the_first_retransmission_proves_no_loss(dut) -> None:
    """Packet 0 is late, not lost, so packet 5 follows, not packet 2 again, at any time of day."""
    await start(dut)
    dut.in_window.value = 100
    dut.in_low_packets.value = 3
    for began in (0x1000, 0x90000000):
        await operate(dut, op=RESET, psn=0)
        for at in range(1, 6):
            assert await operate(dut, op=TX_FREE, psn=10, now=began + at) == (0b001, at - 1)
        flags, _ = await operate(dut, op=RECEIVE_ACK, psn=0, nack=1, trigger=1, stamp=began + 2, now=began + 20)
        assert flags == 1, "a recovery begins"
        assert await operate(dut, op=RECEIVE_ACK, psn=2, nack=0, stamp=began + 1, now=began + 21) == (0, 2)
        assert await operate(dut, op=TX_FREE, psn=10, now=began + 22) == (0b001, 5)


@block("irn_receiver")
async def a_gap_has_a_nack_and_its_end_an_acknowledgement(dut) -> None:
    await start(dut)

    async def packet(psn: int, reset: int = 0) -> tuple[int, int]:
        dut.in_psn.value, dut.in_reset.value, dut.in_valid.value = psn, reset, 1
        while not int(dut.in_ready.value):
            await FallingEdge(dut.clk)
        await FallingEdge(dut.clk)
        dut.in_valid.value = 0
        while not int(dut.out_valid.value):
            await FallingEdge(dut.clk)
        return int(dut.out_nack.value), int(dut.out_context.value) & 0xFFFFFF

    await packet(0xFFFFFF, reset=1)
    assert await packet(0xFFFFFF) == (0, 0), "in order, and the PSN wraps around"
    assert await packet(1) == (1, 0)
    assert await packet(0) == (0, 2)


@block("nt_packetization")
async def a_message_becomes_packets(dut) -> None:
    await start(dut)
    dut.rtt_pkts.value, dut.timeout.value, dut.max_timeouts.value = 9, 7000, 5
    dut.in_valid.value, dut.in_op.value, dut.in_a.value, dut.in_c.value = 1, 0, 0x0A000001, 2500
    await result_of(dut)
    assert int(dut.out_ok.value) == 1
    packets = []
    for _ in range(3):
        dut.in_op.value, dut.in_valid.value = 3, 1
        await result_of(dut)
        assert int(dut.out_ok.value) == 1
        packets.append((int(dut.out_pkt_offset.value), int(dut.out_payload.value)))
    assert packets == [(0, 1024), (1, 1024), (2, 452)]
    for _ in range(6):
        await FallingEdge(dut.clk)
    assert int(dut.may_send.value) == 0


@block("nt_reassembly")
async def the_last_packet_completes_a_message(dut) -> None:
    await start(dut)
    dut.rx_timeout.value = 49000
    dut.in_valid.value, dut.in_src_ip.value, dut.in_tx_msg_id.value = 1, 0x0A000002, 0x00010003
    dut.in_msg_len.value, dut.in_mark.value = 2000, 1
    seen = []
    for offset in (1, 0):
        dut.in_pkt_offset.value, dut.in_valid.value = offset, 1
        await result_of(dut)
        seen.append(tuple(int(handle.value) for handle in (dut.out_fail, dut.out_is_new_msg, dut.out_is_last_pkt, dut.out_ack_no)))
    assert seen == [(0, 1, 0, 0), (0, 0, 1, 2)]


@block("nt_generator")
async def a_packet_at_once_and_one_later(dut) -> None:
    await start(dut)
    dut.pace.value = 40
    dut.event_valid.value, dut.event_immediate.value, dut.event_paced.value = 1, 2, 8
    await FallingEdge(dut.clk)
    await FallingEdge(dut.clk)
    dut.event_valid.value = 0
    flags = []
    for now in range(60):
        dut.now.value = now
        dut.pop.value = int(dut.head_valid.value)
        if int(dut.head_valid.value):
            flags.append(int(dut.head_flags.value))
        await FallingEdge(dut.clk)
    assert flags == [10, 2, 8], "both flags together, then one each"


@block("nt_scheduler")
async def the_smallest_rank_is_first(dut) -> None:
    await start(dut)
    dut.levels.value, dut.grantable.value = 1, 5
    for number, rank in ((7, 30), (8, 10)):
        dut.request.value, dut.id.value, dut.rank.value = 1, number, rank
        await FallingEdge(dut.clk)
        assert (int(dut.found.value), int(dut.found_id.value)) == (1, number)
    dut.id.value, dut.rank.value = 7, 30
    await FallingEdge(dut.clk)
    assert int(dut.found.value) == 0, "message 8 is first and has its credit"


def run(name: str) -> bool:
    from cocotb_tools.runner import get_runner

    with tempfile.TemporaryDirectory() as build:
        runner = get_runner("icarus")
        sources = sorted((FOLDER / BLOCKS[name]).glob(f"{'irn' if name.startswith('irn') else 'nt'}_*.v"))
        sources = [path for path in sources if path.stem not in ("irn_bench", "irn_place", "nt_nic", "nt_nic_axis", "nt_pair", "nt_place", "nt_block_bench")]
        runner.build(sources=sources, hdl_toplevel=name, build_args=["-g2005"], build_dir=build, always=True)
        results = runner.test(hdl_toplevel=name, test_module="test_blocks", test_dir=build, build_dir=build, extra_env={"PYTHONPATH": str(FOLDER), "BLOCK": name})
        return "<failure" not in Path(results).read_text() and "<error" not in Path(results).read_text()


if __name__ == "__main__":
    chosen = sys.argv[1:] or list(BLOCKS)
    unknown = [name for name in chosen if name not in BLOCKS]
    if unknown:
        sys.exit(f"no block {', '.join(unknown)}; accepted: {', '.join(BLOCKS)}")
    failed = [name for name in chosen if not run(name)]
    sys.exit(f"failed: {', '.join(failed)}" if failed else 0)
