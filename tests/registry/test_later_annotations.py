"""Annotations that are text, and names that are defined only later."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pytest

from duly.errors import InvalidValue, PayloadError
from duly.registry.signature import Signature

if TYPE_CHECKING:
    from decimal import Decimal

    from duly.registry.context import Context


def early(order: Order, items: list[Item]) -> None: ...
def pay(amount: Decimal) -> None: ...
def wait(until: datetime) -> None: ...
def ask(context: Context, to: str) -> None: ...
def mixed(when: datetime | str) -> None: ...


EARLY = Signature.of(early, takes_context=False)


@dataclass
class Order:
    number: int
    first: Item


@dataclass
class Item:
    name: str


def test_text_is_read_as_the_type_it_names() -> None:
    found = Signature.of(wait, takes_context=False)
    with pytest.raises(PayloadError, match="wait: argument `until`: expected datetime, got int"):
        found.encode((5,), {})


def test_a_type_defined_below_its_task_is_found_at_first_use() -> None:
    found = EARLY.decode(EARLY.encode((Order(1, Item("a")), [Item("b")]), {}))
    assert found == {"order": Order(1, Item("a")), "items": [Item("b")]}
    with pytest.raises(
        PayloadError, match=r"early: argument `order.number`: expected int, got str"
    ):
        EARLY.encode(({"number": "x", "first": {"name": "a"}}, []), {})


def test_a_name_that_is_never_defined_is_told_at_first_use() -> None:
    found = Signature.of(pay, takes_context=False)
    with pytest.raises(InvalidValue, match=r"pay: .*'Decimal' is not defined; .*TYPE_CHECKING"):
        found.encode((1,), {})


def test_the_context_needs_no_import_at_run_time() -> None:
    found = Signature.of(ask, takes_context=True)
    assert found.encode(("ada",), {}) == '{"to":"ada"}'
    with pytest.raises(InvalidValue, match="set takes_context=True"):
        Signature.of(ask, takes_context=False)


def test_an_impossible_type_is_refused_at_once_though_it_is_text() -> None:
    with pytest.raises(InvalidValue, match="mixed: parameter `when`"):
        Signature.of(mixed, takes_context=False)


def test_a_signature_is_shown_without_quotes_around_its_types() -> None:
    with pytest.raises(PayloadError, match=r"^wait\(until: datetime\): missing"):
        Signature.of(wait, takes_context=False).encode((), {})


def test_the_same_signature_has_the_same_fingerprint_however_it_is_written() -> None:
    def wait(until: Any) -> None: ...  # noqa: ANN401

    wait.__annotations__["until"] = datetime
    written = Signature.of(wait, takes_context=False)
    assert Signature.of(globals()["wait"], takes_context=False).fingerprint == written.fingerprint
