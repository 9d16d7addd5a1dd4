"""A value is ``:name`` in our files, and the driver's place when it is sent."""

import pytest

from duly.store.statements import for_libpq, for_psycopg


@pytest.mark.parametrize(
    ("written", "sent"),
    [
        ("select :a", "select %(a)s"),
        ("select :a::bigint", "select %(a)s::bigint"),
        ("select a::bigint, :b", "select a::bigint, %(b)s"),
        ("any(:ids::bigint[])", "any(%(ids)s::bigint[])"),
        ("(:now+:lease)", "(%(now)s+%(lease)s)"),
        ("select :a_1,:B", "select %(a_1)s,%(B)s"),
        ("select x[1:2]", "select x[1:2]"),
        ("select 7 % :n", "select 7 %% %(n)s"),
        ("like 'a%:b' and :c", "like 'a%%:b' and %(c)s"),
        ("'it''s :a', :b", "'it''s :a', %(b)s"),
        (r"E'it\'s :a', :b", r"E'it\'s :a', %(b)s"),
        (r"'a\', :b", r"'a\', %(b)s"),
        ('"a "":b", :c', '"a "":b", %(c)s'),
        ("-- don't :a\n:b", "-- don't :a\n%(b)s"),
        ("/* don't\n :a % */ :b", "/* don't\n :a %% */ %(b)s"),
        ("$$ :a ' $$ :b", "$$ :a ' $$ %(b)s"),
        ("$do$ :a $$ :b $do$ :c", "$do$ :a $$ :b $do$ %(c)s"),
        ("'→' || :a", "'→' || %(a)s"),
    ],
)
def test_a_statement_is_rewritten(written: str, sent: str) -> None:
    assert for_psycopg(written).decode() == sent


def test_a_statement_for_libpq_has_a_place_for_each_name() -> None:
    sent = for_libpq("select 7 % :n, :a::bigint, :n")
    assert sent == (b"select 7 % $1, $2::bigint, $1", ("n", "a"))
