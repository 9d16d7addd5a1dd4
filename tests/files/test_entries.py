"""An entry has one thing to run, what goes with it, and a name that can be typed."""

from datetime import UTC, datetime
from typing import Any

import pytest

from duly.errors import InvalidValue
from duly.files.schedule_file import LimitEntry, QueueEntry, ScheduleEntry


def entry(**said: Any) -> ScheduleEntry:
    return ScheduleEntry(**{"name": "backup", "rule": "every 5m"} | said)


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ({"task": "report"}, "task"),
        ({"command": ("ls",)}, "command"),
        ({"shell": "ls | wc"}, "shell"),
        ({"http": {"url": "https://x"}}, "http"),
    ],
)
def test_what_runs_is_known_by_its_kind(said: dict[str, Any], kind: str) -> None:
    assert entry(**said).kind == kind


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ({}, "found none of them"),
        ({"task": "x", "http": {"url": "https://x"}}, "found task and http"),
        ({"shell": "x", "args": {"a": 1}}, "args go with task"),
        ({"task": "x", "env": {"A": "b"}}, "env goes with command or shell"),
        ({"http": {"url": "https://x"}, "stdin": "b"}, "stdin goes with command or shell"),
        ({"command": ("", "x")}, "command is a program and its arguments"),
        ({"command": ["ls"]}, "command is a program and its arguments"),
        ({"task": " "}, "task is empty"),
        ({"http": {}}, "http needs a url"),
        ({"http": {"url": "https://x", "verb": "GET"}}, 'http knows no "verb"'),
        ({"shell": "x", "rule": " "}, "needs a rule"),
        ({"task": "x", "start": datetime(2027, 1, 1, tzinfo=UTC).replace(tzinfo=None)}, "offset"),
    ],
)
def test_what_does_not_go_together_is_refused(said: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidValue, match=r"\A\[schedules\.backup\] .*" + problem):
        entry(**said)


@pytest.mark.parametrize("name", ["", "x" * 201, "a\nb", "a\x9fb", "a\ud800b", "a\u2028b"])
def test_a_name_that_could_not_be_typed_is_refused(name: str) -> None:
    with pytest.raises(InvalidValue, match="a name"):
        entry(name=name, task="x")
    with pytest.raises(InvalidValue, match="a name"):
        QueueEntry(name=name)
    with pytest.raises(InvalidValue, match="a name"):
        LimitEntry(name=name, concurrency=1)


@pytest.mark.parametrize("name", ["x" * 200, "crm:{customer_id}", "ночь", "a b.c", "👩‍💻"])
def test_a_name_may_be_in_any_language(name: str) -> None:
    assert entry(name=name, task="x").name == name


def test_a_limit_limits_something() -> None:
    with pytest.raises(InvalidValue, match=r'\A\[limits\."crm:\{id\}"\] limits nothing'):
        LimitEntry(name="crm:{id}")
