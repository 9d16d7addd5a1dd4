"""Run an app, or a file of schedules, until told to stop; and the dashboard in a child process.

The dashboard has a process of its own so that its requests take no time from jobs. It stops with
the worker. If it cannot start, for example because its port is in use, everything else continues.
"""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from duly.cli.app_and_store import app_of, imported, run, settled, store_line
from duly.cli.options import split_settings
from duly.cli.output import log_as_json, say
from duly.errors import InvalidValue
from duly.policy.redaction import some

if TYPE_CHECKING:
    from duly.app import NodeLifecycle, NodeOptions, WorkerOptions, WorkerWords
    from duly.events import Emit
    from duly.files import ScheduleFile
    from duly.registry.registry import Registry
    from duly.settings import Settings

MOST_NAMED: Final = 10
NO_TASKS: Final = (
    "none, so no job can run here: declare some with @duly.task, or --allow shell,http"
)
LAUNCH: Final = "DULY_LAUNCH"  # the sign-in secret of this start, for the dashboard's process
_taken: list[str] = []


@dataclass(frozen=True, slots=True)
class ServiceProcess:
    """The command line that restarts this process, and whether it replaced an earlier process."""

    restart: "Callable[[int], object]"
    is_anew: bool


def serve_app(
    app: str | None, words: Mapping[str, Any], *, command: str, worker: bool, scheduler: bool
) -> None:
    """Run an app until it is done or told to stop; ``words`` are the options that were given."""
    flags, rest = split_settings(words)
    settings = settled(app=app, **flags)
    target = app_of(settings, command)
    process = begin(settings)
    registry = imported(target, settings)
    roles = _node_options(
        registry, settings, process, rest, target=target, worker=worker, scheduler=scheduler
    )
    _serve(roles, settings, process)


def serve_file(file: str, words: Mapping[str, Any], *, worker: bool) -> None:
    """Apply a file of schedules, then run them, and the configured app if there is one.

    Edits that people made since stay, and nothing is removed: that is for ``duly apply``.
    """
    from duly.cli.plan import read_sheet
    from duly.registry.app_loading import find
    from duly.registry.registry import Registry

    flags, rest = split_settings(words)
    settings = settled(schedules_file=file, **flags)
    sheet = read_sheet(file)
    process = begin(settings)
    target = settings.app
    registry = Registry() if target is None else imported(target, settings)
    url = address_of(None if target is None else find(target), settings)
    refuse_remote(url)
    if not process.is_anew:
        tasks = None if target is None else registry
        migrate = rest.get("migrate", False)
        run(_apply(url, sheet, name=Path(file).name, tasks=tasks, migrate=migrate))
        _warn_of_disabled_tasks(sheet, settings)
    roles = _node_options(
        registry, settings, process, rest, target=target, worker=worker, scheduler=True
    )
    _serve(roles, settings, process)


def begin(settings: "Settings") -> ServiceProcess:
    """Begin a process that serves: choose its log format, and apply ``--store``.

    ``--store`` overrides the URL in the app's code, here and in all child processes.
    """
    from duly.app import SAID_BY_OPERATOR, follow, was_started_anew

    process = ServiceProcess(follow(), was_started_anew())
    if settings.log_format == "json":
        log_as_json()
    if settings.origin("url") == "--store":
        os.environ[SAID_BY_OPERATOR] = settings.url
    refuse_remote(os.environ.get(SAID_BY_OPERATOR, ""))
    return process


def refuse_remote(url: str) -> None:
    """Refuse to fire schedules or run jobs through a remote server: leases need the database."""
    from duly.app import is_remote, place

    if is_remote(url):
        raise InvalidValue(
            f"a scheduler or worker needs the database itself, and {place(url)} is a duly server: "
            "give --store postgresql://… or a path"
        )


def _node_options(
    registry: "Registry",
    settings: "Settings",
    process: ServiceProcess,
    words: Mapping[str, Any],
    *,
    target: str | None,
    worker: bool,
    scheduler: bool,
) -> "NodeOptions":
    """Return the options of a node; ``words`` are the command's options besides settings."""
    from duly.app import Duly, NodeOptions, allow_builtin
    from duly.connection import retention_of
    from duly.registry.app_loading import find

    said = dict(words)
    migrate = said.pop("migrate", False)
    app = None if target is None else find(target)
    allow_builtin(
        registry,
        settings.allow,
        networks=settings.allow_networks,
        secrets=settings.allow_signing,
        targets=settings.targets,
    )
    return NodeOptions(
        url=address_of(app, settings),
        registry=registry,
        worker=_worker_options(settings, said, process) if worker else None,
        scheduler=scheduler,
        target=target,
        app=(app.name or "") if isinstance(app, Duly) else "",
        announcement=app.announcement() if scheduler and isinstance(app, Duly) else None,
        retention=retention_of(settings),
        alerts=settings.alerts,
        zone=settings.zone,
        migrate=migrate,
        patient=process.is_anew,
        stop_timeout=settings.stop_timeout,
    )


def _serve(roles: "NodeOptions", settings: "Settings", process: ServiceProcess) -> None:
    """Run the node until it is done or told to stop."""
    from duly.app import NodeLifecycle, serve
    from duly.runtime.console import event_printer, json_records

    if not process.is_anew:
        say(store_line(roles.url))
        if roles.worker is not None and settings.log_level in ("debug", "info"):
            say(_introduction(roles.registry, roles.worker.queues, roles.worker.concurrency))
    emit = event_printer(settings, say)

    async def work() -> None:
        shift = NodeLifecycle(roles, emit)
        if roles.worker is not None and roles.scheduler and settings.web:
            await _serve_with_dashboard(shift, settings, emit, target=roles.target, url=roles.url)
        else:
            await serve(shift, say)

    with json_records(settings, say):
        run(work())


def _worker_options(
    settings: "Settings", words: Mapping[str, Any], process: ServiceProcess
) -> "WorkerOptions":
    from duly.app import worker_options
    from duly.runtime.console import shows_jobs
    from duly.runtime.node import worker_words

    said = dict(words)
    if "resources" in said:
        said["resources"] = dict(map(_amount, said["resources"].split(",")))
    chosen: WorkerWords = {**worker_words(settings), **cast("WorkerWords", said)}
    found = worker_options(dedicated=True, verbose=shows_jobs(settings), **chosen)
    return replace(found, restart=process.restart)


def _amount(text: str) -> tuple[str, int]:
    name, equals, amount = text.strip().partition("=")
    if not (name and equals and amount.isascii() and amount.isdigit()):
        raise InvalidValue(f'--resources: "{text}": expected names and whole numbers: gpu=1,mem=8')
    return name, int(amount)


def address_of(app: object, settings: "Settings") -> str:
    """Return the database of an app; the configured one if the app names none."""
    from duly.app import address

    return str(getattr(app, "url", None) or address(settings.url))


def _introduction(registry: "Registry", queues: Sequence[str], slots: int) -> str:
    """Return the worker's queues, concurrency and tasks, and the queues that it does not serve."""
    lines = [
        f"queues: {', '.join(queues)} (concurrency {slots})",
        f"tasks: {some([definition.name for definition in registry], MOST_NAMED) or NO_TASKS}",
    ]
    others: dict[str, str] = {}
    for definition in registry:
        if definition.queue not in queues:
            others.setdefault(definition.queue, definition.name)
    if others:
        named = ", ".join(f"{queue} ({task})" for queue, task in sorted(others.items()))
        flags = ",".join([*queues, *sorted(others)])
        lines.append(f"queues without a worker here: {named}; add --queues {flags}")
    return "\n".join(lines)


def take_secret() -> None:
    """Move the secret out of the environment, before tasks and other programs can see it."""
    if (found := os.environ.pop(LAUNCH, None)) is not None:
        _taken[:] = [found]


def given_secret() -> str | None:
    """Return the secret that the parent process gave this one."""
    return _taken[0] if _taken else None


def with_secret(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a process that serves the dashboard, or that starts one.

    All processes started from here get the same secret.
    """
    from duly.app.access import new_secret

    if not _taken:
        _taken.append(new_secret())
    return {**environment, LAUNCH: _taken[0]}


async def _serve_with_dashboard(
    shift: "NodeLifecycle",
    settings: "Settings",
    emit: "Emit",
    *,
    target: str | None,
    url: str,
) -> None:
    """Run the worker; start the dashboard's process when the database is open."""
    import asyncio

    from duly.app import SAID_BY_OPERATOR, Supervisor, serve

    environment = with_secret({**os.environ, SAID_BY_OPERATOR: url})
    words = ["--beside", "--host", settings.host, "--port", str(settings.port)]
    words += ["--log-format", settings.log_format]
    command = [sys.executable, "-m", "duly", "web", *([target] if target else []), *words]
    supervisor = Supervisor([command], environment=environment, emit=emit)

    async def show() -> int:
        await shift.is_open.wait()
        return await supervisor.run()

    dashboard = asyncio.create_task(show())
    dashboard.add_done_callback(_report_dashboard)
    try:
        await serve(shift, say)
    finally:
        supervisor.stop()
        shift.is_open.set()
        await dashboard


def _report_dashboard(task: Any) -> None:  # noqa: ANN401 - an asyncio task; asyncio is imported late
    if not task.cancelled() and task.exception() is None and task.result():
        say("the dashboard did not start; everything else continues (--no-web turns it off)")


async def _apply(
    url: str, sheet: "ScheduleFile", *, name: str, tasks: "Registry | None", migrate: bool
) -> None:
    from duly.app.access import commanded
    from duly.app.schedule_files import apply, draft
    from duly.connection import open_or_make_store

    store = await open_or_make_store(url, migrate=migrate)
    try:
        made = await draft(store, sheet, file=name)
        if not made.is_written:
            await apply(commanded(store), made, tasks=tasks)
        for line in made.plan.lines():
            say(line)
        say(f"{name}: {made.plan.summary()}")
    finally:
        await store.close()


def _warn_of_disabled_tasks(sheet: "ScheduleFile", settings: "Settings") -> None:
    """Warn of entries whose jobs would wait because this worker may not run their task."""
    for kind, what in (("shell", ("shell", "command")), ("http", ("http",))):
        found = [entry.name for entry in sheet.schedules.values() if entry.kind in what]
        if found and kind not in settings.allow:
            jobs = f"jobs of {some(found, MOST_NAMED)} will wait"
            say(f"{kind} is disabled here; {jobs}: add --allow {kind}")
