"""Those who end the steps of a flow, against each other and against whoever stops it."""

from tests.store.postgres.interleavings.actors import Scene
from tests.store.postgres.interleavings.flow_cases import (
    an_end_and_a_cancellation,
    an_event_and_a_step_that_begins_to_wait,
    two_ends_before_a_join,
)


async def test_a_join_starts_once_whoever_of_two_ends_last(scene: Scene) -> None:
    found = await two_ends_before_a_join(scene)
    assert not found.broken, found


async def test_a_flow_that_is_cancelled_while_its_steps_end_comes_to_an_end(
    locking: Scene,
) -> None:
    found = await an_end_and_a_cancellation(locking)
    assert not found.broken, found


async def test_a_step_is_answered_whether_it_or_its_event_is_committed_first(
    scene: Scene,
) -> None:
    found = await an_event_and_a_step_that_begins_to_wait(scene)
    assert not found.broken, found
