"""The command's front door: which commands there are, and what every one of them shares."""

import click

from duly import __version__
from duly.cli.database import db
from duly.cli.queues import queues
from duly.cli.rules import next_moments
from duly.cli.worker import worker
from duly.cli.workers import workers


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "-V", "--version", message="duly %(version)s")
def main() -> None:
    """Time-based work, duly done.

    \b
    Start  duly worker [APP]  run jobs
    Ask    duly next RULE     when a rule is due, in words and in moments
    Do     duly workers       who runs jobs: list, drain, resume, scale, stop
           duly queues        lines of jobs: list, pause, resume, set
    Keep   duly db migrate    make the tables, or bring them up to date
           duly db check      whether they fit, and what is due and not done

    Each command explains itself: duly COMMAND --help.

    \b
    Exit codes: 0 ok, 1 something needs you, 2 something in the command line is wrong,
    3 what was named is not there, 5 the store cannot be reached.
    """  # noqa: D301 - \b is click's mark for lines to be left as they are


main.add_command(next_moments)
main.add_command(db)
main.add_command(worker)
main.add_command(workers)
main.add_command(queues)
