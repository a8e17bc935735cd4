"""Reads variables by their kinds: words, seconds, keys, addresses, databases."""

import base64
import binascii
import json
import re
from collections.abc import Mapping
from contextlib import suppress
from importlib.util import find_spec
from ipaddress import ip_network
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from psycopg.pq import Conninfo

from sluice.database import ON_THE_WAY

ALIAS: Final = re.compile(r"[A-Za-z0-9_-]{1,20}")
PAGE: Final = re.compile(r"https?://[^\s/?#@]+(/[^\s?#]*)?")
S3_ENDPOINT: Final = re.compile(r"https?://[A-Za-z0-9.\-\[\]:]+")
# Hosts that are reached without a network: an identity provider there may go without TLS.
AT_HOME: Final = frozenset({"localhost", "127.0.0.1", "::1"})
WELL_KNOWN: Final = "/.well-known/openid-configuration"
MAIL_SCHEMES: Final = frozenset({"smtp", "smtp+tls", "smtps"})
# The names that this libpq knows; an older one knows fewer.
OF_LIBPQ: Final = frozenset(one.keyword.decode() for one in Conninfo.get_defaults())


class Reader:
    """Reads variables one by one and collects what is wrong with them."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        self.variables = variables
        self.mistakes: list[str] = []

    def text(self, name: str, default: str | None = None) -> str:
        value = self.variables.get(name, "").strip()
        if value:
            return value
        if default is None:
            self.mistakes.append(f"{name} is not set")
            return ""
        return default

    def flag(self, name: str, *, default: bool) -> bool:
        value = self.variables.get(name, "").strip().lower()
        words = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}
        if value and value not in words:
            self.mistakes.append(f"{name} is {value!r}; write 1 or 0")
        return words.get(value, default)

    def choice(self, name: str, choices: tuple[str, ...], default: str) -> str:
        value = self.text(name, default).upper()
        if value not in choices:
            self.mistakes.append(f"{name} is {value!r}; write one of {', '.join(choices)}")
        return value

    def template(self, name: str, field: str) -> str:
        """An address with a field to be filled in; empty when there is none."""
        value = self.text(name, "")
        if value and not (value.startswith(("http://", "https://")) and field in value):
            self.mistakes.append(f"{name} is {value!r}; write an address with {field} in it")
        return value

    def page(self, name: str) -> str:
        """An address that others are sent to, without a slash at its end; empty: none."""
        value = self.text(name, "").rstrip("/")
        if value and not PAGE.fullmatch(value):
            self.mistakes.append(f"{name} is {value!r}; write an address such as https://host/path")
        return value

    def need_package(self, name: str, module: str, extra: str) -> None:
        """What the variable switches on takes packages that are an extra."""
        try:
            is_there = find_spec(module) is not None
        except ModuleNotFoundError:
            is_there = False
        if not is_there:
            self.mistakes.append(f"{name} is 1, which needs the package sluice[{extra}]")

    def share(self, name: str, value: str) -> float:
        try:
            number = float(value)
        except ValueError:
            number = -1.0
        if not 0 <= number <= 1:
            self.mistakes.append(f"{name} is {value!r}; write a number from 0 to 1")
        return number

    def words(self, name: str, default: str | None = "") -> tuple[str, ...]:
        parts = self.text(name, default).split(",")
        return tuple(part.strip() for part in parts if part.strip())

    def networks(self, name: str) -> tuple[str, ...]:
        """IP addresses and networks, by commas."""
        networks = self.words(name)
        for word in networks:
            try:
                ip_network(word)
            except ValueError:
                self.mistakes.append(
                    f"{name} names {word!r}; write addresses such as 10.0.0.7 or networks such as "
                    "10.0.0.0/24, by commas"
                )
        return networks

    def seconds(self, name: str, default: float) -> float:
        value = self.variables.get(name, "").strip()
        try:
            number = float(value) if value else default
        except ValueError:
            number = -1.0
        if not 0 < number < 86_400:
            self.mistakes.append(f"{name} is {value!r}; write a number of seconds above 0")
        return number

    def count(self, name: str, default: int) -> int:
        value = self.variables.get(name, "").strip()
        if value and not (value.isascii() and value.isdecimal() and len(value) < 10):
            self.mistakes.append(f"{name} is {value!r}; write a whole number, 0 or more")
            return default
        return int(value) if value else default

    def issuer(self, name: str) -> str:
        """The address of an identity provider, without a slash at its end; empty: none."""
        value = self.text(name, "").removesuffix(WELL_KNOWN).rstrip("/")
        try:
            parts = urlsplit(value)
            is_safe = parts.scheme == "https" or parts.hostname in AT_HOME
            is_good = bool(parts.hostname) and parts.scheme in {"http", "https"} and is_safe
        except ValueError:
            is_good = False
        if value and (not is_good or "?" in value or "#" in value):
            self.mistakes.append(
                f"{name} is {value!r}; write the identity provider's https:// address, as its "
                "discovery document calls the issuer"
            )
        return value

    def folder(self, name: str) -> Path | None:
        """A folder that is there; None when none is named."""
        value = self.text(name, "")
        if not value:
            return None
        path = Path(value)
        if not path.is_absolute():
            self.mistakes.append(f"{name} is {value!r}; write a path that begins with /")
        elif not path.is_dir():
            self.mistakes.append(f"{name} is {value!r}, and there is no such folder; make it first")
        return path

    def pairs(self, name: str, prefix: str) -> dict[str, str]:
        """Words `name=value` by commas or lines, each name beginning with `prefix`; or JSON.

        A comma that no such name follows is part of a value.
        """
        text = self.text(name, "")
        pairs: Any = None
        with suppress(ValueError):
            pairs = json.loads(text) if text.startswith("{") else _pairs(text, prefix)
        if isinstance(pairs, dict) and all(
            key.startswith(prefix) and isinstance(value, str) for key, value in pairs.items()
        ):
            return pairs
        self.mistakes.append(
            f"{name} is {text!r}; write {prefix}name=value, several by commas, "
            "or an object of JSON with texts"
        )
        return {}

    def s3(self) -> dict[str, str]:
        """How an object storage is reached; empty texts where nothing is said."""
        names = ("endpoint", "region", "access_key", "secret_key")
        said = {name: self.text(f"SLUICE_S3_{name.upper()}", "") for name in names}
        endpoint = said["endpoint"]
        if endpoint and not S3_ENDPOINT.fullmatch(endpoint):
            # It is not repeated: a password may be in it.
            self.mistakes.append(
                "SLUICE_S3_ENDPOINT is not an address; write https://host:port, without a path "
                "and without a password"
            )
        if bool(said["access_key"]) is not bool(said["secret_key"]):
            self.mistakes.append("SLUICE_S3_ACCESS_KEY and SLUICE_S3_SECRET_KEY belong together")
        return said

    def proxy(self, name: str) -> dict[str, str]:
        """A forward proxy, http://user:password@host:port, in its parts; empty when none is named.

        What is wrong with it is told without it: a password may be in it.
        """
        value = self.text(name, "")
        if not value:
            return {}
        mistake = f"{name} is no address of a proxy; write http://user:password@host:port"
        try:
            parts = urlsplit(value)
            port = parts.port or 3128
        except ValueError:
            self.mistakes.append(mistake)
            return {}
        if parts.scheme != "http" or not parts.hostname or parts.path.strip("/") or parts.query:
            self.mistakes.append(mistake)
        host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
        return {
            "url": f"http://{host}:{port}",
            "username": unquote(parts.username or ""),
            "password": unquote(parts.password or ""),
        }

    def mail(self, name: str) -> str:
        """The URL of a mail server; empty: none. A wrong one is told without its password."""
        value = self.text(name, "")
        try:
            parts = urlsplit(value)
            is_good = parts.scheme in MAIL_SCHEMES and bool(parts.hostname) and parts.port != 0
            is_whole = not (parts.path.strip("/") or parts.query or parts.fragment)
        except ValueError:
            is_good = is_whole = False
        if value and not (is_good and is_whole):
            self.mistakes.append(
                f"{name} is no address of a mail server; write smtp://user:password@host:port, "
                "smtp+tls:// for STARTTLS or smtps:// for TLS from the start, with special "
                "characters of user and password percent-encoded"
            )
        return value

    def keys(self, name: str) -> tuple[str, ...]:
        keys = self.words(name, None)
        if not keys and self.variables.get(name, "").strip():
            self.mistakes.append(f"{name} holds no key")
        for place, key in enumerate(keys, start=1):
            if not _is_fernet_key(key):
                self.mistakes.append(
                    f"{name}: key {place} is not 32 bytes in URL-safe base64; "
                    "make one with `python manage.py make_encryption_key`"
                )
        return keys

    def databases(self, name: str) -> dict[str, dict[str, Any]]:
        """Databases `alias=URL`, by commas or spaces."""
        found = {}
        for word in self.text(name, "").replace(",", " ").split():
            alias, _, url = word.partition("=")
            if not ALIAS.fullmatch(alias) or alias == "default":
                self.mistakes.append(
                    f"{name} holds {alias!r}; write alias=postgresql://…, the alias of at most 20 "
                    "letters, digits, hyphens and underscores, and another one than default"
                )
            found[alias] = self._database(name, url)
        return found

    def database(self, name: str) -> dict[str, Any]:
        url = self.text(name, None)
        return self._database(name, url) if url else {}

    def replica(self, name: str) -> dict[str, Any]:
        """As `database`, but nobody needs one."""
        url = self.text(name, "")
        return self._database(name, url) if url else {}

    def _database(self, name: str, url: str) -> dict[str, Any]:
        try:
            parts = urlsplit(url)
            port = parts.port or 5432
        except ValueError:
            self.mistakes.append(f"{name} is not a URL")
            return {}
        if parts.scheme not in {"postgres", "postgresql"} or not parts.path.strip("/"):
            self.mistakes.append(f"{name} must look like postgresql://user:password@host:5432/name")
            return {}
        if parts.fragment:
            self.mistakes.append(f"{name} has a # in it; write it as %23")
        return {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": unquote(parts.path.strip("/")),
            "USER": unquote(parts.username or ""),
            "PASSWORD": unquote(parts.password or ""),
            "HOST": parts.hostname or "",
            "PORT": str(port),
            "OPTIONS": self._way(name, parts.query),
        }

    def _way(self, name: str, query: str) -> dict[str, str]:
        """The options behind a URL's question mark, which say how a session gets to the server.

        A wrong one is told by its place: what stands there may be a piece of a password. libpq's
        own names are no secrets.
        """
        options = {}
        for place, word in enumerate(query.split("&") if query else (), start=1):
            key, separator, value = map(unquote, word.partition("="))
            option = f"{name}: option {place} after the question mark"
            if not separator or key not in OF_LIBPQ:
                self.mistakes.append(
                    f"{option} is none that libpq knows; write name=value, such as "
                    "sslmode=verify-full"
                )
            elif not key.startswith(ON_THE_WAY):
                self.mistakes.append(
                    f"{option} is {key}; only those of TLS, Kerberos, passfile, require_auth, "
                    "channel_binding and target_session_attrs may stand there"
                )
            options[key] = value
        return options


def _pairs(text: str, prefix: str) -> dict[str, str]:
    """Raises ValueError for a word without an equals sign."""
    words = [word.strip() for word in re.split(rf"[\n,]\s*(?={re.escape(prefix)})", text)]
    return dict(_pair(word) for word in words if word)


def _pair(word: str) -> tuple[str, str]:
    name, separator, value = word.partition("=")
    if not separator:
        raise ValueError
    return name.strip(), value.strip()


def _is_fernet_key(key: str) -> bool:
    try:
        return len(base64.urlsafe_b64decode(key)) == 32
    except (binascii.Error, ValueError):
        return False
