"""Networks, clocks, disks and backups against nodes, short; `make campaign` tells all in full."""

from collections.abc import Awaitable, Callable, Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TypeAlias

import pytest

from duly.engine.loop import LoopLimits
from tests.acceptance.fleet import Impossible
from tests.acceptance.report import Report
from tests.acceptance.stories.bloat import a_transaction_stays_open
from tests.acceptance.stories.chronos import half_of_the_nodes_are_cut_off
from tests.acceptance.stories.clocks import clocks_disagree, the_clock_steps
from tests.acceptance.stories.disk import the_disk_is_full
from tests.acceptance.stories.frozen import every_service_is_frozen
from tests.acceptance.stories.herd import a_herd_is_due
from tests.acceptance.stories.keys import keys_are_asked_for_at_once
from tests.acceptance.stories.kills import Weather, nodes_are_killed
from tests.acceptance.stories.network import answers_are_lost, nothing_arrives
from tests.acceptance.stories.restored import a_backup_is_restored
from tests.acceptance.stories.soak import nodes_work_for_long
from tests.acceptance.stories.torture import a_file_is_tortured
from tests.infrastructure.cluster import Cluster, running_cluster
from tests.infrastructure.postgres import CHOSEN

pytestmark = pytest.mark.thorough("breaks in a row of ways what other tests break one by one")

Story: TypeAlias = Callable[[str, Path], Awaitable[Report]]

GUSTS = Weather(seconds=6, pause=1.5, schedules=10, nodes=4)
HURRIED = LoopLimits(tick=timedelta(seconds=3), grace=timedelta(seconds=5))
HERD = partial(a_herd_is_due, schedules=500, before=10, after=2)
AIMED = Weather(seconds=5, aim=0.05)
ON_POSTGRES: dict[str, Story] = {
    "half of the nodes are cut off": partial(nothing_arrives, cuts=1, seconds=5, lease=3),
    "answers to commits are lost": partial(answers_are_lost, seconds=6),
    "clocks of nodes are an hour apart": partial(clocks_disagree, weather=GUSTS),
    "nodes work for long": partial(nodes_work_for_long, seconds=6, every=1),
    "half of the nodes are cut off as by Jepsen": partial(
        half_of_the_nodes_are_cut_off, scale=0.02
    ),
    "nodes are killed when schedules are due": partial(nodes_are_killed, weather=AIMED),
    "very many schedules are due at once": partial(
        a_herd_is_due, schedules=500, before=10, after=2
    ),
    "many clients ask for the same keys": partial(keys_are_asked_for_at_once, keys=50, pause=0.5),
    "every service is frozen": partial(every_service_is_frozen, limits=HURRIED),
    "a transaction stays open": partial(a_transaction_stays_open, seconds=5),
}
ON_SQLITE: dict[str, Story] = {
    "the clock is set": partial(the_clock_steps, weather=GUSTS),
    "a file is tortured": partial(a_file_is_tortured, seconds=6, cuts=20),
    "nodes work for long": partial(nodes_work_for_long, seconds=6, every=1),
    "nodes are killed when schedules are due": partial(nodes_are_killed, weather=AIMED),
    "very many schedules are due at once": partial(
        a_herd_is_due, schedules=500, before=10, after=2
    ),
    "many clients ask for the same keys": partial(keys_are_asked_for_at_once, keys=50, pause=0.5),
    "every service is frozen": partial(every_service_is_frozen, limits=HURRIED),
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
