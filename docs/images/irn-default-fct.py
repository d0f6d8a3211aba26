#!/usr/bin/env python3
"""Draws the chart of the README from the results of the default scenario:

    rnic run scenarios/irn/default.toml
    python3 docs/images/irn-default-fct.py out/default/summary.json > docs/images/irn-default-fct.svg

The text has one colour that is readable on light and on dark backgrounds; the background is transparent.
"""

import json
import sys

WIDTH, LEFT, BAR, GAP, TOP = 720, 148, 30, 9, 62
LONGEST = 340  # length of the longest bar, in pixels
TEXT, ROCE, IRN = "#767f8a", "#d9772b", "#2a9d8f"
GROUPS = [("RoCE", ROCE, "RoCE + PFC", "RoCE, no PFC"), ("IRN", IRN, "IRN + PFC", "IRN")]


def main() -> None:
    with open(sys.argv[1], encoding="utf-8") as file:
        runs = {run["name"]: run for run in json.load(file)["runs"]}
    fct_ms = {name: run["fct_us"]["mean"] / 1000 for name, run in runs.items()}
    scale = LONGEST / max(fct_ms.values())
    lines, y = [], TOP

    def text(x: float, y: float, words: str, more: str = "") -> None:
        lines.append(f'<text x="{x:g}" y="{y:g}"{more}>{words}</text>')

    text(0, 20, "Average completion time of a flow", ' font-size="19" font-weight="600"')
    text(0, 42, "shorter is better; simulated fat-tree of 54 hosts, 40 Gbps, load 0.7, no congestion control", ' font-size="13"')
    for transport, colour, with_pfc, without_pfc in GROUPS:
        factor = fct_ms[without_pfc] / fct_ms[with_pfc]
        change = f"{factor:.1f} times as long" if factor >= 1 else f"{(1 - factor) * 100:.0f} % shorter"
        for name, label, note in [(with_pfc, "with PFC", ""), (without_pfc, "without PFC", change)]:
            length, middle = fct_ms[name] * scale, y + BAR / 2 + 5
            text(LEFT - 10, middle, f"{transport} {label}", ' text-anchor="end"')
            lines.append(f'<rect x="{LEFT}" y="{y}" width="{length:.1f}" height="{BAR}" rx="2" fill="{colour}"/>')
            text(round(LEFT + length + 8), middle, f"{fct_ms[name]:.2f} ms", ' font-weight="600"')
            if note:
                text(round(LEFT + length + 84), middle, note)
            y += BAR + GAP
        y += 12
    height = y - 12
    print(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" role="img" aria-labelledby="t"')
    print(f' font-family="system-ui, -apple-system, \'Segoe UI\', \'DejaVu Sans\', sans-serif" font-size="15" fill="{TEXT}">')
    values = "; ".join(f"{name}: {ms:.2f} ms" for name, ms in fct_ms.items())
    print(f'<title id="t">Average flow completion time. {values}</title>')
    print("\n".join(lines))
    print("</svg>")


main()
