"""On which clock times are shown: a schedule's own, the app's, or the one that somebody chose."""

import re
from collections.abc import Iterator

import pytest

from duly import Duly
from tests.infrastructure.web import Site, site

PAGES = ("/", "/schedules", "/schedules/hourly", "/jobs", "/capacity", "/system/tokens")
# What a time says in its title: on which clock it is shown.
ZONES = re.compile(r'<time [^>]*title="[^"]* ([A-Za-z/]+) · [^"]*Z"')


@pytest.fixture
def tokyo(url: str) -> Iterator[Site]:
    app = Duly(url, zone="Asia/Tokyo")

    @app.task
    def hello() -> None: ...

    app.schedules.add("every 1h", hello, name="hourly")
    hello.enqueue()
    with site(app) as found:
        yield found


def zones(found: Site, path: str) -> set[str]:
    headers = found.bearer(f"ada at {path}", "admin")
    return set(ZONES.findall(found.client.get(path, headers=headers).text))


def test_what_has_no_zone_of_its_own_is_on_the_clock_of_the_app(tokyo: Site) -> None:
    shown = {path: zones(tokyo, path) for path in PAGES}
    assert shown == {path: {"Asia/Tokyo"} for path in PAGES}


def test_whoever_has_chosen_a_clock_sees_all_times_on_it(tokyo: Site) -> None:
    tokyo.client.cookies.set("duly_zone", "UTC")
    shown = {path: zones(tokyo, path) for path in PAGES}
    assert shown == {path: {"UTC"} for path in PAGES}


def test_what_became_of_a_job_is_told_on_the_same_clock(tokyo: Site) -> None:
    number = tokyo.app.jobs.list()[0].id
    headers = tokyo.bearer("ada", "viewer")
    page = tokyo.client.get(f"/jobs/{number}", headers=headers).text
    [sentence] = re.findall(r'<h1 class="sentence">(.*?)</h1>', page)
    assert "Asia/Tokyo" in sentence
