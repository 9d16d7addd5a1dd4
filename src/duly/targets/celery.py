"""Celery as target, the reporter for Celery's workers, and a replacement for Beat.

``CeleryTarget`` sends a task by name. ``report_outcomes(app, duly)``, called where the Celery app
is made, reports what becomes of it. ``schedule_beat(duly, app, target="main")`` declares every
entry of ``beat_schedule``.
"""

from collections.abc import Mapping
from functools import cached_property
from importlib import import_module
from typing import Any, Protocol

from celery import Celery, signals
from kombu.exceptions import KombuError
from kombu.pools import producers

from duly.builtin.send import OutgoingMessage
from duly.errors import InvalidValue
from duly.files.importers.celery_beat import OWN_TASKS, Periodic, described, rule_of
from duly.model.outcome import MessageId
from duly.targets.configured import PATIENCE_SECONDS, ConfiguredTarget, in_thread
from duly.targets.reporting import OutcomeReporter, ReportingApp

# A broker that does not answer is tried again by duly, not by Celery for ever.
_IMPATIENT: Mapping[str, Any] = {
    "max_retries": 1,
    "interval_start": 0,
    "socket_connect_timeout": 5,
    "socket_timeout": 10,
}
_CONFIRMS: Mapping[str, Any] = {
    "confirm_publish": True,
    "max_retries": 1,
    "interval_start": 0,
    "read_timeout": PATIENCE_SECONDS,
}


class CeleryTarget(ConfiguredTarget):
    async def send(self, message: OutgoingMessage) -> None:
        await in_thread((KombuError, *self._lost), self._send, message)

    async def revoke(self, message: MessageId) -> bool:
        """Tell the workers to skip the task; one that runs already goes on."""
        await in_thread((KombuError, *self._lost), self._revoke, message)
        return True

    def _send(self, message: OutgoingMessage) -> None:
        with producers[self._connection].acquire(block=True) as producer:
            try:
                self._app.send_task(
                    message.task,
                    message.args,
                    message.kwargs,
                    **{"retry": False, **message.options},
                    task_id=str(message.id),
                    producer=producer,
                )
            except Exception:
                # A confirm that comes late must not be taken for that of the next message.
                producer.connection.collect()
                raise

    def _revoke(self, message: MessageId) -> None:
        with producers[self._connection].acquire(block=True) as producer:
            self._app.control.revoke(str(message), connection=producer.connection)

    @cached_property
    def _app(self) -> Any:  # noqa: ANN401 - Celery ships no types
        if self.settings.app:
            return _imported(self.settings.app)
        return Celery(broker=self.url, set_as_current=False)

    @cached_property
    def _connection(self) -> Any:  # noqa: ANN401
        connection = self._app.connection_for_write()
        ours = _CONFIRMS if connection.transport_cls in ("amqp", "amqps", "pyamqp") else _IMPATIENT
        connection.transport_options = {**(connection.transport_options or {}), **ours}
        return connection

    @property
    def _lost(self) -> tuple[type[Exception], ...]:
        """The errors by which the client says that the broker is down."""
        return (*self._connection.connection_errors, *self._connection.channel_errors)


def report_outcomes(app: Any, duly: ReportingApp) -> None:  # noqa: ANN401
    """Report the outcomes of tasks that duly sent, in every worker of this Celery app.

    A task that Celery itself retries is reported when it has ended.
    """
    reporter = OutcomeReporter(duly)

    def is_ours(sender: Any) -> bool:  # noqa: ANN401
        return getattr(sender, "app", app) is app

    def succeeded(sender: Any, result: object, **_: object) -> None:  # noqa: ANN401
        if is_ours(sender):
            reporter.succeeded(sender.request.id, result)

    def failed(
        sender: Any,  # noqa: ANN401
        task_id: str,
        exception: BaseException,
        einfo: object = None,
        **_: object,
    ) -> None:
        if is_ours(sender):
            reporter.failed(task_id, exception, str(einfo or ""))

    def revoked(request: Any, expired: bool = False, **_: object) -> None:  # noqa: ANN401, FBT001, FBT002
        what = "expired before a worker of Celery took it" if expired else "was revoked in Celery"
        reporter.failed(request.id, f"Revoked: it {what}")

    def unknown(name: str, id: str, **_: object) -> None:  # noqa: A002 - as Celery calls it
        reporter.failed(id, f"NotRegistered: the Celery worker has no task {name}")

    for signal, receiver in (
        (signals.task_success, succeeded),
        (signals.task_failure, failed),
        (signals.task_revoked, revoked),
        (signals.task_unknown, unknown),
    ):
        signal.connect(receiver, weak=False)


class BeatApp(Protocol):
    """A ``Duly``, as far as the schedules of Beat need it."""

    @property
    def schedule(self) -> Any: ...  # noqa: ANN401
    def external(self, task: str, /, *, target: str, options: Mapping[str, Any]) -> Any: ...  # noqa: ANN401


def schedule_beat(duly: BeatApp, app: Any, *, target: str) -> None:  # noqa: ANN401
    """Declare the entries of ``app.conf.beat_schedule`` as schedules that send to the target.

    As Beat does, they send although the last run has not ended. An entry that cannot be a schedule
    here is refused with its name.
    """
    for name, row in app.conf.beat_schedule.items():
        periodic = described(name, row)
        if periodic.enabled and periodic.task not in OWN_TASKS:
            _schedule(duly, periodic, row.get("options") or {}, zone=str(app.timezone), to=target)


def _schedule(
    duly: BeatApp, periodic: Periodic, options: Mapping[str, Any], *, zone: str, to: str
) -> None:
    try:
        rule, own_zone = rule_of(periodic.schedule, zone)
    except ValueError as error:
        raise InvalidValue(f'beat_schedule, "{periodic.name}": {error}') from error
    said = {**options, **({"queue": periodic.queue} if periodic.queue else {})}
    task = duly.external(periodic.task, target=to, options=said)
    call = task.bind(*periodic.args, **periodic.kwargs)
    duly.schedule(rule, call, name=periodic.name, zone=own_zone, overlap="allow")


def _imported(place: str) -> Any:  # noqa: ANN401
    module, _, name = place.partition(":")
    try:
        return getattr(import_module(module), name or "app")
    except (ImportError, AttributeError) as error:
        raise InvalidValue(f'app = "{place}": no Celery app was found there: {error}') from error
