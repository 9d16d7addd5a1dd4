"""A store whose values all went over the wire: every call that can be asked from afar is."""

from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from duly.model.access import Actor
from duly.remote.calls import CALLS, RemoteCall, Verb, _edit
from duly.remote.codec import reader, writer
from duly.remote.store import RemoteSchedules, _body
from duly.store.database import Database
from duly.store.store import NOUNS, SqlStore
from duly.store.transactions import Transactions

ASKED: Counter[Verb] = Counter()


class ThroughJson(SqlStore):
    def __init__(self, database: Database, *, db: Transactions | None = None) -> None:
        super().__init__(database, db=db)
        self.near = SqlStore(database, db=self._db)
        for name in NOUNS:
            kind = Schedules if name == "schedules" else Noun
            setattr(self, name, kind(name, self.near))

    def acting(self, actor: Actor, /) -> "ThroughJson":
        return ThroughJson(self.database, db=self._db.acting(actor))


class Noun:
    def __init__(self, name: str, near: SqlStore) -> None:
        self._name = name
        self._near = near

    def __getattr__(self, verb: str) -> Callable[..., Any]:
        near: Callable[..., Any] = getattr(getattr(self._near, self._name), verb)
        call = CALLS.get((self._name, verb))
        if call is None:
            return near

        async def asked(*args: object, **words: object) -> Any:  # noqa: ANN401
            return await self._ask(call, call.signature.bind(*args, **words).arguments)

        return asked

    async def _ask(self, call: RemoteCall, words: dict[str, Any]) -> Any:  # noqa: ANN401
        ASKED[call.noun, call.verb] += 1
        sent = {
            name: reader(call.parameters[name])(value, name)
            for name, value in msgspec.json.decode(_body(call, words)).items()
        }
        near: Callable[..., Awaitable[Any]] = getattr(getattr(self._near, call.noun), call.verb)
        found = await (_edit(self._near, **sent) if call.verb == "edit" else near(**sent))
        return sent_over(found, call.answers, trusting=True)


class Schedules(Noun, RemoteSchedules):
    pass


def sent_over(value: object, kind: Any, *, trusting: bool) -> Any:  # noqa: ANN401
    """The value as it arrives, with everything that it had."""
    body = msgspec.json.encode(writer(kind)(value))
    arrived = reader(kind, trusting=trusting)(msgspec.json.decode(body), "it")
    # What a plan that nobody can read has not got, it has when it arrives: as by default.
    assert b'"unreadable":' in body or msgspec.json.encode(writer(kind)(arrived)) == body
    return arrived
