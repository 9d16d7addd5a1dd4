"""What a job has said, line by line; and what it says, while it says it."""

from typing import TYPE_CHECKING, Final

import click

from duly.cli.formats import View
from duly.clock import sleep
from duly.model.states import ENDED
from duly.policy.printable import one_line

if TYPE_CHECKING:
    from duly.app import Store

LOOK: Final = 0.25  # seconds between two looks at a log that is followed
LINES: Final = 1_000


async def print_log(store: "Store", number: int, *, follow: bool, view: View) -> None:
    last = 0
    while True:
        # Looked at first: what a job says, it says before its end.
        over = (await store.jobs.get(number)).state in ENDED
        lines = await store.journal.logs(number, after=last, limit=LINES)
        for line in lines:
            click.echo(f"{view.moment(line.at)} {line.level:<7} {one_line(line.text, tabs=True)}")
            last = line.seq
        if len(lines) < LINES:
            if over or not follow:
                break
            await sleep(LOOK)
    if not last:
        click.echo(f"job {number} has said nothing", err=True)
