"""The table ``[targets]`` of duly.toml: the systems that jobs are handed to, by name.

As in ``[alerts]``, a text may name environment variables as ``${NAME}``; they are looked up when
the first message is sent.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from duly.durations import LONGEST
from duly.errors import InvalidValue
from duly.settings.alerts import Text, table_values
from duly.settings.kinds import AppTarget, Kind, Length, Names, OneOf

KINDS: Final = ("celery", "rq", "dramatiq", "redis", "rabbitmq", "nats", "webhook")
# Nobody says what became of a message to another kind, unless its settings say so.
REPORTING: Final = ("celery", "rq", "dramatiq", "webhook")
_FIELDS: Final[Mapping[str, Kind[Any]]] = {
    "kind": OneOf(KINDS),
    "url": Text(),
    "app": AppTarget(),
    "queue": Text(),
    "for_queues": Names("mail"),
    "sign": Text(),
    "outcome": OneOf(("report", "none")),
    "outcome_within": Length(timedelta(seconds=1), LONGEST),
}
_OF_KIND: Final = {"app": ("celery",), "queue": ("rq", "dramatiq"), "sign": ("webhook",)}


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetSettings:
    """A system that jobs are handed to."""

    name: str
    kind: str
    url: str = ""
    app: str = ""  # the Celery app, in place of a url
    queue: str = ""  # the queue there, if a job names none
    for_queues: tuple[str, ...] = ()  # of duly, whose jobs come here if they name no target
    sign: str = ""  # the environment variable with the secret of a webhook's signature
    reports: bool = True  # whether the outcome will be reported
    # As long as Celery waits before it delivers an unacknowledged message from Redis again.
    outcome_within: timedelta = timedelta(hours=1)

    def __str__(self) -> str:
        """``main (celery)``."""
        return f"{self.name} ({self.kind})"


class TargetTable(Kind[tuple[TargetSettings, ...]]):
    """The whole table; in the environment it is written as JSON."""

    secret = True

    def parse(self, text: str) -> object:
        try:
            found: object = json.loads(text)
        except ValueError:
            return text
        return found

    def read(self, value: object) -> tuple[TargetSettings, ...]:
        if isinstance(value, tuple):
            return value
        if not isinstance(value, dict) or not all(isinstance(one, dict) for one in value.values()):
            raise InvalidValue(
                'a table for each, as [targets.main] kind = "celery" url = "redis://…"'
            )
        found = tuple(_target(name, table) for name, table in value.items())
        taken: dict[str, str] = {}
        for one in found:
            for queue in one.for_queues:
                if taken.setdefault(queue, one.name) != one.name:
                    raise InvalidValue(
                        f"targets.{one.name}: the queue {queue} belongs to targets.{taken[queue]}"
                    )
        return found

    def plain(self, value: tuple[TargetSettings, ...]) -> object:
        return [str(target) for target in value]


def _target(name: str, table: Mapping[str, object]) -> TargetSettings:
    place = f"targets.{name}"
    said = table_values(table, _FIELDS, place)
    kind = said.get("kind")
    if kind is None:
        raise InvalidValue(f"{place}: it needs a kind, one of {', '.join(KINDS)}")
    for field, kinds in _OF_KIND.items():
        if field in said and kind not in kinds:
            raise InvalidValue(f"{place}: {field} is for {' and '.join(kinds)}, not for {kind}")
    if bool(said.get("url")) == bool(said.get("app")):
        also = ', or app = "shop.celery:app"' if kind == "celery" else ""
        raise InvalidValue(f'{place}: it needs the address of its server, url = "…"{also}')
    outcome = said.pop("outcome", None)
    reports = kind in REPORTING if outcome is None else outcome == "report"
    return TargetSettings(name=name, reports=reports, **said)
