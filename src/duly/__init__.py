"""Schedules and background jobs for Python that survive crashes, deploys and clock changes."""

from duly.errors import DulyError, RuleError

__version__ = "0.1.0"

__all__ = ["DulyError", "RuleError", "__version__"]
