"""What strangers and careless programs send: too much, for too long, or no sense at all."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from httpx2 import Response
from starlette.testclient import TestClient

from duly import Duly
from duly.app.web_backend import WebBackend
from duly.web import Authenticator, make_application
from duly.web.application import HEADERS, LOOPBACK_NAMES
from duly.web.live import event
from duly.web.sign_in import MOST_BYTES
from tests.infrastructure.served import served
from tests.infrastructure.web import ORIGIN, Site, site_at

ROOT = Path(__file__).parents[2]


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Site]:
    with site_at(tmp_path / "duly.db") as found:
        yield found


@pytest.mark.parametrize("path", ["/login", "/logout"])
def test_nobody_is_listened_to_for_long_before_it_is_known_who_they_are(
    here: Site, path: str
) -> None:
    def endless() -> Iterator[bytes]:
        for _ in range(1_000):
            yield b"x" * MOST_BYTES

    answer = here.client.post(path, content=endless(), headers={"origin": ORIGIN})
    assert answer.status_code == 422
    assert "send less" in answer.json()["detail"]


def test_what_went_wrong_is_shielded_as_everything_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = Duly(str(tmp_path / "duly.db"))
    backend = WebBackend(app._lazy, app.registry, zone=None)

    async def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(backend, "ask", broken)
    application, _ = make_application(backend, Authenticator(backend))
    with TestClient(application, base_url=ORIGIN, raise_server_exceptions=False) as client:
        answer = client.get("/readyz")
    app.close()
    assert answer.status_code == 500
    assert HEADERS.items() <= dict(answer.headers).items()
    assert answer.headers["cache-control"] == "no-store"


def test_a_stream_ends_with_the_token_that_opened_it(tmp_path: Path) -> None:
    with served(tmp_path / "duly.db", folder=ROOT, program="tests.web.impatient") as here:
        app = Duly(str(tmp_path / "duly.db"))
        secret = app.tokens.create("ada", role="viewer").secret
        asked = {"authorization": f"Bearer {secret}"}
        with here.stream("/api/v1/stream", **asked) as news, here.stream("/?live", **asked) as page:
            assert news.readline().startswith(b"retry:")
            assert page.readline().startswith(b"retry:")
            app.tokens.revoke("ada")
            news.read()  # they would go on for an hour
            page.read()
        app.close()


def test_an_origin_that_is_no_address_is_not_ours(here: Site) -> None:
    ours = here.sign_in("ada", "operator")
    answer = here.client.post("/api/v1/queues/mail/resume", headers={**ours, "origin": "http://["})
    assert answer.status_code == 403


@pytest.mark.parametrize(
    "words", ["state:" + "failed," * 100_000 + "failed", "x " * 100_000, "tag:x " * 100_000]
)
def test_a_filter_is_read_in_no_time(here: Site, words: str) -> None:
    operator = here.bearer("ada", "operator")
    answer = here.client.post("/api/v1/jobs/retry", json={"filter": words}, headers=operator)
    assert answer.elapsed.total_seconds() < 2


def test_what_is_done_one_after_the_other_is_done_to_so_many(here: Site) -> None:
    operator = here.bearer("ada", "operator")
    for deed in ("retry", "cancel", "remove"):
        many = {"ids": [1] * 1_001}
        answer = here.client.post(f"/api/v1/jobs/{deed}", json=many, headers=operator)
        assert (answer.status_code, "<= 1000" in answer.text) == (422, True)


def test_a_line_that_was_said_at_no_time_is_refused_and_the_log_stays_readable(here: Site) -> None:
    operator = here.bearer("ada", "operator")

    def post(what: str, **body: object) -> Response:
        return here.client.post(f"/api/v1/{what}", json=body, headers=operator)

    number = post("jobs", task="send").json()["id"]
    worker = post("work/register", name="go", tasks=["send"]).json()["worker"]
    [job] = post("work/claim", worker=worker).json()["jobs"]
    held = {"worker": worker, "id": number, "fence": job["fence"]}
    for at in ("0001-01-01T00:00:00+14:00", "9999-12-31T00:00:00-14:00"):
        assert post("work/log", **held, lines=[{"text": "x", "at": at}]).status_code == 422
    assert post("work/log", **held, lines=[{"text": "x"}]).status_code == 204
    log = here.client.get(f"/api/v1/jobs/{number}/logs", headers=operator)
    assert [line["text"] for line in log.json()["items"]] == ["x"]


@pytest.mark.parametrize(
    "at", ["0001-01-01T00:00:00+14:00", "9999-12-31", "2026-03-05T02:00+99:99", "0001-01-01"]
)
def test_a_time_that_never_was_is_no_question(here: Site, at: str) -> None:
    operator = here.bearer("ada", "operator")
    schedule = {"name": "nightly", "rule": "02:00 Europe/Berlin", "task": "report"}
    here.client.post("/api/v1/schedules", json=schedule, headers=operator)
    answer = here.client.get("/api/v1/schedules/nightly/why", params={"at": at}, headers=operator)
    assert answer.status_code == 422


def test_a_title_is_shown_to_a_viewer_without_its_secrets(here: Site) -> None:
    operator, viewer = here.bearer("ada", "operator"), here.bearer("eve", "viewer")
    job = {"task": "send", "title": "with password=hunter2"}
    number = here.client.post("/api/v1/jobs", json=job, headers=operator).json()["id"]
    asked = {"number": number}
    found = here.client.post("/api/v1/store/jobs/get", json=asked, headers=viewer)
    assert (found.status_code, found.json()["title"]) == (200, "with password=***")


@pytest.mark.parametrize("end", ["\r", "\r\n", "\n"])
def test_what_somebody_calls_a_job_is_no_field_of_a_stream(end: str) -> None:
    assert event(f"a{end}event: b") == b"data: a\ndata: event: b\n\n"


def test_a_length_that_no_database_keeps_is_refused(here: Site) -> None:
    viewer = here.bearer("eve", "viewer")
    asked = {"patience": 2**63, "limit": 1}
    answer = here.client.post("/api/v1/store/activity/waiting", json=asked, headers=viewer)
    assert answer.status_code == 422


@pytest.mark.parametrize("path", ["/jobs/{}", "/jobs/{}/log", "/jobs/{}/log.txt"])
def test_a_number_with_thousands_of_digits_is_no_jobs(here: Site, path: str) -> None:
    assert here.client.get(path.format("9" * 5_000)).status_code == 404


@pytest.mark.parametrize(
    "host", ["127.0.0.1:1@evil.example", "testserver@evil.example", "localhost:1@evil.example:80",
             "user:pw@localhost:1", "localhost/evil", "localhost:1:2", "[::1", "localhost,evil",
             "localhost:x", "localhost#evil", " "],
)  # fmt: skip
def test_a_host_that_could_be_read_in_two_ways_is_refused(here: Site, host: str) -> None:
    for path in ("/healthz", "/login"):
        answer = here.client.get(path, headers={"host": host}, follow_redirects=False)
        assert answer.status_code == 400
        assert HEADERS.items() <= dict(answer.headers).items()


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8400", "127.0.0.1:1", "[::1]", "[::1]:1"])
def test_names_of_this_machine_are_answered_to(tmp_path: Path, host: str) -> None:
    app = Duly(str(tmp_path / "duly.db"))
    backend = WebBackend(app._lazy, app.registry, zone=None)
    application, _ = make_application(backend, Authenticator(backend), names=LOOPBACK_NAMES)
    with TestClient(application, base_url=ORIGIN) as client:
        assert client.get("/healthz", headers={"host": host}).status_code == 200
        for other in ("evil.example", "localhost.evil.example", "127.0.0.1:1@evil.example"):
            assert client.get("/healthz", headers={"host": other}).status_code in (400, 421)
    app.close()
