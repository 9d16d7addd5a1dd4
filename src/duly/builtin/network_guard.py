"""The addresses that the ``http`` task may reach: public ones, and those the operator allows.

Everybody who may write a schedule chooses the URL, and the worker is inside the network: without
this guard, its neighbours, its own ports and the metadata service of the cloud would be reachable.

A name is judged by the addresses it resolves to, and the connection is made to exactly the address
that was judged: a second lookup could return another one. An IPv6 address that contains an IPv4 one
(mapped, 6to4, NAT64, ISATAP) is judged by that.

The tables are our own, after IANA's registries of special addresses: those of ``ipaddress`` differ
between releases of Python, and know nothing of addresses with a special meaning in clouds.
"""

import asyncio
import re
import socket
from collections.abc import Awaitable, Callable, Sequence
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from typing import Final, TypeAlias

from duly.errors import InvalidValue, Permanent

Address: TypeAlias = IPv4Address | IPv6Address
Resolve: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]

_NAME = re.compile(r"(?!-)[a-z0-9_-]+(?:\.[a-z0-9_-]+)*", re.ASCII)
_LOWEST_32: Final = 2**32 - 1

# The first network that contains an address counts.
_NOT_PUBLIC: Final = tuple(
    (ip_network(network), why)
    for network, why in (
        ("0.0.0.0/8", "unspecified"),
        ("10.0.0.0/8", "private"),
        ("100.64.0.0/10", "shared by customers of a provider"),
        ("127.0.0.0/8", "loopback"),
        ("168.63.129.16/32", "a service of the cloud for its machines"),  # Azure's
        ("169.254.0.0/16", "link-local"),
        ("172.16.0.0/12", "private"),
        ("192.0.0.0/24", "reserved"),  # Oracle's metadata service among them
        ("192.0.2.0/24", "for documentation"),
        ("192.88.99.0/24", "a relay of 6to4"),
        ("192.168.0.0/16", "private"),
        ("198.18.0.0/15", "for benchmarks"),
        ("198.51.100.0/24", "for documentation"),
        ("203.0.113.0/24", "for documentation"),
        ("224.0.0.0/4", "multicast"),
        ("240.0.0.0/4", "reserved"),
        ("::/128", "unspecified"),
        ("::1/128", "loopback"),
        ("fc00::/7", "private"),
        ("fe80::/10", "link-local"),
        ("fec0::/10", "private"),
        ("ff00::/8", "multicast"),
        ("2001::/23", "reserved"),  # Teredo among them, which leads to any address
        ("2001:db8::/32", "for documentation"),
        ("3ffe::/16", "reserved"),
        ("3fff::/20", "for documentation"),
    )
)
_UNICAST: Final = IPv6Network("2000::/3")  # all public unicast addresses
# IPv6 networks whose addresses contain an IPv4 address, and its distance from the right in bits.
_LEADING: Final = (
    (IPv6Network("::ffff:0:0/96"), 0),  # mapped
    (IPv6Network("64:ff9b::/96"), 0),  # NAT64
    (IPv6Network("2002::/16"), 80),  # 6to4
)
_ISATAP: Final = (0x0000_5EFE, 0x0200_5EFE)  # before an IPv4 address, in any network


async def resolved(host: str, port: int) -> Sequence[str]:
    """Resolve a host with the system's resolver, in its order."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(place[0]) for *_, place in found))


class NetworkGuard:
    """``allowed`` are host names and networks that may be reached although they are private."""

    def __init__(self, allowed: Sequence[str] = (), *, resolve: Resolve = resolved) -> None:
        if isinstance(allowed, str):
            raise InvalidValue(f'networks="{allowed}": several of them, as ["{allowed}"]')
        self._resolve = resolve
        self._names: set[str] = set()
        self._networks: list[IPv4Network | IPv6Network] = []
        for word in allowed:
            self._allow(word)

    async def addresses(self, host: str, port: int) -> list[str]:
        """Return the addresses of a host that may be reached; raise ``Permanent`` if none may."""
        found = [ip_address(text) for text in await self._resolve(host, port)]
        is_named = host in self._names
        good = [str(address) for address in found if is_named or self._is_good(address)]
        if not good:
            raise Permanent(_refusal(host, found))
        return good

    def _is_good(self, address: Address) -> bool:
        return why_not(address) is None or any(
            either in network for network in self._networks for either in (address, meant(address))
        )

    def _allow(self, word: str) -> None:
        name = word.lower().removesuffix(".")
        try:
            self._networks.append(ip_network(name))
        except ValueError as error:
            is_name = _NAME.fullmatch(name) and not re.fullmatch(r"[\d.]+", name)
            if not is_name:
                raise InvalidValue(
                    f'networks: "{word}" is neither a network, as "10.1.0.0/16", nor the name of '
                    f'a host, as "hooks.internal": {error}'
                ) from None
            self._names.add(name)


def why_not(address: Address) -> str | None:
    """Return why an address is not public, or None if it is."""
    real = meant(address)
    if real != address:
        why = why_not(real)
        return None if why is None else f"{why} ({real})"
    for network, why in _NOT_PUBLIC:
        if address in network:
            return why
    return None if address.version == 4 or address in _UNICAST else "not public"


def meant(address: Address) -> Address:
    """Return the IPv4 address inside an IPv6 address, or the address itself."""
    if isinstance(address, IPv4Address):
        return address
    for network, place in _LEADING:
        if address in network:
            return IPv4Address(int(address) >> place & _LOWEST_32)
    if int(address) >> 32 & _LOWEST_32 in _ISATAP:
        return IPv4Address(int(address) & _LOWEST_32)
    return address


def _refusal(host: str, found: Sequence[Address]) -> str:
    if not found:
        return f"{host} has no address"
    where = host if host == str(found[0]) else f"{host}, at {found[0]},"
    return (
        f"{where} is {why_not(found[0])}, and a job may only reach public addresses; "
        f'to allow "{host}" or its network, start the worker with --allow-networks'
    )
