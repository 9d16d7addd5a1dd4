"""duly's tables as models of Django, to read: in the admin, and in queries of the project.

Writing goes through the verbs of the app (``duly.schedules.pause(…)``, ``job.retry()``), which
check every rule, write the audit log and wake workers. So these models refuse to be saved, and
Django makes no tables for them. Jobs are in three tables, as in the store: those that wait or run,
those that have ended, and those that have failed for good.
"""

import json
from collections.abc import Callable
from datetime import datetime
from types import NoneType
from typing import Any, ClassVar, Final, NoReturn, TypeVar, get_args, get_type_hints

from django.apps import apps
from django.core.exceptions import ImproperlyConfigured
from django.db import connections, models
from django.utils.connection import ConnectionDoesNotExist

from duly.django.conf import project
from duly.errors import InvalidValue, WrongState
from duly.instants import from_us, to_us
from duly.model.fire import StoredFire
from duly.model.job import StoredJob
from duly.model.limit import Queue
from duly.model.schedule import Plan, StoredSchedule
from duly.model.states import LIVE, State
from duly.model.worker import Host, Profile, WorkerInfo
from duly.policy.redaction import redacted_for

M = TypeVar("M", bound=type[models.Model])

_REFUSED: Final = "duly's tables are written by its verbs, as duly.schedules.edit(…), job.cancel()"


def name_tables() -> None:
    """Name the tables as the database of the project does: "duly"."job" or duly_job."""
    try:
        in_a_schema = connections[project().database].vendor == "postgresql"
    except (InvalidValue, ConnectionDoesNotExist, ImproperlyConfigured):
        return  # the system checks say so
    for model in apps.get_app_config("duly").get_models():
        name = str(model.table)
        model._meta.db_table = f'"duly"."{name}"' if in_a_schema else f"duly_{name}"  # noqa: SLF001
        for field in model._meta.fields:  # noqa: SLF001
            vars(field).pop("cached_col", None)


class MomentField(models.DateTimeField):
    """A moment that is stored as a whole number of microseconds."""

    def get_internal_type(self) -> str:
        return "BigIntegerField"

    def from_db_value(self, value: int | None, *_: object) -> datetime | None:
        return None if value is None else from_us(value)

    def get_db_prep_value(self, value: Any, connection: Any, prepared: bool = False) -> int | None:  # noqa: ARG002, FBT001, FBT002 - as Django calls it
        moment = self.get_prep_value(value)
        return None if moment is None else to_us(moment)


class JsonField(models.TextField):
    """A list of names or a small record, which is stored as JSON text."""

    def from_db_value(self, value: str | None, *_: object) -> Any:
        return None if value is None else json.loads(value)


FIELDS: Final[dict[Any, type[models.Field]]] = {
    datetime: MomentField,
    int: models.BigIntegerField,
    bool: models.BooleanField,
    tuple[str, ...]: JsonField,
    Host: JsonField,
}
LABELS: Final = {
    "args": "arguments", "attempt": "attempts", "beat_at": "last heartbeat",
    "claimed_at": "started", "count": "moments", "created_at": "made", "decided_at": "decided",
    "due_at": "due", "ended_at": "ended", "job_id": "job", "next_at": "next run", "parent": "flow",
    "running": "running jobs", "schedule_id": "schedule", "slots": "concurrency",
    "started_at": "started", "submitter": "made by",
}  # fmt: skip


def columns(names: str, *shapes: Any) -> Callable[[M], M]:
    """Give a model a field for each named column, of the type that one of the shapes says."""
    hints = {name: hint for shape in shapes for name, hint in get_type_hints(shape).items()}

    def add(model: M) -> M:
        for name in names.split():
            kinds = get_args(hints[name]) or (hints[name],)
            kind: Any = hints[name] if hints[name] in FIELDS else kinds[0]
            values = [(one, one) for one in getattr(kind, "__members__", {}).values()] or None
            make = FIELDS.get(kind, models.TextField)
            field = make(LABELS.get(name), null=NoneType in kinds, choices=values)
            model.add_to_class(name, field)
        return model

    return add


class ReadOnlyRows(models.QuerySet):
    """Rows of the database that has duly's tables, to read."""

    def refuse(self, *_: object, **__: object) -> NoReturn:
        raise WrongState(_REFUSED)

    create = bulk_create = bulk_update = update = delete = get_or_create = update_or_create = refuse
    raw_delete = _raw_delete = _update = _insert = refuse


class ReadOnlyManager(models.Manager.from_queryset(ReadOnlyRows)):  # type: ignore[misc]
    def get_queryset(self) -> ReadOnlyRows:
        rows: ReadOnlyRows = super().get_queryset().using(project().database)
        return rows


class StoredRow(models.Model):
    table: ClassVar[str]
    objects = ReadOnlyManager()

    class Meta:
        abstract = True
        managed = False

    def save_base(self, *_: object, **__: object) -> NoReturn:
        raise WrongState(_REFUSED)

    delete = save_base


@columns(
    "name task args rule zone queue priority tenant submitter title tags owner created_at next_at "
    "pause fault",
    StoredSchedule,
    Plan,
)
class ScheduledTask(StoredRow):
    table = "schedule"

    class Meta(StoredRow.Meta):
        verbose_name = "schedule"
        ordering = ("name",)
        permissions = (
            ("view_duly", "Can view the dashboard of duly"),
            ("operate_duly", "Can operate duly in its dashboard"),
            ("administer_duly", "Can administer duly in its dashboard"),
        )

    def __str__(self) -> str:
        return str(self.name)


@columns("schedule_id due_at count outcome cause reason decided_at job_id", StoredFire)
class ScheduleFire(StoredRow):
    """A due moment of a schedule, what became of it, and why."""

    table = "fire"

    class Meta(StoredRow.Meta):
        verbose_name = "due time"
        ordering = ("-decided_at",)

    def __str__(self) -> str:
        return f"{self.due_at:%Y-%m-%d %H:%M:%S} UTC: {self.outcome}"


@columns(
    "task title state queue priority due_at claimed_at attempt reason args key tenant submitter "
    "tags created_at deadline crashes worker schedule_id parent",
    StoredJob,
)
class JobRow(StoredRow):
    states: ClassVar[tuple[State, ...]]

    class Meta(StoredRow.Meta):
        abstract = True

    def __str__(self) -> str:
        return f"{self.pk} {redacted_for(self.args, self.title or self.task)}"


class OpenJob(JobRow):
    table = "job"
    states = LIVE

    class Meta(JobRow.Meta):
        verbose_name = "job"
        ordering = ("-id",)


@columns("ended_at result error", StoredJob)
class EndedJob(JobRow):
    table = "history"
    states = (State.SUCCEEDED, State.CANCELLED, State.EXPIRED)

    class Meta(JobRow.Meta):
        verbose_name = "ended job"
        ordering = ("-ended_at",)


@columns("ended_at error", StoredJob)
class DeadJob(JobRow):
    table = "failed"
    states = (State.FAILED,)

    class Meta(JobRow.Meta):
        verbose_name = "failed job"
        ordering = ("-ended_at",)


@columns("paused note concurrency", Queue)
class JobQueue(StoredRow):
    """The settings of a queue. Queues without settings have no row; ``duly.queues`` lists all."""

    table = "queue"
    name = models.TextField(primary_key=True)

    class Meta(StoredRow.Meta):
        verbose_name = "queue"

    def __str__(self) -> str:
        return str(self.name)


@columns(
    "name queues slots running started_at beat_at lease_until version app host", WorkerInfo, Profile
)
class JobWorker(StoredRow):
    table = "worker"
    told = models.TextField("order")

    class Meta(StoredRow.Meta):
        verbose_name = "worker"
        ordering = ("name", "id")

    def __str__(self) -> str:
        return str(self.name)
