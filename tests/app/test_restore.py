"""A database is restored from a copy that was made while a worker ran."""

import importlib
import shutil
import sqlite3
import subprocess
from collections import Counter
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from duly import Duly, clock
from tests.app import shop
from tests.app.programs import Programs
from tests.app.shop import is_up, put_up
from tests.app.waiting import eventually
from tests.infrastructure.cluster import installed_programs


@pytest.mark.usefixtures("shop_is_open")
def test_a_restored_database_neither_swallows_nor_doubles_work(
    url: str, programs: Programs, tmp_path: Path
) -> None:
    sign, copy = str(tmp_path / "sign"), tmp_path / "copy.db"
    worker = programs.worker("--lease", "2s", "--concurrency", "1")
    ended = shop.add.enqueue(1)
    assert ended.result(timeout="20s") == 3
    running = shop.hold.enqueue(sign)
    eventually(lambda: is_up(f"{sign}.began"), "the job to begin")
    waiting = shop.add.enqueue(2)
    with closing(sqlite3.connect(url)) as source, closing(sqlite3.connect(copy)) as target:
        source.backup(target)  # as `sqlite3 duly.db ".backup copy.db"` does
    worker.kill()
    shop.duly.close()
    for file in Path(url).parent.glob(f"{Path(url).name}-*"):
        shutil.rmtree(file) if file.is_dir() else file.unlink()
    copy.replace(url)

    put_up(f"{sign}.go")
    programs.worker("--lease", "2s")
    importlib.reload(shop)  # as a program that starts after the restore
    found = {job: shop.duly.jobs.get(job.id) for job in (ended, running, waiting)}
    assert found[running].result(timeout="20s") == sign
    assert found[waiting].result(timeout="20s") == 4
    for added in (ended, waiting):
        assert "\n".join(found[added].logs()).count("adding") == 1
    # It was lost with its worker: the copy says that it runs.
    [lost] = found[running].refresh().attempts
    assert lost.outcome == "lost"
    fresh = shop.add.enqueue(5)
    assert fresh not in found
    assert fresh.result(timeout="20s") == 7


@pytest.mark.thorough("runs nodes on what tests/store/postgres/test_restored.py checks below them")
def test_a_dump_that_is_restored_under_running_nodes_neither_swallows_nor_doubles_work(
    postgres_url: str, programs: Programs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dump, go = tmp_path / "duly.sql", tmp_path / "go"
    monkeypatch.setenv("NOTES", str(tmp_path / "notes"))
    monkeypatch.setenv("DULY_URL", postgres_url)
    (tmp_path / "notes").touch()
    noted = importlib.reload(importlib.import_module("tests.app.noted"))
    app, notes = noted.duly, noted.notes
    for _ in range(2):
        node = programs.start(
            "-m", "duly", "up", "tests.app.noted", "--lease", "2s", "--queues", "default,later"
        )
        node.hear("registered as number")

    ended = noted.count.enqueue(1)
    assert ended.result(timeout="20s") == 1
    app.queues.pause("later")
    waiting = noted.count.using(queue="later").enqueue(2)
    running = noted.hold.enqueue(str(go))
    eventually(lambda: notes("hold") and notes("tick"), "work to begin")
    dumped = fired(app)[0]
    postgres("pg_dump", "--schema=duly", f"--file={dump}", postgres_url)

    lost = noted.count.enqueue(3)
    assert lost.result(timeout="20s") == 3
    eventually(lambda: fired(app)[0] > dumped + timedelta(seconds=3), "more than a lease to pass")
    drop, stop = "--command=drop schema duly cascade", "--set=ON_ERROR_STOP=1"
    postgres("psql", "--single-transaction", stop, drop, f"--file={dump}", postgres_url)
    restored = clock.now()

    app.queues.resume("later")
    fresh = [noted.count.enqueue(number) for number in range(10, 60)]
    # The lease in the dump is over: the job is run again, and its worker stops the first run.
    eventually(lambda: len(notes("hold")) == 3, "the running job to be stopped and run again")
    go.touch()
    for job in (*fresh, waiting, running):
        job.result(timeout="20s")
    assert sorted(map(int, notes("count"))) == [1, 2, 3, *range(10, 60)]
    assert sorted(notes("hold")) == ["began", "began", "ended", "stopped"]
    assert ended.refresh().state == "succeeded"

    eventually(lambda: fired(app)[0] > restored + timedelta(seconds=3), "ticks after the restore")
    ledger = sorted(int(at.timestamp()) for at in fired(app))
    assert len(set(ledger)) == len(ledger)
    later = [at for at in ledger if at > restored.timestamp()]
    assert later == [*range(later[0], later[-1] + 1)], "no second is missing"
    eventually(lambda: str(later[-1]) in notes("tick"), "the last run")
    runs = Counter(map(int, notes("tick")))
    assert all(runs[at] == 1 for at in ledger if at in later or at <= dumped.timestamp())
    # Of the moments in between, the newest is caught up: missed="latest".
    assert runs.total() - len(runs) <= 1


def fired(app: Duly) -> list[datetime]:
    """Return the due moments of the ticks in the ledger, newest first."""
    return [fire.due_at for fire in app.schedules.history("tick")]


def postgres(program: str, *words: str) -> None:
    *_, programs = installed_programs().values()
    subprocess.run([programs / program, *words], check=True, capture_output=True)
