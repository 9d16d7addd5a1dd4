"""Steps that wait for something to happen, and what has happened.

Not by catching the moment: a step is compared with the events that are written down when it begins
to wait, and when an event comes that it may wait for. Which ones are to be compared is written down
too, in the transaction of whatever makes it necessary, so it does not matter which of the two came
first. However many steps wait, only those are looked at.
"""

import json

from duly.model.states import State
from duly.store.database import Ask, Operation
from duly.store.ending import Ending
from duly.store.event_rows import BEGINNING
from duly.store.ids import Ids
from duly.store.settling import Ended, end


def compare_unseen(limit: int) -> Operation[int]:
    """Note the steps that wait for events which nobody has looked at; return how many events."""
    asked = {"limit": limit, "at": BEGINNING.at, "id": BEGINNING.id}
    numbers = [number for number, *_ in (yield Ask("unseen_events", asked))]
    if numbers:
        yield Ask("compare_events", {"ids": numbers})
    return len(numbers)


def answer(limit: int, *, ids: Ids) -> Operation[tuple[Ended, int]]:
    """End the jobs whose event has come, each with what that says as its result.

    Return also how many were compared.
    """
    found = yield Ask("answered_jobs", {"limit": limit})
    if not found:
        return Ended([], []), 0
    endings = {
        number: Ending(State.SUCCEEDED, f"{name} happened (event {event})", result=payload)
        for number, _, event, name, payload in found
        if event is not None
    }
    ended = Ended([], [])
    if endings:
        peeked = yield Ask("peek_jobs", {"ids": list(endings)})
        ended = yield from end(endings, peeked, ids=ids)
    compared = [[number, event] for number, event, *_ in found]
    yield Ask("forget_compared", {"rows": json.dumps(compared)})
    return ended, len(found)
