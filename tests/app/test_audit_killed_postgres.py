"""All that ``test_audit_killed`` says, on PostgreSQL."""

import pytest

from tests.app.test_audit_killed import *  # noqa: F403


@pytest.fixture
def url(postgres_url: str) -> str:
    return postgres_url
