"""Checks of single properties: each answers the rest of a sentence, empty when all is well."""

import re
from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import urlsplit

IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_$]{0,62}", re.ASCII)
HEADER: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}", re.ASCII)
STATUSES: Final = re.compile(r"[1-5]\d\d(-[1-5]\d\d)?( *, *[1-5]\d\d(-[1-5]\d\d)?)*", re.ASCII)
# Headers that carry the exchange itself, or belong to properties of their own.
OWN_HEADERS: Final = frozenset(
    {
        "authorization",
        "connection",
        "content-length",
        "cookie",
        "expect",
        "host",
        "keep-alive",
        "proxy-authorization",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)


def address(value: str) -> str:
    try:
        parts = urlsplit(value)
        port = parts.port
    except ValueError:
        return "must be an address; its port is a number up to 65535"
    if parts.scheme not in {"http", "https"} or not parts.hostname or port == 0:
        return "must be an address that begins with http:// or https:// and names a host"
    if "@" in parts.netloc:
        return "must not hold a user or password; those have fields of their own"
    if "{" in parts.netloc or "\\" in value or parts.fragment:
        return "may have fields in its path and query only, and no # part"
    return ""


def proxy(value: str) -> str:
    mistake = address(value)
    parts = None if mistake else urlsplit(value)
    if parts is not None and (parts.scheme != "http" or parts.path.strip("/") or parts.query):
        return "must be an address such as http://proxy.example.org:3128, with nothing behind it"
    return mistake


def statuses(value: str) -> str:
    mistake = "must be HTTP statuses or ranges of them, such as 200-299, 409"
    if not STATUSES.fullmatch(value):
        return mistake
    return "" if all(len(r) for r in ranges_of(value)) else mistake


def header(value: str) -> str:
    if not HEADER.fullmatch(value):
        return "must be the name of a header"
    return f"must not be {value}" if value.lower() in OWN_HEADERS else ""


def headers(value: Mapping[str, str]) -> str:
    mistake = next((f"{t} (“{name[:80]}”)" for name in value if (t := header(name))), "")
    return f"has a name that {mistake}" if mistake else ""


def identifier(value: str) -> str:
    return "" if IDENTIFIER.fullmatch(value) else "must be a name of letters, digits and _"


def columns(value: Mapping[str, str]) -> str:
    mistake = next((f"“{name[:80]}” {t}" for name in value if (t := identifier(name))), "")
    return f"has a name of a column that is none: {mistake}" if mistake else ""


def identifiers(value: Sequence[str]) -> str:
    return next((f"has “{name[:80]}”, which {t}" for name in value if (t := identifier(name))), "")


def host(value: str) -> str:
    return "must be one host" if re.search(r"[\s,/@]", value) else ""


def folder(value: str) -> str:
    parts = value.split("/")
    if value.startswith("/") or any(part in {"", ".", ".."} for part in parts):
        return "must be a folder below the base folder, such as erp/orders, without . and .."
    return ""


def ranges_of(statuses: str) -> tuple[range, ...]:
    """The statuses that a text such as "200-299, 409" names.

    >>> 204 in ranges_of("200-299, 409")[0], 409 in ranges_of("200-299, 409")[1]
    (True, True)
    """
    ranges = []
    for part in statuses.split(","):
        first, _, last = part.strip().partition("-")
        ranges.append(range(int(first), int(last or first) + 1))
    return tuple(ranges)
