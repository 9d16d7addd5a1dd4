"""An app at work: the node, its workers, and the lines that they print."""

from duly.engine.http_outcomes import (
    FencedJob,
    FinishReport,
    ReportedLine,
    ReportedOutcome,
    failed,
    finish,
    note,
    say,
    succeeded,
)
from duly.engine.http_worker import HttpWorkers, RegisteredWorker, Registration, Renewal

__all__ = [
    "FencedJob",
    "FinishReport",
    "HttpWorkers",
    "RegisteredWorker",
    "Registration",
    "Renewal",
    "ReportedLine",
    "ReportedOutcome",
    "failed",
    "finish",
    "note",
    "say",
    "succeeded",
]
