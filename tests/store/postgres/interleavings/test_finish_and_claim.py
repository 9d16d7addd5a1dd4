"""Workers that finish and claim in one statement, against each other and those who take back."""

from tests.store.postgres.interleavings.actors import Scene
from tests.store.postgres.interleavings.finish_and_claim_cases import (
    a_turn_and_one_that_is_given_back,
    a_zombie_in_passing_and_its_successor,
    an_edit_and_an_end_in_passing,
    two_turns,
)


async def test_turns_share_what_there_is(scene: Scene) -> None:
    found = await two_turns(scene)
    assert not found.broken, found


async def test_a_fence_does_not_fall_in_passing(scene: Scene) -> None:
    found = await a_turn_and_one_that_is_given_back(scene)
    assert not found.broken, found


async def test_a_zombie_that_finishes_in_passing_and_its_successor(scene: Scene) -> None:
    found = await a_zombie_in_passing_and_its_successor(scene)
    assert not found.broken, found


async def test_a_schedule_that_stops_to_overlap_waits_for_what_ends_in_passing(
    scene: Scene,
) -> None:
    found = await an_edit_and_an_end_in_passing(scene)
    assert not found.broken, found
