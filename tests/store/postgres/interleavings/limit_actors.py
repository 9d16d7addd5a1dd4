"""Who enters and leaves limits in an interleaving, and what must hold after every order.

Nothing is over its limit, every running job has its places and no other has, and whoever waits is
seen by somebody: one who will leave, or the dispatcher.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from duly.model.job import Claimed, JobRequest
from duly.model.limit import NamedLimit, Rate, limits_as_json
from duly.store import claims, limits
from duly.store.database import Ask, Operation, Row, alone
from duly.store.values import CAREFUL, NO_FLOOR, NORMAL, ClaimRequest
from tests.factories import call
from tests.interleaving.interleave import Explored, Order
from tests.store.postgres.interleavings.actors import (
    SUCCESSOR,
    WORKER,
    Broken,
    Scene,
    expect,
)

FIRST, SECOND, THIRD = 100, 200, 300
MOST = 80

BREACHES = """
with numbers as (
    select named_limit.name, opens_at,
           case when rule.name is null then named_limit.concurrency else rule.concurrency end
           as concurrency,
           (select count(*) from duly.holding where holding.limit_name = named_limit.name) as held
      from duly.named_limit
      left join duly.limit_rule as rule on rule.name in (named_limit.name, template)
), wanted as (
    select job.id, one ->> 'name' as limit_name, state, waits, waits_for
      from duly.job, jsonb_array_elements(limits::jsonb) as one
)
select format('%s run at limit "%s", which lets %s', held, name, concurrency)
  from numbers where held > concurrency
 union all
select format('job %s has a place at "%s", and does not run', job_id, limit_name)
  from duly.holding
 where not exists (select from duly.job where job.id = job_id and state = 'running')
 union all
select format('job %s runs, and has no place at "%s"', id, limit_name)
  from wanted
 where state = 'running'
   and not exists (select
                     from duly.holding
                    where holding.limit_name = wanted.limit_name and job_id = wanted.id)
 union all
select format('"%s" has been forgotten, and job %s needs it', limit_name, id)
  from wanted
 where (state = 'running' or waits_for = limit_name)
   and not exists (select from duly.named_limit where name = wanted.limit_name)
 union all
select format('job %s waits at "%s" for ever: %s of %s', id, name, held, concurrency)
  from wanted join numbers on waits_for = name and name = limit_name
 where waits = 'limit' and opens_at is null and held < coalesce(concurrency, held + 1)
 union all
select format('%s run in queue %s, which lets %s', count(*), queue.name, queue.concurrency)
  from duly.queue join duly.job on job.queue = queue.name and job.state = 'running'
 group by queue.name having count(*) > queue.concurrency
"""


def named_limit(
    name: str = "crm", concurrency: int | None = 1, rate: str | None = None
) -> NamedLimit:
    parsed = Rate.parse(rate) if rate else None
    return NamedLimit(name=name, template=name, concurrency=concurrency, rate=parsed)


def limited(*named_limits: NamedLimit, **changes: Any) -> JobRequest:
    return call(limits=named_limits or (named_limit(),), **changes)


def careful(
    worker: int = WORKER, limit: int = 1, queue: str = "default", shelf: int = CAREFUL
) -> Operation[list[Claimed]]:
    request = ClaimRequest(worker=worker, queue=queue, tasks=["work"], limit=limit, shelf=shelf)
    return (yield from claims.take(request)).jobs


async def ready(scene: Scene, *wanted: JobRequest) -> None:
    """Two workers, and jobs with the numbers 100, 200, … that can be claimed."""
    await scene.worker()
    await scene.worker(SUCCESSOR)
    for place, one in enumerate(wanted, start=1):
        await scene.enqueue(100 * place, one)


async def begun(scene: Scene, limit: int = 1, queue: str = "default") -> list[Claimed]:
    return await scene.stage.run(lambda: careful(limit=limit, queue=queue))


async def play(
    scene: Scene,
    check: Callable[[Order], Awaitable[Broken]] | None = None,
    *,
    most: int = MOST,
    **sessions: Any,
) -> Explored:
    async def judged(order: Order) -> Broken:
        found = [text for (text,) in await scene.stage.look(BREACHES)]
        return found or (await check(order) if check else [])

    return await scene.play(judged, most=most, **sessions)


def is_one_of(scene: Scene, *wanted: dict[int, str]) -> Callable[[Order], Awaitable[Broken]]:
    async def check(order: Order) -> Broken:
        states = await scene.states()
        return expect(states in wanted, f"{states}")

    return check


def a_turn_of(worker: int, limit: int = 2) -> Operation[list[Row]]:
    """A claim in passing, as one statement that is a transaction by itself."""
    nothing: dict[str, list[int]] = {"ids": [], "fences": [], "results": [], "keeps": []}
    request = {"worker": worker, "queue": "default", "tasks": ["work"], "shelf": NORMAL}
    return alone(Ask("finish_and_claim", {**nothing, **request, "floor": NO_FLOOR, "limit": limit}))  # type: ignore[dict-item]


def a_look(concurrency: int = 1) -> Operation[None]:
    """What a claim that took nothing leaves behind: the limit is known."""
    found = [(FIRST, 0, limits_as_json((named_limit(concurrency=concurrency),)), None, "")]
    request = ClaimRequest(worker=WORKER, queue="default", tasks=["work"], limit=1, shelf=CAREFUL)
    yield from limits.admit(found, request, 0)
