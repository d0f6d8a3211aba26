//! The files of RDMA devices in `/dev/infiniband` and `/sys/class/infiniband`, for programs that need them in addition
//! to libibverbs. UCX needs a character device for each RDMA device, and reads the type of GIDs from sysfs.
//!
//! Neither folder can get such files without a kernel module. So the process enters a mount namespace, in which file
//! systems in memory replace `/dev` and `/sys/class`: they have all previous entries, and these files. Without root it
//! enters a user namespace first, in which its user and group stay the same.

use crate::environment::Environment;
use crate::hosts::{self, HostAddress};
use crate::objects::context::{GIDS, gid};
use nix::errno::Errno;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::unistd::{getegid, geteuid};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};

const NOTHING: Option<&str> = None;

/// Shows the files of the devices that the environment chooses to this process, and to the processes that it starts
/// from now on. This process must have only one thread.
///
/// ```no_run
/// use std::os::unix::process::CommandExt;
///
/// # fn main() -> Result<(), String> {
/// rnic_ibverbs::files::show()?;
/// let error = std::process::Command::new("ucx_info").arg("-d").exec();
/// # Err(error.to_string())
/// # }
/// ```
///
/// # Errors
/// A sentence, if the environment chooses no devices, or the system does not let the process have a mount namespace.
pub fn show() -> Result<(), String> {
    let addresses = Environment::get().as_ref().map_err(Clone::clone).and_then(hosts::addresses)?;
    let addresses = addresses.as_slice();
    enter().map_err(|(what, why)| {
        format!(
            "this host lets the process have no {what} ({}); give it the files in another way, in a container by `--device \
             /dev/null:/dev/infiniband/uverbs0`",
            why.desc()
        )
    })?;
    let failed = |error: io::Error| format!("the files of the devices cannot be made: {error}");
    extend(Path::new("/dev"), &["infiniband"]).map_err(failed)?;
    for index in 0..addresses.len() {
        bind(Path::new("/dev/null"), &PathBuf::from(format!("/dev/infiniband/uverbs{index}"))).map_err(failed)?;
    }
    extend(Path::new("/sys/class"), &["infiniband", "infiniband_verbs"]).map_err(failed)?;
    for (path, content) in describe(addresses) {
        let path = Path::new("/sys/class").join(path);
        make_parent(&path).and_then(|()| fs::write(&path, content + "\n")).map_err(failed)?;
    }
    for (index, address) in addresses.iter().enumerate() {
        let name = address.device_name(index);
        let link = PathBuf::from(format!("/sys/class/infiniband/{name}/device/net/{}", address.interface));
        let interface = Path::new("/sys/class/net").join(&address.interface);
        make_parent(&link).and_then(|()| symlink(interface, &link)).map_err(failed)?;
    }
    Ok(())
}

/// Enters a mount namespace whose mounts other processes do not see. An error contains the name of the namespace that
/// the system refused.
fn enter() -> Result<(), (&'static str, Errno)> {
    match unshare(CloneFlags::CLONE_NEWNS) {
        Err(Errno::EPERM) => {
            let (user, group) = (geteuid(), getegid());
            let refused = |why| ("user namespace", why);
            unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNS).map_err(refused)?;
            let maps = [
                ("setgroups", "deny".to_string()),
                ("uid_map", format!("{user} {user} 1")),
                ("gid_map", format!("{group} {group} 1")),
            ];
            for (file, text) in maps {
                let written = fs::write(format!("/proc/self/{file}"), text);
                written.map_err(|error| refused(Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO))))?;
            }
        }
        entered => entered.map_err(|why| ("mount namespace", why))?,
    }
    let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
    mount(NOTHING, "/", NOTHING, private, NOTHING).map_err(|why| ("mounts of its own", why))
}

/// Mounts a file system in memory on `folder`. It contains all entries that `folder` had before, except the entries
/// `others`, which it replaces by new empty folders.
fn extend(folder: &Path, others: &[&str]) -> io::Result<()> {
    let old = File::options().read(true).custom_flags(libc::O_DIRECTORY).open(folder)?;
    let entries: Vec<_> = fs::read_dir(folder)?.collect::<io::Result<_>>()?;
    let kinds: Vec<(OsString, fs::FileType)> =
        entries.iter().map(|entry| Ok((entry.file_name(), entry.file_type()?))).collect::<io::Result<_>>()?;
    mount(Some("tmpfs"), folder, Some("tmpfs"), MsFlags::MS_NOSUID, Some("mode=755,size=64m"))?;
    // The new file system hides the original folder, which remains accessible by its file descriptor.
    let old = PathBuf::from(format!("/proc/self/fd/{}", old.as_raw_fd()));
    for (name, kind) in kinds {
        if others.iter().any(|other| name == *other) {
            continue;
        }
        let (from, to) = (old.join(&name), folder.join(&name));
        if kind.is_symlink() {
            symlink(fs::read_link(&from)?, &to)?;
        } else if kind.is_dir() {
            fs::create_dir(&to)?;
            mount(Some(&from), &to, NOTHING, MsFlags::MS_BIND | MsFlags::MS_REC, NOTHING)?;
        } else {
            bind(&from, &to)?;
        }
    }
    for other in others {
        fs::create_dir(folder.join(other))?;
    }
    Ok(())
}

/// Makes a file `to` that is the file `from`.
fn bind(from: &Path, to: &Path) -> io::Result<()> {
    File::create(to)?;
    Ok(mount(Some(from), to, NOTHING, MsFlags::MS_BIND, NOTHING)?)
}

fn make_parent(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), fs::create_dir_all)
}

/// Returns the files in `/sys/class` with their texts, which are the values that the library's functions report.
fn describe(addresses: &[HostAddress]) -> Vec<(String, String)> {
    let mut files = vec![("infiniband_verbs/abi_version".to_string(), "6".to_string())];
    let words = |bytes: &[u8]| {
        let pairs = bytes.chunks(2).map(|pair| pair.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
        pairs.collect::<Vec<_>>().join(":")
    };
    for (index, address) in addresses.iter().enumerate() {
        let name = address.device_name(index);
        let mut add = |path: String, text: &str| files.push((path, text.to_string()));
        add(format!("infiniband_verbs/uverbs{index}/ibdev"), &name);
        add(format!("infiniband_verbs/uverbs{index}/abi_version"), "1");
        let guid = words(&rnic_cm::ip::guid(address.ip).to_be_bytes());
        for (file, text) in [
            ("node_type", "1: CA"),
            ("node_desc", &name),
            ("node_guid", &guid),
            ("sys_image_guid", &guid),
            ("fw_ver", env!("CARGO_PKG_VERSION")),
            ("device/numa_node", "-1"),
            ("ports/1/state", "4: ACTIVE"),
            ("ports/1/phys_state", "5: LinkUp"),
            ("ports/1/link_layer", "Ethernet"),
            ("ports/1/rate", "100 Gb/sec (4X EDR)"),
            ("ports/1/lid", "0x0"),
            ("ports/1/sm_lid", "0x0"),
            ("ports/1/pkeys/0", "0xffff"),
        ] {
            add(format!("infiniband/{name}/{file}"), text);
        }
        for entry in 0..GIDS {
            let port = format!("infiniband/{name}/ports/1");
            add(format!("{port}/gids/{entry}"), &words(&gid(address.ip).raw));
            add(format!("{port}/gid_attrs/types/{entry}"), "RoCE v2");
            add(format!("{port}/gid_attrs/ndevs/{entry}"), &address.interface);
        }
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_say_what_the_library_says() {
        let address = HostAddress {
            ip: "10.0.0.1".parse().unwrap(),
            interface: "eth0".into(),
            index: 2,
            mtu: 9_000,
            is_loopback: false,
            name: None,
        };
        let files: std::collections::BTreeMap<_, _> = describe(&[address]).into_iter().collect();
        let of = |path: &str| files[path].as_str();
        assert_eq!(of("infiniband_verbs/uverbs0/ibdev"), "rnic0");
        assert_eq!(of("infiniband/rnic0/ports/1/gids/3"), "0000:0000:0000:0000:0000:ffff:0a00:0001");
        assert_eq!(of("infiniband/rnic0/ports/1/gid_attrs/types/0"), "RoCE v2");
        assert_eq!(of("infiniband/rnic0/ports/1/gid_attrs/ndevs/0"), "eth0");
        // In the order of the network, the first byte has the bit of locally administered identifiers.
        let guid = of("infiniband/rnic0/node_guid");
        assert_eq!((guid.len(), u8::from_str_radix(&guid[..2], 16).unwrap() & 2), (19, 2), "{guid}");
    }
}
