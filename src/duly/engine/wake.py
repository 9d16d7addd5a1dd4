"""A rest that can be cut short.

A nudge is a level, not an edge: one that comes while nobody rests ends the next rest at once, so
the moment between looking and lying down is not a gap through which it falls.
"""

import asyncio

from duly.clock import sleep


class Wake:
    """One sleeper, any number of nudgers on the same event loop."""

    def __init__(self) -> None:
        self._nudged = False
        self._sleeper: asyncio.Future[None] | None = None

    def set(self) -> None:
        self._nudged = True
        if self._sleeper is not None:
            _wake(self._sleeper)

    async def rest(self, seconds: float) -> bool:
        """Rest until nudged, or until the time has passed: whether it was a nudge.

        The others on the loop get their turn in any case.
        """
        if self._nudged or seconds <= 0:
            await sleep(0)
        else:
            await self._sleep(seconds)
        nudged, self._nudged = self._nudged, False
        return nudged

    async def _sleep(self, seconds: float) -> None:
        # By hand: asyncio.timeout ends a rest with two exceptions, and takes twice as long.
        loop = asyncio.get_running_loop()
        self._sleeper = loop.create_future()
        alarm = loop.call_later(seconds, _wake, self._sleeper)
        try:
            await self._sleeper
        finally:
            alarm.cancel()
            self._sleeper = None


def _wake(sleeper: asyncio.Future[None]) -> None:
    if not sleeper.done():
        sleeper.set_result(None)
