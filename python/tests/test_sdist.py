"""The source distribution has every file that the crates embed."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path, PurePosixPath

import pytest

ROOT = Path(__file__).parents[2]


def normal(path: PurePosixPath) -> str:
    parts: list[str] = []
    for part in path.parts:
        if part == "..":
            parts.pop()
        else:
            parts.append(part)
    return "/".join(parts)


def test_the_source_distribution_is_complete(tmp_path: Path) -> None:
    beside = Path(sys.executable).parent / "maturin"
    maturin = str(beside) if beside.exists() else shutil.which("maturin")
    if maturin is None or shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("needs maturin, git and the repository")
    made = subprocess.run([maturin, "sdist", "--out", str(tmp_path)], cwd=ROOT, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    [archive] = tmp_path.glob("rnic-*.tar.gz")
    with tarfile.open(archive) as tar:
        files = {member.name.split("/", 1)[1]: member for member in tar.getmembers() if member.isfile()}
        listed = subprocess.run(
            ["git", "ls-files", "scenarios", "p4", "hw", "python/rnic", "python/src"], cwd=ROOT, capture_output=True, text=True, check=True
        )
        expected = {name for name in listed.stdout.splitlines() if (ROOT / name).exists()}
        assert expected and expected <= files.keys(), sorted(expected - files.keys())
        embedded = 0
        for name, member in files.items():
            if not re.fullmatch(r"crates/[^/]+/src/.*\.rs", name):
                continue
            content = tar.extractfile(member)
            assert content is not None
            text = content.read().decode()
            for line, found in re.findall(r'(.*)include_(?:str|bytes)!\("([^"]+)"\)', text):
                # Files of tests and of documentation tests are no part of the package.
                if "#[doc" in line or name.endswith(("/hostile.rs", "/tests.rs")):
                    continue
                path = normal(PurePosixPath(name).parent / found)
                assert path in files, f"{name} embeds {path}"
                embedded += 1
        assert embedded > 20
