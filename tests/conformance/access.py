"""A token is found by the hash of its secret as long as it is valid, and not a moment longer."""

from datetime import timedelta
from typing import Any

from duly.errors import InvalidValue, NotFound, PayloadError, WrongState
from duly.model.access import LONGEST_NAME, Actor, NewToken, Token, hash_of
from duly.store.store import SqlStore
from tests.conformance.expect import equal, holds, refused
from tests.conformance.losing import LosingAnswers
from tests.conformance.registry import check
from tests.conformance.world import HOUR, MINUTE, START, World

SECOND = timedelta(seconds=1)
SECRET = "duly_not-so-random"
OTHER = "duly_another"
ADA = Actor("ada", "command")


def token(name: str = "ci", secret: str = SECRET, **changes: Any) -> NewToken:
    return NewToken(**{"role": "operator", **changes, "name": name, "hash": hash_of(secret)})


async def found(world: World, secret: str = SECRET) -> Token | None:
    return await world.store.access.find_token(hash_of(secret))


async def names(world: World, *, revoked: bool = False) -> list[str]:
    return [one.name for one in await world.store.access.tokens(revoked=revoked)]


@check
async def a_token_is_found_by_the_hash_of_its_secret_with_all_that_it_is(world: World) -> None:
    wanted = token(role="viewer", tenant="acme", expires_at=START + HOUR)
    made = await world.store.acting(ADA).access.create_token(wanted)
    equal(
        (made.name, made.role, made.tenant, made.created_at, made.created_by, made.expires_at),
        ("ci", "viewer", "acme", START, "ada", START + HOUR),
    )
    equal((made.revoked_at, made.last_used_at), (None, None))
    equal(await found(world), made)
    equal(await found(world, OTHER), None)
    equal(await world.store.access.find_token(SECRET), None, "the secret is not what is kept")
    equal(await names(world), ["ci"])


@check
async def a_revoked_token_is_not_found_by_any_node_from_then_on(world: World) -> None:
    node = world.another_node()
    await world.store.access.create_token(token())
    await world.store.access.create_token(token("other", OTHER))
    holds(await found(node), "it is valid")
    revoked = await world.store.access.revoke_token("ci")
    equal(revoked.revoked_at, START)
    equal(await found(node), None)
    holds(await found(node, OTHER), "the others stay")
    equal((await names(world), await names(world, revoked=True)), (["other"], ["other", "ci"]))
    with refused(NotFound, saying='there is no token "ci"'):
        await world.store.access.revoke_token("ci")


@check
async def an_expired_token_is_not_found(world: World) -> None:
    await world.store.access.create_token(token(expires_at=START + HOUR))
    world.wait(HOUR - SECOND)
    holds(await found(world), "it is valid")
    world.wait(SECOND)
    equal(await found(world), None)
    equal(await names(world), ["ci"], "it is there to be seen")
    with refused(InvalidValue, saying="is in the past"):
        await world.store.access.create_token(token("late", "duly_late", expires_at=START))


@check
async def a_name_is_one_tokens_until_that_is_revoked(world: World) -> None:
    await world.store.access.create_token(token())
    with refused(WrongState, saying='a token "ci" exists already: revoke it first'):
        await world.store.access.create_token(token(secret=OTHER))
    equal(await found(world, OTHER), None)
    await world.store.access.revoke_token("ci")
    await world.store.access.create_token(token(secret=OTHER))
    equal(await found(world), None)
    holds(await found(world, OTHER), "it is valid")
    with refused(WrongState, saying="the secret belongs to another token"):
        await world.store.access.create_token(token("twin"))


@check
async def when_a_token_was_used_is_noted_once_a_minute(world: World) -> None:
    await world.store.access.create_token(token())

    async def used() -> timedelta | None:
        [one] = await world.store.access.tokens()
        return None if one.last_used_at is None else one.last_used_at - START

    equal(await used(), None)
    for wait, noted in ((SECOND, SECOND), (30 * SECOND, SECOND), (30 * SECOND, 61 * SECOND)):
        world.wait(wait)
        await found(world)
        equal(await used(), noted)
    await world.store.access.revoke_token("ci")
    world.wait(MINUTE)
    await found(world)
    [one] = await world.store.access.tokens(revoked=True)
    equal(one.last_used_at, START + 61 * SECOND, "a spent one is not used")


@check
async def a_token_whose_answer_was_lost_is_made_once(world: World) -> None:
    losing = LosingAnswers(world.database)
    node = SqlStore(losing).acting(ADA)
    losing.lose("add_token", times=2)
    made = await node.access.create_token(token())
    equal((losing.lost, await found(world)), (2, made))
    said = [(one.who, one.action, one.subject) for one in await world.store.access.audit()]
    equal(said, [("ada", "tokens.create", "token:ci")])


@check
async def what_cannot_be_kept_of_a_token_is_refused(world: World) -> None:
    for words, error in (
        ({"name": ""}, InvalidValue),
        ({"name": "n" * (LONGEST_NAME + 1)}, PayloadError),
        ({"name": "a\0b"}, PayloadError),
        ({"role": "root"}, InvalidValue),
        ({"tenant": ""}, InvalidValue),
        ({"tenant": "t" * 501}, PayloadError),
        ({"expires_at": START.replace(tzinfo=None)}, InvalidValue),
        ({"hash": SECRET}, InvalidValue),
    ):
        said: dict[str, Any] = {"name": "ci", "role": "viewer", "hash": hash_of(SECRET), **words}
        with refused(error):
            await world.store.access.create_token(NewToken(**said))
    equal(await names(world, revoked=True), [])


@check
async def a_session_is_found_by_every_node_until_it_is_ended_or_expires(world: World) -> None:
    access, node = world.store.access, world.another_node().store.access
    await access.begin_session(hash_of("one"), holder=hash_of(SECRET), length=HOUR)
    await access.begin_session(hash_of("two"), holder=hash_of(OTHER), length=HOUR)
    equal(await node.session_holder(hash_of("one")), hash_of(SECRET))
    equal(await node.session_holder(hash_of(SECRET)), None, "its token is no session")
    await access.end_session(hash_of("one"))
    await access.end_session(hash_of("one"))
    equal(await node.session_holder(hash_of("one")), None)
    world.wait(HOUR - SECOND)
    equal(await node.session_holder(hash_of("two")), hash_of(OTHER))
    world.wait(SECOND)
    equal(await node.session_holder(hash_of("two")), None)
