"""Steps that wait for something to happen, and what has happened.

Not by catching the moment: what waits is compared with what is written down, so that it does not
matter which of the two came first.
"""

from duly.model.states import State
from duly.store.database import Ask, Operation
from duly.store.ending import Ending
from duly.store.ids import Ids
from duly.store.settling import Ended, end


def answer(limit: int, *, ids: Ids) -> Operation[Ended]:
    """End the jobs whose event has come, each with what that says as its result."""
    found = yield Ask("answered_jobs", {"limit": limit})
    if not found:
        return Ended([], [])
    endings = {
        number: Ending(State.SUCCEEDED, f"{name} happened (event {event})", result=payload)
        for number, event, name, payload in found
    }
    peeked = yield Ask("peek_jobs", {"ids": list(endings)})
    return (yield from end(endings, peeked, ids=ids))
