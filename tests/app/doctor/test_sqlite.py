"""What an SQLite store stands on, in good order and in bad."""

import asyncio
import fcntl
import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from duly.app import migrate_store
from duly.doctor.sqlite import (
    FULL,
    NEARLY_FULL,
    NETWORK,
    Mount,
    is_mended,
    judge_mount,
    judge_space,
    judge_version,
    mount_of,
)
from tests.app.doctor.patients import found

MOUNTS = """\
/dev/sda1 / ext4 rw,relatime 0 0
tmpfs /quick tmpfs rw,nosuid 0 0
filer:/export /srv nfs4 rw,vers=4.2 0 0
/dev/sdb1 /srv/local xfs rw 0 0
//pc/share /mnt/a\\040share cifs rw 0 0
/dev/sdc1 /media ext4 rw 0 0
me@host: /media fuse.sshfs rw 0 0
/dev/sdd1 /backup ext4 ro,relatime 0 0
portal /run/portal fuse.portal rw 0 0
"""


def content(path: str) -> bytes:
    return Path(path).read_bytes()


def mount_here(path: Path) -> Mount | None:
    mounts = Path("/proc/self/mounts")
    return mount_of(path.resolve(), mounts.read_text()) if mounts.exists() else None


def make_useless(lock: Path) -> None:
    lock.unlink()
    lock.mkdir()


@contextmanager
def held(path: str) -> Iterator[None]:
    with Path(path).open("r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@pytest.mark.parametrize("version", [(3, 51, 3), (3, 52, 0), (4, 0, 0), (3, 50, 7), (3, 44, 6)])
def test_sqlite_is_well_where_the_race_was_mended(version: tuple[int, ...]) -> None:
    assert judge_version(version).level == "ok"


@pytest.mark.parametrize("version", [(3, 40, 1), (3, 44, 5), (3, 50, 6), (3, 51, 2), (3, 45, 9)])
def test_sqlite_is_worth_a_warning_where_it_was_not(version: tuple[int, ...]) -> None:
    finding = judge_version(version)
    assert finding.level == "warning"
    assert "3.51.3" in finding.fix


def test_sqlite_that_is_too_old_is_a_problem() -> None:
    finding = judge_version((3, 37, 2))
    assert (finding.level, finding.said) == ("problem", "3.37.2 is too old: duly needs 3.38")


async def test_the_version_is_that_of_this_python(url: str) -> None:
    await migrate_store(url)
    finding = await found(url, "SQLite")
    assert finding.said.startswith(sqlite3.sqlite_version)
    assert finding.level == ("ok" if is_mended(sqlite3.sqlite_version_info) else "warning")


@pytest.mark.parametrize(
    ("path", "point", "kind", "level"),
    [
        ("/var/lib/duly.db", "/", "ext4", "ok"),
        ("/srv/app/duly.db", "/srv", "nfs4", "problem"),
        ("/srv/local/duly.db", "/srv/local", "xfs", "ok"),
        ("/srv/locally/duly.db", "/srv", "nfs4", "problem"),
        ("/mnt/a share/duly.db", "/mnt/a share", "cifs", "problem"),
        ("/media/duly.db", "/media", "fuse.sshfs", "problem"),
        ("/quick/duly.db", "/quick", "tmpfs", "warning"),
        ("/backup/duly.db", "/backup", "ext4", "problem"),
        ("/run/portal/duly.db", "/run/portal", "fuse.portal", "warning"),
    ],
)
def test_a_file_system_is_known_by_the_deepest_mount(
    path: str, point: str, kind: str, level: str
) -> None:
    mount = mount_of(Path(path), MOUNTS)
    assert mount is not None
    assert (mount.point, mount.kind) == (point, kind)
    assert judge_mount(mount).level == level


def test_every_network_file_system_is_a_problem_that_names_the_way_out() -> None:
    for kind in NETWORK:
        finding = judge_mount(Mount("/srv", kind))
        assert finding.level == "problem"
        assert "PostgreSQL" in finding.fix


async def test_the_file_system_is_the_one_that_this_kernel_names(url: str) -> None:
    await migrate_store(url)
    kernels = mount_here(Path(url))
    finding = await found(url, "file system")
    assert kernels is None or finding.said.startswith(f"{kernels.kind} at {kernels.point}")


def test_a_disk_is_watched_before_it_is_full() -> None:
    folder = Path("/srv")
    levels = [
        judge_space(free, folder).level for free in (FULL - 1, FULL, NEARLY_FULL - 1, NEARLY_FULL)
    ]
    assert levels == ["problem", "warning", "warning", "ok"]
    assert judge_space(NEARLY_FULL * 3 // 2, folder).said == "1.5 GB free at /srv"


async def test_the_disk_is_that_of_the_store(url: str) -> None:
    await migrate_store(url)
    finding = await found(url, "disk space")
    free = shutil.disk_usage(Path(url).parent).free
    assert finding.level == judge_space(free, Path(url).parent).level
    assert finding.said.endswith(f"free at {Path(url).parent.resolve()}")


async def test_a_store_that_can_be_written_is_well_and_is_left_as_it_is(url: str) -> None:
    await migrate_store(url)
    before = content(url)
    assert (await found(url, "writing")).level == "ok"
    assert content(url) == before


async def test_a_store_that_somebody_holds_cannot_be_written(url: str) -> None:
    await migrate_store(url)
    with held(f"{url}.lock"):
        finding = await found(url, "writing")
    assert finding.level == "problem"
    assert "another process has held" in finding.said


async def test_a_store_in_which_another_program_writes_cannot_be_written(url: str) -> None:
    await migrate_store(url)
    with closing(sqlite3.connect(url, isolation_level=None)) as another:
        another.execute("begin immediate")
        finding = await found(url, "writing")
    assert finding.level == "problem"
    assert "another program has held the write lock" in finding.said


async def test_a_store_whose_lock_cannot_be_made_cannot_be_written(url: str) -> None:
    await migrate_store(url)
    make_useless(Path(f"{url}.lock"))
    finding = await found(url, "writing")
    assert finding.level == "problem"
    assert "cannot open the lock" in finding.said
    assert "let this user write the files" in finding.fix


@pytest.mark.parametrize("what", ["the file", "its folder"])
def test_a_store_that_this_user_may_only_read_is_a_problem(what: str, tmp_path: Path) -> None:
    """Seen by a process that has not even the rights of root."""
    path = tmp_path / "store" / "duly.db"
    path.parent.mkdir()
    asyncio.run(migrate_store(str(path)))
    chosen = path if what == "the file" else path.parent
    chosen.chmod(0o555)
    try:
        words = [sys.executable, "-m", "duly", "doctor", "--store", str(path), "-o", "json"]
        done = subprocess.run([*powerless(), *words], capture_output=True, text=True, check=False)
    finally:
        chosen.chmod(0o755)
    findings = {one["check"]: one for one in json.loads(done.stdout)["findings"]}
    assert done.returncode == 1
    assert findings["writing"]["said"] == f"this user cannot write {chosen}"


def powerless() -> list[str]:
    """The words before a command that take root's right to write everything away from it."""
    if os.geteuid() != 0:
        return []
    return ["setpriv", "--bounding-set=-dac_override,-dac_read_search"]
