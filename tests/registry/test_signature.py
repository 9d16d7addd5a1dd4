"""Arguments on their way in and out: what comes back, and how a refusal says which one is wrong."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from functools import partial, wraps
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, NoReturn, TypedDict
from uuid import UUID
from zoneinfo import ZoneInfo

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.errors import InvalidValue, PayloadError, SignatureChanged
from duly.model.payload import DEEPEST, LONGEST_ARGS, decode
from duly.registry.context import Context
from duly.registry.signature import Signature

NOON = datetime(2027, 1, 3, 12, tzinfo=UTC)
NOT_A_NUMBER = math.nan


@dataclass
class Address:
    street: str
    zip: int


@dataclass
class Phone:
    number: str


@dataclass
class Tree:
    children: list["Tree"] = field(default_factory=list)


class Colour(Enum):
    RED = "red"


class Point(NamedTuple):
    x: int
    y: int


class Options(TypedDict, total=False):
    depth: int


def send(to: str, amount: int, rate: float = 1.0) -> int: ...  # type: ignore[empty-body]
def post(to: Address, *, copies: int = 1) -> Address: ...  # type: ignore[empty-body]
def keep(value, other=None): ...  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
def note(payload: dict[str, Any], **more: int) -> None: ...
def gather(**anything: Any) -> None: ...
def log(line: str, /) -> None: ...
def total(*numbers: int) -> None: ...
def with_context(context: Context, to: str) -> None: ...
def bare() -> None: ...
def decorated(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def inner(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        return function(*args, **kwargs)

    return inner


def signature(function: Callable[..., object], *, takes_context: bool = False) -> Signature:
    return Signature.of(function, takes_context=takes_context)


def taking(kind: object) -> Signature:
    """Of a function with one parameter, of that type."""

    def take(value: object) -> object: ...

    take.__annotations__.update({"value": kind, "return": kind})
    return signature(take)


def refusal(found: Signature, *args: object, **kwargs: object) -> str:
    with pytest.raises(PayloadError) as refused:
        found.encode(args, kwargs)
    return str(refused.value)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (int, 7),
        (float, 7.5),
        (str, 'ü "quoted" \n'),
        (bool, True),
        (int | None, None),
        (bytes, b"\x00\xff"),
        (datetime, NOON),
        (date, date(2027, 1, 3)),
        (timedelta, timedelta(minutes=62)),
        (Decimal, Decimal("1.50")),
        (UUID, UUID(int=5)),
        (Colour, Colour.RED),
        (Literal["a", "b"], "b"),
        (list[Address], [Address("a", 1)]),
        (dict[int, datetime], {5: NOON}),
        (set[int], {1, 2}),
        (tuple[int, str], (1, "x")),
        (Point, Point(1, 2)),
        (Options, {"depth": 3}),
        (Tree, Tree([Tree(), Tree([Tree()])])),
        (Path, Path("tmp/x")),
        (Path | None, None),
        (list[ZoneInfo], [ZoneInfo("Europe/Berlin")]),
        (Sequence[float], [1.5]),
        (Mapping[str, object], {"a": [1, None]}),
        (object, {"a": 1}),
        (Annotated[int, msgspec.Meta(ge=0)], 5),
    ],
    ids=str,
)
def test_a_value_comes_back_as_what_it_was(kind: object, value: object) -> None:
    found = taking(kind)
    assert found.decode(found.encode((value,), {})) == {"value": value}
    assert found.decode_result(found.encode_result(value)) == value


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])), inner
        )
    ),
    max_leaves=10,
)


@given(json_values)
def test_plain_json_comes_back_from_a_parameter_without_a_type(value: object) -> None:
    found = signature(keep)
    assert found.decode(found.encode((value,), {})) == {"value": value}


def test_arguments_are_kept_by_name_and_without_defaults() -> None:
    assert signature(send).encode(("ada", 5), {}) == '{"to":"ada","amount":5}'
    assert signature(send).encode((), {"amount": 5, "to": "ada"}) == '{"amount":5,"to":"ada"}'
    assert signature(bare).encode((), {}) == "{}"


@pytest.mark.parametrize(
    ("args", "kwargs", "what"),
    [
        (("ada",), {}, "missing a required argument: 'amount'"),
        (("ada", 5, 1.0, 7), {}, "too many positional arguments"),
        (("ada", 5), {"to": "bob"}, "multiple values for argument 'to'"),
        (("ada", 5), {"cc": "bob"}, "got an unexpected keyword argument 'cc'"),
    ],
)
def test_arguments_that_python_would_refuse_are_refused_with_the_signature(
    args: tuple[object, ...], kwargs: dict[str, object], what: str
) -> None:
    said = refusal(signature(send), *args, **kwargs)
    assert said == f"send(to: str, amount: int, rate: float = 1.0): {what}"


@pytest.mark.parametrize(
    ("found", "value", "where"),
    [
        (signature(send), "five", "send: argument `amount`: expected int, got str"),
        (signature(send), None, "send: argument `amount`: expected int, got None"),
        (signature(send), True, "send: argument `amount`: expected int, got bool"),
        (signature(send), [5], "send: argument `amount`: expected int, got list"),
    ],
)
def test_a_wrong_type_is_told_with_its_argument(
    found: Signature, value: object, where: str
) -> None:
    assert refusal(found, "ada", value) == where


def test_a_wrong_type_deep_inside_is_told_with_its_path() -> None:
    said = refusal(signature(post), Address("Main", "4711"))  # type: ignore[arg-type]
    assert said == "post: argument `to.zip`: expected int, got str"
    said = refusal(signature(post), {"street": "Main"})
    assert said == "post: argument `to`: object missing required field `zip`"


def test_a_constraint_is_kept() -> None:
    said = refusal(taking(Annotated[int, msgspec.Meta(ge=0)]), -1)
    assert said == "take: argument `value`: expected int >= 0"


def nested(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels - 1):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("kind", "value", "what"),
    [
        (float, NOT_A_NUMBER, "`value`: nan is not a number in JSON"),
        (float | None, math.inf, "`value`: inf is not a number in JSON"),
        (list[float | None], [None, -math.inf], "`value[1]`: -inf is not a number"),
        (Any, {"a": [NOT_A_NUMBER]}, "`value.a[0]`: nan is not a number"),
        (str, "a\0b", "`value`: 'a\\x00b' contains a NUL character"),
        (dict[str, int], {"a\0": 1}, "NUL character"),
        (str, "\ud800", "`value`: the text contains a lone surrogate"),
        (int, 2**63, "`value`: 9223372036854775808 does not fit in 64 bits"),
        (str, "x" * LONGEST_ARGS, "bytes of JSON"),
        (Any, nested(DEEPEST), "more than 64 levels deep"),
        (list[Any], nested(DEEPEST), "more than 64 levels deep"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_what_a_database_would_not_give_back_is_refused(
    kind: object, value: object, what: str
) -> None:
    assert what in refusal(taking(kind), value)


def test_what_only_looks_suspicious_is_kept() -> None:
    found = signature(send)
    assert found.encode(("null \\u0000 1234567890123456789012", 2**63 - 1), {})


def test_a_tree_that_never_ends_is_refused() -> None:
    endless = Tree()
    endless.children.append(endless)
    assert (
        refusal(taking(Tree), endless) == "take: argument `value`: nested more than 64 levels deep"
    )


@pytest.mark.parametrize("value", [NOON, {"at": NOON}, [Address("a", 1)], {1: "a"}], ids=repr)
def test_what_would_come_back_as_something_else_is_refused_where_no_type_is_said(
    value: object,
) -> None:
    assert "take: argument `value" in refusal(taking(dict[str, Any] | list[Any] | Any), value)
    assert "keep: argument `value" in refusal(signature(keep), value)
    assert "gather: argument `value" in refusal(signature(gather), value=value)


def test_a_value_that_has_no_form_in_json_is_told_with_what_to_do() -> None:
    said = refusal(signature(send), 1j, 5)
    assert said.startswith(
        "send: argument `to`: complex cannot be written as JSON: make it a dataclass"
    )


def test_what_kwargs_take_is_checked_and_comes_back() -> None:
    found = signature(note)
    assert found.decode(found.encode(({"a": 1},), {"x": 5})) == {"payload": {"a": 1}, "x": 5}
    assert refusal(found, {}, x="five") == "note: argument `x`: expected int, got str"


def test_a_parameter_added_with_a_default_is_left_to_python() -> None:
    assert signature(send).decode('{"to":"ada","amount":5}') == {"to": "ada", "amount": 5}


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (
            '{"to":"a","amount":5,"cc":"b"}',
            "has `to`, `amount`, `cc`, .*: it has no parameter `cc`",
        ),
        ('{"to":"a"}', "the job has `to`, but the task is send.*: the job has no `amount`"),
        ('{"to":"a","amount":"5"}', "argument `amount`: expected int, got str"),
        ("{}", "the job has no arguments, but the task is send"),
        ("[1]", r"the job has \[1\], but the task is"),
        ("{", "the job has {, but the task is"),
        ('{"to":"a","amount":NaN}', "malformed"),
        ("[" * 100_000, "the task is"),
    ],
)
def test_arguments_that_do_not_fit_any_more_are_not_tried(text: str, what: str) -> None:
    with pytest.raises(SignatureChanged, match=what):
        signature(send).decode(text)


def test_a_stored_text_that_is_bottomless_is_not_tried() -> None:
    with pytest.raises(SignatureChanged, match="the task is keep"):
        signature(keep).decode('{"value":' + "[" * 100_000)


def test_what_a_job_has_too_much_goes_to_kwargs() -> None:
    assert signature(note).decode('{"payload":{},"cc":3}') == {"payload": {}, "cc": 3}
    with pytest.raises(SignatureChanged, match="argument `cc`: expected int, got str"):
        signature(note).decode('{"payload":{},"cc":"x"}')


def test_the_values_a_function_will_see_include_its_defaults() -> None:
    assert signature(send).values('{"to":"ada","amount":5}') == {
        "to": "ada",
        "amount": 5,
        "rate": 1.0,
    }


def test_a_context_is_no_argument() -> None:
    found = signature(with_context, takes_context=True)
    assert found.decode(found.encode(("ada",), {})) == {"to": "ada"}


def test_a_context_without_takes_context_is_refused_with_what_to_say() -> None:
    with pytest.raises(InvalidValue, match=r"`context` is a Context, .*: set takes_context=True"):
        signature(with_context)


def test_a_context_needs_a_parameter_to_go_to() -> None:
    with pytest.raises(InvalidValue, match=r"def bare\(context: Context"):
        signature(bare, takes_context=True)


@pytest.mark.parametrize(
    ("function", "what"),
    [
        (total, r"\*numbers: arguments are stored by name.*take a list, numbers: list"),
        (log, '`line` is positional-only.*remove the "/"'),
        (dict, "its signature cannot be inspected"),
    ],
)
def test_parameters_that_have_no_names_are_refused(
    function: Callable[..., object], what: str
) -> None:
    with pytest.raises(InvalidValue, match=what):
        signature(function)


@pytest.mark.parametrize(
    ("kind", "what"),
    [
        (datetime | str, "parameter `value`: .*more than one of its types is a string.*choose one"),
        (Address | Phone, "parameter `value`: .*more than one dataclass.*give them tags"),
        (Path | int, "parameter `value`"),
        (list[complex], "parameter `value`: complex cannot be written as JSON: .*codec"),
        (Callable[[], int], "parameter `value`: Callable cannot be written as JSON"),
    ],
    ids=str,
)
def test_a_type_that_cannot_be_read_back_is_refused_at_once(kind: object, what: str) -> None:
    with pytest.raises(InvalidValue, match=f"take: {what}"):
        taking(kind)


def gives_complex() -> complex: ...  # type: ignore[empty-body]
def never() -> NoReturn: ...  # type: ignore[empty-body]


def test_a_result_that_cannot_be_kept_is_refused_at_once_unless_nobody_wants_it() -> None:
    with pytest.raises(
        InvalidValue, match="gives_complex: its result: complex cannot be written as JSON"
    ):
        signature(gives_complex)
    unwanted = Signature.of(gives_complex, takes_context=False, keeps_result=False)
    assert not unwanted.parameters.required


def test_a_function_that_never_returns_is_a_task_too() -> None:
    assert not signature(never).parameters.required


def test_a_result_is_typed_by_the_annotation() -> None:
    found = signature(post)
    assert found.decode_result('{"street":"Main","zip":1}') == Address("Main", 1)
    with pytest.raises(PayloadError, match=r"post: its result does not match .*expected object"):
        found.decode_result("3")


@pytest.mark.parametrize(
    ("value", "what"),
    [
        (1j, "send: its result cannot be stored: complex cannot be written as JSON"),
        ([NOT_A_NUMBER], r"send: its result\[0\]: nan is not a number"),
        ("x" * 2**21, "send: its result: more than the maximum of 1,048,576 bytes"),
    ],
    ids=["complex", "nan", "long"],
)
def test_a_result_that_cannot_be_kept_is_refused(value: object, what: str) -> None:
    with pytest.raises(PayloadError, match=what):
        signature(send).encode_result(value)


def test_no_result_is_null() -> None:
    assert signature(bare).encode_result(None) == "null"
    assert signature(bare).decode_result("null") is None


def test_parameters_with_defaults_are_not_required() -> None:
    assert not signature(bare).parameters.required
    assert not signature(gather).parameters.required
    assert signature(send).parameters.required


def test_what_stands_around_a_function_is_looked_through() -> None:
    assert refusal(signature(decorated(send)), "a", "x") == (
        "send: argument `amount`: expected int, got str"
    )
    assert signature(partial(send, "ada")).encode((), {"amount": 5}) == '{"amount":5}'


def same(to: str, amount: int, rate: float = 2.0) -> str: ...  # type: ignore[empty-body]
def retyped(to: str, amount: str, rate: float = 1.0) -> int: ...  # type: ignore[empty-body]
def renamed(to: str, sum_: int, rate: float = 1.0) -> int: ...  # type: ignore[empty-body]
def stricter(to: str, amount: int, rate: float) -> int: ...  # type: ignore[empty-body]
def wider(to: str, amount: int, rate: float = 1.0, **more: int) -> int: ...  # type: ignore[empty-body]


def test_a_fingerprint_changes_with_what_is_taken_and_not_with_what_is_given() -> None:
    of_send = signature(send).fingerprint
    assert signature(same).fingerprint == of_send
    others = {signature(each).fingerprint for each in (retyped, renamed, stricter, wider)}
    assert len(others | {of_send}) == 5


def test_a_fingerprint_is_the_same_in_every_process() -> None:
    assert signature(send).fingerprint == "941c0aa901e2"


def test_a_fingerprint_sees_the_fields_of_a_dataclass() -> None:
    @dataclass
    class Order:
        number: int

    before = taking(list[Order]).fingerprint

    @dataclass
    class Order:  # type: ignore[no-redef]
        number: int
        gift: bool = False

    assert taking(list[Order]).fingerprint != before
    assert taking(Tree).fingerprint != taking(Colour).fingerprint


def test_the_text_is_compact_json_in_utf8() -> None:
    text = signature(send).encode(("Zoë", 5), {})
    assert decode(text) == {"to": "Zoë", "amount": 5}
    assert " " not in text
    assert "Zoë" in text
