"""A remote store behind ``duly web``: each call is one HTTP exchange.

Changes are made with the role and under the name of the token, not of the local user. Changes by
others are not notified: callers poll.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Final, NoReturn, cast

import msgspec

from duly.errors import (
    DulyError,
    InvalidValue,
    NotAllowed,
    NotSignedIn,
    OutcomeUnknown,
    SchemaMismatch,
    StoreUnavailable,
    WrongState,
)
from duly.model.access import Actor
from duly.model.schedule import Plan, StoredSchedule
from duly.remote.calls import CALLS, FORM, RemoteCall
from duly.remote.codec import reader, writer
from duly.remote.http import (
    LONG_PATIENCE,
    MEDIA_TYPE,
    PATIENCE,
    Question,
    RemoteToken,
    Reply,
    ServerConnection,
    error_of,
    read_token,
)
from duly.store.store import NOUNS, Store
from duly.store.verbs import verbs_of

PATH: Final = "/api/v1/store"
TRIES: Final = 5  # to change a schedule that others change at the same time
_OK, _REDIRECTS, _BAD, _UNKNOWN, _FORBIDDEN, _OURS = 200, 300, 400, 401, 403, 500


class RemoteStore(Store):
    """A store over HTTP. ``token_file`` holds the secret and is read for every call."""

    def __init__(
        self,
        url: str,
        *,
        token_file: str | None,
        actor: Actor | None = None,
        line: ServerConnection | None = None,
    ) -> None:
        self._token_file = token_file
        self._line = line or ServerConnection(url, self._token)
        self._actor = actor
        for name in NOUNS:
            kind = RemoteSchedules if name == "schedules" else RemoteNoun
            setattr(self, name, kind(name, self._asked))

    @property
    def place(self) -> str:
        return self._line.place

    @property
    def actor(self) -> Actor | None:
        return self._actor

    def acting(self, actor: Actor, /) -> "RemoteStore":
        """Return the same store; the server records changes under the token's name."""
        return RemoteStore(self.place, token_file=self._token_file, actor=actor, line=self._line)

    def listen(self, listener: Callable[[str], None], /) -> None:
        """Do nothing: a remote store sends no notifications."""

    async def open(self) -> None:
        """Check that the server is duly, accepts the token, and speaks the same version."""
        reply = await self._line.ask(Question(path=PATH))
        if reply.status != _OK:
            self._refuse(reply, changes=False)
        found = self._decoded(reply)
        form = found.get("form") if isinstance(found, dict) else None
        if form is None:
            raise StoreUnavailable(
                f"{self.place} is not a duly server: give the address of its dashboard"
            )
        if form != FORM:
            raise SchemaMismatch(
                f"{self.place} runs duly {found.get('duly')}, which is not compatible with this "
                f'version: pip install "duly=={found.get("duly")}"'
            )

    async def close(self) -> None:
        self._line.close()

    async def _asked(self, call: RemoteCall, words: dict[str, Any]) -> Any:  # noqa: ANN401
        question = Question(
            path=f"{PATH}/{call.noun}/{call.verb}",
            body=_body(call, words),
            changes=call.changes,
            patience=LONG_PATIENCE if call.is_long else PATIENCE,
        )
        reply = await self._line.ask(question)
        if reply.status != _OK:
            self._refuse(reply, changes=call.changes)
        try:
            return reader(call.answers, trusting=True)(self._decoded(reply), "the answer")
        except InvalidValue as error:
            raise StoreUnavailable(
                f"{self.place} runs another version of duly, and its response was not understood: "
                f"{call.noun}.{call.verb}: {error}"
            ) from None

    def _decoded(self, reply: Reply) -> Any:  # noqa: ANN401 - JSON is any of its types
        try:
            return msgspec.json.decode(reply.body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise StoreUnavailable(
                f"{self.place} did not answer with JSON: is it a duly server?"
            ) from None

    def _refuse(self, reply: Reply, *, changes: bool) -> NoReturn:
        """Raise the server's error, or explain an answer that is not from duly."""
        error = _told(self._decoded(reply)) if reply.kind == MEDIA_TYPE else None
        if reply.status == _UNKNOWN or isinstance(error, NotSignedIn):
            raise NotSignedIn(
                f"{self.place} does not accept the token in {self._token_file}: it is unknown, "
                "expired or revoked. An admin creates another: "
                "duly tokens create NAME --role operator"
            )
        if reply.status == _FORBIDDEN or isinstance(error, NotAllowed):
            raise NotAllowed(
                f"the token in {self._token_file} lacks the role: {error or 'refused'}"
            )
        if error is not None:
            raise error
        if reply.status >= _OURS and changes:
            raise OutcomeUnknown(
                f"{self.place} answered {reply.status}; the change may have been made: check "
                "before you repeat it"
            )
        if _REDIRECTS <= reply.status < _BAD:
            raise StoreUnavailable(
                f"{self.place} redirects, and the token is not sent to another server; if you "
                f"trust that server, give its address: {reply.location.removesuffix(PATH)}"
            )
        raise StoreUnavailable(
            f"{self.place} is not a duly server, or it is unhealthy (HTTP {reply.status})"
        )

    def _token(self) -> RemoteToken:
        return read_token(self._token_file, place=self.place)


class RemoteNoun:
    """The verbs of one noun, each asked over HTTP."""

    def __init__(
        self, name: str, ask: Callable[[RemoteCall, dict[str, Any]], Awaitable[Any]]
    ) -> None:
        self._name = name
        self._ask = ask

    def __getattr__(self, verb: str) -> Callable[..., Awaitable[Any]]:
        call = CALLS.get((self._name, verb))
        if call is None:
            if verb not in verbs_of(NOUNS[self._name]):
                raise AttributeError(verb)
            raise InvalidValue(
                f"{self._name}.{verb} needs the database itself: give --store postgresql://…, or a "
                "path"
            )

        async def asked(*args: object, **words: object) -> Any:  # noqa: ANN401
            return await self._ask(call, call.signature.bind(*args, **words).arguments)

        return asked


class RemoteSchedules(RemoteNoun):
    async def edit(self, name: str, change: Callable[[Plan], Plan]) -> StoredSchedule:
        """Send the edited plan with the plan that was seen: a function cannot be sent."""
        edited = CALLS["schedules", "edit"]
        refused: WrongState | None = None
        seen: StoredSchedule | None = None
        for _ in range(TRIES):
            before, seen = seen, cast("StoredSchedule", await self.get(name))
            if refused is not None and before is not None and before.plan == seen.plan:
                break  # the error was not caused by a concurrent change
            words = {"name": name, "seen": seen, "plan": change(seen.plan)}
            try:
                return cast("StoredSchedule", await self._ask(edited, words))
            except WrongState as error:
                refused = error
        assert refused is not None  # noqa: S101 - or it was done
        raise refused


def _body(call: RemoteCall, words: dict[str, Any]) -> bytes:
    plain = {name: writer(call.parameters[name])(value) for name, value in words.items()}
    try:
        return msgspec.json.encode(plain)
    except UnicodeEncodeError:
        raise InvalidValue("the input is not valid text: it contains a lone surrogate") from None


def _told(problem: object) -> DulyError | None:
    if not isinstance(problem, dict):
        return None
    slug = str(problem.get("type", "")).rpartition("/")[2]
    return error_of(slug, str(problem.get("detail") or problem.get("title") or slug))
