"""A node sleeps past its lease and wakes up: what it then has to say about its jobs is refused."""

import signal
from pathlib import Path

from duly.clock import now, sleep
from tests.acceptance.fleet import Fleet, Member, calls, common, fleet, idle, until
from tests.acceptance.report import Report

ASLEEP = 5
FOREVER = 300.0


async def a_node_sleeps(
    url: str, folder: Path, *, lease: float = 10.0, asleep: float = 25.0
) -> Report:
    """A node is stopped with ten jobs; others begin them, and end most of them; then it goes on.

    Some of its jobs are threads that come to their end as soon as they are awake: their results are
    real, and late. The others are coroutines that would go on for ever, and have to be stopped.
    """
    report = Report()
    wanted = [
        *calls(3, "doze", seconds=lease / 2, again=0.1),
        *calls(2, "doze", seconds=lease / 2, again=3.0),  # others still run these when it wakes
        *calls(ASLEEP, "nap", seconds=FOREVER, again=0.1),
    ]
    async with fleet(url, folder, nodes=1, lease=lease) as (there, store):
        zombie = there.members[0]
        numbers = await store.jobs.enqueue(wanted)
        await until(lambda: there.count("begin") == len(numbers), seconds=30)
        zombie.send(signal.SIGSTOP)
        there.start()
        there.start()
        await sleep(asleep)
        await until(lambda: there.count("begin") == 2 * len(numbers), seconds=lease + 60)
        woken = now()
        zombie.send(signal.SIGCONT)
        await until(lambda: there.gone() or _refused(there, zombie) >= set(numbers), seconds=30)
        report.must(not there.gone(), "the node ended instead of stopping its jobs")
        await until(lambda: idle(store), seconds=30)
        stopped = [(line.at - woken).total_seconds() for line in there.lines("interrupted")]
        report.must(len(stopped) == ASLEEP, f"{len(stopped)} of {ASLEEP} coroutines were stopped")
        report.within(max(stopped, default=FOREVER), 2, "stopped after")
        _judge(there, zombie, set(numbers), report=report)
        return common(there, report)


def _judge(there: Fleet, zombie: Member, numbers: set[int], *, report: Report) -> None:
    ended = {line.job for line in there.lines("end") if line.member != zombie.number}
    twice, refused = there.completed_twice(), _refused(there, zombie)
    report.say(f"{len(ended)} of {len(numbers)} done by others, {len(twice)} completed twice")
    report.say(f"{there.count('refused')} writes refused")
    report.must(ended == numbers, f"not done by others: {sorted(numbers - ended)}")
    report.must(not twice, f"completed twice: {twice}")
    report.must(refused == numbers, f"written late, not refused: {sorted(numbers - refused)}")
    report.must(there.count("refused") == len(numbers), "others were refused, too")


def _refused(there: Fleet, member: Member) -> set[int]:
    return {line.job for line in there.lines("refused") if line.member == member.number}
