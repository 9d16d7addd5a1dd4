"""The web side beside ``duly up`` and ``duly dev``: a process of its own.

So that nobody who looks at it takes time from jobs. It lives and ends with them; if it cannot start
(its port is taken by another duly, say), everything else goes on without.
"""

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from duly.cli.streams import say

if TYPE_CHECKING:
    from duly.app import Shift
    from duly.events import Emit
    from duly.settings import Settings

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
    shift: "Shift",
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
