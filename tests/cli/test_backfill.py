"""``duly schedules backfill``: counted first, asked about, done once, told in every format."""

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from duly.app.access import login
from tests.cli.test_schedules import changes, done, duly, on, store
from tests.infrastructure.moments import every_hour

__all__ = ["store"]


@pytest.fixture(autouse=True)
def hourly(store: str) -> str:
    """A schedule that is due each hour, and has not been yet."""
    done("add", every_hour(next_in=30), "--task", "report", "--name", "hourly")
    return store


def jobs(url: str) -> int:
    return len(on(url, lambda there: there.jobs.page(limit=1_000)))


def at_a_terminal(answer: str, *words: str) -> "subprocess.CompletedProcess[str]":
    """The command, with somebody at the keyboard."""
    keyboard, terminal = pty.openpty()
    try:
        os.write(keyboard, f"{answer}\n".encode())
        command = [sys.executable, "-m", "duly", "schedules", *words]
        return subprocess.run(
            command, stdin=terminal, capture_output=True, text=True, timeout=60, check=False
        )
    finally:
        os.close(keyboard)
        os.close(terminal)


def test_a_dry_run_counts_and_does_nothing(hourly: str) -> None:
    told = duly("backfill", "hourly", "--from", "3h", "--to", "now", "--dry-run")
    assert told.exit_code == 0
    head, *lines = told.stdout.splitlines()
    assert head.split() == ["DUE", "OUTCOME", "WHY", "JOB"]
    assert [re.sub(r"^.* UTC +", "", line) for line in lines] == ["to be queued  -    -"] * 3
    assert 'Note: overlap="skip": they run one after the other; a run that' in told.stderr
    assert told.stderr.splitlines()[-1] == "3 runs would be queued"
    assert jobs(hourly) == 0
    assert changes(hourly, "hourly") == []


def test_a_few_are_queued_without_a_question_and_once(hourly: str) -> None:
    first = duly("backfill", "hourly", "--from", "3h", "--to", "now")
    assert (first.exit_code, first.stdout.count("  queued  ")) == (0, 3)
    assert first.stderr.splitlines()[-1] == "3 runs queued"
    second = duly("backfill", "hourly", "--from", "3h", "--to", "now")
    assert (second.exit_code, second.stdout, jobs(hourly)) == (0, "", 3)
    assert second.stderr.splitlines()[-1] == (
        "0 runs queued; 3 have a job already (-o wide lists them, --again runs all)"
    )
    [(who, what)] = changes(hourly, "hourly")
    assert who == login()
    assert re.fullmatch(r"backfilled .* to .*, 3 runs", what)
    assert done("history", "hourly").count(f"backfilled by {login()}") == 3


def test_those_that_have_had_a_job_run_again_if_that_is_said(hourly: str) -> None:
    done("backfill", "hourly", "--from", "2h", "--to", "now")
    again = duly("backfill", "hourly", "--from", "3h", "--to", "now", "--again")
    assert again.stderr.splitlines()[-1] == "3 runs queued"
    assert jobs(hourly) == 5


def test_many_are_asked_about_and_nobody_there_means_no(hourly: str) -> None:
    told = duly("backfill", "hourly", "--from", "6h", "--to", "now")
    assert told.exit_code == 2
    assert re.search(
        r"this would start 6 runs of hourly, from \w{3} .* to \w{3} .* UTC: add --yes", told.stderr
    )
    assert jobs(hourly) == 0
    assert duly("backfill", "hourly", "--from", "6h", "--to", "now", "--yes").exit_code == 0
    assert jobs(hourly) == 6


def test_whoever_is_there_is_asked(hourly: str) -> None:
    words = ("backfill", "hourly", "--from", "6h", "--to", "now")
    refused = at_a_terminal("n", *words)
    assert (refused.returncode, refused.stdout, jobs(hourly)) == (1, "", 0)
    agreed = at_a_terminal("y", *words)
    assert re.search(r"start 6 runs of hourly, from .* UTC to .* UTC\? \[y/N\]", agreed.stderr)
    assert (agreed.returncode, agreed.stdout.count("  queued  "), jobs(hourly)) == (0, 6, 6)


def test_only_those_that_are_missing_are_asked_about(hourly: str) -> None:
    done("backfill", "hourly", "--from", "3h", "--to", "now")
    told = duly("backfill", "hourly", "--from", "7h", "--to", "now")
    assert told.exit_code == 0
    assert told.stderr.splitlines()[-1].startswith("4 runs queued; 3 have a job")


def test_programs_are_told_all_of_them_as_json(hourly: str) -> None:
    done("backfill", "hourly", "--from", "1h", "--to", "now")
    found = json.loads(done("backfill", "hourly", "--from", "2h", "--to", "now", "-o", "json"))
    assert [one["outcome"] for one in found] == ["queued", "unchanged"]
    assert [one["reason"] for one in found] == ["", f"backfilled by {login()}"]
    assert all(isinstance(one["job_id"], int) for one in found)
    lines = done("backfill", "hourly", "--from", "3h", "--to", "now", "-o", "jsonl", "--dry-run")
    outcomes = [json.loads(line)["outcome"] for line in lines.splitlines()]
    assert outcomes == ["to be queued", "unchanged", "unchanged"]
    names = done("backfill", "hourly", "--from", "4h", "--to", "now", "-o", "name")
    assert [name[-7:] for name in names.splitlines()] == [found[0]["due_at"][-7:]] * 2
    wide = done("backfill", "hourly", "--from", "4h", "--to", "now", "-o", "wide")
    assert wide.count("unchanged") == 4


def test_a_long_list_is_cut_for_eyes_only() -> None:
    told = duly("backfill", "hourly", "--from", "25h", "--to", "now", "--dry-run")
    assert len(told.stdout.splitlines()) == 1 + 20
    assert "… and 5 more (-o wide shows all)" in told.stderr
    all_of_them = done(
        "backfill", "hourly", "--from", "25h", "--to", "now", "--dry-run", "-o", "wide"
    )
    assert len(all_of_them.splitlines()) == 1 + 25


def test_times_are_on_the_clock_of_the_schedule_and_the_end_is_not_part_of_it() -> None:
    done("add", "02:00 Europe/Berlin", "--task", "report", "--name", "nightly")
    stretch = ("--from", "2024-03-30", "--to", "2024-04-01 02:00")
    found = json.loads(done("backfill", "nightly", *stretch, "--dry-run", "-o", "json"))
    assert [one["due_at"] for one in found] == ["2024-03-30T01:00:00Z", "2024-03-31T01:00:00Z"]
    helped = " ".join(done("backfill", "--help").split())
    assert "--from is inclusive and --to exclusive" in helped
    assert "End of the period (exclusive)" in helped


def test_a_stretch_without_a_moment_is_nothing_to_do() -> None:
    told = duly("backfill", "hourly", "--from", "2024-01-01 00:10", "--to", "2024-01-01 00:50")
    assert (told.exit_code, told.stdout) == (0, "")
    assert told.stderr.splitlines()[-1] == ("nothing to do: hourly has no run in this period")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("hourli", "--from", "1h", "--to", "now"), 3, 'did you mean "hourly"?'),
        (
            ("hourly", "--from", "1h", "--to", "2190-01-01"),
            2,
            "only past times can be backfilled",
        ),
        (("hourly", "--from", "1h", "--to", "2h"), 2, "end is not included"),
        (("hourly", "--from", "soon", "--to", "now"), 2, '"soon" is not a time'),
        (("hourly", "--from", "1h"), 2, "Missing option '--to'"),
        (("hourly", "--from", "2000-01-01", "--to", "now"), 2, "at most 10,000 can be backfilled"),
    ],
)
def test_what_cannot_be_is_refused(words: tuple[str, ...], code: int, said: str) -> None:
    told = duly("backfill", *words)
    assert (told.exit_code, said in told.stderr) == (code, True), told.stderr


def test_a_fixed_delay_has_no_moments(hourly: str) -> None:
    done("edit", "hourly", "--rule", "spaced 10m")
    told = duly("backfill", "hourly", "--from", "1h", "--to", "now")
    assert told.exit_code == 1
    assert '"hourly" has a fixed delay, "spaced 10m"' in told.stderr
    assert jobs(hourly) == 0


def test_asking_makes_no_store(tmp_path: Path) -> None:
    there = str(tmp_path / "nothing.db")
    told = duly("backfill", "hourly", "--from", "1h", "--to", "now", "--store", there)
    assert (told.exit_code, Path(there).exists()) == (5, False)
