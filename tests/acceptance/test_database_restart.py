"""The database goes away and comes back: no node ends, nothing is lost, nothing doubled."""

import random
import time
from pathlib import Path

from tests.acceptance.storm import storm
from tests.infrastructure.cluster import Cluster, installed_programs, running_cluster


async def test_nodes_outlive_a_database_that_crashes_and_returns(tmp_path: Path) -> None:
    *_, programs = installed_programs().values()
    # A server that does not wait for its disk forgets what it promised when it crashes.
    with running_cluster(programs, durable=True) as cluster:
        result = await storm(
            cluster.dsn,
            tmp_path,
            nodes=2,
            schedules=50,
            seconds=7,
            pause=2.5,
            blow=lambda: crash(cluster),
        )
    assert result.kills >= 2
    assert result.due >= 200
    assert (result.lost, result.doubled) == ([], [])


def crash(cluster: Cluster) -> None:
    cluster.stop()
    time.sleep(random.uniform(0, 1))  # noqa: TID251 - the database is really away that long
    cluster.start()
