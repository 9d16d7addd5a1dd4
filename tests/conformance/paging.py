"""Jobs are found a page at a time: what lives, then what has ended, the last to end first.

However little a page looks at, all pages together are the same.
"""

from typing import Any

from duly.errors import InvalidValue
from duly.model.job_filter import EVERYTHING, parse_filter
from duly.store import job_search
from duly.store.job_search import Page
from tests.conformance.expect import equal, holds, refused
from tests.conformance.finding import OOPS, ended, found, one_of_each
from tests.conformance.registry import check
from tests.conformance.world import HOUR, MINUTE, World
from tests.factories import call, plan


async def looked(world: World, text: str, **page: Any) -> Page:
    """A page that looks at so many jobs."""
    asked = {"after": None, "limit": 100, **page}
    return await world.database.read(lambda: job_search.find(parse_filter(text), **asked))


async def turned(world: World, text: str, **page: Any) -> list[list[int]]:
    """The numbers on all pages; that they look at so many jobs makes them more, and no others."""
    pages = [await looked(world, text, **page)]
    while pages[-1].after is not None:
        holds(len(pages) < 100, "it comes to an end")
        pages.append(await looked(world, text, after=pages[-1].after, **page))
    return [[job.id for job in each.jobs] for each in pages]


@check
async def what_has_ended_comes_behind_the_last_to_end_first(world: World) -> None:
    first, second, third, waiting = await world.store.jobs.enqueue([call() for _ in range(4)])
    claimed = {job.id: job for job in await world.claim(3)}
    for number, outcome in ((third, None), (first, OOPS), (second, None)):
        world.wait(MINUTE)
        await world.end(claimed[number], outcome)
    newest = await world.enqueue(call())
    equal(await found(world, ""), [newest, waiting, second, first, third])
    equal(await found(world, "state:succeeded"), [second, third])


@check
async def pages_follow_one_another_through_all_tables(world: World) -> None:
    numbers: list[int] = []
    for _ in range(3):
        numbers += (await one_of_each(world)).values()
        await world.claim(9)
    whole = await found(world, "")
    equal(sorted(whole), sorted(numbers))
    for limit in (1, 4, len(numbers)):
        pages = await turned(world, "", limit=limit)
        equal([len(page) for page in pages[:-1]], [limit] * (len(pages) - 1))
        equal([number for page in pages for number in page], whole, f"{limit} a page")


@check
async def many_that_end_at_one_moment_are_seen_once_each(world: World) -> None:
    await world.store.jobs.enqueue([call() for _ in range(12)])
    for job in await world.claim(12):
        await world.end(job, OOPS if job.id % 3 else None)
    whole = await found(world, "")
    equal(whole, sorted(whole, reverse=True))
    for examined in (1, 2, 5, 100):
        pages = await turned(world, "", limit=5, examined=examined)
        equal([number for page in pages for number in page], whole, f"examined={examined}")


@check
async def a_job_that_ends_between_two_pages_is_not_missed(world: World) -> None:
    numbers = await world.store.jobs.enqueue([call() for _ in range(4)])
    first = await world.store.jobs.find(EVERYTHING, limit=2)
    equal([job.id for job in first.jobs], numbers[:1:-1])
    for job in await world.claim(4):
        await world.end(job)
    rest = await found(world, "", after=first.after, limit=4)
    equal(rest, numbers[::-1], "the others, and those that ended again")


@check
async def a_page_looks_at_so_many_jobs_and_says_how_far_it_came(world: World) -> None:
    rare = [await world.enqueue(call("rare", run_after=HOUR))]
    await world.store.jobs.enqueue([call() for _ in range(7)])
    for number in (0, 1, 2, 3):
        rare.append(await ended(world, call("rare"), OOPS if number % 2 else None))
        world.wait(MINUTE)
        for _ in range(4):
            await ended(world, call("often"), OOPS if number % 2 else None)
            world.wait(MINUTE)
    first = await looked(world, "task:rare", examined=3)
    equal((list(first.jobs), first.searched_to), ([], None), "it is still among what lives")
    ending = await looked(world, "task:rare state:succeeded,failed", examined=3)
    holds(ending.searched_to, "it says how far it came")
    holds(len(ending.jobs) < 4 and ending.after, "it has not looked at everything")
    whole = [rare[0], *rare[:0:-1]]
    for examined in (1, 3, 7, 100):
        for limit in (1, 2, 9):
            pages = await turned(world, "task:rare", limit=limit, examined=examined)
            equal([number for page in pages for number in page], whole, f"{examined}, {limit}")
    nothing = await turned(world, "task:nothing", limit=9, examined=3)
    holds(len(nothing) > 5, "it took several pages")
    equal([number for page in nothing for number in page], [])
    lately = await turned(world, "task:rare since:7m", limit=9, examined=3)
    equal([number for page in lately for number in page], [rare[4]])


@check
async def pages_of_a_schedule_are_as_bounded(world: World) -> None:
    await world.add(plan("report", overlap="queue_all"), plan("other", overlap="queue_all"))
    for number in range(6):
        await world.fire_after(MINUTE)
        for job in await world.claim(2):
            await world.end(job, OOPS if number == 2 else None)
    whole = await found(world, "schedule:report")
    equal(len(whole), 6)
    for examined in (1, 2, 100):
        pages = await turned(world, "schedule:report", limit=2, examined=examined)
        equal([number for page in pages for number in page], whole, f"examined={examined}")


@check
async def a_place_that_no_page_gave_is_refused(world: World) -> None:
    wrong = (
        "",
        "7",
        "l.",
        "l.x",
        "e.7",
        "l.7.7",
        "e.7.7.7",
        "l.-1",
        f"l.{2**63}",
        "l.٣",
        7,
        b"l.7",
    )
    for after in wrong:
        with refused(InvalidValue, f"after={after!r}: not a cursor of jobs"):
            await world.store.jobs.find(EVERYTHING, after=after)  # type: ignore[arg-type]


@check
async def a_page_has_a_size(world: World) -> None:
    for wrong in (0, -1, 10_001, True):
        with refused(InvalidValue, f"limit={wrong!r}"):
            await world.store.jobs.find(EVERYTHING, limit=wrong)
        with refused(InvalidValue, f"at_most={wrong!r}"):
            await world.store.jobs.count(EVERYTHING, at_most=wrong)
