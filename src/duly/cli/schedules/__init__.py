"""``duly schedules``: list, show, change and simulate schedules."""

from duly.cli.schedules.noun import schedules

__all__ = ["schedules"]
