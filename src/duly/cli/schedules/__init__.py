"""``duly schedules``: what is to run when, and what became of it."""

from duly.cli.schedules.noun import schedules

__all__ = ["schedules"]
