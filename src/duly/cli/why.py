"""``duly why``: the reason in one sentence, then the evidence, then commands that help."""

from typing import TYPE_CHECKING

import click

from duly.cli.formats import view_as_dict
from duly.cli.store import ask, output_option, store_option
from duly.errors import NotFound
from duly.policy.printable import json_text

if TYPE_CHECKING:
    from duly.app import Store
    from duly.views.why import WhyView


@click.command("why")
@click.argument("what", metavar="SCHEDULE|JOB")
@click.argument("time", metavar="[TIME]", nargs=-1)
@store_option
@output_option
def why(what: str, time: tuple[str, ...], store: str, output: str) -> None:
    """Say why a schedule did or did not run, or where a job is.

    \b
      duly why nightly_report                      the last time it was due
      duly why nightly_report 02:00                the last 02:00 on the schedule's own clock
      duly why nightly_report Thu 02:00
      duly why nightly_report 2026-11-13 02:00
      duly why 1042                                a job, by its number

    \b
    Exit codes: 0 ok, 2 a time that cannot be read, 3 no such schedule or job,
    5 the store cannot be reached.
    """  # noqa: D301 - \b is click's mark for lines to be left as they are
    answer = ask(store, lambda there: _answer(there, what, " ".join(time) or None))
    click.echo(json_text(view_as_dict(answer)) if output == "json" else str(answer))


async def _answer(store: "Store", what: str, time: str | None) -> "WhyView":
    from duly.views.why import answer_job, answer_schedule

    if not (what.isascii() and what.isdigit()) or time is not None:
        return await answer_schedule(store, what, time)
    try:  # the name of a schedule may be a number, too
        return await answer_schedule(store, what)
    except NotFound:
        return await answer_job(store, int(what))
