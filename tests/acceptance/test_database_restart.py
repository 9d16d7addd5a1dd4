"""The database goes away and comes back: no node ends, nothing is lost, nothing doubled."""

import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.stories.kills import Weather, the_database_crashes
from tests.acceptance.storm import storm
from tests.infrastructure.cluster import Cluster, installed_programs, running_cluster


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    *_, programs = installed_programs().values()
    # A server that does not wait for its disk forgets what it promised when it crashes.
    with running_cluster(programs, durable=True) as cluster:
        yield cluster


@pytest.mark.thorough("repeats without workers")
async def test_schedulers_outlive_a_database_that_crashes_and_returns(
    cluster: Cluster, tmp_path: Path
) -> None:
    result = await storm(
        cluster.dsn,
        tmp_path,
        nodes=2,
        schedules=50,
        seconds=7,
        pause=2.5,
        least=2,
        blow=lambda: crash(cluster),
    )
    assert result.kills >= 2
    assert result.due >= 200
    assert (result.lost, result.doubled) == ([], [])


async def test_workers_outlive_a_database_that_crashes_and_returns(
    cluster: Cluster, tmp_path: Path
) -> None:
    weather = Weather(seconds=8, pause=2, schedules=10)
    report = await the_database_crashes(cluster.dsn, tmp_path, cluster=cluster, weather=weather)
    assert report.broken == [], report


def crash(cluster: Cluster) -> None:
    cluster.stop()
    time.sleep(random.uniform(0, 1))  # noqa: TID251 - the database is really away that long
    cluster.start()
