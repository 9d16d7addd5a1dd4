"""Tokens and the audit log, as a program and whoever acts for a person use them. On SQLite."""

import inspect
import json
import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from duly import Duly
from duly.app.access import Audit, NewSecret, Tokens, commanded, login
from duly.app.capacity import Limits, Queues
from duly.app.nouns import StoreNouns
from duly.clock import now
from duly.connection import OpenStore
from duly.errors import InvalidValue, NotFound, RuleError, WrongState
from duly.model.access import Actor, Token, hash_of
from tests.factories import plan


@pytest.fixture
def app(url: str) -> Iterator[Duly]:
    app = Duly(url)
    yield app
    app.close()


def found(app: Duly, made: NewSecret) -> Token | None:
    """What a request with the secret would find."""
    wanted = hash_of(made.secret)
    home = app._lazy
    return home.call(lambda store: store.access.find_token(wanted), async_name="")


def test_a_token_is_made_listed_and_revoked(app: Duly) -> None:
    made = app.tokens.create("ci", role="operator", tenant="acme", expires="30d")
    assert re.fullmatch(r"duly_[\w-]{43}", made.secret)
    token = made.token
    assert (token.name, token.role, token.tenant, token.created_by) == (
        "ci",
        "operator",
        "acme",
        login(),
    )
    assert token.expires_at is not None
    assert round((token.expires_at - now()) / timedelta(days=1)) == 30
    assert found(app, made) == token
    [listed] = app.tokens.list()
    assert listed.id == token.id
    app.tokens.revoke("ci")
    assert found(app, made) is None
    assert app.tokens.list() == []
    assert [one.id for one in app.tokens.list(revoked=True)] == [token.id]


def test_a_secret_is_not_in_what_is_printed_nor_in_the_store(app: Duly, url: str) -> None:
    made = app.tokens.create("ci", role="viewer")
    other = app.tokens.create("wall", role="viewer")
    assert made.secret != other.secret
    assert made.secret not in repr(made)
    entry = app.audit.list()[-1]
    assert (entry.action, entry.subject, entry.how) == ("tokens.create", "token:ci", "program")
    assert made.secret not in repr(app.audit.list())
    assert hash_of(made.secret) not in repr(app.audit.list())
    if not url.startswith("postgresql:"):
        app.close()
        assert made.secret.encode() not in Path(url).read_bytes()


def test_a_token_ends_after_ninety_days_or_as_is_said_or_never(app: Duly) -> None:
    ends = [
        app.tokens.create("a", role="viewer").token.expires_at,
        app.tokens.create("b", role="viewer", expires=now() + timedelta(days=1)).token.expires_at,
        app.tokens.create("c", role="viewer", expires=None).token.expires_at,
    ]
    days = [None if end is None else round((end - now()) / timedelta(days=1)) for end in ends]
    assert days == [90, 1, None]


def test_what_cannot_be_a_token_is_refused(app: Duly) -> None:
    app.tokens.create("ci", role="viewer")
    with pytest.raises(WrongState, match='a token "ci" exists already: revoke it first'):
        app.tokens.create("ci", role="admin")
    with pytest.raises(InvalidValue, match="choose one of viewer, operator, admin"):
        app.tokens.create("b", role="root")  # type: ignore[arg-type]
    with pytest.raises((InvalidValue, RuleError), match="30"):
        app.tokens.create("b", role="viewer", expires=30)  # type: ignore[arg-type]
    with pytest.raises(InvalidValue, match="is in the past"):
        app.tokens.create("b", role="viewer", expires=now() - timedelta(hours=1))
    with pytest.raises(NotFound, match='there is no token "b"'):
        app.tokens.revoke("b")
    assert [one.name for one in app.tokens.list(revoked=True)] == ["ci"]


@pytest.mark.parametrize("noun", [Tokens, Audit], ids=lambda noun: noun.__name__)
def test_every_verb_has_a_twin_that_takes_the_same(noun: type) -> None:
    verbs = {name: verb for name, verb in vars(noun).items() if name[0] != "_"}
    plain = [name for name in verbs if not (name[0] == "a" and name[1:] in verbs)]
    assert plain
    for name in plain:
        assert inspect.signature(verbs[f"a{name}"]) == inspect.signature(verbs[name])
        assert inspect.iscoroutinefunction(verbs[f"a{name}"])


async def test_everything_can_be_awaited(app: Duly) -> None:
    made = await app.tokens.acreate("ci", role="admin")
    assert [one.id for one in await app.tokens.alist()] == [made.token.id]
    await app.tokens.arevoke("ci")
    entries = await app.audit.alist(subject="token:ci")
    assert [entry.action for entry in entries] == ["tokens.revoke", "tokens.create"]
    assert await app.audit.alist(after=1, limit=5) == entries[:1]
    assert await app.audit.averify() is None
    await app.aclose()


async def test_what_the_facade_does_for_somebody_is_in_the_audit_log(app: Duly) -> None:
    """As the HTTP side does it: a store that acts in their name, and the same verbs on it."""
    store = (await app._lazy.store()).acting(Actor("ada", "person"))
    await store.schedules.add([plan("report")])
    await StoreNouns(store).schedules.apause("report", note="holiday")
    await Queues(OpenStore(store)).apause("mail", note="the relay is down")
    await Limits(OpenStore(store)).aset("crm", concurrency=2)
    await Tokens(OpenStore(store)).acreate("ci", role="viewer")
    entries = (await app.audit.alist())[::-1]
    assert [(entry.action, entry.subject) for entry in entries] == [
        ("schedules.add", "schedule:report"),
        ("schedules.pause", "schedule:report"),
        ("queues.set", "queue:mail"),
        ("limits.set", "limit:crm"),
        ("tokens.create", "token:ci"),
    ]
    assert {(entry.who, entry.how) for entry in entries} == {("ada", "person")}
    assert json.loads(entries[2].details)["note"] == "the relay is down"
    assert commanded(store).actor == Actor(login(), "command")
    assert await app.audit.averify() is None
    await app.aclose()


async def test_what_a_program_does_by_itself_is_not_somebodys(app: Duly) -> None:
    """It may add a schedule for each of its users, and they must not wait for each other."""
    await app.queues.apause("mail")
    await app.limits.aset("crm", concurrency=2)
    assert await app.audit.alist() == []
    await app.aclose()
