"""A learning platform on one virtual clock: reminders that move and go, reports, and an outage.

    python examples/learning_platform.py

A reminder is due a day before each class: it moves when the class is moved, and is withdrawn when
the class is cancelled. Instructors get a report every night. Old recordings are cleaned up on
Sundays, which may be late, but must not silently stop. In the night to Sunday nobody runs the
schedules. What became of everything is printed at the end, and the answer to one "why?".
"""

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo

from duly import Duly
from duly.testing import Sandbox

BERLIN = ZoneInfo("Europe/Berlin")
MONDAY = datetime(2027, 1, 4, 8, tzinfo=BERLIN)
SUNDAY = datetime(2027, 1, 10, 2, tzinfo=BERLIN)  # when the report was due that was not sent

duly = Duly(zone="Europe/Berlin")
sent: list[str] = []  # what a mail server would have been given


@duly.on(
    "class.scheduled",
    key="class:{class_id}",
    run_after="-24h from starts_at",
    unless="class.cancelled",
    start_within="20h",  # after that, four hours are left, and nobody needs to be told
)
@duly.task
def remind(class_id: int) -> None:
    sent.append(f"class {class_id}")


@duly.task
def instructors() -> list[str]:
    return ["ada", "grace"]


@duly.task
def lessons(instructor: str, day: date) -> int:
    return len(instructor) + day.day


@duly.task
def mail_reports(counts: Sequence[int], day: date) -> None:
    sent.append(f"{len(counts)} reports for {day}")


@duly.task
def yesterday() -> date:
    return duly.current().due_at.astimezone(BERLIN).date() - timedelta(days=1)


@duly.schedule("02:00", start_within="4h")
@duly.flow
def instructor_report() -> None:
    day = yesterday.step()
    counts = lessons.map(instructors.step().result, day=day.result)
    mail_reports.step(counts.result, day.result)


@duly.schedule("Sun 03:00", missed="latest", start_within="1h", late="run")
@duly.task
def clean_up() -> None:
    sent.append("old recordings are gone")


def schedule_class(class_id: int, starts_at: datetime) -> None:
    """Also when it is moved: what holds for the class is what was said last."""
    duly.emit("class.scheduled", {"class_id": class_id, "starts_at": starts_at})


def main() -> None:
    with Sandbox(duly, now=MONDAY) as box:
        schedule_class(1, MONDAY + timedelta(days=2, hours=2))  # Wednesday 10:00
        schedule_class(2, MONDAY + timedelta(days=3, hours=1))  # Thursday 09:00
        schedule_class(3, MONDAY + timedelta(days=6, hours=13))  # Sunday 21:00
        live(box, hours=4)
        schedule_class(1, MONDAY + timedelta(days=4))  # moved to Friday 08:00
        duly.emit("class.cancelled", {"class_id": 2})
        live(box, hours=5 * 24 + 8)  # until Saturday 20:00
        box.travel("13h", down=True)  # nobody runs the schedules until Sunday 09:00
        live(box, hours=24)
        tell()


def live(box: Sandbox, *, hours: int) -> None:
    """Let time pass, hour by hour, and run what comes due."""
    for _ in range(hours):
        box.run()
        box.travel("1h")
    box.run()


def tell() -> None:
    for name in ("remind", "instructor_report", "clean_up"):
        print(name)
        for fire in reversed(duly.schedules.history(name)):
            due = fire.due_at.astimezone(BERLIN)
            print(f"  {due:%a %H:%M}  {fire.outcome:8}{fire.reason}")
    print("sent")
    for what in sent:
        print(f"  {what}")
    print("why")
    print(duly.schedules.why("instructor_report", at=SUNDAY))


if __name__ == "__main__":
    main()
