//! The command `rnic mesh`: the agents and the controller of an RDMA Pingmesh.

mod show;

use crate::ping::without_arrival_times;
use crate::service;
use clap::{Args, Subcommand};
use rnic_endpoint::port::ROCE_PORT;
use rnic_mesh::agent::Limits;
use rnic_mesh::controller::{self, ControllerError, Reload};
use rnic_mesh::credentials::{self, DENIED, Files, Issue};
use rnic_mesh::host::{self, HostError, NicChoice, NicTimes};
use rnic_mesh::inventory::{Inventory, Scope};
use rnic_mesh::pinglist::Pinglists;
use rnic_mesh::record::MAX_PATHS;
use rnic_sim::Catalogue;
use rnic_simulator::error::CliError;
use rnic_simulator::interrupt::Interruption;
use rnic_simulator::output::{self, note};
use rnic_watch::input::read_file;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Default TCP port of the controller for agents.
const AGENTS_PORT: u16 = 18_517;

#[derive(Args, Debug)]
pub(crate) struct MeshArgs {
    #[command(subcommand)]
    command: MeshCommand,
}

#[derive(Subcommand, Debug)]
enum MeshCommand {
    /// Probe the hosts that the controller names, and answer their probes
    Agent(AgentArgs),
    /// Tell agents whom to probe, store and judge their results, and serve the page
    Controller(ControllerArgs),
    /// Make the certificates of a mesh
    Keys(KeysArgs),
    /// Check an inventory, and show how many probes its hosts send
    Plan(PlanArgs),
    /// Show the page over the probes of a simulated run
    Show(show::ShowArgs),
}

#[derive(Args, Debug)]
#[command(after_help = "Example:\n  \
    rnic mesh agent --controller https://10.0.0.1:18517 --certificate h1.pem --key h1-key.pem --ca ca.pem --name h1\n\n\
    Paths are traced if the agent has the capability CAP_NET_RAW.\n\
    SIGHUP: the agent reads its certificates again, and continues with the old ones if the new ones cannot be used.\n\
    Exit codes: 0 ended by a signal; 1 the device failed; 2 invalid input.")]
struct AgentArgs {
    /// Address of the controller: https://HOST:PORT
    #[arg(long, value_name = "URL")]
    controller: String,

    /// Name of this host in the inventory [default: that of this machine]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    /// IP address at which probes are sent and received, as in the inventory [default: that of the name]
    #[arg(long, value_name = "ADDRESS")]
    address: Option<IpAddr>,

    /// UDP port of this host's device
    #[arg(long, value_name = "N", default_value_t = ROCE_PORT)]
    roce_port: u16,

    /// Probes per second that this host sends at most, whatever the controller says, 1 to 10000
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    max_rate: u32,

    /// Whether a real NIC carries the probes: the RDMA device of libibverbs with this address
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = NicChoice::Auto)]
    nic: NicChoice,

    /// Which time stamps of a real NIC are the times of probes
    #[arg(long, value_enum, value_name = "WHICH", default_value_t = NicTimes::Hardware)]
    nic_times: NicTimes,

    /// Do not trace the paths of probes
    #[arg(long)]
    no_traces: bool,

    #[command(flatten)]
    files: FileArgs,
}

#[derive(Args, Debug)]
#[command(after_help = "Example:\n  \
    rnic mesh controller inventory.toml --data /var/lib/rnic-mesh --certificate controller.pem \\\n      \
    --key controller-key.pem --ca ca.pem\n\n\
    The page at http://127.0.0.1:18518/ is for this machine. With --page on another address it uses TLS, and shows\n\
    itself to holders of the certificate `operator`. The metrics for Prometheus are at /metrics of the same address.\n\
    SIGHUP: the controller reads the inventory, its certificates and the list of --deny again, without an interruption.\n\
    A file with a mistake changes nothing.\n\
    Exit codes: 0 ended by a signal; 1 an address or the folder is in use; 2 invalid input.")]
struct ControllerArgs {
    /// File with the hosts, switches, settings and alarm rules
    #[arg(value_name = "INVENTORY.toml")]
    inventory: PathBuf,

    /// Folder of the results
    #[arg(long, value_name = "DIR")]
    data: PathBuf,

    /// Address for agents
    #[arg(long, value_name = "ADDRESS:PORT", default_value_t = SocketAddr::from(([0, 0, 0, 0], AGENTS_PORT)))]
    listen: SocketAddr,

    /// Address of the page and of the metrics
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:18518")]
    page: SocketAddr,

    /// Push the metrics to this OpenTelemetry collector: http://HOST:4318/v1/metrics
    #[arg(long, value_name = "URL")]
    otlp: Option<String>,

    /// File with the SHA-256 of withdrawn certificates, as `rnic mesh keys --withdraw` writes it
    #[arg(long, value_name = "FILE")]
    deny: Option<PathBuf>,

    #[command(flatten)]
    files: FileArgs,
}

#[derive(Args, Debug)]
#[command(after_help = "Example:\n  \
    rnic mesh keys inventory.toml --out keys --controller 10.0.0.1 --controller mesh.example.com\n\n\
    Files that exist remain as they are, so hosts can be added later. Keep ca-key.pem away from all hosts.\n\
    A certificate lasts a year, the authority ten. Run it with --renew once a month, copy the new files to their hosts,\n\
    and send SIGHUP to the agents and to the controller.")]
struct KeysArgs {
    /// File with the hosts
    #[arg(value_name = "INVENTORY.toml")]
    inventory: PathBuf,

    /// Folder of the certificates and keys
    #[arg(long, value_name = "DIR")]
    out: PathBuf,

    /// A name or IP address by which agents call the controller; may be repeated
    #[arg(long, value_name = "NAME", required = true)]
    controller: Vec<String>,

    /// Life of new certificates in days, 1 to 3650
    #[arg(long, value_name = "N", default_value_t = 365, value_parser = clap::value_parser!(u32).range(1..=3_650))]
    days: u32,

    /// Make the certificates again that have less than a third of their life left
    #[arg(long)]
    renew: bool,

    /// Withdraw the certificate of this host, or of `operator`; may be repeated. Its SHA-256 is added to denied.txt in
    /// the folder, and a host of the inventory gets a new certificate
    #[arg(long, value_name = "NAME")]
    withdraw: Vec<String>,
}

#[derive(Args, Debug)]
struct PlanArgs {
    /// File with the hosts, switches, settings and alarm rules
    #[arg(value_name = "INVENTORY.toml")]
    inventory: PathBuf,
}

/// The certificates of an agent or of the controller.
#[derive(Args, Debug)]
struct FileArgs {
    /// PEM file with the certificate of this command
    #[arg(long, value_name = "FILE")]
    certificate: PathBuf,

    /// PEM file with the private key of the certificate
    #[arg(long, value_name = "FILE")]
    key: PathBuf,

    /// PEM file with the certificate of the mesh's authority
    #[arg(long, value_name = "FILE")]
    ca: PathBuf,
}

impl FileArgs {
    fn files(&self) -> Files {
        Files { certificate: self.certificate.clone(), key: self.key.clone(), ca: self.ca.clone() }
    }
}

fn read_inventory(path: &Path) -> Result<Inventory, CliError> {
    let text = read_file(path).map_err(|error| CliError::Input(error.to_string()))?;
    Inventory::parse(&text).map_err(|why| CliError::Input(format!("{}: {why}", path.display())))
}

/// Runs the given part of a mesh.
pub(crate) fn mesh(arguments: &MeshArgs, catalogue: &Catalogue) -> Result<(), CliError> {
    match &arguments.command {
        MeshCommand::Agent(arguments) => agent(arguments),
        MeshCommand::Controller(arguments) => control(arguments),
        MeshCommand::Keys(arguments) => keys(arguments),
        MeshCommand::Plan(arguments) => plan(arguments),
        MeshCommand::Show(arguments) => show::show(arguments, catalogue),
    }
}

fn agent(arguments: &AgentArgs) -> Result<(), CliError> {
    let interruption = Interruption::listen()?;
    let name = arguments.name.clone().unwrap_or_else(service::host_name);
    let address = match arguments.address {
        Some(address) => address,
        None => {
            use std::net::ToSocketAddrs;
            let found = (name.as_str(), 0).to_socket_addrs().ok().and_then(|mut all| all.next());
            let unknown =
                || CliError::Input(format!("the host name {name} has no IP address; give one with --address"));
            found.ok_or_else(unknown)?.ip()
        }
    };
    if arguments.nic == NicChoice::Never && arguments.nic_times != NicTimes::Hardware {
        return Err(CliError::Input("--nic-times has no effect with --nic never".to_string()));
    }
    let options = host::Options {
        host: name,
        address: SocketAddr::new(address, arguments.roce_port),
        controller: arguments.controller.clone(),
        files: arguments.files.files(),
        limits: Limits { rate: arguments.max_rate.into(), ..Limits::default() },
        trace: !arguments.no_traces,
        nic_times: arguments.nic_times,
        nic: arguments.nic,
        reload: Interruption::on_hangup()?,
    };
    let event = |event: host::Event| match event {
        host::Event::Open(address) => note(&format!("probes at {address}")),
        host::Event::Nic(name, stamps) => {
            let times = match (stamps, arguments.nic_times) {
                (false, _) => "of the software that sees its completions",
                (true, NicTimes::Any) => "of its driver",
                (true, _) => "of its hardware",
            };
            note(&format!("the NIC {name} carries the probes, with time stamps {times}"));
        }
        host::Event::NoNic(why) => note(&format!("the endpoint in software carries the probes: {why}")),
        host::Event::NoArrivalTimes(why) => note(&without_arrival_times(&why)),
        host::Event::List(targets, probers) => note(&format!("pinglist: {targets} targets, {probers} probers")),
        host::Event::Unreachable(why) => note(&format!("error: {why}")),
        host::Event::Discarded(why) => note(&format!("error: results are discarded: {why}")),
        host::Event::Stopped => note("the controller has not answered three times; probing stops until it does"),
        host::Event::Reachable => note("the controller answers again"),
        host::Event::Certificates => note("the certificates were read again"),
        host::Event::NotReloaded(why) => note(&format!("error: the certificates remain as they were: {why}")),
        host::Event::CertificateEnds(end) => note(&certificate_ends("this host", end)),
        host::Event::NoTraces(why) => note(&format!("paths are not traced: {why}")),
    };
    host::run(&options, interruption.flag(), event).map_err(|error| match error {
        HostError::Setup(why) => CliError::Input(why),
        error => CliError::Failed(vec![error.to_string()]),
    })
}

fn control(arguments: &ControllerArgs) -> Result<(), CliError> {
    let interruption = Interruption::listen()?;
    let inventory = arguments.inventory.clone();
    let options = controller::Options {
        inventory: Arc::new(read_inventory(&arguments.inventory)?),
        folder: arguments.data.clone(),
        listen: arguments.listen,
        page: arguments.page,
        files: arguments.files.files(),
        otlp: arguments.otlp.clone(),
        clock: controller::Clock::default(),
        denied: arguments.deny.clone(),
        reload: Reload::new(Interruption::on_hangup()?, move || {
            read_inventory(&inventory).map_err(|error| error.to_string())
        }),
    };
    let scheme = if arguments.page.ip().is_loopback() { "http" } else { "https" };
    let event = |event: controller::Event| match event {
        controller::Event::Open(agents, page) => {
            note(&format!("agents at https://{agents}, page at {scheme}://{page}/"))
        }
        controller::Event::Replayed(batches) => note(&format!("{batches} reports of an earlier controller")),
        controller::Event::Refilled(earlier) => {
            note(&format!("{} results of the last hour", earlier.results));
            if earlier.left_out > 0 {
                note(&format!("{} older ones are not in the windows, because there are too many", earlier.left_out));
            }
            for why in earlier.unreadable {
                note(&format!("error: results cannot be read: {why}"));
            }
        }
        controller::Event::Agent(host) => note(&format!("{host}: its agent has registered")),
        controller::Event::Storage(why) => note(&format!("error: results are not stored, agents keep them: {why}")),
        controller::Event::Damaged(why) => note(&format!("error: results are damaged: {why}")),
        controller::Event::Inventory(hosts, added, removed) => {
            note(&format!("the inventory was read again: {hosts} hosts, {added} added, {removed} removed"));
        }
        controller::Event::Certificates(denied) => {
            note(&format!("the certificates were read again; {denied} are withdrawn"));
        }
        controller::Event::NotReloaded(why) => note(&format!("error: the controller continues as before: {why}")),
        controller::Event::CertificateEnds(name, end) => note(&certificate_ends(&name, end)),
        controller::Event::StorageBack => note("results are stored again"),
        controller::Event::Otlp(why) => note(&format!("error: metrics are not pushed: {why}")),
    };
    controller::run(&options, interruption.flag(), event).map_err(|error| match error {
        ControllerError::Setup(why) => CliError::Input(why),
        error => CliError::Failed(vec![error.to_string()]),
    })
}

fn keys(arguments: &KeysArgs) -> Result<(), CliError> {
    let inventory = read_inventory(&arguments.inventory)?;
    let hosts: Vec<String> = inventory.hosts.iter().map(|host| host.name.clone()).collect();
    let issue = Issue { days: arguments.days, renew: arguments.renew, withdraw: arguments.withdraw.clone() };
    let issued = credentials::issue(&arguments.out, &arguments.controller, &hosts, &issue);
    let issued = issued.map_err(|why| CliError::Failed(vec![why]))?;
    let folder = arguments.out.display();
    for (name, end) in &issued.due {
        note(&format!("{}; renew it with --renew", certificate_ends(name, *end)));
    }
    output::print(|out| {
        writeln!(out, "{} new files in {folder}; keep {folder}/ca-key.pem away from all hosts", issued.files.len())?;
        if !issued.renewed.is_empty() {
            writeln!(out, "renewed: {}", issued.renewed.join(", "))?;
        }
        if !arguments.withdraw.is_empty() {
            let names = arguments.withdraw.join(", ");
            writeln!(
                out,
                "withdrawn: {names}; give {folder}/{DENIED} to the controller with --deny, and send it SIGHUP"
            )?;
        }
        Ok(())
    })
}

/// A warning about a certificate that ends at this time in seconds since 1970.
fn certificate_ends(name: &str, end: i64) -> String {
    let time = service::utc(end.max(0).unsigned_abs());
    let ended = end.max(0).unsigned_abs() <= service::unix_seconds();
    format!("error: the certificate of {name} {} at {time}", if ended { "ended" } else { "ends" })
}

fn plan(arguments: &PlanArgs) -> Result<(), CliError> {
    let inventory = read_inventory(&arguments.inventory)?;
    let lists = Pinglists::new(&inventory);
    let mut by_scope = [(0_u64, 0.0_f64); 4];
    let mut busiest: (f64, &str) = (0.0, "");
    for (number, host) in (0..).zip(&inventory.hosts) {
        let mut rate = 0.0;
        for peer in lists.of_host(number) {
            let (pairs, probes) = &mut by_scope[inventory.scope(number, peer.host) as usize];
            let own = 1.0 / peer.interval.as_secs();
            *pairs += 1;
            *probes += own;
            rate += own;
        }
        if rate > busiest.0 {
            busiest = (rate, &host.name);
        }
    }
    output::print(|out| {
        writeln!(out, "{} hosts below {} ToR switches", inventory.hosts.len(), inventory.tors.len())?;
        writeln!(out, "{:<12} {:>10} {:>12}", "scope", "pairs", "probes/s")?;
        for scope in Scope::ALL {
            let (pairs, probes) = by_scope[scope as usize];
            writeln!(out, "{:<12} {pairs:>10} {probes:>12.1}", scope.name())?;
        }
        let size = usize::from(inventory.settings.size);
        let bits = busiest.0 * (size + 72) as f64 * 8.0 * 2.0;
        writeln!(
            out,
            "the busiest host, {}, sends {:.1} probes/s: about {:.0} kbit/s",
            busiest.1,
            busiest.0,
            bits / 1e3
        )?;
        let paths = inventory.settings.paths;
        writeln!(out, "{paths} paths to each target (at most {MAX_PATHS})")
    })
}
