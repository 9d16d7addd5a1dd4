"""A virtual clock for tests."""

from collections.abc import Callable
from datetime import datetime, timedelta


class VirtualClock:
    """A clock that stands still until it is advanced or set; usable wherever a clock is expected.

    With ``elapsed`` (a virtual loop's ``time``, say) it also advances by itself, and ``advance``
    and ``set`` are then jumps: one such clock for each simulated node, each wrong in its own way.
    """

    def __init__(self, start: datetime, *, elapsed: Callable[[], float] = lambda: 0.0) -> None:
        _check(start)
        self._elapsed = elapsed
        self._origin = start - self._gone()

    def __call__(self) -> datetime:
        return self.now()

    def now(self) -> datetime:
        return self._origin + self._gone()

    def advance(self, by: timedelta) -> None:
        """Move the clock forward or back."""
        self._origin += by

    def set(self, moment: datetime) -> None:
        _check(moment)
        self._origin = moment - self._gone()

    def _gone(self) -> timedelta:
        return timedelta(seconds=self._elapsed())


def _check(moment: datetime) -> None:
    if moment.tzinfo is None:
        raise ValueError(f"{moment!r} is naive: a time needs a zone, as in datetime(…, tzinfo=UTC)")
