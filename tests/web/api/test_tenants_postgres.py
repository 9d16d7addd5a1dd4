"""All that ``test_tenants`` says, on PostgreSQL."""

import pytest

from tests.web.api.test_tenants import *  # noqa: F403


@pytest.fixture
def url(postgres_url: str) -> str:
    return postgres_url
