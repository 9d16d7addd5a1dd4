"""Answers to "why did it not run?", made from evidence that the caller has gathered.

Every function here is pure and returns an ``Explanation``: the sentence, the evidence, and commands
that help. The dataclasses say which evidence is needed: ``JobEvidence`` for a job,
``MomentEvidence`` for a moment with a ledger row, ``AbsenceEvidence`` for a moment without one.
"""

from duly.policy.why.answer import (
    AskedTime,
    Explanation,
    JobEvidence,
    Lineage,
    LocalClock,
    SuggestedCommand,
    first_line,
    read_time,
)
from duly.policy.why.fires import MomentEvidence, explain_moment
from duly.policy.why.jobs import explain_job
from duly.policy.why.missing_fires import AbsenceEvidence, explain_absence
from duly.policy.why.waiting_jobs import first_failed, how_far, parts_done, what_is_missing

__all__ = [
    "AbsenceEvidence",
    "AskedTime",
    "Explanation",
    "JobEvidence",
    "Lineage",
    "LocalClock",
    "MomentEvidence",
    "SuggestedCommand",
    "explain_absence",
    "explain_job",
    "explain_moment",
    "first_failed",
    "first_line",
    "how_far",
    "parts_done",
    "read_time",
    "what_is_missing",
]
