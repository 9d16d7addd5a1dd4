"""What tests of the doctor ask for."""

from collections.abc import AsyncIterator

import pytest

from tests.app.doctor.patients import at_work
from tests.app.fixtures import furnished, postgres_url, url
from tests.conformance.world import World

__all__ = ["furnished", "postgres_url", "url"]


@pytest.fixture
async def world(url: str) -> AsyncIterator[World]:
    async with at_work(url) as there:
        yield there


@pytest.fixture
async def postgres_world(postgres_url: str) -> AsyncIterator[World]:
    async with at_work(postgres_url) as there:
        yield there
