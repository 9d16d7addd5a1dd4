"""``manage.py duly``: every command of duly, on the tasks and the database of the project.

manage.py duly up                      scheduler, worker and dashboard
manage.py duly worker --queues mail    a worker; --scheduler fires schedules as well
manage.py duly jobs list               and so on: manage.py duly --help
"""

import os
from collections.abc import Sequence

from django.core.management.base import BaseCommand

from duly.cli.main import main
from duly.django.app import TARGET


class Command(BaseCommand):
    help = "Run a command of duly."

    def run_from_argv(self, argv: Sequence[str]) -> None:
        """Pass the arguments to duly, which has its own options and its own help."""
        os.environ.setdefault("DULY_APP", TARGET)
        main(args=list(argv[2:]), prog_name="manage.py duly")
