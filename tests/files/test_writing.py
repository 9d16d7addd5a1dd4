"""What was written is read back the same, whatever it says."""

import tomllib
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from duly.files.file_text import read, write, write_entry
from duly.files.schedule_file import LimitEntry, QueueEntry, ScheduleEntry, ScheduleFile

# Everything but what no database keeps: NUL and lone surrogates.
texts = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30),
    st.text("'\"\\\t\r\n\x7f #a", max_size=8),
)
names = st.one_of(
    st.from_regex(r"[a-z][a-z0-9_-]{0,8}", fullmatch=True),
    st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), min_size=1, max_size=12),
)
lengths = st.sampled_from(["90s", "1h30m", "2d", "10 minutes"])
moments = st.builds(
    lambda since, minutes: (datetime(1971, 1, 1, tzinfo=UTC) + since).astimezone(
        timezone(timedelta(minutes=minutes))
    ),
    st.timedeltas(timedelta(), timedelta(days=80_000)),
    st.integers(-839, 839),
)
plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
spoken = texts.filter(lambda text: bool(text.strip()))


def some(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Any of the fields."""
    return st.fixed_dictionaries({}, optional=fields)


around = some(cwd=spoken, env=st.dictionaries(spoken, texts, max_size=2), stdin=spoken)
web = st.fixed_dictionaries(
    {"url": texts.map("https://x/{}".format)},
    optional={
        "method": st.sampled_from(["GET", "POST"]),
        "headers": st.dictionaries(spoken, texts, max_size=2),
        "body": texts,
        "expect": st.lists(st.integers(100, 599), max_size=3),
        "timeout": lengths,
        "sign": spoken,
    },
)
what_runs = st.one_of(
    st.builds(
        lambda task, args: {"task": task, "args": args},
        spoken,
        st.dictionaries(texts, plain, max_size=3),
    ),
    st.builds(lambda shell, beside: {"shell": shell} | beside, spoken, around),
    st.builds(
        lambda program, others, beside: {"command": (program, *others)} | beside,
        spoken,
        st.lists(texts, max_size=3),
        around,
    ),
    web.map(lambda http: {"http": http}),
)
choices = some(
    title=texts,
    queue=spoken,
    priority=st.integers(-100, 100) | st.sampled_from(["high", "idle"]),
    tags=st.lists(texts, max_size=3).map(tuple),
    overlap=st.sampled_from(["skip", "queue_one", "allow"]),
    missed=st.sampled_from(
        ["latest", {"choice": "all", "at_most": 10, "spacing": "1m"}, {"choice": "skip"}]
    ),
    start_within=lengths,
    late=st.sampled_from(["skip", "hurry"]),
    dst=st.sampled_from(["systemd", "end/first"]),
    exclude=st.sampled_from(["off", "holidays(DE-BE)", "Sat,Sun UTC"]),
    jitter=lengths,
    start=moments,
    timeout=lengths,
    attempts=st.integers(1, 100),
)
pauses: st.SearchStrategy[dict[str, Any]] = st.just({}) | st.builds(
    lambda note: {"paused": True, "note": note}, texts
)
rules = st.sampled_from(
    [
        {"rule": "every 5m"},
        {"rule": "30 2 * * *", "zone": "Europe/Berlin"},
        {"rule": "H H * * *"},
        {"rule": "DTSTART:20270105T090000Z\nRRULE:FREQ=DAILY"},
    ]
)
entries = st.builds(
    lambda name, *parts: ScheduleEntry(
        name=name, **{key: part[key] for part in parts for key in part}
    ),
    names,
    rules,
    what_runs,
    choices,
    pauses,
)
queues = st.builds(
    lambda name, limits, pause: QueueEntry(name=name, **limits, **pause),
    names,
    some(concurrency=st.integers(1, 99), rate=st.just("50/s"), fair=st.booleans()),
    pauses,
)
limits = st.builds(
    lambda name, numbers: LimitEntry(name=name, **numbers),
    names.filter(lambda name: not set(name) & set("{}")) | st.just("crm:{customer_id}"),
    st.sampled_from([{"concurrency": 3}, {"rate": "3/10s"}, {"concurrency": 1, "rate": "5/s"}]),
)


def by_name(things: st.SearchStrategy[Any]) -> st.SearchStrategy[Mapping[str, Any]]:
    return st.lists(things, max_size=3).map(lambda found: {thing.name: thing for thing in found})


days = st.sampled_from(["Sat,Sun", "holidays(DE-BE)"])
sheets = st.builds(
    ScheduleFile,
    schedules=by_name(entries),
    queues=by_name(queues),
    limits=by_name(limits),
    calendars=st.dictionaries(
        names, st.sampled_from(["Sat,Sun", "holidays(DE-BE)"]), max_size=2
    ).map(lambda found: found | {"off": "Sat,Sun"}),
    zone=st.sampled_from(["Europe/Berlin", "UTC"]),
)


@given(sheets)
def test_what_was_written_is_read_back_the_same(sheet: ScheduleFile) -> None:
    written = write(sheet)
    found = read(written)
    assert found == sheet
    assert list(found.schedules) == list(sheet.schedules)
    assert write(found) == written


def test_a_file_is_written_a_line_for_each_key_that_says_something() -> None:
    sheet = ScheduleFile(
        zone="Europe/Berlin",
        calendars={"off": "Sat,Sun"},
        queues={"mail": QueueEntry(name="mail", concurrency=5)},
        limits={"crm:{id}": LimitEntry(name="crm:{id}", rate="5/s")},
        schedules={
            "backup": ScheduleEntry(  # noqa: S604 - it says so, and runs nothing
                name="backup",
                rule="30 2 * * *",
                shell='echo "done" | logger',
                env={"LANG": "C"},
                missed={"choice": "all", "at_most": 10},
                start=datetime(2027, 1, 1, tzinfo=timezone(timedelta(hours=1))),
                note="MAILTO=root was left out:\nsay on_failure instead",
            ),
            "a b": ScheduleEntry(
                name="a b", rule="every 5m", command=("x", "it's"), paused=True, note="broken"
            ),
        },
    )
    assert (
        write(sheet)
        == """\
[defaults]
zone = "Europe/Berlin"

[calendars.off]
rule = "Sat,Sun"

[queues.mail]
concurrency = 5

[limits."crm:{id}"]
rate = "5/s"

# MAILTO=root was left out:
# say on_failure instead
[schedules.backup]
rule = "30 2 * * *"
shell = 'echo "done" | logger'
env = { LANG = "C" }
missed = { choice = "all", at_most = 10 }
start = 2027-01-01T00:00:00+01:00

[schedules."a b"]
rule = "every 5m"
command = ["x", "it's"]
paused = true
note = "broken"
"""
    )


@given(texts)
def test_a_remark_cannot_break_out_of_its_comment(note: str) -> None:
    entry = ScheduleEntry(name="x", rule="every 5m", command=("x",), note=note)
    found = tomllib.loads(write_entry("schedules", entry))
    assert found == {"schedules": {"x": {"rule": "every 5m", "command": ["x"]}}}


def test_none_among_the_arguments_is_written_as_json() -> None:
    entry = ScheduleEntry(name="x", rule="every 5m", task="t", args={"a": [None]})
    assert write_entry("schedules", entry).endswith("args = '{\"a\":[null]}'")
    assert read(write_entry("schedules", entry)).schedules["x"] == entry


def test_a_moment_whose_offset_has_seconds_is_written_in_utc() -> None:
    odd = datetime(1980, 1, 1, tzinfo=timezone(timedelta(minutes=-44, seconds=-30)))
    entry = ScheduleEntry(name="x", rule="every 5m", command=("x",), start=odd)
    assert read(write_entry("schedules", entry)).schedules["x"] == entry
