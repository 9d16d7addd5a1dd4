"""The verbs of the store that are offered over HTTP, and the server that runs them for a caller.

Commands use the facade, and the facade uses the store's verbs. Every verb that the facade needs is
offered, so every command works on a remote store.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Final, TypeAlias, get_args, get_origin, get_type_hints

import msgspec

from duly.errors import InvalidValue, NotAllowed, NotFound, PayloadError, WrongState
from duly.model.access import Role, User
from duly.model.event import Emitted
from duly.model.job import Label
from duly.model.schedule import Plan, StoredSchedule
from duly.remote.codec import reader, writer
from duly.rules import Budget
from duly.store.database import Operation
from duly.store.store import NOUNS, Store
from duly.store.verbs import Noun, verb, verbs_of
from duly.version import __version__

Verb: TypeAlias = tuple[str, str]  # the noun, and the verb


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteCall:
    """One verb of a noun, as it is asked over HTTP."""

    noun: str
    verb: str
    role: Role
    parameters: Mapping[str, Any]  # the annotation of each
    required: frozenset[str]
    answers: Any
    signature: inspect.Signature
    changes: bool
    is_long: bool


class EditByValue(Noun):
    """The remote form of ``schedules.edit``, whose argument is a function and cannot be sent."""

    @verb("operator")
    async def edit(self, name: str, *, seen: StoredSchedule, plan: Plan) -> StoredSchedule:
        """Change the plan, or ``WrongState`` if it is not the one that was ``seen`` any more."""
        raise NotImplementedError


def call_of(noun: str, verb: str) -> RemoteCall:
    found = CALLS.get((noun, verb))
    if found is None:
        raise NotFound(f"{noun}.{verb} is not offered over HTTP")
    return found


def _calls() -> Iterator[tuple[Verb, RemoteCall]]:
    for noun, kind in NOUNS.items():
        for name, declared in verbs_of(kind).items():
            if declared.role is None:
                continue
            method = getattr(EditByValue if (noun, name) == ("schedules", "edit") else kind, name)
            words = _signature(method)
            call = RemoteCall(
                noun=noun,
                verb=name,
                role=declared.role,
                changes=declared.changes,
                is_long=declared.is_long,
                **words,
            )
            yield (noun, name), call


def _signature(method: Callable[..., Any]) -> dict[str, Any]:
    hints = get_type_hints(method)
    signature = inspect.signature(method)
    found = dict(list(signature.parameters.items())[1:])
    answers = hints["return"]
    if get_origin(answers) is get_origin(Operation):  # its last argument is the result
        answers = get_args(answers)[-1]
    return {
        "parameters": {name: hints[name] for name in found},
        "required": frozenset(name for name, one in found.items() if one.default is one.empty),
        "answers": answers,
        "signature": signature.replace(parameters=list(found.values())),
    }


CALLS: Final[Mapping[Verb, RemoteCall]] = dict(_calls())


FORM: Final = 3  # protocol version: another number is incompatible
LARGEST: Final = 16 * 1024 * 1024  # bytes of one request
MOST_ROWS: Final = 10_000  # rows of one response
_COUNTS: Final = ("limit", "at_most", "count", "changes")


async def answer(store: Store, noun: str, verb: str, body: bytes, *, user: User) -> bytes:
    """Run a verb and return its result as JSON. ``store`` acts in the name of ``user`` already.

    ``NotFound`` if the verb is not offered, ``NotAllowed`` if the role is too low, ``InvalidValue``
    if the body has wrong arguments.
    """
    call = call_of(noun, verb)
    permit(user, call.role, what=f"{noun}.{verb}")
    # Plans are read with their rules, which may take a second, or be refused.
    read = await asyncio.to_thread(_read, call, body) if call.changes else _read(call, body)
    words = _signed(call, read, user.name)
    asked = _OTHERWISE.get((noun, verb)) or getattr(getattr(store, noun), verb)
    found = await (asked(store, **words) if (noun, verb) in _OTHERWISE else asked(**words))
    # A user who may change a plan has to see all of it.
    write = writer(call.answers, hiding=not user.may("operator"))
    return msgspec.json.encode(write(found))


def greeting() -> bytes:
    """Return the versions by which a client checks that it can talk to this server."""
    return msgspec.json.encode({"duly": __version__, "form": FORM})


def permit(user: User, role: Role, *, what: str) -> None:
    """Raise ``NotAllowed`` if the user lacks the role, or is bound to one tenant."""
    if not user.may(role):
        raise NotAllowed(f"{what} needs the role {role}, but {user.name} has the role {user.role}")
    if user.tenant is not None:
        raise NotAllowed(
            f"{user.name} may only use the tenant {user.tenant}, but commands see every tenant: "
            "use a token that was created without --tenant"
        )


def _read(call: RemoteCall, body: bytes) -> dict[str, Any]:
    said = _object(body)
    what = f"{call.noun}.{call.verb}"
    if unknown := said.keys() - call.parameters.keys():
        raise InvalidValue(f"{what}: {', '.join(sorted(unknown))}: no such argument")
    if missing := call.required - said.keys():
        raise InvalidValue(f"{what}: {', '.join(sorted(missing))}: missing")
    with Budget():  # one for all that is said
        words = {name: reader(call.parameters[name])(value, name) for name, value in said.items()}
    for name, value in words.items():
        _check_number(name, value)
    return words


def _check_number(name: str, value: object) -> None:
    """Refuse counts out of bounds and negative numbers or durations."""
    if isinstance(value, list):
        for one in value:
            _check_number(name, one)
    if name in _COUNTS and isinstance(value, int) and not 0 <= value <= MOST_ROWS:
        raise InvalidValue(f"{name}={value}: expected 0 to {MOST_ROWS:,}")
    below = timedelta() if isinstance(value, timedelta) else 0
    if isinstance(value, int | timedelta) and value < below:  # type: ignore[operator]
        raise InvalidValue(f"{name}={value}: must not be negative")


def _object(body: bytes) -> dict[str, Any]:
    if len(body) > LARGEST:
        raise PayloadError(f"{len(body):,} bytes: the maximum is {LARGEST:,}")
    try:
        found = msgspec.json.decode(body or b"{}")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidValue(f"the body is not valid JSON: {error}") from None
    if not isinstance(found, dict):
        raise InvalidValue("the body must be a JSON object with the arguments by name")
    return found


def _signed(call: RemoteCall, words: dict[str, Any], who: str) -> dict[str, Any]:
    """Set the submitter to the owner of the token."""
    submitted = _SUBMITTED.get((call.noun, call.verb))
    if submitted is not None:
        labels: Sequence[Label | Emitted] = words[submitted]
        words[submitted] = [replace(label, submitter=who) for label in labels]
    return words


async def _edit(store: Store, *, name: str, seen: StoredSchedule, plan: Plan) -> StoredSchedule:
    def change(found: Plan) -> Plan:
        if found != seen.plan:
            raise WrongState(f'the schedule "{name}" was changed by somebody else in the meantime')
        return plan

    return await store.schedules.edit(name, change)


# Verbs with another form over HTTP.
_OTHERWISE: Final[Mapping[Verb, Callable[..., Awaitable[Any]]]] = {("schedules", "edit"): _edit}
# Verbs whose values have a submitter: most are not in the audit log because of that.
_SUBMITTED: Final[Mapping[Verb, str]] = {
    ("jobs", "enqueue"): "calls",
    ("jobs", "enqueue_once"): "calls",
    ("schedules", "add"): "plans",
    ("events", "emit"): "events",
    ("events", "emit_once"): "events",
}
