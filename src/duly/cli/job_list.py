"""Jobs in a list: what is shown of each, and how to go on where the list ends early."""

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final

from duly.cli.formats import NOTHING, Listing, View
from duly.cli.job_json import plain
from duly.cli.job_page import Seen, length_of

if TYPE_CHECKING:
    from duly.app import Store
    from duly.model.job import Job

LONGEST_CELL: Final = 70
COLOURS: Final = {"failed": "red", "running": "cyan", "expired": "yellow", "cancelled": "yellow"}


async def seen_by(store: "Store", jobs: Sequence["Job"]) -> list[Seen]:
    """The jobs, with the names of who runs them and where they come from."""
    workers = {}
    if any(job.worker is not None for job in jobs):
        workers = {info.id: info for info in await store.work.workers()}
    schedules = {job.schedule_id for job in jobs if job.schedule_id is not None}
    names = await store.jobs.schedule_names(sorted(schedules)) if schedules else {}
    flows = await store.jobs.flow_progress([job.id for job in jobs]) if jobs else {}
    return [
        Seen(
            job=job,
            runs_on=workers.get(job.worker or 0),
            schedule=names.get(job.schedule_id or 0),
            progress=flows.get(job.id),
        )
        for job in jobs
    ]


def going_on(after: str, searched_to: datetime | None, *, is_full: bool, view: View) -> str:
    """What is said where a list ends before the last that matches."""
    if is_full:
        return f"there are more: go on with --after {after}, or say --limit"
    far = "so far" if searched_to is None else f"back to {view.moment(searched_to)}"
    return f"there are many: looked {far}, go on with --after {after}"


def _row(seen: Seen, view: View) -> tuple[str, ...]:
    job = seen.job
    return (
        str(job.id),
        job.state.value,
        job.task,
        _short(job.title),
        job.queue,
        view.moment(job.due_at),
        length_of(job, view.now),
        _reason(seen) if view.output == "wide" else _short(_reason(seen)),
        job.tenant or NOTHING,
        job.key or NOTHING,
        str(job.attempt),
        seen.worker or NOTHING,
    )


def _reason(seen: Seen) -> str:
    """Of a flow, how far it is; and why it did not succeed."""
    from duly.views.flow_page import told_far

    job = seen.job
    if seen.progress is None:
        return job.reason
    why = f": {job.reason}" if job.state.value in ("failed", "cancelled") else ""
    return f"{told_far(seen.progress)}{why}"


def _short(text: str) -> str:
    line = text.partition("\n")[0]
    return line if len(line) <= LONGEST_CELL else f"{line[: LONGEST_CELL - 1]}…"


LISTING: Final = Listing(
    headings=("ID", "STATE", "TASK", "TITLE", "QUEUE", "DUE", "AGE/TOOK", "REASON"),
    wide=("TENANT", "KEY", "ATTEMPT", "WORKER"),
    row=_row,
    plain=plain,
    name=lambda seen: str(seen.job.id),
    nothing="no job matches",
    colour=lambda seen: COLOURS.get(seen.job.state.value),
)
