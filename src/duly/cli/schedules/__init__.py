"""The command group ``duly schedules``, with its commands."""

import click

from duly.cli.formats import FilteredNounGroup
from duly.cli.schedules.control import (
    backfill,
    pause,
    remove,
    resume,
    rewind,
    run_command,
    skip_next,
    take_back,
)
from duly.cli.schedules.display import history, list_command, show
from duly.cli.schedules.editing import add, edit
from duly.cli.schedules.simulating import simulate


@click.group(cls=FilteredNounGroup)
def schedules() -> None:
    """List the schedules; show, change, run, pause or remove one by its name.

    FILTER is one or more of these words, all of which must match, and text that is searched for in
    the name and title:

    \b
      state:active,paused,faulty  task:send  queue:mail  owner:code,file,api,person  tag:nightly
      start:clock,event  text:"any: text"

    \b
      duly schedules                              NEXT IN LAST AGO OUTCOME SCHEDULE
      duly schedules state:paused backup          those of backups that are paused
      duly schedules -o wide --utc                RULE ZONE TASK OWNER, too
      duly schedules show nightly
      duly schedules add "02:30 Europe/Berlin" --name backup -- /srv/backup --full
      duly schedules edit nightly --rule "Mon..Fri 03:00" --overlap queue_one
      duly schedules pause nightly --until 2h --note "the disk is full"
      duly schedules skip-next nightly
      duly schedules history nightly --since 7d
      duly schedules simulate nightly --runtime 40m --outage 01:00..05:30
      duly schedules backfill nightly --from 2026-11-01 --to 2026-11-08 --dry-run

    Changes are recorded under your login name. Options such as --store and -o come after the verb:
    see duly schedules list --help.

    \b
    Exit codes: 0 success, 1 something needs attention, 2 invalid usage, 3 no such schedule, 5 the
    database cannot be reached.
    """


for _verb in (
    list_command,
    show,
    add,
    edit,
    run_command,
    pause,
    resume,
    skip_next,
    rewind,
    history,
    backfill,
    simulate,
    take_back,
    remove,
):
    schedules.add_command(_verb)
