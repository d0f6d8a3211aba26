#!/usr/bin/env python3
"""Builds the guest that the test bed boots: Debian's kernel and a small initramfs with the kernel's software RoCE.

    build_guest.py [--out DIR] [--ladder] [--extra PACKAGE:FILE ...] [--prune] [--quiet]

Packages come from the host's apt sources with `apt-get download`. They are unpacked with `dpkg-deb -x` and never installed, so
the program needs no root. The result is a directory DIR/guest-KEY with `vmlinux`, `initramfs.cpio` and `manifest.json`. KEY is a
hash of the packages, of this program and of the guest's scripts. A guest with the same key is reused, and guests with other keys
stay until `--prune`. The last line on standard output is the path of the directory. Exit code: 0 built or reused, 1 it could not
be built, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import json
import lzma
import os
import re
import shutil
import stat
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

HERE = Path(__file__).resolve().parent

# Packages whose programs the guest gets. The libraries that they depend on follow from their `Depends` fields.
PROGRAM_PACKAGES = ["busybox-static", "ibverbs-providers", "ibverbs-utils", "iproute2", "perftest", "rdmacm-utils"]

# Libraries that no package names, because they are loaded at run time: pthread_cancel (rping) needs libgcc_s.
HIDDEN_LIBRARIES = {"libgcc-s1": "libgcc_s.so.1"}

# Links that the installation of a package makes (`update-alternatives`), and unpacking does not.
ALTERNATIVES = {"usr/lib/x86_64-linux-gnu/libpsm_infinipath.so.1": "usr/lib/libpsm1/libpsm_infinipath.so.1.*"}

# Programs, as paths in their package after the merge of /bin into /usr/bin.
PROGRAMS = [
    "usr/bin/busybox",
    "usr/bin/rdma",
    "usr/bin/ibv_*",
    "usr/bin/ib_*",
    "usr/bin/rping",
    "usr/bin/ucmatose",
    "usr/bin/udaddy",
    "usr/bin/rdma_client",
    "usr/bin/rdma_server",
    "usr/bin/rstream",
    "usr/bin/riostream",
    "usr/bin/udpong",
    "usr/lib/*/libibverbs/librxe-*.so",
    "etc/libibverbs.d/rxe.driver",
]

# What the guest of the ladder (tests/ladder) has besides. The guest of the test bed stays small, because each case
# boots one.
LADDER_PACKAGES = [
    "fio",
    "libfabric-bin",
    "libpython3.11-stdlib",
    "librpma0",
    "mpich",
    "openmpi-bin",
    "openmpi-common",
    "python3-pyverbs",
    "python3.11-minimal",
    "qperf",
    "ucx-utils",
]
LADDER_PROGRAMS = [
    "usr/bin/fi_pingpong",
    "usr/bin/fio",
    "usr/bin/hydra_pmi_proxy",
    "usr/bin/mpiexec.mpich",
    "usr/bin/mpirun.openmpi",
    "usr/bin/orted",
    "usr/bin/python3.11",
    "usr/bin/qperf",
    "usr/bin/ucx_info",
    "usr/bin/ucx_perftest",
    "usr/lib/python3.11/**/*",
    "usr/lib/python3/dist-packages/pyverbs/**/*",
    "usr/lib/*/libmpi.so.40",
    "usr/lib/*/libmpich.so.12",
    "usr/lib/*/librpma.so.0",
    "usr/lib/*/openmpi/lib/openmpi3/mca_*.so",
    "usr/lib/*/pmix2/lib/pmix/*.so",
    "usr/lib/*/pmix2/share/pmix/*",
    "usr/lib/*/ucx/libuct_*.so.0",
    "usr/share/doc/rdma-core/tests/*",
    "usr/share/openmpi/*",
    "etc/openmpi/*",
]

# Kernel modules to load, in this order. The modules on which they depend are loaded before them.
MODULES = ["virtio_pci", "virtio_console", "virtio_net", "rdma_rxe", "ib_uverbs", "rdma_ucm"]
# Modules that are loaded if they exist. Other modules request them by another name (rxe requests `crc32`), and newer
# kernels have some of them built in.
OPTIONAL_MODULES = ["crc32_generic", "sch_netem"]

TOOLS = {"apt-get": "apt", "apt-cache": "apt", "dpkg-deb": "dpkg", "dpkg": "dpkg"}


class BuildError(Exception):
    """Why the guest cannot be built, in one sentence for the user."""


def main() -> int:
    options = parse_arguments()

    def progress(text: str) -> None:
        if not options.quiet:
            print(f"guest: {text}", file=sys.stderr, flush=True)

    try:
        directory = ensure_guest(options.out.resolve(), options.ladder, options.extra, options.prune, progress)
    except BuildError as error:
        print(f"guest: {error}", file=sys.stderr)
        return 1
    print(directory)
    return 0


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    default = HERE.parent.parent / "target" / "interop"
    parser.add_argument("--out", type=Path, default=default, help="cache directory (default: target/interop)")
    parser.add_argument("--ladder", action="store_true", help="the larger guest of tests/ladder")
    parser.add_argument(
        "--extra",
        action="append",
        default=[],
        metavar="PACKAGE:FILE",
        help="one more program, for example strace:usr/bin/strace; may be repeated",
    )
    parser.add_argument("--prune", action="store_true", help="remove guests of other package versions from the cache")
    parser.add_argument("--quiet", action="store_true", help="no progress on standard error")
    options = parser.parse_args()
    for extra in options.extra:
        if not re.fullmatch(r"[a-z0-9][a-z0-9+.-]+:[^:]+", extra):
            parser.error(f"--extra {extra}: expected PACKAGE:FILE, for example strace:usr/bin/strace")
    return options


def ensure_guest(out: Path, ladder: bool, extras: list[str], prune: bool, progress) -> Path:
    """Returns the directory of the guest for the current versions of the packages; builds the guest if it does not exist."""
    for tool, package in TOOLS.items():
        if shutil.which(tool) is None:
            raise BuildError(f"`{tool}` is missing: install the Debian package {package}, or run on Debian or Ubuntu")
    out.mkdir(parents=True, exist_ok=True)
    # Two builds at once would download the same files: the second waits and finds the first one's guest.
    with open(out / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        roots = PROGRAM_PACKAGES + (LADDER_PACKAGES if ladder else []) + [extra.split(":")[0] for extra in extras]
        patterns = PROGRAMS + (LADDER_PROGRAMS if ladder else []) + [extra.split(":")[1] for extra in extras]
        packages = resolve_packages(roots)
        key = guest_key(packages, patterns)
        directory = out / f"guest-{key}"
        if (directory / "manifest.json").exists():
            progress(f"{directory} is up to date")
        else:
            build(out, directory, packages, patterns, progress)
        if prune:
            for old in out.glob("guest-*"):
                if old != directory:
                    progress(f"removing {old}")
                    shutil.rmtree(old)
    return directory


# Packages


class Package:
    """A Debian package in the version that apt would download now."""

    def __init__(self, name: str, url: str, file: str, digest: str):
        self.name, self.url, self.file, self.digest = name, url, file, digest

    @property
    def version(self) -> str:
        return self.file.split("_")[1].replace("%3a", ":")


def resolve_packages(roots: list[str]) -> list[Package]:
    """Returns all packages of the guest: first the kernel, then the others sorted by name."""
    architecture = output(["dpkg", "--print-architecture"]).strip()
    if architecture != "amd64":
        raise BuildError(f"the guest is built for amd64 hosts, this one is {architecture}")
    return download_facts([kernel_package(), *sorted(closure([*roots, *HIDDEN_LIBRARIES]))])


def kernel_package() -> str:
    """Returns the kernel package on which `linux-image-amd64` depends. The cloud flavour of the kernel has no rdma_rxe."""
    names = [name for name in depends(["linux-image-amd64"]) if name.startswith("linux-image-")]
    if not names:
        raise BuildError("`linux-image-amd64` depends on no kernel package; the guest needs Debian's package sources")
    return names[0]


def closure(roots: Iterable[str]) -> set[str]:
    """Returns the packages and all libraries on which they depend, also indirectly. It ignores dependencies on other packages."""
    found: set[str] = set()
    waiting = set(roots)
    while waiting:
        found |= waiting
        waiting = {name for name in depends(sorted(waiting)) if re.match(r"lib|zlib", name)} - found
    return found


def depends(names: list[str]) -> list[str]:
    """Returns the names in the packages' `Depends` fields; of alternatives it takes the first."""
    shown = subprocess.run(["apt-cache", "show", "--no-all-versions", *names], capture_output=True, text=True).stdout
    known = set(re.findall(r"^Package: (.*)$", shown, re.MULTILINE))
    for name in names:
        if name not in known:
            raise BuildError(f"apt does not know the package {name}: run `apt-get update` as root first")
    fields = re.findall(r"^Depends: (.*)$", shown, re.MULTILINE)
    return [re.split(r"[ (:|]", item.strip())[0] for field in fields for item in field.split(",")]


def download_facts(names: list[str]) -> list[Package]:
    """Returns the packages with their download addresses and hashes, in the order of `names`."""
    lines = output(["apt-get", "download", "--print-uris", *names]).splitlines()
    found = {}
    for line in lines:
        match = re.fullmatch(r"'([^']+)' ([^_\s]+)(_\S+) \d+ (\S+:[0-9a-f]+)", line.strip())
        if match is not None:
            url, name, rest, digest = match.groups()
            found[name] = Package(name, url, name + rest, digest)
    for name in names:
        if name not in found:
            raise BuildError(f"apt names no file for the package {name}: run `apt-get update` as root first")
    return [found[name] for name in names]


def guest_key(packages: list[Package], patterns: list[str]) -> str:
    """Returns a key that identifies the content of the guest: a hash of the packages, this program and the guest's scripts."""
    digest = hashlib.sha256()
    for package in packages:
        digest.update(f"{package.file} {package.digest}\n".encode())
    for pattern in patterns:
        digest.update(f"{pattern}\n".encode())
    for file in [Path(__file__), *sorted((HERE / "guest").iterdir())]:
        digest.update(file.read_bytes())
    return digest.hexdigest()[:12]


def output(command: list[str]) -> str:
    """Runs a command; returns its standard output. An error has the command and the last line of its standard error."""
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode != 0:
        words = result.stderr.strip().splitlines() or ["no message"]
        raise BuildError(f"`{' '.join(command)}` failed: {words[-1]}")
    return result.stdout


# Building


def build(out: Path, directory: Path, packages: list[Package], patterns: list[str], progress) -> None:
    """Downloads and unpacks the packages, and writes the guest. The directory appears only when it is complete."""
    progress(f"building {directory.name} from {len(packages)} packages, kernel {packages[0].version}")
    with tempfile.TemporaryDirectory(prefix="build-", dir=out) as scratch_name:
        scratch = Path(scratch_name)
        files = download(packages, out / "packages", scratch, progress)

        progress("unpacking the kernel")
        kernel_root = scratch / "kernel"
        unpack(files[0], kernel_root)
        progress("unpacking the programs and their libraries")
        program_root = scratch / "programs"
        for file in files[1:]:
            unpack(file, program_root)
        merge_usr(program_root)
        for link, pattern in ALTERNATIVES.items():
            for target in program_root.glob(pattern):
                (program_root / link).symlink_to(target)

        progress("writing the initramfs")
        modules = KernelModules(kernel_root)
        order = modules.load_order(MODULES, OPTIONAL_MODULES)
        programs = find_programs(program_root, patterns)
        libraries = find_libraries(program_root, programs, HIDDEN_LIBRARIES.values())
        result = scratch / "result"
        result.mkdir()
        with open(result / "initramfs.cpio", "wb") as file:
            write_initramfs(file, program_root, programs | libraries, modules, order)
        (result / "vmlinux").write_bytes(extract_vmlinux(kernel_root))
        manifest = {
            "kernel": modules.release,
            "packages": {package.name: package.version for package in packages},
            "modules": order,
            "files": sorted(str(path) for path in programs | libraries),
        }
        (result / "manifest.json").write_text(json.dumps(manifest, indent=2) + "\n")
        if directory.exists():
            shutil.rmtree(directory)
        result.rename(directory)
    progress(f"built {directory}")


def download(packages: list[Package], cache: Path, scratch: Path, progress) -> list[Path]:
    """Returns the files of the packages; downloads those that are not in the cache."""
    cache.mkdir(exist_ok=True)
    kept = [cache / package.file for package in packages]
    missing = [p for p, file in zip(packages, kept) if not (file.exists() and matches(file, p.digest))]
    if missing:
        progress(f"downloading {len(missing)} packages")
        command = ["apt-get", "download", "-qq", *(package.name for package in missing)]
        result = subprocess.run(command, capture_output=True, text=True, cwd=scratch)
        for package in missing:
            fetched = scratch / package.file
            if not fetched.exists():
                words = [line for line in result.stderr.splitlines() if line.startswith("E:")] or ["no message"]
                raise BuildError(
                    f"{package.url} could not be downloaded ({words[0]}): check the network, then run `apt-get update` as root"
                )
            fetched.replace(cache / package.file)
    return kept


def matches(file: Path, digest: str) -> bool:
    algorithm, _, expected = digest.partition(":")
    return hashlib.new(algorithm.lower(), file.read_bytes()).hexdigest() == expected


def unpack(file: Path, root: Path) -> None:
    output(["dpkg-deb", "-x", str(file), str(root)])


def merge_usr(root: Path) -> None:
    """Moves /bin, /sbin and /lib* below /usr, as an installed Debian has them, and /usr/sbin into /usr/bin."""
    moves = [(name, f"usr/{name}") for name in ("bin", "lib", "lib64")] + [("sbin", "usr/bin"), ("usr/sbin", "usr/bin")]
    for old, new in moves:
        if (root / old).is_dir() and not (root / old).is_symlink():
            for path in sorted((root / old).rglob("*")):
                target = root / new / path.relative_to(root / old)
                if path.is_dir() and not path.is_symlink():
                    target.mkdir(parents=True, exist_ok=True)
                elif not target.exists():
                    target.parent.mkdir(parents=True, exist_ok=True)
                    path.rename(target)


# ELF: only the sections that say which libraries a program needs, and on which modules a kernel module depends.


class Elf:
    """The sections of a 64-bit little-endian ELF file."""

    def __init__(self, data: bytes, name: str):
        if data[:6] != b"\x7fELF\x02\x01":
            raise BuildError(f"{name} is not a 64-bit little-endian ELF file")
        self.data = data
        offset, size, count, names = struct.unpack_from("<Q", data, 40) + struct.unpack_from("<HHH", data, 58)
        headers = [struct.unpack_from("<IIQQQQIIQQ", data, offset + index * size) for index in range(count)]
        strings = self.content(headers[names])
        self.sections = {c_string(strings, header[0]): header for header in headers}

    def content(self, header) -> bytes:
        return self.data[header[4] : header[4] + header[5]]

    def section(self, name: str) -> bytes:
        return self.content(self.sections[name]) if name in self.sections else b""

    def needed_libraries(self) -> list[str]:
        """Returns the names of the needed libraries (the DT_NEEDED entries)."""
        strings = self.section(".dynstr")
        entries = struct.iter_unpack("<qQ", self.section(".dynamic"))
        return [c_string(strings, value) for tag, value in entries if tag == 1]

    def module_info(self, key: str) -> list[str]:
        """Returns the values of a key in the section `.modinfo` of a kernel module."""
        pairs = [item.decode().partition("=") for item in self.section(".modinfo").split(b"\0") if item]
        return [value for name, _, value in pairs if name == key]


def c_string(data: bytes, offset: int) -> str:
    return data[offset : data.index(b"\0", offset)].decode()


class KernelModules:
    """The modules of an unpacked kernel package."""

    def __init__(self, root: Path):
        releases = [path for base in ("lib/modules", "usr/lib/modules") for path in (root / base).glob("*")]
        if len(releases) != 1:
            raise BuildError(f"the kernel package has {len(releases)} module directories, expected one")
        directory = releases[0]
        self.release = directory.name
        self.paths = {module_name(path): path for path in (directory / "kernel").rglob("*.ko*")}
        self.builtin = {module_name(Path(line)) for line in (directory / "modules.builtin").read_text().split()}

    def load_order(self, wanted: list[str], optional: list[str]) -> list[str]:
        """Returns the modules to load, in order: each module comes after the modules on which it depends."""
        order: list[str] = []

        def visit(name: str, needed_by: str) -> None:
            if name in self.builtin or name in order:
                return
            if name not in self.paths:
                raise BuildError(f"the kernel {self.release} has no module {name}, which {needed_by} needs")
            for value in Elf(self.content(name), name).module_info("depends"):
                for dependency in filter(None, value.split(",")):
                    visit(dependency.replace("-", "_"), name)
            order.append(name)

        for name in optional:
            if name in self.paths:
                visit(name, "the guest")
        for name in wanted:
            visit(name, "the guest")
        return order

    def content(self, name: str) -> bytes:
        """Returns the bytes of a module, decompressed."""
        path = self.paths[name]
        data = path.read_bytes()
        if path.suffix == ".xz":
            return lzma.decompress(data)
        if path.suffix != ".ko":
            raise BuildError(f"the module {path.name} is compressed in a way that is not supported; known: none, xz")
        return data


def module_name(path: Path) -> str:
    return path.name.split(".ko")[0].replace("-", "_")


def extract_vmlinux(root: Path) -> bytes:
    """Returns the kernel as an ELF image, so that the slow emulated guest need not decompress it.

    The offsets are those of the x86 boot protocol: setup_sects at 0x1f1, magic at 0x202, payload offset and length at 0x248.
    """
    images = sorted((root / "boot").glob("vmlinuz-*"))
    if len(images) != 1:
        raise BuildError(f"the kernel package has {len(images)} images, expected one")
    image = images[0].read_bytes()
    if image[0x202:0x206] != b"HdrS":
        raise BuildError(f"{images[0].name} is not a bzImage")
    setup_sectors = image[0x1F1] or 4
    offset, length = struct.unpack_from("<II", image, 0x248)
    start = (setup_sectors + 1) * 512 + offset
    payload = image[start : start + length]
    if payload[:6] != b"\xfd7zXZ\0":
        # The kernel has another compression: the guest decompresses it, which takes some seconds at each boot.
        return image
    return lzma.LZMADecompressor().decompress(payload)


# Files of the guest


def find_programs(root: Path, patterns: list[str]) -> set[Path]:
    """Returns the paths of the files that match the patterns, relative to the root."""
    found: set[Path] = set()
    for pattern in patterns:
        paths = {path.relative_to(root) for path in root.glob(pattern) if path.is_file()}
        if not paths:
            raise BuildError(f"the packages have no file {pattern}")
        found |= paths
    return found


def find_libraries(root: Path, programs: set[Path], hidden: Iterable[str]) -> set[Path]:
    """Returns the paths of the libraries and of the loader that the programs need, relative to the root."""
    # Libraries of Ceph, which fio needs, name their own directory.
    directories = ["usr/lib/x86_64-linux-gnu", "usr/lib", "usr/lib/x86_64-linux-gnu/ceph"]
    found: set[Path] = {Path("usr/lib64/ld-linux-x86-64.so.2")}

    # A plugin may need another plugin, which is loaded before.
    plugins = {path.name: path for path in programs}

    def locate(name: str, needed_by: str) -> Path:
        if name in plugins:
            return plugins[name]
        for directory in directories:
            if (root / directory / name).exists():
                return Path(directory) / name
        raise BuildError(f"no package of the guest has the library {name}, which {needed_by} needs")

    waiting = [(locate(name, "rping"), name) for name in hidden]
    waiting += [(path, path.name) for path in programs]
    seen: set[Path] = set()
    while waiting:
        path, name = waiting.pop()
        if path in seen:
            continue
        seen.add(path)
        if path not in programs:
            found.add(path)
        file = (root / path).resolve()
        with open(file, "rb") as handle:
            if handle.read(4) != b"\x7fELF":
                continue
        for library in Elf(file.read_bytes(), name).needed_libraries():
            if not library.startswith("ld-linux"):
                waiting.append((locate(library, name), library))
    return found


def write_initramfs(file, root: Path, paths: set[Path], modules: KernelModules, order: list[str]) -> None:
    """Writes all files of the guest as one archive in the kernel's `newc` format."""
    archive = Cpio(file)
    for name in ("dev", "etc", "proc", "run", "sys", "tmp", "usr", "usr/bin", "usr/lib", "usr/lib64"):
        archive.directory(name)
    for name in ("bin", "lib", "lib64"):
        archive.link(name, f"usr/{name}")
    archive.link("sbin", "usr/bin")
    archive.device("dev/console", 5, 1)
    for path in sorted(paths):
        # A symbolic link and its target become one file with the name of the link, because programs use this name.
        archive.file(str(path), (root / path).resolve().read_bytes(), 0o755)
    for name in order:
        archive.file(f"usr/lib/modules/{name}.ko", modules.content(name), 0o644)
    archive.file("usr/lib/modules/order", "".join(f"{name}\n" for name in order).encode(), 0o644)
    for script in sorted((HERE / "guest").iterdir()):
        target = "init" if script.name == "init" else f"usr/bin/{script.name}"
        archive.file(target, script.read_bytes(), 0o755)
    archive.close()


class Cpio:
    """Writer of the `newc` cpio format: a header of 13 hexadecimal numbers, the name, the data, each padded to four bytes."""

    def __init__(self, file):
        self.stream = file
        self.inode = 0
        self.directories: set[str] = set()

    def directory(self, name: str) -> None:
        if name not in self.directories:
            self.directories.add(name)
            self.entry(name, stat.S_IFDIR | 0o755, b"")

    def file(self, name: str, data: bytes, mode: int) -> None:
        for parent in reversed(Path(name).parents[:-1]):
            self.directory(str(parent))
        self.entry(name, stat.S_IFREG | mode, data)

    def link(self, name: str, target: str) -> None:
        self.entry(name, stat.S_IFLNK | 0o777, target.encode())

    def device(self, name: str, major: int, minor: int) -> None:
        self.entry(name, stat.S_IFCHR | 0o600, b"", major, minor)

    def close(self) -> None:
        self.entry("TRAILER!!!", 0, b"")

    def entry(self, name: str, mode: int, data: bytes, major: int = 0, minor: int = 0) -> None:
        self.inode += 1
        encoded = name.encode() + b"\0"
        numbers = [self.inode, mode, 0, 0, 1, 0, len(data), 0, 0, major, minor, len(encoded), 0]
        header = b"070701" + b"".join(b"%08x" % number for number in numbers)
        self.stream.write(padded(header + encoded))
        self.stream.write(padded(data))


def padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
