"""Tracing: the function of a flow runs once, and its steps and their order are recorded.

``extract.step(day)`` runs nothing. It records a step in the trace of the flow that is being defined
and returns a ``Step``, whose ``result`` can be passed to other steps. When the function has
returned, the trace is closed, and ``graph`` turns it into an immutable graph.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Generic, Self, TypeVar, cast

from duly.errors import InvalidValue
from duly.flow.stand_in import Path, StandIn, origin_of, shown_path, stand_ins_in
from duly.model.flow import MOST_STEPS, Awaited, Rest, When
from duly.model.payload import check_text
from duly.model.policies import choose

R_co = TypeVar("R_co", covariant=True)
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StepRequest:
    """The request of a step: a task with arguments, or an event to wait for."""

    task: str
    given: Mapping[str, object]  # arguments by name, with stand-ins among them
    using: Mapping[str, object] = field(default_factory=dict)
    over: str | None = None  # of a mapped step: the argument that takes one item of the list
    awaited: Awaited | None = None

    @property
    def label(self) -> str:
        return self.task if self.awaited is None else f"wait for {self.awaited.event}"


class Trace:
    """The flow that is being defined. ``owner`` is the registry of its tasks."""

    def __init__(self, flow: str, *, owner: object, parameters: Collection[str]) -> None:
        self.flow = flow
        self.owner = owner
        self.parameters: tuple[str, ...] = tuple(parameters)
        self.notes: list[TracedStep] = []
        self.is_open = True

    def arguments(self) -> dict[str, StandIn]:
        """Return the stand-ins that the flow's function is called with."""
        return {name: StandIn(Argument(self, name)) for name in self.parameters}

    def add(self, asked: StepRequest) -> "Step[Any]":
        if len(self.notes) == MOST_STEPS:
            raise InvalidValue(
                f"{self.flow}: more than {MOST_STEPS:,} steps: use task.map(…), which is one step "
                "however long the list is"
            )
        note = TracedStep(self, asked)
        self.notes.append(note)
        note.takes = _takes(note)
        return Step(note)

    def names(self) -> list[str]:
        """Return the names of the steps: as given, or by task ("transform", "transform 2")."""
        taken = {note.named for note in self.notes}
        counts: dict[str, int] = {}
        return [note.named or _unused(note.asked.label, taken, counts) for note in self.notes]


@dataclass(slots=True, eq=False)
class TracedStep:
    """A step in the trace, with its options so far."""

    trace: Trace
    asked: StepRequest
    takes: "tuple[TakenArgument, ...]" = ()
    after: "dict[TracedStep, None]" = field(default_factory=dict)
    when: When = "all_succeeded"
    if_failed: Rest = "cancel"
    named: str = ""

    @property
    def name(self) -> str:
        return self.trace.names()[self.trace.notes.index(self)]

    def refusal(self, why: str) -> InvalidValue:
        return InvalidValue(f"{self.trace.flow}: step {self.name}: {why}")


@dataclass(frozen=True, slots=True, eq=False)
class Argument:
    """An argument of the flow itself."""

    trace: Trace
    name: str

    @property
    def flow(self) -> str:
        return self.trace.flow

    def __str__(self) -> str:
        return f"its parameter {self.name}"


@dataclass(frozen=True, slots=True, eq=False)
class Result:
    note: TracedStep

    @property
    def trace(self) -> Trace:
        return self.note.trace

    @property
    def flow(self) -> str:
        return self.note.trace.flow

    def __str__(self) -> str:
        return f"the result of step {self.note.name}"


@dataclass(frozen=True, slots=True, eq=False)
class TakenArgument:
    """A place in the arguments of a step, and the origin of its value."""

    path: Path
    origin: Argument | Result


class Step(Generic[R_co]):
    """A step of a flow. ``a >> [b, c] >> d`` sets the order; so does passing ``a.result`` on."""

    def __init__(self, note: TracedStep) -> None:
        self._note = note

    @property
    def name(self) -> str:
        """The name of the step, unique in its flow."""
        return self._note.name

    @property
    def result(self) -> R_co:
        """A stand-in for the result, which can only be passed to other steps."""
        return cast(R_co, StandIn(Result(self._note)))

    def when(self, when: When, /) -> Self:
        """Run the step when all steps before it succeeded, any of them failed, or all are done."""
        note = self._open()
        note.when = _chosen(note, "when", when, When)
        return self

    def if_failed(self, rest: Rest, /) -> Self:
        """If the step fails, cancel the rest of the flow, or let independent steps go on."""
        note = self._open()
        note.if_failed = _chosen(note, "if_failed", rest, Rest)
        return self

    def named(self, name: str, /) -> Self:
        """Give the step a name other than that of its task."""
        note = self._open()
        if not check_text(name, "named", longest=200):
            raise note.refusal("a name must not be empty")
        note.named = name
        return self

    def __rshift__(self, other: T) -> T:
        for step in self._steps(other):
            step._follow(self._note)
        return other

    def __rrshift__(self, other: "Sequence[Step[Any]]") -> Self:
        for step in self._steps(other):
            self._follow(note_of(step))
        return self

    def __repr__(self) -> str:
        return f"<Step {self.name} of {self._note.trace.flow}>"

    def _follow(self, before: TracedStep) -> None:
        note = self._open()
        if before.trace is not note.trace:
            raise note.refusal(
                f"it cannot depend on step {before.name}, which belongs to {before.trace.flow}: a "
                "flow orders only its own steps"
            )
        note.after[before] = None

    def _steps(self, found: object) -> "list[Step[Any]]":
        steps: list[Any] = list(found) if isinstance(found, list | tuple) else [found]
        for step in steps:
            if not isinstance(step, Step):
                hint = (
                    "remove .result" if isinstance(step, StandIn) else ("task.step(…) returns one")
                )
                raise self._note.refusal(
                    f"{step!r} is not a step: >> orders steps, or lists of steps: {hint}"
                )
        return steps

    def _open(self) -> TracedStep:
        if not self._note.trace.is_open:
            raise self._note.refusal("its flow is defined already and cannot change any more")
        return self._note


def note_of(step: Step[Any]) -> TracedStep:
    return step._note  # noqa: SLF001 - not part of the public API of a step


@contextmanager
def tracing(trace: Trace) -> Iterator[None]:
    """Record steps that are made inside the block in this trace."""
    outer = _tracing.get()
    if outer is not None:
        raise InvalidValue(
            f"{trace.flow}: it is defined inside of {outer.flow}, whose function runs only once: "
            f"define it outside, and call {trace.flow}.step(…)"
        )
    token = _tracing.set(trace)
    try:
        yield
    finally:
        _tracing.reset(token)
        trace.is_open = False


def current_trace() -> Trace | None:
    return _tracing.get()


def refuse_while_tracing(what: str, instead: str) -> None:
    """Refuse a call that would run when the flow is defined instead of when it runs."""
    trace = _tracing.get()
    if trace is not None:
        raise InvalidValue(
            f"{trace.flow}: {what} would happen now, while the flow is defined, and not when it "
            f"runs: {instead}"
        )


_tracing: ContextVar[Trace | None] = ContextVar("duly_tracing", default=None)


def _unused(label: str, taken: Collection[str], counts: dict[str, int]) -> str:
    while True:
        count = counts[label] = counts.get(label, 0) + 1
        name = label if count == 1 else f"{label} {count}"
        if name not in taken:
            return name


def _chosen(note: TracedStep, what: str, asked: T, known: object) -> T:
    try:
        choose(what, asked, known)
    except InvalidValue as error:
        raise note.refusal(str(error)) from None
    return asked


def _takes(note: TracedStep) -> tuple[TakenArgument, ...]:
    """Return the places in the arguments that take a value from another step or the flow."""
    found: list[TakenArgument] = []
    for name, value in note.asked.given.items():
        _refuse_steps(note, value, (name,))
        try:
            places = [*stand_ins_in(value, (name,))]
        except InvalidValue as error:
            raise note.refusal(str(error)) from None
        found += [TakenArgument(path, _own(note, stand_in)) for path, stand_in in places]
    return tuple(found)


def _refuse_steps(note: TracedStep, value: object, path: Path) -> None:
    inside = isinstance(value, list | tuple)
    for at, item in enumerate(cast("Sequence[object]", value) if inside else [value]):
        if isinstance(item, Step):
            where = shown_path((*path, at) if inside else path)
            raise note.refusal(f"`{where}` is the step {item.name} itself: pass its .result")


def _own(note: TracedStep, stand_in: StandIn) -> Argument | Result:
    origin = cast("Argument | Result", origin_of(stand_in))
    if origin.trace is not note.trace:
        raise note.refusal(
            f"it uses {origin} of {origin.flow}, which is another flow: pass the value as an "
            "argument, or nest that flow with its .step(…)"
        )
    return origin
