"""The server's half of a remote store: run a verb in the name of the caller.

It knows no web framework. The web server authenticates the caller and passes the two words of the
path and the body; errors are raised as by a local store.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

import msgspec

from duly.errors import InvalidValue, NotAllowed, PayloadError, WrongState
from duly.model.access import Role, User
from duly.model.event import Emitted
from duly.model.job import Label
from duly.model.schedule import Plan, StoredSchedule
from duly.remote.calls import RemoteCall, Verb, call_of
from duly.remote.codec import reader, writer
from duly.rules import Budget
from duly.store.store import Store
from duly.version import __version__

FORM: Final = 2  # protocol version: another number is incompatible
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


def role_of(noun: str, verb: str) -> Role:
    return call_of(noun, verb).role


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
