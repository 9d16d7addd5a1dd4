"""An app at work: the node, its workers, and the lines that they print."""

from duly.engine.http_outcomes import (
    Ending,
    Finished,
    Holding,
    Line,
    failed,
    finish,
    note,
    say,
    succeeded,
)
from duly.engine.http_worker import Enlisted, Guests, Heard, Wanted

__all__ = [
    "Ending",
    "Enlisted",
    "Finished",
    "Guests",
    "Heard",
    "Holding",
    "Line",
    "Wanted",
    "failed",
    "finish",
    "note",
    "say",
    "succeeded",
]
