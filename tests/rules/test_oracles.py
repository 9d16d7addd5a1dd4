"""Questions put to programs nobody here wrote, and our answers to them.

``oracles/README.md`` says who was asked and how. Where the oracles agree we answer as they do, line
by line. Where they do not, each kind of difference is a decision, and it stands here.
"""

import json
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from duly import RuleError
from duly.rules import Rule, calendar, cron

ORACLES = Path(__file__).parent / "oracles"
MICROSECOND = timedelta(microseconds=1)

Line = dict[str, Any]


def lines(name: str) -> list[Line]:
    text = (ORACLES / f"{name}.jsonl").read_text()
    found = [json.loads(line) for line in text.splitlines()]
    assert found
    return found


def systemd(line: Line) -> Rule:
    return calendar(line["expr"], zone=line.get("tz", "UTC"), dst="systemd")


def vixie(line: Line) -> Rule:
    return cron(line["expr"], zone=line.get("tz", "UTC"))


def moments(texts: list[str]) -> list[datetime]:
    return [datetime.fromisoformat(text) for text in texts]


def following(rule: Rule, base: datetime, count: int) -> list[datetime | None]:
    found: list[datetime | None] = []
    moment: datetime | None = base
    while moment is not None and len(found) < count:
        moment = rule.after(moment)
        found.append(moment)
    return found


def wrong_answers(read: Callable[[Line], Rule], name: str) -> Iterator[str]:
    for line in lines(name):
        rule, base = read(line), datetime.fromisoformat(line["base"])
        expected = moments(line["next"])
        found = following(rule, base, len(expected))
        if found != expected:
            yield f"{line['expr']} in {line['tz']} after {base}: {found}, not {expected}"
        elif line.get("ends") and rule.after(expected[-1] if expected else base) is not None:
            yield f"{line['expr']} does not end"


AGREED = [
    (vixie, "cron_agree"),
    (vixie, "cron_dst"),
    (vixie, "cron_extended"),
    (systemd, "systemd_next"),
    (systemd, "systemd_dst"),
    (systemd, "systemd_subsec"),
]


@pytest.mark.parametrize(("read", "name"), AGREED)
def test_we_answer_as_the_oracles_do(read: Callable[[Line], Rule], name: str) -> None:
    assert list(wrong_answers(read, name)) == []


@pytest.mark.parametrize(("read", "name"), AGREED)
def test_every_list_is_counted_and_walked_backwards(
    read: Callable[[Line], Rule], name: str
) -> None:
    wrong = []
    for line in lines(name):
        rule, base = read(line), datetime.fromisoformat(line["base"])
        expected = moments(line["next"])
        if not expected:
            continue
        counted = rule.count(base, expected[-1])
        backwards: list[datetime | None] = [rule.at_or_before(expected[-1])]
        while len(backwards) < len(expected) and backwards[-1]:
            backwards.append(rule.at_or_before(backwards[-1] - MICROSECOND))
        if counted != len(expected) or backwards[::-1] != expected:
            wrong.append((line["expr"], line["tz"], counted, backwards))
    assert wrong == []


@pytest.mark.parametrize(
    ("read", "name"), [(vixie, "cron_never"), (systemd, "systemd_never")], ids=["cron", "systemd"]
)
def test_what_never_occurs_is_refused_or_has_no_next_moment(
    read: Callable[[Line], Rule], name: str
) -> None:
    for line in lines(name):
        try:
            found = read(line).after(datetime.fromisoformat(line["base"]))
        except RuleError as error:
            assert "never occurs" in str(error)
        else:
            assert found is None, line["expr"]


@pytest.mark.parametrize(
    ("read", "name"),
    [(vixie, "cron_invalid"), (systemd, "systemd_invalid")],
    ids=["cron", "systemd"],
)
def test_what_is_invalid_is_refused_with_the_place(read: Callable[[Line], Rule], name: str) -> None:
    accepted = []
    for line in lines(name):
        try:
            read(line)
        except RuleError as error:
            assert error.position is not None
            assert 0 <= error.position <= len(line["expr"]), line["expr"]
        else:
            accepted.append(line["expr"])
    assert accepted == []


@pytest.mark.parametrize("name", ["systemd_next", "systemd_dst", "systemd_subsec"])
def test_a_calendar_prints_itself_in_systemds_normal_form(name: str) -> None:
    wrong = []
    for line in lines(name):
        printed = str(systemd(line)).removesuffix(" dst=systemd")
        if printed not in (line["norm"], f"{line['norm']} {line['tz']}"):
            wrong.append((line["expr"], printed, line["norm"]))
    assert wrong == []


# -- where cron's implementations differ ----------------------------------------------------------

DIFFERENT_ON_PURPOSE = {
    # We make up for a gap with one run, not with one a missed minute, ten seconds apart.
    "51-52,23-32 1,3 * * *",
    "26-52 0 * * *",
    "4-14 0,10-10,2 * * *",
    # A rule is a set of moments: asking from within the repeated hour does not add to it.
    "31 23 * * *",
    "59 1 * * *",
}


def test_where_cron_implementations_differ_we_follow_the_daemon() -> None:
    wrong = set()
    for line in lines("cron_disagree"):
        if line["right"] is None:
            continue
        answer = line["answers"][line["right"]]
        expected = moments(answer["next"] if isinstance(answer, dict) else answer)
        base = datetime.fromisoformat(line["base"])
        if following(vixie(line), base, len(expected)) != expected:
            wrong.add(line["expr"])
    assert wrong == DIFFERENT_ON_PURPOSE


def test_a_stepped_range_of_one_is_one_value() -> None:
    for line in lines("cron_disagree"):
        if line["right"] is None and line["why"].startswith("n-n/s"):
            plain = {**line, "expr": line["expr"].replace("31-31/5 6", "30-30/5 6")}
            assert vixie(plain) == vixie({**plain, "expr": without_steps_on_one(plain["expr"])})


def without_steps_on_one(expression: str) -> str:
    def shorter(item: str) -> str:
        values, _, step = item.partition("/")
        low, _, high = values.partition("-")
        return low if step and low == high else item

    return " ".join(",".join(map(shorter, field.split(","))) for field in expression.split())


def test_last_days_and_last_weekdays_are_as_in_cronsim() -> None:
    for line in lines("cron_disagree"):
        if line["why"].startswith("syntax beyond vixie"):
            expected = moments(line["answers"]["cronsim 2.8"])
            base = datetime.fromisoformat(line["base"])
            assert following(vixie(line), base, len(expected)) == expected


def test_of_the_disputed_syntax_we_take_what_has_a_meaning() -> None:
    accepted = set()
    for line in lines("cron_syntax_differ"):
        try:
            vixie(line)
        except RuleError:
            continue
        accepted.add(line["expr"])
    assert accepted == {
        "1/5 * * * *",  # from 1, in steps
        "10-5 * * * *",  # a range that wraps round
        "* * * nov-feb *",
        "* * L * *",
        "* * 15W * *",
        "* * * * 5L",
    }


# -- where systemd departs from its own rule ------------------------------------------------------


def test_where_systemd_has_faults_we_follow_the_plain_rule() -> None:
    asked = 0
    for line in lines("systemd_quirks"):
        if not line.get("plain"):
            continue
        asked += 1
        base = datetime.fromisoformat(line["base"])
        assert following(systemd(line), base, len(line["plain"])) == moments(line["plain"])
    assert asked > 20


def test_a_rule_asked_from_the_repeated_hour_is_still_the_same_set() -> None:
    asked = 0
    for line in lines("systemd_quirks"):
        if not line["why"].startswith("the base lies in the second pass"):
            continue
        asked += 1
        rule, base = systemd(line), datetime.fromisoformat(line["base"])
        early = base - timedelta(days=3)
        until = base + timedelta(days=2)
        whole = list(rule.between(early, until, limit=1_000_000))
        assert list(rule.between(base, until, limit=1_000_000)) == [m for m in whole if m > base]
    assert asked > 100


def test_what_systemd_rejects_without_a_reason_we_accept() -> None:
    """White space around means nothing, ``3..3`` is 3 in seconds too, ``~17,27`` is two days."""
    refused = set()
    for line in lines("systemd_quirks"):
        if not line["why"].startswith("rejected"):
            continue
        try:
            systemd(line)
        except RuleError:
            refused.add(line["expr"])
    assert refused == {  # wrong for another reason, too
        "*-*-*\t12:00",
        "*:23..43:59..59 Fri",
        "*-*-03 07:50,23/10:59..59,0z",
        "*-03,04-* 13,18:*:0,03/15,58..58,00Yz",
        "Thu..SUNDAY, *-11..11-04,11 21:*:0,46..57,05,12..12x",
    }


def test_an_abbreviation_is_not_a_zone() -> None:
    with pytest.raises(RuleError, match='"EDT" is not a time zone'):
        calendar("09:00 EDT")
