"""The tasks and flows of the simulated world, declared as an application would.

The stage plays the parts of the tasks. There is one for each kind of executor, one that jobs call
back when they have ended, and those that are steps of flows.
"""

from collections.abc import Sequence

from duly.app.duly import Duly
from duly.flow.trace import Step

QUEUES = ("default", "other")
RESOURCE = "gpu"
ITEMS = [1, 2, 3]  # what ``listing`` comes to
GO, PING, STOP = "sim.go", "sim.ping", "sim.stop"  # the first is what some flows wait for

_app = Duly(":memory:")


@_app.task(grace="2s")
async def work(call: int = 0, of: str = "", poison: bool = False) -> str:
    raise NotImplementedError(f"{call} {of} {poison}: nothing is done in a simulated world")


@_app.task(name="more work", executor="thread", grace="2s")
def more_work(call: int = 0, of: str = "", poison: bool = False) -> str:
    raise NotImplementedError(f"{call} {of} {poison}: nothing is done in a simulated world")


@_app.task(name="follow up", executor="process", queue="other")
def follow_up(job_id: int) -> None:
    raise NotImplementedError(f"{job_id}: nothing is done in a simulated world")


@_app.task(grace="2s")
async def play(value: str = "") -> str:
    raise NotImplementedError(f"{value}: nothing is done in a simulated world")


@_app.task(grace="2s", queue="other")
async def listing() -> list[int]:
    raise NotImplementedError("nothing is done in a simulated world")


@_app.task(grace="2s")
async def each(item: int, value: str = "") -> str:
    raise NotImplementedError(f"{item} {value}: nothing is done in a simulated world")


@_app.task(grace="2s")
async def gather(found: Sequence[str | None] | None) -> str:
    raise NotImplementedError(f"{found}: nothing is done in a simulated world")


@_app.flow
def chain(call: int = 0, of: str = "", poison: bool = False) -> Step[str]:
    first = play.step(of)
    return play.step(play.step(first.result).result)


@_app.flow
def fan(call: int = 0, of: str = "", poison: bool = False) -> Step[str]:
    """A list, a job for each item, and a join; somebody to be told, and somebody to tidy up."""
    parts = each.map(listing.step().result, value=of)
    joined = gather.step(parts.result)
    parts >> play.step().when("any_failed").named("tell")
    joined >> play.step().when("all_done").named("tidy")
    return joined


@_app.flow(timeout="45s")
def stubborn(call: int = 0, of: str = "", poison: bool = False) -> None:
    """Two ways that go on without each other, behind one of which is another flow."""
    left = each.map([1, 2], value=of).if_failed("go_on")
    right = chain.step(0, of)
    [left, right] >> play.step()
    left >> gather.step(left.result).when("all_done")


@_app.flow
def patient(call: int = 0, of: str = "", poison: bool = False) -> None:
    """Something has to happen before it goes on."""
    play.step(of) >> _app.wait_for(GO, key="go:{call}", timeout="20s") >> play.step()


REGISTRY = _app.registry
TASKS = ("work", "more work")
FLOWS = ("chain", "fan", "stubborn", "patient")
CALLBACK = "follow up"
