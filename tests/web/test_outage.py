"""What the pages say while no scheduler is running."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from duly import Duly
from tests.cli.test_why import prepared
from tests.conformance.world import World
from tests.factories import plan
from tests.infrastructure.web import Site, site
from tests.web.test_schedule_pages import text_of

PAGES = ("/", "/schedules", "/schedules/often", "/schedules/timeline", "/schedules/events", "/jobs",
         "/capacity", "/system", "/system/audit", "/system/tokens", "/system/settings")  # fmt: skip
NO_SCHEDULER = "No scheduler is running: nothing was fired since"


async def _outage(world: World) -> None:
    """An hour ago somebody fired the first run, and nobody any other."""
    await world.add(plan("often", "every 2s"), plan("daily", "every 24h"))
    await world.fire_after(timedelta(seconds=2))


@pytest.fixture
def down(tmp_path: Path) -> Iterator[Site]:
    path = tmp_path / "duly.db"
    prepared(path, _outage)
    with site(Duly(str(path))) as found:
        yield found


def read(found: Site, path: str) -> str:
    who = found.bearer(f"ada {path}", "admin")
    return text_of(found.client.get(path, headers=who).text)


@pytest.mark.parametrize("path", PAGES)
def test_every_page_has_the_banner(down: Site, path: str) -> None:
    assert NO_SCHEDULER in read(down, path)


def test_a_tenant_is_not_told_how_many_runs_of_others_are_overdue(down: Site) -> None:
    theirs = down.bearer("eve", "viewer", tenant="acme")
    page = text_of(down.client.get("/jobs", headers=theirs).text)
    assert NO_SCHEDULER in page
    assert "overdue" not in page


def test_a_page_that_is_kept_up_to_date_keeps_its_banner(down: Site) -> None:
    headers = down.bearer("ada", "viewer")
    with down.client.stream("GET", "/schedules?live=1", headers=headers) as stream:
        told = "".join(stream.iter_text())
    assert '<hx-partial hx-target="#banner"' in told
    assert NO_SCHEDULER in told


def test_no_page_promises_the_next_run_of_a_schedule_that_is_overdue(down: Site) -> None:
    page = read(down, "/schedules/often")
    assert "overdue since" in page
    assert "not fired yet: no scheduler is running." in page
    assert "Next" not in page.partition("History")[0]
    rows = read(down, "/schedules")
    assert "overdue , due" in rows


def test_today_counts_what_nobody_has_fired_and_lists_it_first(down: Site) -> None:
    page = read(down, "/")
    assert "runs of 1 schedule are overdue." in page
    assert "often ▲ overdue" in page.partition("Next")[2]
    status = down.client.get("/api/v1/status", headers=down.bearer("eve", "viewer")).json()
    assert status["overdue"] > 1_700
    assert status["due"] >= status["overdue"]
    assert [(one["name"], one["overdue"]) for one in status["next"]] == [
        ("often", True),
        ("daily", False),
    ]


def test_the_banner_is_gone_when_a_scheduler_has_fired(down: Site) -> None:
    assert NO_SCHEDULER in read(down, "/jobs")
    who = down.bearer("eve", "viewer")
    with down.app.running(worker=False):
        while NO_SCHEDULER in down.client.get("/jobs", headers=who).text:
            pass
