"""The operator at six in the morning: what the page of examples shows is what the commands say."""

import asyncio
import re
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path

import pytest
from click.testing import CliRunner

from duly import clock
from duly.app import connect, migrate_tables
from duly.cli.main import main
from duly.testing.clock import VirtualClock
from tests.conformance.world import MINUTE, World
from tests.docs.situations import EXAMPLES
from tests.factories import plan

PAGE = EXAMPLES / "14_at_six.md"
SUNDAY = datetime(2026, 11, 8, 12, tzinfo=UTC)
FRIDAY_AT_SIX = datetime(2026, 11, 13, 5, tzinfo=UTC)  # in Berlin
LATE = timedelta(milliseconds=12)


class AtSix(datetime):
    @classmethod
    def now(cls, tz: tzinfo | None = None) -> "AtSix":
        return cls.fromtimestamp(FRIDAY_AT_SIX.timestamp(), tz)


@pytest.fixture
def at_six(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store in which the report of Thursday still runs, and it is Friday."""
    path = tmp_path / "duly.db"
    asyncio.run(_five_nights(path))
    monkeypatch.setenv("TZ", "Europe/Berlin")
    monkeypatch.setenv("DULY_URL", str(path))
    monkeypatch.setattr(clock, "datetime", AtSix)  # the one place that reads the machine's clock


@pytest.mark.usefixtures("at_six")
def test_14_the_operator_reads_the_answer() -> None:
    asked = transcript()
    assert list(asked) == ["duly status", "duly why nightly_report 02:00"]
    for line, wanted in asked.items():
        done = CliRunner().invoke(main, line.split()[1:], prog_name="duly")
        assert done.stdout == wanted, done.output
        assert done.exit_code == (1 if line == "duly status" else 0)


def transcript() -> dict[str, str]:
    """The commands of the page, and what it says that they answer."""
    [block] = re.findall(r"```console\n(.*?)```", PAGE.read_text(), re.DOTALL)
    commands = re.split(r"^\$ (.*)\n", block, flags=re.MULTILINE)[1:]
    return dict(zip(commands[::2], commands[1::2], strict=True))


async def _five_nights(path: Path) -> None:
    virtual = VirtualClock(SUNDAY)
    store = connect(str(path), clock=virtual)
    await store.open()
    try:
        await migrate_tables(store)
        await _happened(World(store, virtual))
    finally:
        await store.close()


async def _happened(world: World) -> None:
    """Invoices every hour, and a report every night: since Thursday it has not come to an end."""
    await world.add(
        plan(
            "nightly_report", "02:00 Europe/Berlin", task="nightly_report", title="nightly_report"
        ),
        plan("invoices", "30 * * * *", zone="UTC", task="invoices"),
    )
    while (next_at := await _next(world)) + LATE <= FRIDAY_AT_SIX:
        world.clock.set(next_at + LATE)
        await world.fire()
        for job in await world.claim(9, tasks=["nightly_report", "invoices"]):
            if job.task == "invoices":
                await world.end(job)
            elif world.now < datetime(2026, 11, 12, tzinfo=UTC):
                world.wait(40 * MINUTE - 2 * LATE)
                await world.end(job)
    world.clock.set(FRIDAY_AT_SIX)
    await world.fire()


async def _next(world: World) -> datetime:
    moments = [(await world.schedule(name)).next_at for name in ("nightly_report", "invoices")]
    return min(moment for moment in moments if moment is not None)
