"""Pages that are kept up to date, for several people at once."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from itertools import count

import pytest

from duly.web import live as module
from duly.web.live import RETRY, LivePages, TooManyStreams, event


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ROUND_SECONDS", 0.001)


@pytest.fixture
async def live() -> AsyncIterator[LivePages]:
    made = LivePages()
    yield made
    made.close()
    if made._round is not None:
        await made._round


async def still() -> str:
    return "as it was"


def watched(live: LivePages, key: str, make: module.Make = still) -> AsyncIterator[bytes]:
    return live.stream(key, make, who="ada").body_iterator  # type: ignore[return-value]


async def told(stream: AsyncIterator[bytes]) -> bytes:
    return await asyncio.wait_for(anext(stream), 5)


async def test_whoever_leaves_before_anything_was_told_is_not_counted_any_more(
    live: LivePages,
) -> None:
    stream = watched(live, "today")
    assert await told(stream) == RETRY
    assert live.streams == 1
    await stream.aclose()  # type: ignore[attr-defined]
    assert live.streams == 0


async def test_whoever_comes_later_is_shown_what_others_were_told_before(live: LivePages) -> None:
    first, second = watched(live, "today"), watched(live, "today")
    assert [await told(first), b"as it was" in await told(first)] == [RETRY, True]
    assert [await told(second), b"as it was" in await told(second)] == [RETRY, True]


async def test_a_page_that_cannot_be_made_stops_no_other(live: LivePages) -> None:
    reported: list[str] = []
    asyncio.get_running_loop().set_exception_handler(
        lambda _, context: reported.append(repr(context["exception"]))
    )
    rounds: Iterator[int] = count()

    async def broken() -> str:
        raise ZeroDivisionError

    async def counting() -> str:
        return str(next(rounds))

    streams = watched(live, "broken", broken), watched(live, "counting", counting)
    assert [await told(stream) for stream in streams] == [RETRY, RETRY]
    assert [(await told(streams[1])).endswith(event(str(n))) for n in range(3)] == [True] * 3
    assert reported == ["ZeroDivisionError()"]


async def test_nobody_opens_so_many_streams_that_others_cannot(live: LivePages) -> None:
    streams = [watched(live, str(number)) for number in range(module.MOST_OF_ONE)]
    for stream in streams:
        assert await told(stream) == RETRY
    with pytest.raises(TooManyStreams, match="ada has 100 streams open"):
        live.check_room("ada")
    live.check_room("bob")
    await streams.pop().aclose()  # type: ignore[attr-defined]
    live.check_room("ada")
    for stream in streams:
        await stream.aclose()  # type: ignore[attr-defined]
