"""Within another application: under a path, with its people, and streams that come back."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.testclient import TestClient

from duly import Duly, User
from duly.web.application import mounted


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Duly]:
    found = Duly(str(tmp_path / "duly.db"))

    @found.task
    async def tick() -> None: ...

    found.schedules.add("every 1s", tick)
    yield found
    found.close()


@pytest.fixture
def client(app: Duly) -> Iterator[TestClient]:
    inner = mounted(
        app._lazy,
        app.registry,
        zone=None,
        auth=lambda _: User("ada", "operator"),
        longest=3,
    )
    with TestClient(Starlette(routes=[Mount("/duly", inner)])) as found:
        yield found


def test_every_link_stays_below_the_path_that_it_is_mounted_at(client: TestClient) -> None:
    for path in ("/", "/schedules", "/jobs", "/capacity", "/system", "/nowhere"):
        page = client.get(f"/duly{path}", headers={"accept": "text/html"})
        places = re.findall(r'(?:href|src|action|hx-[a-z:]+)="(/[^"]*)"', page.text)
        assert places, path
        assert [place for place in places if not place.startswith("/duly/")] == [], path
        for place in places:
            if "/static/" in place:
                assert client.get(place).status_code == 200


def test_the_cookie_is_for_the_path_that_it_is_mounted_at(client: TestClient) -> None:
    answer = client.get("/duly/")
    assert "path=/duly;" in answer.headers["set-cookie"].lower()


def test_a_stream_ends_by_itself_and_goes_on_where_it_ended(app: Duly, client: TestClient) -> None:
    with app.running():
        first = client.get("/duly/api/v1/stream").text
        heard = re.findall(r"^id: (.+)$", first, re.MULTILINE)
        assert heard
        again = client.get("/duly/api/v1/stream", headers={"last-event-id": heard[-1]}).text
    after = re.findall(r"^id: (.+)$", again, re.MULTILINE)
    assert after
    assert not set(after) & set(heard)
    both = [int(one.partition("-")[0]) for one in (*heard, *after)]
    due = {int(text) for text in re.findall(r'"due_at":"[^"]+:(\d\d)Z"', first + again)}
    assert len(due) >= 5  # no second between the two streams is missing
    assert max(both) - min(both) < 60 * 1_000_000
