"""What a file says of a schedule, and what the store keeps of it, are the same."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from duly.files.comparison import plan
from duly.files.entry_plans import call_of, entry_of, plan_of
from duly.files.schedule_file import ScheduleEntry, ScheduleFile
from duly.model.job import Owner
from duly.model.payload import encode
from duly.model.policies import Missed
from duly.model.schedule import Pause, Plan, StoredSchedule
from duly.policy.retry import Retry

NOW = datetime(2027, 1, 1, tzinfo=UTC)

SAID: list[dict[str, Any]] = [
    {"shell": "./backup", "cwd": "/srv", "env": {"LANG": "C"}, "stdin": "yes"},
    {"shell": "./backup"},
    {"command": ("find", "/srv", "-delete"), "env": {"LANG": "C"}},
    {"http": {"url": "https://x", "expect": [204], "headers": {"A": "b"}}},
    {"task": "report", "args": {"customer": 7, "day": None}},
    {"task": "report", "queue": "mail", "priority": "high", "tags": ("a", "b"), "title": "R"},
    {"task": "report", "priority": 7, "timeout": "1h", "attempts": 5},
    {"task": "report", "overlap": "allow", "late": "run", "dst": "systemd", "exclude": "Sat UTC"},
    {"task": "report", "missed": "all", "start_within": "4h", "jitter": "5m"},
    {"task": "report", "missed": {"choice": "all", "at_most": 10, "spacing": "1m"}},
    {"task": "report", "missed": {"choice": "skip", "grace": "5m"}},
    {"task": "report", "start": NOW, "end": NOW + timedelta(days=1)},
    {"task": "report", "rule": "30 2 * * *", "zone": "Europe/Berlin"},
]


def remembered(plan: Plan, **facts: Any) -> StoredSchedule:
    return StoredSchedule(id=1, plan=plan, created_at=NOW, cursor=NOW, next_at=None, **facts)


@pytest.mark.parametrize("said", SAID, ids=str)
def test_an_entry_that_is_kept_is_told_again_in_its_words(said: dict[str, Any]) -> None:
    entry = ScheduleEntry(**{"name": "x", "rule": "every 5m"} | said)
    assert entry_of(remembered(plan_of(entry))) == entry


def test_three_attempts_are_the_default_of_a_task_but_not_of_a_program() -> None:
    program = ScheduleEntry(name="x", rule="every 1h", command=("date",), attempts=3)
    assert entry_of(remembered(plan_of(program))).attempts == 3
    task = ScheduleEntry(name="x", rule="every 1h", task="report", attempts=3)
    assert entry_of(remembered(plan_of(task))).attempts is None


def test_what_runs_is_a_task_and_its_arguments() -> None:
    facts: dict[str, Any] = {"name": "x", "rule": "every 5m"}
    assert call_of(ScheduleEntry(**facts | {"shell": "a | b", "cwd": "/srv"})) == (
        "duly.shell",
        {"line": "a | b", "cwd": "/srv"},
    )
    assert call_of(ScheduleEntry(**facts, command=("a", "b"), stdin="c")) == (
        "duly.command",
        {"argv": ["a", "b"], "stdin": "c"},
    )
    assert call_of(ScheduleEntry(**facts, http={"url": "https://x"})) == (
        "duly.http",
        {"url": "https://x"},
    )
    assert call_of(ScheduleEntry(**facts, task="t", args={"a": 1})) == ("t", {"a": 1})


def test_what_a_file_wants_is_the_files() -> None:
    kept = plan_of(ScheduleEntry(name="x", rule="every 5m", task="t", attempts=7, missed="skip"))
    assert (kept.owner, kept.queue, kept.priority) == (Owner.FILE, "default", 0)
    assert kept.policies.missed == Missed("skip")
    assert kept.policies.retry == Retry(attempts=7).as_json()


def test_what_a_request_leaves_out_is_not_told() -> None:
    kept = plan_of(ScheduleEntry(name="x", rule="every 5m", http={"url": "https://x"}))
    filled = replace(kept, args=encode({"url": "https://x", "body": None}))
    assert entry_of(remembered(filled)).http == {"url": "https://x"}


def test_a_pause_is_told_with_its_note() -> None:
    entry = ScheduleEntry(name="x", rule="every 5m", task="t")
    pause = Pause(since=NOW, note="until they answer", by="ada")
    found = entry_of(remembered(plan_of(entry), pause=pause))
    assert found == replace(entry, paused=True, note="until they answer")


@pytest.mark.parametrize("said", SAID, ids=str)
def test_what_was_applied_is_found_unchanged(said: dict[str, Any]) -> None:
    file = ScheduleFile(schedules={"x": ScheduleEntry(**{"name": "x", "rule": "every 5m"} | said)})
    live = ScheduleFile(schedules={"x": entry_of(remembered(plan_of(file.schedules["x"])))})
    found = plan(file, file, live)
    assert (found.is_empty, found.has_drift) == (True, False)
