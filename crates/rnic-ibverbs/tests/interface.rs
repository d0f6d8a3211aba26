//! The interface itself: exported symbols, layouts of structures, and what each verb answers.

use crate::common::{alone, await_port, command, has, library, linked, program, start};
use rnic_ibverbs::library::NAME;
use rnic_netns::Pair;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// The symbols that a library exports, with their versions: `name@VERSION`, or `name@@VERSION` for the default version.
fn exports(library: &Path) -> Option<BTreeSet<String>> {
    let output = Command::new("readelf").args(["-W", "--dyn-syms"]).arg(library).output().ok()?;
    let text = String::from_utf8(output.stdout).unwrap();
    let symbols = text.lines().filter_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [.., section, symbol] = fields[..] else { return None };
        // The functions between the two libraries of rnic are not exported by the distribution's.
        let is_public = symbol.contains('@') && !symbol.ends_with("@RNIC_4");
        (section != "UND" && is_public).then(|| symbol.to_string())
    });
    Some(symbols.collect())
}

#[test]
fn the_library_exports_the_symbols_of_the_distribution() {
    let theirs = Path::new("/usr/lib/x86_64-linux-gnu/libibverbs.so.1");
    if !theirs.exists() {
        eprintln!("skipped: libibverbs1 is not installed");
        return;
    }
    let (Some(ours), Some(theirs)) = (exports(&library().join(NAME)), exports(theirs)) else {
        eprintln!("skipped: readelf is not installed");
        return;
    };
    // A name without a version, such as `IBVERBS_1.0`, is that of the version itself.
    let missing: Vec<_> = theirs.difference(&ours).collect();
    assert!(theirs.len() > 100 && missing.is_empty(), "missing: {missing:?}");
    // The private interface of rdma-core 33, for programs of Debian 11: all its names but one also have the version of
    // this distribution.
    let is_of_33 = |symbol: &str| {
        let name = symbol.strip_suffix("@IBVERBS_PRIVATE_33");
        let known = |name: &str| theirs.iter().any(|symbol| symbol.starts_with(&format!("{name}@@")));
        name.is_some_and(|name| name == "verbs_register_driver_33" || known(name))
    };
    let more: Vec<_> = ours.difference(&theirs).filter(|symbol| !is_of_33(symbol)).collect();
    assert!(more.is_empty(), "the distribution's library does not export {more:?}");
}

/// The sizes, offsets and constants of `rnic_cabi::verbs` are those of the header.
#[test]
fn structures_and_constants_are_those_of_the_header() {
    if !Path::new("/usr/include/infiniband/verbs.h").exists() {
        eprintln!("skipped: libibverbs-dev is not installed");
        return;
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../rnic-cabi/src");
    let parts = std::fs::read_dir(folder.join("verbs")).unwrap().map(|part| part.unwrap().path());
    let files = std::iter::once(folder.join("verbs.rs")).chain(parts);
    let abi: String = files.map(|file| std::fs::read_to_string(file).unwrap()).collect();
    let mut source = String::from("#include <infiniband/verbs.h>\n#include <stddef.h>\n");
    let mut count = 0;
    let between = |text: &str, from: &str, to: &str| {
        let rest = &text[text.find(from)? + from.len()..];
        Some(rest[..rest.find(to)?].trim().to_string())
    };
    for assertion in abi.split("assert!(").skip(1).flat_map(|text| text.split("&&")) {
        let number = |text: &str| -> String {
            let rest = &text[text.find("==").unwrap() + 2..];
            rest.trim_start().chars().take_while(char::is_ascii_digit).collect()
        };
        let condition = if let Some(name) = between(assertion, "size_of::<", ">") {
            format!("sizeof(struct {name}) == {}", number(assertion))
        } else if let Some(field) = between(assertion, "offset_of!(", ")") {
            format!("offsetof(struct {field}) == {}", number(assertion))
        } else {
            continue;
        };
        source += &format!("_Static_assert({condition}, \"\");\n");
        count += 1;
    }
    for line in abi.lines().filter(|line| line.starts_with("pub const IBV_")) {
        let (name, value) = (between(line, "const ", ":").unwrap(), between(line, "= ", ";").unwrap());
        source += &format!("_Static_assert({name} == ({value}), \"\");\n");
        count += 1;
    }
    assert!(count > 130, "{count}");
    let file = library().join("abi.c");
    std::fs::write(&file, source).unwrap();
    let checked = Command::new("cc").args(["-fsyntax-only"]).arg(&file).output().unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
}

/// A C program that calls the verbs in right and in wrong ways, and prints which result was not expected.
#[test]
fn verbs_answer_as_the_manual_says() {
    let Some(program) = program("answers") else { return };
    alone(|namespace| {
        let ended = start(namespace, &mut command(program.to_str().unwrap())).end();
        assert_eq!(ended.success().lines().last(), Some("all answers are right"));
    });
}

/// A queue pair whose packets are too large for the link is refused, instead of failing later by timeouts.
#[test]
fn a_path_mtu_beyond_that_of_the_port_is_refused() {
    if !has("ibv_rc_pingpong") {
        return;
    }
    linked(|pair| {
        let line = "ibv_rc_pingpong -g 0 -m 4096 -p 18590";
        let here = |line: &str| {
            let mut command = command(line);
            command.env("RNIC_DEVICES", Pair::A4.to_string()).env("RNIC_TRACE", "1");
            command
        };
        let mut server = start(&pair.a, &mut here(line));
        await_port(&pair.a, 18_590, &mut server);
        // The server connects first, and then the client has no peer.
        let client = start(&pair.a, &mut here(&format!("{line} {}", Pair::A4))).end();
        let server = server.end();
        assert!(!client.status.success() && !server.status.success(), "{}{}", client.output, server.output);
        assert!(server.output.contains("Failed to modify QP to RTR"), "{}", server.output);
        let reason = "path_mtu is 5 (4096 bytes); the port's maximum is 1024 bytes";
        assert!(server.output.contains(reason), "{}", server.output);
    });
}

/// 1,000 connected queue pairs in one process, each of which sends and receives. The retries of a timeout of 67 ms take
/// 2 s; a sanitizer that makes the library ten times slower gets a timeout of 2.1 s.
#[test]
fn a_process_has_a_thousand_queue_pairs() {
    let Some(program) = program("many") else { return };
    let timeout = if std::env::var_os("RNIC_TEST_PRELOAD").is_some() { 19 } else { 14 };
    alone(|namespace| {
        let ended = start(namespace, &mut command(&format!("{} 1000 1 {timeout}", program.display()))).end();
        assert_eq!(ended.success().lines().last(), Some("1000 queue pairs, 1000 messages"));
    });
}

/// A C program whose threads post to one queue pair, poll one completion queue, and destroy objects while other threads
/// take the events of these objects; at the end, a thread waits for events of a device while the device is closed.
#[test]
fn threads_share_the_objects_of_a_device() {
    let Some(program) = program("threads") else { return };
    alone(|namespace| {
        let ended = start(namespace, &mut command(program.to_str().unwrap())).end();
        assert_eq!(ended.success().lines().last(), Some("the threads agree"));
    });
}
