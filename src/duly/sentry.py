"""Sentry: errors of jobs with their context, and check-ins of schedules with Sentry Crons.

``instrument(duly)`` is all; the application calls ``sentry_sdk.init`` itself.
"""

import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import sentry_sdk
from sentry_sdk.crons import capture_checkin
from sentry_sdk.crons.consts import MonitorStatus

from duly.app.duly import Duly
from duly.clock import boottime
from duly.errors import Permanent
from duly.model.job import StoredJob
from duly.model.schedule import Plan
from duly.registry.context import Context, Instrument

if TYPE_CHECKING:
    from sentry_sdk._types import MonitorConfig

_CHECK_INS: Final = uuid.UUID("3c0e5a0e-5f0f-4c39-8a3c-6d1b6f1d3f6e")
_LONGEST_SLUG: Final = 50
# What Sentry's cron lines and ours have in common.
_CRON: Final = re.compile(r"(?P<cron>([\d*/,-]+ ){4}[\d*/,-]+)( (?P<zone>\w+(/[\w+-]+)*))?$")
_EVERY: Final = re.compile(r"every (?P<value>\d+)(?P<unit>m|h|d)")
_UNITS: Final[dict[str, str]] = {"m": "minute", "h": "hour", "d": "day"}


def instrument(app: Duly, *, every_attempt: bool = False, crons: bool = True) -> None:
    """Report errors of an app's jobs, and the runs of its schedules to Sentry Crons.

    An error is reported when the job has failed for good, or for every attempt.
    """
    app.registry.observe_by(Sentry(app, every_attempt=every_attempt, crons=crons))


class Sentry(Instrument):
    def __init__(self, app: Duly, *, every_attempt: bool, crons: bool) -> None:
        self._app = app
        self._every_attempt = every_attempt
        self._crons = crons
        self._monitors: dict[str, MonitorConfig | None] = {}

    @contextmanager
    def running(self, context: Context) -> Iterator[None]:
        fire = context.fire if self._crons else None
        schedule = fire.schedule if fire else None
        began = boottime()
        with sentry_sdk.isolation_scope() as scope:
            _describe(scope, context)
            if schedule:
                self._check_in(context.job, schedule, MonitorStatus.IN_PROGRESS)
            try:
                yield
            except Exception as error:
                is_last = context.is_last_attempt or isinstance(error, Permanent)
                if is_last or self._every_attempt:
                    sentry_sdk.capture_exception(error)
                if is_last and schedule:
                    self._check_in(context.job, schedule, MonitorStatus.ERROR, began)
                raise
            if schedule:
                self._check_in(context.job, schedule, MonitorStatus.OK, began)

    def _check_in(
        self, job: StoredJob, schedule: str, status: str, began: float | None = None
    ) -> None:
        """Report the state of a run; every attempt of a job reports the same check-in."""
        capture_checkin(
            monitor_slug=slug_of(schedule),
            check_in_id=uuid.uuid5(_CHECK_INS, f"{schedule} {job.id}").hex,
            status=status,
            duration=None if began is None else boottime() - began,
            monitor_config=self._monitor(schedule),
        )

    def _monitor(self, schedule: str) -> "MonitorConfig | None":
        """Return the settings of the monitor, which Sentry creates or changes accordingly."""
        if schedule not in self._monitors:
            plans = [one.plan() for one in self._app.declarations if one.name == schedule]
            self._monitors[schedule] = monitor_of(plans[0]) if plans else None
        return self._monitors[schedule]


def slug_of(schedule: str) -> str:
    """Return the name of a schedule as Sentry allows it."""
    return re.sub(r"[^a-z0-9_-]+", "-", schedule.lower()).strip("-")[:_LONGEST_SLUG]


def monitor_of(plan: Plan) -> "MonitorConfig | None":
    """Return the rule of a schedule as a monitor has it; None if Sentry has no such rule."""
    if found := _CRON.match(plan.rule):
        zone = found["zone"] or plan.zone or "UTC"
        return {"schedule": {"type": "crontab", "value": found["cron"]}, "timezone": zone}
    if (found := _EVERY.fullmatch(plan.rule)) and found["unit"] in _UNITS:
        unit: Any = _UNITS[found["unit"]]
        return {"schedule": {"type": "interval", "value": int(found["value"]), "unit": unit}}
    return None


def _describe(scope: sentry_sdk.Scope, context: Context) -> None:
    """Give an error the facts about its job; not the arguments, which may be secrets."""
    job = context.job
    scope.set_transaction_name(job.task, source="task")
    for name, value in (("task", job.task), ("queue", job.queue), ("tenant", job.tenant)):
        if value:
            scope.set_tag(f"duly.{name}", value)
    scope.set_context(
        "duly",
        {
            "job": job.id,
            "attempt": context.attempt,
            "title": job.title,
            "due_at": job.due_at.isoformat(),
            "schedule": context.fire.schedule if context.fire else None,
        },
    )
