"""All that ``test_once`` says, on PostgreSQL."""

import pytest

from tests.web.api.test_once import *  # noqa: F403


@pytest.fixture
def url(postgres_url: str) -> str:
    return postgres_url
