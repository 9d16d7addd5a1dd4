"""Where requests may go: the addresses that nobody may reach by asking for them in another way."""

from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest

from duly.builtin.network_guard import NetworkGuard, Resolve, resolved, why_not
from duly.errors import InvalidValue, Permanent

# Written by number in every way that the system's resolver reads, too.
INSIDE = [
    "127.0.0.1", "127.1", "127.255.255.254", "2130706433", "0x7f000001", "0177.0.0.1", "0",
    "0.0.0.0", "10.0.0.1", "10.255.255.255", "172.16.0.1", "172.31.255.255", "192.168.1.1",  # noqa: S104 - nobody listens
    "169.254.169.254", "169.254.0.1", "100.64.0.1", "192.0.0.1", "192.0.2.1", "198.18.0.1",
    "198.51.100.1", "203.0.113.1", "192.88.99.1", "224.0.0.1", "239.255.255.255", "240.0.0.1",
    "255.255.255.255", "::", "::1", "::ffff:127.0.0.1", "::ffff:7f00:1", "::ffff:10.0.0.1",
    "::ffff:169.254.169.254", "::127.0.0.1", "::7f00:1", "::a00:1", "::808:808", "2002:7f00:1::",
    "2002:a00:1::1", "2002:a9fe:a9fe::", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::a00:1", "2001:0:7f00:1::", "2001:db8::1", "fc00::1", "fd00:ec2::254", "fe80::1",
    "fec0::1", "ff02::1", "ff0e::1", "100::1", "4000::1", "::ffff:0:127.0.0.1",
    "192.0.0.9", "192.0.0.10", "192.0.0.192", "::ffff:192.0.0.192", "2002:c000:c0::",
    "64:ff9b::c000:c0", "168.63.129.16", "::ffff:168.63.129.16", "2002:a83f:8110::1",
    "64:ff9b::a83f:8110", "100.100.100.200", "::ffff:100.100.100.200", "0.1.2.3", "198.19.255.255",
    "3fff::1", "3fff:fff:ffff::1", "3ffe::1", "5f00::1", "2001::1", "2001:1::1", "2001:2::1",
    "2001:4:112::1", "2001:10::1", "2001:20::1", "2001:1ff::1", "2606:4700::5efe:10.0.0.1",
    "2606:4700::200:5efe:169.254.169.254", "2002:c0a8:101::1", "fe80::1234:5678:9abc",
    "fd20:ce::254", "100:0:0:1::1",
]  # fmt: skip

OUTSIDE = [
    "1.1.1.1", "8.8.8.8", "172.32.0.1", "172.15.255.255", "9.255.255.255", "100.128.0.1",
    "192.167.255.255", "2606:4700:4700::1111", "2001:4860:4860::8888", "::ffff:8.8.8.8",
    "2002:808:808::1", "64:ff9b::808:808", "168.63.129.15", "168.63.129.17", "192.0.1.1",
    "192.88.98.255", "198.17.255.255", "198.20.0.1", "223.255.255.255", "3fff:1000::1",
    "2001:200::1", "2001:db7::1", "2606:4700::5efe:8.8.8.8", "2620:4f:8000::1",
]  # fmt: skip


def named(*addresses: str) -> Resolve:
    """A resolver for which every name has these addresses."""

    async def resolve(host: str, port: int) -> list[str]:
        return list(addresses)

    return resolve


@pytest.mark.parametrize("host", INSIDE)
async def test_what_is_inside_is_not_reached(host: str) -> None:
    with pytest.raises(Permanent, match="a job may only reach public addresses"):
        await NetworkGuard().addresses(host, 80)


async def test_nor_by_a_name() -> None:
    said = r"localhost, at (127\.0\.0\.1|::1), is loopback.* the worker with --allow-networks$"
    with pytest.raises(Permanent, match=said):
        await NetworkGuard().addresses("localhost", 80)


@pytest.mark.parametrize("address", INSIDE)
async def test_nor_by_a_name_of_somebody_else(address: str) -> None:
    [as_resolved, *_] = await resolved(address, 80)
    with pytest.raises(Permanent, match=r"^rebound\.example, at .*, is "):
        await NetworkGuard(resolve=named(as_resolved)).addresses("rebound.example", 80)


@pytest.mark.parametrize("address", ["fe80::1%eth0", "::1%lo", "::ffff:127.0.0.1%1"])
async def test_nor_through_an_interface(address: str) -> None:
    with pytest.raises(Permanent):
        await NetworkGuard(resolve=named(address)).addresses("rebound.example", 80)


@pytest.mark.parametrize("address", OUTSIDE)
async def test_what_is_public_is_reached(address: str) -> None:
    found = await NetworkGuard(resolve=named(address)).addresses("example.com", 80)
    assert found == [str(ip_address(address))]


async def test_of_several_addresses_only_the_public_ones_are_left() -> None:
    guard = NetworkGuard(resolve=named("10.0.0.1", "8.8.8.8", "::1", "1.1.1.1"))
    assert await guard.addresses("example.com", 80) == ["8.8.8.8", "1.1.1.1"]


async def test_a_name_without_an_address_is_refused() -> None:
    for guard in (NetworkGuard(resolve=named()), NetworkGuard(["nobody.example"], resolve=named())):
        with pytest.raises(Permanent, match=r"nobody\.example has no address"):
            await guard.addresses("nobody.example", 80)


@pytest.mark.parametrize(
    ("allowed", "address", "is_reached"),
    [
        ("10.1.0.0/16", "10.1.2.3", True),
        ("10.1.0.0/16", "::ffff:10.1.2.3", True),
        ("10.1.0.0/16", "10.2.0.1", False),
        ("10.1.2.3", "10.1.2.3", True),
        ("10.1.2.3", "10.1.2.4", False),
        ("fd00::/8", "fd12::1", True),
        ("fd00::/8", "127.0.0.1", False),
        ("hooks.internal", "10.1.2.3", True),
        ("Hooks.Internal.", "10.1.2.3", True),
        ("internal", "10.1.2.3", False),
        ("other.hooks.internal", "10.1.2.3", False),
    ],
)
async def test_the_operator_may_allow_names_and_networks(
    allowed: str, address: str, is_reached: bool
) -> None:
    guard = NetworkGuard([allowed], resolve=named(address))
    if is_reached:
        found = await guard.addresses("hooks.internal", 80)
        assert found == [str(ip_address(address))]
    else:
        with pytest.raises(Permanent):
            await guard.addresses("hooks.internal", 80)


@pytest.mark.parametrize("word", ["10.1.0.0/33", "10.1.0.1/16", "10.1", "*.internal", "", "a b"])
def test_what_is_neither_a_network_nor_a_name_is_refused(word: str) -> None:
    with pytest.raises(InvalidValue, match=r"is neither a network, .* nor the name of a host"):
        NetworkGuard([word])


def test_one_text_is_not_several() -> None:
    with pytest.raises(InvalidValue, match=r'several of them, as \["10\.0\.0\.0/8"\]'):
        NetworkGuard("10.0.0.0/8")


def test_the_interpreter_is_not_asked_what_is_public(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its tables differ from one release of Python to the next."""
    asked = property(lambda _: pytest.fail("the tables of ipaddress were asked"))
    for kind in (IPv4Address, IPv6Address):
        for name in dir(kind):
            if name.startswith("is_") or name in ("ipv4_mapped", "sixtofour", "teredo"):
                monkeypatch.setattr(kind, name, asked)
    for address in (*INSIDE, *OUTSIDE):
        with suppress(ValueError):  # a number that only the system's resolver reads
            why_not(ip_address(address))
