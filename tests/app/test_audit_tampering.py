"""The audit log refuses to be changed; and who takes its guards away first is found out.

By hand, below everything that duly does. On SQLite.
"""

import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import closing

import psycopg
import pytest

from duly.app import Store, migrate_store, open_store
from duly.model.access import Actor, AuditedAction
from duly.store.access import PAGE

ADA = Actor("ada", "command")
ENTRIES = 6
GUARDS_AWAY = {
    "postgresql": ["alter table duly.audit disable trigger user"],
    "sqlite": [
        "drop trigger duly_audit_is_not_changed",
        "drop trigger duly_audit_is_not_deleted",
    ],
}


class Hand:
    """Does something to the tables, as anybody with the right to write could."""

    def __init__(self, connection: "psycopg.Connection | sqlite3.Connection") -> None:
        self._connection = connection

    def does(self, said: str) -> None:
        if isinstance(self._connection, sqlite3.Connection):
            self._connection.execute(said.replace("duly.", "duly_"))
        else:
            self._connection.execute(said.encode())

    def takes_the_guards_away(self) -> None:
        on_sqlite = isinstance(self._connection, sqlite3.Connection)
        for said in GUARDS_AWAY["sqlite" if on_sqlite else "postgresql"]:
            self.does(said)


@pytest.fixture
async def store(url: str) -> AsyncIterator[Store]:
    await migrate_store(url)
    store = await open_store(url)
    for number in range(ENTRIES):
        await store.access.append_audit(ADA, AuditedAction("tick", f"{number}"))
    assert await store.access.verify_audit() is None
    yield store
    await store.close()


@pytest.fixture
def hand(url: str, store: Store) -> Iterator[Hand]:
    if url.startswith("postgresql:"):
        with psycopg.connect(url, autocommit=True) as server:
            yield Hand(server)
    else:
        with closing(sqlite3.connect(url, isolation_level=None)) as file:
            yield Hand(file)


@pytest.mark.parametrize(
    "said",
    [
        "update duly.audit set who = 'eve' where number = 3",
        "update duly.audit set who = who",
        "delete from duly.audit where number = 6",
        "delete from duly.audit",
    ],
)
async def test_the_database_refuses_to_change_what_was_written(
    store: Store, hand: Hand, said: str
) -> None:
    with pytest.raises(
        (sqlite3.IntegrityError, psycopg.errors.InsufficientPrivilege),
        match="the audit log is only ever added to",
    ):
        hand.does(said)
    assert len(await store.access.audit()) == ENTRIES
    assert await store.access.verify_audit() is None


@pytest.mark.parametrize(
    ("said", "broken"),
    [
        ("update duly.audit set who = 'eve' where number = 3", 3),
        ("update duly.audit set at = at + 1 where number = 1", 1),
        ("update duly.audit set details = '{ }' where number = 6", 6),
        ("update duly.audit set hash = previous where number = 4", 4),
        ("delete from duly.audit where number = 1", 1),
        ("delete from duly.audit where number = 4", 4),
        ("delete from duly.audit where number = 6", 6),
        ("delete from duly.audit where number > 2", 3),
        ("delete from duly.audit", 1),
        ("update duly.audit set number = 70 where number = 6", 6),
        ("update duly.audit_head set number = 5", 6),
        ("update duly.audit_head set hash = ''", 6),
        ("delete from duly.audit_head", 1),
        (
            "insert into duly.audit select 7, at, 'eve', how, action, subject, details, 1, hash,"
            " previous from duly.audit where number = 6",
            7,
        ),
    ],
)
async def test_what_was_changed_all_the_same_is_found(
    store: Store, hand: Hand, said: str, broken: int
) -> None:
    hand.takes_the_guards_away()
    hand.does(said)
    assert await store.access.verify_audit() == broken


async def test_a_chain_of_several_pages_is_walked_to_its_end(store: Store, hand: Hand) -> None:
    for number in range(ENTRIES, PAGE + 10):
        await store.access.append_audit(ADA, AuditedAction("tick", f"{number}"))
    assert await store.access.verify_audit() is None
    hand.does("update duly.audit_head set number = number + 1")
    assert await store.access.verify_audit() == PAGE + 11
