"""Mistakes of users that an editor must show, each marked with what mypy calls it.

Nothing here runs, and ``make check`` passes it over: ``test_types`` reads it.
"""

from datetime import date

import duly as package
from duly import Call, Duly, Job, Retry, Step

duly = Duly(zone="Europe/Berlin")


@duly.task
def rollup(region: str, *, deep: bool = False) -> int:
    return len(region) + deep


@duly.task
async def remind(class_id: int, *, tone: str = "kind") -> str:
    return f"{tone} {class_id}"


# Schedules: over a task with required arguments, over no task, with a word that is none.
@duly.schedule("03:00")  # error: type-var
@duly.task
def needs_argument(region: str) -> int:
    return len(region)


@duly.schedule("03:00")  # error: type-var
def no_task() -> None: ...


@duly.schedule("03:00", missed="none")  # error: call-overload, untyped-decorator
@duly.task
def wrong_word() -> None: ...


duly.schedule("03:00", rollup)  # error: arg-type
duly.schedule("03:00", rollup.bind())  # error: call-arg
duly.schedules.add("03:00", rollup, name="rollup")  # error: arg-type
duly.schedules.add("03:00", rollup.bind("eu"), name="rollup", if_exists="raise")  # error: arg-type

# Arguments: of the wrong type, of no such name, missing.
remind.enqueue("42")  # error: arg-type
remind.enqueue(42, tome="dry")  # error: call-arg
remind.enqueue()  # error: call-arg
rollup.bind("eu", deep="very")  # error: arg-type

# Choices: a number for a duration, another library's word, a word that is none.
remind.using(run_after=30)  # error: arg-type
remind.using(run_after=date(2027, 1, 4))  # error: arg-type
remind.using(queue_name="mail")  # error: call-arg
remind.using(delay="5m")  # error: call-arg
remind.using(priority="urgent")  # error: arg-type
remind.using(retry=5)  # error: arg-type
duly.task(timeout=30)  # error: call-overload
Retry(5)  # error: call-arg


# Callbacks: something that is no task, and a task that cannot be called with a number.
@duly.task(on_failure=rollup.bind)  # error: call-overload, untyped-decorator
def wrong_callback() -> None: ...


@duly.task(on_failure=rollup)  # error: arg-type
def callback_for_text() -> None: ...


# A context that is taken for another parameter.
@duly.task(takes_context=True)  # error: arg-type
def forgot_context(row: int) -> None: ...


# Results are not taken for something else.
job: Job[str] = rollup.enqueue("eu")  # error: assignment
call: Call[str] = rollup.bind("eu")  # error: assignment


async def not_awaited() -> int:
    return remind(42)  # error: return-value


# Flows: results of another type, items of another type, words that are none, no step returned.
@duly.task
def extract(day: date) -> list[str]:
    return [str(day)]


@duly.task
def load(rows: list[float]) -> float:
    return sum(rows)


@duly.schedule("02:00")  # error: type-var
@duly.flow
def needs_day(day: date) -> Step[float]:
    rows = extract.step(day)
    load.step(rows.result)  # error: arg-type
    remind.map(rows.result)  # error: arg-type
    remind.map([1, 2], tone=3)  # error: arg-type
    load.step()  # error: call-arg
    rows.when("any_succeeded")  # error: arg-type
    [load.step([1.0])] >> 5  # error: operator
    duly.wait_for("paid", timeout=5)  # error: arg-type
    return rows  # error: return-value


needs_day(date(2027, 1, 1))  # error: operator
duly.flow(retry=None)  # error: call-overload


@duly.flow  # error: arg-type
def no_step() -> int:
    return 5


# The package is not the app, and has the names that it has.
package.task(print)  # error: attr-defined
package.schedule("every 10s")  # error: attr-defined
package.Retries(attempts=5)  # error: attr-defined
