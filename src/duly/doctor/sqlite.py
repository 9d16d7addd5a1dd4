"""Checks around an SQLite store: the library, the file system, the disk, the permissions."""

import os
import re
import shutil
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path, PurePosixPath
from typing import Final, NamedTuple

from duly.doctor.checks import Finding, Patient, fine, problem, warning
from duly.errors import StoreUnavailable
from duly.store.connect import connect
from duly.store.database import Operation
from duly.store.sqlite.connection import LIBRARY, sqlite3

Version = tuple[int, ...]

OLDEST: Final = (3, 38)
# Where the race between a checkpoint and a log that is started anew was mended: a commit could be
# lost there. From 3.51.3 on, and in two older lines.
MENDED: Final = (3, 51, 3)
NEWER: Final = 'pip install "duly[sqlite]"'
MENDED_LINES: Final = {(3, 44): 6, (3, 50): 7}

# A file there may be seen by several machines, whose locks and shared memory are not one.
NETWORK: Final = frozenset(
    {
        *("nfs", "nfs4", "cifs", "smb2", "smb3", "smbfs", "9p", "afs", "ceph", "ncpfs", "lustre"),
        *("gfs2", "ocfs2", "beegfs", "gpfs", "davfs"),
        *("fuse.sshfs", "fuse.glusterfs", "fuse.ceph", "fuse.cephfs", "fuse.s3fs", "fuse.rclone"),
        *("fuse.gcsfuse", "fuse.mfs", "fuse.davfs2", "fuse.curlftpfs", "fuse.juicefs"),
        *("fuse.smbnetfs", "fuse.goofys"),
    }
)
FORGETFUL: Final = frozenset({"tmpfs", "ramfs"})
MOUNTS: Final = Path("/proc/self/mounts")

MEGABYTE: Final = 1024**2
FULL, NEARLY_FULL = 100 * MEGABYTE, 1024 * MEGABYTE  # the log alone may grow to 64 MB
WRITING_PATIENCE: Final = timedelta(seconds=3)


async def version(_: Patient) -> Finding:
    return judge_version(sqlite3.sqlite_version_info)


def judge_version(found: Version) -> Finding:
    said = ".".join(map(str, found))
    if LIBRARY != "sqlite3":
        said += f" (of {LIBRARY})"
    if found < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        return problem(f"{said} is too old: duly needs {oldest}", f"use a newer one: {NEWER}")
    if not is_mended(found):
        return warning(
            f"{said} can lose a commit when two programs write at once; duly's processes are "
            "safe, because they share a lock that other programs do not know",
            "do not let another program (Django, a shell) write to the file, or use SQLite "
            f"3.51.3, 3.50.7 or 3.44.6: {NEWER}",
        )
    return fine(f"{said}, in which the checkpoint race is fixed")


def is_mended(found: Version) -> bool:
    patch = MENDED_LINES.get((found[0], found[1]))
    return found >= MENDED or (patch is not None and found[2] >= patch)


class Mount(NamedTuple):
    point: str
    kind: str  # as the kernel calls the file system
    read_only: bool = False


async def file_system(patient: Patient) -> Finding:
    if not MOUNTS.exists():
        return fine(
            "this operating system does not tell the kind of file system; it must be a local disk"
        )
    return judge_mount(mount_of(patient.path, MOUNTS.read_text("utf-8", "replace")))


def judge_mount(mount: Mount | None) -> Finding:
    local = "move the database to a local disk, or use PostgreSQL: SQLite is for one machine"
    if mount is None:
        return warning("the kernel lists no mount for this path", local)
    there = f"{mount.kind} at {mount.point}"
    if mount.read_only:
        return problem(f"{there} is mounted read-only", "mount it writable")
    if mount.kind in NETWORK:
        return problem(
            f"{there} is a network file system: file locks do not work there, and commits get lost",
            local,
        )
    if mount.kind in FORGETFUL:
        return warning(
            f"{there} is in memory: the database is lost when the machine restarts", local
        )
    if mount.kind.startswith("fuse"):
        return warning(f"{there}: it is not known whether file locks work there", local)
    return fine(f"{there}, on this machine")


def mount_of(path: Path, mounts: str) -> Mount | None:
    """Return the file system of a path: the deepest mount, or the later of two at one point."""
    found = None
    for mount in _read(mounts):
        inside = PurePosixPath(path).is_relative_to(mount.point)
        if inside and (found is None or len(mount.point) >= len(found.point)):
            found = mount
    return found


def _read(mounts: str) -> Iterator[Mount]:
    for line in mounts.splitlines():
        words = line.split(" ")
        if len(words) >= 4:
            yield Mount(_unescaped(words[1]), words[2], "ro" in words[3].split(","))


def _unescaped(word: str) -> str:
    r"""The kernel writes a space as ``\040``."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), word)


async def disk_space(patient: Patient) -> Finding:
    folder = patient.path.parent
    return judge_space(shutil.disk_usage(folder).free, folder)


def judge_space(free: int, folder: Path) -> Finding:
    said = f"{_bytes(free)} free at {folder}"
    fix = "free some space there: on a full disk nothing can be stored"
    if free < FULL:
        return problem(said, fix)
    if free < NEARLY_FULL:
        return warning(said, fix)
    return fine(said)


def _bytes(count: int) -> str:
    megabytes = count / MEGABYTE
    return f"{megabytes / 1024:.1f} GB" if megabytes >= 1024 else f"{megabytes:.0f} MB"


async def writing(patient: Patient) -> Finding:
    """Begin to write, as a node would, and change nothing.

    SQLite does not report this itself: a read-only file begins a transaction all the same.
    """
    refused = judge_rights([place for place in _written(patient.path) if not _may_write(place)])
    settings = {} if refused else await patient.store.diagnostics.settings()
    # To begin in a file that is not migrated would change it: it has no WAL yet.
    if refused is not None or settings["journal_mode"] != "wal":
        return refused or fine("this user can write")
    return await _begun(patient)


def judge_rights(refused: Sequence[Path]) -> Finding | None:
    if not refused:
        return None
    return problem(
        f"this user cannot write {' and '.join(map(str, refused))}",
        "let this user write the file and the files whose names begin with its name, and create "
        "files in its folder",
    )


async def _begun(patient: Patient) -> Finding:
    store = connect(patient.url, create=False, deadline=WRITING_PATIENCE)
    try:
        await store.open()
        await store.database.write(_nothing)
    except StoreUnavailable as error:
        return problem(
            f"the database cannot be written: {error}",
            f"stop the process that holds it (fuser {patient.path}), or let this user write the "
            "files whose names begin with its name",
        )
    finally:
        await store.close()
    return fine("this user can write")


def _written(path: Path) -> list[Path]:
    """Return the folder, the file, and the existing files that SQLite and duly keep beside it."""
    beside = [path.with_name(path.name + suffix) for suffix in ("-wal", "-shm", ".lock", "-wake")]
    return [path.parent, path, *(place for place in beside if place.exists())]


def _may_write(place: Path) -> bool:
    return os.access(place, os.W_OK | (os.X_OK if place.is_dir() else 0))


def _nothing() -> Operation[None]:
    yield from ()
