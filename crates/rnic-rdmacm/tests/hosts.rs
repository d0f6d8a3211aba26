//! Hosts that run the program `deaths.c`: servers, clients that connect to them, and processes that only listen.

use crate::common::{Running, alone_waiting, await_text, command, library, linked_waiting, start};
use crate::interface::compile;
use rnic_netns::{Namespace, Pair};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The port of the servers, unless a test has several.
pub(crate) const PORT: u16 = 7_000;

/// A host with one device.
pub(crate) struct Host<'n> {
    pub(crate) namespace: &'n Namespace,
    pub(crate) address: String,
}

/// Runs `test` with two hosts that a link joins, if the program can be compiled.
pub(crate) fn two_hosts(test: impl FnOnce(&Host<'_>, &Host<'_>)) {
    if compiled().is_some() {
        linked_waiting(|pair| test(&Host::new(&pair.a, Pair::A4), &Host::new(&pair.b, Pair::B4)));
    }
}

/// Runs `test` with one host, if the program can be compiled.
pub(crate) fn one_host(test: impl FnOnce(&Host<'_>)) {
    if compiled().is_some() {
        alone_waiting(|namespace| test(&Host::new(namespace, [127, 0, 0, 1].into())));
    }
}

fn compiled() -> Option<&'static Path> {
    static COMPILED: OnceLock<Option<PathBuf>> = OnceLock::new();
    let compiled = COMPILED.get_or_init(|| {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/deaths.c");
        let [cm, verbs] = rnic_ibverbs::library::ALL.map(|one| library().join(one.name).to_str().unwrap().to_string());
        compile(&source, &[&verbs, &cm, "-lpthread"])
    });
    compiled.as_deref()
}

impl Host<'_> {
    fn new(namespace: &Namespace, address: IpAddr) -> Host<'_> {
        Host { namespace, address: address.to_string() }
    }

    /// Starts the program with these arguments, and waits until it has said something.
    pub(crate) fn run(&self, arguments: &str, said: &str) -> Running {
        let program = compiled().expect("there is a host only with the program");
        let mut command = command(&format!("{} {arguments}", program.display()));
        let running = start(self.namespace, command.env("RNIC_DEVICES", &self.address).env("RNIC_TRACE", "1"));
        await_text(&running, said);
        running
    }

    /// A server that ends with its last connection; `count` are expected.
    pub(crate) fn serve(&self, port: u16, count: usize) -> Running {
        self.run(&format!("server {} {port} {count}", self.address), "listens")
    }

    /// A client with `count` connections to the server of a host, which keeps them until it is killed.
    pub(crate) fn connect(&self, server: &Host<'_>, count: usize) -> Running {
        self.run(&format!("client {} {PORT} {count} wait", server.address), "connected")
    }

    /// A process that listens, and to which no client connects.
    pub(crate) fn listen(&self, port: u16) -> Running {
        self.run(&format!("listen {} {port}", self.address), "listens")
    }
}

/// Checks that a server has received a DREQ for each of its connections.
#[track_caller]
pub(crate) fn expect_disconnects(server: Running, count: usize) {
    let output = server.end().success();
    assert_eq!(output.matches("\ndisconnected, status 0\n").count(), count, "{output}");
}
