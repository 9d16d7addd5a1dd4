"""What may be asked of a store over HTTP, and which role it takes.

The commands are written over the facade, and the facade over the store's protocol: with what they
ask of it, every one of them works from afar. What only the engine asks is not here. It holds leases
and fences, and needs the database itself.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias, get_type_hints

from duly.errors import NotFound
from duly.model.access import Role
from duly.model.schedule import Plan, StoredSchedule
from duly.store.protocol import (
    Access,
    Events,
    Evidence,
    Jobs,
    Journal,
    Ledger,
    Limits,
    Schedules,
    Surroundings,
    Upkeep,
    Work,
)

Verb: TypeAlias = tuple[str, str]  # the noun, and the verb

NOUNS: Final[Mapping[str, type]] = {
    "schedules": Schedules,
    "ledger": Ledger,
    "jobs": Jobs,
    "work": Work,
    "limits": Limits,
    "journal": Journal,
    "upkeep": Upkeep,
    "events": Events,
    "evidence": Evidence,
    "surroundings": Surroundings,
    "access": Access,
}

# A file that was applied, and what it is compared with, have secrets in them that a viewer is not
# shown; with those hidden, everything would seem to have changed.
_ROLES: Final[Mapping[Role, Mapping[str, str]]] = {
    "viewer": {
        "schedules": "get page changes in_code removed",
        "ledger": "fires latest recent skipped_ahead covering",
        "jobs": "get page ended attempts find count failures schedule_names flow parts "
        "flow_progress",
        "work": "workers living queues",
        "limits": "listed",
        "journal": "logs note",
        "upkeep": "progress",
        "events": "get find page reactions",
        "evidence": "schedule run_in_the_way past_runs runs_of run_after last_decision count_ahead "
        "running_in asked_to_stop tallies late_moments not_kept failed_tasks waiting running "
        "awaiting depths minutes happened count_happened hour_tallies due_before",
        "surroundings": "now newest bad_days zone_data wanted living orphans",
        "access": "acknowledged",
    },
    "operator": {
        "schedules": "add edit pause resume skip_next unskip run backfill remove applied standing "
        "apply",
        "jobs": "enqueue enqueue_once cancel cancel_key retry retry_found cancel_found remove "
        "remove_found",
        "work": "tell set_queue",
        "limits": "set unset",
        "events": "emit emit_once replay",
        "access": "acknowledge forget_acknowledgement",
    },
    "admin": {
        "schedules": "rewind",
        "surroundings": "settings",
        "access": "tokens create_token revoke_token audit verify_audit",
    },
}

# Why, and what: decided about, so that nothing new is left out by accident.
NOT_REMOTE: Final[Mapping[str, Mapping[str, str]]] = {
    "a scheduler's": {
        "schedules": "declare",
        "ledger": "fire refresh",
        "events": "react",
        "upkeep": "dispatch answer sweep hold_unknown free_unfit take_back prune make_days",
    },
    "a worker's": {
        "work": "register renew listen_to end_lease turn claim has_room ready held settle",
        "journal": "write",
    },
    "a simulation's, which has a store of its own in memory": {"ledger": "foresee"},
    "the server's own, about who asks it": {
        "access": "find_token append_audit begin_session session_holder end_session"
    },
}

# What is done in a row of transactions takes as long as there are jobs.
_LONG: Final = ("retry_found", "cancel_found", "remove_found", "verify_audit", "replay")


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
    is_long: bool

    @property
    def changes(self) -> bool:
        """Whether asking twice may not be the same as asking once."""
        return self.role != "viewer" and self.verb not in _ONLY_READ


_ONLY_READ: Final = ("applied", "standing", "settings", "tokens", "audit", "verify_audit")


class Edits(Protocol):
    """What cannot be sent as it is: a change is a function."""

    async def edit(self, name: str, *, seen: StoredSchedule, plan: Plan) -> StoredSchedule:
        """Change the plan, or ``WrongState`` if it is not the one that was ``seen`` any more."""
        ...


def call_of(noun: str, verb: str) -> RemoteCall:
    found = CALLS.get((noun, verb))
    if found is None:
        raise NotFound(f"{noun}.{verb} is nothing that can be asked from afar")
    return found


def verbs_of(kind: type) -> list[str]:
    """What a protocol has."""
    return [name for name, _ in inspect.getmembers(kind, inspect.isfunction) if name[0] != "_"]


def _calls() -> Iterator[tuple[Verb, RemoteCall]]:
    for role, nouns in _ROLES.items():
        for noun, verbs in nouns.items():
            for verb in verbs.split():
                kind = Edits if verb == "edit" else NOUNS[noun]
                yield (noun, verb), _call(noun, verb, role, getattr(kind, verb))


def _call(noun: str, verb: str, role: Role, method: Callable[..., Any]) -> RemoteCall:
    hints = get_type_hints(method)
    signature = inspect.signature(method)
    found = dict(list(signature.parameters.items())[1:])
    return RemoteCall(
        noun=noun,
        verb=verb,
        role=role,
        parameters={name: hints[name] for name in found},
        required=frozenset(name for name, one in found.items() if one.default is one.empty),
        answers=hints["return"],
        signature=signature.replace(parameters=list(found.values())),
        is_long=verb in _LONG,
    )


CALLS: Final[Mapping[Verb, RemoteCall]] = dict(_calls())
