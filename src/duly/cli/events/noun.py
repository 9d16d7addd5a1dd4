"""The noun ``events``, and its verbs."""

import click

from duly.cli.events.looking import list_command, show_command
from duly.cli.events.saying import emit_command, replay_command
from duly.cli.formats import NounGroup


@click.group(cls=NounGroup)
def events() -> None:
    """List what happened, say that something has, or let a schedule react to what happened.

    An event is a named fact. What starts because of it has @duly.on above it in code, or a
    schedule whose rule is as "on invoice.*".

    \b
      duly events                                    the newest
      duly events list "class.*" --since 2d
      duly events show 1002                          what came of one
      duly events emit doc.changed doc_id=7
      duly events emit order.approved --key A7 --json '{"by": "ada"}'
      duly events replay reindex --since 2d --dry-run

    \b
    Exit codes: 0 ok, 1 it was not done, 2 something in the command line is wrong, 3 there is no
    such event or schedule, 5 the store cannot be reached.
    """  # noqa: D301 - \b is click's mark for lines to be left as they are


for _verb in (list_command, show_command, emit_command, replay_command):
    events.add_command(_verb)
