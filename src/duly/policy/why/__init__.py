"""Why: the answer to "why did it not run?", from evidence that somebody has gathered.

Everything here is a pure function from evidence to an ``Answer``: first the sentence, then what it
rests on, then what can be done. What to gather is said by the dataclasses: ``JobEvidence`` for a
job, ``MomentEvidence`` for a moment that the ledger knows, ``AbsenceEvidence`` for one that it does
not.
"""

from duly.policy.why.answer import Explanation, LocalClock, SuggestedCommand, about, first_line
from duly.policy.why.asked_time import AskedTime, read_time
from duly.policy.why.evidence import JobEvidence, LaneEvidence, Lineage
from duly.policy.why.fires import MomentEvidence, explain_moment
from duly.policy.why.flows import first_failed, how_far, parts_done
from duly.policy.why.jobs import explain_job
from duly.policy.why.missing_fires import AbsenceEvidence, ScheduleChange, explain_absence
from duly.policy.why.waiting_jobs import what_is_missing

__all__ = [
    "AbsenceEvidence",
    "AskedTime",
    "Explanation",
    "JobEvidence",
    "LaneEvidence",
    "Lineage",
    "LocalClock",
    "MomentEvidence",
    "ScheduleChange",
    "SuggestedCommand",
    "about",
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
