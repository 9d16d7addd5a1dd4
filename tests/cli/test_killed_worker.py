"""A worker that was killed: what the command says while nobody is there, and after a take-over.

A worker that starts later has not seen the dead one alive, so it waits for the end of its lease.
"""

import json
import signal
from pathlib import Path

import pytest
from click.testing import CliRunner

from duly.cli import main
from tests.app import shop
from tests.app.programs import Programs
from tests.app.shop import is_up, put_up
from tests.app.waiting import eventually

pytestmark = pytest.mark.usefixtures("shop_is_open")


def said(*words: str) -> str:
    return CliRunner().invoke(main, words).stdout


def test_what_a_killed_worker_left_behind_is_told_at_once_and_with_its_remedy(
    programs: Programs, tmp_path: Path
) -> None:
    sign = str(tmp_path / "sign")
    first = programs.worker("--name", "w1", "--lease", "8s")
    job = shop.hold.enqueue(sign)
    eventually(lambda: is_up(f"{sign}.began"), "the job to begin")
    assert f"on w1.\n  see it    duly jobs logs {job.id} -f\n" in said("why", str(job.id))
    [listed] = json.loads(said("workers", "-o", "json"))
    named = f"w1 ({listed['id']})"
    assert said("workers", "drain", "w1") == f"{named}: draining: starts no more jobs\n"
    assert said("workers", "resume", "w1") == f"{named}: resumed: starts jobs again\n"
    assert said("workers", "scale", "w1", "20") == f"{named}: 20 jobs at once\n"
    first.signal(signal.SIGKILL)
    first.end()

    lone = said("why", str(job.id))
    assert ", attempt 1 of 3, on w1, which is gone.\n" in lone
    assert "the process of w1 is gone; its lease ends in " in lone
    assert "run again by the next worker: none is running\n" in lone
    assert lone.endswith("start one   duly up\n")
    assert "stop it" not in lone
    assert "gone, its lease expires in " in said("workers")
    [listed] = json.loads(said("workers", "-o", "json"))
    assert (listed["name"], listed["gone"]) == ("w1", True)
    assert said("workers", "stop", "w1").startswith(f"{named}: gone, its lease expires in ")
    doctor = said("doctor")
    assert "w1: its process is gone; its lease expires in " in doctor
    assert ", and 1 job waits for that\n" in doctor
    status = CliRunner().invoke(main, ["status"])
    assert status.exit_code == 1
    assert (
        "w1  is gone, and 1 job with it: none is running that could take it back" in status.stdout
    )
    assert "start one      duly up" in status.stdout

    put_up(f"{sign}.go")
    programs.worker("--name", "w2")
    assert job.result("30s") == sign
    assert job.refresh().attempts[0].error == "Lost: with w1: its lease ended"
    again = said("why", str(job.id))
    assert ", at attempt 2 (1 was lost with its worker: try 1 of 3).\n" in again
    assert f"job {job.id} on w2\n" in again
    assert ": Lost: with w1: its lease ended\n" in again


def test_a_job_that_was_taken_over_has_the_same_number_wherever_it_is_told(
    programs: Programs, tmp_path: Path
) -> None:
    sign = str(tmp_path / "sign")
    first = programs.worker("--name", "w1", "--lease", "8s")
    job = shop.hold.enqueue(sign)
    eventually(lambda: is_up(f"{sign}.began"), "the job to begin")
    Path(f"{sign}.began").unlink()
    first.signal(signal.SIGKILL)
    first.end()
    programs.worker("--name", "w2")
    eventually(lambda: is_up(f"{sign}.began"), "the job to begin again")
    counted = "attempt 2 (1 was lost with its worker: try 1 of 3), on w2"
    assert counted in said("why", str(job.id))
    assert counted in said("jobs", "show", str(job.id))
    assert "w1" not in said("workers")
    put_up(f"{sign}.go")
    assert job.result("9s") == sign
