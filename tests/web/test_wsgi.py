"""Mounted in a WSGI application: the host's users, pages that poll, and its server's threads."""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from io import StringIO
from pathlib import Path
from typing import Any
from wsgiref.types import WSGIEnvironment

import flask
import pytest
from playwright.sync_api import Page, Route, expect
from werkzeug.middleware.dispatcher import DispatcherMiddleware
from werkzeug.test import Client, TestResponse

from duly import Duly, User
from tests.infrastructure.wsgi_server import serving

ORIGIN = {"origin": "http://localhost"}
WHEN_HTMX_COULD_HAVE_STARTED = """
new Promise((go) => {
  const look = () => window.htmx ? setTimeout(go, 100) : setTimeout(look, 10);
  look();
})
"""


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Duly]:
    found = Duly(str(tmp_path / "duly.db"))

    @found.task(name="send")
    def send(letter: str = "a") -> str:
        return letter

    with ThreadPoolExecutor(1) as aside:  # Playwright has a loop in this thread
        aside.submit(found.schedules.add, "every 24h", send, name="letters").result()
    yield found
    found.close()


def host(app: Duly, *, tokens: bool = False) -> flask.Flask:
    """A Flask application whose own session says who is signed in."""
    shop = flask.Flask("shop")
    shop.secret_key = "secret"

    @shop.get("/sign-in/<name>")
    def sign_in(name: str) -> str:
        flask.session["name"] = name
        return name

    def who(environ: WSGIEnvironment) -> User | None:
        with shop.request_context(environ):
            name = flask.session.get("name")
        return User(name, "operator") if name else None

    dashboard = app.wsgi(auth=who, tokens=tokens)
    shop.wsgi_app = DispatcherMiddleware(shop.wsgi_app, {"/duly": dashboard})  # type: ignore[method-assign]
    return shop


@pytest.fixture
def client(app: Duly) -> Client:
    return Client(host(app))


def live(client: Client, path: str, last: str = "") -> TestResponse:
    return client.get(f"{path}?live=1", headers={"last-event-id": last})


def test_who_is_signed_in_at_the_host_sees_the_pages(client: Client) -> None:
    assert client.get("/duly/", headers={"accept": "text/html"}).status_code == 401
    client.get("/sign-in/ada")
    for path in ("", "/", "/schedules", "/jobs", "/capacity", "/schedules/letters"):
        page = client.get(f"/duly{path}", headers={"accept": "text/html"})
        assert page.status_code == 200, path
        places = re.findall(r'(?:href|src|action|hx-[a-z:]+)="(/[^"]*)"', page.text)
        assert [place for place in places if not place.startswith("/duly/")] == [], path
        for place in places:
            if "/static/" in place:
                assert client.get(place).status_code == 200
    assert client.get("/duly/nowhere").status_code == 404


def test_a_change_needs_a_page_of_ours_and_is_in_the_audit_log(app: Duly, client: Client) -> None:
    client.get("/sign-in/ada")
    client.get("/duly/", headers={"accept": "text/html"})
    csrf = client.get_cookie("duly_csrf", path="/duly")
    assert csrf is not None
    pause = "/duly/api/v1/schedules/letters/pause"
    assert client.post(pause, headers=ORIGIN).status_code == 403
    assert client.post(pause, headers={"x-csrf-token": csrf.value}).status_code == 403
    answer = client.post(pause, headers={**ORIGIN, "x-csrf-token": csrf.value})
    assert answer.status_code == 200
    assert app.schedules.get("letters").paused
    assert app.audit.list()[0].who == "ada"


def test_tokens_of_duly_open_it_only_if_asked_for(app: Duly) -> None:
    secret = app.tokens.create("robot", role="viewer").secret
    bearer = {"authorization": f"Bearer {secret}"}
    assert Client(host(app)).get("/duly/api/v1/jobs", headers=bearer).status_code == 401
    open_to_both = Client(host(app, tokens=True))
    assert open_to_both.get("/duly/api/v1/jobs", headers=bearer).status_code == 200
    wrong = {"authorization": f"Bearer {secret[:-1]}"}
    assert open_to_both.get("/duly/api/v1/jobs", headers=wrong).status_code == 401
    open_to_both.get("/sign-in/ada")
    assert open_to_both.get("/duly/api/v1/jobs").status_code == 200


def test_alone_it_takes_tokens_and_has_a_sign_in(app: Duly) -> None:
    client = Client(app.wsgi(auth="token"))
    page = client.get("/jobs", headers={"accept": "text/html"}, follow_redirects=True)
    assert page.request.path == "/login"
    csrf = client.get_cookie("duly_csrf")
    assert csrf is not None
    secret = app.tokens.create("ada", role="viewer").secret
    form = {"token": secret, "csrf": csrf.value}
    client.post("/login", data=form, headers=ORIGIN)
    assert client.get("/jobs", headers={"accept": "text/html"}).status_code == 200


def test_a_live_page_is_sent_once_and_again_only_if_it_has_changed(
    app: Duly, client: Client
) -> None:
    client.get("/sign-in/ada")
    first = live(client, "/duly/schedules/letters")
    assert first.mimetype == "text/event-stream"
    assert first.text.startswith("retry: 3000\n")
    [number] = re.findall(r"^id: (.+)$", first.text, re.MULTILINE)
    assert live(client, "/duly/schedules/letters", number).data == b""
    app.schedules.pause("letters")
    assert number not in live(client, "/duly/schedules/letters", number).text
    app.schedules.remove("letters")
    assert "event: gone" in live(client, "/duly/schedules/letters", number).text


def test_a_stream_of_events_is_refused_with_what_to_do_instead(client: Client) -> None:
    client.get("/sign-in/ada")
    answer = client.get("/duly/api/v1/stream")
    assert answer.status_code == 404
    assert "run duly web beside it" in answer.get_data(as_text=True)


@pytest.mark.parametrize("is_chunked", [False, True])
def test_a_body_arrives_whole_and_one_that_is_too_long_is_refused(
    app: Duly, *, is_chunked: bool
) -> None:
    client = Client(app.wsgi(auth=lambda _: User("ada", "operator")))
    environ = {"wsgi.input_terminated": True, "CONTENT_LENGTH": ""} if is_chunked else {}
    headers = {"authorization": "Bearer their-own", "content-type": "application/json"}
    for size, status in ((1_000, 201), (5_000_000, 422)):
        body = b'{"task": "send", "args": {"letter": "%s"}}' % (b"x" * size)
        answer = client.post("/api/v1/jobs", data=body, headers=headers, environ_overrides=environ)
        assert answer.status_code == status, answer.text
    [job] = app.jobs.list()
    assert client.get(f"/api/v1/jobs/{job.id}").get_json()["args"] == {"letter": "x" * 1_000}


def test_an_auth_that_returns_no_user_opens_nothing_and_is_in_the_log(app: Duly) -> None:
    log = StringIO()
    client = Client(app.wsgi(auth=lambda _: True))  # type: ignore[arg-type, return-value]
    answer = client.get("/api/v1/jobs", errors_stream=log)
    assert answer.status_code == 500
    assert "auth returned True: expected a duly.User, or None" in log.getvalue()


def open_letters(page: Page, address: str, **how: Any) -> None:
    page.goto(f"{address}/sign-in/ada")
    page.goto(f"{address}/duly/schedules/letters", **how)


def see_a_pause(app: Duly, page: Page) -> None:
    with ThreadPoolExecutor(1) as aside:
        aside.submit(app.schedules.pause, "letters").result()
        expect(page.get_by_role("button", name="Resume")).to_be_visible(timeout=30_000)


def test_a_page_in_a_browser_follows_by_polling(app: Duly, page: Page) -> None:
    with serving(host(app)) as address:
        open_letters(page, address)
        see_a_pause(app, page)


def test_a_page_whose_script_for_streams_arrives_late_is_live(app: Duly, page: Page) -> None:
    late: list[Route] = []

    def hold(route: Route) -> None:
        late.append(route)

    page.route("**/hx-sse.min.js", hold)
    with serving(host(app)) as address:
        open_letters(page, address, wait_until="commit")
        page.evaluate(WHEN_HTMX_COULD_HAVE_STARTED)
        while not late:
            page.wait_for_timeout(10)  # its request is on the way
        late.pop().continue_()
        see_a_pause(app, page)


@pytest.mark.parametrize("answer", ["none", "503"])
def test_a_page_whose_first_request_for_news_fails_says_so_and_asks_again(
    app: Duly, page: Page, answer: str
) -> None:
    fail = "**/duly/schedules/letters?live=1"
    page.route(fail, lambda it: it.abort() if answer == "none" else it.fulfill(status=503))
    with serving(host(app)) as address:
        open_letters(page, address)
        expect(page.get_by_role("alert")).to_contain_text("out of date", timeout=30_000)
        expect(page.get_by_role("heading", name="letters")).to_be_visible()
        page.unroute(fail)
        see_a_pause(app, page)
        expect(page.get_by_role("alert")).to_be_hidden()
