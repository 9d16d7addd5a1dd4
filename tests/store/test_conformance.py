"""The store keeps its promises on every database that it runs on."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from duly.model.job import JobRequest
from duly.store.store import Store
from duly.testing.clock import VirtualClock
from tests.conformance import Broken, Check, Make, check_store, checks, run

every_check = pytest.mark.parametrize(
    "check", [pytest.param(check, id=f"{check.noun}-{check.name}") for check in checks()]
)
# A test for each check costs more than the check. What fails is named in either case.
every_noun = pytest.mark.parametrize("noun", sorted({check.noun for check in checks()}))


@pytest.mark.thorough("repeats in memory the checks in a file")
@every_check
async def test_in_memory(check: Check, sqlite_memory: Make) -> None:
    await run(check, sqlite_memory)


@every_noun
async def test_in_a_sqlite_file(noun: str, sqlite_file: Make) -> None:
    await check_store(sqlite_file, only=about(noun))


@every_noun
async def test_in_postgresql(noun: str, postgres_with_all_features: Make) -> None:
    await check_store(postgres_with_all_features, only=about(noun))


@pytest.mark.thorough("repeats the checks with the statements of another dialect")
@every_noun
async def test_in_postgresql_without_features(noun: str, postgres_without_features: Make) -> None:
    await check_store(postgres_without_features, only=about(noun))


async def test_a_store_that_keeps_them_passes_the_suite(sqlite_memory: Make) -> None:
    await check_store(sqlite_memory, only=about("keys"))


async def test_a_store_that_breaks_promises_is_told_all_of_them(sqlite_memory: Make) -> None:
    @asynccontextmanager
    async def forgetful(clock: VirtualClock) -> AsyncIterator[Store]:
        async with sqlite_memory(clock) as store:
            enqueue = store.jobs.enqueue

            async def forget(calls: list[JobRequest]) -> list[int]:
                return (await enqueue(calls[:1]))[:1] * len(calls)

            store.jobs.enqueue = forget  # type: ignore[method-assign, assignment]
            yield store

    with pytest.raises(Broken) as broken:
        await check_store(forgetful, only=about("jobs"))
    told = str(broken.value)
    assert "thousands are enqueued in one call" in told
    assert "numbers come in the order of the calls and rise" in told
    assert "a job is ready exactly at its moment" not in told


def test_every_check_is_a_promise_of_its_own() -> None:
    names = [str(check) for check in checks()]
    assert len(names) == len(set(names)) > 250


def about(noun: str) -> list[Check]:
    return [check for check in checks() if check.noun == noun]
