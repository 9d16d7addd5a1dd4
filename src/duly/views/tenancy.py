"""Whose jobs they are: somebody who is of one tenant sees and changes what is that tenant's.

What is another's is not there for them: the answer is the same as for a number that no job has.
"""

from dataclasses import replace

from duly.errors import NotAllowed, NotFound
from duly.model.job import Call, Job
from duly.store.store import Store

HIGHEST_NUMBER = 2**63 - 1  # that a store can be asked for
OURS = "duly."  # tasks of our own, which run what they are told: no tenant's


async def own_job(store: Store, number: int, tenant: str | None) -> Job:
    """The job, if there is one, and it is not another's."""
    if not 0 < number <= HIGHEST_NUMBER:
        raise NotFound(f"there is no job {number}")
    found = await store.jobs.get(number)
    if tenant is not None and found.tenant != tenant:
        raise NotFound(f"there is no job {number}; it may have ended and been forgotten")
    return found


def own_call(call: Call, tenant: str | None) -> Call:
    """The call as a tenant may make it: in their name, and touching nobody else's job."""
    if tenant is None:
        return call
    if call.tenant not in ("", tenant):
        raise NotAllowed(f'tenant="{call.tenant}": jobs are enqueued for {tenant} here')
    if call.task.startswith(OURS):
        raise NotAllowed(f"{call.task} is for those who may use everything, not for one tenant")
    if call.key is not None:
        raise NotAllowed(
            f'key="{call.key}": all tenants share the keys of a task, so {tenant} may not move '
            "what has one; to enqueue something once, send the header Idempotency-Key"
        )
    return replace(call, tenant=tenant)
