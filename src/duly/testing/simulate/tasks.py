"""The tasks of the simulated world, declared as an application would; the stage plays their parts.

One for each kind of executor. The third is what jobs call back when they have ended.
"""

from duly.registry.definition import define
from duly.registry.registry import Registry

QUEUES = ("default", "other")
RESOURCE = "gpu"


async def work(call: int = 0, of: str = "", poison: bool = False) -> str:  # noqa: FBT001, FBT002
    raise NotImplementedError(f"{call} {of} {poison}: nothing is done in a simulated world")


def more_work(call: int = 0, of: str = "", poison: bool = False) -> str:  # noqa: FBT001, FBT002
    raise NotImplementedError(f"{call} {of} {poison}: nothing is done in a simulated world")


def follow_up(job_id: int) -> None:
    raise NotImplementedError(f"{job_id}: nothing is done in a simulated world")


def _declared() -> Registry:
    registry = Registry()
    registry.add(define(work, grace="2s"))
    registry.add(define(more_work, name="more work", executor="thread", grace="2s"))
    registry.add(define(follow_up, name="follow up", executor="process", queue="other"))
    return registry


REGISTRY = _declared()
TASKS = ("work", "more work")
CALLBACK = "follow up"
