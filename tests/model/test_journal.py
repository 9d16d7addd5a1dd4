"""How much of what a job says is kept, and how it is numbered."""

import math

import pytest

from duly.model.journal import (
    LONGEST_LINE,
    MOST_LINES,
    MOST_TEXT,
    LogEntry,
    ProgressEntry,
    numbered,
)


def entry(text: str = "line") -> LogEntry:
    return LogEntry(job_id=1, fence=2, attempt=3, at_us=4, level="INFO", text=text)


def kept(count: int, text: str = "line", *, lines: int = 0, size: int = 0) -> list[tuple[int, str]]:
    return [(seq, one.text) for seq, one in numbered([entry(text)] * count, lines, size)]


def test_lines_are_numbered_behind_those_that_are_there() -> None:
    assert kept(2) == [(1, "line"), (2, "line")]
    assert kept(2, lines=7, size=100) == [(8, "line"), (9, "line")]


def test_the_last_line_says_that_it_is_the_last() -> None:
    (before, line), (last, said) = kept(5, lines=MOST_LINES - 2)
    assert (before, line, last) == (MOST_LINES - 1, "line", MOST_LINES)
    assert said == "the log of this job ends here: at most 10,000 lines or 1 MB are stored"
    assert kept(5, lines=MOST_LINES) == []


@pytest.mark.parametrize("length", [100, LONGEST_LINE - 1, LONGEST_LINE])
def test_a_log_that_is_full_is_known_by_its_size_alone(length: int) -> None:
    size = MOST_TEXT - 5 * LONGEST_LINE
    found = kept(10 * LONGEST_LINE // length, "x" * length, lines=10, size=size)
    assert ["ends here" in text for _, text in found] == [False] * (len(found) - 1) + [True]
    total = size + sum(len(text) for _, text in found)
    assert total <= MOST_TEXT
    assert kept(1, "x", lines=found[-1][0], size=total) == []


def test_what_no_database_takes_is_replaced_and_what_is_too_long_is_cut() -> None:
    line = LogEntry(job_id=1, fence=1, attempt=1, at_us=0, level="L" * 99, text="\0" + "x" * 99_999)
    assert line.text.startswith("\ufffdx")
    assert (len(line.level), len(line.text.encode())) == (20, LONGEST_LINE)


@pytest.mark.parametrize(
    ("said", "stored"), [(50, 50.0), (-1, 0.0), (101, 100.0), (math.nan, 0.0), (math.inf, 100.0)]
)
def test_a_percentage_is_a_number_from_0_to_100(said: float, stored: float) -> None:
    assert ProgressEntry(job_id=1, fence=1, attempt=1, percent=said).percent == stored
