"""Models without a simulation: fluid models of congestion controls, and buffer thresholds of switches.

They compute the same as the command `rnic model`. Quantities are strings with units, such as "40 Gbps". Results are
tables (`rnic.Table`), whose columns are lists, or arrays of numpy, pandas or polars without a copy. Where an argument
may have several values, it accepts any sequence, such as a list or an array of numpy.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from . import _rnic
from .table import Table

__all__ = ["buffers", "dcqcn", "dcqcn_fixed_points", "timely"]


def _texts(values: str | Iterable[str] | None) -> list[str]:
    if values is None:
        return []
    return [values] if isinstance(values, str) else [str(value) for value in values]


def _pairs(parameters: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    return [(name, str(value)) for name, value in (parameters or {}).items()]


def _count(flows: int | None, *each: list[str]) -> int:
    """The number of flows: if it is not given, that of the values, else 2."""
    apart = max(map(len, each))
    return int(flows) if flows is not None else apart if apart > 1 else 2


def _marking(**thresholds: object) -> list[tuple[str, str]]:
    return [(name, str(value)) for name, value in thresholds.items() if value is not None]


def dcqcn(
    rate: str = "40 Gbps",
    flows: int | None = None,
    *,
    start: str | Iterable[str] | None = None,
    begin: str | Iterable[str] | None = None,
    delay: str = "50 us",
    packet: str = "1000 B",
    parameters: Mapping[str, Any] | None = None,
    kmin: str | None = None,
    kmax: str | None = None,
    pmax: float | None = None,
    duration: str = "200 ms",
    step: str = "1 us",
    sample: str = "100 us",
) -> Table:
    """Solves the fluid model of DCQCN (SIGCOMM 2015) for flows that share a link.

    `rate` is the rate of the link and of the flows' NICs. `start` is the initial rate of each flow (default: `rate`),
    and `begin` the time at which it starts (default: 0): one value for all, or one for each of the `flows` (default:
    2). `delay` is the control delay, `packet` the length of a packet. `parameters` are those of the congestion control:
    g, rate_timer, byte_counter, fast_recovery, cnp_interval, alpha_timer, r_ai. `kmin`, `kmax` and `pmax` (0 to 1) are
    the marking thresholds; by default they are the thresholds of DCQCN at this rate. `duration` is the modelled time,
    `step` the longest time step of the solver, `sample` the time between two rows.

    Returns a table with a row for each sample: `time_s`, `queue_bytes`, `marking` (probability), and for each group of
    identical flows `flow0.rate_bps`, `flow0.alpha` and other state. Raises ValueError for values out of range.
    """
    rates, starts = _texts(start), _texts(begin)
    return Table(
        _rnic.dcqcn_solve(
            rate, delay, packet, _pairs(parameters), _marking(kmin=kmin, kmax=kmax, pmax=pmax),
            _count(flows, rates, starts), rates, starts, (duration, step, sample),
        )
    )  # fmt: skip


def dcqcn_fixed_points(
    flows: Sequence[int],
    rate: str = "40 Gbps",
    *,
    delay: str = "50 us",
    packet: str = "1000 B",
    parameters: Mapping[str, Any] | None = None,
    kmin: str | None = None,
    kmax: str | None = None,
    pmax: float | None = None,
) -> Table:
    """The fixed point of the fluid model of DCQCN for each of the numbers of flows in `flows`.

    The other arguments are the same as for `dcqcn`. Returns a table with a row for each number: `flows`, `marking`
    (probability), `queue_bytes`, `rate_bps` and `target_bps` of each flow, `alpha`, and whether the model can reach it
    (`valid`).
    """
    counts = [int(count) for count in flows]
    marking = _marking(kmin=kmin, kmax=kmax, pmax=pmax)
    return Table(_rnic.dcqcn_fixed_points(rate, delay, packet, _pairs(parameters), marking, counts))


def timely(
    rate: str = "10 Gbps",
    flows: int | None = None,
    *,
    patched: bool = False,
    start: str | Iterable[str] | None = None,
    begin: str | Iterable[str] | None = None,
    delay: str | None = None,
    packet: str = "1000 B",
    parameters: Mapping[str, Any] | None = None,
    duration: str = "200 ms",
    step: str = "1 us",
    sample: str = "100 us",
) -> Table:
    """Solves the fluid model of TIMELY (SIGCOMM 2015), or of patched TIMELY (CoNEXT 2016).

    `start` is the initial rate of each flow (default: its fair share); `delay` is the propagation delay (default:
    min_rtt). `parameters` are t_low, t_high, min_rtt, beta, delta, alpha, segment. The other arguments and the table
    are the same as for `dcqcn`, without `marking`.
    """
    rates, starts = _texts(start), _texts(begin)
    return Table(
        _rnic.timely_solve(
            rate, patched, delay, packet, _pairs(parameters),
            _count(flows, rates, starts), rates, starts, (duration, step, sample),
        )
    )  # fmt: skip


def _many(value: Any) -> bool:
    return hasattr(value, "__len__") and not isinstance(value, str)


def buffers(
    *,
    ports: int | Sequence[int] = 32,
    rate: str | Sequence[str] = "40 Gbps",
    buffer: str | Sequence[str] = "12 MB",
    priorities: int | Sequence[int] = 8,
    mtu: str | Sequence[str] = "1500 B",
    delay: str | Sequence[str] = "500 ns",
    reaction: str | Sequence[str] | None = None,
    xon_offset: str | Sequence[str] | None = None,
    beta: float | Sequence[float] = 8.0,
    headroom: str | Sequence[str] | None = None,
) -> Table:
    """PFC headroom, pause thresholds and marking thresholds of switches with a shared buffer (DCQCN paper, section 4).

    The defaults are the switch of the paper. Each argument is one value, or a sequence with a value for each row;
    sequences have the same length. `delay` is the one-way delay of a link; `reaction` the time after which the other
    end of the link obeys a pause (default: IEEE 802.3's maximum); `xon_offset` the distance to the threshold at which
    the pause ends (default: two MTUs); `headroom` the configured headroom (default: the needed one).

    Returns a table with a row for each switch, in bytes: `needed_headroom_bytes`, `headroom_bytes`, `shared_bytes`,
    `t_pfc_bytes` (maximum static pause threshold), `static_t_ecn_bytes` and `dynamic_t_ecn_bytes` (bounds of the
    marking threshold with static and dynamic pause thresholds), `dynamic_t_pfc_bytes` (of an empty switch), `alpha`,
    and `safe` (false if packets can be lost). Raises ValueError for values out of range.
    """
    arguments = [ports, rate, buffer, priorities, mtu, delay, reaction, xon_offset, beta, headroom]
    lengths = {len(value) for value in arguments if _many(value)}  # type: ignore[arg-type]
    if len(lengths) > 1:
        raise ValueError(f"sequences of the lengths {sorted(lengths)}; accepted: one length for all")
    rows = []
    for index in range(lengths.pop() if lengths else 1):
        p, r, b, k, m, d, t, x, beta_, h = (value[index] if _many(value) else value for value in arguments)  # type: ignore[index]
        text = [None if value is None else str(value) for value in (t, x, h)]
        rows.append(((int(p), str(r), str(b), int(k), str(m), str(d), text[0], text[1], float(beta_)), text[2]))  # type: ignore[arg-type]
    return Table(_rnic.buffers([row[0] for row in rows], [row[1] for row in rows]))
