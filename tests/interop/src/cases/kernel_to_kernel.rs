//! The bed's own proof: two guests on one cable.

use crate::bench::{Bench, Case};
use crate::ensure;
use crate::error::Result;
use crate::guest::{COMMAND_PATIENCE, Guest, OUT_OF_BAND_PORT};
use crate::host::Gid;

pub(super) const CASES: &[Case] =
    &[Case { name: "kernel-pingpong", about: "ibv_rc_pingpong between two guests, IPv4 and IPv6", run: pingpong }];

/// Starts a server in the second guest and a client in the first; gives what both printed.
fn meet([client, server]: &mut [Guest; 2], program: &str, options: &str) -> Result<[String; 2]> {
    let serving = server.spawn(&format!("{program} {options}"))?;
    server.await_listener(OUT_OF_BAND_PORT)?;
    let address = server.host().ipv4();
    let asking = client.spawn(&format!("{program} {options} {address}"))?;
    Ok([client.finish(asking, COMMAND_PATIENCE)?, server.finish(serving, COMMAND_PATIENCE)?])
}

fn pingpong(bench: &Bench) -> Result<()> {
    let mut guests = bench.two_guests(1500)?;
    for gid in [Gid::Ipv4, Gid::Ipv6] {
        let options = format!("-d rxe0 -g {} -n 20 -s 4096", gid.index());
        for output in meet(&mut guests, "ibv_rc_pingpong", &options)? {
            // 20 messages of 4096 bytes each way.
            ensure!(output.contains("163840 bytes in"), "ibv_rc_pingpong printed:\n{output}");
        }
    }
    Ok(())
}
