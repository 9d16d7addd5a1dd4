"""All that ``test_flow_page`` says, on PostgreSQL."""

import pytest

from tests.app.test_flow_page import *  # noqa: F403


@pytest.fixture
def url(postgres_url: str) -> str:
    return postgres_url
