"""``http``: real requests to a real server, what is sent, and what becomes of each answer."""

import asyncio
import hashlib
import hmac
import json
import logging
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

import duly
from duly.builtin.http import HttpTask
from duly.builtin.http_exchange import LARGEST, HttpFailed
from duly.builtin.network_guard import NetworkGuard
from duly.clock import boottime, now
from duly.errors import Permanent, RetryAfter
from duly.testing import context
from tests.builtin.server import SILENCE, Server, answered, serving

NOON = datetime(2027, 1, 3, 12, tzinfo=UTC)
HERE = NetworkGuard(["127.0.0.0/8"])


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with serving() as server:
        yield server


@pytest.fixture
def client() -> HttpTask:
    return HttpTask(HERE, secrets=["HOOK_SECRET"])


async def test_an_answer_is_kept(server: Server, client: HttpTask) -> None:
    server.answers["/"] = answered(200, b"hello", Content_Type="text/plain", Set_Cookie="a=b")
    assert await client.http(server.url("/")) == {
        "status": 200,
        "headers": {"content-type": "text/plain", "content-length": "5"},
        "body": "hello",
    }


async def test_what_is_sent(server: Server, client: HttpTask) -> None:
    server.answers["/hook"] = answered(204)
    with context(due_at=NOON):
        await client.http(server.url("/hook?a=1"), "post", headers={"X-Mine": "ü"}, body='{"ä": 1}')
    [asked] = server.asked
    assert (asked.method, asked.path) == ("POST", "/hook?a=1")
    assert asked.body == '{"ä": 1}'.encode()
    assert asked.headers == {
        "host": f"127.0.0.1:{server.port}",
        "user-agent": f"duly/{duly.__version__}",
        "accept": "*/*",
        "accept-encoding": "identity",
        "content-type": "application/json",
        "idempotency-key": "0",
        "x-mine": "ü",
        "connection": "close",
        "content-length": "9",
    }


async def test_what_was_said_is_sent_in_place_of_what_duly_says(
    server: Server, client: HttpTask
) -> None:
    server.answers["/"] = answered(200)
    said = {"user-agent": "mine", "Idempotency-key": "42", "content-type": "text/csv"}
    with context(due_at=NOON):
        await client.http(server.url(), "PUT", headers=said, body="a,b")
    assert {name: server.asked[0].headers[name.lower()] for name in said} == said


async def test_text_that_is_no_json_is_sent_as_text(server: Server, client: HttpTask) -> None:
    server.answers["/"] = answered(200)
    await client.http(server.url(), "POST", body="hello")
    await client.http(server.url(), "POST")
    first, second = server.asked
    assert first.headers["content-type"] == "text/plain; charset=utf-8"
    assert (second.headers["content-length"], second.headers.get("content-type")) == ("0", None)


async def test_a_request_is_signed(
    server: Server, client: HttpTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOK_SECRET", "hunter2")
    server.answers["/"] = answered(200)
    await client.http(server.url(), "POST", body="hello", sign="HOOK_SECRET")
    moment, _, digest = server.asked[0].headers["duly-signature"].partition(",v1=")
    seconds = moment.removeprefix("t=")
    assert abs(int(seconds) - now().timestamp()) < 60
    assert digest == hmac.new(b"hunter2", f"{seconds}.hello".encode(), hashlib.sha256).hexdigest()


@pytest.mark.parametrize("name", ["PATH", "DULY_URL", "OTHER_SECRET", "hook_secret", ""])
async def test_only_secrets_that_the_operator_has_named_sign_a_request(
    server: Server, client: HttpTask, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("OTHER_SECRET", "hunter2")
    monkeypatch.setenv("DULY_URL", "postgresql://ada:hunter2@db/shop")
    with pytest.raises(Permanent, match="the operator of the worker has not allowed"):
        await client.http(server.url(), "POST", body="hello", sign=name)
    assert server.asked == []


@pytest.mark.parametrize("found", [None, ""])
async def test_a_secret_that_is_not_there_is_for_good(
    server: Server, client: HttpTask, monkeypatch: pytest.MonkeyPatch, found: str | None
) -> None:
    monkeypatch.delenv("HOOK_SECRET", raising=False)
    if found is not None:
        monkeypatch.setenv("HOOK_SECRET", found)
    with pytest.raises(Permanent, match='sign="HOOK_SECRET": the worker has no environment'):
        await client.http(server.url(), sign="HOOK_SECRET")
    assert server.asked == []


@pytest.mark.parametrize(
    ("headers", "message"),
    [
        ({"X": "a\r\nY: b"}, '"X" holds a control character or a line break'),
        ({"X": "a\nb"}, '"X" holds a control character'),
        ({"X": "a\0b"}, '"X" holds a control character'),
        ({"X: y\r\nZ": "a"}, "is not the name of a header"),
        ({"": "a"}, "is not the name of a header"),
        ({"X": "€"}, "Latin-1"),
        ({"host": "other.example"}, '"host" is set by duly itself'),
        ({"Content-Length": "1"}, "set by duly itself"),
        ({"Transfer-Encoding": "chunked"}, "set by duly itself"),
        ({str(number): "" for number in range(101)}, "at most 100"),
    ],
)
async def test_headers_that_would_say_more_are_refused(
    server: Server, client: HttpTask, headers: dict[str, str], message: str
) -> None:
    with pytest.raises(Permanent, match=message):
        await client.http(server.url(), headers=headers)
    assert server.connections == 0


@pytest.mark.parametrize("method", ["CONNECT", "TRACE", "GET / HTTP/1.1\r\n", ""])
async def test_only_known_methods_are_sent(client: HttpTask, method: str) -> None:
    with pytest.raises(Permanent, match="one of GET, HEAD, POST"):
        await client.http("http://127.0.0.1/", method)


@pytest.mark.parametrize("length", ["30", "0s", "2h", "soon"])
async def test_a_timeout_is_a_length_of_time(client: HttpTask, length: str) -> None:
    with pytest.raises(Permanent, match="timeout"):
        await client.http("http://127.0.0.1/", timeout=length)


@pytest.mark.parametrize(
    ("status", "expect", "outcome"),
    [
        (200, [], None),
        (204, [], None),
        (204, [200, 204], None),
        (404, [404], None),
        (500, [500], None),
        (302, [302], None),
        (201, [200], Permanent),
        (304, [], Permanent),
        (400, [], Permanent),
        (404, [], Permanent),
        (408, [], HttpFailed),
        (425, [], HttpFailed),
        (429, [], HttpFailed),
        (500, [], HttpFailed),
        (503, [], HttpFailed),
        (599, [200], HttpFailed),
    ],
)
async def test_what_becomes_of_an_answer(
    server: Server,
    client: HttpTask,
    *,
    status: int,
    expect: list[int],
    outcome: type[Exception] | None,
) -> None:
    server.answers["/"] = answered(status, b"" if status in (204, 304) else b"some\nwords")
    if outcome is None:
        assert (await client.http(server.url(), expect=expect))["status"] == status
        return
    with pytest.raises(outcome) as caught:
        await client.http(server.url(), expect=expect)
    assert type(caught.value) is outcome
    assert str(caught.value).startswith(f"GET {server.url()} answered {status}")


async def test_the_words_of_an_answer_are_told(server: Server, client: HttpTask) -> None:
    server.answers["/"] = answered(422, b'{"error":\n "no such user"}')
    with pytest.raises(Permanent, match=r'answered 422, and 2xx was expected: {"error": "no such'):
        await client.http(server.url("/?token=x"))


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize(
    ("said", "least", "most"),
    [
        ("120", 120, 120),
        ("0", 0, 0),
        ("99999999999", 86_400, 86_400),
        ("in an hour", 500, 700),
        ("long ago", 0, 0),
    ],
)
async def test_when_to_come_back_is_heard(
    server: Server, client: HttpTask, *, status: int, said: str, least: int, most: int
) -> None:
    moments = {"in an hour": now() + timedelta(minutes=10), "long ago": NOON - timedelta(days=999)}
    text = format_datetime(moments[said], usegmt=True) if said in moments else said
    server.answers["/"] = answered(status, b"slowly", Retry_After=text)
    with pytest.raises(RetryAfter, match=f"answered {status}: slowly") as caught:
        await client.http(server.url())
    assert isinstance(caught.value.delay, timedelta)
    assert least <= caught.value.delay.total_seconds() <= most


async def test_a_return_that_cannot_be_read_is_an_ordinary_error(
    server: Server, client: HttpTask
) -> None:
    server.answers["/"] = answered(503, Retry_After="soon")
    with pytest.raises(HttpFailed):
        await client.http(server.url())


async def test_who_does_not_listen_is_an_ordinary_error(client: HttpTask) -> None:
    async with serving() as server:
        port = server.port
    with pytest.raises(HttpFailed, match=f"GET http://127.0.0.1:{port}/: .*refused|Connect"):
        await client.http(f"http://127.0.0.1:{port}/")


async def test_a_name_that_nobody_knows_is_an_ordinary_error(client: HttpTask) -> None:
    with pytest.raises(HttpFailed, match=r"GET http://no-such-host\.invalid/: "):
        await client.http("http://no-such-host.invalid/")


async def test_the_whole_exchange_has_a_time_out(server: Server, client: HttpTask) -> None:
    server.answers["/"] = SILENCE
    began = boottime()
    with pytest.raises(HttpFailed, match="no answer within 200ms"):
        await client.http(server.url(), timeout="200ms")
    assert boottime() - began < 5


async def test_a_job_that_is_cancelled_hangs_up(server: Server, client: HttpTask) -> None:
    server.answers["/"] = SILENCE
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(client.http(server.url()), 0.2)
    assert len(server.asked) == 1


OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
INTERIM = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nLink: x\r\n\r\n"


@pytest.mark.parametrize(
    ("raw", "body"),
    [
        (OK + b"\r\nto the end", "to the end"),
        (b"HTTP/1.0 200\r\nContent-Length: 2\r\n\r\nokand more", "ok"),
        (INTERIM + OK + b"\r\nx", "x"),
        (CHUNKED + b"5\r\nhello\r\n2;x=y\r\n, \r\n0\r\n\r\n", "hello, "),
        (OK + b"Content-Type: text/plain; charset=latin-1\r\n\r\n\xe4", "ä"),
        (OK + b"Content-Type: text/plain; charset=hex\r\n\r\nzz", "zz"),
        (OK + b"\r\n\xff\x00", "\ufffd\ufffd"),
    ],
    ids=range(7),
)
async def test_answers_come_in_many_ways(
    server: Server, client: HttpTask, raw: bytes, body: str
) -> None:
    server.answers["/"] = raw
    assert (await client.http(server.url()))["body"] == body


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"SSH-2.0-OpenSSH_9.6\r\n\r\n", "not an HTTP/1 response: b'SSH"),
        (b"HTTP/1.1 2000 OK\r\n\r\n", "not an HTTP/1 response"),
        (OK + b"Content-Length: 9\r\n\r\nshort", "closed before the response was"),
        (OK + b"Content-Length: -1\r\n\r\n", "malformed Content-Length"),
        (OK + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nx", "malformed Content-Length"),
        (OK + b"no header\r\n\r\n", "malformed response header"),
        (OK + b"Transfer-Encoding: gzip\r\n\r\n", "unsupported transfer encoding 'gzip'"),
        (CHUNKED + b"xyz\r\n", "malformed chunked response: chunk size b'xyz"),
        (CHUNKED + b"1\r\nab\r\n", "malformed chunked response: chunk size mismatch"),
        (OK + b"X: " + b"x" * 200_000 + b"\r\n\r\n", "more than 65,536 bytes"),
        (b"HTTP/1.1 100 Continue\r\n\r\n" * 20, "more than 10 interim responses"),
        (b"", "closed before the response was complete"),
    ],
    ids=range(12),
)
async def test_answers_that_are_none_are_ordinary_errors(
    server: Server, client: HttpTask, raw: bytes, message: str
) -> None:
    server.answers["/"] = lambda _: raw
    with pytest.raises(HttpFailed, match=message):
        await client.http(server.url())


@pytest.mark.parametrize("is_chunked", [False, True])
async def test_of_an_endless_answer_the_beginning_is_read(
    server: Server, client: HttpTask, is_chunked: bool
) -> None:
    large = b"x" * (LARGEST * 3)
    head = b"HTTP/1.1 200 OK\r\n"
    if is_chunked:
        head += b"Transfer-Encoding: chunked\r\n\r\n%x\r\n" % (len(large) * 2)
    server.answers["/"] = head + (b"" if is_chunked else b"\r\n") + large
    found = await client.http(server.url(), timeout="10s")
    assert found["body"] == "x" * 2_000


async def test_the_head_alone_can_be_asked_for(server: Server, client: HttpTask) -> None:
    server.answers["/"] = answered(200, Content_Length="100")
    assert (await client.http(server.url(), "HEAD"))["body"] == ""


async def test_a_proxy_of_the_environment_is_not_asked(
    server: Server, client: HttpTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9/")
    server.answers["/"] = answered(200)
    assert (await client.http(server.url()))["status"] == 200


async def test_the_log_says_what_was_answered_and_no_query(
    server: Server, client: HttpTask, caplog: pytest.LogCaptureFixture
) -> None:
    server.answers["/a"] = answered(200, json.dumps({"token": "x"}).encode())
    with caplog.at_level(logging.INFO, logger="duly.job"):
        await client.http(server.url("/a?key=hunter2"))
    [record] = caplog.records
    assert record.getMessage().startswith(f"GET {server.url('/a')} answered 200 after ")
