"""Access: tokens, the audit log, acknowledgements, and what the callers of one tenant may see.

A caller of a tenant may see and change only the jobs and schedules of its tenant. Another tenant's
job is not found: the answer is the same as for a number that no job has. Names of schedules are
shared by all tenants: a taken name is refused, and nothing else is said about it.
"""

import json
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Annotated, Any, Literal, TypeVar

from msgspec import Meta

from duly.errors import NotAllowed, NotFound
from duly.model.access import Role
from duly.model.job import JobRequest, StoredJob
from duly.model.job_filter import HIGHEST_NUMBER, Filter, fits
from duly.model.schedule import Plan
from duly.model.schedule_filter import ScheduleFilter
from duly.policy.redaction import hidden
from duly.store.records import JobRecord
from duly.store.store import Store
from duly.views import FilledView, Made, Text


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenView(FilledView):
    """An access token, without its secret."""

    name: str
    role: Role
    tenant: str | None
    created_at: datetime
    created_by: str
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: Annotated[datetime | None, Meta(description="Accurate to about a minute.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntryView(FilledView):
    """An entry of the audit log."""

    number: int
    at: datetime
    who: str
    how: Literal["person", "token", "command", "http", "program"]
    action: str
    subject: str
    details: Annotated[dict[str, Any], Made(lambda text: hidden(json.loads(text)))]
    hash: Annotated[str, Meta(description="Hash of this entry and of the previous entry's hash.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class AcknowledgementView(FilledView):
    """An acknowledged item."""

    subject: str
    kind: str
    until: datetime
    who: str
    at: datetime
    note: Text


F = TypeVar("F", Filter, ScheduleFilter)

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
    _refuse_built_in(call.task)
    if call.key is not None:
        raise NotAllowed(
            f'key="{call.key}": all tenants share the keys of a task, so {tenant} may not move '
            "what has one; to enqueue something once, send the header Idempotency-Key"
        )
    return replace(call, tenant=tenant)


def own_filter(wanted: F, tenant: str | None) -> F:
    """Return a filter of jobs or schedules, narrowed to the tenant; unchanged if it is None."""
    if tenant is None:
        return wanted
    if not fits(tenant, wanted.tenant):
        raise NotAllowed(f"tenant:{wanted.tenant}: you may see what is {tenant}'s")
    return replace(wanted, tenant=tenant)


async def check_own_schedule(store: Store, name: str, tenant: str | None) -> None:
    """Raise ``NotFound`` for a schedule that the caller may not see."""
    if not await is_own_schedule(store, name, tenant):
        raise NotFound(f'there is no schedule "{name}"')


async def is_own_schedule(store: Store, name: str, tenant: str | None) -> bool:
    """Return whether the caller may see and change the schedule."""
    if tenant is None:
        return True
    return (await store.schedules.get(name)).plan.tenant == tenant


def own_plan(plan: Plan, tenant: str | None) -> Plan:
    """Return the plan in the tenant's name; refuse one that could affect another tenant's job."""
    if tenant is None:
        return plan
    if plan.tenant not in ("", tenant):
        raise NotAllowed(f'tenant="{plan.tenant}": schedules are for {tenant} here')
    _refuse_built_in(plan.task)
    if plan.reaction is not None:
        raise NotAllowed(
            f'"{plan.rule}": events without a tenant would start it, and {tenant} may not see those'
        )
    return replace(plan, tenant=tenant)


def _refuse_built_in(task: str) -> None:
    if task.startswith(BUILT_IN):
        raise NotAllowed(f"{task} is for those who may use everything, not for one tenant")


def _check_tenant(job: StoredJob, tenant: str | None) -> None:
    if tenant is not None and job.tenant != tenant:
        raise NotFound(f"there is no job {job.id}; it may have ended and been deleted")
