//! What the linker needs to make `libibverbs.so.1` of this crate's static library.
//!
//! A Rust `cdylib` has its own version script, which gives every symbol the same version. Programs are linked with the
//! versions of the distribution's library, and NCCL asks for them by name (`dlvsym`). So a C compiler links the static
//! library: [`link`] has the arguments.

use std::ffi::OsString;
use std::path::Path;

/// The version script.
pub const VERSION_SCRIPT: &str = include_str!("../link/libibverbs.map");

/// C source of the symbols that exist in name only.
pub const VERSIONS_SOURCE: &str = include_str!("../link/versions.c");

/// Name of the shared library, by which programs find it.
pub const NAME: &str = "libibverbs.so.1";

/// The arguments with which a C compiler links the static library `archive` and the C source `versions` to the shared
/// library `out`. `script` is the file with the version script.
pub fn link(archive: &Path, versions: &Path, script: &Path, out: &Path) -> Vec<OsString> {
    let option = |option: &str, path: &Path| {
        let mut argument = OsString::from(option);
        argument.push(path);
        argument
    };
    let mut arguments: Vec<OsString> = vec!["-shared".into(), "-fPIC".into(), "-O2".into(), "-o".into(), out.into()];
    arguments.push(versions.into());
    arguments.push("-Wl,--whole-archive".into());
    arguments.push(archive.into());
    arguments.push("-Wl,--no-whole-archive".into());
    arguments.push(option("-Wl,--version-script=", script));
    arguments.push(format!("-Wl,-soname,{NAME}").into());
    arguments.extend(["-Wl,--gc-sections", "-Wl,-z,defs", "-lgcc_s", "-lpthread", "-ldl", "-lm"].map(OsString::from));
    arguments
}

/// Whether programs of this user share the device of the address `ip`, so that others can join them.
pub fn is_shared(ip: std::net::IpAddr) -> bool {
    crate::port::is_shared(ip)
}
