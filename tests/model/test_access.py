"""Roles, hashes, and the chain of the audit log, as they are written down."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from hashlib import sha256

import pytest

from duly.model.access import ROLES, AuditEntry, Role, Token, hash_of
from duly.model.payload import Json

MONDAY = datetime(2026, 11, 16, tzinfo=UTC)
ENTRY = AuditEntry(
    number=7,
    at=MONDAY,
    who="ada",
    how="person",
    action="queues.set",
    subject="queue:mail",
    details=Json('{"note":"für später"}'),
    deed=5_003,
    previous="ab" * 32,
)


def token(role: Role) -> Token:
    return Token(id=1, name="ci", role=role, created_at=MONDAY, created_by="ada")


@pytest.mark.parametrize(
    ("role", "may"),
    [
        ("viewer", ["viewer"]),
        ("operator", ["viewer", "operator"]),
        ("admin", ["viewer", "operator", "admin"]),
        ("of a later version", []),
    ],
)
def test_a_role_may_do_what_those_before_it_may(role: Role, may: list[str]) -> None:
    assert [one for one in ROLES if token(role).may(one)] == may


def test_a_hash_is_made_of_all_that_an_entry_says_in_a_form_that_never_changes() -> None:
    """Anybody can check the chain: with this, and without duly."""
    said = [
        7, 1_794_787_200_000_000, "ada", "person", "queues.set", "queue:mail",
        '{"note":"für später"}', 5_003, "ab" * 32,
    ]  # fmt: skip
    text = json.dumps(said, ensure_ascii=False, separators=(",", ":"))
    assert ENTRY.digest() == sha256(text.encode()).hexdigest()
    assert ENTRY.digest() == PINNED


@pytest.mark.parametrize(
    "change",
    [
        {"number": 8},
        {"at": MONDAY.replace(microsecond=1)},
        {"who": "eve"},
        {"how": "token"},
        {"action": "queues.drop"},
        {"subject": "queue:other"},
        {"details": "{}"},
        {"deed": 5_004},
        {"previous": "cd" * 32},
    ],
    ids=str,
)
def test_whatever_is_changed_the_hash_is_another(change: dict[str, object]) -> None:
    written = replace(ENTRY, hash=ENTRY.digest())
    assert written.follows(6, ENTRY.previous)
    assert not replace(written, **change).follows(6, ENTRY.previous)  # type: ignore[arg-type]


def test_an_entry_follows_only_the_one_that_it_was_written_behind() -> None:
    written = replace(ENTRY, hash=ENTRY.digest())
    assert not written.follows(5, ENTRY.previous)
    assert not written.follows(6, "cd" * 32)


def test_any_text_has_a_hash_even_one_that_is_no_secret() -> None:
    assert len(hash_of("")) == len(hash_of("duly_\udcff\0")) == 64


PINNED = "23e85d31e64a9f1db2826bbc167c536e9fef857622cf0111517747c6a5197544"
