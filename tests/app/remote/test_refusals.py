"""What is refused from afar, in which words, and by which exit code; and what is never said."""

import asyncio
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from duly.errors import InvalidValue, NotAllowed, NotFound, WrongState
from duly.model.access import ROLES, Actor, User
from duly.model.event import Emitted
from duly.model.limit import Queue
from duly.model.payload import Json
from duly.model.schedule import Plan, StoredSchedule
from duly.remote.calls import CALLS, answer, call_of
from duly.remote.store import RemoteStore
from tests.app.remote.server import Elsewhere, elsewhere
from tests.app.remote.test_commands import afar, duly, token_file
from tests.factories import call, plan


@pytest.fixture
def there(url: str) -> Iterator[Elsewhere]:
    with elsewhere(url) as there:
        there.do(lambda store: store.schedules.add([plan("report", args='{"password":"hunter2"}')]))
        yield there


@pytest.fixture
def viewer(there: Elsewhere, tmp_path: Path) -> str:
    return token_file(there, tmp_path, "screen", "viewer")


@pytest.fixture
def operator(there: Elsewhere, tmp_path: Path) -> str:
    return token_file(there, tmp_path, "robot", "operator")


# Who may.


def test_a_viewer_may_look_and_may_not_touch(there: Elsewhere, viewer: str) -> None:
    assert afar(there, viewer, "schedules").exit_code == 0
    refused = afar(there, viewer, "schedules", "pause", "report")
    assert refused.exit_code == 1
    assert refused.stderr.splitlines()[1] == (
        f"Error: the token in {viewer} lacks the role: schedules.pause needs the role operator, "
        "but screen has the role viewer"
    )
    assert there.do(lambda store: store.schedules.get("report")).pause is None


def test_an_operator_makes_no_tokens(there: Elsewhere, operator: str) -> None:
    refused = afar(there, operator, "tokens", "create", "more", "--role", "admin")
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert "access.create_token needs the role admin" in refused.stderr


def test_a_token_of_one_tenant_sees_nothing_of_the_others(there: Elsewhere, tmp_path: Path) -> None:
    token = token_file(there, tmp_path, "acme", "admin", tenant="acme")
    refused = afar(there, token, "jobs", "show", "1")
    assert refused.exit_code == 1
    assert "acme may only use the tenant acme, but commands see every tenant" in (refused.stderr)


def test_a_token_that_nobody_knows_is_refused_by_its_file_and_never_said(
    there: Elsewhere, tmp_path: Path
) -> None:
    file = tmp_path / "old.token"
    file.write_text("duly_revoked-long-ago\n")
    file.chmod(0o600)
    refused = afar(there, str(file), "status")
    assert refused.exit_code == 1
    assert f"{there.url} does not accept the token in {file}" in refused.stderr
    assert "revoked-long-ago" not in refused.output


@pytest.mark.parametrize("role", ROLES)
async def test_every_call_is_refused_to_who_has_not_its_role(role: str) -> None:
    for noun, verb in CALLS:
        lower = ROLES[: ROLES.index(call_of(noun, verb).role)]
        if role in lower:
            with pytest.raises(NotAllowed, match=f"needs the role {call_of(noun, verb).role}"):
                await answer(None, noun, verb, b"{}", user=User("eve", role))  # type: ignore[arg-type]


def test_a_viewer_reads_no_secrets_whatever_they_ask_with(there: Elsewhere) -> None:
    body = there.do(
        lambda store: answer(store, "schedules", "get", b'{"name":"report"}', user=User("eve"))
    )
    assert json.loads(body)["plan"]["args"] == '{"password":"***"}'


def test_a_viewer_reads_no_secrets_of_events_and_queues(there: Elsewhere) -> None:
    said = Emitted(name="paid", payload=Json('{"password":"hunter2","card":{"token":"hunter2"}}'))
    [number] = there.do(lambda store: store.events.emit([said]))
    there.do(lambda store: store.work.set_queue(Queue(name="mail", note="password=hunter2")))
    for noun, verb, words in (
        ("events", "get", {"number": number}),
        ("events", "find", {"numbers": [number]}),
        ("events", "page", {}),
        ("work", "queues", {}),
    ):
        body = json.dumps(words).encode()
        eve, robot = User("eve"), User("robot", "operator")
        seen = there.do(partial(answer, noun=noun, verb=verb, body=body, user=eve))
        assert b"***" in seen, verb
        assert b"hunter2" not in seen, verb
        assert b"hunter2" in there.do(partial(answer, noun=noun, verb=verb, body=body, user=robot))


def test_changes_are_recorded_under_the_name_of_the_token_not_of_the_caller(
    there: Elsewhere, operator: str
) -> None:
    store = RemoteStore(there.url, token_file=operator)

    async def paused(_: object) -> StoredSchedule:
        await store.acting(Actor("the boss", "program")).schedules.pause("report")
        await store.close()
        return await there.store.schedules.get("report")

    pause = there.do(paused).pause
    assert pause is not None
    assert pause.by == "robot"
    asked = b'{"name":"report","who":"the boss"}'
    with pytest.raises(InvalidValue, match="who: no such argument"):
        there.do(
            lambda here: answer(here, "schedules", "pause", asked, user=User("robot", "operator"))
        )


def test_a_job_is_submitted_by_the_token(there: Elsewhere, operator: str) -> None:
    store = RemoteStore(there.url, token_file=operator)

    async def enqueued(_: object) -> str:
        [number] = await store.jobs.enqueue([call("send", submitter="the boss")])
        await store.close()
        return (await there.store.jobs.get(number)).submitter

    assert there.do(enqueued) == "robot"


# What is asked.


@pytest.mark.parametrize(
    ("noun", "verb", "body", "said"),
    [
        ("schedules", "get", b"{}", "schedules.get: name: missing"),
        ("schedules", "get", b'{"name":7}', "name=7: text"),
        ("schedules", "get", b'{"name":"a","mood":1}', "schedules.get: mood: no such argument"),
        ("schedules", "get", b"[]", "the body must be a JSON object"),
        ("schedules", "get", b"{", "the body is not valid JSON: "),
        ("schedules", "page", b'{"limit":1000000}', "limit=1000000: expected 0 to 10,000"),
        ("jobs", "get", b'{"number":true}', "number=True: a whole number"),
        ("jobs", "enqueue", b'{"calls":[{"task":""}]}', "the names of a task and a queue"),
    ],
)
async def test_a_question_that_is_none_is_refused_with_its_argument(
    noun: str, verb: str, body: bytes, said: str
) -> None:
    with pytest.raises(InvalidValue, match=f"^{said}"):
        await answer(None, noun, verb, body, user=User("ada", "admin"))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("noun", "verb"),
    [("work", "claim"), ("maintenance", "prune"), ("jobs", "__class__"), ("x", "get")],
)
async def test_what_is_not_in_the_table_is_not_there(noun: str, verb: str) -> None:
    with pytest.raises(NotFound, match=f"^{noun}.{verb} is not offered over HTTP"):
        await answer(None, noun, verb, b"{}", user=User("ada", "admin"))  # type: ignore[arg-type]


def test_what_is_not_there_is_not_found_from_afar_either(
    there: Elsewhere, viewer: str, url: str
) -> None:
    away = afar(there, viewer, "schedules", "show", "repart")
    here = duly("schedules", "show", "repart", "--store", url)
    assert (away.exit_code, here.exit_code) == (3, 3)
    assert away.stderr.splitlines()[1:] == here.stderr.splitlines()[1:]


# Two who edit at once.


def test_an_edit_is_made_again_if_somebody_was_quicker(there: Elsewhere, operator: str) -> None:
    seen: list[str] = []

    def change(plan: Plan) -> Plan:
        seen.append(plan.title)
        if len(seen) == 1:
            there_edits(there, title="theirs")
        return replace(plan, queue="slow")

    edited = edit_from_afar(there, operator, change)
    assert seen == ["", "theirs"]
    assert (edited.title, edited.queue) == ("theirs", "slow")


def test_an_edit_that_others_are_always_quicker_than_is_given_up(
    there: Elsewhere, operator: str
) -> None:
    def change(plan: Plan) -> Plan:
        there_edits(there, title=f"{plan.title}x")
        return replace(plan, queue="slow")

    with pytest.raises(WrongState, match='"report" was changed by somebody else in the meantime'):
        edit_from_afar(there, operator, change)
    assert there.do(lambda store: store.schedules.get("report")).plan.title == "xxxxx"


def there_edits(there: Elsewhere, *, title: str) -> None:
    there.do(lambda store: store.schedules.edit("report", lambda plan: replace(plan, title=title)))


def edit_from_afar(there: Elsewhere, token: str, change: Callable[[Plan], Plan]) -> Plan:
    async def edited() -> Plan:
        store = RemoteStore(there.url, token_file=token)
        try:
            return (await store.schedules.edit("report", change)).plan
        finally:
            await store.close()

    return asyncio.run(edited())
