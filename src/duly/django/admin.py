"""duly in Django's admin: schedules, due times, jobs, queues and workers.

Pages read through the models of ``duly.django``; every change is a verb of the app, recorded in the
audit log under the name of the Django user. Permissions are those of the models: view, change (for
actions), add and delete.
"""

from collections.abc import Callable, Iterable
from datetime import datetime
from functools import cache, cached_property
from itertools import islice
from typing import Any, Final, TypeAlias
from urllib.parse import urlencode

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.core.paginator import Paginator
from django.db.models import OuterRef, QuerySet, Subquery
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.template.response import TemplateResponse
from django.urls import path, reverse
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from duly import clock
from duly.app.calls_by_name import run_again
from duly.app.schedules import added, edited
from duly.django.app import StaffApp, duly
from duly.django.models import (
    DeadJob,
    EndedJob,
    JobQueue,
    JobRow,
    JobWorker,
    MomentField,
    OpenJob,
    ScheduledTask,
    ScheduleFire,
    StoredRow,
)
from duly.django.schedule_form import KINDS, ScheduleForm, kind_of, typed_fields
from duly.errors import DulyError
from duly.model.job_filter import Filter
from duly.policy.redaction import hidden_json, redacted_for
from duly.rules import local_time
from duly.store.store import Store
from duly.views.capacity import QueueView, queue_list
from duly.views.job import remove_job
from duly.views.schedules import own_zone

RowVerb: TypeAlias = Callable[[StaffApp, Any], object]

MOST_COUNTED: Final = 10_000  # rows that are counted and paged through; a filter finds the others
MOST_FOUND: Final = 1_000  # jobs of a search
MOST_LINES: Final = 1_000  # of a log
# The states that the jobs of a queue are counted by, and where they are.
JOBS: Final[tuple[type[JobRow], ...]] = (OpenJob, EndedJob, DeadJob)
REGISTRIES: Final = {state.value: model for model in JOBS for state in model.states}
_NO_BUTTONS: Final = dict.fromkeys(
    ("show_save", "show_save_and_continue", "show_save_and_add_another"), False
)


class BoundedPaginator(Paginator):
    """Counts no more rows than people page through: a history has millions."""

    @cached_property
    def count(self) -> int:
        rows: Any = self.object_list
        return int(rows.order_by()[:MOST_COUNTED].count())


class StoredRowAdmin(admin.ModelAdmin):
    """Shows rows; actions are verbs of the app, done to each selected row."""

    paginator = BoundedPaginator
    show_full_result_count = False
    list_per_page = 50
    may_delete = False

    def has_add_permission(self, request: HttpRequest) -> bool:  # noqa: ARG002 - as Django calls it
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self.may_delete and super().has_delete_permission(request, obj)

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return self.get_fields(request, obj)

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:  # noqa: ARG002
        return self._to_the_second(self.fields or [field.name for field in self.opts.fields])

    def get_list_display(self, request: HttpRequest) -> Any:
        return self._to_the_second(super().get_list_display(request))

    def _to_the_second(self, names: Iterable[Any]) -> list[Any]:
        """Return the columns; Django shows moments to the minute, and jobs take seconds."""
        fields = {field.name: field for field in self.opts.fields}
        return [
            moment_column(fields[name]) if isinstance(fields.get(name), MomentField) else name
            for name in names
        ]

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        title = self.opts.verbose_name_plural.capitalize()
        return super().changelist_view(request, {"title": title, **(extra_context or {})})

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:  # noqa: ARG002, FBT001
        raise PermissionDenied

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        shown = _NO_BUTTONS if type(self).save_model is StoredRowAdmin.save_model else {}
        buttons = self.get_action_choices(request, default_choices=[])
        title = self.opts.verbose_name.capitalize()
        context = {**shown, "verbs": buttons, "listed": self._list_url(), "title": title}
        context |= extra_context or {}
        return super().change_view(request, object_id, form_url, context)

    def changeform_view(self, request: HttpRequest, *args: Any, **words: Any) -> HttpResponse:
        """Show the form; a verb that refuses is said above it, as wrong fields are below."""
        try:
            return super().changeform_view(request, *args, **words)
        except DulyError as error:
            messages.error(request, str(error))
            return HttpResponseRedirect(request.get_full_path())

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        self.delete_queryset(request, [obj])

    def _list_url(self, model: type[StoredRow] | None = None) -> str:
        name = (model or self.model)._meta.model_name  # noqa: SLF001
        return reverse(f"{self.admin_site.name}:duly_{name}_changelist")

    def rows_with(self, column: str, row: Any, *models: type[StoredRow]) -> SafeString:
        """Return links to the rows of other models that name this row in a column."""
        return format_html_join(
            ", ",
            '<a href="{}?{}={}">{}</a>',
            (
                (self._list_url(model), column, row.pk, model._meta.verbose_name_plural)  # noqa: SLF001
                for model in models
            ),
        )

    def link(self, model: type[StoredRow], key: object, *, named: bool = False) -> SafeString | str:
        """Return a link to the page of another row, by its number or by its name."""
        if key is None:
            return "-"
        found = model.objects.filter(pk=key).first() if named else None
        url = row_url(self.admin_site.name, model, key)
        return format_html('<a href="{}">{}</a>', url, found or key)

    def each(
        self, request: HttpRequest, rows: Iterable[Any], does: RowVerb, said: str = ""
    ) -> None:
        """Do a verb to each row; say how many it was done to, and why it was refused for others."""
        app, done = StaffApp(request.user), 0
        for row in rows:
            try:
                does(app, row)
                done += 1
            except DulyError as error:
                messages.error(request, f"{row}: {error}")
        if done and said:
            messages.success(request, f"{said}: {done}")


def verb(label: str, said: str, does: RowVerb) -> Callable[..., None]:
    """Return an action of the admin that does a verb to each selected row."""

    @admin.action(description=label, permissions=["change"])
    def act(self: StoredRowAdmin, request: HttpRequest, rows: Iterable[Any]) -> None:
        self.each(request, rows, does, said)

    return act


def filter_by(
    column: str,
    names: Callable[[type[JobRow]], Iterable[str]],
    narrow: Callable[[QuerySet, str], QuerySet] | None = None,
) -> Any:
    """Return a filter by a column; its names are known without reading the table."""

    class NamesFilter(admin.SimpleListFilter):
        title = parameter_name = column

        def lookups(self, _: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
            return [(name, name) for name in names(model_admin.model)]

        def queryset(self, _: HttpRequest, rows: QuerySet) -> QuerySet:
            asked = self.value()
            if not asked:
                return rows
            return rows.filter(**{column: asked}) if narrow is None else narrow(rows, asked)

    return NamesFilter


def _of_kind(rows: QuerySet, asked: str) -> QuerySet:
    for kind, (_, beginning) in KINDS.items():
        if kind == asked:
            return rows.filter(rule__regex=beginning)
        rows = rows.exclude(rule__regex=beginning)
    return rows


StateFilter: Final = filter_by("state", lambda model: [state.value for state in model.states])
TaskFilter: Final = filter_by("task", lambda _: sorted(one.name for one in duly.registry))
QueueFilter: Final = filter_by(
    "queue", lambda _: [one.name for one in duly.project_store.call(queue_list, async_name="")]
)
KindFilter: Final = filter_by("kind", lambda _: KINDS, _of_kind)
EnabledFilter: Final = filter_by(
    "enabled",
    lambda _: ("yes", "no"),
    lambda rows, asked: rows.filter(pause__isnull=asked == "yes"),
)


@admin.register(ScheduledTask)
class ScheduledTaskAdmin(StoredRowAdmin):
    form = ScheduleForm
    may_delete = True
    list_display = ("name", "enabled", "next_at", "last", "kind", "rule", "task", "queue")
    list_filter = (EnabledFilter, KindFilter, "owner")
    search_fields = ("name", "task", "queue", "title")
    actions = ("enable", "disable", "run_now", "skip_next")
    readonly_fields = ("preview", "runs")

    def has_add_permission(self, request: HttpRequest) -> bool:
        return admin.ModelAdmin.has_add_permission(self, request)

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:  # noqa: ARG002
        return self.readonly_fields

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        if not self.has_change_permission(request, obj) and obj is not None:
            return [
                (None, {"fields": ["name", "rule", "zone", "task", "queue", *self.readonly_fields]})
            ]
        when = ("kind", "moment", ("number", "unit"), "rule", "zone", "max_runs", "preview")
        first = ("name", "task", "args", "enabled", *when, *(("runs",) if obj else ()))
        placed = {name for one in first for name in (one if isinstance(one, tuple) else (one,))}
        more = [name for name in ScheduleForm.base_fields if name not in placed]
        return [(None, {"fields": first}), ("Policies", {"fields": more, "classes": ["collapse"]})]

    def get_queryset(self, request: HttpRequest) -> Any:
        last = ScheduleFire.objects.filter(schedule_id=OuterRef("id")).order_by("-due_at")
        return (
            super()
            .get_queryset(request)
            .annotate(
                last_at=Subquery(last.values("due_at")[:1]),
                last_outcome=Subquery(last.values("outcome")[:1]),
            )
        )

    @admin.display(description="type")
    def kind(self, row: ScheduledTask) -> str:
        return KINDS[kind_of(row.rule)][0].partition(",")[0]

    @admin.display(boolean=True, description="enabled")
    def enabled(self, row: ScheduledTask) -> bool:
        return row.pause is None and row.fault is None

    @admin.display(description="last due")
    def last(self, row: Any) -> SafeString | str:
        if row.last_at is None:
            return "-"
        return format_html("{} {}", _second(row.last_at), row.last_outcome)

    @admin.display(description="In words, and the next runs")
    def preview(self, row: ScheduledTask) -> SafeString:
        """Leave room for the preview, which the browser fetches whenever a field changes."""
        url = reverse(f"{self.admin_site.name}:duly_scheduledtask_preview")
        return format_html(
            '<div id="duly-preview" data-url="{}" data-pk="{}" aria-live="polite"></div>',
            url,
            row.pk or "",
        )

    @admin.display(description="Runs")
    def runs(self, row: ScheduledTask) -> SafeString:
        return self.rows_with("schedule_id", row, ScheduleFire, *JOBS)

    def get_urls(self) -> Any:
        view = self.admin_site.admin_view(self.preview_view)
        return [path("preview/", view, name="duly_scheduledtask_preview"), *super().get_urls()]

    def preview_view(self, request: HttpRequest) -> HttpResponse:
        """Show what the typed fields mean: a sentence, the next runs, or what is wrong."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        row = self.get_object(request, request.GET.get("pk", "")) if request.GET.get("pk") else None
        draft = ScheduleForm(instance=row).draft(typed_fields(request.GET.dict()))
        zone = (draft.plan and own_zone(draft.plan)) or duly.zone or "UTC"
        moments = [local_time(moment, zone) for moment in draft.moments[:5]]
        words = {"draft": draft, "moments": moments, "zone": zone}
        return render(request, "admin/duly/preview.html", words)

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:  # noqa: FBT001
        app, enabled = StaffApp(request.user), form.cleaned_data["enabled"]
        if not change:
            app.ask(added, form.wanted_by(app.name), "error", paused=not enabled)
            obj.name = form.cleaned_data["name"]
            obj.pk = ScheduledTask.objects.get(name=obj.name).pk
            return
        if form.wanted != form.plan:
            app.ask(edited, obj.name, form.change)
        if "enabled" in form.changed_data:
            (app.schedules.resume if enabled else app.schedules.pause)(obj.name)

    def delete_queryset(self, request: HttpRequest, rows: Any) -> None:
        self.each(request, rows, lambda app, row: app.schedules.remove(row.name))

    enable = verb("Enable (resume)", "Enabled", lambda app, row: app.schedules.resume(row.name))
    disable = verb("Disable (pause)", "Disabled", lambda app, row: app.schedules.pause(row.name))
    run_now = verb("Run now", "Enqueued", lambda app, row: app.schedules.run(row.name))
    skip_next = verb(
        "Skip the next run", "Skipped", lambda app, row: app.schedules.skip_next(row.name)
    )


@admin.register(ScheduleFire)
class ScheduleFireAdmin(StoredRowAdmin):
    list_display = ("schedule", "due_at", "outcome", "job", "reason", "count", "decided_at")
    list_display_links = None
    list_filter = ("outcome",)
    sortable_by = ()

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ARG002
        return False

    def get_queryset(self, request: HttpRequest) -> Any:
        name = ScheduledTask.objects.filter(id=OuterRef("schedule_id")).values("name")
        return super().get_queryset(request).annotate(schedule_name=Subquery(name))

    def schedule(self, row: Any) -> str:
        return row.schedule_name or "(removed)"

    def job(self, row: ScheduleFire) -> SafeString | str:
        return self.link(OpenJob, row.job_id)


class JobAdmin(StoredRowAdmin):
    """Jobs of one of the three tables. The search box takes the filters of ``duly jobs``."""

    may_delete = True
    list_display: Any = ("id", "named", "state", "due_at", "claimed_at", "why", "queue", "attempt")
    list_display_links = ("id", "named")
    list_filter: Any = (StateFilter, QueueFilter, TaskFilter)
    search_fields = ("id",)
    search_help_text = "A number, text, or a filter: task:send* tag:eu since:2h error~timeout"
    fields: Any = (
        "named", "task", "state", "explanation", "arguments", "queue", "priority", "unique_key",
        "created_at", "due_at", "claimed_at", "deadline", "attempt", "crashes", "taken_by",
        "schedule", "follows", "tenant", "submitter", "tags", "attempts", "log",
    )  # fmt: skip

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet, search_term: str
    ) -> tuple[QuerySet, bool]:
        words = search_term.strip()
        if not words or words.isdecimal():
            return (queryset.filter(id=int(words)) if words else queryset), False
        states = ",".join(self.model.states)
        asked = words if "state:" in words else f"state:{states} {words}"
        try:
            found = [job.id for job in duly.jobs.list(asked, limit=MOST_FOUND)]
        except DulyError as error:
            messages.error(request, str(error))
            found = []
        return queryset.filter(id__in=found), False

    def _get_obj_does_not_exist_redirect(
        self, request: HttpRequest, opts: Any, object_id: str
    ) -> HttpResponse:
        """Follow a job to the table where it is by now."""
        for model in JOBS:
            is_number = object_id.isdecimal() and model is not self.model
            if is_number and model.objects.filter(id=object_id).exists():
                return HttpResponseRedirect(row_url(self.admin_site.name, model, object_id))
        return super()._get_obj_does_not_exist_redirect(request, opts, object_id)

    @admin.display(description="title")
    def named(self, row: JobRow) -> str:
        return redacted_for(row.args, row.title or row.task)

    @admin.display(description="reason")
    def why(self, row: JobRow) -> SafeString:
        reason = redacted_for(row.args, row.reason) or "-"
        return format_html('<div style="min-width: 18em">{}</div>', reason)

    @admin.display(description="why")
    def explanation(self, row: JobRow) -> SafeString:
        return _text(redacted_for(row.args, duly.jobs.why(row.id)))

    @admin.display(description="arguments")
    def arguments(self, row: JobRow) -> SafeString:
        return _text(hidden_json(row.task, row.args))

    @admin.display(description="worker")
    def taken_by(self, row: JobRow) -> SafeString | str:
        return self.link(JobWorker, row.worker, named=True)

    def schedule(self, row: JobRow) -> SafeString | str:
        return self.link(ScheduledTask, row.schedule_id, named=True)

    @admin.display(description="flow")
    def follows(self, row: JobRow) -> SafeString | str:
        return self.link(OpenJob, row.parent)

    @admin.display(description="key")
    def unique_key(self, row: JobRow) -> str:
        return redacted_for(row.args, row.key or "-")

    @admin.display(description="failed attempts")
    def attempts(self, row: JobRow) -> SafeString:
        found = [
            f"{one.number}. {one.outcome} at {one.ended_at:%Y-%m-%d %H:%M:%S} UTC: {one.reason}"
            for one in duly.jobs.get(row.id).attempts
        ]
        return _text(redacted_for(row.args, "\n".join(found)))

    @admin.display(description="log")
    def log(self, row: JobRow) -> SafeString:
        lines = islice(duly.jobs.get(row.id).logs(), MOST_LINES)
        return _text(redacted_for(row.args, "\n".join(lines)))

    @admin.display(description="error")
    def failure(self, row: Any) -> SafeString:
        return _text(redacted_for(row.args, row.error or ""))

    @admin.display(description="result")
    def returned(self, row: Any) -> SafeString:
        return _text(redacted_for(row.args, row.result or ""))

    def delete_queryset(self, request: HttpRequest, rows: Any) -> None:
        self.each(request, rows, lambda app, row: app.ask(remove_job, row.id))


@admin.register(OpenJob)
class OpenJobAdmin(JobAdmin):
    actions = ("cancel",)
    may_delete = False  # it is cancelled first

    cancel = verb(
        "Cancel, or stop if it runs",
        "Cancelled or told to stop",
        lambda app, row: app.ask(cancelled, row.id),
    )


@admin.register(EndedJob)
class EndedJobAdmin(JobAdmin):
    list_display = ("id", "named", "state", "claimed_at", "ended_at", "why", "queue", "attempt")
    fields = (*JobAdmin.fields[:4], "ended_at", "returned", "failure", *JobAdmin.fields[4:])
    actions = ("run_again",)
    run_again = verb(
        "Run again, as a new job",
        "Enqueued",
        lambda app, row: app.ask(run_again, app.registry, row.id, args=None),
    )


@admin.register(DeadJob)
class DeadJobAdmin(JobAdmin):
    list_display = ("id", "named", "ended_at", "why", "queue", "attempt")
    fields = (*JobAdmin.fields[:4], "ended_at", "failure", *JobAdmin.fields[4:])
    list_filter = (QueueFilter, TaskFilter)
    actions = ("requeue",)
    requeue = verb("Requeue (retry)", "Requeued", lambda app, row: app.jobs.get(row.id).retry())


@admin.register(JobQueue)
class JobQueueAdmin(StoredRowAdmin):
    """All queues with the jobs of each; the ended ones are counted among the newest."""

    actions = ("pause", "resume", "requeue_failed")
    pause = verb("Pause", "Paused", lambda app, row: app.queues.pause(row.name))
    resume = verb("Resume", "Resumed", lambda app, row: app.queues.resume(row.name))
    requeue_failed = verb(
        "Requeue all failed jobs",
        "Requeued the failed jobs of",
        lambda app, row: app.ask(lambda store: store.jobs.retry_found(Filter(queue=row.name))),
    )

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        if not self.has_view_or_change_permission(request):
            raise PermissionDenied
        possible = self.get_actions(request)
        if request.method == "POST":
            if request.POST.get("action") not in possible:
                raise PermissionDenied
            act, *_ = possible[request.POST["action"]]
            chosen: Any = [JobQueue(name=name) for name in request.POST.getlist("_selected_action")]
            act(self, request, chosen)
            if not chosen:
                messages.warning(request, "Select the queues first.")
            return HttpResponseRedirect(request.get_full_path())
        context = {
            **self.admin_site.each_context(request),
            "title": "Queues",
            "opts": self.opts,
            "states": REGISTRIES,
            "queues": self._queues(StaffApp(request.user).ask(queue_list)),
            "verbs": self.get_action_choices(request, default_choices=[]),
            **(extra_context or {}),
        }
        return TemplateResponse(request, "admin/duly/queues.html", context)

    def _queues(self, queues: Iterable[QueueView]) -> list[tuple[QueueView, Any]]:
        """Return each queue with its counts by state, and the pages that list those jobs."""

        def cell(queue: QueueView, state: str, model: type[JobRow]) -> tuple[str, int]:
            asked = urlencode({"queue": queue.name, "state": state})
            return f"{self._list_url(model)}?{asked}", getattr(queue, state)

        return [(one, [cell(one, *kept) for kept in REGISTRIES.items()]) for one in queues]


@admin.register(JobWorker)
class JobWorkerAdmin(StoredRowAdmin):
    list_display = (
        "name",
        "queues",
        "slots",
        "running",
        "told",
        "started_at",
        "beat_at",
        "version",
    )
    fields = (
        "name", "queues", "slots", "running", "jobs", "told", "started_at", "beat_at",
        "lease_until", "process", "app", "version",
    )  # fmt: skip
    actions = ("drain", "resume", "stop", "stop_now")

    def jobs(self, row: JobWorker) -> SafeString:
        return self.rows_with("worker", row, *JOBS)

    def process(self, row: JobWorker) -> str:
        return str(row.host.get("pid", "-"))

    def get_queryset(self, request: HttpRequest) -> Any:
        return super().get_queryset(request).filter(lease_until__gt=clock.now())

    drain = verb("Drain: start no more jobs", "Told", lambda app, row: app.workers.drain(row.id))
    resume = verb("Resume", "Told", lambda app, row: app.workers.resume(row.id))
    stop = verb("Stop after the running jobs", "Told", lambda app, row: app.workers.stop(row.id))
    stop_now = verb(
        "Stop now; others rerun its jobs",
        "Told",
        lambda app, row: app.workers.stop(row.id, now=True),
    )


async def cancelled(store: Store, number: int) -> None:
    await store.jobs.cancel(number, reason=f"cancelled by {store.who}")


def row_url(site: str, model: type[StoredRow], key: object) -> str:
    return reverse(f"{site}:duly_{model._meta.model_name}_change", args=[key])  # noqa: SLF001


@cache  # Django compares columns by identity
def moment_column(field: MomentField) -> Callable[[Any], SafeString | str]:
    @admin.display(description=field.verbose_name, ordering=field.name)
    def column(row: Any) -> SafeString | str:
        moment = getattr(row, field.name)
        return "-" if moment is None else _second(moment)

    column.__name__ = field.name  # the class of its cells
    return column


def _second(moment: datetime) -> SafeString:
    shown = f"{timezone.template_localtime(moment):%Y-%m-%d %H:%M:%S}"
    return format_html('<span style="white-space: nowrap">{}</span>', shown)


def _text(text: str) -> SafeString:
    return format_html('<pre style="white-space: pre-wrap; margin: 0">{}</pre>', text or "-")
