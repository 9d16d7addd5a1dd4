"""What people edit of a schedule in code stays and is shown, until somebody takes it back."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from duly.cli import main

TASKS = """
from duly import Duly
duly = Duly("duly.db")

@duly.schedule("every 1h", overlap="allow")
@duly.task
def report() -> None: ...
"""


def duly(*words: str) -> Result:
    return CliRunner().invoke(main, ["schedules", *words])


@pytest.fixture(autouse=True)
def declared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A schedule as the scheduler of its app has written it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tasks.py").write_text(TASKS)
    with subprocess.Popen(
        [sys.executable, "-m", "duly", "scheduler"], stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        while "added report" not in process.stderr.readline():
            assert process.poll() is None
        process.terminate()


def test_what_was_edited_is_shown_until_it_is_taken_back() -> None:
    assert "drift" not in duly("show", "report").stdout
    assert duly("edit", "report", "--rule", "every 2h", "--overlap", "skip").exit_code == 0
    shown = duly("show", "report").stdout
    end = "in tasks:duly: duly schedules take-back report"
    assert f'drift   overlap is "skip" here, and "allow" {end}' in shown
    assert f'drift   rule is "every 2h" here, and "every 1h" {end}' in shown
    told = json.loads(duly("show", "report", "-o", "json").stdout)["drift"]
    assert {one["field"] for one in told} == {"overlap", "rule"}
    taken = duly("take-back", "report")
    assert (taken.exit_code, taken.stdout) == (
        0,
        'rule: "every 2h" → "every 1h"\noverlap: "skip" → "allow"\n',
    )
    assert "drift" not in duly("show", "report").stdout
    assert duly("take-back", "report").stdout == "report is as the code says\n"


def test_what_no_code_declares_cannot_be_taken_back() -> None:
    duly("add", "every 5m", "--name", "mine", "--", "date")
    refused = duly("take-back", "mine")
    assert (refused.exit_code, refused.stderr.splitlines()[-1]) == (
        1,
        'Error: "mine" is not declared in code: there is nothing to revert',
    )
    assert duly("take-back", "nothing").exit_code == 3


def test_what_was_removed_by_hand_is_told_everywhere_until_it_is_brought_back() -> None:
    gone = duly("remove", "report", "--yes")
    assert "to bring it back: duly schedules take-back report" in gone.stderr
    assert "report: removed" in duly("list").stderr
    status = CliRunner().invoke(main, ["status"])
    assert status.exit_code == 1
    assert "and still declared in tasks:duly: it does not run" in status.stdout
    assert "duly schedules take-back report" in status.stdout
    doctor = CliRunner().invoke(main, ["doctor"]).stdout
    assert "removed by hand, but still declared in code: report" in doctor
    with subprocess.Popen(
        [sys.executable, "-m", "duly", "scheduler"], stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        while "declared in tasks:duly and removed by hand: report" not in (
            process.stderr.readline()
        ):
            assert process.poll() is None
        process.terminate()
    assert duly("take-back", "report").stdout == "report is as the code says\n"
    assert duly("show", "report").exit_code == 0
    assert "report: removed" not in duly("list").stderr
    assert "removed by hand" not in CliRunner().invoke(main, ["doctor"]).stdout
