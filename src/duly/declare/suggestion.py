"""What was meant by a word that is none of ours."""

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

# What people write who come from elsewhere.
_HABITS = {"cron": "rule", "schedule": "rule", "when": "rule", "tz": "zone", "timezone": "zone"} | {
    "cmd": "command", "script": "shell", "url": "http", "retry": "attempts", "retries": "attempts",
    "workdir": "cwd", "environment": "env", "enabled": "paused", "disabled": "paused",
    "max_concurrency": "concurrency", "policy": "choice",
}  # fmt: skip


def near(word: object, known: Mapping[str, Any] | tuple[str, ...]) -> str:
    """``; did you mean "skip"?``, if something is spelled alike."""
    asked = str(word).lower()
    habit = _HABITS.get(asked)
    found = [habit] if habit in known else get_close_matches(asked, known, n=1)
    return f'; did you mean "{found[0]}"?' if found else ""
