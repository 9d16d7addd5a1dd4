"""``duly up schedules.toml``: what a file declares is applied first, and then it is run.

No Python is needed where everything in it is shell, command or http. What people have changed since
stays, and nothing is removed: that is for ``duly apply``.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from duly.cli.finding import imported
from duly.cli.options import parted
from duly.cli.serving import address_of, obey, refuse_elsewhere, serve_registry
from duly.cli.sheets import read_sheet
from duly.cli.store import run, settled
from duly.cli.streams import say

if TYPE_CHECKING:
    from duly.declare import Sheet
    from duly.registry.registry import Registry
    from duly.settings import Settings

MOST_NAMED = 5


def serve_file(file: str, words: Mapping[str, Any], *, worker: bool) -> None:
    """Apply a file, and run what it declares; of the app too, if one is configured."""
    from duly.registry.loading import find
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
    url: str, sheet: "Sheet", *, name: str, tasks: "Registry | None", migrate: bool
) -> None:
    from duly.app.access import commanded
    from duly.app.schedule_files import apply, draft
    from duly.app.typed_schedules import login
    from duly.connection import open_or_make_store

    store = await open_or_make_store(url, migrate=migrate)
    try:
        made = await draft(store, sheet, file=name)
        if not made.is_written:
            await apply(commanded(store), made, tasks=tasks, who=login())
        for line in made.plan.lines():
            say(line)
        say(f"{name}: {made.plan.summary()}")
    finally:
        await store.close()


def _warn_of_what_is_off(sheet: "Sheet", settings: "Settings") -> None:
    """Jobs that nobody here may run wait for somebody who may."""
    for kind, what in (("shell", ("shell", "command")), ("http", ("http",))):
        found = [entry.name for entry in sheet.schedules.values() if entry.kind in what]
        if found and kind not in settings.allow:
            shown = ", ".join(found[:MOST_NAMED]) + (", …" if len(found) > MOST_NAMED else "")
            say(f"{kind} is off here, and {shown} would wait: add --allow {kind}")
