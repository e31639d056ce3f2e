"""Which network addresses the gateway may connect to: public ones, whatever form they are written in."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Final

SPECIAL_V4: Final = tuple(
    map(
        ip_network,
        (
            "0.0.0.0/8",  # this network
            "10.0.0.0/8",  # private
            "100.64.0.0/10",  # carrier NAT; metadata of some clouds
            "127.0.0.0/8",  # loopback
            "168.63.129.16/32",  # a public address that one cloud answers on inside of it
            "169.254.0.0/16",  # link-local; metadata of most clouds
            "172.16.0.0/12",  # private
            "192.0.0.0/24",  # protocol assignments; metadata of some clouds
            "192.0.2.0/24",  # documentation
            "192.31.196.0/24",  # AS112
            "192.52.193.0/24",  # AMT
            "192.88.99.0/24",  # relays of 6to4
            "192.168.0.0/16",  # private
            "192.175.48.0/24",  # AS112
            "198.18.0.0/15",  # benchmarks
            "198.51.100.0/24",  # documentation
            "203.0.113.0/24",  # documentation
            "224.0.0.0/4",  # multicast
            "240.0.0.0/4",  # reserved, and broadcast
        ),
    )
)
GLOBAL_V6: Final = ip_network("2000::/3")
"""All that is global unicast. Mapped, compatible, translated (NAT64) and link-local addresses lie outside of it."""
SPECIAL_V6: Final = tuple(
    map(
        ip_network,
        (
            "2001::/23",  # protocol assignments: Teredo, ORCHID, benchmarks
            "2001:db8::/32",  # documentation
            "2002::/16",  # 6to4, which holds any IPv4 address
            "2620:4f:8000::/48",  # AS112
            "3fff::/20",  # documentation
        ),
    )
)


def is_public(address: str) -> bool:
    """Whether an address as the resolver gave it belongs to the public network.

    The tables are our own, since ``ipaddress`` takes multicast, NAT64, 6to4, IPv4-compatible and site-local addresses
    for global ones; what a newer Python knows beyond them is refused too.
    """
    try:
        found = ip_address(address)
    except ValueError:
        return False
    return found.is_global and not found.is_multicast and _ordinary(found)


def _ordinary(address: IPv4Address | IPv6Address) -> bool:
    if isinstance(address, IPv4Address):
        return not any(address in network for network in SPECIAL_V4)
    return address in GLOBAL_V6 and not address.scope_id and not any(address in network for network in SPECIAL_V6)
