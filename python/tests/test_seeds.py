"""Several seeds in one call, with confidence intervals."""

from __future__ import annotations

import json
import math
import pickle
import statistics

import pytest

import rnic


def test_seeds_have_means_and_intervals(small):
    found = small.run(seeds=3, threads=2)
    assert isinstance(found, rnic.SeedResults) and found.seeds == [1, 2, 3] and list(found) == ["IRN", "RoCE + PFC"]
    each = [small.with_(seed=seed).run() for seed in (1, 2, 3)]
    assert found.parts == each and found.at(2) == each[1]
    values = [part["IRN"].slowdown.p99 for part in each]
    estimate = found["IRN"]["slowdown.p99"]
    assert estimate.samples == values and estimate.seeds == 3
    assert estimate.mean == pytest.approx(statistics.mean(values))
    # Student's t with two degrees of freedom: 4.302653 at 95 %, 9.924843 at 99 %.
    half = statistics.stdev(values) / math.sqrt(3)
    assert estimate.half_width == pytest.approx(4.302653 * half, rel=1e-6)
    assert estimate.interval == (estimate.mean - estimate.half_width, estimate.mean + estimate.half_width)
    wide = small.run("IRN", seeds=3, confidence=0.99)
    assert wide["IRN"]["slowdown.p99"].half_width == pytest.approx(9.924843 * half, rel=1e-6)
    assert found["IRN"]["packets.data"].mean == sum(part["IRN"].packets.data for part in each) / 3
    assert float(estimate) == estimate.mean and str(estimate).count("±") == 1


def test_one_seed_has_no_interval(small):
    estimate = small.run("IRN", seeds=1)["IRN"]["fct_us.mean"]
    assert estimate.half_width is None and estimate.interval == (estimate.mean, estimate.mean)
    assert estimate.mean == small.run("IRN")["IRN"].fct_us.mean and "±" not in str(estimate)


def test_the_estimates_are_those_of_a_campaign(small, folder):
    swept = small.with_({"sweep": {"traffic.load": [0.3, 0.6]}})
    campaign = rnic.Campaign(swept, name="same", seeds=3).run("results", "threads").estimates("slowdown.p99")
    found = swept.run(seeds=3).estimates("slowdown.p99")
    assert [name for name in found.columns if name not in campaign.columns] == []
    for column in found.columns:
        exact = column not in ("mean", "half_width")
        assert found[column] == (campaign[column] if exact else pytest.approx(campaign[column], rel=1e-12)), column


def test_failed_runs_do_not_count(small):
    doomed = small.with_({"limits.max_time": "20 us"})
    with pytest.raises(rnic.RunError, match='run "IRN" seed 1 failed: .*run "IRN" seed 2 failed') as raised:
        doomed.run("IRN", seeds=2)
    found = raised.value.results
    assert found["IRN"].failed == 2 and len(found["IRN"]) == 0
    assert doomed.run(seeds=2, check=False)["IRN"].failed == 2


def test_values_and_representations(small):
    found = small.run(seeds=2)
    assert pickle.loads(pickle.dumps(found)) == found == small.run(seeds=2) != small.run(seeds=3)
    assert json.loads(json.dumps(found.to_dict()))["IRN"]["slowdown.mean"] == found["IRN"]["slowdown.mean"]
    assert json.loads(json.dumps(found["IRN"]["slowdown.mean"]))["seeds"] == 2
    assert repr(found) == "<rnic.SeedResults of 'small': 2 runs, seeds 1 to 2>"
    assert "±" in found._repr_html_() and len(found._repr_html_()) < 3_000
    assert len(repr(found["IRN"])) < 200
    assert repr(found["IRN"]["flows.offered"]) == "<rnic.Estimate 200 ± 0; 95 %, 2 seeds>"


def test_the_progress_names_the_seeds(small):
    states = []
    small.with_({"traffic.flows": 20_000}).run("IRN", seeds=2, progress=states.append)
    assert [row["run"] for row in states[-1]] == ["IRN (seed 1)", "IRN (seed 2)"]
    assert all(row["fraction"] == 1.0 for row in states[-1])


def test_a_class_simulates_several_seeds(small):
    class Fixed(rnic.CongestionControl):
        pass

    runs = small.with_({"run.IRN.cc": "python"})
    found = runs.run("IRN", seeds=2, congestion=Fixed)
    assert found.at(2) == runs.with_(seed=2).run("IRN", congestion=Fixed)


def test_wrong_arguments_are_refused(small):
    for arguments, message in [
        ({"seeds": 0}, "seeds = 0; accepted: 1 or more"),
        ({"confidence": 0.9}, "`confidence` has no effect without `seeds`"),
        ({"seeds": 2, "confidence": 1}, "confidence = 1; accepted: a probability above 0 and below 1"),
    ]:
        with pytest.raises(ValueError, match=message):
            small.run(**arguments)
    with pytest.raises(ValueError, match="a seed after 18446744073709551615 would be larger"):
        small.with_(seed=2**64 - 1).run(seeds=2)
    with pytest.raises(ValueError, match="`seeds` and the sweep over `seed` exclude each other"):
        small.with_({"sweep": {"seed": [1, 2]}}).run(seeds=2)
    found = small.run("IRN", seeds=2)
    with pytest.raises(KeyError, match="no metric `slowdown.p98`; did you mean `slowdown.p9"):
        found["IRN"]["slowdown.p98"]
    with pytest.raises(KeyError, match="no metric `slowdwn.mean`; did you mean `slowdown.mean`"):
        found.estimates("slowdwn.mean")
    with pytest.raises(KeyError, match="there is no seed 9; accepted: 1, 2"):
        found.at(9)
    with pytest.raises(KeyError, match='unknown run "TCP"; accepted: "IRN"'):
        found["TCP"]
