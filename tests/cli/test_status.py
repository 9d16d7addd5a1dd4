"""``duly status``: the headline, what needs somebody, and exit code 1 if anything does."""

import json
import re
import sys
from datetime import timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from duly.cli.main import main
from duly.cli.status import FIRST_STEP
from duly.model.outcome import Raised
from tests.cli.terminals import CTRL_C, terminal
from tests.cli.test_why import prepared
from tests.conformance.world import World
from tests.factories import call, plan

REFUSED = Raised(error="ConnectionError", message="refused")


def status(path: Path, *words: str) -> Result:
    return CliRunner().invoke(main, ["status", *words, "--store", str(path), "--utc"])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "duly.db"


async def _nothing(_: World) -> None:
    pass


async def _failed(world: World) -> int:
    await world.add(plan("report", "every 1000h"))
    fire = await world.store.schedules.run("report")
    await world.end(await world.begin(), REFUSED)
    await world.enqueue(call(title="roll up"))
    await world.begin()
    return fire.job_id or 0


def test_an_empty_store_teaches_the_first_step(path: Path) -> None:
    prepared(path, _nothing)
    done = status(path)
    assert (done.exit_code, done.stdout) == (0, f"● Nothing is scheduled yet.\n  {FIRST_STEP}\n")


def test_what_needs_somebody_is_exit_code_1(path: Path) -> None:
    number = prepared(path, _failed)
    done = status(path)
    assert done.exit_code == 1
    lines = done.stdout.splitlines()
    assert lines[0].startswith("▲ 1 item needs attention (no schedule was due since yesterday ")
    assert lines[1].startswith("  report  due ")
    assert lines[1].endswith("  failed at its first attempt: ConnectionError: refused")
    assert lines[2:4] == [
        f"      see it         duly jobs show {number}",
        f"      try again      duly jobs retry {number}",
    ]
    assert lines[4] == "running 1"
    assert lines[5].endswith("  roll up  1 h")
    assert lines[6] == "next"
    assert "  report  in " in lines[7]


def test_a_program_gets_the_numbers(path: Path) -> None:
    number = prepared(path, _failed)
    done = status(path, "-o", "json")
    assert done.exit_code == 1
    found = json.loads(done.stdout)
    assert (found["ok"], found["due"], found["succeeded"]) == (False, 0, 0)
    [need] = found["needs"]
    assert (need["name"], need["kind"], need["job_id"]) == ("report", "failed", number)
    assert [one["name"] for one in found["running"]] == ["roll up"]
    assert [one["name"] for one in found["next"]] == ["report"]


def test_asking_makes_no_store(path: Path) -> None:
    assert status(path).exit_code == 5
    assert not path.exists()


async def _failed_by_hand(world: World) -> None:
    await world.enqueue(call())
    await world.end(await world.begin(), REFUSED)


def test_what_only_people_asked_for_is_not_said_to_be_due(path: Path) -> None:
    prepared(path, _failed_by_hand)
    done = status(path)
    headline = done.stdout.splitlines()[0]
    assert done.exit_code == 1
    assert headline.startswith("▲ 1 item needs attention (no schedule was due since yesterday ")
    assert "0 due" not in headline


def test_it_can_be_watched_on_a_terminal(path: Path) -> None:
    prepared(path, _failed)
    words = [sys.executable, "-m", "duly", "status", "--watch", "--store", str(path)]
    with terminal(words, path.parent) as shown:
        shown.until("1 item needs attention")
        shown.shown = ""
        shown.until("\x1b[H\x1b[2J▲ 1 item needs attention")
        shown.type(CTRL_C)
        assert shown.ended() == 0


async def _several(world: World) -> None:
    """Of each kind one: kept, under way, not kept, not wanted; all on two clocks."""
    await world.add(plan("kept", "every 30m"), plan("nightly", "*:00/20 Europe/Berlin"))
    await world.store.schedules.skip_next("kept")
    world.wait(timedelta(minutes=31))
    await world.fire()
    await world.begin()
    world.wait(timedelta(minutes=20))
    await world.fire()


def test_the_numbers_add_up_and_one_clock_is_named(path: Path) -> None:
    prepared(path, _several)
    shown = (
        CliRunner()
        .invoke(main, ["status", "--store", str(path)], env={"TZ": "America/New_York"})
        .stdout.splitlines()
    )
    [times] = [line for line in shown if line.startswith("times are in ")]
    assert times == "times are in America/New_York"
    assert "Europe/Berlin" not in "\n".join(shown)
    [need] = [line for line in shown if line.startswith("  nightly  due ")]
    due, skipped = (
        int(hour) * 60 + int(minute)
        for hour, minute in re.findall(r"(?:due|skipped at) (?:\w{3} )?(\d\d):(\d\d)", need)[:2]
    )
    assert (skipped - due) % (24 * 60) < 60  # both on one clock: it was decided within the hour
    [counts] = [line for line in shown if " due: " in line]
    due, *parts = (
        int(word)
        for word in re.findall(r"(\d+) (?:due|OK|overdue|in progress|missed or failed)", counts)
    )
    assert due == sum(parts)
    assert len(parts) >= 3
    assert counts.endswith("; 1 skipped on purpose or cancelled")
    in_utc = status(path).stdout
    assert "times are in UTC" in in_utc
    assert "Europe/Berlin" not in in_utc
