"""Which jobs are meant, in words: the same words everywhere, and none that is not understood."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.errors import InvalidValue
from duly.model.job_filter import EVERYTHING, Filter, Pattern, filter_of, parse_filter
from duly.model.states import State

HOURS = timedelta(hours=2)


def test_every_word_has_its_meaning() -> None:
    text = (
        "state:failed queue:mail task:send tenant:acme tag:nightly key:x schedule:report "
        "error:timeout since:2h before:2026-03-05T02:00Z text"
    )
    assert parse_filter(text) == Filter(
        states=(State.FAILED,),
        queue="mail",
        task="send",
        tenant="acme",
        tags=("nightly",),
        key="x",
        schedule="report",
        error="timeout",
        since=HOURS,
        before=datetime(2026, 3, 5, 2, tzinfo=UTC),
        texts=("text",),
    )


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("", EVERYTHING),
        ("  \n ", EVERYTHING),
        ("state:failed,running state:failed", Filter(states=(State.FAILED, State.RUNNING))),
        ("tag:a tag:b", Filter(tags=("a", "b"))),
        ("one two", Filter(texts=("one", "two"))),
        ('"one two"', Filter(texts=("one two",))),
        ("'it is \"so\"'", Filter(texts=('it is "so"',))),
        ('error:"read timed out"', Filter(error="read timed out")),
        ('"state:failed"', Filter(texts=("state:failed",))),
        ("text:failed", Filter(texts=("failed",))),
        ("text:http://host/", Filter(texts=("http://host/",))),
        ("key:order:7", Filter(key="order:7")),
        ('tenant:""', Filter(tenant="")),
        (r'text:"a\"b\\c"', Filter(texts=(r"a\"b\c".replace(r"\"", '"'),))),
        ("don't", Filter(texts=("don't",))),
        ("task:send*", Filter(task=Pattern("send*"))),
        ("flow:4711 state:failed", Filter(flow=4711, states=(State.FAILED,))),
        (
            "queue:*mail* tenant:a* key:order:*",
            Filter(
                queue=Pattern("*mail*"),
                tenant=Pattern("a*"),
                key=Pattern("order:*"),
            ),
        ),
        ('task:"send*"', Filter(task="send*")),
        ("task:send?", Filter(task="send?")),
        ("error:a*b tag:a* text:a*", Filter(error="a*b", tags=("a*",), texts=("a*",))),
        ("error~timeout", Filter(error="timeout")),
        ('error~"read timed out" queue:mail', Filter(error="read timed out", queue="mail")),
        ("error~a:b", Filter(error="a:b")),
        (
            "~/home a~b colour~red 'error~x' don~'t",
            Filter(
                texts=("~/home", "a~b", "colour~red", "error~x", "don~'t"),
            ),
        ),
    ],
)
def test_texts_and_quotes(text: str, meant: Filter) -> None:
    assert parse_filter(text) == meant


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("stat:failed", "stat:failed: a filter has no key stat:; did you mean state:"),
        ("colour:red", "there is state, queue, task, tenant, tag, key, schedule, error, since"),
        ("state:faild", 'state:faild: no state is called "faild"; did you mean failed?'),
        ("state:dead", "there is scheduled, blocked, ready, running, succeeded, failed"),
        ("failed", "failed: did you mean state:failed? To search for the text: text:failed"),
        ("queue:", "queue:: the value is missing"),
        ("queue:a queue:b", "queue:b: queue: is given twice"),
        ("since:2", "since:2: expected a duration ago, as since:2h, or a time"),
        ("since:2026-03-05", "the zone is missing: write since:2026-03-05T00:00Z for UTC"),
        ('"open', "close the quotes"),
        ("flow:etl", "flow:etl: flow: takes the number of a job, as flow:4711"),
        ("flow:0", "flow:0: the number of a flow, as flow:4711"),
        ("flow:1 flow:2", "flow:2: flow: is given twice"),
        ("task~send", "task~send: task does not support ~; use task:send"),
        ("error~", "error~: the value is missing"),
        ("error~a error:b", "error:b: error: is given twice"),
        ("task:\0", "task: '\\x00' contains a NUL character"),
        ("x" * 1_001, "text: 1,001 characters"),
        (" ".join(["x"] * 21), "more than 20 texts"),
    ],
)
def test_what_is_no_filter_is_refused_with_what_may_be_meant(text: str, said: str) -> None:
    with pytest.raises(InvalidValue) as refused:
        parse_filter(text)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (["error:read timed out", "queue:mail"], Filter(error="read timed out", queue="mail")),
        (["state:failed queue:mail"], Filter(states=(State.FAILED,), queue="mail")),
        (["timed out"], Filter(texts=("timed out",))),
        (["he said: no"], Filter(texts=("he said: no",))),
        (['key:"a b"'], Filter(key="a b")),
        (["text:state:failed"], Filter(texts=("state:failed",))),
        (
            ["error~read timed out", "task:send*"],
            Filter(
                error="read timed out",
                task=Pattern("send*"),
            ),
        ),
        (['error~"read timed out"'], Filter(error="read timed out")),
        (["state:failed error~timeout"], Filter(states=(State.FAILED,), error="timeout")),
        (['task:"send*"'], Filter(task="send*")),
        (["a~b c"], Filter(texts=("a~b c",))),
        ([], EVERYTHING),
    ],
)
def test_a_shell_takes_the_quotes_and_every_argument_is_one_word(
    arguments: list[str], meant: Filter
) -> None:
    assert filter_of(arguments) == meant


def test_a_pattern_with_a_space_is_refused_with_what_to_say_for_it() -> None:
    with pytest.raises(InvalidValue, match=r"cannot contain spaces.*use \* instead of them"):
        filter_of(["task:send mail*"])
    with pytest.raises(InvalidValue, match="without one it is a name"):
        Pattern("send")


@pytest.mark.parametrize(
    ("pattern", "name", "fits"),
    [
        ("send*", "send", True),
        ("send*", "send_mail", True),
        ("send*", "resend", False),
        ("*send", "resend", True),
        ("*mail*", "send_mail_now", True),
        ("*mail*", "send_mai", False),
        ("a*a", "a", False),
        ("a*a", "aa", True),
        ("a*b*c", "acbc", True),
        ("a*b*c", "acb", False),
        ("*", "", True),
        ("s*", "Send", False),
        ("s?*", "send", False),
    ],
)
def test_a_star_is_anything_or_nothing(pattern: str, name: str, fits: bool) -> None:
    assert Pattern(pattern).fits(name) is fits


words = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
some = st.none() | words
looks = st.lists(st.text("ab:'~%?[", max_size=3), min_size=2).map("*".join)
names = some | looks.filter(lambda text: text[0] != "'").map(Pattern)


@given(
    st.builds(
        Filter,
        states=st.lists(st.sampled_from(State), unique=True).map(tuple),
        queue=names,
        task=names,
        tenant=names,
        key=names,
        schedule=some,
        error=some,
        tags=st.lists(words, max_size=3).map(tuple),
        texts=st.lists(words.filter(bool), max_size=3).map(tuple),
        since=st.none() | st.timedeltas(min_value=timedelta(0), max_value=timedelta(days=9_000)),
        before=st.none() | st.datetimes(timezones=st.just(UTC)),
    )
)
def test_a_filter_reads_back_from_what_it_shows(wanted: Filter) -> None:
    assert parse_filter(str(wanted)) == wanted
