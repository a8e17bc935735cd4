"""The forward proxy of an endpoint over HTTP: which one it is, for which hosts, what it is told."""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network
from typing import Final
from urllib.parse import urlsplit

from django.conf import settings

from integration.endpoints.codes import EndpointCode
from integration.endpoints.port import NotDeliveredError, Unreachable

PORT: Final = 3128
# An answer to CONNECT is a few lines; whoever sends more speaks something else.
MAX_HEAD_BYTES: Final = 16 * 1024
HEAD_ENDS: Final = b"\r\n\r\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Proxy:
    """A proxy that speaks plain HTTP. `is_ours`: the installation names it, and trusts its address.

    `without` are hosts that are reached directly: names with all below them, networks, or `*`.
    """

    host: str
    port: int
    username: str = ""
    password: str = field(default="", repr=False)
    is_ours: bool = False
    without: Sequence[str] = ()

    def serves(self, host: str) -> bool:
        return not any(_is_meant(host.strip("[]").rstrip(".").lower(), one) for one in self.without)

    @property
    def headers(self) -> Mapping[str, str]:
        """How it knows us."""
        return {"Proxy-Authorization": f"Basic {self._pair}"} if self.username else {}

    @property
    def secrets(self) -> list[str]:
        return [self.password, self._pair] if self.username else []

    @property
    def _pair(self) -> str:
        return base64.b64encode(f"{self.username}:{self.password}".encode()).decode()

    def asked_to_connect(self, target: str) -> bytes:
        """The request for a tunnel to a host and port."""
        lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}"]
        lines += [f"{name}: {value}" for name, value in self.headers.items()]
        return "\r\n".join(lines).encode() + HEAD_ENDS

    def check_answer(self, head: bytes, target: str) -> None:
        """Raise NotDeliveredError unless it says that the tunnel is there."""
        version, _, rest = head.partition(b"\r\n")[0].partition(b" ")
        status = rest[:3].decode("ascii", "replace")
        if not version.startswith(b"HTTP/1.") or not status.isdecimal():
            raise self._refused(EndpointCode.CONNECTION_FAILED, "gave no answer of HTTP/1.1")
        if status.startswith("2"):
            return
        if status == "407":
            raise self._refused(EndpointCode.PROXY_REFUSED, "answered 407: it wants another login")
        is_down = status.startswith("5")
        code = EndpointCode.CONNECTION_FAILED if is_down else EndpointCode.PROXY_REFUSED
        why = "it has no connection to" if is_down else "it does not let us through to"
        raise self._refused(code, f"answered {status}: {why} {target}")

    def _refused(self, code: EndpointCode, what: str) -> NotDeliveredError:
        text = f"The proxy {self.host}:{self.port} {what}."
        return NotDeliveredError(Unreachable(code=code, text=text))


def default_proxy() -> Proxy | None:
    """The one that the installation names for every endpoint; None where it names none."""
    named = settings.SLUICE_HTTP_PROXY
    if not named:
        return None
    return _at(
        named["url"],
        username=named["username"],
        password=named["password"],
        is_ours=True,
        without=tuple(settings.SLUICE_NO_PROXY),
    )


def own_proxy(url: str, username: str, password: str) -> Proxy:
    """The one that an endpoint names for itself."""
    return _at(url, username=username, password=password)


def _at(
    url: str,
    *,
    username: str,
    password: str,
    is_ours: bool = False,
    without: Sequence[str] = (),
) -> Proxy:
    parts = urlsplit(url)
    return Proxy(
        host=parts.hostname or "",
        port=parts.port or PORT,
        username=username,
        password=password,
        is_ours=is_ours,
        without=without,
    )


def _is_meant(host: str, rule: str) -> bool:
    """Return whether a rule of SLUICE_NO_PROXY means this host.

    >>> _is_meant("erp.plant.local", ".plant.local"), _is_meant("plant.local.org", "plant.local")
    (True, False)
    >>> _is_meant("10.1.2.3", "10.0.0.0/8"), _is_meant("erp", "*")
    (True, True)
    """
    if rule == "*":
        return True
    try:
        return ip_address(host) in ip_network(rule, strict=False)
    except ValueError:
        # One of them is a name.
        name = rule.lower().lstrip("*").lstrip(".")
        return host == name or host.endswith(f".{name}")
