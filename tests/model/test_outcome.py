"""What an attempt says can be stored, whatever it says."""

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.model.outcome import LONGEST_NAME, Lost, Raised, Stopped
from duly.model.payload import LONGEST_TEXT, storable

any_text = st.text(st.characters() | st.sampled_from("\0\ud800\udfff…é\U0001f600"))


def test_a_plain_text_stays_as_it_is() -> None:
    assert storable("Grüße \U0001f600\n\ttab") == "Grüße \U0001f600\n\ttab"


@pytest.mark.parametrize("unstorable", [0, 0xD800, 0xDBFF, 0xDC00, 0xDFFF])
def test_what_no_database_keeps_is_replaced(unstorable: int) -> None:
    assert storable(f"a{chr(unstorable)}b") == "a\ufffdb"


def test_of_a_long_text_the_beginning_and_the_end_stay() -> None:
    found = storable("begin " + "x" * 50_000_000 + " end")
    assert found.startswith("begin xxx")
    assert "… 50,000,010 bytes; the middle is left out …" in found
    assert found.endswith("xxx end")
    assert len(found.encode()) == LONGEST_TEXT


def test_a_text_that_just_fits_is_not_cut() -> None:
    assert storable("é" * 500, 1000) == "é" * 500
    assert storable("é" * 501, 1000) != "é" * 501


@given(any_text, st.integers(0, 200))
def test_whatever_is_stored_is_text_and_not_too_long(text: str, longest: int) -> None:
    found = storable(text * 3, longest)
    assert len(found.encode()) <= longest
    assert "\0" not in found
    assert storable(found, longest) == found


def test_what_a_task_raised_can_be_stored_by_postgresql(pg_dsn: str) -> None:
    novel = "\0\ud800" * 100_000
    raised = Raised(novel, novel, novel)
    texts = [raised.error, raised.message, raised.traceback, Stopped(novel).reason]
    with psycopg.connect(pg_dsn) as connection:
        for text in [*texts, Lost(1, novel).reason]:
            assert connection.execute("select %s::text", [text]).fetchone() == (text,)


def test_the_name_of_an_error_is_short() -> None:
    assert len(Raised("E" * 10_000).error.encode()) == LONGEST_NAME
