#!/bin/sh
# Writes the replays of the gallery (docs/guides/replay.md) and the moving picture of the README. Argument: the command
# `rnic` or `rnic-simulator`, for example target/release/rnic-simulator. Run it in the root of the repository.
set -eu
rnic=$1
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
make() {
    name=$1 scenario=$2
    shift 2
    # A run that ends in a deadlock counts as failed; its replay is complete.
    "$rnic" run "$scenario" "$@" --replay --replay-size "150 KB" --out "$out" --quiet >"$out/log" 2>&1 || [ "$name" = deadlock ]
    cp "$out/$(basename "$scenario" .toml)/replay.html" "docs/replays/$name.html"
}
make incast scenarios/replay/incast.toml
make storm scenarios/pfc/storm.toml --run "RoCE + PFC, no storm" --run "RoCE + PFC, 2 ms of storm"
make deadlock scenarios/pfc/deadlock.toml
make head-of-line scenarios/pfc/head-of-line.toml
make loss scenarios/replay/loss.toml
python3 docs/images/replay.py docs/replays/incast.html >docs/images/replay.svg
