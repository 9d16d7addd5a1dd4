"""Redirects: each is judged anew, and a stranger is told no secrets."""

from collections.abc import AsyncIterator
from ipaddress import ip_address

import pytest

from duly.builtin.http import MOST_REDIRECTS, HttpTask
from duly.builtin.network_guard import NetworkGuard, Resolve
from duly.errors import Permanent
from tests.builtin.server import Server, answered, redirecting, serving


def book(**addresses: str) -> Resolve:
    """A resolver that knows these names, with a dash for each dot; and addresses as they are."""
    known = {name.replace("_", "."): address for name, address in addresses.items()}

    async def resolve(host: str, port: int) -> list[str]:
        return [known.get(host) or str(ip_address(host))]

    return resolve


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with serving() as server:
        yield server


@pytest.fixture
def client() -> HttpTask:
    """One that may ask shop.example and its mirror, which are here; and nothing else that is."""
    names = ["shop.example", "mirror.example"]
    resolve = book(
        shop_example="127.0.0.1",
        mirror_example="127.0.0.1",
        rebound_example="127.0.0.1",
        mixed_example="::ffff:127.0.0.1",
    )
    return HttpTask(NetworkGuard(names, resolve=resolve), secrets=["HOOK_SECRET"])


def shop(server: Server, path: str = "/") -> str:
    return server.url(path, host="shop.example")


async def test_the_host_that_was_named_is_asked_for(server: Server, client: HttpTask) -> None:
    server.answers["/"] = answered(200)
    await client.http(shop(server))
    assert server.asked[0].headers["host"] == f"shop.example:{server.port}"


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "rebound.example", "mixed.example", "[::ffff:127.0.0.1]", "[::1]", "10.0.0.1"],
)
async def test_nobody_is_led_inside(server: Server, client: HttpTask, host: str) -> None:
    server.answers["/"] = redirecting(server.url("/secret", host=host))
    server.answers["/secret"] = answered(200, b"secret")
    with pytest.raises(Permanent, match="a job may only reach public addresses"):
        await client.http(shop(server))
    assert [asked.path for asked in server.asked] == ["/"]


@pytest.mark.parametrize("host", ["127.0.0.1", "rebound.example", "localhost", "[::1]"])
async def test_nobody_starts_inside(server: Server, host: str) -> None:
    server.answers["/"] = answered(200, b"secret")
    guard = NetworkGuard(resolve=book(rebound_example="127.0.0.1", localhost="127.0.0.1"))
    with pytest.raises(Permanent, match="is loopback, and a job may only reach public"):
        await HttpTask(guard).http(server.url(host=host))
    assert server.connections == 0


@pytest.mark.parametrize(
    "location",
    ["file:///etc/passwd", "gopher://shop.example/", "http://u:p@shop.example/", "//[", "/a b"],
)
async def test_nobody_is_led_out_of_http(server: Server, client: HttpTask, location: str) -> None:
    server.answers["/"] = redirecting(location)
    with pytest.raises(Permanent):
        await client.http(shop(server))
    assert len(server.asked) == 1


async def test_a_redirect_is_followed(server: Server, client: HttpTask) -> None:
    server.answers["/"] = redirecting("/next")
    server.answers["/next"] = redirecting("last?x=1", 308)
    server.answers["/last"] = answered(200, b"here")
    assert (await client.http(shop(server)))["body"] == "here"
    assert [asked.path for asked in server.asked] == ["/", "/next", "/last?x=1"]


async def test_a_redirect_that_was_expected_is_not_followed(
    server: Server, client: HttpTask
) -> None:
    server.answers["/"] = redirecting("http://127.0.0.1/")
    found = await client.http(shop(server), expect=[302])
    assert (found["status"], found["headers"]) == (
        302,
        {"content-length": "0", "location": "http://127.0.0.1/"},
    )


async def test_a_circle_is_left(server: Server, client: HttpTask) -> None:
    server.answers["/"] = redirecting("/")
    with pytest.raises(Permanent, match="more than 5 redirects"):
        await client.http(shop(server))
    assert len(server.asked) == MOST_REDIRECTS + 1


async def test_a_redirect_to_nowhere_is_an_answer(server: Server, client: HttpTask) -> None:
    server.answers["/"] = answered(302)
    with pytest.raises(Permanent, match="answered 302, and 2xx was expected"):
        await client.http(shop(server))


@pytest.mark.parametrize(
    ("status", "method", "becomes"),
    [
        (301, "POST", "GET"),
        (302, "POST", "GET"),
        (303, "PUT", "GET"),
        (303, "HEAD", "HEAD"),
        (302, "PUT", "PUT"),
        (307, "POST", "POST"),
        (308, "POST", "POST"),
    ],
)
async def test_which_method_the_next_request_has(
    server: Server, client: HttpTask, *, status: int, method: str, becomes: str
) -> None:
    server.answers["/"] = redirecting("/next", status)
    server.answers["/next"] = answered(200)
    body = None if method == "HEAD" else "hello"
    await client.http(shop(server), method, body=body)
    last = server.asked[-1]
    assert last.method == becomes
    assert last.body == (b"hello" if becomes not in ("GET", "HEAD") else b"")
    assert ("content-type" in last.headers) == (becomes not in ("GET", "HEAD"))


SECRETS = {"Authorization": "Bearer x", "Cookie": "a=b", "X-Api-Key": "k", "Accept": "text/csv"}


async def test_a_stranger_is_told_no_secrets(
    server: Server, client: HttpTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOK_SECRET", "hunter2")
    server.answers["/"] = redirecting(server.url("/next", host="mirror.example"), 307)
    server.answers["/next"] = answered(200)
    await client.http(shop(server), "POST", headers=SECRETS, body="hello", sign="HOOK_SECRET")
    first, second = (asked.headers for asked in server.asked)
    assert {"authorization", "cookie", "x-api-key", "duly-signature"} <= set(first)
    assert set(second) == {
        "host", "accept", "accept-encoding", "user-agent", "content-type", "content-length",
        "connection",
    }  # fmt: skip


async def test_the_same_host_is_told_again(server: Server, client: HttpTask) -> None:
    server.answers["/"] = redirecting("/next")
    server.answers["/next"] = answered(200)
    await client.http(shop(server), headers=SECRETS)
    assert server.asked[1].headers["authorization"] == "Bearer x"
