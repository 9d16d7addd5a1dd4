"""``duly schedules simulate``: what would happen, as a sentence, a table and a picture."""

import asyncio
import json
import os
import pty
import sqlite3
import subprocess
import sys
import termios
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import click
import pytest
from click.testing import CliRunner, Result

from duly.app import Store, open_store
from duly.cli import main
from duly.clock import now
from duly.model.access import Actor
from duly.model.outcome import Succeeded
from duly.model.worker import Profile
from duly.policy.firing import decide
from duly.policy.verdict import Tried, judge
from duly.store.values import CLOCK, ClaimRequest, Settlement

T = TypeVar("T")

NIGHTLY = ("--rule", "Mon..Fri 02:00 Europe/Berlin")
A_NIGHT = ("--from", "2026-11-16", "--to", "2026-11-18", "--runtime", "3h")


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DULY_URL", str(tmp_path / "duly.db"))
    monkeypatch.setenv("TZ", "UTC")


@pytest.fixture
def store(url: str) -> str:
    return url


def simulated(*words: str) -> Result:
    return CliRunner().invoke(main, ["schedules", "simulate", *words])


def shown(*words: str) -> str:
    result = simulated(*words)
    assert result.exit_code == 0, result.output
    return result.stdout


def as_json(*words: str) -> Any:  # noqa: ANN401 - JSON
    return json.loads(shown(*words, "-o", "json"))


def add(*words: str) -> None:
    result = CliRunner().invoke(main, ["schedules", "add", *words])
    assert result.exit_code == 0, result.output


def on(url: str, question: Callable[[Store], Awaitable[T]]) -> T:
    async def asked() -> T:
        there = await open_store(url)
        try:
            return await question(there)
        finally:
            await there.close()

    return asyncio.run(asked())


def test_a_sentence_a_table_and_a_picture() -> None:
    assert shown(*NIGHTLY, *A_NIGHT, "--outage", "Tue 01:00..8h") == (
        """\
2 due: 2 would run (1 of them late).

DUE                       OUTCOME  STARTS  ENDS   LATENESS  WHY
Mon 2026-11-16 02:00 CET  runs     02:00   05:00  0 s       queued on time
Tue 2026-11-17 02:00 CET  runs     09:00   12:00  7 h       queued 7 hours late

              │Mon 16   │06:00     │12:00     │18:00     │Tue 17   │06:00     │12:00     │18:00
Mon 16 02:00     ██████                                   ░░░░░░░░░░░░░░░░
Tue 17 02:00                                              ░░·············▓▓▓▓▓▓
              █ runs   ▓ runs late   · waits   ░ no scheduler
"""
    )


def test_without_a_name_no_store_is_needed(tmp_path: Path) -> None:
    shown(*NIGHTLY, *A_NIGHT)
    assert list(tmp_path.iterdir()) == []


def test_what_is_merged_is_one_line_and_says_into_what() -> None:
    output = shown(
        *("--rule", "every 1h", "--from", "2026-11-16T00:30Z", "--to", "8h"),
        *("--outage", "01:30..05:10", "--runtime", "10m"),
    )
    assert output.startswith("8 due: 5 would run (1 of them late), 3 merged.\n")
    assert "Mon 2026-11-16 02:00 … 04:00 UTC  merged 3" in output
    assert "merged into the run of Mon 2026-11-16 05:00 UTC" in output
    assert "\n02:00             ░░░░░░»░░░░░░░░░░░░░░░░░░░░░░»░░░░░░░░░░░░░░\n" in output


def test_what_is_skipped_and_cut_off_says_why() -> None:
    words = ("--rule", "every 2h", "--from", "2026-11-16T00:00Z", "--to", "6h")
    output = shown(*words, "--runtime", "1h", "--outage", "02:30..04:15")
    assert "cut off by the outage at 02:30, begins again at 04:15" in output
    assert 'overlap="skip", and the run of Mon 2026-11-16 02:00 UTC has not ended' in output
    assert "(job" not in output


def test_the_hour_that_happens_twice_is_marked() -> None:
    output = shown(
        *("--rule", "*:0/30 Europe/Berlin", "--from", "2026-10-25", "--to", "5h"),
        *("--runtime", "10m"),
    )
    assert output.count("Sun 2026-10-25 02:30 CEST") == output.count("2026-10-25 02:30 CET ") == 1
    assert output.count("┊") == 10  # in each line that it lies behind, and where it is explained
    assert output.endswith("┊ clocks go 1 h back: Sun 2026-10-25 02:00 CET\n")


def test_all_of_it_as_json() -> None:
    story = as_json(*NIGHTLY, *A_NIGHT, "--outage", "2026-11-17T01:00..2026-11-17T09:00")
    assert story | {"moments": len(story["moments"])} == {
        "name": "simulated",
        "rule": "Mon..Fri 02:00 Europe/Berlin",
        "zone": "Europe/Berlin",
        "policies": {},
        "from": "2026-11-15T23:00:00Z",
        "to": "2026-11-17T23:00:00Z",
        "runtime": "3h",
        "outages": [{"from": "2026-11-17T00:00:00Z", "to": "2026-11-17T08:00:00Z"}],
        "sentence": "2 due: 2 would run (1 of them late)",
        "clock_changes": [],
        "moments": 2,
    }
    assert story["moments"][1] == {
        "due_at": "2026-11-17T01:00:00Z",
        "covers_from": "2026-11-17T01:00:00Z",
        "count": 1,
        "outcome": "runs",
        "cause": None,
        "why": "queued 7 hours late",
        "starts_at": "2026-11-17T08:00:00Z",
        "ends_at": "2026-11-17T11:00:00Z",
        "lateness": "7h",
        "late": True,
        "attempts": [
            {
                "starts_at": "2026-11-17T08:00:00Z",
                "ends_at": "2026-11-17T11:00:00Z",
                "outcome": "succeeded",
            }
        ],
    }


def test_a_schedule_is_simulated_as_it_is_and_as_if_it_were_changed(store: str) -> None:
    add("every 1h", "--task", "work", "--name", "hourly", "--overlap", "queue_all")
    words = ("hourly", "--from", "2099-11-16T00:00Z", "--to", "3h", "--runtime", "90m")
    assert [moment["outcome"] for moment in as_json(*words)["moments"]] == ["runs"] * 3
    changed = as_json(*words, "--overlap", "skip", "--rule", "every 30m")
    assert [moment["outcome"] for moment in changed["moments"]] == [
        *("runs", "skipped", "skipped"),
        *("runs", "skipped", "skipped"),
    ]
    assert on(store, lambda there: there.schedules.get("hourly")).plan.rule == "every 1h"


def test_the_store_is_not_written_to(store: str) -> None:
    add("every 1h", "--task", "work", "--name", "hourly")
    before = dumped(store)
    shown("hourly", "--outage", "2h..2h", "--runtime", "10m")
    assert dumped(store) == before
    assert "hourly" in before


def dumped(path: str) -> str:
    with closing(sqlite3.connect(path)) as connection:
        return "\n".join(connection.iterdump())


def test_the_runtime_is_that_of_the_last_runs_unless_somebody_says_so(store: str) -> None:
    add("every 1s", "--task", "work", "--name", "often")
    result = simulated("often", "--to", "3s")
    assert "runtime: 0 s, because no run is known; use --runtime 40m" in result.stderr
    on(store, _run_once)
    result = simulated("often", "--to", "3s", "-o", "json")
    assert "the last run; --runtime sets another" in result.stderr
    assert json.loads(result.stdout)["runtime"] != "0s"
    assert "runtime: " not in simulated("often", "--to", "3s", "--runtime", "1s").stderr


async def _run_once(store: Store) -> None:
    """A job, however long that takes: more than nothing."""
    profile = Profile(name="w", queues=("default",), signatures={"work": ""})
    worker = await store.work.register(profile, lease=timedelta(minutes=1))
    request = ClaimRequest(worker=worker.id, queue="default", tasks=["work"], limit=1, shelf=CLOCK)
    await store.schedules.run("often")
    [job] = (await store.work.claim(request)).jobs
    verdict = judge(Tried.of(job), Succeeded(), job.moment(0), dice=0.0)
    await store.work.settle([Settlement(job=job, verdict=verdict, outcome="succeeded")])


def test_what_stands_is_where_it_begins(store: str) -> None:
    add("every 1h", "--task", "work", "--name", "hourly")
    on(store, lambda there: there.schedules.skip_next("hourly"))
    on(store, lambda there: there.schedules.run("hourly"))
    on(store, lambda there: there.ledger.fire(decide, limit=10, trust=lambda _: True))
    moments = as_json("hourly", "--to", "4h", "--runtime", "9h")["moments"]
    assert [moment["cause"] for moment in moments] == ["asked", *["overlap"] * 3]


def test_a_pause_without_an_end_is_said(store: str) -> None:
    add("every 1h", "--task", "work", "--name", "hourly")
    on(
        store,
        lambda there: there.acting(Actor("ada", "program")).schedules.pause(
            "hourly", note="stocktaking"
        ),
    )
    result = simulated("hourly", "--to", "3h", "--runtime", "1m")
    assert "note: it is paused; this simulates a resumed schedule" in result.stderr
    assert result.stdout.startswith("3 due: 3 would run.")


def test_a_pause_is_kept_until_it_ends(store: str) -> None:
    add("every 1h", "--task", "work", "--name", "hourly")
    until = now() + timedelta(hours=9)
    on(
        store,
        lambda there: there.acting(Actor("ada", "program")).schedules.pause("hourly", until=until),
    )
    result = simulated("hourly", "--to", "3h", "--runtime", "1m")
    assert result.stdout.startswith("3 due: 3 skipped.")
    assert "the schedule was paused by ada" in result.stdout


def test_a_narrow_terminal_gets_no_picture() -> None:
    output = on_a_terminal(40, *NIGHTLY, *A_NIGHT)
    assert "note: drawn from 50 columns on; here are 40" in output
    assert "█" not in output


@pytest.mark.parametrize("width", [50, 59, 85, 120])
def test_the_picture_is_as_wide_as_the_terminal(width: int) -> None:
    words = ("--from", "2026-11-16", "--to", "2026-11-18T00:30", "--runtime", "50h")
    output = on_a_terminal(width, *NIGHTLY, *words, "--overlap", "allow", NO_COLOR="1")
    axis, *lines, _, _ = output.split("\n\n")[2].split("\n")
    assert max(map(len, lines)) == width
    assert len(axis) <= width
    assert axis.count("│") >= 2


@pytest.mark.parametrize("chosen", [{}, {"NO_COLOR": "1"}])
def test_colours_are_for_terminals_that_want_them(chosen: dict[str, str]) -> None:
    output = on_a_terminal(100, *NIGHTLY, *A_NIGHT, **chosen)
    assert (click.style("██████", fg="green") in output) is (not chosen)
    assert ("\x1b[" in output) is (not chosen)


def on_a_terminal(width: int, *words: str, **environment: str) -> str:
    """What a person sees, on a terminal that is so wide."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, width))
    kept = {name: os.environ[name] for name in ("PATH", "TZ", "DULY_URL") if name in os.environ}
    with subprocess.Popen(
        [sys.executable, "-m", "duly", "schedules", "simulate", *words],
        stdout=theirs,
        stderr=theirs,
        env={**kept, "TERM": "xterm", "LANG": "C.UTF-8", **environment},
    ) as program:
        os.close(theirs)
        seen = b"".join(_read(ours))
    os.close(ours)
    assert program.returncode == 0, seen
    return seen.decode().replace("\r\n", "\n")


def _read(terminal: int) -> Iterator[bytes]:
    with suppress(OSError):  # which is how it says that nobody is there any more
        while piece := os.read(terminal, 4096):
            yield piece


def test_many_lines_are_drawn_in_part() -> None:
    output = shown(
        *("--rule", "every 1m", "--from", "2026-11-16T00:00Z", "--to", "90m", "--runtime", "10s")
    )
    assert output.startswith("90 due: 90 would run.")
    assert output.count("\n00:") == 60
    assert "… and 30 more lines" in output


def test_moments_are_shown_in_utc() -> None:
    output = shown(*NIGHTLY, *A_NIGHT, "--utc")
    assert "Mon 2026-11-16 01:00 UTC  runs     01:00   04:00" in output
    assert "│Mon 16" in output
    assert "Mon 16 01:00" in output


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ((), 2, "say what: the NAME of a schedule, or --rule RULE"),
        (("--rule", "02:00"), 2, "needs a time zone"),
        (("--rule", "every 1h", "--outage", "01:00"), 2, "from when to when"),
        (("--rule", "every 1h", "--outage", "01:00..25:00"), 2, "25:00"),
        (("--rule", "every 1h", "--runtime", "40"), 2, '"40" is not a duration'),
        (("--rule", "every 1h", "--from", "soon"), 2, '"soon" is not a time'),
        (("--rule", "every 1h", "--to", "2h", "--outage", "1h..1h"), 2, "a longer stretch"),
        (
            ("--rule", "every 1s", "--to", "24h"),
            2,
            "at most 5,000 are simulated: choose a shorter stretch",
        ),
        (("--rule", "every 1h", "--overlap", "sometimes"), 2, "is not one of"),
        (("nobody",), 3, 'there is no schedule "nobody"'),
    ],
)
def test_what_cannot_be_is_said(
    words: tuple[str, ...],
    code: int,
    said: str,
    store: str,
) -> None:
    result = simulated(*words)
    assert (result.exit_code, said in result.stderr) == (code, True), result.output


def test_a_schedule_on_postgresql_is_simulated_too(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DULY_URL", postgres_url)
    add("02:00 Europe/Berlin", "--task", "work", "--name", "nightly", "--start-within", "4h")
    on(postgres_url, lambda there: there.schedules.run("nightly"))
    result = simulated("nightly", "--to", "48h")
    assert result.stdout.startswith("2 due: 2 would run."), result.output


def test_asking_makes_no_store(tmp_path: Path) -> None:
    result = simulated("nightly")
    assert (result.exit_code, "no database at" in result.stderr) == (5, True), result.output
    assert list(tmp_path.iterdir()) == []


def test_a_full_minute_has_seconds_beside_times_that_have_them() -> None:
    result = simulated("--rule", "every 30s", "--from", "2026-11-16T02:00Z", "--to", "1m")
    assert "Mon 2026-11-16 02:00:00 UTC  runs" in result.stdout, result.output
    assert "Mon 2026-11-16 02:00:30 UTC  runs" in result.stdout
