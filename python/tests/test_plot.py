"""Figures."""

import pytest
from conftest import needs

import rnic


@pytest.fixture(autouse=True)
def matplotlib():
    module = needs("matplotlib")
    module.use("Agg")
    return module


def test_distributions_have_a_line_for_each_run(results, folder):
    for draw in (results.plot.fct_cdf, results.plot.slowdown_cdf):
        for tail in (False, True):
            figure = draw(tail=tail)
            (axes,) = figure.axes
            assert [line.get_label() for line in axes.lines] == ["IRN", "RoCE + PFC"]
            shares = list(axes.lines[0].get_ydata())
            assert len(shares) == 180 and shares == sorted(shares, reverse=tail) and max(shares) == 1
    figure.savefig("figure.pdf")
    assert (folder / "figure.pdf").stat().st_size > 5_000


def test_slowdowns_by_size(results):
    figure = results.plot.slowdown_by_size(["IRN"], percentile="p50")
    (line,) = figure.axes[0].lines
    assert list(line.get_ydata()) == [size.slowdown.p50 for size in results["IRN"].sizes]
    with pytest.raises(ValueError, match="accepted: mean"):
        results.plot.slowdown_by_size(percentile="p12")
    with pytest.raises(KeyError, match="unknown run"):
        results.plot.fct_cdf(["TCP"])


def test_figures_can_share_axes(results):
    import matplotlib.pyplot as pyplot

    figure, axes = pyplot.subplots()
    assert results.plot.fct_cdf(ax=axes) is figure and len(axes.lines) == 2


def test_queues_over_time(small, results):
    with pytest.raises(ValueError, match="no samples of queues"):
        results.plot.queues("IRN")
    watched = small.with_({"watch.interval": "10 us", "watch.queues": "all"}).run()
    (axes,) = watched.plot.queues("IRN").axes
    assert len(axes.lines) == 4 and len(axes.get_legend().get_texts()) == 4 and axes.get_title() == ""
    longest = [max(line.get_ydata()) for line in axes.lines]
    assert longest == sorted(longest, reverse=True)
    (axes,) = watched.plot.queues("IRN", longest=2).axes
    assert [max(line.get_ydata()) for line in axes.lines] == longest[:2]
    assert axes.get_title() == "2 longest of 4 queues" and axes.get_legend() is not None
    with pytest.raises(ValueError, match="longest = 0"):
        watched.plot.queues("IRN", longest=0)


def test_many_queues_can_be_told_apart():
    big = rnic.Scenario.load("irn/default").with_(
        {"traffic.flows": 100, "traffic.warmup": 10, "watch.interval": "50 us", "watch.queues": "all"}
    )
    (axes,) = big.run("IRN").plot.queues("IRN", longest=14).axes
    styles = {(line.get_color(), line.get_linestyle()) for line in axes.lines}
    assert len(axes.lines) == len(styles) == len(axes.get_legend().get_texts()) == 14
