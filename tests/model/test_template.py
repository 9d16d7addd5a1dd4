"""Templates: arguments by name, nothing else, and never a look inside of them."""

from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.errors import InvalidValue
from duly.model.template import names_in, render


class Colour(Enum):
    RED = "red"


class Secretive:
    password = "hunter2"


@pytest.mark.parametrize(
    ("template", "values", "rendered"),
    [
        ("crm", {}, "crm"),
        ("", {}, ""),
        ("crm:{customer}", {"customer": 7}, "crm:7"),
        ("{a}{b}:{a}", {"a": "x", "b": None}, "xNone:x"),
        ("{{{a}}} and {{b}}", {"a": 1}, "{1} and {b}"),
        ("{a}", {"a": Colour.RED}, "red"),
        ("{a}", {"a": Decimal("1.50")}, "1.50"),
        ("{a}", {"a": UUID(int=1)}, "00000000-0000-0000-0000-000000000001"),
        ("{a} {b}", {"a": date(2027, 1, 3), "b": True}, "2027-01-03 True"),
        ("{a}", {"a": datetime(2027, 1, 3, tzinfo=UTC)}, "2027-01-03 00:00:00+00:00"),
        ("{a}", {"a": "{b}"}, "{b}"),
    ],
)
def test_a_name_is_replaced_by_its_argument(
    template: str, values: dict[str, Any], rendered: str
) -> None:
    assert render(template, values) == rendered


@pytest.mark.parametrize(
    ("template", "values", "refusal"),
    [
        ("crm:{customer}", {"order": 1, "day": 2}, '"customer"; there is order, day'),
        ("crm:{customer}", {}, "there is no arguments"),
        ("crm:{tags}", {"tags": ["a"]}, '"crm:{tags}": "tags" is a list'),
        ("{a.password}", {"a": Secretive()}, "{a.password} is not the name of an argument"),
        ("{a[0]}", {"a": "text"}, "is not the name of an argument"),
        ("{a!r}", {"a": "text"}, "is not the name of an argument"),
        ("{a:>10}", {"a": "text"}, "is not the name of an argument"),
        ("{}", {"": "text"}, "{} is not the name"),
        ("{a", {"a": 1}, "{ is not the name"),
        ("a}", {"a": 1}, "} is not the name"),
    ],
)
def test_anything_but_a_short_value_of_that_name_is_refused(
    template: str, values: dict[str, Any], refusal: str
) -> None:
    with pytest.raises(InvalidValue) as refused:
        render(template, values)
    assert refusal in str(refused.value)


def test_the_names_of_a_template_are_each_told_once() -> None:
    assert names_in("{b}:{a}:{b}:{{c}}") == ("b", "a")


@given(st.text())
def test_a_text_with_its_braces_doubled_is_rendered_as_itself(text: str) -> None:
    assert render(text.replace("{", "{{").replace("}", "}}"), {}) == text
