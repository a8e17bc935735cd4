"""The machine to connect to: a name is resolved once, judged, and that very address used.

A name that answers differently a moment later changes nothing: nobody asks it again.
"""

import ipaddress
import socket
from collections.abc import Sequence
from typing import Final

from integration.endpoints.codes import EndpointCode
from integration.endpoints.port import NotDeliveredError, Unreachable
from integration.resolving import Address, resolved

# Addresses where clouds tell a machine its own credentials: not all of them are link-local.
METADATA: Final = frozenset(
    ipaddress.ip_address(text)
    for text in ("100.100.100.200", "192.0.0.192", "168.63.129.16", "fd00:ec2::254", "fd20:ce::254")
)
# Not among them: what a resolver says that failed, or was not asked.
NO_SUCH_NAME: Final = frozenset({socket.EAI_NONAME, socket.EAI_NODATA})
# What makes a private address a permitted one, where an endpoint leads to it.
PERMIT_IN_ENDPOINT: Final = (
    "Permit private networks in the endpoint if the partner is meant to be there."
)
_NAT64: Final = ipaddress.ip_network("64:ff9b::/96")


def permitted(
    host: str, port: int, seconds: float, *, private: bool, permit: str = PERMIT_IN_ENDPOINT
) -> Sequence[str]:
    """The addresses of a host that may be connected to, in the resolver's order.

    `private` also permits private and loopback networks. Link-local addresses and those where
    clouds hand out credentials are never permitted. `permit` says where a person permits private
    ones. Raises NotDeliveredError within `seconds`.
    """
    addresses = _resolved(host, port, seconds)
    may = [str(address) for address in addresses if not refusal(address, private=private)]
    if may:
        return may
    first = str(addresses[0])
    named = f"{host} is" if host == first else f"{host} is {first}:"
    text = f"{named} {refusal(addresses[0], private=private, permit=permit)}"
    raise NotDeliveredError(Unreachable(code=EndpointCode.ADDRESS_REFUSED, text=text))


def is_unknown_name(problem: NotDeliveredError) -> bool:
    """Whether the resolver said that there is no such name; an answer that is late says nothing."""
    why = problem.__cause__
    return isinstance(why, socket.gaierror) and why.errno in NO_SUCH_NAME


def refusal(address: Address, *, private: bool, permit: str = PERMIT_IN_ENDPOINT) -> str:
    """Return why this address is not connected to; empty when it is.

    >>> refusal(ipaddress.ip_address("169.254.169.254"), private=True)
    'a link-local address, or one of a cloud for its own machines; it is never connected to.'
    """
    real = _inner(address)
    if real.is_link_local or real in METADATA:
        return (
            "a link-local address, or one of a cloud for its own machines; it is never connected "
            "to."
        )
    if real.is_multicast or real.is_unspecified or (real.is_reserved and not real.is_private):
        return "no address of a machine."
    if not real.is_global and not private:
        return f"a private or loopback address. {permit}"
    return ""


def _inner(address: Address) -> Address:
    """The IPv4 address that an IPv6 one stands for, where it does."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    inner = address.ipv4_mapped or address.sixtofour
    return inner or address


def _resolved(host: str, port: int, seconds: float) -> list[Address]:
    try:
        return resolved(host, port, seconds)
    except TimeoutError as problem:
        text = f"The name {host} was not resolved within {seconds:g} seconds."
        raise _not_found(text) from problem
    except OSError as problem:
        text = f"The name {host} has no address: {problem.strerror or 'no address'}."
        raise _not_found(text) from problem


def _not_found(text: str) -> NotDeliveredError:
    return NotDeliveredError(Unreachable(code=EndpointCode.NAME_NOT_FOUND, text=text))
