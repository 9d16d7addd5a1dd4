"""A reminder that moves when the class does, and goes when the class does.

A key is held by one unfinished job of the task. Who enqueues with the same key again moves that
job, and gives it the new arguments (``if_exists="replace"``, the default).
"""

from datetime import datetime, timedelta

from duly import Duly

duly = Duly()


@duly.task(title="remind class {class_id}")
async def remind(class_id: int, room: str) -> str:
    return f"class {class_id} is tomorrow, in {room}"


def plan(class_id: int, room: str, starts_at: datetime) -> None:
    """Called when a class is made, and again whenever it is moved."""
    day_before = starts_at - timedelta(hours=24)
    # A class that begins in three hours needs no reminder of tomorrow.
    later = remind.using(key=f"class:{class_id}", run_after=day_before, start_within="12h")
    later.enqueue(class_id, room)


def call_off(class_id: int) -> bool:
    return remind.cancel(key=f"class:{class_id}")
