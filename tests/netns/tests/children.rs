//! Tests that all children are killed together. It is a separate test program, because no child can be started
//! afterwards.

use rnic_netns::{Namespace, NetnsError, kill_children};
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

#[test]
fn all_children_end_together() {
    let namespace = match Namespace::new() {
        Ok(namespace) => namespace,
        Err(error @ (NetnsError::Privilege(_) | NetnsError::NoIp(_))) => return eprintln!("skipped: {error}"),
        Err(error) => panic!("{error}"),
    };
    let sleep = || {
        let mut command = Command::new("sleep");
        command.arg("600");
        command
    };
    let mut dropped = namespace.child(&mut sleep()).unwrap();
    dropped.kill().unwrap();
    drop(dropped);
    let mut children = [namespace.child(&mut sleep()).unwrap(), namespace.child_group(&mut sleep()).unwrap()];
    kill_children();
    for child in &mut children {
        assert_eq!(child.wait().unwrap().signal(), Some(9));
    }
    let refused = namespace.child(&mut sleep()).unwrap_err();
    assert!(refused.to_string().contains("no other one is started"), "{refused}");
}
