"""Whether a moment was kept: one word for it, wherever moments are shown or counted."""

import pytest

from duly.model.fire import Cause, Outcome
from duly.model.states import State
from duly.store.activity import Tally
from duly.views.fires import Counts, RunResult, counted, result_of

SKIPPED, QUEUED, MERGED = Outcome.SKIPPED, Outcome.QUEUED, Outcome.MERGED


@pytest.mark.parametrize(
    ("outcome", "cause", "state", "word"),
    [
        (SKIPPED, Cause.PAUSED, None, "none"),
        (SKIPPED, Cause.EXCLUDED, None, "none"),
        (SKIPPED, Cause.OVERLAP, None, "failed"),
        (SKIPPED, Cause.LATE, None, "failed"),
        (QUEUED, None, State.FAILED, "failed"),
        (QUEUED, None, State.CANCELLED, "none"),
        (QUEUED, None, State.RUNNING, "in progress"),
        (MERGED, Cause.OVERLAP, State.SUCCEEDED, "none"),
        (QUEUED, None, None, "succeeded"),
    ],
)
def test_a_moment_is_kept_or_somebody_wanted_it_so(
    outcome: Outcome, cause: Cause | None, state: State | None, word: RunResult
) -> None:
    assert result_of(outcome, cause, state) == word


def test_what_is_late_was_kept_all_the_same() -> None:
    assert result_of(QUEUED, None, State.SUCCEEDED, late=True) == "late"
    tally = Tally(outcome=QUEUED, cause=None, state=State.SUCCEEDED, moments=5, late=2)
    assert counted([tally]) == Counts(succeeded=5, late=2)
