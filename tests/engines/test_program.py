"""The program that an engine starts, without an engine."""

import os
import signal
import subprocess
import sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from duly.engine.executors.process.frames import (
    DoneFrame,
    FailedFrame,
    MismatchFrame,
)
from duly.engines import program, report
from duly.engines.report import REQUEST
from duly.errors import NotFound
from tests.engine.executors.calling import order

ROOT = Path(__file__).parents[2]
Report = DoneFrame | FailedFrame | MismatchFrame


def ran(tmp_path: Path, task: str, args: str, *, module: str) -> tuple[Report, str]:
    """The report of the program, and what it has written."""
    file = tmp_path / "report"
    request = replace(order(task), args=args)
    done = subprocess.run(
        [sys.executable, "-m", "duly.engines.program", "--module", module, "--report", file],
        cwd=ROOT,
        env={**os.environ, REQUEST: msgspec.json.encode(request).decode()},
        capture_output=True,
        text=True,
        check=False,
    )
    found: Report = msgspec.json.decode(file.read_bytes(), type=Report)
    assert (done.returncode == 0) == isinstance(found, DoneFrame), done.stderr
    return found, done.stdout


def test_the_report_is_the_result_and_the_output_is_lines(tmp_path: Path) -> None:
    report, said = ran(tmp_path, "add_days", '{"day":"2026-02-28"}', module="tests.engines.heavy")
    assert isinstance(report, DoneFrame)
    assert '"day":"2026-03-01"' in str(report.result)
    plain, log, progress = said.splitlines()
    assert plain == "counting"
    assert '"warning","careful"' in log
    assert progress == '["ProgressFrame",50.0,"half",null]'


@pytest.mark.thorough("each starts a Python")
def test_what_cannot_run_is_reported(tmp_path: Path) -> None:
    misfit, _ = ran(tmp_path, "add_days", '{"when":1}', module="tests.engines.heavy")
    assert isinstance(misfit, MismatchFrame)
    missing, _ = ran(tmp_path, "add_days", "{}", module="tests.engines.nowhere")
    assert isinstance(missing, FailedFrame)
    assert missing.error == "ModuleNotFoundError"


def test_a_program_whose_time_is_over_ends_without_a_worker(tmp_path: Path) -> None:
    soon = timedelta(seconds=1)
    asked = replace(order("hold"), args=f'{{"sign":"{tmp_path}/sign"}}', timeout=soon, grace=soon)
    command = [sys.executable, "-m", "duly.engines.program", "--module", "tests.engines.heavy"]
    done = subprocess.run(
        [*command, "--report", "-"],
        cwd=ROOT,
        env={**os.environ, REQUEST: msgspec.json.encode(asked).decode()},
        capture_output=True,
        check=False,
        timeout=60,
        start_new_session=True,
    )
    assert (done.returncode, done.stdout) == (-signal.SIGKILL, b"holding\n")


def test_a_task_that_the_module_does_not_declare_is_named() -> None:
    assert program.definition_in("tests.engines.heavy", "hold").name == "hold"
    with pytest.raises(NotFound, match='heavy, as it is installed here, declares no task "fly"'):
        program.definition_in("tests.engines.heavy", "fly")


def test_a_report_that_is_too_large_says_so() -> None:
    small = DoneFrame("1")
    assert report.fitted(small, 4096) is small
    large = report.fitted(DoneFrame('"' + "x" * 5000 + '"'), 4096)
    assert isinstance(large, FailedFrame)
    assert large.permanent
    assert "its result takes 5," in large.message
    trace = FailedFrame("E", "\x01" * 9000, "t" * 9000, False, None, True)
    cut = report.fitted(trace, 4096)
    assert len(msgspec.json.encode(cut)) <= 4096
    assert cut != trace
