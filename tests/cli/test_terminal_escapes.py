"""What others wrote is text on a terminal, and never a command to it."""

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from duly.cli.main import main
from duly.model.event import Emitted
from duly.model.limit import Queue
from duly.model.outcome import Raised
from duly.model.payload import Json
from duly.policy.redaction import json_text
from tests.cli.test_why import prepared
from tests.conformance.world import World
from tests.factories import call, plan

# A window's title, the screen cleared, a line begun anew, the same by 8 bits, letters turned round.
NASTY = "x\x1b]0;pwned\x07\x1b[2J\r\x9b2J\u202eevil"
COMMANDING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069]")
FORGED = "\n● All OK"


@pytest.fixture(autouse=True)
def number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.chdir(tmp_path)
    return prepared(tmp_path / "duly.db", _hostile)


async def _hostile(world: World) -> int:
    await world.add(plan("report", "every 1000h", title=NASTY + FORGED, tags=(NASTY,)))
    await world.add(plan(f"{NASTY}name", "every 1000h", title=NASTY))
    await world.store.schedules.pause("report", note=NASTY + FORGED)
    await world.store.work.set_queue(Queue(name=f"{NASTY}queue", note=NASTY, paused=True))
    payload = Json(json.dumps({"said": NASTY}))
    await world.store.events.emit([Emitted(name="paid", payload=payload, key=NASTY)])
    number = await world.enqueue(call(title=NASTY + FORGED, submitter=NASTY, tags=(NASTY,)))
    await world.end(await world.begin(), Raised(NASTY, NASTY + FORGED, f"{NASTY}\n  at {NASTY}"))
    await world.enqueue(call(title=NASTY + FORGED, queue=f"{NASTY}queue"))
    return number


def duly(*words: str) -> Result:
    return CliRunner().invoke(main, words)


LOOKING = [
    "status", "why NUMBER", "why report", "jobs", "jobs -o wide", "jobs show NUMBER",
    "jobs log NUMBER", "jobs failures", "schedules", "schedules -o wide", "schedules show report",
    "queues", "limits", "workers", "events", "events show paid", "events list", "doctor", "export",
    "next report", "schedules history report",
]  # fmt: skip


@pytest.mark.parametrize("words", LOOKING)
def test_no_command_that_looks_commands_the_terminal(number: int, words: str) -> None:
    done = duly(*words.replace("NUMBER", str(number)).split())
    assert not COMMANDING.search(done.output + done.stderr), repr(done.output)


@pytest.mark.parametrize("words", ["status", "why NUMBER", "jobs", "jobs show NUMBER", "schedules"])
def test_no_title_looks_like_a_line_of_ours(number: int, words: str) -> None:
    done = duly(*words.replace("NUMBER", str(number)).split())
    assert done.exit_code in (0, 1)
    lines = done.stdout.splitlines()
    assert [line for line in lines[1:] if line.startswith("● All OK")] == []


def test_an_error_is_text_too() -> None:
    for words in (["why", f"{NASTY}nobody"], ["jobs", f"state:{NASTY}"], [NASTY], ["why"]):
        done = duly(*words)
        assert done.exit_code != 0
        assert not COMMANDING.search(done.output + done.stderr), words


def test_programs_are_told_everything_that_there_is(number: int) -> None:
    for words in (["jobs", "show", str(number), "-o", "json"], ["jobs", "-o", "json"]):
        said = duly(*words).stdout
        assert not COMMANDING.search(said)
        found = json.loads(said)
        [job] = (
            [found] if isinstance(found, dict) else [one for one in found if one["id"] == number]
        )
        assert job["title"] == NASTY + FORGED


def test_json_is_exact_whatever_is_in_it() -> None:
    value = {"text": NASTY + "\U000e0001 é 😀 \ud800"}
    assert json.loads(json_text(value)) == value
    assert not COMMANDING.search(json_text(value, indent=2))
    assert "é 😀" in json_text(value)
