"""Tasks that come with duly: a shell line, a command, an HTTP request, a hand-off. No Python code.

They are off unless the operator of a worker allows them: with them, everybody who may write a
schedule may run any program here, or send requests from inside the network. ``"shell"`` allows the
tasks ``duly.shell`` and ``duly.command``, ``"http"`` allows ``duly.http``, and ``"send"`` allows
``duly.send`` and ``duly.revoke``.

A program is not retried unless its schedule says so: it may not be safe to run twice. (One that was
lost with its worker is run again, like every job.)
"""

from collections.abc import Collection, Mapping, Sequence
from difflib import get_close_matches
from typing import Final

from duly.builtin.http import HttpTask
from duly.builtin.network_guard import NetworkGuard
from duly.builtin.send import HandOffTarget, SendTask
from duly.builtin.shell import GRACE, command, shell
from duly.errors import InvalidValue
from duly.model.outcome import REVOKE, SEND
from duly.registry.definition import Definition, define

SHELL: Final = "duly.shell"
COMMAND: Final = "duly.command"
HTTP: Final = "duly.http"
NO_TARGETS: Final[Mapping[str, HandOffTarget]] = {}
WORDS: Final = ("shell", "http", "send")


def definitions(
    allowed: Collection[str],
    *,
    networks: Sequence[str] = (),
    secrets: Sequence[str] = (),
    targets: Mapping[str, HandOffTarget] = NO_TARGETS,
) -> list[Definition]:
    """The tasks that are allowed.

    ``networks`` are those, as ``"10.1.0.0/16"``, and the names of hosts, as ``"hooks.internal"``,
    that ``http`` may reach though they are not public; ``secrets`` are the environment variables
    that it may sign requests with; ``targets`` are the systems that ``send`` may hand jobs to.
    """
    _check(allowed)
    found = []
    if "shell" in allowed:
        # Twice as long as a program has to end: after that, something hangs.
        grace = GRACE * 2
        found += [
            define(shell, name=SHELL, retry=None, grace=grace, executor="async"),
            define(command, name=COMMAND, retry=None, grace=grace, executor="async"),
        ]
    guard = NetworkGuard(networks)
    if "http" in allowed:
        client = HttpTask(guard, secrets=frozenset(secrets))
        found.append(define(client.http, name=HTTP, executor="async"))
    if "send" in allowed:
        found += send_definitions(targets)
    return found


def send_definitions(targets: Mapping[str, HandOffTarget] = NO_TARGETS) -> list[Definition]:
    """Return the tasks ``duly.send`` and ``duly.revoke``."""
    task = SendTask(targets)
    return [
        define(task.send, name=SEND, title="{task}", executor="async"),
        define(task.revoke, name=REVOKE, executor="async"),
    ]


def _check(allowed: Collection[str]) -> None:
    if isinstance(allowed, str):
        raise InvalidValue(f'"{allowed}": several words, as ["shell", "http"]')
    for word in allowed:
        if word not in WORDS:
            near = get_close_matches(word, WORDS, n=1)
            meant = f'did you mean "{near[0]}"? ' if near else ""
            raise InvalidValue(
                f'"{word}" cannot be allowed: {meant}"shell" is for shell lines and commands, '
                '"http" for requests, "send" for hand-offs'
            )
