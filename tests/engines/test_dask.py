"""Jobs on a real Dask cluster: a scheduler and workers that the tests start, and kill."""

import importlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from functools import partial
from pathlib import Path

import pytest

from duly.model.states import State
from tests.app import waiting
from tests.app.programs import Program, Programs, programs_in
from tests.engines import heavy
from tests.infrastructure.tables import with_tables

pytestmark = pytest.mark.thorough("a Dask cluster takes seconds to start")

ROOT = Path(__file__).parents[2]


# A Dask cluster, a duly worker and each job start a Python that imports for a second or more.
eventually = partial(waiting.eventually, within=40.0)


class DaskCluster:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._processes: list[subprocess.Popen[bytes]] = []
        self._file = folder / "scheduler.json"
        self._meeting = ("--scheduler-file", str(self._file))
        self.scheduler = self._start("scheduler", "--port", "0", "--host", "127.0.0.1")
        eventually(self._file.exists, "the Dask scheduler")
        self.address: str = json.loads(self._file.read_text())["address"]
        self.worker = self.start_worker()

    def start_worker(self) -> "subprocess.Popen[bytes]":
        return self._start("worker", "--nthreads", "2", "--no-nanny")

    def close(self) -> None:
        for process in self._processes:
            process.kill()
            process.wait()

    def _start(self, role: str, *words: str) -> "subprocess.Popen[bytes]":
        log = (self._folder / f"{role}-{len(self._processes)}.log").open("wb")
        with log:
            process = subprocess.Popen(
                [sys.executable, "-m", "dask", role, *words, "--no-dashboard", *self._meeting],
                cwd=self._folder,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                stdout=log,
                stderr=log,
            )
        self._processes.append(process)
        return process


@contextmanager
def cluster_in(folder: Path) -> Iterator[DaskCluster]:
    cluster = DaskCluster(folder)
    try:
        yield cluster
    finally:
        cluster.close()


@pytest.fixture(scope="module")
def dask(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaskCluster]:
    with cluster_in(tmp_path_factory.mktemp("dask")) as cluster:
        yield cluster


class Office:
    """A database whose tasks run on a Dask cluster, and its workers."""

    def __init__(self, dask: DaskCluster, folder: Path, programs: Programs) -> None:
        self._settings = {
            "DULY_URL": str(with_tables(folder / "duly.db")),
            "DULY_TEST_DASK": dask.address,
        }
        self._programs = programs
        with pytest.MonkeyPatch.context() as patch:
            for name, value in self._settings.items():
                patch.setenv(name, value)
            importlib.reload(heavy)
            assert heavy.duly.url == self._settings["DULY_URL"]

    def start_worker(self) -> Program:
        words = ("-m", "duly", "worker", "tests.engines.heavy", "--stop-timeout", "0s")
        program = self._programs.start(*words, **self._settings)
        program.hear("registered as number")
        return program


@contextmanager
def office_in(folder: Path, dask: DaskCluster) -> Iterator[Office]:
    with programs_in(folder) as programs:
        yield Office(dask, folder, programs)
        heavy.duly.close()


@pytest.fixture
def office(dask: DaskCluster, tmp_path: Path) -> Iterator[Office]:
    with office_in(tmp_path, dask) as office:
        yield office


def stop(worker: Program) -> None:
    worker.signal(signal.SIGTERM)
    assert worker.end() == 0


def is_alive(pid: int) -> bool:
    return Path(f"/proc/{pid}/exe").exists()  # a zombie has none


def test_a_job_runs_on_dask_with_its_arguments_log_errors_retries_cancel_and_timeout(
    dask: DaskCluster, office: Office, tmp_path: Path
) -> None:
    office.start_worker()
    again, cancelled, late = (str(tmp_path / name) for name in ("again", "cancelled", "late"))
    held = heavy.hold.enqueue(cancelled)
    job = heavy.add_days.enqueue(date(2026, 2, 27), days=2)
    failing, hopeless = heavy.fail_first.enqueue(again), heavy.give_up.enqueue()

    eventually(lambda: heavy.runs(cancelled), "it to begin")
    assert held.cancel(reason="not needed")
    eventually(lambda: held.refresh().state is State.CANCELLED, "the cancel")
    assert not is_alive(heavy.runs(cancelled)[0])

    result = job.result(timeout="40s")
    assert result == {"day": "2026-03-01", "attempt": 1, "parent": dask.worker.pid}
    log = "\n".join(job.logs())
    assert [log.count(word) for word in ("started", "counting", "careful")] == [1, 1, 1]

    assert failing.result(timeout="40s") == 2
    assert "the first time" in str(failing.refresh().attempts[0].error)
    assert "in fail_first" in str(failing.attempts[0].error)  # the traceback
    eventually(lambda: hopeless.refresh().state is State.FAILED, "the failure")
    assert "there is no point" in hopeless.reason

    long = heavy.run_long.enqueue(late)
    eventually(lambda: long.refresh().state is State.FAILED, "the timeout")
    assert not is_alive(heavy.runs(late)[0])
    assert Path(f"{late}.asked").exists()  # it was asked, refused, and was killed
    assert "ran longer than 5s" in long.reason


def test_workers_after_a_killed_and_a_stopped_one_wait_for_the_same_remote_job(
    office: Office, tmp_path: Path
) -> None:
    sign = str(tmp_path / "sign")
    first = office.start_worker()
    job = heavy.hold.enqueue(sign)
    eventually(lambda: heavy.runs(sign), "the remote job to begin")
    second = office.start_worker()
    first.kill()
    eventually(lambda: "found again" in "\n".join(job.logs()), "the second worker")
    stop(second)
    assert is_alive(heavy.runs(sign)[0])
    Path(f"{sign}.go").touch()
    eventually(lambda: not is_alive(heavy.runs(sign)[0]), "its end while no worker is there")
    office.start_worker()
    assert job.result(timeout="40s") == "held"
    assert len(heavy.runs(sign)) == 1


def test_a_remote_job_that_was_cancelled_after_its_worker_was_killed_is_ended_by_the_next(
    office: Office, tmp_path: Path
) -> None:
    sign = str(tmp_path / "sign")
    first = office.start_worker()
    job = heavy.hold.enqueue(sign)
    eventually(lambda: heavy.runs(sign), "the remote job to begin")
    first.kill()
    assert job.cancel(reason="not needed")
    assert is_alive(heavy.runs(sign)[0])
    office.start_worker()
    eventually(lambda: not is_alive(heavy.runs(sign)[0]), "its end")
    eventually(lambda: job.refresh().state is State.CANCELLED, "the cancel")
    assert len(heavy.runs(sign)) == 1


def test_a_remote_job_ends_with_its_dask_worker_and_waits_for_a_lost_scheduler(
    tmp_path: Path,
) -> None:
    sign, lost = str(tmp_path / "sign"), str(tmp_path / "lost")
    with cluster_in(tmp_path) as dask, office_in(tmp_path, dask) as office:
        office.start_worker()
        job = heavy.hold.enqueue(sign)
        eventually(lambda: heavy.runs(sign), "the remote job to begin")
        dask.worker.kill()
        eventually(lambda: not is_alive(heavy.runs(sign)[0]), "the end of its process")
        dask.start_worker()
        eventually(lambda: len(heavy.runs(sign)) == 2, "another Dask worker")
        Path(f"{sign}.go").touch()
        assert job.result(timeout="40s") == "held"

        waiting = heavy.hold.enqueue(lost)
        eventually(lambda: heavy.runs(lost), "the remote job to begin")
        dask.scheduler.kill()
        eventually(lambda: "trying again" in "\n".join(waiting.logs()), "a word about the engine")
        eventually(lambda: not is_alive(heavy.runs(lost)[0]), "the end of its process")
        assert waiting.refresh().state is State.RUNNING
