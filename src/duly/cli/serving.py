"""Running an app, or a file of schedules, until it is told to stop."""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from duly.cli.find_app import app_of, imported
from duly.cli.options import parted
from duly.cli.output import say
from duly.cli.store import run, settled
from duly.errors import InvalidValue

if TYPE_CHECKING:
    from duly.app import NodeLifecycle, WorkerWords
    from duly.declare import ScheduleFile
    from duly.events import Emit
    from duly.registry.registry import Registry
    from duly.settings import Settings


MOST_NAMED = 10
NO_TASKS = "none, so no job can run here: declare some by @duly.task, or --allow shell,http"


def serve_app(
    app: str | None, words: Mapping[str, Any], *, command: str, worker: bool, scheduler: bool
) -> None:
    """Run an app until it is done, or told to stop; ``words`` are what was typed."""
    typed, rest = parted(words)
    settings = settled(app=app, **typed)
    target = app_of(settings, command)
    process = obey(settings)
    registry = imported(target, settings)
    serve_registry(
        registry,
        settings,
        process=process,
        target=target,
        worker=worker,
        scheduler=scheduler,
        words=rest,
    )


@dataclass(frozen=True, slots=True)
class ServiceProcess:
    """This process, as one of the service that it belongs to."""

    restart: "Callable[[int], object]"  # end it, and have another take its place
    is_anew: bool  # it has taken the place of another


def obey(settings: "Settings") -> ServiceProcess:
    """What was said about the store counts for everything that is started, whatever code says."""
    from duly.app import SAID_BY_OPERATOR, follow, was_started_anew

    process = ServiceProcess(follow(), was_started_anew())
    if settings.origin("url") == "--store":
        os.environ[SAID_BY_OPERATOR] = settings.url
    refuse_elsewhere(os.environ.get(SAID_BY_OPERATOR, ""))
    return process


def refuse_elsewhere(url: str) -> None:
    """Who fires schedules or runs jobs holds leases in a database, and not over HTTP."""
    from duly.app import is_remote, place

    if is_remote(url):
        raise InvalidValue(
            f"whoever fires schedules or runs jobs needs the database itself, and {place(url)} is "
            "a duly: give --store postgresql://…, or a path"
        )


def serve_registry(
    registry: "Registry",
    settings: "Settings",
    *,
    process: ServiceProcess,
    target: str | None,
    worker: bool,
    scheduler: bool,
    words: Mapping[str, Any],
) -> None:
    from duly.app import (
        Duly,
        NodeLifecycle,
        NodeOptions,
        allow_builtin,
        place,
        serve,
        worker_options,
    )
    from duly.connection import retention_of
    from duly.registry.app_loading import find
    from duly.runtime.console import shows_jobs
    from duly.runtime.workers import worker_words

    said = dict(words)
    migrate = said.pop("migrate", False)
    app = None if target is None else find(target)
    networks, secrets = settings.allow_networks, settings.allow_signing
    allow_builtin(registry, settings.allow, networks=networks, secrets=secrets)
    options = None
    if worker:
        chosen: WorkerWords = {**worker_words(settings), **_worded(said)}
        verbose = shows_jobs(settings)
        chosen_options = worker_options(dedicated=True, verbose=verbose, **chosen)
        options = replace(chosen_options, restart=process.restart)
    roles = NodeOptions(
        url=address_of(app, settings),
        registry=registry,
        worker=options,
        scheduler=scheduler,
        target=target,
        app=(app.name or "") if isinstance(app, Duly) else "",
        announcement=app.announcement() if scheduler and isinstance(app, Duly) else None,
        retention=retention_of(settings),
        migrate=migrate,
        patient=process.is_anew,
        stop_timeout=settings.stop_timeout,
    )
    if not process.is_anew:
        say(f"store: {place(roles.url)}")
        if options is not None and settings.log_level in ("debug", "info"):
            say(_introduced(registry, options.queues, options.concurrency))
    emit = event_printer(settings)

    async def work() -> None:
        shift = NodeLifecycle(roles, emit)
        if worker and scheduler and settings.web:
            await serve_with_web(shift, settings, emit, target=target, url=roles.url)
        else:
            await serve(shift, say)

    run(work())


def address_of(app: object, settings: "Settings") -> str:
    """The store of an app; or what is configured, where it has none of its own."""
    from duly.app import address

    return str(getattr(app, "url", None) or address(settings.url))


def zone_of(app: object, settings: "Settings") -> str | None:
    """The time zone of an app's rules; or what is configured, where it has none of its own."""
    return getattr(app, "zone", None) or settings.zone


def event_printer(settings: "Settings") -> "Emit":
    from duly.runtime import console as talk

    return talk.event_printer(settings, say)


def _worded(words: Mapping[str, Any]) -> "WorkerWords":
    """What was typed, as it is said in Python."""
    said = dict(words)
    if "resources" in said:
        said["resources"] = dict(map(_amount, said["resources"].split(",")))
    return cast("WorkerWords", said)


def _amount(text: str) -> tuple[str, int]:
    name, equals, amount = text.strip().partition("=")
    if not (name and equals and amount.isascii() and amount.isdigit()):
        raise InvalidValue(f'--resources: "{text}": names and whole numbers, as gpu=1,mem=8')
    return name, int(amount)


def _introduced(registry: "Registry", queues: Sequence[str], slots: int) -> str:
    names = [definition.name for definition in registry]
    shown = ", ".join(names[:MOST_NAMED]) + (", …" if len(names) > MOST_NAMED else "")
    said = f"queues: {', '.join(queues)}, {slots} at once\ntasks: {shown or NO_TASKS}"
    return "\n".join([said, *_unheard(registry, queues)])


def _unheard(registry: "Registry", queues: Sequence[str]) -> list[str]:
    """Queues of tasks that this worker does not listen to: somebody else has to."""
    others: dict[str, str] = {}
    for definition in registry:
        if definition.queue not in queues:
            others.setdefault(definition.queue, definition.name)
    if not others:
        return []
    named = ", ".join(f"{queue} ({task})" for queue, task in sorted(others.items()))
    return [f"not heard here: {named}; --queues {','.join([*queues, *sorted(others)])}"]


LAUNCH: Final = "DULY_LAUNCH"  # the secret of this start, for the web side
_taken: list[str] = []


def take_secret() -> None:
    """Take the secret out of the environment, before tasks and programs of others see it."""
    if (found := os.environ.pop(LAUNCH, None)) is not None:
        _taken[:] = [found]


def given_secret() -> str | None:
    """The secret that whoever started this process gave it."""
    return _taken[0] if _taken else None


def with_secret(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment of a process that serves the web side, or starts one.

    There is one secret, however often such a process is started from here.
    """
    from duly.app.access import new_secret

    if not _taken:
        _taken.append(new_secret())
    return {**environment, LAUNCH: _taken[0]}


async def serve_with_web(
    shift: "NodeLifecycle",
    settings: "Settings",
    emit: "Emit",
    *,
    target: str | None,
    url: str,
) -> None:
    """Do the work, with the web side beside it as soon as there is a store to show."""
    import asyncio

    from duly.app import SAID_BY_OPERATOR, Supervisor, serve

    environment = with_secret({**os.environ, SAID_BY_OPERATOR: url})
    words = ["--beside", "--host", settings.host, "--port", str(settings.port)]
    command = [sys.executable, "-m", "duly", "web", *([target] if target else []), *words]
    supervisor = Supervisor([command], environment=environment, emit=emit)

    async def show() -> int:
        await shift.is_open.wait()
        return await supervisor.run()

    beside = asyncio.create_task(show())
    beside.add_done_callback(_tell)
    try:
        await serve(shift, say)
    finally:
        supervisor.stop()
        shift.is_open.set()
        await beside


def _tell(beside: Any) -> None:  # noqa: ANN401 - a task, of asyncio, which is not imported yet
    if not beside.cancelled() and beside.exception() is None and beside.result():
        say("the dashboard did not start; everything else goes on without it (--no-web: quietly)")


MOST_SCHEDULES_NAMED = 5


def serve_file(file: str, words: Mapping[str, Any], *, worker: bool) -> None:
    """Apply a file, and run what it declares; of the app too, if one is configured."""
    from duly.cli.plan import read_sheet
    from duly.registry.app_loading import find
    from duly.registry.registry import Registry

    typed, rest = parted(words)
    settings = settled(schedules_file=file, **typed)
    sheet = read_sheet(file)
    process = obey(settings)
    target = settings.app
    registry = Registry() if target is None else imported(target, settings)
    url = address_of(None if target is None else find(target), settings)
    refuse_elsewhere(url)
    tasks = None if target is None else registry
    migrate = rest.get("migrate", False)
    if not process.is_anew:
        run(_applied(url, sheet, name=Path(file).name, tasks=tasks, migrate=migrate))
        _warn_of_what_is_off(sheet, settings)
    serve_registry(
        registry,
        settings,
        process=process,
        target=target,
        worker=worker,
        scheduler=True,
        words=rest,
    )


async def _applied(
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


def _warn_of_what_is_off(sheet: "ScheduleFile", settings: "Settings") -> None:
    """Jobs that nobody here may run wait for somebody who may."""
    for kind, what in (("shell", ("shell", "command")), ("http", ("http",))):
        found = [entry.name for entry in sheet.schedules.values() if entry.kind in what]
        if found and kind not in settings.allow:
            shown = ", ".join(found[:MOST_SCHEDULES_NAMED]) + (
                ", …" if len(found) > MOST_NAMED else ""
            )
            say(f"{kind} is off here, and {shown} would wait: add --allow {kind}")
