"""Access of one tenant: a caller may see and change only the jobs of its tenant.

Another tenant's job is not found: the answer is the same as for a number that no job has.
"""

from dataclasses import replace

from duly.errors import NotAllowed, NotFound
from duly.model.filter_language import fits
from duly.model.job import JobRequest, StoredJob
from duly.model.job_filter import HIGHEST_NUMBER, Filter
from duly.store.store import Store
from duly.store.values import JobRecord

BUILT_IN = "duly."  # built-in tasks run any command: they are not for tenants


async def own_job(store: Store, number: int, tenant: str | None) -> StoredJob:
    """Return the job, if the caller may see it."""
    check_number("job", number)
    found = await store.jobs.get(number)
    _check_tenant(found, tenant)
    return found


async def own_record(store: Store, number: int, tenant: str | None) -> JobRecord:
    """Return everything about the job, if the caller may see it."""
    check_number("job", number)
    found = await store.records.job(number)
    _check_tenant(found.job, tenant)
    return found


def check_number(noun: str, number: int) -> None:
    if not 0 < number <= HIGHEST_NUMBER:
        raise NotFound(f"there is no {noun} {number}")


def own_call(call: JobRequest, tenant: str | None) -> JobRequest:
    """Return the call in the tenant's name; refuse one that could affect another tenant's job."""
    if tenant is None:
        return call
    if call.tenant not in ("", tenant):
        raise NotAllowed(f'tenant="{call.tenant}": jobs are enqueued for {tenant} here')
    if call.task.startswith(BUILT_IN):
        raise NotAllowed(f"{call.task} is for those who may use everything, not for one tenant")
    if call.key is not None:
        raise NotAllowed(
            f'key="{call.key}": all tenants share the keys of a task, so {tenant} may not move '
            "what has one; to enqueue something once, send the header Idempotency-Key"
        )
    return replace(call, tenant=tenant)


def own_filter(wanted: Filter, tenant: str | None) -> Filter:
    """Return the filter, narrowed to the jobs of the tenant; unchanged if the tenant is None."""
    if tenant is None:
        return wanted
    if not fits(tenant, wanted.tenant):
        raise NotAllowed(f"tenant:{wanted.tenant}: you may see what is {tenant}'s")
    return replace(wanted, tenant=tenant)


def _check_tenant(job: StoredJob, tenant: str | None) -> None:
    if tenant is not None and job.tenant != tenant:
        raise NotFound(f"there is no job {job.id}; it may have ended and been deleted")
