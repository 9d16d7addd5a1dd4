"""Jobs are found by what they have in common, whether they live, have ended or have failed."""

from typing import Any

from duly.errors import NotFound
from duly.model.job import JobRequest
from duly.model.job_filter import EVERYTHING, Filter, parse_filter
from duly.model.outcome import Outcome, Raised
from duly.model.states import State
from duly.store.job_search import LONGEST_TAIL
from tests.conformance.expect import equal, refused
from tests.conformance.registry import check
from tests.conformance.world import HOUR, MINUTE, World
from tests.factories import call, distinct_call, plan

OOPS = Raised("Oops")


async def found(world: World, text: str, **page: Any) -> list[int]:
    """Find, and see that as many are counted."""
    wanted = parse_filter(text)
    numbers = [job.id for job in (await world.store.jobs.find(wanted, **page)).jobs]
    if not page:
        equal(await world.store.jobs.count(wanted), len(numbers), "as many as are counted")
    return numbers


async def ended(world: World, one: JobRequest, outcome: Outcome | None = None) -> int:
    number = await world.enqueue(one)
    [job] = await world.claim(1, queue=one.queue, tasks=[one.task])
    equal(job.id, number)
    await world.end(job, outcome)
    return number


async def one_of_each(world: World, **said: Any) -> dict[State, int]:
    """A job in each state, but for one that is blocked."""
    numbers = {
        State.SUCCEEDED: await ended(world, call(**said)),
        State.FAILED: await ended(world, call(**said), OOPS),
        State.CANCELLED: await world.enqueue(call(**said)),
    }
    await world.store.jobs.cancel(numbers[State.CANCELLED])
    late = call(start_within=MINUTE, **said)
    numbers[State.EXPIRED] = await world.enqueue(late)
    world.wait(2 * MINUTE)
    await world.dispatch()
    numbers[State.RUNNING] = await world.enqueue(call(**said))
    await world.claim(1, queue=said.get("queue", "default"), tasks=[said.get("task", "work")])
    numbers[State.SCHEDULED] = await world.enqueue(call(run_after=HOUR, **said))
    numbers[State.READY] = await world.enqueue(call(**said))
    return numbers


@check
async def jobs_are_found_by_each_state_and_by_several(world: World) -> None:
    numbers = await one_of_each(world)
    for state, number in numbers.items():
        equal(await found(world, f"state:{state}"), [number], state)
    several = [State.SUCCEEDED, State.FAILED, State.RUNNING]
    expected = sorted((numbers[state] for state in several), reverse=True)
    equal(await found(world, f"state:{','.join(several)}"), expected)
    equal(await found(world, "state:blocked"), [])


@check
async def all_are_found_what_lives_by_its_number_first(world: World) -> None:
    numbers = await one_of_each(world)
    page = await world.store.jobs.find(EVERYTHING)
    jobs = page.jobs
    equal((page.after, page.searched_to), (None, None))
    equal([job.id for job in jobs], sorted(numbers.values(), reverse=True))
    equal({job.id: job for job in jobs}, {job.id: await world.job(job.id) for job in jobs})


@check
async def a_found_job_is_the_one_that_was_promised(world: World) -> None:
    number = await world.enqueue(distinct_call())
    for text in ("", "task:'the task' queue:'the queue' tenant:'the tenant' key:'the key'"):
        page = await world.store.jobs.find(parse_filter(text))
        equal(page.jobs, [await world.job(number)])


@check
async def jobs_are_found_by_queue_task_tenant_and_key_in_every_state(world: World) -> None:
    await one_of_each(world)
    for word in ("queue", "tenant"):
        await world.claim(9)
        numbers = await one_of_each(world, **{word: "one of a kind"})
        expected = sorted(numbers.values(), reverse=True)
        equal(await found(world, f'{word}:"one of a kind"'), expected, word)
        equal(await found(world, f"{word}:one"), [], "the whole of it")
    await world.claim(9)
    numbers = await one_of_each(world, task="the task")
    equal(await found(world, "task:'the task'"), sorted(numbers.values(), reverse=True))
    await world.claim(9)
    keyed = [await ended(world, call(key="k")), await ended(world, call(key="k"), OOPS)]
    keyed.append(await world.enqueue(call(key="k", run_after=HOUR)))
    equal(await found(world, "key:k"), keyed[::-1])


@check
async def words_are_all_meant_at_once(world: World) -> None:
    await world.enqueue(call(queue="mail"), call(tenant="acme"))
    both = await world.enqueue(call(queue="mail", tenant="acme"))
    equal(await found(world, "queue:mail tenant:acme"), [both])
    equal(await found(world, "queue:mail tenant:acme state:failed"), [])
    equal(await found(world, 'queue:mail tenant:""'), [both - 2])


@check
async def jobs_are_found_by_all_of_their_tags(world: World) -> None:
    numbers = await one_of_each(world, tags=("nightly", 'the "big" one'))
    await world.claim(9)
    await one_of_each(world, tags=("night",))
    expected = sorted(numbers.values(), reverse=True)
    equal(await found(world, "tag:nightly"), expected)
    equal(await found(world, """tag:nightly tag:'the "big" one'"""), expected)
    equal(await found(world, "tag:nightly tag:night"), [])
    equal(await found(world, "tag:big"), [])


@check
async def a_star_stands_for_anything_in_a_name(world: World) -> None:
    names = ("send_mail", "send", "resend", "Send", "s%nd_", "a*b", "a[b?", "a\\b", "")
    numbers = {name: await world.enqueue(call("work", tenant=name)) for name in names}
    for pattern, fitting in (
        ("send*", ["send_mail", "send"]),
        ("*send", ["send", "resend"]),
        ("*end*", ["send_mail", "send", "resend", "Send"]),
        ("s*d", ["send"]),
        ("s%*", ["s%nd_"]),
        ("*d_*", ["send_mail", "s%nd_"]),
        ("s_n*", []),
        ("*[*", ["a[b?"]),
        ("*?", ["a[b?"]),
        ("s?n*", []),
        ("*\\\\*".replace("\\\\", "\\"), ["a\\b"]),
        ("*", list(names)),
        ('"a*b"', ["a*b"]),
        ("a*b", ["a*b", "a\\b"]),
    ):
        expected = sorted((numbers[name] for name in fitting), reverse=True)
        equal(await found(world, f"tenant:{pattern}"), expected, pattern)


@check
async def names_with_stars_are_those_of_tasks_queues_tenants_and_keys(world: World) -> None:
    for word in ("task", "queue", "tenant", "key"):
        named = {word: "one [of] a_kind?"}
        numbers = [await ended(world, call(**named), outcome) for outcome in (None, OOPS)]
        numbers.append(await world.enqueue(call(run_after=HOUR, **named)))
        equal(await found(world, f"{word}:one*[of]*a_kind?"), numbers[::-1], word)
        for other in ("*kin", "*[of]]*", "*kin__", "one*of?*", "*%_kind*", "ONE*"):
            equal(await found(world, f"{word}:{other}"), [], f"{word}:{other}")


@check
async def what_failed_is_told_in_short_the_newest_first(world: World) -> None:
    raised = Raised("TimeoutError", "too late", "x" * 1_000 + "\nTimeoutError: too late")
    first = await ended(world, call("send", queue="mail"), raised)
    world.wait(MINUTE)
    second = await ended(world, call(), OOPS)
    await ended(world, call())
    await world.enqueue(call())
    newest, oldest = await world.store.jobs.failures(EVERYTHING)
    equal((newest.id, newest.task, newest.error), (second, "work", "Oops"))
    equal((oldest.id, oldest.task, oldest.queue), (first, "send", "mail"))
    job = await world.job(first)
    equal((oldest.ended_at, oldest.reason), (job.ended_at, job.reason))
    equal(oldest.error, ("x" * 400 + "\nTimeoutError: too late")[-LONGEST_TAIL:])
    equal(await world.store.jobs.failures(EVERYTHING, limit=1), [newest])
    equal(await world.store.jobs.failures(parse_filter("error~TOO queue:m*")), [oldest])
    equal(await world.store.jobs.failures(parse_filter("state:succeeded")), [])


@check
async def an_error_is_found_by_a_part_of_it_and_never_by_a_pattern(world: World) -> None:
    raised = Raised("TimeoutError", "100% of_it gone", "line 7\nin Größe")
    number = await ended(world, call(), raised)
    await ended(world, call(), OOPS)
    waiting = await ended(world, call(), OOPS)
    await world.by("somebody called timeouterror").jobs.retry(waiting)
    for part in ("100% OF_IT", "IN Größe"):
        equal(await found(world, f'error:"{part}"'), [number], part)
        equal(await found(world, f'error~"{part}"'), [number], part)
    equal(await found(world, "error:timeouterror state:failed"), [number])
    for pattern in ("1_0", "%gone", "time.*out", "nothing"):
        equal(await found(world, f'error:"{pattern}"'), [], pattern)
    equal(await found(world, "error:timeouterror"), [waiting, number], "the reason counts, too")


@check
async def a_text_is_found_in_what_a_job_says_about_itself(world: World) -> None:
    numbers = [
        await ended(world, call("the task"), OOPS),
        await ended(world, call(title="Invoice of Ada")),
        await world.enqueue(call(key="invoice-7", run_after=HOUR)),
        await ended(world, call(), Raised("KeyError", "no invoice of ada", "in line 7")),
    ]
    task, title, key, error = numbers
    equal(await found(world, "INVOICE"), [key, error, title])
    equal(await found(world, "invoice ada"), [error, title], "each of the texts")
    equal(await found(world, '"ada invoice"'), [])
    equal(await found(world, '"the task"'), [task])
    for part in ("keyerror", '"LINE 7"'):
        equal(await found(world, part), [error])
    for pattern in ("in%ice", "invoice_7", "inv.ice"):
        equal(await found(world, pattern), [], pattern)


@check
async def since_and_before_are_about_the_end_or_else_the_beginning(world: World) -> None:
    early = await world.enqueue(call())
    living = await world.enqueue(call("the task"))
    failing = await world.enqueue(call())
    world.wait(HOUR)
    noon = world.now
    for number, outcome in ((early, None), (failing, OOPS)):
        [job] = await world.claim(1, tasks=["work"])
        equal(job.id, number)
        await world.end(job, outcome)
    world.wait(HOUR)
    late = await world.enqueue(call())
    equal(await found(world, "since:90m"), [late, failing, early])
    equal(await found(world, "before:90m"), [living])
    equal(await found(world, "since:60m before:59m"), [failing, early])
    equal(await found(world, "since:59m"), [late])
    equal(await found(world, f"since:{noon.isoformat()} state:succeeded"), [early])
    equal(await found(world, f"before:{noon.isoformat()}"), [living])


@check
async def jobs_are_found_by_the_name_of_their_schedule(world: World) -> None:
    await world.add(plan("report", overlap="queue_all"), plan("other"))
    await world.enqueue(call())
    for outcome in (None, OOPS, None):
        await world.fire_after(MINUTE)
        for job in await world.claim(2):
            await world.end(job, outcome)
    await world.fire_after(MINUTE)
    jobs = (await world.store.jobs.find(Filter(schedule="report"))).jobs
    ours = {fire.job_id for fire in await world.fires("report")}
    equal({job.id for job in jobs}, ours)
    equal(await found(world, "schedule:report state:failed"), [jobs[2].id])
    equal(await found(world, "schedule:report state:ready"), [jobs[0].id])
    number = jobs[0].schedule_id or 0
    equal(await world.store.jobs.schedule_names([number]), {number: "report"})


@check
async def jobs_of_a_schedule_that_is_gone_are_found_by_its_name(world: World) -> None:
    await world.add(plan())
    await world.fire_after(MINUTE)
    job = await world.begin()
    await world.end(job)
    await world.store.schedules.remove("report")
    equal(await found(world, "schedule:report"), [job.id])
    equal(await world.store.jobs.schedule_names([job.schedule_id or 0]), {})


@check
async def a_schedule_that_never_was_is_said_to_be_unknown(world: World) -> None:
    await world.add(plan())
    for ask in (world.store.jobs.find, world.store.jobs.count):
        with refused(NotFound, 'there is no schedule "reprot"; did you mean "report"?'):
            await ask(Filter(schedule="reprot"))


@check
async def counting_stops_where_it_is_enough(world: World) -> None:
    await world.store.jobs.enqueue([call() for _ in range(6)])
    for job in await world.claim(2):
        await world.end(job, OOPS)
    equal(await world.store.jobs.count(EVERYTHING), 6)
    equal(await world.store.jobs.count(EVERYTHING, at_most=5), 5)
    equal(await world.store.jobs.count(EVERYTHING, at_most=3), 3)
