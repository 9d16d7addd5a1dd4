"""From the words of ``@duly.schedule`` and ``duly.schedules.add`` to a plan for the store."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from datetime import datetime, timedelta
from typing import Any, Protocol, TypeAlias, TypedDict, runtime_checkable

from duly.app.tasks import Call, Enqueueable
from duly.durations import is_bare_number, show_duration
from duly.errors import InvalidValue, ZoneMissing
from duly.model import job as model
from duly.model.job import Label, Owner
from duly.model.payload import Json, decode, encode
from duly.model.policies import LONGEST, Catchup, Late, Missed, Overlap, Policies
from duly.model.schedule import Plan
from duly.model.schedule_fields import SCHEDULE_FIELDS
from duly.model.template import names_in
from duly.policy.reaction import FIELD, is_field
from duly.registry.codecs import ENCODER
from duly.registry.definition import Definition
from duly.registry.option_values import Duration, length_of, name_of, priority_of, refuse_unknown
from duly.registry.registry import Registry
from duly.rules import Rule, Spaced
from duly.rules.event_rule import BEGINNING
from duly.settings.loading import machine_zone


class ScheduleOptions(TypedDict, total=False):
    """The options of a schedule besides its rule and its task."""

    zone: str | None
    overlap: Overlap
    missed: Catchup | Missed
    start_within: Duration | None
    late: Late
    dst: str
    exclude: str | Rule | None
    jitter: Duration | None
    start: datetime | None
    end: datetime | None
    max_runs: int | None
    tags: Sequence[str]
    tenant: str
    submitter: str
    paused: bool  # when it is added; later, pause() and resume()


@runtime_checkable
class Startable(Protocol):
    """Anything whose ``enqueue()`` needs no arguments: a task, or a call."""

    def enqueue(self) -> object: ...


RuleText: TypeAlias = str | Rule | Spaced

# Options of a single job, which make no sense for all jobs of a schedule.
_OF_ONE_JOB = (
    "run_after",
    "key",
    "if_exists",
    "idempotency_key",
    "connection",
    "start_within",
    "late",
)
_LABEL = tuple(field.name for field in fields(Label))
POLICIES = tuple(field.name for field in fields(Policies))
_OF_JOBS = tuple(one.name for one in SCHEDULE_FIELDS if one.of_jobs)


def plan_of(
    rule: RuleText,
    what: object,
    *,
    name: str | None,
    zone: str | None,
    owner: Owner,
    words: Mapping[str, Any],
) -> Plan:
    """Make the plan; ``zone`` is the app's, for rules that name none and are given none."""
    refuse_unknown_options(words)
    request = _job_request(rule, what)
    label = {field: getattr(request, field) for field in _LABEL} | {"owner": owner}
    label |= label_of(words)
    with offering_a_zone():
        return Plan(
            name=name_of("name", request.task if name is None else name),
            rule=str(rule),
            zone=words.get("zone") or zone,
            policies=policies_of(words, retry=request),
            **label,
        )


def rule_of(asked: object, *, code: str) -> RuleText:
    """Check that a rule is text or a rule object; ``code`` is the caller's, for the error.

    Other objects are refused although they convert to text: five minutes print as 0:05:00, which
    would be read as five past midnight.
    """
    if not isinstance(asked, str | Rule | Spaced):
        raise InvalidValue(f"{code}: a rule must be text: write {_as_a_rule(asked)}")
    return asked


def policies_of(words: Mapping[str, Any], *, retry: model.JobRequest | None = None) -> Policies:
    return Policies(**given_policies(words), retry=None if retry is None else retry.retry)


def given_policies(words: Mapping[str, Any]) -> dict[str, Any]:
    """Return the policies among the options, with lengths of time parsed and rules as text."""
    return {word: _policy(word, value) for word, value in words.items() if word in POLICIES}


def _policy(word: str, value: Any) -> object:  # noqa: ANN401 - whatever the option was given
    if word == "missed":
        return value if isinstance(value, Missed) else Missed(value)
    match None if value is None else _KINDS.get(word):
        case "length":
            return length_of(word, value, longest=LONGEST)
        case "rule":
            return str(rule_of(value, code=f"{word}={value!r}"))
        case _:
            return value


def label_of(words: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of the schedule's jobs that are given beside its task."""
    label = {word: words[word] for word in _OF_JOBS if word in words}
    if "tags" in label and not isinstance(label["tags"], str):  # a plan refuses a text
        label["tags"] = tuple(label["tags"])
    if "priority" in label:
        label["priority"] = priority_of(label["priority"])
    return label


def paused_of(words: Mapping[str, Any]) -> bool:
    """Return whether the schedule is paused when it is added."""
    paused = words.get("paused", False)
    if not isinstance(paused, bool):
        raise InvalidValue(f"paused={paused!r}: True or False")
    return paused


@contextmanager
def offering_a_zone() -> Iterator[None]:
    """Add this machine's zone, as text to paste, to the error for a rule without a zone."""
    try:
        yield
    except ZoneMissing as error:
        zone = machine_zone()
        asked, found, _ = error.message.partition(": write ")
        before, behind = error.text[: error.position], error.text[error.position :]
        if zone is None or not found or behind[:1] not in ("", " ", ")"):
            raise  # it is no word at the end
        raise ZoneMissing(
            f'{asked}. This machine is in {zone}: write "{before} {zone}{behind}", or pass '
            f'zone="{zone}", here or for every schedule: Duly(zone="{zone}")',
            text=error.text,
            position=error.position,
        ) from None


def refuse_unknown_options(words: Mapping[str, Any]) -> None:
    refuse_unknown(words, ScheduleOptions.__annotations__, who="a schedule")


def task_of(what: object, rule: RuleText, *, decorator: str = "schedule") -> str:
    """Return the task that is started, or raise an error. ``decorator`` is for the error."""
    return _startable(rule, what, decorator=decorator).definition.name


def _job_request(rule: RuleText, what: object) -> model.JobRequest:
    """Return the request for the schedule's jobs; a reaction takes its arguments from events."""
    startable = _startable(rule, what)
    if not isinstance(startable, Call) or _reacts(rule):
        return asked_by_events(startable)
    return startable.asked()


def asked_by_events(what: Enqueueable[..., Any] | Call[Any]) -> model.JobRequest:
    """Return the call of a reaction; its arguments name the fields of the event."""
    given = decode(what.asked().args) if isinstance(what, Call) else {}
    using = {
        name: value
        for name, value in what._using.items()  # noqa: SLF001 - it is ours
        if name != "connection" and not (name == "tenant" and value is None)
    }
    return reaction_call(what._enqueuer.registry, what.definition, given, using)  # noqa: SLF001


def reaction_call(
    registry: Registry,
    definition: Definition,
    given: Mapping[str, Any],
    using: Mapping[str, Any],
) -> model.JobRequest:
    """Return the call of a reaction by its definition; events do not change ``given``."""
    call = registry.call_without_arguments(definition, **using)
    return replace(call, args=_arguments(definition, given))


def _arguments(definition: Definition, given: Mapping[str, Any]) -> Json:
    for name, value in given.items():
        if is_field(value):
            raise InvalidValue(
                f'{definition.name}: {name}={value!r}: "{FIELD}" stands for a field of an event'
            )
    parameters = definition.signature.parameters
    wanted = {name: _place(definition, name) for name in parameters.names if name not in given}
    return encode({**wanted, **given})


def _place(definition: Definition, name: str) -> dict[str, Any]:
    """Return the placeholder of a parameter, with its default if an event may lack the field."""
    parameters = definition.signature.parameters
    if name in parameters.required:
        return {FIELD: name}
    place = {FIELD: name, "optional": True}
    templates = (definition.title, *(limit.name for limit in definition.limits))
    named = any(name in names_in(template) for template in templates)
    if named or definition.graph is not None:  # the steps of a flow need a value
        place["default"] = decode(Json(ENCODER.encode(parameters.defaults[name]).decode()))
    return place


def _startable(
    rule: RuleText, what: object, *, decorator: str = "schedule"
) -> Call[Any] | Enqueueable[..., Any]:
    """Return a call with its arguments, or a task without any; a reaction gets them from events."""
    match what:
        case Call():
            startable: Call[Any] | Enqueueable[..., Any] = what
        case Enqueueable():
            startable = what if _reacts(rule) else _bare(what)
        case _ if callable(what):
            name = getattr(what, "__name__", repr(what))
            raise InvalidValue(
                f"{name} is not a task yet: @duly.{decorator} goes above @duly.task: swap them, "
                "or add @duly.task"
            )
        case _:
            raise InvalidValue(
                f"{what!r} is not a task: pass the task, or task.bind(…), not task(…), "
                "which runs it"
            )
    choices = startable.choices if isinstance(startable, Call) else startable._using  # noqa: SLF001
    for choice in _OF_ONE_JOB:
        if choice in choices:
            raise InvalidValue(
                f"{startable.definition.name}.using({choice}=…) is about one job, but a schedule "
                f"makes many{_instead(choice)}"
            )
    return startable


def _reacts(rule: RuleText) -> bool:
    return str(rule).startswith(BEGINNING)


def _bare(task: Enqueueable[..., Any]) -> Call[Any]:
    required = task.definition.signature.parameters.required
    if required:
        missing = ", ".join(sorted(required))
        example = ", ".join(f"{name}=…" for name in sorted(required))
        raise InvalidValue(
            f"{task.name} needs {missing}, but the schedule passes no arguments: "
            f'duly.schedule("…", {task.name}.bind({example}), name="…")'
        )
    return task.bind()


def _instead(choice: str) -> str:
    said_here = choice in ScheduleOptions.__annotations__
    return f": pass {choice}= to the schedule" if said_here else ""


def _as_a_rule(asked: object) -> str:
    """Suggest a rule that the caller may have meant."""
    match asked:
        case timedelta() if asked > timedelta():
            return f'"every {show_duration(asked)}"'
        case int() | float() if is_bare_number(asked):
            return f'"every {asked}s" or "every {asked}m"'
        case datetime() if asked.tzinfo is not None:
            return f'"{asked.isoformat()}"'
        case _:
            return '"every 5m" or "Mon..Fri 02:00 Europe/Berlin"'


_KINDS = {one.name: one.kind for one in SCHEDULE_FIELDS}
