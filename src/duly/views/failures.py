"""Groups of similar failures: failed jobs by their task and their error.

The same error differs between jobs by a number, an address or a name in its message. So errors are
compared without these variable parts. A group shows the newest message, without secrets.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from typing import Final

from duly.model.job_filter import Filter, parse_filter
from duly.model.states import State
from duly.policy.redaction import HIDDEN, redacted, shortened
from duly.store.job_search import LONGEST_TAIL, Failure
from duly.store.store import Store

MOST_GROUPED: Final = 2_000  # jobs, the newest
MOST_GROUPS: Final = 100
MOST_SAMPLES: Final = 5
LONGEST_LINE: Final = 200
SHORTEST_PART: Final = 4  # of an error that says something about it
LONGEST_PART: Final = 100

_VARIABLE: Final = "…"
_VARIES = re.compile(
    r"""
      "[^"]*" | '[^']*' | `[^`]*`
    | \b [0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12} \b
    | \b 0x[0-9a-f]+ \b
    | \b (?=[a-f]*[0-9]) [0-9a-f]{8,} \b
    | [0-9]+ (?: [.,:][0-9]+ )*
    """,
    re.VERBOSE | re.IGNORECASE,
)
# The line of a traceback that names the exception; notes and long messages follow it.
_RAISED = re.compile(r"[A-Za-z_][\w.]*(?::[ ].*|(?:Error|Exception|Exit|Interrupt|Warning)\Z)")
_IN_A_REASON = re.compile(
    r"(?:raised |failed for good: )(.+?)(?:; no attempt is left)?\Z", re.DOTALL
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureGroup:
    """Jobs of a task that failed alike."""

    task: str
    error: str  # one line, as the newest of them has it
    jobs: int
    first_at: datetime
    last_at: datetime
    job_id: int  # the newest
    job_ids: Sequence[int]  # the newest few
    filter: str  # words that find about these


async def failures(store: Store, words: Filter | str = "") -> list[FailureGroup]:
    """Group the newest failed jobs that match by task and error, most frequent group first."""
    wanted = parse_filter(words) if isinstance(words, str) else words
    return grouped(await store.jobs.failures(wanted, limit=MOST_GROUPED), wanted)


def grouped(failed: Iterable[Failure], wanted: Filter) -> list[FailureGroup]:
    """Group failures, which are given newest first."""
    alike: dict[tuple[str, str], list[Failure]] = {}
    for failure in failed:
        key = failure.task, _VARIES.sub(_VARIABLE, error_line(failure))
        alike.setdefault(key, []).append(failure)
    most = sorted(alike.items(), key=lambda one: (len(one[1]), one[1][0].ended_at), reverse=True)[
        :MOST_GROUPS
    ]
    return [_group(task, line, members, wanted) for (task, line), members in most]


def error_line(failure: Failure) -> str:
    """Return the error of a failure in one line, with secrets hidden."""
    return _line(failure.error, failure.reason)


@lru_cache(maxsize=2 * MOST_GROUPED)  # a page that is looked at asks for the same every second
def _line(error: str, reason: str) -> str:
    lines = _whole_lines(error)
    raised = [line for line in lines if _RAISED.match(line)]
    if raised:
        return raised[-1]
    said = _IN_A_REASON.search(reason)
    told = redacted(said[1] if said else reason).splitlines()
    return next((line.strip() for line in [*lines[-1:], *told] if line.strip()), "")


def _whole_lines(error: str) -> list[str]:
    """Return the lines of an error, without the first one if the text was cut.

    A cut line may show the value of a secret without the name by which it is recognized.
    """
    if len(error) >= LONGEST_TAIL:
        error = error.partition("\n")[2]
    return [line.rstrip() for line in redacted(error).splitlines() if line.strip()]


def _group(task: str, line: str, members: Sequence[Failure], wanted: Filter) -> FailureGroup:
    newest = members[0]
    part = _telling_part(line)
    about = replace(wanted, states=(State.FAILED,), task=task, error=part or wanted.error)
    return FailureGroup(
        task=task,
        error=shortened(error_line(newest), LONGEST_LINE),
        jobs=len(members),
        first_at=members[-1].ended_at,
        last_at=newest.ended_at,
        job_id=newest.id,
        job_ids=tuple(failure.id for failure in members[:MOST_SAMPLES]),
        filter=str(about),
    )


def _telling_part(line: str) -> str | None:
    """Return the longest fixed part between the variable parts of an error line.

    None if even that is too short to search for.
    """
    parts = line.replace(HIDDEN, _VARIABLE).split(_VARIABLE)
    longest = max((part.strip()[:LONGEST_PART].strip() for part in parts), key=len)
    return longest if len(longest) >= SHORTEST_PART else None
