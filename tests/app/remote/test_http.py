"""The way to a duly that is elsewhere: where it may lead, and what can happen on it."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from duly.errors import DulyError, OutcomeUnknown, SchemaMismatch, StoreUnavailable
from duly.remote.store import RemoteStore
from duly.settings.kinds import check_address
from tests.app.remote.server import Elsewhere, Handler, elsewhere
from tests.app.remote.test_commands import afar, duly, token_file
from tests.factories import call, plan
from tests.infrastructure.commands import typed

T = TypeVar("T")
COMMAND = [sys.executable, "-m", "duly"]


@pytest.fixture
def there(url: str) -> Iterator[Elsewhere]:
    with elsewhere(url) as there:
        there.do(lambda store: store.schedules.add([plan("report")]))
        yield there


@pytest.fixture
def token(there: Elsewhere, tmp_path: Path) -> str:
    return token_file(there, tmp_path, "robot", "operator")


def on(url: str, token: str | None, work: Callable[[RemoteStore], Awaitable[T]]) -> T:
    async def done() -> T:
        store = RemoteStore(url, token_file=token)
        try:
            return await work(store)
        finally:
            await store.close()

    return asyncio.run(done())


# Where it leads.


@pytest.mark.parametrize(
    "url",
    ["https://duly.example.com", "https://example.com:8443/duly", "http://127.0.0.1:8400",
     "http://localhost:1", "http://[::1]:8400/"],
)  # fmt: skip
def test_it_may_lead_anywhere_by_tls_and_without_to_this_machine(url: str) -> None:
    check_address(url)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("http://duly.example.com", "a token would be read on the way to http://duly.example.com"),
        ("http://127.0.0.1.example.com", "a token would be read on the way"),
        ("https://ada:hunter2@example.com", "its token is in a file: --token-file FILE"),
        ("https://example.com?token=hunter2", "its token is in a file: --token-file FILE"),
        ("https://example.com:port", "a duly elsewhere is https://host"),
        ("https://", "a duly elsewhere is https://host"),
    ],
)
def test_it_leads_nowhere_where_others_could_read_the_token(url: str, said: str) -> None:
    refused = duly("--url", url, "status")
    assert refused.exit_code == 2
    assert said in refused.stderr
    assert "hunter2" not in refused.output


def test_a_duly_may_be_below_another_path(there: Elsewhere, token: str) -> None:
    found = on(f"{there.url}/below/", token, lambda store: store.schedules.get("report"))
    assert found.key == "report"
    assert there.asked == ["/below/api/v1/store/schedules/get"]


def test_url_and_token_may_be_configured(
    there: Elsewhere, token: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "duly.toml").write_text(f'url = "{there.url}"\ntoken_file = "{Path(token).name}"\n')
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    monkeypatch.delenv("DULY_URL", raising=False)
    done = duly("schedules", "-o", "name")
    assert (done.exit_code, done.stdout) == (0, "report\n"), done.output
    assert done.stderr == f"server: {there.url}\n"


def test_store_says_the_same_as_url(there: Elsewhere, token: str) -> None:
    done = duly("--token-file", token, "schedules", "-o", "name", "--store", there.url)
    assert (done.exit_code, done.stdout) == (0, "report\n"), done.output


def test_what_was_typed_for_one_command_is_gone_with_it(there: Elsewhere, token: str) -> None:
    before = dict(os.environ)
    assert afar(there, token, "schedules").exit_code == 0
    assert dict(os.environ) == before


# The token.


def test_a_token_that_others_may_read_is_not_used(there: Elsewhere, token: str) -> None:
    Path(token).chmod(0o640)
    refused = afar(there, token, "status")
    assert refused.exit_code == 2
    assert f"Error: others may read the token file {token}: chmod 600 {token}\n" in refused.stderr
    assert there.asked == []


def test_without_a_token_it_is_said_how_to_come_to_one(
    there: Elsewhere, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DULY_TOKEN_FILE", raising=False)
    refused = duly("--url", there.url, "status")
    assert refused.exit_code == 2
    assert "needs a token: use --token-file FILE" in refused.stderr
    assert "duly tokens create NAME --role viewer" in refused.stderr


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"", "is empty"), (b"two words\n", "is not a token"), ("naïve\n".encode(), "is not a token")],
)
def test_a_file_without_a_token_is_refused_without_showing_it(
    there: Elsewhere, tmp_path: Path, content: bytes, said: str
) -> None:
    file = tmp_path / "token"
    file.write_bytes(content)
    file.chmod(0o600)
    refused = afar(there, str(file), "status")
    assert refused.exit_code == 2
    assert said in refused.stderr
    assert "words" not in refused.stderr


def test_there_is_no_such_token_file(there: Elsewhere) -> None:
    refused = afar(there, "/nowhere/token", "status")
    assert refused.exit_code == 2
    assert "Error: the token file /nowhere/token: No such file or directory" in refused.stderr


# What can happen on the way.


def test_nobody_is_there(token: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        refused = duly("--url", url, "--token-file", token, "status")
    assert refused.exit_code == 5
    assert refused.stderr == (
        f"server: {url}\nError: {url} cannot be reached: connection refused\n"
    )


def test_calls_one_after_the_other_share_a_connection(there: Elsewhere, token: str) -> None:
    async def thrice(store: RemoteStore) -> None:
        for _ in range(3):
            await store.schedules.page()

    on(there.url, token, thrice)
    assert (len(there.asked), len(there.connections)) == (3, 1)


def test_who_is_asked_to_look_looks_again_when_the_kept_connection_was_closed(
    there: Elsewhere, token: str
) -> None:
    async def twice(store: RemoteStore) -> int:
        await store.schedules.page()
        there.interrupt = hang_up_once(there)
        return len(await store.schedules.page())

    assert on(there.url, token, twice) == 1
    assert len(there.asked) == 3


def test_what_may_have_been_done_is_not_done_again(there: Elsewhere, token: str) -> None:
    async def lost(store: RemoteStore) -> None:
        await store.schedules.page()
        there.interrupt = hang_up_once(there)
        await store.jobs.enqueue([call("send")])

    with pytest.raises(OutcomeUnknown, match="the change may have been made"):
        on(there.url, token, lost)
    assert there.asked[-1] == "/api/v1/store/jobs/enqueue"
    assert len(there.asked) == 2


def hang_up_once(there: Elsewhere) -> Callable[[Handler], bool]:
    def hang_up(handler: Handler) -> bool:
        there.interrupt = None
        handler.close_connection = True
        return True

    return hang_up


@pytest.mark.parametrize(
    ("status", "kind", "body", "error", "said"),
    [
        (302, "text/html", b"", StoreUnavailable, "redirects.*: https://evil.example$"),
        (404, "text/html", b"not here", StoreUnavailable, "or it is unhealthy .HTTP 404."),
        (502, "text/html", b"bad gateway", StoreUnavailable, "HTTP 502"),
        (200, "text/html", b"<html>", StoreUnavailable, "did not answer with JSON: is it a"),
        (200, "application/json", b'{"a": 1}', StoreUnavailable, "is not a duly server: give"),
        (200, "application/json", b'{"duly": "9.0", "form": 99}', SchemaMismatch, "runs duly 9.0"),
        (418, "application/problem+json", b'{"type": "/problems/of-later", "detail": "tea"}',
         DulyError, "^tea$"),
    ],
)  # fmt: skip
def test_what_answers_is_not_always_a_duly(  # noqa: PLR0917 - a table
    there: Elsewhere, token: str, status: int, kind: str, body: bytes, error: type, said: str
) -> None:
    def answer(handler: Handler) -> bool:
        handler.reply(status, kind, body, Location="https://evil.example/api/v1/store")
        return True

    there.interrupt = answer
    with pytest.raises(error, match=said):
        on(there.url, token, lambda store: store.open())
    assert len(there.asked) == 1


def test_an_answer_without_end_is_not_waited_for(
    there: Elsewhere, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duly.remote.http.LARGEST", 100)
    with pytest.raises(DulyError, match="ask for less, for example with --limit"):
        on(there.url, token, lambda store: store.schedules.page())


def test_who_does_not_want_to_wait_does_not_have_to(there: Elsewhere, token: str) -> None:
    asked, over = threading.Event(), threading.Event()

    def say_nothing(handler: Handler) -> bool:
        asked.set()
        over.wait(20)
        handler.close_connection = True
        return True

    there.interrupt = say_nothing
    command = [*COMMAND, "--url", there.url, "--token-file", token, "status"]
    with subprocess.Popen(command, stderr=subprocess.PIPE) as waiting:
        assert asked.wait(20)
        waiting.send_signal(signal.SIGINT)
        try:
            assert waiting.wait(5) != 0
        finally:
            over.set()
            waiting.kill()


# Who needs the database itself.


@pytest.mark.parametrize(
    "words",
    [["worker", "APP"], ["up", "APP"], ["scheduler", "APP"], ["dev", "APP"], ["up", "SHEET"],
     ["dev", "APP", "--no-reload"], ["db", "check"], ["db", "migrate"]],
    ids=" ".join,
)  # fmt: skip
def test_who_needs_the_database_itself_says_so(
    there: Elsewhere, token: str, tmp_path: Path, words: list[str]
) -> None:
    (tmp_path / "app.py").write_text("from duly import Duly\nduly = Duly()\n")
    (tmp_path / "s.toml").write_text('[schedules.a]\nrule = "every 5m"\nshell = "true"\n')
    others = {"APP": str(tmp_path / "app.py"), "SHEET": str(tmp_path / "s.toml")}
    said = [others.get(word, word) for word in words]
    done = typed("--url", there.url, "--token-file", token, *said)
    assert done.returncode == 2, done
    assert "needs the database itself" in done.stderr
    assert f"{there.url} is a duly server: give --store postgresql://… or a path" in done.stderr
    assert there.asked == []
