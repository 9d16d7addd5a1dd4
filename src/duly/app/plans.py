"""From the words of ``@duly.schedule`` and ``duly.schedules.add`` to a plan for the store."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from datetime import datetime, timedelta
from difflib import get_close_matches
from typing import Any, Protocol, TypeAlias, TypedDict, runtime_checkable

from duly.app.reactions import asked_by_events
from duly.app.tasks import Call, Enqueueable
from duly.durations import is_bare_number, show_duration
from duly.errors import InvalidValue, ZoneMissing
from duly.model import job as model
from duly.model.job import Label, Owner
from duly.model.policies import LONGEST, Catchup, Late, Missed, Overlap, Policies
from duly.model.schedule import Plan
from duly.registry.option_values import Duration, length_of, name_of
from duly.rules import Rule, Spaced
from duly.rules.event_rule import BEGINNING
from duly.settings.loading import machine_zone


class Timed(TypedDict, total=False):
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
_POLICIES = tuple(field.name for field in fields(Policies))


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
    refuse_unknown(words)
    asked = _asked(rule, what)
    label = {field: getattr(asked, field) for field in _LABEL} | {"owner": owner}
    with offering_a_zone():
        return Plan(
            name=name_of("name", asked.task if name is None else name),
            rule=str(rule),
            zone=words.get("zone") or zone,
            policies=policies_of(words, retry=asked),
            **label,
        )


def rule_of(asked: object, *, said: str) -> RuleText:
    """Check that a rule is text or a rule object; ``said`` is the caller's code for the error.

    Other objects are refused although they convert to text: five minutes print as 0:05:00, which
    would be read as five past midnight.
    """
    if not isinstance(asked, str | Rule | Spaced):
        raise InvalidValue(f"{said}: a rule must be text: write {_as_a_rule(asked)}")
    return asked


def policies_of(words: Mapping[str, Any], *, retry: model.JobRequest | None = None) -> Policies:
    missed = words.get("missed", "latest")
    exclude = words.get("exclude")
    if exclude is not None:
        rule_of(exclude, said=f"exclude={exclude!r}")
    said: dict[str, Any] = {word: words[word] for word in words if word in _POLICIES} | {
        "missed": missed if isinstance(missed, Missed) else Missed(missed),
        "start_within": _length(words, "start_within"),
        "exclude": None if exclude is None else str(exclude),
        "jitter": _length(words, "jitter"),
        "retry": None if retry is None else retry.retry,
    }
    return Policies(**said)


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


def refuse_unknown(words: Mapping[str, Any]) -> None:
    for word in words:
        if word not in Timed.__annotations__:
            near = get_close_matches(word, Timed.__annotations__, n=1)
            meant = f"did you mean {near[0]}=?" if near else f"there are {', '.join(_KNOWN)}"
            raise InvalidValue(f"a schedule has no option {word}=; {meant}")


def task_of(what: object, rule: RuleText, *, said: str = "schedule") -> str:
    """Return the task that is started, or raise an error. ``said`` is the decorator."""
    return _startable(rule, what, said=said).definition.name


def _asked(rule: RuleText, what: object) -> model.JobRequest:
    """Return the request for the schedule's jobs; a reaction takes its arguments from events."""
    startable = _startable(rule, what)
    if not isinstance(startable, Call) or _reacts(rule):
        return asked_by_events(startable)
    return startable.asked()


def _startable(
    rule: RuleText, what: object, *, said: str = "schedule"
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
                f"{name} is not a task yet: @duly.{said} goes above @duly.task: swap them, or add "
                "@duly.task"
            )
        case _:
            raise InvalidValue(f"{what!r}: a schedule runs a task, or a call: task.bind(…)")
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
    said_here = choice in Timed.__annotations__
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


def _length(words: Mapping[str, Any], what: str) -> timedelta | None:
    asked = words.get(what)
    return None if asked is None else length_of(what, asked, longest=LONGEST)


_KNOWN = tuple(Timed.__annotations__)
