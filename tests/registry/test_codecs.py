"""Types that JSON has no form for."""

from dataclasses import dataclass
from ipaddress import IPv4Address
from typing import Any

import pytest

from duly.errors import InvalidValue, PayloadError, SignatureChanged
from duly.registry.codecs import codec
from duly.registry.signature import Signature


class Money:
    def __init__(self, text: str) -> None:
        self.cents = int(text.removesuffix(" ct"))

    def __str__(self) -> str:
        return f"{self.cents} ct"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Money) and other.cents == self.cents

    def __hash__(self) -> int:
        return self.cents


class Coin(Money):
    pass


@dataclass
class Bill:
    total: Money


def ping(host: IPv4Address) -> None: ...


def test_a_type_is_kept_once_it_is_said_how() -> None:
    with pytest.raises(
        InvalidValue, match="ping: parameter `host`: IPv4Address cannot be written as JSON"
    ):
        Signature.of(ping, takes_context=False)
    codec(IPv4Address, str, IPv4Address)
    found = Signature.of(ping, takes_context=False)
    host = IPv4Address("10.0.0.1")
    assert found.decode(found.encode((host,), {})) == {"host": host}


def test_a_type_of_ones_own_is_kept_inside_of_others_and_so_are_its_subclasses() -> None:
    codec(Money, str, Money)

    def pay(bill: Bill) -> None: ...

    found = Signature.of(pay, takes_context=False)
    assert found.encode((Bill(Coin("5 ct")),), {}) == '{"bill":{"total":"5 ct"}}'
    assert found.decode('{"bill":{"total":"5 ct"}}') == {"bill": Bill(Money("5 ct"))}


def test_whatever_a_reader_raises_is_a_refusal_with_its_path() -> None:
    codec(Money, str, Money)

    def pay(bill: Bill) -> None: ...

    found = Signature.of(pay, takes_context=False)
    with pytest.raises(
        PayloadError, match=r"pay: argument `bill.total`: AttributeError: 'int' obj"
    ):
        found.encode(({"total": 5},), {})
    with pytest.raises(SignatureChanged, match=r"argument `bill.total`: ValueError: invalid lit"):
        found.decode('{"bill":{"total":"five"}}')


@pytest.mark.parametrize(
    ("kind", "encode"), [("Money", str), (object, str), (Money, "str")], ids=repr
)
def test_a_codec_is_for_a_class_and_has_two_functions(kind: Any, encode: Any) -> None:  # noqa: ANN401
    with pytest.raises(InvalidValue, match="codec"):
        codec(kind, encode, Money)


def test_a_pydantic_model_brings_its_own_way() -> None:
    pydantic = pytest.importorskip("pydantic")

    class Order(pydantic.BaseModel):  # type: ignore[misc, name-defined]
        number: int

    def ship(order: Any) -> None: ...  # noqa: ANN401

    ship.__annotations__["order"] = Order
    found = Signature.of(ship, takes_context=False)
    assert found.decode(found.encode((Order(number=5),), {})) == {"order": Order(number=5)}
    with pytest.raises(PayloadError, match="ship: argument `order`: ValidationError: 1 validation"):
        found.encode(({"number": "five"},), {})
