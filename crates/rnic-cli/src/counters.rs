//! The command `rnic counters`, which exports counters as Prometheus metrics.

use crate::service::{self, MetricsPage};
use clap::Args;
use rnic_metrics::exposition::Metrics;
use rnic_simulator::error::CliError;
use rnic_simulator::interrupt::Interruption;
use rnic_simulator::output::{self, note};
use rnic_untrusted::text::escaped;
use rnic_watch::counters::{Host, Reading, Recorder, Sonic, pause_metrics, suspects};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    rnic counters --listen 0.0.0.0:9478                      # on a host\n  \
    rnic counters --redis unix:///var/run/redis/redis.sock   # on a SONiC switch\n  \
    rnic counters --root examples/fleet/devices/gpu1 --once\n  \
    rnic counters --suspects leaf1.txt spine1.txt --cabling cabling.csv   # what pauses the network\n\n\
    examples/prometheus has a configuration of Prometheus and alert rules.\n\
    Exit codes: 0 ended by a signal, or --once; 1 the address is in use, or --once could not read; 2 invalid input.")]
pub(crate) struct CountersArgs {
    /// Folder whose `sys` has the counters of a host; files ethtool-S-IF.txt in it have statistics [default: /]
    #[arg(long, value_name = "DIR", conflicts_with = "redis")]
    root: Option<PathBuf>,

    /// Read the counters of a SONiC switch from its Redis: redis://HOST:PORT or unix:///PATH
    #[arg(long, value_name = "ADDRESS")]
    redis: Option<String>,

    /// Name of the host or switch in the label `node` [default: that of this machine]
    #[arg(long, value_name = "NAME")]
    node: Option<String>,

    /// Time between two readings
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = service::interval)]
    every: Duration,

    /// Address at which the page /metrics is served
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9478")]
    listen: SocketAddr,

    /// Read metrics that exporters have served from files instead, and name what pauses the network
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with_all = ["root", "redis", "node", "every", "listen", "once"])]
    suspects: Vec<PathBuf>,

    /// File with all links (device,port,device,port in each line), from which --suspects knows the peers of ports
    #[arg(long, value_name = "FILE", requires = "suspects")]
    cabling: Option<PathBuf>,

    /// Print the metrics once instead of serving them; pause shares need two readings, which are --every apart
    #[arg(long, conflicts_with = "listen")]
    once: bool,
}

/// The source of the counters: a host, or a SONiC switch.
enum Source {
    Host(Host),
    Sonic(Box<Sonic>),
}

impl Source {
    fn open(arguments: &CountersArgs) -> Result<Source, CliError> {
        match &arguments.redis {
            Some(address) => {
                let sonic = Sonic::new(address, Duration::from_secs(3)).map_err(CliError::Input)?;
                Ok(Source::Sonic(Box::new(sonic)))
            }
            None => {
                let root = arguments.root.as_deref().unwrap_or(Path::new("/"));
                let host = Host::open(root).map_err(|error| CliError::Input(error.to_string()))?;
                Ok(Source::Host(host))
            }
        }
    }

    fn read(&mut self) -> Result<Reading, String> {
        match self {
            Source::Host(host) => Ok(host.read()),
            Source::Sonic(sonic) => sonic.read(),
        }
    }
}

/// Serves the counters, or prints them once.
pub(crate) fn counters(arguments: &CountersArgs) -> Result<(), CliError> {
    if !arguments.suspects.is_empty() {
        return suspects(arguments);
    }
    let mut source = Source::open(arguments)?;
    let node = arguments.node.clone().unwrap_or_else(service::host_name);
    let mut recorder = Recorder::new(node);
    let interruption = Interruption::listen()?;
    let clock = service::Clock::start();
    if arguments.once {
        return once(arguments, &mut source, &mut recorder, &interruption, &clock);
    }
    let page = MetricsPage::serve(arguments.listen)?;
    let mut failure = None;
    while interruption.exit_code().is_none() {
        let mut metrics = Metrics::new();
        let reading = source.read();
        let now = reading.as_ref().err().cloned();
        if now != failure {
            let message = now.as_ref().map_or("the source is back".to_string(), |message| format!("error: {message}"));
            note(&message);
            failure = now;
        }
        // A source that cannot be read has no values, so that an old value is not taken for a new one.
        let reading = reading.unwrap_or_else(|_| Reading { sources: vec![("redis", false)], ..Reading::default() });
        recorder.record(&reading, clock.nanoseconds(), &mut metrics);
        page.set(&metrics);
        service::wait(arguments.every, &interruption);
    }
    Ok(())
}

/// Prints the causes of PFC pauses in the network, which follow from the metrics of all nodes.
fn suspects(arguments: &CountersArgs) -> Result<(), CliError> {
    let read = pause_metrics::read(&arguments.suspects, arguments.cabling.as_deref());
    let runs = read.map_err(|error| CliError::Input(error.to_string()))?;
    output::print(|out| {
        for (run, transmitters) in &runs {
            let run = if run.is_empty() { String::new() } else { format!("run \"{}\": ", escaped(run)) };
            let found = suspects::suspects(transmitters);
            for suspect in &found {
                writeln!(out, "{}", escaped(&format!("{run}{}", suspect.text())))?;
            }
            if found.is_empty() {
                let most = transmitters.iter().map(|one| one.paused).fold(0.0, f64::max) * 100.0;
                let links = transmitters.len();
                writeln!(
                    out,
                    "{run}no link is blocked: of {links} transmitters none was paused for more than {most:.0} %"
                )?;
            }
        }
        if runs.is_empty() {
            writeln!(out, "the files have no pause times; they need two readings of an exporter")?;
        }
        Ok(())
    })
}

fn once(
    arguments: &CountersArgs, source: &mut Source, recorder: &mut Recorder, interruption: &Interruption,
    clock: &service::Clock,
) -> Result<(), CliError> {
    let failed = |message| CliError::Failed(vec![message]);
    recorder.record(&source.read().map_err(failed)?, clock.nanoseconds(), &mut Metrics::new());
    service::wait(arguments.every, interruption);
    let mut metrics = Metrics::new();
    recorder.record(&source.read().map_err(failed)?, clock.nanoseconds(), &mut metrics);
    output::print(|out| write!(out, "{}", metrics.prometheus()))
}
