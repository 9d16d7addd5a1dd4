"""A SQLite file under many processes that are killed all the time: no promise in it is broken."""

import asyncio
import random
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

from duly.clock import boottime, sleep
from duly.model.states import State
from tests.acceptance.fleet import Impossible, common, fleet, idle, until
from tests.acceptance.ledger import MANY
from tests.acceptance.report import Report
from tests.acceptance.stories.kills import kill_one

NODES = 8
PAUSE = 0.1
MOST_LOG = 64 << 20  # bytes


async def a_file_is_tortured(
    url: str, folder: Path, *, seconds: float = 60.0, cuts: int = 200
) -> Report:
    """Every node asks for jobs and runs them; one after the other is killed, ten each second.

    At last, copies of the log that are cut off anywhere must still be read: a loss of power leaves
    such a log.
    """
    if url.startswith("postgresql:"):
        raise Impossible("it is about a file")
    report, kills, log = Report(), 0, 0
    async with fleet(url, folder, nodes=NODES, more=["--asks"]) as (there, store):
        end = boottime() + seconds
        while boottime() < end:
            await sleep(random.uniform(0.5, 1.5) * PAUSE)
            await asyncio.to_thread(kill_one, there)
            kills += 1
            log = max(log, log_of(url).stat().st_size)
        for member in list(there.members):
            there.kill(member)
        _read_cut_logs(Path(url), folder, cuts=cuts, report=report)
        there.more = ()  # from here on, nobody asks for more
        for _ in range(2):
            there.start()
        await until(lambda: idle(store), seconds=120)
        promised = {line.job for line in there.lines("promised")}
        known = {job.id for job in await store.jobs.ended(State.SUCCEEDED, limit=MANY)}
        ran = [line.job for line in there.lines("end")]
        report.say(f"{kills} kills, {len(promised)} promised, {len(promised - known)} lost")
        report.say(f"{len(ran) - len(set(ran))} run again, {len(set(ran) - known)} phantoms")
        report.say(f"longest log {log / 2**20:.1f} MB")
        report.must(promised, "nothing was promised")
        report.must(promised <= known, f"lost: {sorted(promised - known)[:10]}")
        report.must(set(ran) <= known, f"ran and is not known: {sorted(set(ran) - known)[:10]}")
        report.must(log <= MOST_LOG, f"the log grew to {log} bytes")
        report.must(not there.completed_twice(), f"completed twice: {there.completed_twice()[:3]}")
        return common(there, report)


def log_of(file: str | Path) -> Path:
    return Path(f"{file}-wal")


def _read_cut_logs(file: Path, folder: Path, *, cuts: int, report: Report) -> None:
    copy, bad = folder / "copy.db", list[str]()
    log = log_of(file).read_bytes()
    report.must(log, "there was no log to cut")
    for _ in range(cuts):
        for old in folder.glob("copy.db*"):
            old.unlink()
        shutil.copy(file, copy)
        log_of(copy).write_bytes(log[: random.randrange(len(log))])
        with closing(sqlite3.connect(copy)) as opened:
            [(found,)] = opened.execute("pragma integrity_check").fetchall()
        bad += [found] if found != "ok" else []
    report.say(f"{cuts} cut logs, {len(bad)} damaged")
    report.must(not bad, f"damaged: {bad[:3]}")
