"""Rules for tests that look at a real clock: whose next moment does not come while they look."""

from datetime import timedelta

from duly.clock import now


def every_hour(*, next_in: int) -> str:
    """Every hour for years already, and next in so many minutes, or a little less."""
    minute = now().replace(second=0, microsecond=0)
    anchor = minute + timedelta(minutes=next_in) - timedelta(days=1_000)
    return f"every 1h from {anchor:%Y-%m-%dT%H:%MZ}"
