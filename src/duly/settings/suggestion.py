"""What was probably meant by a name that there is not."""

from collections.abc import Collection, Iterable

# What other programs, or other parts of this one, call it.
_ELSEWHERE = {
    "store": "url",
    "database": "url",
    "database_url": "url",
    "timezone": "zone",
    "tz": "zone",
    "workers": "processes",
    "slots": "concurrency",
    "bind": "host",
    "networks": "allow_networks",
    "retention": "keep_history",
    "keep": "keep_history",
    "schedules": "schedules_file",
    "schedule_file": "schedules_file",
}


def refusal(unknown: Iterable[str], known: Collection[str], *, place: str, prefix: str = "") -> str:
    """What to say of names that are no settings, all of them at once.

    What all names begin with is no likeness, and left out when they are compared.
    """
    bare = {name.removeprefix(prefix).lower(): name for name in known}
    near = {name: meant(name.removeprefix(prefix), bare) for name in unknown}
    told = [f"{name} (did you mean {bare[one]}?)" if one else name for name, one in near.items()]
    there = "" if all(near.values()) else f"; there are {', '.join(known)}"
    return f"{place}: no setting is called {', '.join(told)}{there}"


def meant(name: str, known: Collection[str]) -> str | None:
    """The known name that is nearest, or what goes by that name elsewhere."""
    from difflib import get_close_matches  # noqa: PLC0415 - only who misspells waits for it

    plain = name.lower()
    for same in (plain, _ELSEWHERE.get(plain)):
        if same in known:
            return same
    near = get_close_matches(plain, known, n=1)
    return near[0] if near else None
