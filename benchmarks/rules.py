"""How long a rule takes to say when it is next due, beside croniter, cronsim and APScheduler.

Every contender answers the same question for the same line from the same base; one whose answer is
another is not timed. Timed is the answer alone, with the line already read. The best of several
rounds counts, since noise only ever adds. ``make bench ARGS=rules``.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from statistics import median
from time import perf_counter
from zoneinfo import ZoneInfo

from apscheduler.triggers.cron import CronTrigger
from croniter import croniter
from cronsim import CronSim

from duly.rules import Rule, calendar, cron, parse

ZONE = "Europe/Berlin"
BASE = datetime(2026, 11, 15, 10, 7, 3, tzinfo=ZoneInfo(ZONE))
BASE_UTC = BASE.astimezone(UTC)
ROUNDS, CALLS = 7, 200

TYPICAL = (
    "* * * * *",
    "*/5 * * * *",
    "0 * * * *",
    "30 2 * * *",
    "0 9 * * 1-5",
    "0 0 1 * *",
    "15,45 8-18 * * 1-5",
    "0 0 * * 0",
    "0 4 1 1 *",
    "*/15 9-17 * * *",
    "0 0 1,15 * *",
    "5 4 * * sun",
    "0 22 * * 1-5",
    "23 0-20/2 * * *",
    "0 0,12 1 */2 *",
    "0 6 * * 1",
    "59 23 31 12 *",
    "0 3 * * *",
    "*/10 0-6 * * *",
    "0 12 14 2 *",
)

HOSTILE = (
    "0 0 29 2 1",
    "0 0 29 2 */7",
    "*-02-29 00:00",
    "Mon *-02-29",
    "2199-12-31",
    "Sun *-03~01..07 02:30 Europe/Berlin dst=systemd",
)


def main() -> None:
    rows = [measured(line) for line in TYPICAL]
    print(f"next moment, µs a call, {ZONE} (best of {ROUNDS})\n")
    print(f"{'':24}{'duly':>8}{'cronsim':>9}{'croniter':>10}{'APScheduler':>13}")
    for line, times in zip(TYPICAL, rows, strict=True):
        shown = (f"{time:.1f}" if time else "differs" for time in times)
        print("{:24}{:>8}{:>9}{:>10}{:>13}".format(line, *shown))
    ours, *peers = (median(filter(None, column)) for column in zip(*rows, strict=True))
    print("{:24}{:8.1f}{:9.1f}{:10.1f}{:13.1f}".format("median", ours, *peers))
    print("{:24}{:8}{:8.1f}x{:9.1f}x{:12.1f}x".format("ratio", "", *(p / ours for p in peers)))
    others()
    hostile()


def measured(line: str) -> tuple[float, ...]:
    """Our time and each peer's; 0 for a peer whose answer is not ours."""
    rule = cron(line, zone=ZONE)
    answer = rule.after(BASE_UTC)
    trigger = CronTrigger.from_crontab(line, timezone=ZONE)
    peers: list[Callable[[], datetime | None]] = [
        lambda: next(CronSim(line, BASE)),
        lambda: croniter(line, BASE).get_next(datetime),
        lambda: trigger.get_next_fire_time(None, BASE),
    ]
    readings: list[Callable[[], object] | None] = [
        lambda: CronSim(line, BASE),
        lambda: croniter(line, BASE),
        None,
    ]
    times = [best(lambda: rule.after(BASE_UTC))]
    for ask, read in zip(peers, readings, strict=True):
        right = ask() == answer
        times.append(best(ask) - (best(read) if read else 0) if right else 0)
    return tuple(times)


def others() -> None:
    rule = parse("0 9 * * 1-5 Europe/Berlin")
    assert isinstance(rule, Rule)
    seconds = cron("* * * * * *", zone=ZONE)
    year = BASE_UTC + timedelta(days=365)
    print("\nother questions, µs a call\n")
    for name, ask in {
        "at_or_before, weekdays at 09:00": lambda: rule.at_or_before(BASE_UTC),
        "count, a year of weekdays at 09:00": lambda: rule.count(BASE_UTC, year),
        "count, a year of seconds": lambda: seconds.count(BASE_UTC, year),
        "read a cron line": lambda: cron("0 9 * * 1-5", zone=ZONE),
        "read a calendar expression": lambda: calendar("Mon..Fri 09:00", zone=ZONE),
    }.items():
        print(f"{name:48}{best(ask):8.1f}")


def hostile() -> None:
    print("\nhostile rules, next moment, µs a call\n")
    for text in HOSTILE:
        rule = parse(text, zone="UTC")
        print(f"{text:48}{best(partial(rule.after, BASE_UTC)):8.1f}")


def best(ask: Callable[[], object]) -> float:
    ask()
    times = []
    for _ in range(ROUNDS):
        start = perf_counter()
        for _ in range(CALLS):
            ask()
        times.append((perf_counter() - start) / CALLS)
    return min(times) * 1_000_000
