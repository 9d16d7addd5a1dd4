"""A rule that events make due: its words, and what it is not."""

import re
from datetime import UTC, datetime, timedelta

import pytest

from duly.errors import RuleError
from duly.rules import On, clock_change_notes, every, parse
from duly.rules.event_rule import LONGEST_NAME, RunAfter, check_name, check_pattern, matches, on

NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)
REMINDER = (
    'on class.scheduled key="class:{class_id}" run_after="-24h from starts_at" '
    "unless=class.cancelled"
)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("on invoice.paid", "When invoice.paid happens."),
        ("on *", "When any event happens."),
        ("on invoice.*", 'When anything below "invoice." happens.'),
        (
            'on doc.changed key="doc:{doc_id}" debounce=30s',
            "When doc.changed happens, once it has been quiet for 30 seconds.",
        ),
        (
            REMINDER,
            "When class.scheduled happens, 24 hours before its starts_at; "
            "not if class.cancelled comes first.",
        ),
        ("on a run_after=10m", "When a happens, 10 minutes later."),
        ('on a run_after="1h from ends_at"', "When a happens, 1 hour after its ends_at."),
        ('on a run_after="0s from ends_at"', "When a happens, at its ends_at."),
        ('on a key="say \\"{x}\\" | y \\\\ z"', "When a happens."),
    ],
)
def test_its_text_reads_back_and_it_explains_itself(text: str, sentence: str) -> None:
    rule = parse(text)
    assert isinstance(rule, On)
    assert str(rule) == text
    assert parse(str(rule)) == rule
    assert rule.explain() == sentence


def test_words_are_read_as_people_type_them() -> None:
    typed = on("a", key="k", run_after="+ 1h30m from at", unless="b.*")
    assert typed == On("a", key="k", run_after=RunAfter(timedelta(minutes=90), "at"), unless="b.*")
    assert on("a", key="k", debounce=timedelta(seconds=5)) == parse("on a key=k debounce=5s")
    assert parse(" (on a) ") == on("a")


def test_it_has_no_moments_of_its_own() -> None:
    rule = on("a")
    assert rule.after(NOW) is None
    assert rule.at_or_before(NOW) is None
    assert rule.count(NOW, NOW + timedelta(days=1)) == 0
    assert list(rule.between(NOW, NOW + timedelta(days=1))) == []
    assert clock_change_notes(rule, NOW) == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("on a | every 5m", "cannot be combined with another rule"),
        ("every 5m | on a", "cannot be combined with another rule"),
        ("every 5m - on a", "cannot be taken away from another rule"),
        ("on a - holidays(DE)", "cannot be combined with another rule"),
        ("on ", "is not the name of an event"),
        ("on a..b", "is not the name of an event"),
        ("on a b", '"b" cannot follow an event'),
        ("on a.*.b", "a star stands at the end"),
        ("on a*", "a star stands at the end"),
        ("on a start=2026-01-01T00:00Z", "cannot follow an event"),
        ("on a key=x key=y", "key= is there twice"),
        ("on a debounce=30", 'write "30s" or "30m"'),
        ("on a debounce=0s", "above zero"),
        ("on a debounce=30s run_after=5m", "say one of them"),
        ("on a unless=b", "unless= needs a key="),
        ('on a key="k" unless="b c"', "is not the name of an event"),
        ("on a run_after=-5m", "is not a duration"),
        ('on a run_after="5m from a-b"', "is not the name of a field"),
        ('on a key=""', "what the events are about"),
    ],
)
def test_what_it_cannot_mean_is_refused(text: str, said: str) -> None:
    with pytest.raises(RuleError) as refused:
        parse(text)
    assert said in str(refused.value)


def test_a_rule_made_in_code_is_refused_company_as_well() -> None:
    with pytest.raises(RuleError, match="no times of its own"):
        on("a") | every("5m")
    with pytest.raises(RuleError, match="no times of its own"):
        on("a") - every("5m")


def test_a_pattern_means_a_name_what_is_below_it_or_everything() -> None:
    assert matches("invoice.paid", "invoice.paid")
    assert not matches("invoice.paid", "invoice.paid.twice")
    assert matches("invoice.*", "invoice.paid.twice")
    assert not matches("invoice.*", "invoice")
    assert not matches("invoice.*", "invoices.paid")
    assert matches("*", "anything")


def test_names_are_words_with_dots_between_them() -> None:
    for name in ("a", "invoice.paid", "a-b.c_d.2", "x" * LONGEST_NAME):
        assert check_name(name) == check_pattern(name) == name
    for wrong in ("", ".", "a.", ".a", "a b", "a:b", "ä", "a*", 7, None, "x" * (LONGEST_NAME + 1)):
        with pytest.raises(RuleError):
            check_name(wrong)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("on a.b debounce=3s", "debounce= needs a key="),
        ('on a.b key="k" unless=a.b', "what starts it would call it off"),
        ('on a.b run_after="24h before x"', '"-24h from starts_at"'),
    ],
)
def test_what_would_lose_work_is_refused(text: str, said: str) -> None:
    with pytest.raises(RuleError, match=re.escape(said)):
        parse(text)
