"""Schedules declared in code: ``@duly.schedule`` and ``@duly.on``.

Nothing is stored when a module is imported. The process that runs the app's scheduler writes all
declarations at once, after everything was imported.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypedDict, TypeVar, Unpack, overload

from duly.app.plans import (
    RuleText,
    ScheduleOptions,
    Startable,
    offering_a_zone,
    paused_of,
    plan_of,
    policies_of,
    refuse_unknown_options,
    rule_of,
    task_of,
)
from duly.app.tasks import Call, Enqueueable
from duly.connection import configured
from duly.engine.reconciler import DeclarationSet
from duly.errors import InvalidValue, ZoneMissing
from duly.model.job import Owner
from duly.model.policies import Late
from duly.model.schedule import Plan
from duly.model.template import names_in
from duly.registry.option_values import Duration, name_of, names_of, refuse_unknown
from duly.rules import parse
from duly.rules.event_rule import on
from duly.store.declarations import WantedSchedule

S = TypeVar("S", bound=Startable)
DECORATES: Any = object()  # not None: that is what calling a task often returns
E = TypeVar("E", bound=Enqueueable[..., Any])

_OF_THE_RULE: Final = ("key", "debounce", "run_after", "unless")


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    name: str
    aliases: tuple[str, ...]
    rule: RuleText
    call: object
    zone: str | None
    words: Mapping[str, Any]

    def plan(self) -> Plan:
        """Make the plan only when needed: its arguments may be defined further down."""
        return plan_of(
            self.rule,
            self.call,
            name=self.name,
            zone=self.zone,
            owner=Owner.CODE,
            words=self.words,
        )


class Declarations:
    """The schedules of one app, by name."""

    def __init__(self) -> None:
        self._found: dict[str, Declaration] = {}

    def __iter__(self) -> Iterator[Declaration]:
        return iter(self._found.values())

    def __len__(self) -> int:
        return len(self._found)

    def add(self, declaration: Declaration) -> None:
        """Add a declaration, checked as far as is possible during an import."""
        refuse_unknown_options(declaration.words)
        try:
            _check(declaration)
        except ZoneMissing:  # read settings only if needed: this may be any import
            declaration = replace(declaration, zone=configured().zone)
            with offering_a_zone():
                _check(declaration)
        known = self._found.get(declaration.name)
        if known is not None and not _is_again(known, declaration):
            raise InvalidValue(
                f'two schedules are named "{declaration.name}", "{known.rule}" and '
                f'"{declaration.rule}": give one of them another name with name="…"'
            )
        self._found[declaration.name] = declaration

    def announcement(self, app: str, *, whole: bool = True) -> DeclarationSet:
        """Return all declarations by name, so that the order of imports does not matter."""
        found = sorted(self, key=lambda one: one.name)
        wanted = tuple(
            WantedSchedule(one.plan(), one.aliases, paused_of(one.words)) for one in found
        )
        return DeclarationSet(app=app, wanted=wanted, whole=whole)


class Scheduling:
    """``duly.schedule``: a decorator, or a declaration by itself if it is given a call."""

    def __init__(self, declarations: Declarations, zone: str | None) -> None:
        self._declarations = declarations
        self._zone = zone

    @overload
    def __call__(
        self,
        rule: RuleText,
        /,
        *,
        name: str | None = None,
        aliases: Sequence[str] = (),
        **words: Unpack[ScheduleOptions],
    ) -> Callable[[S], S]: ...
    @overload
    def __call__(
        self,
        rule: RuleText,
        call: Startable,
        /,
        *,
        name: str | None = None,
        aliases: Sequence[str] = (),
        **words: Unpack[ScheduleOptions],
    ) -> None: ...
    def __call__(
        self,
        rule: object = None,
        call: Startable = DECORATES,
        /,
        *,
        name: str | None = None,
        aliases: Sequence[str] = (),
        **words: Unpack[ScheduleOptions],
    ) -> Callable[[S], S] | None:
        found: Callable[[S], S] | None = self.declared(
            _rule(rule), call, name=name, aliases=aliases, words=words
        )
        return found

    def declared(
        self,
        rule: RuleText,
        call: object,
        *,
        name: str | None,
        aliases: Sequence[str],
        words: Mapping[str, Any],
        decorator: str = "schedule",
    ) -> Any:  # noqa: ANN401 - the decorators say what they stand above
        """Declare ``call``; without one, return a decorator."""

        def declare(what: object) -> object:
            task = task_of(what, rule, decorator=decorator)
            declaration = Declaration(
                name=name_of("name", task if name is None else name),
                aliases=names_of("aliases", aliases),
                rule=rule,
                call=what,
                zone=self._zone,
                words=words,
            )
            self._declarations.add(declaration)
            return what

        if call is DECORATES:
            return declare
        declare(call)
        return None


class ReactionOptions(TypedDict, total=False):
    """The options of a reaction besides its event.

    ``key="doc:{doc_id}"``: of events with the same key, the last one counts while its job waits.
    ``debounce``: wait until no event has happened for this long. ``run_after``: a delay, or "-24h
    from starts_at", relative to a field of the event. ``unless``: an event that cancels the
    reaction.
    """

    key: str | None
    debounce: Duration | None
    run_after: Duration | None
    unless: str | None
    name: str | None
    aliases: Sequence[str]
    start_within: Duration | None
    late: Late


class Reacting:
    """``duly.on``: a decorator, or a declaration if it is given a task or a call.

    A reaction is a schedule whose rule is ``on invoice.paid``. The fields of the event's payload
    become the arguments of the same names. So no arguments are bound when it is declared, and
    titles and limits stay templates.
    """

    def __init__(self, scheduling: Scheduling) -> None:
        self._scheduling = scheduling

    @overload
    def __call__(self, event: str, /, **options: Unpack[ReactionOptions]) -> Callable[[E], E]: ...
    @overload
    def __call__(
        self,
        event: str,
        call: Enqueueable[..., Any] | Call[Any],
        /,
        **options: Unpack[ReactionOptions],
    ) -> None: ...
    def __call__(
        self,
        event: object = None,
        call: Enqueueable[..., Any] | Call[Any] = DECORATES,
        /,
        **options: Unpack[ReactionOptions],
    ) -> Callable[[E], E] | None:
        """Run the task when the event happens."""
        refuse_unknown(options, ReactionOptions.__annotations__, who="a reaction")
        if not isinstance(event, str):
            raise InvalidValue('on() needs the name of an event: @duly.on("invoice.paid")')
        given: dict[str, Any] = dict(options)
        rule = on(event, **{word: given.pop(word, None) for word in _OF_THE_RULE})
        names_in(rule.key or "")  # raises now if the template is wrong
        name, aliases = given.pop("name", None), given.pop("aliases", ())
        declared: Callable[[E], E] | None = self._scheduling.declared(
            rule, call, name=name, aliases=aliases, words=given, decorator="on"
        )
        return declared


def _rule(asked: object) -> RuleText:
    if asked is None or isinstance(asked, Startable) or callable(asked):
        raise InvalidValue('a schedule needs a rule: @duly.schedule("every 5m")')
    return rule_of(asked, code=f"duly.schedule({asked!r})")


def _check(declaration: Declaration) -> None:
    policies = policies_of(declaration.words)
    paused_of(declaration.words)
    zone = declaration.words.get("zone") or declaration.zone
    for text in filter(None, (str(declaration.rule), policies.exclude)):
        parse(text, zone=zone, dst=policies.dst, name=declaration.name)


def _is_again(known: Declaration, other: Declaration) -> bool:
    """Return whether both are the same declaration, run again because a module was reloaded."""
    return (str(known.rule), known.words, task_of(known.call, known.rule)) == (
        str(other.rule),
        other.words,
        task_of(other.call, other.rule),
    )
