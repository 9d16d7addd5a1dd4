"""All that ``test_http_worker`` says, on PostgreSQL."""

import pytest

from tests.app.fixtures import furnished as furnished  # noqa: PLC0414 - a fixture
from tests.app.fixtures import postgres_url as postgres_url  # noqa: PLC0414
from tests.web.test_http_worker import *  # noqa: F403


@pytest.fixture  # type: ignore[no-redef] # instead of the other
def url(postgres_url: str) -> str:
    return postgres_url
