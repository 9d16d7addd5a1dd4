"""The keys of a file of schedules, each with the function that reads and checks its value.

Reading a file checks every key with it, a plan compares the values it returns ("90s" and "1m30s"
are equal), and applying an entry takes its policies from here.
"""

from collections.abc import Callable, Mapping
from dataclasses import fields
from datetime import datetime, timedelta
from difflib import get_close_matches
from functools import partial
from typing import Any, TypeAlias, get_args
from urllib.parse import urlsplit

from duly.durations import parse_duration
from duly.errors import DulyError, InvalidValue, RuleError
from duly.files.schedule_file import ScheduleEntry, shown
from duly.files.schedule_file import key as quoted
from duly.model.job import HIGHEST, LOWEST, MOST_TAGS, PRIORITIES
from duly.model.limit import MOST_AT_ONCE, Rate
from duly.model.payload import LONGEST_ARGS, Json, check_text, decode, encode
from duly.model.policies import LONGEST, Catchup, Missed, Policies, check_moment
from duly.model.policies import MOST_AT_ONCE as MOST_MISSED
from duly.model.schedule_fields import ScheduleField, fields_on
from duly.policy.redaction import hidden, hidden_url
from duly.policy.retry import MOST_ATTEMPTS, Retry
from duly.rules.rule_text import checked_zone
from duly.rules.zone import PRESETS, dst_policy

Reader: TypeAlias = Callable[[Any], object]

DEFAULTS: Mapping[str, Reader] = {"zone": checked_zone}
# Names that other programs use for these keys.
_HABITS = {"cron": "rule", "schedule": "rule", "when": "rule", "tz": "zone", "timezone": "zone"} | {
    "cmd": "command", "script": "shell", "url": "http", "retry": "attempts", "retries": "attempts",
    "workdir": "cwd", "environment": "env", "enabled": "paused", "disabled": "paused",
    "max_concurrency": "concurrency", "policy": "choice",
}  # fmt: skip


def policies(entry: ScheduleEntry) -> Policies:
    """Return the policies of a resolved entry (see ``ScheduleFile.resolved``)."""
    said: dict[str, Any] = {
        field.name: SCHEDULE[field.name](value)
        for field in fields(Policies)
        if field.name in SCHEDULE and (value := getattr(entry, field.name)) is not None
    }
    if entry.attempts is not None:
        said["retry"] = Retry(attempts=entry.attempts).as_json()
    return Policies(**said)


def meaning(readers: Mapping[str, Reader], key: str, value: object) -> object:
    """Return the value that a key means; a value that cannot be read is returned as it is."""
    try:
        return None if value is None else readers[key](value)
    except DulyError:
        return value


def text(found: object, *, longest: int = LONGEST_ARGS) -> str:
    if not isinstance(found, str):
        raise InvalidValue("it is text, in quotes")
    try:
        return check_text(found, "", longest=longest)
    except InvalidValue as error:
        raise InvalidValue(str(error).removeprefix(": ")) from None


def priority(found: object) -> int:
    if isinstance(found, str) and found in PRIORITIES:
        return PRIORITIES[found]
    if type(found) is not int or not LOWEST <= found <= HIGHEST:
        raise InvalidValue(
            f"{', '.join(PRIORITIES)}, or a whole number from {LOWEST} to {HIGHEST}, higher is "
            f"sooner{near(found, PRIORITIES) if isinstance(found, str) else ''}"
        )
    return found


def missed(found: object) -> Missed:
    if isinstance(found, str):
        return Missed(choice(found, of=get_args(Catchup)))
    said = inside(found, _MISSED, needs="choice")
    return Missed(said.pop("choice"), **said)


def http(found: object) -> Mapping[str, object]:
    """Return the table of a request, with defaults."""
    unsaid = {"method": "GET", "headers": {}, "expect": (), "timeout": timedelta(seconds=30)}
    return unsaid | inside(found, _HTTP, needs="url")


def arguments(found: object) -> Mapping[str, object]:
    """Return a table of arguments, given as a table or as JSON text, which can hold null."""
    if isinstance(found, str):
        try:
            found = decode(Json(found))
        except InvalidValue:  # its message repeats the text, which may hold a secret
            raise InvalidValue("it is not JSON; a table is as good: { customer = 7 }") from None
    if not isinstance(found, Mapping):
        raise InvalidValue("a table of arguments by name, as { customer = 7 }")
    encode(dict(found), what="args")
    return found


def choice(found: object, *, of: tuple[str, ...]) -> Any:  # noqa: ANN401 - one of the words of a Literal
    if found not in of:
        raise InvalidValue(f"one of {', '.join(of)}{near(found, of)}")
    return found


def length(found: object) -> timedelta:
    """Return a length of time above zero."""
    parsed = parse_duration(found)  # type: ignore[arg-type]  # it refuses other types
    if not timedelta() < parsed <= LONGEST:
        raise InvalidValue(f'more than 0s, up to {LONGEST.days:,} days; found "{found}"')
    return parsed


def whole(found: object, *, most: int) -> int:
    if type(found) is not int or not 1 <= found <= most:
        raise InvalidValue(f"expected a whole number from 1 to {most:,}")
    return found


def inside(found: object, readers: Mapping[str, Reader], *, needs: str) -> dict[str, Any]:
    """Return the values of a table, read key by key; the key ``needs`` is required."""
    table = found if isinstance(found, Mapping) else {}
    said = {key: _item(key, value, readers) for key, value in table.items()}
    if needs not in said:
        raise InvalidValue(f"a table that has at least {needs}, as {{ {needs} = … }}")
    return said


def _item(key: str, value: object, readers: Mapping[str, Reader]) -> object:
    if key not in readers:
        meant = near(key, tuple(readers)) or f"; it has {', '.join(readers)}"
        raise InvalidValue(f"{shown(key)} is not known{meant}")
    try:
        return readers[key](value)
    except (InvalidValue, RuleError) as error:
        raise InvalidValue(f"{key} = {_shown(key, value)}: {error}") from None


def _shown(key: str, value: object) -> str:
    """Return a value for a message without secrets; a URL may hold a password."""
    if key == "url" and isinstance(value, str):
        return shown(hidden_url(value))
    return shown(hidden({key: value})[key])


def _name(found: object) -> str:
    if not text(found, longest=200):
        raise InvalidValue("a name must not be empty")
    return str(found)


def _dst(found: object) -> str:
    try:
        return dst_policy(text(found), fixed=True).name
    except RuleError:
        raise InvalidValue(
            f"one of cron, {', '.join(PRESETS)}, or gap/fold as in end/first"
            f"{near(found, ('cron', *PRESETS))}"
        ) from None


def _moment(found: object) -> datetime:
    if not isinstance(found, datetime) or found.tzinfo is None:
        raise InvalidValue("a time with its offset, as 2026-12-24T18:00:00+01:00, or …Z")
    check_moment("it", found)
    return found


def _flag(found: object) -> bool:
    if not isinstance(found, bool):
        raise InvalidValue("true or false")
    return found


def _texts(found: object) -> tuple[str, ...]:
    if not isinstance(found, list | tuple):
        raise InvalidValue('several texts, as ["nightly", "billing"]')
    return tuple(text(item) for item in found)


def _argv(found: object) -> tuple[str, ...]:
    if not isinstance(found, list | tuple) or not found or not found[0]:
        raise InvalidValue('a program and its arguments, as ["/srv/backup", "--full"]')
    return _texts(found)


def _tags(found: object) -> tuple[str, ...]:
    tags = tuple(text(tag, longest=100) for tag in _texts(found))
    if len(tags) > MOST_TAGS:
        raise InvalidValue(f"at most {MOST_TAGS} tags")
    return tags


def _texts_by_name(found: object) -> dict[str, str]:
    if not isinstance(found, Mapping):
        raise InvalidValue('texts by name, as { LANG = "C" }')
    return {_name(name): _unseen(name, value) for name, value in found.items()}


def _unseen(name: str, value: object) -> str:
    """Return a text; the error message does not repeat it, because it may be a secret."""
    try:
        return text(value)
    except InvalidValue as error:
        raise InvalidValue(f"{quoted(name)}: {error}") from None


def _url(found: object) -> str:
    return checked_url(text(found))


def _statuses(found: object) -> tuple[int, ...]:
    if not isinstance(found, list | tuple) or not all(
        type(status) is int and 100 <= status <= 599 for status in found
    ):
        raise InvalidValue("the answers that are expected, as [200, 204]")
    return tuple(found)


def _rate(found: object) -> str:
    try:
        return str(Rate.parse(text(found)))
    except InvalidValue as error:
        raise InvalidValue(str(error).partition(": ")[2] or str(error)) from None


_HTTP: Mapping[str, Reader] = {
    "url": _url,
    "method": _name,
    "headers": _texts_by_name,
    "body": text,
    "expect": _statuses,
    "timeout": length,
    "sign": _name,
}
_MISSED: Mapping[str, Reader] = {
    "choice": partial(choice, of=get_args(Catchup)),
    "at_most": partial(whole, most=MOST_MISSED),
    "spacing": length,
    "grace": length,
}


def _reader(one: ScheduleField) -> Reader:
    if one.choices:
        return partial(choice, of=tuple(one.choices))
    if one.most:
        return partial(whole, most=one.most)
    return partial(text, longest=one.longest) if one.longest else _KINDS[one.kind]


_KINDS: Mapping[str, Reader] = {
    "text": text,
    "name": _name,
    "rule": text,
    "zone": checked_zone,
    "dst": _dst,
    "length": length,
    "moment": _moment,
    "priority": priority,
    "tags": _tags,
}
_OTHERS: dict[str, Reader] = {
    "rule": text,
    "task": _name,
    "args": arguments,
    "command": _argv,
    "shell": text,
    "http": http,
    "cwd": text,
    "env": _texts_by_name,
    "stdin": text,
    "missed": missed,
    "timeout": length,
    "attempts": partial(whole, most=MOST_ATTEMPTS),
    "paused": _flag,
    "note": partial(text, longest=500),
}
_SCHEDULE = {one.name: _reader(one) for one in fields_on("file")} | _OTHERS
# In the order in which a file is written.
SCHEDULE: Mapping[str, Reader] = {
    field.name: _SCHEDULE[field.name] for field in fields(ScheduleEntry) if field.name != "name"
}
LIMIT: dict[str, Reader] = {"concurrency": partial(whole, most=MOST_AT_ONCE), "rate": _rate}
QUEUE: Mapping[str, Reader] = LIMIT | {
    "fair": _flag,
    "paused": _flag,
    "note": partial(text, longest=500),
}
CALENDAR: Mapping[str, Reader] = {"rule": text}


def checked_url(url: str) -> str:
    if not url.lower().startswith(("http://", "https://")):
        raise InvalidValue("it begins with https:// or http://")
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise InvalidValue("its host or its port cannot be read") from None
    if "@" in parts.netloc:
        raise InvalidValue(
            "it holds a user or a password, which everybody could read; put it into headers, as "
            '{ Authorization = "…" }'
        )
    if not host:
        raise InvalidValue("it names no host")
    return url


def near(word: object, known: Mapping[str, Any] | tuple[str, ...]) -> str:
    """``; did you mean "skip"?``, if something is spelled alike."""
    asked = str(word).lower()
    habit = _HABITS.get(asked)
    found = [habit] if habit in known else get_close_matches(asked, known, n=1)
    return f'; did you mean "{found[0]}"?' if found else ""
