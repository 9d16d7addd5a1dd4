"""``duly events``: what happened, what came of it, and what is said to have happened now."""

from duly.cli.events.noun import events

__all__ = ["events"]
