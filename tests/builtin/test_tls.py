"""Certificates are those of the name, whatever address the connection is made to."""

import shutil
import ssl
import subprocess
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from duly.builtin.http import HttpTask
from duly.builtin.http_exchange import HttpFailed
from duly.builtin.network_guard import NetworkGuard
from duly.errors import Permanent
from tests.builtin.server import Server, answered, redirecting, serving


@dataclass(frozen=True)
class Authority:
    server: ssl.SSLContext
    client: ssl.SSLContext


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """A certificate for shop.example, and one who trusts it."""
    if not shutil.which("openssl"):
        pytest.skip("openssl is not installed")
    folder: Path = tmp_path_factory.mktemp("tls")
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    asked = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj"]
    named = ["/CN=shop.example", "-addext", "subjectAltName=DNS:shop.example"]
    files = ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*asked, *named, *files], check=True, capture_output=True)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(certificate, key)
    return Authority(server, ssl.create_default_context(cafile=str(certificate)))


@pytest.fixture
async def server(authority: Authority) -> AsyncIterator[Server]:
    async with serving(authority.server) as server:
        yield server


async def here(host: str, port: int) -> list[str]:
    return ["127.0.0.1"]


GUARD = NetworkGuard(["127.0.0.1"], resolve=here)


def at(server: Server, host: str = "shop.example", path: str = "/") -> str:
    return server.url(path, host=host, scheme="https")


async def test_the_name_is_verified_and_not_the_address(
    server: Server, authority: Authority
) -> None:
    server.answers["/"] = answered(200, b"safe")
    client = HttpTask(GUARD, tls=authority.client)
    assert (await client.http(at(server)))["body"] == "safe"


async def test_a_certificate_of_another_name_is_refused(
    server: Server, authority: Authority
) -> None:
    with pytest.raises(HttpFailed, match=r"(?i)certificate.*other\.example"):
        await HttpTask(GUARD, tls=authority.client).http(at(server, "other.example"))
    assert server.asked == []


async def test_a_certificate_of_nobody_we_know_is_refused(server: Server) -> None:
    with pytest.raises(HttpFailed, match=r"(?i)certificate"):
        await HttpTask(GUARD).http(at(server))
    assert server.asked == []


async def test_nobody_is_led_from_https_to_http(server: Server, authority: Authority) -> None:
    server.answers["/"] = redirecting(server.url("/", host="shop.example"))
    with pytest.raises(Permanent, match="from https to http is refused"):
        await HttpTask(GUARD, tls=authority.client).http(at(server))
