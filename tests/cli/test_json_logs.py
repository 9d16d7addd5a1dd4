"""Logs as JSON: every line is an object, with the facts that a collector filters by."""

import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_up import said, started, stopped

TASKS = r"""
import logging
from duly import Duly

duly = Duly()

@duly.schedule("every 1s", name="often")
@duly.task(retry=None, queue="mail")
def loud(password: str = "hunter2two") -> None:
    duly.current().log.info("of the job: password=%s", password)
    logging.getLogger("shop").warning("\x1b]0;pwned\x07\nof the shop")
    raise RuntimeError("on purpose")

if __name__ == "__main__":
    duly.run(queues=["mail"])
"""
JOB = {"job", "task", "attempt", "queue", "schedule", "worker"}


def lines(folder: Path) -> list[dict[str, Any]]:
    """Return the log; every line of it must be a JSON object."""
    return [json.loads(line) for line in (folder / "log").read_text().splitlines()]


def check(found: list[dict[str, Any]]) -> None:
    assert all({"time", "level", "logger", "message"} <= one.keys() for one in found)
    assert all(datetime.fromisoformat(one["time"]).tzinfo == UTC for one in found)
    ended = next(one for one in found if one.get("event") == "JobEnded")
    assert ended.keys() >= JOB | {"outcome", "reason", "seconds", "error", "last"}
    assert (ended["level"], ended["logger"], ended["last"]) == ("error", "duly", True)
    assert (ended["task"], ended["queue"], ended["schedule"]) == ("loud", "mail", "often")
    assert "\n" not in ended["message"]
    assert "Traceback" in ended["error"]
    shop = next(one for one in found if one["logger"] == "shop")
    assert (shop["level"], shop["message"]) == ("warning", "\x1b]0;pwned\x07\nof the shop")
    assert {name: shop[name] for name in JOB} == {name: ended[name] for name in JOB}


def test_every_line_of_up_and_of_its_dashboard_is_an_object(tmp_path: Path) -> None:
    (tmp_path / "tasks.py").write_text(TASKS)
    words = ("--web", "--port", "0", "--queues", "mail", "--log-format", "json")
    with started(tmp_path, "up", *words) as process:
        said(tmp_path, "JobEnded")
        said(tmp_path, "dashboard: ")
        assert stopped(process) == 0
    found = lines(tmp_path)
    check(found)
    told = {one["event"]: one for one in found if "event" in one}
    assert told["SchedulesDeclared"]["added"] == ["often"]
    assert told["WorkerRegistered"]["worker"] == told["JobEnded"]["worker"]
    assert not any(one["logger"].startswith("duly.job") for one in found)
    raw = (tmp_path / "log").read_text()
    assert not {"\x1b", "\x07"} & {*raw}
    assert "hunter2two" not in raw


def test_records_of_jobs_are_lines_when_asked_for(tmp_path: Path) -> None:
    (tmp_path / "tasks.py").write_text(TASKS)
    (tmp_path / "duly.toml").write_text('log_format = "json"\nverbose = true\n')
    with started(tmp_path, "worker", "--queues", "mail", "--scheduler") as process:
        said(tmp_path, "JobEnded")
        assert stopped(process) == 0
    found = lines(tmp_path)
    own = next(one for one in found if one["logger"] == "duly.job.loud")
    assert own["message"] == "of the job: password=***"
    begun = next(one for one in found if one.get("event") == "JobStarted")
    assert {name: begun[name] for name in JOB} == {name: own[name] for name in JOB}


@pytest.mark.thorough("repeats with another way to start")
def test_a_program_that_runs_a_worker_logs_in_the_same_way(tmp_path: Path) -> None:
    (tmp_path / "tasks.py").write_text(TASKS)
    environment = {**os.environ, "DULY_LOG_FORMAT": "json"}
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "tasks.py"], cwd=tmp_path, stderr=log, text=True, env=environment
        )
        try:
            said(tmp_path, "JobEnded")
            assert stopped(process) == 0
        finally:
            process.kill()
            process.wait()
    check(lines(tmp_path))


def test_an_application_that_configures_logging_keeps_its_handlers(tmp_path: Path) -> None:
    own = TASKS.replace("duly = Duly()", 'duly = Duly()\nlogging.basicConfig(format="OWN %(msg)s")')
    (tmp_path / "tasks.py").write_text(own)
    with started(
        tmp_path, "worker", "--queues", "mail", "--scheduler", "--log-format=json"
    ) as process:
        said(tmp_path, "JobEnded")
        assert stopped(process) == 0
    log = (tmp_path / "log").read_text()
    assert "OWN of the job" in log
    assert '"logger": "shop"' not in log


def test_the_error_that_ends_a_command_is_an_object_too(tmp_path: Path) -> None:
    (tmp_path / "tasks.py").write_text(TASKS)
    with started(
        tmp_path, "worker", "--store", "postgresql://127.0.0.1:1/x", "--log-format=json"
    ) as process:
        assert process.wait(30) == 5
    [*_, last] = lines(tmp_path)
    assert (last["level"], last["message"].startswith("Error: ")) == ("error", True)
