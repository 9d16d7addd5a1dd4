"""The tasks as a worker has them: allowed by name, run as every job, ended as every job."""

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from duly.builtin import definitions
from duly.errors import InvalidValue
from duly.events import JobStuck
from duly.model.payload import encode
from duly.model.states import State
from duly.policy.retry import Retry
from duly.registry.definition import Definition
from duly.store.store import Store
from tests.builtin.programs import is_alive, number_in
from tests.builtin.server import answered, serving
from tests.engine.workshop import at_work, memory_store

SHELL = definitions(["shell"])
FAMILY = "sleep 300 & echo $! > child; echo $$ > parent; wait"


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    async with memory_store() as store:
        yield store


async def logged(store: Store, number: int) -> list[tuple[str, str]]:
    return [(line.level, line.text) for line in await store.journal.logs(number)]


@pytest.mark.parametrize(
    ("allowed", "names"),
    [
        ((), []),
        (("shell",), ["duly.shell", "duly.command"]),
        (("http",), ["duly.http"]),
        ({"http", "shell"}, ["duly.shell", "duly.command", "duly.http"]),
    ],
)
def test_what_is_not_allowed_is_not_there(allowed: Any, names: list[str]) -> None:  # noqa: ANN401
    assert [found.name for found in definitions(allowed)] == names


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("shel", '"shel" cannot be allowed: did you mean "shell"?'),
        ("https", '"https" cannot be allowed: did you mean "http"?'),
        ("python", '"python" cannot be allowed: "shell" is for shell lines and commands'),
    ],
)
def test_an_unknown_word_is_refused(word: str, message: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        definitions([word])
    assert message in str(caught.value)


def test_one_text_is_not_several_words() -> None:
    with pytest.raises(InvalidValue, match=r'several words, as \["shell", "http"\]'):
        definitions("shell")


def test_a_network_that_is_none_is_refused_before_anything_runs() -> None:
    with pytest.raises(InvalidValue, match="neither a network"):
        definitions(["http"], networks=["10.0.0.0/99"])


@pytest.mark.parametrize(
    ("task", "arguments"),
    [
        ("duly.shell", {"line": "true", "cwd": "/", "env": {"A": "b"}, "stdin": "x"}),
        ("duly.command", {"argv": ["true"], "cwd": None, "env": {}, "stdin": None}),
        (
            "duly.http",
            {
                "url": "https://example.com",
                "method": "POST",
                "headers": {"A": "b"},
                "body": "x",
                "expect": [200],
                "timeout": "30s",
                "sign": "SECRET",
            },
        ),
    ],
)
def test_what_a_declaration_may_say_is_taken(task: str, arguments: dict[str, object]) -> None:
    [found] = [known for known in definitions(["shell", "http"]) if known.name == task]
    assert found.signature.decode(found.signature.encode((), arguments)) == arguments


def test_programs_are_not_retried_and_requests_are() -> None:
    attempts = {found.name: found.retry.attempts for found in definitions(["shell", "http"])}
    assert attempts == {"duly.shell": 1, "duly.command": 1, "duly.http": Retry().attempts}


async def test_what_a_program_prints_is_in_the_log_of_its_job(store: Store) -> None:
    async with at_work(store, *SHELL) as shift:
        line = "echo $DULY_JOB_ID; sleep 0.1; echo careful >&2"
        [number] = await shift.enqueue("duly.shell", line=line)
        job = await shift.ended(number)
    assert job.state == State.SUCCEEDED
    assert job.result == encode({"exit": 0, "tail": f"{number}\ncareful"}, what="result")
    assert await logged(store, number) == [
        ("info", f"duly.job.duly.shell: {number}"),
        ("warning", "duly.job.duly.shell: careful"),
    ]


async def test_how_a_program_failed_is_the_reason_of_its_job(store: Store) -> None:
    async with at_work(store, *SHELL) as shift:
        [number] = await shift.enqueue("duly.shell", line="echo no disk; exit 3")
        job = await shift.ended(number)
    assert job.state == State.FAILED
    assert "exit 3: no disk" in job.reason


@pytest.mark.parametrize("is_late", [True, False], ids=["timed out", "cancelled"])
async def test_a_job_that_is_ended_leaves_no_program(
    store: Store, tmp_path: Path, is_late: bool
) -> None:
    async with at_work(store, *SHELL) as shift:
        timeout = timedelta(seconds=1) if is_late else None
        [number] = await shift.enqueue(
            "duly.shell", line=FAMILY, cwd=str(tmp_path), timeout=timeout
        )
        programs = [await number_in(tmp_path / name) for name in ("child", "parent")]
        assert all(map(is_alive, programs))
        if not is_late:
            await store.jobs.cancel(number, reason="ada said so")
        job = await shift.ended(number)
        assert not any(map(is_alive, programs))
        assert shift.heard(JobStuck) == []
    assert job.state == (State.FAILED if is_late else State.CANCELLED)


async def test_a_request_is_repeated_with_the_same_key(store: Store) -> None:
    async with serving() as server:
        server.answers["/"] = lambda _: answered(200 if len(server.asked) > 1 else 500)
        here: list[Definition] = definitions(["http"], networks=["127.0.0.1"])
        async with at_work(store, *here) as shift:
            again = Retry(attempts=2, backoff=["1ms"])
            [number] = await shift.enqueue("duly.http", url=server.url(), retry=again)
            job = await shift.ended(number)
    assert (job.state, job.attempt) == (State.SUCCEEDED, 2)
    assert [asked.headers["idempotency-key"] for asked in server.asked] == [str(number)] * 2
