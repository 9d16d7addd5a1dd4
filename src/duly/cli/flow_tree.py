"""The steps of a flow on a terminal: a line for each, in their order, further in behind a fork.

What a step follows is seen by where it stands; where it cannot be, its line says it. So nothing is
written twice, however many steps come together in one.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from duly.cli.formats import NOTHING, iso
from duly.cli.output import lined_up
from duly.policy.printable import one_line

if TYPE_CHECKING:
    from duly.views.flow_page import FlowSeen, StepSeen

MOST_LINES: Final = 200
MOST_NAMED: Final = 3
LONGEST_REASON: Final = 100
DEEPEST: Final = 12


def flow_tree(flow: "FlowSeen") -> str:
    """Below each other; of thousands, the first."""
    depths = depths_of([step.before for step in flow.steps])
    shown = flow.steps[:MOST_LINES]
    rows = [_row(flow, step, depths) for step in shown]
    lines = [f"  {line}" for line in lined_up(rows)]
    left = len(flow.steps) - len(shown)
    if left:
        words = f"duly jobs flow:{flow.info.id}, or -o json"
        lines.append(f"  … and {left:,} more: {words}")
    return "\n".join(lines)


def depths_of(before: Sequence[Sequence[int]]) -> list[int]:
    """How far in each step stands. What steps follow is counted from 1.

    A chain goes straight down. A fork goes one further in, and what brings it together comes back.
    """
    behind = [0] * (len(before) + 1)
    for numbers in before:
        for number in numbers:
            behind[number] += 1
    depths: list[int] = []
    for numbers in before:
        if not numbers:
            depths.append(0)
        elif len(numbers) == 1:
            depths.append(min(depths[numbers[0] - 1] + (behind[numbers[0]] > 1), DEEPEST))
        else:
            depths.append(max(min(depths[number - 1] for number in numbers) - 1, 0))
    return depths


def plain_flow(flow: "FlowSeen") -> dict[str, object]:
    """For programs."""
    failed = flow.first_failed
    return {
        "steps": len(flow.steps),
        "remaining": flow.info.remaining,
        "failed": flow.info.failed,
        "opened_at": iso(flow.info.opened_at),
        "ended_at": iso(flow.info.ended_at),
        "first_failed": None if failed is None else failed.number,
        "critical": [step.number for step in flow.critical],
        "items": [_plain(step) for step in flow.steps],
    }


def _row(flow: "FlowSeen", step: "StepSeen", depths: Sequence[int]) -> tuple[str, ...]:
    info = step.info
    indent = "  " * depths[info.number]
    return (
        one_line(f"{indent}{step.mark} {info.name}"),
        step.word,
        step.far,
        NOTHING if step.took is None else _about(step),
        _jobs(flow, step),
        one_line(_said(flow, step, depths)),
    )


def _about(step: "StepSeen") -> str:
    from duly.policy.why import about

    return NOTHING if step.took is None else about(step.took)


def _jobs(flow: "FlowSeen", step: "StepSeen") -> str:
    """By which its jobs are found."""
    if step.info.job_id is None:
        return NOTHING
    if step.is_map:
        return f"flow:{flow.info.id} task:{step.info.task}"
    return f"job {step.info.job_id}"


def _said(flow: "FlowSeen", step: "StepSeen", depths: Sequence[int]) -> str:
    """Why it did not succeed; what it waits for; what it follows, if that is not seen."""
    from duly.policy.why import first_line

    said = []
    if not _is_seen(step, depths):
        names = flow.names(step.before[:MOST_NAMED])
        more = len(step.before) - MOST_NAMED
        said.append(f"after {', '.join(names)}{f' and {more:,} more' if more > 0 else ''}")
    if step.info.when != "all_succeeded":
        said.append(f"when {step.info.when.replace('_', ' ').removeprefix('when ')}")
    if step.awaits is not None:
        said.append(f"{step.awaits.event}{f', {step.awaits.key}' if step.awaits.key else ''}")
    if step.word in ("failed", "cancelled"):
        said.append(first_line(step.info.reason)[:LONGEST_REASON])
    return "; ".join(filter(None, said))


def _is_seen(step: "StepSeen", depths: Sequence[int]) -> bool:
    """Whether where it stands says what it follows: the line above, or the one it is below."""
    at, before = step.info.number, step.info.before
    if not before:
        return True
    if len(before) > 1:
        return False
    above = next((number for number in range(at - 1, -1, -1) if depths[number] < depths[at]), None)
    return before[0] in (at - 1, above)


def _plain(step: "StepSeen") -> dict[str, object]:
    info, awaits = step.info, step.awaits
    return {
        "number": step.number,
        "name": info.name,
        "task": info.task,
        "kind": info.kind,
        "state": str(info.state),
        "before": list(step.before),
        "when": info.when,
        "parts": info.parts,
        "remaining": info.remaining,
        "missed": info.missed,
        "reason": info.reason,
        "started_at": iso(info.started_at),
        "ended_at": iso(info.ended_at),
        "job_id": info.job_id,
        "awaits": None
        if awaits is None
        else {"event": awaits.event, "key": awaits.key, "until": iso(awaits.until)},
    }
