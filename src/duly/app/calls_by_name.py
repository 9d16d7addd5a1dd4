"""Jobs and schedules made from the names of tasks, for the command, the pages and the HTTP API.

If this process knows the task, the arguments are checked by its signature, and its options are the
defaults. Otherwise the arguments are stored as they are, and the worker checks them.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, replace
from typing import Any, Final

from duly.app.plans import reaction_call
from duly.app.schedule_drafts import changed_plan, new_plan
from duly.app.schedules import Change, edited
from duly.errors import InvalidValue, SignatureChanged
from duly.model.job import JobRequest, Label, Owner
from duly.model.payload import decode, encode
from duly.model.policies import LONGEST
from duly.model.schedule import Plan
from duly.model.schedule_fields import SCHEDULE_FIELDS
from duly.model.terms import Terms
from duly.policy.reaction import is_field
from duly.policy.redaction import HIDDEN, hidden_call
from duly.policy.retry import Retry
from duly.registry.codecs import ENCODER
from duly.registry.definition import Definition
from duly.registry.option_values import length_of, priority_of, start_of
from duly.registry.registry import UNSET, Registry
from duly.rules.event_rule import BEGINNING
from duly.store.store import Store
from duly.views.access import own_call, own_job, own_plan
from duly.views.fires import Fire
from duly.views.schedules import Schedule

Args = Mapping[str, Any]
_LABEL: Final = tuple(one.name for one in fields(Label))
_OF_THE_TASK: Final = ("args", "version", "limits", "needs")


def call_named(
    registry: Registry, task: str, args: Args, *, attempts: int | None = None, **words: Any
) -> JobRequest:
    """Return a call of a task by name; ``words`` are the options of ``using``, and submitter."""
    said = {word: value for word, value in words.items() if value is not None}
    if task not in registry:
        return _bare(task, args, attempts, said)
    definition = registry.get(task)
    retry = UNSET if attempts is None else replace(definition.retry, attempts=attempts)
    return registry.call(definition, (), fitting(definition, args), retry=retry, **said)


def fitting(definition: Definition, args: Args) -> dict[str, object]:
    """Return the decoded arguments of a task; raise ``InvalidValue`` if they do not fit."""
    try:
        return definition.signature.decode(encode(args))
    except SignatureChanged as error:
        _, _, why = str(error).partition(", but the task is ")
        raise InvalidValue(f"args: the task is {why.replace('the job has', 'args has')}") from None


def _bare(task: str, args: Args, attempts: int | None, said: Mapping[str, Any]) -> JobRequest:
    words = dict(said)
    timeout = words.pop("timeout", None)
    limit = None if timeout is None else length_of("timeout", timeout, longest=LONGEST)
    if "start_within" in words:
        words["start_within"] = length_of("start_within", words["start_within"], longest=LONGEST)
    if "run_after" in words:
        words["run_after"] = start_of("run_after", words["run_after"])
    return JobRequest(
        task=task,
        args=encode(args),
        terms=Terms(timeout=limit),
        retry=None if attempts is None else Retry(attempts=attempts).as_json(),
        **{
            **words,
            "priority": priority_of(words.get("priority", 0)),
            "tags": tuple(words.get("tags", ())),
        },
    )


async def enqueued(
    store: Store,
    calls: Sequence[JobRequest],
    *,
    tenant: str | None = None,
    once: tuple[str, str] | None = None,
) -> list[int]:
    """Enqueue jobs and return their numbers.

    ``once`` is an idempotency key and a fingerprint of the request sent under it.
    """
    own = [own_call(call, tenant) for call in calls]
    if once is None:
        return await store.jobs.enqueue(own)
    key, mark = once
    return await store.jobs.enqueue_once(own, key=key, mark=mark)


async def run_again(
    store: Store,
    registry: Registry,
    number: int,
    *,
    args: Args | None,
    tenant: str | None = None,
) -> int:
    """Enqueue a copy of a job, with the same or other arguments; return its id."""
    job = await own_job(store, number, tenant)
    known = decode(job.args)
    call = call_named(
        registry,
        job.task,
        known if args is None else unhidden(registry, job.task, args, known),
        queue=job.queue,
        priority=job.priority,
        tenant=job.tenant,
        tags=job.tags,
        submitter=store.who,
    )
    if job.task not in registry:
        call = replace(call, title=job.title, limits=job.limits, needs=job.needs, terms=job.terms)
        call = replace(call, retry=job.retry, version=job.version)
    call = replace(call, parent=number)
    [made] = await store.jobs.enqueue([own_call(call, tenant)])
    return made


async def run_with(store: Store, registry: Registry, name: str, args: Args) -> Fire:
    """Run the task of a schedule once with other arguments."""
    plan = (await store.schedules.get(name)).plan
    now = await store.diagnostics.now()
    call = call_named(
        registry,
        plan.task,
        unhidden(registry, plan.task, args, decode(plan.args)),
        queue=plan.queue,
        priority=plan.priority,
        tenant=plan.tenant,
        tags=plan.tags,
        submitter=store.who,
    )
    [number] = await store.jobs.enqueue([call])
    return Fire(
        id=0,
        schedule=name,
        due_at=now,
        outcome="queued",
        reason=f"run by {store.who} with other arguments",
        job_id=number,
        decided_at=now,
        covers_from=now,
        count=1,
        manual=True,
    )


async def runs_without_event(store: Store, registry: Registry, name: str) -> bool:
    """Return whether a schedule for events can run without one: its task needs no arguments."""
    plan = (await store.schedules.get(name)).plan
    if plan.reaction is None or plan.task not in registry:
        return False
    return not registry.get(plan.task).signature.parameters.required


def plan_named(
    registry: Registry,
    name: str,
    rule: str,
    *,
    task: str,
    args: Args,
    owner: Owner,
    submitter: str,
    words: Mapping[str, Any],
) -> Plan:
    """Make a plan from names; ``words`` are the options of ``schedule_drafts.new_plan``."""
    label = {one.name: words.get(one.name) for one in SCHEDULE_FIELDS if one.of_jobs}
    label["submitter"] = words.get("submitter") or submitter
    call = started(registry, rule, task, args, **label)
    plan = new_plan(name, rule, task=call.task, args=args, words=words)
    policies = replace(plan.policies, retry=call.retry)
    said = {field: getattr(call, field) for field in _LABEL} | {"owner": owner}
    return replace(plan, policies=policies, **said)


async def edited_by_name(
    store: Store,
    registry: Registry,
    name: str,
    *,
    rule: str | None,
    args: Args | None,
    words: Mapping[str, Any],
    tenant: str | None = None,
) -> Schedule:
    """Change the given fields of a schedule."""
    change = change_named(registry, rule, args, words)
    return await edited(store, name, lambda plan: own_plan(change(plan), tenant))


def change_named(
    registry: Registry, rule: str | None, args: Args | None, words: Mapping[str, Any]
) -> Change:
    def change(plan: Plan) -> Plan:
        other = changed_plan(plan, rule, words)
        if args is None:
            return other
        meant = unhidden(registry, plan.task, args, decode(plan.args))
        call = started(registry, other.rule, plan.task, meant)
        said: dict[str, Any] = {"args": call.args}
        if plan.task in registry:
            said = {field: getattr(call, field) for field in _OF_THE_TASK}
            said["title"] = call.title or other.title
        return replace(other, **said)

    return change


def started(registry: Registry, rule: str, task: str, args: Args, **words: Any) -> JobRequest:
    """Return the call of a schedule; for events, missing arguments come from the event."""
    if not rule.startswith(BEGINNING) or task not in registry:
        return call_named(registry, task, args, **words)
    definition = registry.get(task)
    parameters = definition.signature.parameters
    for name in args:
        if name not in parameters.known and parameters.extra is None:
            raise InvalidValue(f'args: there is no parameter "{name}"; the task is {parameters}')
    given = {name: value for name, value in args.items() if not is_field(value)}
    said = {word: value for word, value in words.items() if value is not None}
    call = reaction_call(registry, definition, given, said)
    return replace(call, args=encode({**decode(call.args), **args}))


def unhidden(registry: Registry, task: str, said: Args, known: Args) -> Args:
    """Return the arguments with hidden values restored, if nothing else was changed.

    Otherwise a person who may not see a secret could keep it and change the address that it is
    sent to.
    """
    defaults = _defaults(registry, task)
    if {**defaults, **said} == {**defaults, **hidden_call(task, known)}:
        return known
    own = set(_texts(known))
    kept = [text for text in _texts(said) if HIDDEN in text and text not in own]
    if kept:
        raise InvalidValue(
            f"args: {HIDDEN} stands for a hidden value only if no argument is changed: type the "
            "hidden values again, or leave all arguments as they are"
        )
    return said


def _defaults(registry: Registry, task: str) -> dict[str, object]:
    """Return the defaults of a task's parameters as JSON; forms send them too."""
    found = {}
    if task in registry:
        for name, value in registry.get(task).signature.parameters.defaults.items():
            with suppress(Exception):  # a default may have no JSON form
                found[name] = json.loads(ENCODER.encode(value))
    return found


def _texts(value: object) -> Iterator[str]:
    match value:
        case str():
            yield value
        case Mapping():
            for inner in value.values():
                yield from _texts(inner)
        case list():
            for inner in value:
                yield from _texts(inner)
        case _:
            pass  # numbers and the like
