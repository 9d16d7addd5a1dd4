"""Schedules and background jobs for Python that survive crashes, deploys and clock changes.

Importing the package is cheap: each name imports its module on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from duly.errors import DulyError, JobFailed, NotTheApp, Permanent, RetryAfter, RuleError
from duly.errors import KeyTaken as KeyTaken
from duly.errors import NotInAJob as NotInAJob
from duly.errors import StoreUnavailable as StoreUnavailable
from duly.version import __version__

if TYPE_CHECKING:
    from duly.app.duly import Duly
    from duly.app.flows import Flow as Flow
    from duly.app.job import Job
    from duly.app.tasks import Call
    from duly.flow.trace import Step as Step
    from duly.model.access import User as User
    from duly.model.limit import Limit
    from duly.model.policies import Missed
    from duly.policy.retry import Retry
    from duly.registry.codecs import codec as codec
    from duly.registry.context import Context, current
    from duly.views.fires import Fire
    from duly.views.schedules import Schedule


__all__ = [
    "Call",
    "Context",
    "Duly",
    "DulyError",
    "Fire",
    "Job",
    "JobFailed",
    "Limit",
    "Missed",
    "Permanent",
    "Retry",
    "RetryAfter",
    "RuleError",
    "Schedule",
    "__version__",
    "current",
]

_WHERE = {
    "Call": "duly.app.tasks",
    "Context": "duly.registry.context",
    "Duly": "duly.app.duly",
    "Fire": "duly.views.fires",
    "Flow": "duly.app.flows",
    "Job": "duly.app.job",
    "Limit": "duly.model.limit",
    "Missed": "duly.model.policies",
    "Retry": "duly.policy.retry",
    "Schedule": "duly.views.schedules",
    "Step": "duly.flow.trace",
    "User": "duly.model.access",
    "codec": "duly.registry.codecs",
    "current": "duly.registry.context",
}
# Names of the app that people look for in the package.
_OF_THE_APP = frozenset({
    "aenqueue_many", "asgi", "enqueue_many", "flow", "jobs", "lifespan", "limits", "queues", "run",
    "running", "schedule", "schedules", "task", "wait_for", "workers", "wsgi",
})  # fmt: skip


def _load(name: str) -> Any:  # noqa: ANN401 - whatever it is
    if name in _WHERE:
        found = globals()[name] = getattr(import_module(_WHERE[name]), name)
        return found
    if name in _OF_THE_APP:
        raise NotTheApp("duly is the package; your app is the object: from tasks import duly")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


if not TYPE_CHECKING:  # else type checkers would accept any name
    __getattr__ = _load


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
