//! Sweeps of the fluid model of DCQCN over values of a parameter, with given values or with the values of figures 11
//! and 12 of the DCQCN paper.

use super::dcqcn::Setup;
use super::report::{queue_panel, spread_panel};
use super::{ModelFormat, SolveArgs, aligned, gbps, size, write};
use clap::ValueEnum;
use rnic_model::dcqcn::{Dcqcn, FixedPoint};
use rnic_model::series::{Group, Run, Series, Statistics};
use rnic_results::report::figure::{Axis, Line, Lines, Point, Scale, Unit, View};
use rnic_results::report::svg::{Panel, svg};
use rnic_results::text::round6;
use rnic_simulator::error::CliError;
use rnic_simulator::output;
use rnic_transport::congestion::Marking;
use rnic_transport::{BitRate, Bytes, Time};
use serde_json::{Value, json};

/// A figure of "Congestion Control for Large-Scale RDMA Deployments".
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum FigureName {
    /// Rate difference of two flows that start at line rate and at 0, for values of B, T, Kmax and Pmax
    Fig11,
    /// Queue length of 2, 4, 8 and 16 flows, for values of g
    Fig12,
}

/// The solution of the fluid model for one value of the swept parameter.
struct Solved {
    /// Name of the swept parameter.
    sweep: String,
    /// Value of the swept parameter.
    value: String,
    flows: u32,
    point: FixedPoint,
    series: Series,
    queue: Statistics,
    /// Rate of the fastest flow minus rate of the slowest flow, in bit/s: statistics after `--skip`, and statistics
    /// over the last tenth of the time. `None` if all flows are identical.
    spread: Option<(Statistics, Statistics)>,
}

impl Solved {
    fn new(
        sweep: &str, value: &str, setup: &Setup, groups: &[Group], run: &Run, solve: &SolveArgs,
    ) -> Result<Solved, CliError> {
        let at = |error: rnic_model::ModelError| CliError::Input(format!("{sweep} = {value}: {error}"));
        let flows = groups.iter().map(|group| group.count).sum();
        let point = setup.model.fixed_point(flows).map_err(at)?;
        let series = setup.model.solve(groups, run).map_err(at)?;
        let from = series.from(solve.skip.as_secs());
        let last = series.from(run.duration.as_secs() * 0.9);
        let queue = Statistics::of(&series.queue[from..]);
        let spread = (groups.len() > 1).then(|| {
            let spread = series.spread();
            (Statistics::of(&spread[from..]), Statistics::of(&spread[last..]))
        });
        Ok(Solved { sweep: sweep.to_string(), value: value.to_string(), flows, point, series, queue, spread })
    }
}

/// Solves the model for each value of the parameter `key` and prints the results.
pub(super) fn sweep(
    setup: &Setup, key: &str, values: &[&str], groups: &dyn Fn(&Setup) -> Result<Vec<Group>, CliError>,
    solve: &SolveArgs,
) -> Result<(), CliError> {
    let run = solve.run()?;
    if solve.check_step {
        return Err(CliError::Input(
            "--check-step cannot be used with --sweep: it checks a single solution".to_string(),
        ));
    }
    let mut solved = Vec::new();
    for value in values {
        let mut setup = *setup;
        setup.set(key, value)?;
        solved.push(Solved::new(key, value, &setup, &groups(&setup)?, &run, solve)?);
    }
    if let Some(path) = &solve.plot {
        let curves: Vec<(String, &Series)> =
            solved.iter().map(|one| (format!("{key} = {}", one.value), &one.series)).collect();
        let mut row = vec![after(queue_panel("Queue", &curves, None), solve)];
        if solved.iter().any(|one| one.spread.is_some()) {
            row.push(after(spread_panel("Fairness", "", &curves), solve));
        }
        write(path, &svg(&[row]))?;
    }
    give(&solved, solve, &[])
}

/// Removes the time before `--skip` from a figure of curves over time. Flows that all start at line rate cause an
/// initial queue, next to which the later queue would be too small to see.
fn after(mut panel: Panel, solve: &SolveArgs) -> Panel {
    let from = format!("from {} to {}", solve.skip, solve.duration);
    let caption = &mut panel.figure.caption;
    *caption = if caption.is_empty() { from } else { format!("{caption}; {from}") };
    for line in panel.figure.views.iter_mut().flat_map(|view| &mut view.lines) {
        line.points.retain(|point| point.x >= solve.skip.as_secs() * 1e3);
    }
    panel
}

/// Solves the fluid model for the cases of a figure of the DCQCN paper and prints the results.
pub(super) fn figure(name: FigureName, deployed: Dcqcn, solve: &SolveArgs) -> Result<(), CliError> {
    match name {
        FigureName::Fig11 => fig11(deployed, solve),
        FigureName::Fig12 => fig12(deployed, solve),
    }
}

/// The sweeps of figure 11 of the DCQCN paper, for two flows that start at line rate and at 0. The swept values between
/// the strawman (parameters of QCN and DCTCP) and the deployed parameters are our choice.
fn fig11(deployed: Dcqcn, solve: &SolveArgs) -> Result<(), CliError> {
    let run = solve.run()?;
    let strawman = Dcqcn { delay: deployed.delay, packet: deployed.packet, ..Dcqcn::strawman(deployed.rate) };
    let slow_counter = Dcqcn { byte_counter: Bytes(10_000_000), ..strawman };
    let red = |kmax, pmax| Marking { kmin: Bytes(5_000), kmax: Bytes(kmax), pmax };
    let panels: [(&str, &str, &str, Dcqcn, &[&str]); 4] = [
        ("B", "Byte counter", "strawman otherwise", strawman, &["150 KB", "500 KB", "1 MB", "5 MB", "10 MB"]),
        (
            "T",
            "Timer",
            "byte counter 10 MB, strawman otherwise",
            slow_counter,
            &["1500 us", "500 us", "300 us", "100 us", "55 us"],
        ),
        (
            "Kmax",
            "Kmax",
            "Kmin 5 KB, Pmax 1, strawman otherwise",
            Dcqcn { marking: red(40_000, 1.0), ..strawman },
            &["40 KB", "80 KB", "120 KB", "160 KB", "200 KB"],
        ),
        (
            "Pmax",
            "Pmax",
            "Kmin 5 KB, Kmax 200 KB, strawman otherwise",
            Dcqcn { marking: red(200_000, 1.0), ..strawman },
            &["1", "0.5", "0.1", "0.05", "0.01"],
        ),
    ];
    let flow = |rate| Group { count: 1, rate, start: Time::ZERO };
    let groups = [flow(deployed.rate), flow(BitRate::from_bps(0))];
    let mut solved = Vec::new();
    let mut sweeps = Vec::new();
    for (key, title, caption, model, values) in panels {
        let first = solved.len();
        for value in values {
            let mut setup = Setup { model, flows: Some(2) };
            setup.set(key, value)?;
            solved.push(Solved::new(key, value, &setup, &groups, &run, solve)?);
        }
        sweeps.push((title, caption, first..solved.len()));
    }
    if let Some(path) = &solve.plot {
        let panels: Vec<Panel> = sweeps
            .iter()
            .map(|(title, caption, range)| {
                let curves: Vec<(String, &Series)> =
                    solved[range.clone()].iter().map(|one| (one.value.clone(), &one.series)).collect();
                after(spread_panel(title, caption, &curves), solve)
            })
            .collect();
        let rows: Vec<Vec<Panel>> = panels.chunks(2).map(<[Panel]>::to_vec).collect();
        write(path, &svg(&rows))?;
    }
    let notes: Vec<String> = sweeps
        .iter()
        .map(|(title, caption, range)| format!("{} ({title}): {caption}", solved[range.start].sweep))
        .collect();
    give(&solved, solve, &notes)
}

/// The incasts of figure 12 of the DCQCN paper: flows that all start at line rate, for values of g.
fn fig12(deployed: Dcqcn, solve: &SolveArgs) -> Result<(), CliError> {
    const GAINS: [&str; 5] = ["1/16", "1/32", "1/64", "1/128", "1/256"];
    let run = solve.run()?;
    let degrees = [2, 4, 8, 16];
    let mut solved = Vec::new();
    for flows in degrees {
        for gain in GAINS {
            let mut setup = Setup { model: deployed, flows: Some(flows) };
            setup.set("g", gain)?;
            let groups = [Group { count: flows, rate: deployed.rate, start: Time::ZERO }];
            solved.push(Solved::new("g", gain, &setup, &groups, &run, solve)?);
        }
    }
    if let Some(path) = &solve.plot {
        let over_time = |flows: u32| {
            let curves: Vec<(String, &Series)> = solved
                .iter()
                .filter(|one| one.flows == flows && ["1/16", "1/256"].contains(&one.value.as_str()))
                .map(|one| (format!("g = {}", one.value), &one.series))
                .collect();
            after(queue_panel(&format!("{flows}:1 incast"), &curves, None), solve)
        };
        let by_gain = |title: &str, of: fn(&Statistics) -> f64| {
            let line = |(series, flows): (usize, &u32)| {
                let points = solved
                    .iter()
                    .filter(|one| one.flows == *flows)
                    .map(|one| Point::at(super::number(&one.value).unwrap_or(f64::NAN), of(&one.queue) / 1e3));
                Line { series, points: points.collect() }
            };
            Panel {
                series: degrees.iter().map(|flows| format!("{flows}:1")).collect(),
                figure: Lines {
                    title: title.to_string(),
                    caption: format!("from {} to {}", solve.skip, solve.duration),
                    x: Axis { name: "g".to_string(), unit: Unit::Number, scale: Scale::Log },
                    y: Axis { name: "KB".to_string(), unit: Unit::Number, scale: Scale::Zero },
                    dots: true,
                    views: vec![View { name: String::new(), lines: degrees.iter().enumerate().map(line).collect() }],
                    ..Lines::default()
                },
            }
        };
        let rows = [
            vec![over_time(2), over_time(16)],
            vec![
                by_gain("Mean queue", |queue| queue.mean),
                by_gain("Standard deviation of the queue", |queue| queue.deviation),
            ],
        ];
        write(path, &svg(&rows))?;
    }
    give(&solved, solve, &[])
}

fn give(solved: &[Solved], solve: &SolveArgs, notes: &[String]) -> Result<(), CliError> {
    let text = match solve.format {
        ModelFormat::Table => table(solved, solve, notes),
        ModelFormat::Json => format!("{:#}\n", json!({"rows": solved.iter().map(document).collect::<Vec<_>>()})),
        ModelFormat::Csv => csv(solved),
    };
    output::print(|out| write!(out, "{text}"))
}

fn table(solved: &[Solved], solve: &SolveArgs, notes: &[String]) -> String {
    let spreads = solved.iter().any(|one| one.spread.is_some());
    let mut head = vec!["", "flows", "fixed queue", "queue", "deviation", "min", "max"];
    if spreads {
        head.extend(["difference", "in the last tenth"]);
    }
    let mut rows = vec![head.into_iter().map(str::to_string).collect::<Vec<_>>()];
    for one in solved {
        let fixed = if one.point.is_valid() { size(one.point.queue) } else { "above Kmax".to_string() };
        let mut row = vec![format!("{} = {}", one.sweep, one.value), one.flows.to_string(), fixed];
        let queue = &one.queue;
        row.extend([queue.mean, queue.deviation, queue.min, queue.max].map(size));
        if let Some((spread, end)) = &one.spread {
            row.extend([gbps(spread.mean), gbps(end.mean)]);
        }
        rows.push(row);
    }
    let what = if spreads {
        "; difference is the mean difference between the rates of the fastest and the slowest flow"
    } else {
        ""
    };
    let notes: String = notes.iter().map(|note| format!("{note}\n")).collect();
    format!("{}From {} to {}{what}.\n{notes}", aligned(&rows, 1), solve.skip, solve.duration)
}

fn csv(solved: &[Solved]) -> String {
    let mut text =
        "parameter,value,flows,fixed_p,fixed_queue_bytes,fixed_valid,queue_mean_bytes,queue_deviation_bytes,\
        queue_min_bytes,queue_max_bytes,difference_mean_bps,difference_last_tenth_bps\n"
            .to_string();
    for one in solved {
        let queue = [one.queue.mean, one.queue.deviation, one.queue.min, one.queue.max].map(|v| round6(v).to_string());
        let spread = one.spread.as_ref().map_or([String::new(), String::new()], |(spread, end)| {
            [spread.mean, end.mean].map(|value| round6(value).to_string())
        });
        text += &format!(
            "{},{},{},{},{},{},{},{}\n",
            one.sweep,
            one.value,
            one.flows,
            round6(one.point.p),
            round6(one.point.queue),
            one.point.is_valid(),
            queue.join(","),
            spread.join(",")
        );
    }
    text
}

fn document(one: &Solved) -> Value {
    let stretch = |s: &Statistics| json!({"mean": round6(s.mean), "deviation": round6(s.deviation), "min": round6(s.min), "max": round6(s.max)});
    json!({
        "parameter": one.sweep,
        "value": one.value,
        "flows": one.flows,
        "fixed_point": {"p": one.point.p, "queue_bytes": one.point.queue, "valid": one.point.is_valid()},
        "queue_bytes": stretch(&one.queue),
        "difference_bps": one.spread.as_ref().map(|(spread, _)| stretch(spread)),
        "difference_last_tenth_bps": one.spread.as_ref().map(|(_, end)| stretch(end)),
    })
}
