"""Networks, clocks, disks and backups against nodes, short; `make campaign` tells all in full."""

from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TypeAlias

import pytest

from tests.acceptance.fleet import Impossible
from tests.acceptance.report import Report
from tests.acceptance.stories.clocks import clocks_disagree, the_clock_steps
from tests.acceptance.stories.disk import the_disk_is_full
from tests.acceptance.stories.kills import Weather
from tests.acceptance.stories.network import answers_are_lost, nothing_arrives
from tests.acceptance.stories.restored import a_backup_is_restored
from tests.acceptance.stories.soak import nodes_work_for_long
from tests.acceptance.stories.torture import a_file_is_tortured
from tests.infrastructure.cluster import Cluster, running_cluster
from tests.infrastructure.postgres import CHOSEN

pytestmark = pytest.mark.thorough("breaks in a row of ways what other tests break one by one")

Story: TypeAlias = Callable[[str, Path], Awaitable[Report]]

GUSTS = Weather(seconds=6, pause=1.5, schedules=10, nodes=4)
ON_POSTGRES: dict[str, Story] = {
    "half of the nodes are cut off": partial(nothing_arrives, cuts=1, seconds=5, lease=3),
    "answers to commits are lost": partial(answers_are_lost, seconds=6),
    "clocks of nodes are an hour apart": partial(clocks_disagree, weather=GUSTS),
    "nodes work for long": partial(nodes_work_for_long, seconds=6, every=1),
}
ON_SQLITE: dict[str, Story] = {
    "the clock is set": partial(the_clock_steps, weather=GUSTS),
    "a file is tortured": partial(a_file_is_tortured, seconds=6, cuts=20),
    "nodes work for long": partial(nodes_work_for_long, seconds=6, every=1),
}


@pytest.fixture
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    *_, programs = request.config.stash[CHOSEN].values()
    with running_cluster(programs, durable=True) as cluster:
        yield cluster


@pytest.mark.parametrize("name", ON_POSTGRES)
async def test_on_postgres(name: str, pg_dsn: str, tmp_path: Path) -> None:
    kept(await ON_POSTGRES[name](pg_dsn, tmp_path))


@pytest.mark.parametrize("name", ON_SQLITE)
async def test_on_sqlite(name: str, tmp_path: Path) -> None:
    kept(await ON_SQLITE[name](str(tmp_path / "duly.db"), tmp_path))


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
async def test_a_full_disk_costs_no_promise(
    store: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    *_, programs = request.config.stash[CHOSEN].values()
    story = the_disk_is_full(
        tmp_path, programs=programs if store == "postgres" else None, seconds=4
    )
    try:
        kept(await story)
    except Impossible as reason:
        pytest.skip(str(reason))


async def test_a_backup_that_is_restored_under_nodes_is_caught_up_with(
    cluster: Cluster, tmp_path: Path
) -> None:
    kept(await a_backup_is_restored(tmp_path, cluster=cluster, restores=1, seconds=3))


def kept(report: Report) -> None:
    assert report.broken == [], report
