"""Lists as people and programs want them, in a real terminal where it matters."""

import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from duly.cli.formats import Listing, View, iso, written
from duly.errors import InvalidValue
from duly.policy.redaction import one_line
from duly.views.times import read_length, read_moment
from tests.cli.test_schedules import done, store

__all__ = ["store"]

NOW = datetime(2026, 11, 15, 20, 0, tzinfo=UTC)
VIEW = View(now=NOW)


@contextmanager
def terminal(*words: str, **environment: str) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """A command in a terminal of its own: the process, and the terminal's other end."""
    ours, theirs = pty.openpty()
    environ = {**os.environ, "TERM": "xterm", **environment}
    process = subprocess.Popen(
        [sys.executable, "-m", "duly", *words],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=environ,
        start_new_session=True,
    )
    os.close(theirs)
    try:
        yield process, ours
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def at_terminal(*words: str, answer: str | None = None, **environment: str) -> tuple[int, str]:
    """What a command exits with, and all that is seen of it."""
    with terminal(*words, **environment) as (process, ours):
        if answer is not None:
            os.write(ours, f"{answer}\n".encode())
        text = "".join(_read(ours))
        return process.wait(), text


def _read(ours: int) -> Iterator[str]:
    while True:
        try:
            piece = os.read(ours, 65_536)
        except OSError:  # what Linux says when the other end has gone
            return
        if not piece:
            return
        yield piece.decode()


@pytest.mark.parametrize(
    ("moment", "zone", "shown"),
    [
        ("2026-11-16T01:00+00:00", "Europe/Berlin", "Mon 2026-11-16 02:00:00 CET"),
        ("2026-10-25T00:30+00:00", "Europe/Berlin", "Sun 2026-10-25 02:30:00 CEST"),
        ("2026-10-25T01:30+00:00", "Europe/Berlin", "Sun 2026-10-25 02:30:00 CET"),
        ("2026-11-16T01:00+00:00", "America/Sao_Paulo", "Sun 2026-11-15 22:00:00 UTC-03"),
        ("2026-11-16T01:00+00:00", "Asia/Kathmandu", "Mon 2026-11-16 06:45:00 UTC+05:45"),
        ("2026-11-16T01:00:07.5+00:00", "UTC", "Mon 2026-11-16 01:00:07 UTC"),
    ],
)
def test_a_moment_is_shown_on_a_clock_that_is_named(moment: str, zone: str, shown: str) -> None:
    assert VIEW.moment(datetime.fromisoformat(moment), zone) == shown


def test_a_moment_of_no_zone_is_shown_on_the_machines_clock(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    assert VIEW.moment(NOW) == "Mon 2026-11-16 05:00:00 JST"
    assert replace(VIEW, utc=True).moment(NOW) == "Sun 2026-11-15 20:00:00 UTC"
    assert replace(VIEW, utc=True).moment(NOW, "Europe/Berlin") == "Sun 2026-11-15 20:00:00 UTC"
    assert VIEW.moment(None) == "-"


def test_what_is_left_and_what_has_passed_is_said_roughly() -> None:
    assert VIEW.left(NOW + timedelta(minutes=3)) == "in 3 min"
    assert VIEW.passed(NOW - timedelta(hours=2)) == "2 h ago"
    assert VIEW.passed(NOW) == VIEW.passed(NOW + timedelta(seconds=2)) == "0 s ago"
    assert VIEW.passed(None) == "-"
    assert VIEW.left(NOW - timedelta(seconds=5)) == "5 s ago"
    assert VIEW.left(None) == "-"


LETTERS: Listing[str] = Listing(
    columns={"LETTER": lambda letter, _: letter, "LEFT": lambda _, view: view.left(NOW)},
    wide={"CODE": lambda letter, _: str(ord(letter[0]))},
    plain=lambda letter: {"letter": letter},
    name=lambda letter: letter,
    nothing="no letters",
)


@pytest.mark.parametrize(
    ("output", "text"),
    [
        ("table", "LETTER  LEFT\na       in 0 s\nö       in 0 s"),
        ("wide", "LETTER  LEFT    CODE\na       in 0 s  97\nö       in 0 s  246"),
        ("json", '[{"letter": "a"}, {"letter": "ö"}]'),
        ("jsonl", '{"letter": "a"}\n{"letter": "ö"}'),
        ("name", "a\nö"),
    ],
)
def test_a_list_is_written_as_it_is_asked_for(output: str, text: str) -> None:
    assert written(["a", "ö"], replace(VIEW, output=output), LETTERS) == text


@pytest.mark.parametrize(
    ("output", "text"),
    [("table", ""), ("wide", ""), ("json", "[]"), ("jsonl", ""), ("name", "")],
)
def test_an_empty_list_is_no_table_but_json_all_the_same(output: str, text: str) -> None:
    assert written([], replace(VIEW, output=output), LETTERS) == text


def test_what_somebody_wrote_commands_no_terminal() -> None:
    assert written(["a\x1b[2J\nb"], VIEW, LETTERS).splitlines()[1].startswith("a [2J b ")
    assert one_line("grün\u202e\x07") == "grün  "


def test_a_moment_for_programs_is_in_utc() -> None:
    assert iso(datetime.fromisoformat("2026-11-16T02:00+01:00")) == "2026-11-16T01:00:00Z"
    assert iso(None) is None


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("2026-11-16", "2026-11-15T23:00:00Z"),
        ("2026-11-16 09:00", "2026-11-16T08:00:00Z"),
        ("2026-11-16T09:00", "2026-11-16T08:00:00Z"),
        ("2026-11-16T09:00Z", "2026-11-16T09:00:00Z"),
        ("2026-11-16 09:00-05:00", "2026-11-16T14:00:00Z"),
    ],
)
def test_a_time_without_an_offset_is_on_the_clock_of_the_zone(text: str, read: str) -> None:
    assert iso(read_moment(text, zone="Europe/Berlin", what="--since")) == read


def test_what_is_no_time_is_refused_for_the_option_it_was_given_to() -> None:
    with pytest.raises(InvalidValue, match="needs an offset, as in 2026-11-16T00:00Z"):
        read_moment("2026-11-16", zone=None, what="--since")
    with pytest.raises(InvalidValue, match='--since: "noon" is not a time'):
        read_moment("noon", zone="UTC", what="--since")
    assert read_length("2h") == timedelta(hours=2)
    assert read_length("2026-11-16") is None


@pytest.fixture
def two() -> None:
    done("add", "every 1h", "--task", "hourly")
    done("add", "every 5m", "--task", "asleep")
    done("pause", "asleep")


@pytest.mark.usefixtures("two")
def test_colour_is_for_terminals_and_for_those_who_want_it() -> None:
    code, text = at_terminal("schedules", NO_COLOR="")
    assert code == 0
    assert "\x1b[1mNEXT" in text
    assert "\x1b[33m-    " in text
    code, text = at_terminal("schedules", NO_COLOR="1")
    assert (code, "\x1b" in text) == (0, False)
    assert "paused" in text
    assert "\x1b" not in done()


@pytest.mark.usefixtures("two")
def test_watching_shows_it_again_until_somebody_has_seen_enough(store: str) -> None:
    with terminal("schedules", "--watch", "-o", "name") as (process, ours):
        seen, texts = "", _read(ours)
        while seen.count("\x1b[H\x1b[2J") < 2:
            seen += next(texts)
        process.send_signal(signal.SIGINT)
        seen += "".join(texts)
        assert process.wait() == 0
    head, *looks = seen.split("\x1b[H\x1b[2J")
    assert head == f"database: {store}\r\n"
    assert [look.split() for look in looks[:2]] == [["hourly", "asleep"]] * 2
    assert "Abort" not in seen


@pytest.mark.usefixtures("two")
def test_a_program_that_watches_gets_every_look_whole() -> None:
    words = ("-m", "duly", "schedules")
    process = subprocess.Popen(
        [sys.executable, *words, "--watch", "-o", "jsonl"], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(6)]
    process.send_signal(signal.SIGINT)
    process.communicate()
    assert process.returncode == 0
    assert [json.loads(line)["name"] if line.strip() else "" for line in lines] == [
        "hourly",
        "asleep",
        "",
    ] * 2
