"""``duly worker`` as its users and its operators meet it: real processes, real signals."""

import json
import os
import signal
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from duly import Job
from duly.cli import main
from duly.model.states import State
from tests.app import shop
from tests.app.programs import Programs, seconds_until
from tests.app.shop import is_up, put_up
from tests.app.waiting import eventually

pytestmark = pytest.mark.usefixtures("shop_is_open")


def command(*words: str) -> Result:
    return CliRunner().invoke(main, words)


@pytest.fixture
def sign(tmp_path: Path) -> str:
    return str(tmp_path / "sign")


def begun(sign: str) -> None:
    eventually(lambda: is_up(f"{sign}.began"), "the job to begin")


def left_lying() -> Job[int]:
    """A job that nobody has begun for a while: a word may take a second to be heard."""
    left: list[Job[int]] = []

    def is_left() -> bool:
        job = shop.add.enqueue(1)
        try:
            job.result("700ms")
        except TimeoutError:
            left.append(job)
        return bool(left)

    eventually(is_left, "a job to be left lying")
    return left[0]


def test_it_runs_what_was_promised_and_says_where_it_looks(programs: Programs, url: str) -> None:
    jobs = [shop.add.enqueue(1), shop.pid.enqueue()]
    worker = programs.worker("--name", "web-1", "-v")
    assert jobs[0].result("9s") == 3
    assert jobs[1].result("12s") != worker.pid
    assert (
        "queues: default (concurrency 10)\ntasks: add, bill, fail, hold, pid, order" in worker.said
    )
    assert "worker web-1 registered as number" in worker.said
    assert f"job {jobs[0].id} add: succeeded" in worker.said
    worker.signal()
    assert worker.end() == 0


def test_a_warm_stop_finishes_what_runs_and_begins_nothing_more(
    programs: Programs, sign: str
) -> None:
    worker = programs.worker("--concurrency", "1")
    running, waiting = shop.hold.enqueue(sign), shop.add.enqueue(1)
    begun(sign)
    worker.signal()
    worker.hear("finishing 1 job within 25s; send the signal again to stop now")
    put_up(f"{sign}.go")
    assert worker.end() == 0
    assert (running.refresh().state, waiting.refresh().state) == (State.SUCCEEDED, State.READY)


def test_a_second_signal_stops_what_runs_and_another_worker_runs_it_again(
    programs: Programs, sign: str
) -> None:
    worker = programs.worker()
    job = shop.hold.enqueue(sign)
    begun(sign)
    worker.signal()
    worker.hear("finishing 1 job")
    worker.signal(signal.SIGINT)
    assert worker.end() == 0
    assert "stopping now" in worker.said
    assert job.refresh().state is State.READY
    put_up(f"{sign}.go")
    programs.worker()
    assert job.result("9s") == sign


def test_a_burst_runs_what_is_ready_and_ends(programs: Programs) -> None:
    jobs = shop.duly.enqueue_many(shop.add.bind(n) for n in range(50))
    later = shop.add.using(run_after="1h").enqueue(0)
    assert programs.worker("--burst").end() == 0
    assert {job.refresh().state for job in jobs} == {State.SUCCEEDED}
    assert later.refresh().state is State.SCHEDULED


def test_a_worker_may_have_done_enough(programs: Programs) -> None:
    jobs = shop.duly.enqueue_many(shop.add.bind(n) for n in range(3))
    assert programs.worker("--max-jobs", "2", "--concurrency", "1").end() == 0
    done = [job.refresh().state for job in jobs].count(State.SUCCEEDED)
    assert done >= 2
    assert programs.worker("--max-idle", "300ms").end() == 0
    assert {job.refresh().state for job in jobs} == {State.SUCCEEDED}


def test_a_drained_worker_begins_nothing_until_it_is_told_to(
    programs: Programs, sign: str, url: str
) -> None:
    programs.worker("--name", "web", "--concurrency", "1")
    running = shop.hold.enqueue(sign)
    begun(sign)
    assert command("workers", "drain", "web", "--store", url).exit_code == 0
    put_up(f"{sign}.go")
    running.result("9s")
    [info] = json.loads(command("workers", "--store", url, "-o", "json").stdout)
    assert (info["order"], info["slots"]) == ("drain", 1)
    waiting = left_lying()
    command("workers", "resume", "web", "--store", url)
    assert waiting.result("9s") == 3


def test_a_worker_is_stopped_through_the_store_and_now_if_that_takes_too_long(
    programs: Programs, sign: str, url: str
) -> None:
    worker = programs.worker("--name", "web")
    job = shop.hold.enqueue(sign)
    begun(sign)
    assert command("workers", "stop", "web", "--store", url).exit_code == 0
    command("workers", "stop", "web", "--now", "--store", url)
    assert worker.end() == 0
    assert job.refresh().state is State.READY


def test_a_worker_may_be_given_more_slots(programs: Programs, sign: str, url: str) -> None:
    programs.worker("--name", "web", "--concurrency", "1")
    shop.hold.enqueue(sign)
    begun(sign)
    waiting = shop.add.enqueue(1)
    assert command("workers", "scale", "web", "5", "--store", url).exit_code == 0
    assert waiting.result("9s") == 3
    assert "/5  " in command("workers", "--store", url).stdout
    put_up(f"{sign}.go")


def test_a_paused_queue_waits_for_all_workers(programs: Programs, url: str) -> None:
    shop.add.enqueue(0)  # makes the store
    command("queues", "pause", "default", "--note", "the relay is down", "--store", url)
    programs.worker()
    job = left_lying()
    [queue] = json.loads(command("queues", "--store", url, "-o", "json").stdout)
    assert (queue["name"], queue["paused"], queue["note"]) == ("default", True, "the relay is down")
    command("queues", "resume", "default", "--store", url)
    assert job.result("9s") == 3


def test_a_dead_process_is_replaced_within_two_seconds(programs: Programs, url: str) -> None:
    supervisor = programs.worker("--processes", "2", "--name", "web")

    def pids() -> set[int]:
        found = json.loads(command("workers", "--store", url, "-o", "json").stdout)
        return {info["pid"] for info in found}

    eventually(lambda: len(pids()) == 2, "two workers")
    victim, spared = sorted(pids())
    os.kill(victim, signal.SIGKILL)
    took = seconds_until(lambda: len(pids() - {victim, spared}) == 1, "another worker")
    assert took < 2 * _PATIENT
    assert spared in pids()
    supervisor.hear(f"process {victim} was killed by SIGKILL; it was replaced")
    supervisor.signal()
    assert supervisor.end() == 0
    eventually(lambda: not pids(), "the workers to end")


def test_the_workers_of_a_killed_supervisor_die_with_it(programs: Programs, url: str) -> None:
    supervisor = programs.worker("--processes", "2")
    supervisor.hear("registered as number")
    found = json.loads(command("workers", "--store", url, "-o", "json").stdout)
    os.kill(supervisor.pid, signal.SIGKILL)
    supervisor.end()
    eventually(lambda: not any(_lives(info["pid"]) for info in found), "the workers to die")


# Two seconds are for a machine with nothing else to do; tests share theirs.
_PATIENT = 2


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return (
        "zombie" not in Path(f"/proc/{pid}/status").read_text() if sys.platform == "linux" else True
    )
