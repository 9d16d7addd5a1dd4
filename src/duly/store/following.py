"""The tasks that follow the end of a job, because its own task asked for that."""

from collections.abc import Mapping, Sequence

from duly.model.job import Call
from duly.model.payload import encode
from duly.model.states import State
from duly.model.terms import Callback, Terms
from duly.store import rows
from duly.store.database import Ask, Operation
from duly.store.ending import Ending
from duly.store.ids import CONFIRMED, Ids, all_new
from duly.store.rows import HeldRow


def call_back(
    endings: Mapping[int, Ending], held: Sequence[HeldRow], *, ids: Ids
) -> Operation[list[str]]:
    """The jobs that their tasks asked for, to follow this end, in the same transaction."""
    asked = [(row, callback) for row in held if (callback := _callback(row, endings[row.id].state))]
    if not asked:
        return []
    numbers = yield from ids.draw(len(asked))
    calls = [
        rows.call_values(_following(row, callback), number, number)
        for (row, callback), number in zip(asked, numbers, strict=True)
    ]
    all_new((yield Ask("enqueue_as", {"batch": rows.packed(calls), **CONFIRMED})), len(calls))
    return [callback.queue for _, callback in asked]


def _callback(row: HeldRow, state: State) -> Callback | None:
    terms = Terms.from_json(row.terms)
    return {
        State.SUCCEEDED: terms.on_success,
        State.FAILED: terms.on_failure,
        State.EXPIRED: terms.on_failure,
        State.CANCELLED: terms.on_cancelled,
    }[state]


def _following(row: HeldRow, callback: Callback) -> Call:
    return Call(
        task=callback.task,
        args=encode({callback.argument: row.id}, what="the arguments of a callback"),
        queue=callback.queue,
        priority=callback.priority,
        retry=callback.retry,
        tenant=row.tenant,
        title=f"after job {row.id}",
        parent=row.id,
    )
