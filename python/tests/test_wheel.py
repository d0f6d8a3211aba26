"""A wheel runs with the glibc that its name says, and the wheels of a release with glibc 2.28."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

import rnic

ROOT = Path(__file__).parents[2]
#: The oldest glibc that a release supports: Debian 10, Ubuntu 20.04, RHEL 8.
OLDEST = (2, 28)


def needed(library: bytes) -> tuple[int, int]:
    """The version of glibc that a library needs: the latest one of its symbols."""
    versions = re.findall(rb"\0GLIBC_(\d+)\.(\d+)(?:\.\d+)?(?=\0)", library)
    return max(((int(major), int(minor)) for major, minor in versions), default=(0, 0))


def named(wheel: Path) -> tuple[int, int]:
    """The version of glibc in the name of a wheel."""
    found = re.search(r"-(?:manylinux|linux)_(\d+)_(\d+)_\w+\.whl$", wheel.name)
    assert found is not None, f"{wheel.name} has no version of glibc"
    return int(found[1]), int(found[2])


def release() -> ModuleType:
    path = ROOT / "packaging" / "release"
    if not path.exists():
        pytest.skip("needs the repository")
    module = ModuleType("release")
    module.__file__ = str(path)
    exec(compile(path.read_text(), str(path), "exec"), vars(module))
    return module


def test_releases_are_for_old_systems() -> None:
    module = release()
    assert module.GLIBC <= OLDEST
    for processor, (_, platform, _) in module.PROCESSORS.items():
        assert platform == f"manylinux_{module.GLIBC[0]}_{module.GLIBC[1]}_{processor}"


def test_versions_of_symbols_are_found() -> None:
    assert needed(b"\x7fELF\0GLIBC_2.2.5\0GLIBC_2.34\0GLIBC_2.9\0GLIBC_PRIVATE\0") == (2, 34)
    module = Path(rnic._rnic.__file__).read_bytes()
    assert (2, 2) < needed(module) < (3, 0)


def test_wheels_need_no_later_glibc_than_they_say() -> None:
    wheels = [*(ROOT / "dist").glob("rnic-*.whl"), *(ROOT / "target" / "wheels").glob("rnic-*.whl")]
    if not wheels:
        pytest.skip("no wheel was built")
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            libraries = [name for name in archive.namelist() if re.search(r"\.so(\.\d+)?$", name)]
            assert "rnic/_rnic.abi3.so" in libraries
            latest = max(needed(archive.read(name)) for name in libraries)
        assert latest <= named(wheel), f"{wheel.name} needs glibc {latest}"
        if wheel.parent.name == "dist":
            assert named(wheel) <= OLDEST, f"{wheel.name} is for later systems than a release supports"
