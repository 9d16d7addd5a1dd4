"""Schedules as rows of a list: when each is due, what became of it last, and the last few times."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from duly.errors import DulyError
from duly.model import schedule as model
from duly.model.fire import Fire as StoredFire
from duly.model.schedule import Plan
from duly.model.schedule_filter import parse_schedule_filter
from duly.store.protocol import RunTimes, Store
from duly.views.counts import LATE, Kept, kept_word
from duly.views.schedules import Fire, Schedule, meant, own_zone, reacts, with_run

ROWS: Final = 40
RECENT: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Recent:
    fire: Fire
    kept: Kept


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    schedule: Schedule  # its ``last`` is that of ``recent``
    words: str  # its rule, as a sentence
    overdue: datetime | None  # when its oldest run was due that no scheduler has fired
    zone: str | None
    recent: Sequence[Recent]  # the oldest first


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """``after`` is the name behind which the next ones are; None: these are the last."""

    rows: Sequence[Row]
    after: str | None


async def schedule_rows(store: Store, words: str, *, after: str = "", limit: int = ROWS) -> Rows:
    """Those that are meant, by name, behind the name ``after``."""
    found = await meant(store, parse_schedule_filter(words), after=after, limit=limit + 1)
    shown = found[:limit]
    now = await store.surroundings.now()
    recent = await _recent(store, shown)
    return Rows(
        rows=[
            Row(
                schedule=Schedule.of(one, None),
                words=in_words(one.plan),
                overdue=one.overdue_at(now),
                zone=own_zone(one.plan),
                recent=recent[one.id],
            )
            for one in shown
        ],
        after=shown[-1].plan.name if len(found) > limit else None,
    )


def in_words(plan: Plan) -> str:
    """Its rule as a sentence; or why nobody can read it here."""
    try:
        return plan.kept.explain()
    except DulyError as error:
        return f"This version of duly cannot read it: {error}"


def outcome_word(fire: Fire) -> str:
    """What became of a moment: of its job, as soon as that is known."""
    return fire.state or fire.outcome


async def _recent(
    store: Store, schedules: Sequence[model.Schedule]
) -> Mapping[int, Sequence[Recent]]:
    """Of each, the last moments with what became of their jobs: two questions for all of them."""
    found = await store.ledger.recent([one.id for one in schedules], limit=RECENT)
    jobs = [fire.job_id for fires in found.values() for fire in fires if fire.job_id is not None]
    runs = await store.evidence.runs_of(jobs) if jobs else {}
    return {
        one.id: [
            _seen(fire, one.plan, runs.get(fire.job_id or 0)) for fire in reversed(found[one.id])
        ]
        for one in schedules
    }


def _seen(fire: StoredFire, plan: Plan, run: RunTimes | None) -> Recent:
    told = with_run(Fire.of(fire, plan.name, reacts=reacts(plan)), run)
    late = (told.lateness or timedelta()) > LATE
    state = None if run is None else run.state
    return Recent(fire=told, kept=kept_word(fire.outcome, fire.cause, state, late=late))
