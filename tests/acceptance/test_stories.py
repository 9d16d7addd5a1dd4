"""Every story, short; `make campaign` tells them in full length.

What is judged here holds however slow the machine is. How soon things happen is judged there.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import TypeAlias

import pytest

from tests.acceptance.fleet import Impossible
from tests.acceptance.report import Report
from tests.acceptance.stories.fairness import a_flood_of_high, a_tenant_floods
from tests.acceptance.stories.flows import flows_are_completed
from tests.acceptance.stories.gone import a_node_is_gone
from tests.acceptance.stories.kills import (
    Weather,
    nodes_are_killed,
    nodes_are_killed_under_the_defaults,
)
from tests.acceptance.stories.limits import limits_are_kept
from tests.acceptance.stories.poison import a_pill_is_poisoned
from tests.acceptance.stories.stopping import nodes_are_stopped
from tests.acceptance.stories.zombie import a_node_sleeps

Story: TypeAlias = Callable[[str, Path], Awaitable[Report]]

GUSTS = Weather(seconds=5, pause=1.0)
STORIES: dict[str, Story] = {
    "the jobs of a node that is gone are done by its neighbours": partial(
        a_node_is_gone, job=1, lease=3
    ),
    "the jobs of a machine that is gone are done when its lease is over": partial(
        a_node_is_gone, job=1, lease=2, apart=True
    ),
    "what a node writes that slept past its lease is refused": partial(
        a_node_sleeps, lease=2, asleep=3
    ),
    "a poisoned pill is given up and its neighbours are done": partial(
        a_pill_is_poisoned, neighbours=300
    ),
    "kills neither lose nor double a moment": partial(nodes_are_killed, weather=GUSTS),
    "kills leave every moment accounted for and no schedule overlaps": partial(
        nodes_are_killed_under_the_defaults, weather=GUSTS
    ),
    "nodes that are told to stop finish what they run": partial(nodes_are_stopped, stops=2),
    "a tenant with many jobs does not delay another": partial(
        a_tenant_floods, jobs=5_000, rounds=5
    ),
    "low work is not starved by a flood of high": partial(a_flood_of_high, seconds=10),
    "limits are kept while nodes are killed": partial(limits_are_kept, seconds=4, pause=1.5),
    "flows are completed exactly while nodes are killed": partial(
        flows_are_completed, seconds=4, pause=0.7
    ),
}

elsewhere = pytest.mark.thorough("make test tells each story on one of the databases")


def told(turn: int) -> pytest.MarkDecorator:
    """Every story, of which every second one is told in ``make test``."""
    return pytest.mark.parametrize(
        "story",
        [
            pytest.param(
                story, id=name.replace(" ", "-"), marks=[] if place % 2 == turn else [elsewhere]
            )
            for place, (name, story) in enumerate(STORIES.items())
        ],
    )


@told(turn=1)
async def test_on_sqlite(story: Story, tmp_path: Path) -> None:
    await judge(story, str(tmp_path / "duly.db"), tmp_path)


@told(turn=0)
async def test_on_postgres(story: Story, pg_dsn: str, tmp_path: Path) -> None:
    await judge(story, pg_dsn, tmp_path)


async def judge(story: Story, url: str, folder: Path) -> None:
    try:
        report = await story(url, folder)
    except Impossible as reason:
        pytest.skip(str(reason))
    assert report.broken == [], report
