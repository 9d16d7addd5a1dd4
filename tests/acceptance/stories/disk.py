"""The disk of the database is full for a while: nothing that was promised is lost."""

import errno
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from duly.clock import boottime, now, sleep
from duly.errors import StoreUnavailable
from duly.model.states import State
from duly.store.store import Store
from tests.acceptance.fleet import Impossible, calls, common, fleet, idle, until
from tests.acceptance.ledger import MANY
from tests.acceptance.report import Report
from tests.infrastructure.cluster import DISK, Cluster, running_cluster

PIECE = bytes(65_536)
BACK = 5.0
# A job with arguments that need room.
TEXT = "x" * 2_000


async def the_disk_is_full(folder: Path, *, programs: Path | None, seconds: float = 30.0) -> Report:
    """Somebody else fills the disk under load, and makes room again after that many seconds.

    The file system is a small one in memory, with the SQLite file in it, or the data of PostgreSQL.
    """
    with small_disk(megabytes=200 if programs else 16) as disk:
        if programs is None:
            report = await _told(str(disk / "duly.db"), folder, disk=disk, seconds=seconds)
            with closing(sqlite3.connect(disk / "duly.db")) as file:
                [(found,)] = file.execute("pragma integrity_check").fetchall()
            report.must(found == "ok", f"the file is damaged: {found}")
            return report
        with running_cluster(programs, durable=True, folder=disk) as cluster:
            return await _told(cluster.dsn, folder, disk=disk, seconds=seconds, cluster=cluster)


async def _told(
    url: str, folder: Path, *, disk: Path, seconds: float, cluster: Cluster | None = None
) -> Report:
    report = Report()
    async with fleet(url, folder, nodes=2) as (there, store):
        promised = await _asked(store, seconds=1)
        fill(disk / "filling")
        begun = now()
        refused = await _refused(store, promised, seconds=seconds)
        (disk / "filling").unlink()
        # A PostgreSQL that could not write its log has stopped: its operator starts it again.
        if cluster and not cluster.runs:
            report.say("the server had stopped")
            cluster.start()
        back = await until(lambda: _enqueued(store, promised), seconds=60)
        await until(lambda: idle(store), seconds=120)
        report.must(not there.gone(), "a node ended by itself")
        report.must(refused, f"since {begun:%T} nothing was refused: the disk was never full")
        succeeded = {job.id for job in await store.jobs.ended(State.SUCCEEDED, limit=MANY)}
        ran = {line.job for line in there.lines("end")}
        lost, phantoms = set(promised) - succeeded, ran - succeeded
        report.say(f"{len(promised)} promised, {len(lost)} lost, {refused} refused")
        report.must(not lost, f"lost: {sorted(lost)[:10]}")
        report.must(not phantoms, f"ran and is not known: {sorted(phantoms)[:10]}")
        twice = there.completed_twice()
        report.must(not twice, f"completed twice: {twice[:10]}")
        report.within(back, BACK, "accepting jobs after")
        return common(there, report)


async def _asked(store: Store, *, seconds: float) -> list[int]:
    found, end = list[int](), boottime() + seconds
    while boottime() < end:
        await _enqueued(store, found)
        await sleep(0.005)
    return found


async def _refused(store: Store, promised: list[int], *, seconds: float) -> int:
    """Ask for jobs all the time; count how often that was refused, in the words of the API."""
    refused, end = 0, boottime() + seconds
    while boottime() < end:
        try:
            await _enqueued(store, promised)
        except StoreUnavailable:
            refused += 1
        await sleep(0.005)
    return refused


async def _enqueued(store: Store, promised: list[int]) -> bool:
    promised += await store.jobs.enqueue(list(calls(1, "quick", text=TEXT)))
    return True


def fill(file: Path) -> None:
    with file.open("wb", buffering=0) as opened, suppress_full():
        while opened.write(PIECE):
            pass


@contextmanager
def suppress_full() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise


@contextmanager
def small_disk(*, megabytes: int) -> Iterator[Path]:
    size = f"size={megabytes}m,mode=1777"
    # Where the user of the server may go.
    with TemporaryDirectory(prefix="duly-disk-", dir=DISK) as folder:
        Path(folder).chmod(0o755)
        mount = ["mount", "-t", "tmpfs", "-o", size, "tmpfs", folder]
        if subprocess.run(mount, check=False, capture_output=True).returncode:
            raise Impossible("NO SMALL DISK: run it as root, who may mount one")
        try:
            yield Path(folder)
        finally:
            subprocess.run(["umount", "--lazy", folder], check=True)
