"""The verbs of the store that are offered over HTTP, made from their declarations in the store.

Commands use the facade, and the facade uses the store's verbs. Every verb that the facade needs is
offered, so every command works on a remote store.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, get_args, get_origin, get_type_hints

from duly.errors import NotFound
from duly.model.access import Role
from duly.model.schedule import Plan, StoredSchedule
from duly.store.database import Operation
from duly.store.store import NOUNS
from duly.store.verbs import Noun, verb, verbs_of

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
    if get_origin(answers) is get_origin(Operation):  # its last argument is what it returns
        answers = get_args(answers)[-1]
    return {
        "parameters": {name: hints[name] for name in found},
        "required": frozenset(name for name, one in found.items() if one.default is one.empty),
        "answers": answers,
        "signature": signature.replace(parameters=list(found.values())),
    }


CALLS: Final[Mapping[Verb, RemoteCall]] = dict(_calls())
