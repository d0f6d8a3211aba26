//! The command `rnic verbs`.
use std::process::{Command, Output};

fn verbs(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rnic"));
    command.arg("verbs").args(arguments).env("RNIC_DEVICES", "127.0.0.1");
    command
}

fn text(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (text(&output.stdout), text(&output.stderr))
}

#[test]
fn the_library_is_found_and_given_to_programs() {
    let output = verbs(&["--path"]).output().unwrap();
    let (path, errors) = text(&output);
    assert!(output.status.success(), "{errors}");
    let folder = std::path::Path::new(path.trim());
    assert!(folder.join("libibverbs.so.1").exists(), "{path}");

    let output =
        verbs(&["run", "sh", "-c", "echo $LD_LIBRARY_PATH"]).env("LD_LIBRARY_PATH", "/other").output().unwrap();
    assert_eq!(text(&output).0.trim(), format!("{}:/other", folder.display()));

    // The libraries are loaded first, in front of others.
    let preload = |arguments: &[&str]| {
        let output = verbs(arguments).env("LD_PRELOAD", "libc.so.6").output().unwrap();
        text(&output).0.trim().to_string()
    };
    let print = ["sh", "-c", "echo $LD_PRELOAD"];
    let libraries = ["libibverbs.so.1", "librdmacm.so.1"].map(|name| folder.join(name).display().to_string()).join(":");
    assert_eq!(preload(&[&["run", "--no-files"], &print[..]].concat()), format!("{libraries}:libc.so.6"));
    assert_eq!(preload(&[&["run", "--no-files", "--no-preload"], &print[..]].concat()), "libc.so.6");

    // A program that opens no device fails if devices are required.
    let output = verbs(&["run", "--no-files", "true"]).env("RNIC_REQUIRED", "1").output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", text(&output).1);
    assert!(text(&output).1.contains("RNIC_REQUIRED=1"), "{}", text(&output).1);
    let output = verbs(&["run", "true"]).env("RNIC_REQUIRED", "1").output().unwrap();
    assert_eq!(text(&output).1.matches("RNIC_REQUIRED=1").count(), 1, "{}", text(&output).1);
    // The status of the program stays, also that of a signal.
    for (script, code) in [("exit 7", 7), ("kill -9 $$", 137)] {
        let output = verbs(&["run", "--no-files", "sh", "-c", script]).env("RNIC_REQUIRED", "1").output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{}", text(&output).1);
    }

    let output = verbs(&["run", "--files", "--no-files", "true"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", text(&output).1);

    let output = verbs(&["run", "no-such-program"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output).1.contains("no-such-program cannot be run"), "{}", text(&output).1);

    let copies = tempfile::tempdir().unwrap();
    let to = copies.path().join("lib/rnic");
    let output = verbs(&["install", to.to_str().unwrap()]).output().unwrap();
    assert!(output.status.success() && to.join("libibverbs.so.1").exists(), "{}", text(&output).1);
}

#[test]
fn the_doctor_says_what_programs_see() {
    let output = verbs(&["doctor"]).output().unwrap();
    let (lines, _) = text(&output);
    assert!(lines.contains("libibverbs.so.1") && lines.contains("rnic0       127.0.0.1 on lo"), "{lines}");
    assert!(lines.contains("`rnic verbs run`"), "{lines}");
    for line in [
        "RNIC_MIN_TIMEOUT 500ms",
        "RNIC_REQUIRED not set",
        "RNIC_LOCAL   auto: packets between programs",
        "RNIC_STATS   on",
    ] {
        assert!(lines.contains(line), "{lines}");
    }
    let named = verbs(&["doctor"]).env("RNIC_DEVICES", "mlx5_0=127.0.0.2").output().unwrap();
    let (lines, _) = text(&named);
    assert!(
        lines.contains("RNIC_DEVICES mlx5_0=127.0.0.2") && lines.contains("mlx5_0      127.0.0.2 on lo"),
        "{lines}"
    );

    let output = verbs(&["doctor"]).env("RNIC_DEVICES", "192.0.2.99").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let (_, errors) = text(&output);
    assert!(errors.contains("`192.0.2.99` is neither an address nor a network interface"), "{errors}");

    let folder = tempfile::tempdir().unwrap();
    let (missing, new) = (folder.path().join("missing/file"), folder.path().join("new-%p"));
    for (variable, consequence) in
        [("RNIC_PCAP", "programs cannot open a device"), ("RNIC_TRACE", "programs run without a trace")]
    {
        let output = verbs(&["doctor"]).env(variable, &missing).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        let (_, errors) = text(&output);
        let part = format!("{variable}: {} cannot be written", missing.display());
        assert!(errors.contains(&part) && errors.contains(consequence), "{errors}");
        let output = verbs(&["doctor"]).env(variable, &new).output().unwrap();
        assert!(output.status.success(), "{}", text(&output).1);
    }
    assert_eq!(folder.path().read_dir().unwrap().count(), 0, "the doctor leaves no files");
}

/// A process that has loaded another libibverbs is listed.
#[test]
fn the_doctor_lists_processes_with_another_library() {
    let folder = tempfile::tempdir().unwrap();
    let (source, other) = (folder.path().join("other.c"), folder.path().join("libibverbs-1de1263b.so.1.14"));
    std::fs::write(&source, "int other;").unwrap();
    let compiled = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&other).arg(&source).status();
    if !compiled.is_ok_and(|status| status.success()) {
        eprintln!("skipped: there is no C compiler");
        return;
    }
    let mut process = Command::new("sleep").arg("60").env("LD_PRELOAD", &other).spawn().unwrap();
    let line = format!("process {} has {}", process.id(), other.display());
    // The loader maps the library a moment after the start.
    let found = (0..20).any(|_| text(&verbs(&["doctor"]).output().unwrap()).0.contains(&line));
    process.kill().unwrap();
    process.wait().unwrap();
    assert!(found, "{line}");
    let (lines, _) = text(&verbs(&["doctor"]).output().unwrap());
    assert!(lines.contains("such as Python wheels, need `rnic verbs run`") && !lines.contains(&line), "{lines}");
}

/// Whether this host lets a process without root have a mount namespace.
fn may_show_files() -> bool {
    let output = verbs(&["run", "--files", "true"]).output().unwrap();
    if !output.status.success() {
        let (_, errors) = text(&output);
        assert!(errors.contains("--device /dev/null:/dev/infiniband/uverbs0"), "{errors}");
        eprintln!("skipped: {errors}");
    }
    output.status.success()
}

#[test]
fn programs_see_files_of_the_devices_and_all_that_was_there() {
    if !may_show_files() {
        return;
    }
    let id = text(&Command::new("id").arg("-u").output().unwrap()).0.trim().to_string();
    let script = "test -c /dev/infiniband/uverbs0 && echo text > /dev/null && test -d /dev/shm || exit 1
        cat /sys/class/infiniband/rnic0/ports/1/gid_attrs/types/0 /sys/class/infiniband/rnic0/device/net/lo/address
        id -u; ls /dev /sys/class";
    let hidden = verbs(&["run", "--no-files", "test", "-e", "/dev/infiniband/uverbs0"]).output().unwrap();
    assert_eq!(hidden.status.code(), Some(1));
    let output = verbs(&["run", "sh", "-c", script]).output().unwrap();
    let (lines, errors) = text(&output);
    assert!(output.status.success() && errors.is_empty(), "{lines}{errors}");
    let mut lines = lines.lines();
    assert_eq!(lines.next(), Some("RoCE v2"));
    assert_eq!(lines.next(), Some("00:00:00:00:00:00"));
    assert_eq!(lines.next().map(str::to_string), Some(id.clone()));
    let seen: Vec<&str> = lines.collect();
    let others = Command::new("ls").args(["/dev", "/sys/class"]).output().unwrap();
    for name in text(&others).0.lines() {
        assert!(seen.contains(&name), "{name}: {seen:?}");
    }
    // So does a process without the privilege to mount, in a user namespace.
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set=-sys_admin", env!("CARGO_BIN_EXE_rnic"), "verbs", "run", "--files", "sh", "-c"]);
    command.arg("cat /proc/self/uid_map; cat /sys/class/infiniband/rnic0/ports/1/gid_attrs/types/3");
    if id == "0" {
        let output = command.env("RNIC_DEVICES", "127.0.0.1").output().unwrap();
        let (lines, errors) = text(&output);
        match output.status.success() {
            true => {
                let words: Vec<&str> = lines.split_whitespace().collect();
                assert_eq!(words, ["0", "0", "1", "RoCE", "v2"]);
            }
            false => assert!(errors.contains("no user namespace"), "{errors}"),
        }
    }
    // No other process sees the files.
    assert!(!std::path::Path::new("/sys/class/infiniband/rnic0").exists());
}

/// `rnic verbs doctor` as the user `nobody`, in a network namespace in which this process, as root, has bound the names
/// of the Unix sockets. Returns the exit code and the line about the device.
fn doctor_of_nobody(names: &[String]) -> Option<(Option<i32>, String)> {
    use socket2::{Domain, SockAddr, Socket, Type};
    use std::os::unix::process::CommandExt;
    let namespace = rnic_netns::Namespace::new().unwrap();
    namespace.ip("link set lo up").unwrap();
    namespace.run(|| {
        let bind = |name: &String| {
            let socket = Socket::new(Domain::UNIX, Type::SEQPACKET, None).ok()?;
            socket.bind(&SockAddr::unix(format!("\0{name}")).ok()?).ok().map(|()| socket)
        };
        let bound: Vec<Socket> = names.iter().filter_map(bind).collect();
        if bound.len() < names.len() {
            eprintln!("skipped: this process may not have {} files", names.len());
            return None;
        }
        let output = verbs(&["doctor"]).uid(65_534).gid(65_534).output().ok()?;
        let (lines, errors) = text(&output);
        let line = lines.lines().find(|line| line.starts_with("rnic0 ")).map(str::to_string);
        if line.is_none() {
            eprintln!("skipped: the user nobody cannot run {}: {errors}", env!("CARGO_BIN_EXE_rnic"));
        }
        Some((output.status.code(), line?))
    })
}

/// Another user binds the names of Unix sockets that programs of an address need, and so keeps all other users from the
/// device. The doctor names the cause and the user.
#[test]
fn the_doctor_names_the_user_who_has_the_names_of_an_address() {
    if text(&Command::new("id").arg("-u").output().unwrap()).0.trim() != "0" {
        eprintln!("skipped: needs root");
        return;
    }
    let broker = "rnic/verbs/4/127.0.0.1".to_string();
    let Some((_, free)) = doctor_of_nobody(&[]) else { return };
    assert!(free.ends_with(": ready"), "{free}");
    let Some((code, taken)) = doctor_of_nobody(std::slice::from_ref(&broker)) else { return };
    let why = "user root (ID 0) has the name @rnic/verbs/4/127.0.0.1 of Unix sockets, without which the device of 127.0.0.1 \
               cannot be used; use another address";
    assert!(taken.ends_with(why) && code == Some(1), "{taken}");
    // All slots but one are no obstacle.
    let slots: Vec<String> = (0..1_024).map(|slot| format!("{broker}/{slot}")).collect();
    let (Some((_, free)), Some((code, taken))) = (doctor_of_nobody(&slots[1..]), doctor_of_nobody(&slots)) else {
        return;
    };
    assert!(free.ends_with(": ready"), "{free}");
    let why = "no slot of 127.0.0.1 is free: other users, such as user root (ID 0), have 1024 of the 1024 names \
               @rnic/verbs/4/127.0.0.1/0 to @rnic/verbs/4/127.0.0.1/1023 of Unix sockets; use another address";
    assert!(taken.ends_with(why) && code == Some(1), "{taken}");
}
