"""To react when something happens: once it has been quiet, or a day before, or not at all.

The fields of an event go to the parameters of the same name. A key names what it is about: a later
event with the same key moves what still waits, and ``unless`` calls it off.
"""

from datetime import datetime

from duly import Duly

duly = Duly()

indexed: list[int] = []


@duly.on("doc.changed", key="doc:{doc_id}", debounce="30s")
@duly.task
def reindex(doc_id: int) -> None:
    indexed.append(doc_id)


@duly.on(
    "invoice.*", key="invoice:{invoice_id}", run_after="-3d from due_on", unless="invoice.paid"
)
@duly.task
def dun(invoice_id: int) -> None: ...


def save(doc_id: int) -> None:
    duly.emit("doc.changed", {"doc_id": doc_id})


def bill(invoice_id: int, due_on: datetime) -> None:
    duly.emit("invoice.sent", {"invoice_id": invoice_id, "due_on": due_on})
