"""All that ``test_numbers`` says, on PostgreSQL."""

import pytest

from tests.web.api.test_numbers import *  # noqa: F403


@pytest.fixture
def url(postgres_url: str) -> str:
    return postgres_url
