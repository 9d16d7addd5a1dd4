"""The registry: tasks by name, from the name in a job's row to the function that runs it.

A name is the bare function name, so that it stays the same when the file moves, or when a script is
``__main__`` in one process and ``tasks`` in another. Two tasks with one name are refused.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from difflib import get_close_matches
from functools import lru_cache
from typing import Any, Final, Protocol

from duly.errors import InvalidValue, NotFound, PayloadError
from duly.model.flow import FlowPlan
from duly.model.job import Claimed, IfExists, JobRequest
from duly.model.limit import Limit, NamedLimit
from duly.model.payload import Json
from duly.model.policies import LONGEST, Late
from duly.model.template import render_title
from duly.model.terms import KEEP_RESULT, Callback, Terms
from duly.policy.retry import Retry
from duly.registry.context import Instrument, instrumented
from duly.registry.definition import Definition, refuse_unkeepable
from duly.registry.flow_plan import call_without_arguments, plan_flow
from duly.registry.option_values import (
    Duration,
    Priority,
    Start,
    length_of,
    priority_of,
    retry_of,
    start_of,
)

_SOME_JOB = 1


class Unset:
    """The value of an option that was not given, which is not the same as None."""

    def __repr__(self) -> str:
        return "unset"


UNSET: Final = Unset()


class JobTransaction(Protocol):
    """A transaction that ends a job: for ``with`` and ``async with``."""

    @property
    def completed(self) -> bool: ...


class OpenJobTransaction(Protocol):
    def __call__(
        self, url: str, job: Claimed, definition: Definition, *, lease: timedelta
    ) -> JobTransaction: ...


class Registry:
    # Opens ``transaction()`` for running tasks; set by the code that knows the store.
    completion: OpenJobTransaction | None = None

    def __init__(self) -> None:
        self._definitions: dict[str, Definition] = {}  # by name, and by every alias
        self._limits: dict[str, tuple[Limit, Definition]] = {}
        self._terms: dict[str, Terms] = {}
        self._patterns: dict[Definition, JobRequest] = {}
        self._plans: dict[Definition, FlowPlan] = {}
        self.instruments: list[Instrument] = []
        self.local: set[str] = set()  # tasks that a child process would not find on import

    def add(self, definition: Definition, *, local: bool = False) -> None:
        """Register a task by its name and aliases; refuse names that another task has."""
        if self.instruments:
            definition = self._instrumented(definition)
        for name in definition.names:
            known = self._definitions.get(name)
            if known is not None and not _is_again(known, definition):
                raise InvalidValue(_two_with_one_name(name, known, definition))
        for limit in definition.limits:
            self._check_limit(limit, definition)
        for name in self._definitions.get(definition.name, definition).names:
            self._definitions.pop(name, None)
        for name in definition.names:
            self._definitions[name] = definition
        for limit in definition.limits:
            self._limits[limit.name] = (limit, definition)
        if local:
            self.local.add(definition.name)
        for known_so_far in (self._terms, self._patterns, self._plans):
            known_so_far.clear()

    def observe_by(self, instrument: Instrument) -> None:
        """Surround every enqueueing and every call of a task, also of tasks declared later."""
        first = not self.instruments
        self.instruments.append(instrument)
        for definition in self if first else ():
            for name in definition.names:
                self._definitions[name] = self._instrumented(definition)

    def _instrumented(self, definition: Definition) -> Definition:
        function = instrumented(definition.function, self.instruments, is_async=definition.is_async)
        return replace(definition, function=function)

    def find(self, name: str) -> Definition | None:
        return self._definitions.get(name)

    def get(self, name: str) -> Definition:
        found = self._definitions.get(name)
        if found is None:
            raise NotFound(f'there is no task "{name}"{self._instead(name)}')
        return found

    def __contains__(self, name: object) -> bool:
        return name in self._definitions

    def __iter__(self) -> Iterator[Definition]:
        """Iterate over the tasks, each once, in the order of declaration."""
        return iter(
            [known for name, known in self._definitions.items() if known.name == name],
        )

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def names(self) -> tuple[str, ...]:
        """Return all names of tasks, with aliases."""
        return tuple(self._definitions)

    def signatures(self) -> dict[str, str]:
        """Return the fingerprint of the signature of each name."""
        return {name: known.signature.fingerprint for name, known in self._definitions.items()}

    def call(  # noqa: PLR0913 - all options of a call, by name
        self,
        definition: Definition,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
        *,
        run_after: Start | None = None,
        queue: str | None = None,
        priority: Priority | None = None,
        key: str | None = None,
        if_exists: IfExists = "replace",
        tenant: str = "",
        start_within: Duration | None = None,
        late: Late = "skip",
        retry: Retry | Unset | None = UNSET,
        timeout: Duration | Unset | None = UNSET,
        title: str | None = None,
        tags: Sequence[str] = (),
        submitter: str = "",
    ) -> JobRequest:
        """Return the call to store: encoded arguments, and options of the caller or the task."""
        if definition.graph is not None:
            self.flow_plan(definition)  # finish the checks that the declaration could not do
        text = definition.signature.encode(args, kwargs)
        # Decoded again, so that equal arguments render equal names however they were passed.
        templates = definition.limits or (definition.title and title is None)
        values = definition.signature.values(text) if templates else {}
        return JobRequest(
            task=definition.name,
            args=text,
            queue=definition.queue if queue is None else queue,
            priority=definition.priority if priority is None else priority_of(priority),
            tenant=tenant,
            submitter=submitter,
            title=render_title(definition.title, values) if title is None else title,
            tags=tuple(tags) if not isinstance(tags, str) else tags,  # type: ignore[arg-type]  # Call says why not
            limits=_named_limits(definition, values),
            needs=definition.needs,
            terms=self._terms_for(definition, timeout),
            run_after=start_of("run_after", run_after),
            key=key,
            if_exists=if_exists,
            start_within=_length("start_within", start_within),
            late=late,
            retry=_retry_text(definition.retry if isinstance(retry, Unset) else retry_of(retry)),
        )

    def plain_call(self, definition: Definition, given: Mapping[str, object]) -> JobRequest:
        """Return a call without options, quickly: the checks run once for each task.

        ``given`` are the arguments by name, as ``Parameters.bound`` returns them.
        """
        if definition.limits or definition.title:
            return self.call(definition, (), given)
        pattern = self._patterns.get(definition)
        if pattern is None:
            pattern = self._patterns[definition] = self.call(definition, (), given)
        return pattern.saying(definition.signature.encode_bound(given))

    def call_without_arguments(self, definition: Definition, **options: Any) -> JobRequest:
        """Return a call whose arguments come later; its title and limits are still templates."""
        return call_without_arguments(self, definition, options)

    def flow_plan(self, definition: Definition) -> FlowPlan:
        """Return the checked plan of a flow."""
        found = self._plans.get(definition)
        if found is None:
            found = self._plans[definition] = plan_flow(self, definition)
        return found

    def terms(self, definition: Definition) -> Terms:
        """Return the terms of a task's jobs; its callbacks must have been declared by now."""
        found = self._terms.get(definition.name)
        if found is None:
            found = self._terms[definition.name] = Terms(
                timeout=definition.timeout,
                keep_result=_kept(definition.keep_result),
                keep_failed=definition.keep_failed,
                on_success=self._callback(definition, "on_success", definition.on_success),
                on_failure=self._callback(definition, "on_failure", definition.on_failure),
                on_cancelled=self._callback(definition, "on_cancelled", definition.on_cancelled),
            )
        return found

    def _terms_for(self, definition: Definition, timeout: Duration | Unset | None) -> Terms:
        terms = self.terms(definition)
        if isinstance(timeout, Unset):
            return terms
        asked = _length("timeout", timeout)
        if asked is not None and definition.executor == "thread" and not definition.executor_named:
            refuse_unkeepable(asked)
        return replace(terms, timeout=asked)

    def _callback(self, definition: Definition, what: str, name: str | None) -> Callback | None:
        if name is None:
            return None
        if name not in self:
            raise NotFound(
                f'{definition.name}: {what}="{name}": there is no such task{self._instead(name)}'
            )
        known = self.get(name)
        try:
            known.signature.encode((_SOME_JOB,), {})
        except PayloadError as error:
            raise InvalidValue(
                f"{definition.name}: {what}: {known.name} is called with the job that ended, "
                f"def {known.name}(job: Job[Any]), or its id, (job_id: int): {error}"
            ) from None
        return Callback(
            task=known.name,
            queue=known.queue,
            priority=known.priority,
            retry=_retry_text(known.retry),
            timeout=known.timeout,
            argument=known.signature.parameters.positional[0],
        )

    def _check_limit(self, limit: Limit, definition: Definition) -> None:
        known, owner = self._limits.get(limit.name, (limit, definition))
        if known != limit and not _is_again(owner, definition):
            raise InvalidValue(
                f"{limit} of {definition.name} ({definition.where}) differs from {known} of "
                f"{owner.name} ({owner.where}): limits with one name must have the same numbers"
            )

    def _instead(self, name: str) -> str:
        near = get_close_matches(name, self._definitions, n=1)
        if near:
            return f'; did you mean "{near[0]}"?'
        known = ", ".join(sorted(self._definitions)[:10])
        return f"; known tasks: {known}" if known else "; no task is declared"


def _is_again(known: Definition, definition: Definition) -> bool:
    """Return whether both come from the same lines, because a module was reloaded."""
    return (known.name, known.file, known.line) == (
        definition.name,
        definition.file,
        definition.line,
    )


def _two_with_one_name(name: str, known: Definition, definition: Definition) -> str:
    return (
        f'two tasks are named "{name}": {known.name} in {known.where} and {definition.name} in '
        f'{definition.where}; rename one of them with name="…"'
    )


def _named_limits(definition: Definition, values: Mapping[str, object]) -> tuple[NamedLimit, ...]:
    """Render the limits of a task for these arguments.

    Two limits may come to one name, as "account:{source}" and "account:{target}" do.
    """
    named: dict[str, NamedLimit] = {}
    for limit in definition.limits:
        rendered = limit.rendered(values)
        other = named.setdefault(rendered.name, rendered)
        if (other.concurrency, other.rate) != (rendered.concurrency, rendered.rate):
            raise InvalidValue(
                f'{definition.name}: its limits "{other.template}" and "{rendered.template}" both '
                f'become "{rendered.name}" for these arguments, but have different numbers'
            )
    return tuple(named.values())


def _length(what: str, asked: Duration | None) -> timedelta | None:
    return None if asked is None else length_of(what, asked, longest=LONGEST)


def _kept(asked: timedelta | None) -> timedelta | None:
    """Return None for the default retention, so that it is not stored with every job."""
    if asked is None:
        return timedelta()
    return None if asked == KEEP_RESULT else asked


@lru_cache(maxsize=256)
def _retry_text(retry: Retry) -> Json:
    return retry.as_json()
