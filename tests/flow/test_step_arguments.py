"""What a step is given when it starts, and what is refused with a sentence."""

import pytest

from duly.errors import InvalidValue, PayloadError
from duly.flow.step_arguments import (
    StoredPlan,
    Values,
    filled,
)
from duly.model.flow import MOST_FILLED, Awaited, Fill, Over, Source
from duly.model.payload import Json, encode

ROWS = Source(step=0)


def plan(args: object, *fills: Fill, **changes: object) -> StoredPlan:
    return StoredPlan(call={"args": encode(args)}, fills=fills, **changes)  # type: ignore[arg-type]


def test_results_are_put_where_they_belong_also_inside_of_lists() -> None:
    fill = Fill(("parts", 1), Source(step=3, is_list=True))
    values = Values({}, {3: [Json("1"), None, Json("[2]")]})
    [one] = filled(plan({"parts": ["a", None]}, fill), values)
    assert one.args == '{"parts":["a",[1,null,[2]]]}'


def test_an_argument_of_the_flow_that_was_not_given_is_its_default() -> None:
    fill = Fill(("day",), Source(argument="day", default="today"))
    assert filled(plan({"day": None}, fill), Values({}))[0].args == '{"day":"today"}'
    assert filled(plan({"day": None}, fill), Values({"day": None}))[0].args == '{"day":null}'


def test_titles_and_limits_are_made_from_the_arguments() -> None:
    lane = (
        '[{"name":"crm:{who}","template":"crm:{who}","concurrency":1,"count":null,"period":null}]'
    )
    asked = StoredPlan(
        call={"args": "{}", "title": "for {who}", "limits": lane}, defaults={"who": 7}
    )
    [one] = filled(asked, Values({}))
    assert one.title == "for 7"
    assert '"name":"crm:7"' in (one.limits or "")


def test_a_key_that_no_database_keeps_is_refused() -> None:
    """It would end whatever transaction starts the step."""
    awaited = Awaited("order.approved", "order:{order}")
    with pytest.raises((InvalidValue, PayloadError), match="the maximum is 500"):
        filled(plan({"order": "x" * 6_000}, awaited=awaited), Values({}))


def test_what_all_parts_take_together_is_bounded() -> None:
    over = Over("item", items=encode([*range(20)]))
    shared = {"table": "x" * (MOST_FILLED // 18), "item": None}
    asked = StoredPlan(call={"args": encode(shared, longest=MOST_FILLED)}, over=over)
    with pytest.raises(InvalidValue, match="pass a reference"):
        filled(asked, Values({}))


@pytest.mark.parametrize(
    ("came", "said"),
    [("null", "nothing"), ('{"a": 1}', "an object"), ('"x"', "a text"), ("7", "a number")],
)
def test_what_is_no_list_has_no_items(came: str, said: str) -> None:
    asked = plan({"item": None}, over=Over("item", source=ROWS))
    with pytest.raises(InvalidValue, match=f"but got {said}"):
        filled(asked, Values({}, {0: [Json(came)]}))
