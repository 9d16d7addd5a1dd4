"""Emit events inside the caller's own transaction, on any supported connection.

One statement writes. The events are committed or rolled back with the caller's transaction. No
process is notified, because nothing has happened before the commit: the reactor polls.
"""

from collections.abc import Sequence

from duly.errors import InvalidValue
from duly.model.event import Emitted
from duly.store import events
from duly.store.database import Operation
from duly.store.foreign.talk import Talk, at_once, carry_out, driver_of, named, reserved
from duly.store.ids import all_new


def emit_on(connection: object, said: Sequence[Emitted]) -> list[int]:
    """Store events in the transaction of the connection; return their ids."""
    driver = driver_of(connection)
    if driver.waits:
        raise InvalidValue(f"this is {named(connection)}: await duly.aemit(…, connection=…)")
    if not said:
        return []
    talk = Talk.on(driver, connection)
    return at_once(carry_out(talk, _emit(said)))


async def aemit_on(connection: object, said: Sequence[Emitted]) -> list[int]:
    """Store events like ``emit_on``, on an asynchronous connection."""
    driver = driver_of(connection)
    if not driver.waits:
        raise InvalidValue(
            f"this is {named(connection)} of {driver.package}, which cannot be awaited: "
            "duly.emit(…, connection=…) without await"
        )
    if not said:
        return []
    if driver.relay:
        lender = await driver.relay(connection)
        return list(await lender.run_sync(emit_on, said))
    talk = Talk.on(driver, connection)
    return await carry_out(talk, _emit(said))


def _emit(said: Sequence[Emitted]) -> Operation[list[int]]:
    ids = yield from reserved(len(said))
    numbers = ids.take(len(said))
    all_new((yield events.emit(said, numbers)), len(said))
    return numbers
