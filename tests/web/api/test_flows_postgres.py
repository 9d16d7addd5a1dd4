"""All that ``test_flows`` says, on PostgreSQL."""

import pytest

from tests.web.api.test_flows import *  # noqa: F403


@pytest.fixture
def url(postgres_url: str) -> str:
    return postgres_url
