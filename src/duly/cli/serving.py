"""Running an app, or a file of schedules, until it is told to stop."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from duly.cli.beside import serve_with_web
from duly.cli.finding import app_of, imported
from duly.cli.options import parted
from duly.cli.store import run, settled
from duly.cli.streams import say
from duly.errors import InvalidValue

if TYPE_CHECKING:
    from duly.app import WorkerWords
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
class Process:
    """This process, as one of the service that it belongs to."""

    restart: "Callable[[int], object]"  # end it, and have another take its place
    is_anew: bool  # it has taken the place of another


def obey(settings: "Settings") -> Process:
    """What was said about the store counts for everything that is started, whatever code says."""
    from duly.app import SAID_BY_OPERATOR, follow, was_started_anew

    process = Process(follow(), was_started_anew())
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
    process: Process,
    target: str | None,
    worker: bool,
    scheduler: bool,
    words: Mapping[str, Any],
) -> None:
    from duly.app import Duly, Roles, Shift, allow_builtin, place, serve, worker_options
    from duly.connection import retention_of
    from duly.registry.loading import find
    from duly.runtime.console import tells_of_jobs
    from duly.runtime.worker_options import worker_words

    said = dict(words)
    migrate = said.pop("migrate", False)
    app = None if target is None else find(target)
    networks, secrets = settings.allow_networks, settings.allow_signing
    allow_builtin(registry, settings.allow, networks=networks, secrets=secrets)
    options = None
    if worker:
        chosen: WorkerWords = {**worker_words(settings), **_worded(said)}
        verbose = tells_of_jobs(settings)
        chosen_options = worker_options(dedicated=True, verbose=verbose, **chosen)
        options = replace(chosen_options, restart=process.restart)
    roles = Roles(
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
    emit = teller(settings)

    async def work() -> None:
        shift = Shift(roles, emit)
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


def teller(settings: "Settings") -> "Emit":
    from duly.runtime import console as talk

    return talk.teller(settings, say)


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
