"""Fifty lines of real crontabs: imported, planned, applied, and run for two weeks without cron.

The clock is virtual, and goes through the night of 28 March 2027, in which Berlin has no 02:30. How
often each line should have run is worked out here minute by minute, as the manual of cron has it,
with croniter to say whether a line matches; what it should have run is read from the crontab.
"""

import asyncio
import json
import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from functools import cached_property, partial
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from click.testing import CliRunner, Result
from croniter import croniter

from duly import clock
from duly.app import connect
from duly.cli.main import main
from duly.model.job import StoredJob
from duly.policy.firing import decide
from duly.store.values import CLOCK
from duly.testing.clock import VirtualClock
from tests.app.fixtures import programs
from tests.app.programs import Programs
from tests.app.waiting import eventually
from tests.cli.test_plan import said
from tests.cli.test_schedules import done, store
from tests.conformance.world import World

__all__ = ["programs", "store"]

FOLDER = Path(__file__).parent / "crontabs"
BERLIN = "Europe/Berlin"
BEGIN = datetime(2027, 3, 22, 0, 0, 30, tzinfo=UTC)
END = BEGIN + timedelta(days=14)
MINUTE = timedelta(minutes=1)
_JOB = re.compile(r"(@\w+|(?:\S+\s+){4}\S+)\s+(.*)")


class AtTheBeginning(datetime):
    @classmethod
    def now(cls, tz: tzinfo | None = None) -> "AtTheBeginning":
        return cls.fromtimestamp(BEGIN.timestamp(), tz)


@dataclass(frozen=True)
class Line:
    when: str
    command: str
    stdin: str
    zone: str

    @cached_property
    def runs(self) -> int:
        return len(_moments(self))


def lines(crontab: str, *, system: bool) -> list[Line]:
    """The lines that name a moment, read a second time."""
    found, zone = list[Line](), BERLIN
    for text in (FOLDER / crontab).read_text().splitlines():
        if text.startswith("CRON_TZ="):
            zone = text.partition("=")[2]
        if not text or not (text[0] in "@*" or text[0].isdigit()):
            continue
        read = _JOB.fullmatch(text)
        assert read, text
        when, rest = " ".join(read[1].split()), read[2].strip()
        command, *stdin = re.split(r"(?<!\\)%", rest.split(None, 1)[1] if system else rest)
        read_by_it = "".join(f"{one}\n" for one in stdin)
        line = Line(when, command.replace("\\%", "%"), read_by_it, zone)
        found += [] if when == "@reboot" else [line]
    return found


def _moments(line: Line) -> set[datetime]:
    zone = ZoneInfo(line.zone)
    walls = _walls(line.when, _wall(BEGIN, zone), _wall(END, zone))
    if line.when == "@hourly" or "*" in "".join(line.when.split()[:2]):
        # What repeats goes by the clock on the wall, whatever that does.
        return {moment for moment in _minutes() if _wall(moment, zone) in walls}
    # What names its time runs once for each: where the clock leaves it out, when it goes on.
    return {_instant(wall, zone) for wall in walls}


def _walls(when: str, begin: datetime, end: datetime) -> set[datetime]:
    """Where it matches on a clock that nobody changes."""
    walls, found = set[datetime](), croniter(when, begin)
    while (wall := found.get_next(datetime)) <= end:
        walls.add(wall)
    return walls


def _minutes() -> Iterator[datetime]:
    moment = BEGIN.replace(second=0)
    while (moment := moment + MINUTE) <= END:
        yield moment


def _wall(moment: datetime, zone: ZoneInfo) -> datetime:
    return moment.astimezone(zone).replace(tzinfo=None)


def _instant(wall: datetime, zone: ZoneInfo) -> datetime:
    while _wall(moment := wall.replace(tzinfo=zone).astimezone(UTC), zone) != wall:
        wall += MINUTE
    return moment


LINES = [*lines("user.crontab", system=False), *lines("system.crontab", system=True)]


@pytest.fixture
def applied(store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Line]:
    """The lines in a store, by the names of their schedules."""
    assert store
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(clock, "datetime", AtTheBeginning)
    names = list[str]()
    for which in ("user", "system"):
        file = Path(f"{which}.toml")
        file.write_text(imported(which).stdout)
        names += tomllib.loads(file.read_text())["schedules"]
        assert said("plan", file.name)[-1].endswith(" to add")
        said("apply", file.name)
        assert said("plan", file.name)[-1].startswith("nothing to do: ")
    return dict(zip(names, LINES, strict=True))


def imported(which: str) -> Result:
    words = ["import", "crontab", str(FOLDER / f"{which}.crontab"), "--zone", BERLIN]
    result = CliRunner().invoke(main, words, prog_name="duly")
    assert result.exit_code == 0, result.output
    return result


def test_there_are_fifty_and_what_cannot_be_carried_is_said() -> None:
    told = "".join(imported(which).stderr for which in ("user", "system"))
    assert told.count("@reboot is not a rule about time") == 50 - len(LINES) == 2
    assert "MAILTO=ops@example.com is not converted" in told
    assert "CRON_TZ=America/New_York is the zone of the jobs below it" in told
    assert "ran as munin" in told


@pytest.mark.thorough("two weeks of fifty schedules take half a minute")
def test_every_line_runs_as_often_as_cron_would_run_it(
    applied: dict[str, Line], store: str
) -> None:
    ran = asyncio.run(_two_weeks(store))
    counted = Counter(name for name, _ in ran)
    assert {name: counted[name] for name in applied} == {
        name: line.runs for name, line in applied.items()
    }
    assert dict(ran) == {
        name: (line.command, line.stdin) for name, line in applied.items() if line.runs
    }
    assert counted["backup"] == 14, "once each night, also in the one without 02:30"


def test_the_harmless_ones_are_run_by_the_shell(
    store: str, tmp_path: Path, programs: Programs
) -> None:
    """The others are somebody's backups: they are looked at, and not run."""
    harmless = [line for line in LINES if line.command.startswith(("true", "[ -d / ]"))]
    crontab, file = tmp_path / "crontab", tmp_path / "schedules.toml"
    crontab.write_text("".join(f"{line.when} {line.command}\n" for line in harmless))
    words = ["import", "crontab", str(crontab), "--zone", BERLIN]
    file.write_text(CliRunner().invoke(main, words, prog_name="duly").stdout)
    up = programs.start("-m", "duly", "up", str(file), "--allow", "shell", DULY_URL=store)
    up.hear("registered as number")
    names = list(tomllib.loads(file.read_text())["schedules"])
    assert len(names) == 2
    for name in names:
        done("run", name)
        eventually(partial(_has_succeeded, name), f"{name} to have run")


def _has_succeeded(name: str) -> bool:
    [fire, *_] = json.loads(done("history", name, "-o", "json"))
    return bool(fire["state"] == "succeeded")


async def _two_weeks(url: str) -> list[tuple[str, tuple[str, str]]]:
    """What ran: the name of the schedule, the line and what it reads."""
    virtual = VirtualClock(BEGIN)
    there = connect(url, clock=virtual)
    await there.open()
    try:
        jobs = await _passed(World(there, virtual))
        numbers = {job.schedule_id for job in jobs if job.schedule_id is not None}
        names = await there.jobs.schedule_names(sorted(numbers))
    finally:
        await there.close()
    return [(names[job.schedule_id or 0], _line(job)) for job in jobs]


async def _passed(world: World) -> list[StoredJob]:
    """From one due moment to the next; a worker ends each job before the next is due."""
    ran: list[StoredJob] = []
    request = await world.claim_request(100, tasks=["duly.shell"], shelf=CLOCK)
    while True:
        fired = await world.store.ledger.fire(decide, limit=100, trust=lambda _: True)
        jobs = [claimed.job for claimed in (await world.store.work.claim(request)).jobs]
        assert len(jobs) == fired.jobs
        if jobs:
            await world.store.work.settle([world.settlement(job) for job in jobs])
        ran += jobs
        assert fired.rest is not None
        if world.now + fired.rest > END:
            return ran
        world.wait(fired.rest)


def _line(job: StoredJob) -> tuple[str, str]:
    args = json.loads(job.args)
    return args["line"], args.get("stdin", "")
