"""Whatever the text: it is a rule, or it is refused with a reason and a place, and nothing else.

Texts are made of the grammar's own letters, by damaging texts that are right, and of anything that
Unicode holds. A test run tries some ten thousand; ``DULY_FUZZ=1000000`` tries a million.
"""

import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from random import Random

import pytest

from duly.errors import RuleError
from duly.rules import Rule, Spaced, calendar, cron, parse

TEXTS = int(os.environ.get("DULY_FUZZ", "20000"))
BATCHES = 10  # so that a million texts are not one test
NOW = datetime(2026, 11, 15, 9, 30, tzinfo=UTC)

ALPHABETS = (
    "0123456789*/,- ",
    "0123456789*/-,.:~ ",
    "0123456789 */,-?LW#H()@",
    "0123456789:-TZ+=|() everyspacd",
    "MonTueWdThFriSatu ..,-*:/0123456789~@",
    " \t\n\r\x0b\x0c\x00\x1c\x7f0*-",
    "".join(map(chr, range(32, 127))),
    "٠١٢३４𝟓²½ⅫＭｏｎ　\u00a0\u2009\u200b–−×…éßİſK\ud800\U0010ffff*0 ",
)

WORDS = (
    *("*", "0", "7", "59", "60", "1-5", "*/5", "5/0", "L", "LW", "15W", "5L", "FRI#2", "mon-fri"),
    *("jan", "dec,feb", "H", "H/15", "H(0-29)/10", "?", "22-2", "@daily", "@reboot", "@0", "@1e9"),
    *("Mon", "Mon..Fri", "Sat,Sun", "*-*-*", "*-*~1", "~07/1", "2026-02-29", "00:00", "9:00:00.5"),
    *("*:0/15", "*:*:0/0.000001", "1..5/2", "daily", "minutely", "UTC", "utc", "Europe/Berlin"),
    *("Europe/Berln", "../UTC", "dst=systemd", "dst=", "dst=end/both", "dst=shift/x", "dst=cron"),
    *("every", "5m", "1h30m", "spaced", "from", "2026-12-24T18:00", "2026-12-24T18:00Z", "|", "-"),
    *("(", ")", "start=2026-01-01T00:00Z", "end=", "count=3", "jitter=5m", "seed=1f", "lasting=8h"),
    *("delay=1m", "RRULE:FREQ=DAILY", "DTSTART:20260105T090000Z", "BYDAY=MO", "COUNT=5;"),
    *("dates(2026-12-24)", "holidays(DE-BE)", "99999999999999999999", "+", "..", "--", "\t"),
)

CRON = (
    "30 2 * * 1-5 Europe/Berlin",
    "*/5 0 1,15W,L-3 jan-mar,7 MON#1,5L UTC dst=systemd",
    "15 10-20/3 22-2 LW * fri-mon America/New_York dst=shift/both",
    "@daily Asia/Kathmandu",
    "*/20 * * * *",
)
CALENDAR = (
    "Mon..Fri,Sun 2026..2030/2-*-1..7/3 09,12:00/15:30.5 Europe/Berlin dst=elapsed",
    "Sat *-05~07/1 00:00 UTC",
    "*:*:0/0.25",
    "semi-annually Africa/Cairo dst=quartz",
    "@1789000000",
)
OTHERS = (
    "every 90s from 2026-01-01T00:00Z",
    "spaced 10m",
    "2026-12-24T18:00+01:00",
    "DTSTART:20260105T090000Z RRULE:FREQ=WEEKLY;BYDAY=MO,WE;COUNT=10",
    "(0 9 * * * UTC | 12:00 UTC) - (Sat 00:00 UTC) lasting=2d",
    "0 9 * * * Europe/Berlin start=2026-01-01T00:00Z count=5",
)
VALID = {"cron": CRON, "calendar": CALENDAR, "parse": (*CRON, *CALENDAR, *OTHERS)}

READERS: dict[str, Callable[[str], Rule | Spaced]] = {
    "cron": cron,
    "calendar": calendar,
    "parse": parse,
}


def texts(dice: Random, kind: str, number: int) -> Iterator[str]:
    for index in range(number):
        match index % 6:
            case 0:
                yield letters(dice)
            case 1:
                yield words(dice)
            case 2:
                yield columns(dice)
            case 3:
                yield anything(dice)
            case _:
                yield damaged(dice, dice.choice(VALID[kind]))


def letters(dice: Random) -> str:
    return "".join(dice.choices(dice.choice(ALPHABETS), k=dice.randint(0, 30)))


def words(dice: Random) -> str:
    return dice.choice((" ", " ", " ", "", "  ")).join(dice.choices(WORDS, k=dice.randint(1, 7)))


def columns(dice: Random) -> str:
    """Five or six, so that what stands in a column is reached."""
    alphabet = dice.choice(ALPHABETS[:3]).replace(" ", "")
    found = [
        "".join(dice.choices(alphabet, k=dice.randint(1, 4))) if dice.random() < 0.4 else "*"
        for _ in range(dice.choice((5, 6)))
    ]
    return " ".join([*found, *dice.choice(([], ["UTC"]))])


def damaged(dice: Random, text: str) -> str:
    """A text that was right, with a few letters and words dropped, doubled, swapped or replaced."""
    for _ in range(dice.choice((1, 1, 1, 2, 3))):
        start = dice.randint(0, len(text))
        end = min(start + dice.choice((0, 1, 1, 2, 5)), len(text))
        patch = dice.choice(
            (
                "",
                text[start:end] * 2,
                text[start:end][::-1],
                text[start:end].swapcase(),
                dice.choice(dice.choice(ALPHABETS)),
                dice.choice(WORDS),
                f"{dice.randint(0, 10 ** dice.randint(1, 30))}",
            )
        )
        text = text[:start] + patch + text[end:]
    return text


def anything(dice: Random) -> str:
    size = dice.choice((1, 5, 20, 300, 5000)) if dice.random() < 0.1 else dice.randint(0, 12)
    highest = dice.choice((0x7F, 0xFF, 0xFFFF, 0x10FFFF))
    return "".join(chr(dice.randint(0, highest)) for _ in range(size))


def complaint(kind: str, text: str) -> str | None:
    """What is wrong with how the text was taken, if anything is."""
    try:
        return misfit(READERS[kind](text), kind)
    except RuleError as refused:
        ends = min(len(text), len(refused.text))
        if refused.position is None or not 0 <= refused.position <= ends:
            return f'refused at {refused.position} of "{refused.text}": {refused}'
        return None
    except Exception as error:  # noqa: BLE001 - that there is none is what is tested
        return f"raised {error!r}"


def misfit(rule: Rule | Spaced, kind: str) -> str | None:
    """What was read says itself again, and answers."""
    try:
        again = READERS[kind](str(rule))
    except RuleError as refused:
        return f'prints itself as "{rule}", which is refused: {refused}'
    if (again, hash(again)) != (rule, hash(rule)):
        return f'prints itself as "{rule}", which reads as "{again}"'
    if not rule.explain():
        return "has no explanation"
    return None if isinstance(rule, Spaced) else wrong_answer(rule)


def wrong_answer(rule: Rule) -> str | None:
    try:
        earlier, later = rule.at_or_before(NOW), rule.after(NOW)
    except RuleError:  # days without a zone, or too much taken away: it may say so when asked
        return None
    if (earlier is None or earlier <= NOW) and (later is None or later > NOW):
        return None
    return f"has {earlier} before and {later} after {NOW}"


@pytest.mark.parametrize("batch", range(BATCHES))
@pytest.mark.parametrize("kind", READERS)
def test_any_text_is_a_rule_or_is_refused_with_a_reason_and_a_place(kind: str, batch: int) -> None:
    dice = Random(f"{kind} {batch}")
    share = TEXTS // BATCHES // len(READERS)
    complaints = {text: complaint(kind, text) for text in texts(dice, kind, share)}
    assert {text: said for text, said in complaints.items() if said} == {}


@pytest.mark.parametrize(("kind", "text"), [(kind, text) for kind in VALID for text in VALID[kind]])
def test_what_the_damaged_texts_are_made_from_is_right(kind: str, text: str) -> None:
    assert isinstance(READERS[kind](text), Rule | Spaced)
