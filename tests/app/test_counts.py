"""Whether a moment was kept: one word for it, wherever moments are shown or counted."""

import pytest

from duly.model.fire import Cause, Outcome
from duly.model.states import State
from duly.store.values import Tally
from duly.views.fires import Counts, Kept, counted, kept_word

SKIPPED, QUEUED, MERGED = Outcome.SKIPPED, Outcome.QUEUED, Outcome.MERGED


@pytest.mark.parametrize(
    ("outcome", "cause", "state", "word"),
    [
        (SKIPPED, Cause.PAUSED, None, "none"),
        (SKIPPED, Cause.EXCLUDED, None, "none"),
        (SKIPPED, Cause.OVERLAP, None, "not kept"),
        (SKIPPED, Cause.LATE, None, "not kept"),
        (QUEUED, None, State.FAILED, "not kept"),
        (QUEUED, None, State.CANCELLED, "none"),
        (QUEUED, None, State.RUNNING, "under way"),
        (MERGED, Cause.OVERLAP, State.SUCCEEDED, "none"),
        (QUEUED, None, None, "kept"),
    ],
)
def test_a_moment_is_kept_or_somebody_wanted_it_so(
    outcome: Outcome, cause: Cause | None, state: State | None, word: Kept
) -> None:
    assert kept_word(outcome, cause, state) == word


def test_what_is_late_was_kept_all_the_same() -> None:
    assert kept_word(QUEUED, None, State.SUCCEEDED, late=True) == "late"
    tally = Tally(outcome=QUEUED, cause=None, state=State.SUCCEEDED, moments=5, late=2)
    assert counted([tally]) == Counts(kept=5, late=2)
