//! All tests of the crate in one program, which is much faster to build than a program for each file.

#[cfg(unix)]
mod browser;
#[cfg(all(feature = "endpoint", target_os = "linux"))]
mod mesh_processes;

mod architecture;
mod cli;
mod counters;
mod decode;
mod documents;
mod exec;
mod gallery;
#[cfg(all(feature = "endpoint", target_os = "linux"))]
mod guides;
mod imports;
#[cfg(unix)]
mod interrupt;
mod lint;
#[cfg(all(feature = "endpoint", target_os = "linux"))]
mod mesh;
#[cfg(all(feature = "endpoint", target_os = "linux"))]
mod mesh_deployment;
#[cfg(all(feature = "endpoint", target_os = "linux"))]
mod mesh_in_namespaces;
mod model;
#[cfg(feature = "p4")]
mod p4;
mod pcap;
#[cfg(all(feature = "endpoint", target_os = "linux"))]
mod perf_channels;
#[cfg(all(feature = "endpoint", target_os = "linux"))]
mod perf_pcap;
#[cfg(all(feature = "endpoint", target_os = "linux"))]
mod perftest;
#[cfg(all(feature = "endpoint", target_os = "linux"))]
mod ping;
#[cfg(unix)]
mod replay_in_browser;
#[cfg(unix)]
mod report_in_browser;
mod result_folder;
#[cfg(feature = "p4")]
mod resume;
mod run_traces;
#[cfg(unix)]
mod serve_in_browser;
#[cfg(all(feature = "endpoint", target_os = "linux"))]
mod top;
mod trace;
#[cfg(all(feature = "endpoint", target_os = "linux"))]
mod untrusted;
#[cfg(all(feature = "endpoint", target_os = "linux"))]
mod verbs;
mod words;
