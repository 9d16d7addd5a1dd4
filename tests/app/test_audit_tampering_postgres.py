"""All that ``test_audit_tampering`` says, on PostgreSQL; which can also empty a table at once."""

import psycopg
import pytest

from tests.app.test_audit_tampering import *  # noqa: F403
from tests.app.test_audit_tampering import Hand


@pytest.fixture
def url(postgres_url: str) -> str:
    return postgres_url


def test_the_table_is_not_emptied_at_once(hand: Hand) -> None:
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="truncate was refused"):
        hand.does("truncate duly.audit")
