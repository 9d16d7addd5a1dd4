"""The web side beside ``duly up`` and ``duly dev``: a process of its own.

So that nobody who looks at it takes time from jobs. It lives and ends with them; if it cannot start
(its port is taken by another duly, say), everything else goes on without.
"""

import os
import sys
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Final

from duly.cli.streams import say

if TYPE_CHECKING:
    from duly.events import Emit
    from duly.settings import Settings

LAUNCH: Final = "DULY_LAUNCH"  # the secret of this start, for the web side


def keep_secret() -> None:
    """Have everything that is started from here open with one secret, however often it starts."""
    from duly.app.access import new_secret

    os.environ.setdefault(LAUNCH, new_secret())


async def serve_with_web(
    work: Coroutine[Any, Any, None],
    settings: "Settings",
    emit: "Emit",
    *,
    target: str | None,
    url: str,
) -> None:
    """Do the work, with the web side beside it."""
    import asyncio

    from duly.app import SAID_BY_OPERATOR, Supervisor

    keep_secret()
    environment = {**os.environ, SAID_BY_OPERATOR: url}
    words = ["--beside", "--host", settings.host, "--port", str(settings.port)]
    command = [sys.executable, "-m", "duly", "web", *([target] if target else []), *words]
    supervisor = Supervisor([command], environment=environment, emit=emit)
    beside = asyncio.create_task(supervisor.run())
    beside.add_done_callback(_tell)
    try:
        await work
    finally:
        supervisor.stop()
        await beside


def _tell(beside: Any) -> None:  # noqa: ANN401 - a task, of asyncio, which is not imported yet
    if not beside.cancelled() and beside.exception() is None and beside.result():
        say("the dashboard did not start; everything else goes on without it (--no-web: quietly)")
