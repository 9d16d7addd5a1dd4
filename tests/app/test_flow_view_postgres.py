"""All that ``test_flow_view`` says, on PostgreSQL."""

import pytest

from tests.app.test_flow_view import *  # noqa: F403


@pytest.fixture
def url(postgres_url: str) -> str:
    return postgres_url
