"""The only place that reads the time of day.

Everything else takes the moment as an argument, so that a test can choose it.
"""

from datetime import UTC, datetime


def now() -> datetime:
    return datetime.now(UTC)
