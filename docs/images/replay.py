#!/usr/bin/env python3
"""Draws the moving picture of the README from a replay:

    rnic run scenarios/replay/incast.toml --run "RoCE + PFC" --replay
    python3 docs/images/replay.py out/incast/replay.html > docs/images/replay.svg

The picture shows the run slowed down: links by their utilisation, queues as bars at the
ports, pauses in red. It has the colours of light and dark pages.
"""

import base64
import json
import re
import sys
import zlib

WIDTH, HEIGHT, MARGIN = 760, 360, 30
STEPS, SECONDS = 48, 12
STYLE = """
text { font: 12px system-ui, sans-serif; fill: #566172; text-anchor: middle }
.l { stroke: #1d5fa8; fill: none } .q { stroke: #c2570c; stroke-width: 6; fill: none } .p { stroke: #c01f4a; stroke-width: 4; fill: none }
.n { fill: #fff; stroke: #1b2430; stroke-width: 1.3 } .t { font-size: 13px; text-anchor: start }
@media (prefers-color-scheme: dark) {
  text { fill: #a0abba } .l { stroke: #6ea8e8 } .q { stroke: #f0955a } .p { stroke: #ff6f91 } .n { fill: #12161c; stroke: #e4e8ee }
}
"""


class Columns:
    """Reads the columns of a run; crates/rnic-results/src/replay/columns.rs states their order."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def number(self) -> int:
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def signed(self) -> int:
        value = self.number()
        return -(value + 1) // 2 if value % 2 else value // 2


def read(path: str) -> tuple:
    with open(path, encoding="utf-8") as file:
        page = file.read()
    data = re.search(r'id="data">(.*?)</script>', page, re.DOTALL)
    run = json.loads(data.group(1))["runs"][0]
    columns = Columns(zlib.decompress(base64.b64decode(run["data"])))
    frames, ports = run["frames"], len(run["ports"]["node"])
    times, time = [], 0
    for _ in range(frames):
        time += columns.number()
        times.append(time / 1e6)
    used, queued = [], []
    for _ in range(ports):
        value, row = 0, []
        for _ in range(frames):
            value = (value + columns.byte()) & 255
            row.append(value / 255)
        used.append(row)
    for _ in range(ports):
        value, row = 0, []
        for _ in range(frames):
            value += columns.signed()
            row.append(value)
        queued.append(row)
    for _ in range(ports):
        for _ in range(columns.number()):
            [columns.number() for _ in range(5)]
    pauses, start = [], 0
    for _ in range(columns.number()):
        port, _ = columns.number(), columns.number()
        start += columns.signed()
        length = columns.number()
        [columns.number() for _ in range(2)]
        end = (start + length - 1) / 1e6 if length else run["end"]
        pauses.append((port, start / 1e6, end))
    return run, times, used, queued, pauses


def animated(attribute: str, values: list) -> str:
    """An animation of an attribute through the values, without repetitions in the middle of equal values."""
    if len(set(values)) == 1:
        return ""
    kept = [i for i, v in enumerate(values) if i in (0, len(values) - 1) or v != values[i - 1] or v != values[i + 1]]
    times = ";".join(f"{i / (len(values) - 1):.3g}" for i in kept)
    texts = ";".join(f"{values[i]:g}" for i in kept)
    return (
        f'<animate attributeName="{attribute}" dur="{SECONDS}s" repeatCount="indefinite" '
        f'keyTimes="{times}" values="{texts}"/>'
    )


def main() -> None:
    run, times, used, queued, pauses = read(sys.argv[1])
    nodes, ports = run["nodes"], run["ports"]
    until = run["end"]
    instants = [until * i / (STEPS - 1) for i in range(STEPS)]
    frame = [min(range(len(times)), key=lambda f: abs(times[f] - instant)) for instant in instants]
    longest = max(max(row) for row in queued) or 1
    x = [MARGIN + v * (WIDTH - 2 * MARGIN) for v in nodes["x"]]
    y = [64 + v * (HEIGHT - 64 - MARGIN) for v in nodes["y"]]
    lines = []

    def line(port: int, kind: str, animation: str, part: float = 1.0, start: float = 0.0, more: str = "") -> None:
        a, b = ports["node"][port], ports["node"][ports["peer"][port]]
        dx, dy = x[b] - x[a], y[b] - y[a]
        length = (dx * dx + dy * dy) ** 0.5
        ox, oy = -dy / length * 2, dx / length * 2
        point = [x[a] + ox + dx * start, y[a] + oy + dy * start, x[a] + ox + dx * part, y[a] + oy + dy * part]
        lines.append('<path class="{}" d="M{:.0f} {:.0f}L{:.0f} {:.0f}"{}>{}</path>'.format(kind, *point, more, animation))

    for port, row in enumerate(used):
        widths = [round(0.4 + 3.6 * row[f], 1) for f in frame]
        line(port, "l", animated("stroke-width", widths), more=f' stroke-width="{widths[STEPS // 3]}"')
    for port, row in enumerate(queued):
        if max(row) < longest / 50:
            continue
        a, b = ports["node"][port], ports["node"][ports["peer"][port]]
        length = ((x[b] - x[a]) ** 2 + (y[b] - y[a]) ** 2) ** 0.5
        bar = 46 / length
        # The dash is the visible part of the bar.
        dashes = [round(46 * row[f] / longest) for f in frame]
        animation = animated("stroke-dashoffset", [46 - dash for dash in dashes])
        line(port, "q", animation, bar + 8 / length, 8 / length, f' stroke-dasharray="46 60" stroke-dashoffset="{46 - dashes[STEPS // 3]}"')
    for port in sorted({port for port, _, _ in pauses}):
        own = [(start, end) for p, start, end in pauses if p == port]
        step = until / (STEPS - 1)
        shown = [int(any(start < t + step / 2 and end > t - step / 2 for start, end in own)) for t in instants]
        if any(shown):
            line(port, "p", animated("opacity", shown), 0.66, 0.34, f' opacity="{shown[STEPS // 3]}"')
    for node, name in enumerate(nodes["name"]):
        if nodes["kind"][node] == "host":
            lines.append(f'<circle class="n" cx="{x[node]:.0f}" cy="{y[node]:.0f}" r="5"/>')
            lines.append(f'<text x="{x[node]:.0f}" y="{y[node] + 20:.0f}">{name}</text>')
        else:
            lines.append(f'<rect class="n" x="{x[node] - 10:.0f}" y="{y[node] - 7:.0f}" width="20" height="14"/>')
    text = f"An incast under PFC, {until / 1000:.2g} ms in {SECONDS} s: links by utilisation, "
    text += "queues (orange), paused links (red)"
    lines.append(f'<text class="t" x="{MARGIN - 12}" y="20">{text}</text>')
    print(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        f'role="img" aria-label="{text}"><style>{STYLE}</style>\n' + "\n".join(lines) + "\n</svg>"
    )


if __name__ == "__main__":
    main()
