"""Questions to a schema registry over its HTTP API: bounded in time and size, never repeated.

The API is Confluent's, which other registries speak as well. An own client, because the library's
takes certificates as files only, and waits and repeats by itself (docs/decisions/0026).
"""

import contextlib
import json
import ssl
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote, urlsplit

import httpx

from integration import tls
from integration.certificates import tls_context
from integration.formats.schema import LARGEST_TEXT, Registered, SchemaKind
from integration.models.provider import Provider
from integration.registries.errors import (
    RegistryAwayError,
    RegistryCertificateError,
    RegistryRefusedError,
    SchemaNotFoundError,
)
from integration.tls import Certificates

# For one answer, with everything before it.
ANSWER_SECONDS: Final = 4.0
_CONNECT_SECONDS: Final = 2.0
_LARGEST_ANSWER: Final = 4 * LARGEST_TEXT
_MOST_REFERENCES: Final = 200
_ACCEPT: Final = "application/vnd.schemaregistry.v1+json, application/json"
_REFUSED: Final = frozenset({401, 403, 407})
NOT_FOUND: Final = 404
HTTPS_PORT: Final = 443


@dataclass(frozen=True, slots=True)
class Address:
    """Where a registry is and how to log in. All but the address is left out of its repr."""

    url: str
    username: str = field(default="", repr=False)
    password: str = field(default="", repr=False)
    ca_certificate: str = field(default="", repr=False)
    client_certificate: str = field(default="", repr=False)
    client_key: str = field(default="", repr=False)

    @classmethod
    def of(cls, provider: Provider) -> "Address":
        return cls(
            url=provider.registry_url.rstrip("/"),
            username=provider.registry_username,
            password=provider.registry_password,
            ca_certificate=provider.registry_ca_certificate,
            client_certificate=provider.registry_client_certificate,
            client_key=provider.registry_client_key,
        )


class RegistryClient:
    """One registry. It may be shared between threads; make it after the fork only."""

    def __init__(self, address: Address) -> None:
        self.url = address.url
        self._address = address
        self._http: httpx.Client | None = None

    def schema(self, schema_id: int, topic: str = "") -> Registered:
        """Return the schema with this id; its subject is that of the topic, if there is one.

        Raises RegistryAwayError, RegistryRefusedError, SchemaNotFoundError.
        """
        answer = self._object(f"/schemas/ids/{schema_id}")
        kind = self._kind(answer)
        subject, version = self._place(schema_id, topic)
        return self._registered(schema_id, kind, answer, subject, version)

    def version(self, subject: str, version: int | None = None) -> Registered:
        """Return a version of a subject, the latest without one. Raises as `schema` does."""
        wanted = "latest" if version is None else str(version)
        path = f"/subjects/{quote(subject, safe='')}/versions/{wanted}"
        answer = self._object(path)
        kind = self._kind(answer)
        found = self._number(answer, "id"), self._number(answer, "version")
        return self._registered(found[0], kind, answer, subject, found[1])

    def subjects(self) -> list[str]:
        """Return the names of all subjects. Raises as `schema` does."""
        answer = self._ask("/subjects")
        if not isinstance(answer, list):
            raise RegistryAwayError(self.url, "its answer is no list of subjects.")
        return [str(name) for name in answer]

    def compatibility(self, subject: str = "") -> str:
        """Return the compatibility level of a subject, or the registry's own.

        Raises RegistryAwayError, RegistryRefusedError.
        """
        for path in [f"/config/{quote(subject, safe='')}"] if subject else []:
            try:
                return self._level(self._object(path, defaultToGlobal="true"))
            except SchemaNotFoundError:
                pass
        return self._level(self._object("/config"))

    def close(self) -> None:
        if self._http is not None:
            self._http.close()
            self._http = None

    def _place(self, schema_id: int, topic: str) -> tuple[str, int | None]:
        """Return a subject and version that has this schema: that of the topic before others."""
        try:
            answer = self._ask(f"/schemas/ids/{schema_id}/versions")
        except SchemaNotFoundError:
            return "", None
        pairs = [
            (str(one["subject"]), int(one["version"]))
            for one in (answer if isinstance(answer, list) else [])
            if isinstance(one, dict) and "subject" in one and str(one.get("version", "")).isdigit()
        ]
        of_topic = [pair for pair in pairs if pair[0] == f"{topic}-value"]
        return max(of_topic or pairs, key=lambda pair: pair[1], default=("", None))

    def _registered(
        self,
        schema_id: int,
        kind: SchemaKind,
        answer: Mapping[str, Any],
        subject: str,
        version: int | None,
    ) -> Registered:
        return Registered(
            id=schema_id,
            kind=kind,
            text=str(answer.get("schema", "")),
            references=tuple(self._references(answer.get("references") or ())),
            subject=subject,
            version=version,
        )

    def _references(self, first: Iterable[Any]) -> list[tuple[str, str]]:
        """Return the schemas referred to, each after those that it refers to itself."""
        found: dict[str, str] = {}
        begun: set[str] = set()

        def visit(references: Iterable[Any]) -> None:
            for one in references:
                name = str(one["name"])
                if name in begun:
                    continue
                begun.add(name)
                if len(begun) > _MOST_REFERENCES:
                    raise SchemaNotFoundError(self.url, "a schema refers to too many others.")
                path = f"/subjects/{quote(str(one['subject']), safe='')}/versions/{one['version']}"
                answer = self._object(path)
                visit(answer.get("references") or ())
                found[name] = str(answer.get("schema", ""))

        try:
            visit(first)
        except (KeyError, TypeError) as e:
            raise RegistryAwayError(self.url, "its answer names a reference wrongly.") from e
        return list(found.items())

    def _kind(self, answer: Mapping[str, Any]) -> SchemaKind:
        """Return the schema's kind; Avro, where the registry does not say."""
        said = str(answer.get("schemaType") or SchemaKind.AVRO)
        try:
            return SchemaKind(said)
        except ValueError:
            raise RegistryAwayError(self.url, f"it speaks of a format {said[:40]!r}.") from None

    def _level(self, answer: Mapping[str, Any]) -> str:
        return str(answer.get("compatibilityLevel") or answer.get("compatibility") or "")

    def _number(self, answer: Mapping[str, Any], name: str) -> int:
        number = answer.get(name)
        if not isinstance(number, int):
            raise RegistryAwayError(self.url, f"its answer has no {name}.")
        return number

    def _object(self, path: str, **query: str) -> Mapping[str, Any]:
        answer = self._ask(path, **query)
        if not isinstance(answer, dict):
            raise RegistryAwayError(self.url, "its answer is not what a schema registry says.")
        return answer

    def _ask(self, path: str, **query: str) -> Any:
        """Ask once. Raises RegistryAwayError, RegistryRefusedError, SchemaNotFoundError."""
        ends = time.monotonic() + ANSWER_SECONDS
        try:
            with self._client().stream("GET", self.url + path, params=query) as response:
                body = self._body(response, ends)
        except httpx.TimeoutException:
            raise RegistryAwayError(self.url, "no answer in time.") from None
        except (httpx.HTTPError, httpx.InvalidURL, ssl.SSLError, OSError) as e:
            raise self._lost(e) from None
        self._judge(response.status_code, body)
        try:
            return json.loads(body)
        except (ValueError, RecursionError):
            raise RegistryAwayError(self.url, "its answer is no JSON.") from None

    def _lost(self, problem: Exception) -> RegistryAwayError | RegistryCertificateError:
        """Return the error to raise for a connection that broke off or did not come about.

        Where TLS may be the reason, the port is asked about the certificates.
        """
        to = self._address
        ours = Certificates(to.ca_certificate, to.client_certificate, to.client_key)
        if self.url.lower().startswith("https:") and _may_be_tls(problem):
            with contextlib.suppress(OSError, ValueError):
                host, number = _place(self.url)
                fault = tls.fault(host, number, ours, time.monotonic() + tls.ASK_SECONDS)
                if fault is not None:
                    return RegistryCertificateError(self.url, host, fault)
        return RegistryAwayError(self.url, f"{_words(problem)}.")

    def _body(self, response: httpx.Response, ends: float) -> bytes:
        """Read an answer that is neither too large nor too slow."""
        parts, size = [], 0
        for part in response.iter_bytes():
            parts.append(part)
            size += len(part)
            if size > _LARGEST_ANSWER:
                raise RegistryAwayError(self.url, "its answer is too large.")
            if time.monotonic() > ends:
                raise RegistryAwayError(self.url, "no answer in time.")
        return b"".join(parts)

    def _judge(self, status: int, body: bytes) -> None:
        if status in _REFUSED:
            raise RegistryRefusedError(self.url, f"it answers {status}.")
        if status == NOT_FOUND and _is_about_schemas(body):
            raise SchemaNotFoundError(self.url, _message(body))
        if status != httpx.codes.OK:
            raise RegistryAwayError(self.url, f"it answers {status}.")

    def _client(self) -> httpx.Client:
        """Make the client at the first question. Raises RegistryRefusedError for bad PEM."""
        if self._http is None:
            to = self._address
            try:
                context = tls_context(to.ca_certificate, to.client_certificate, to.client_key)
            except ValueError as e:
                raise RegistryRefusedError(self.url, str(e)) from None
            self._http = httpx.Client(
                verify=context,
                auth=(to.username, to.password) if to.username or to.password else None,
                headers={"Accept": _ACCEPT},
                timeout=httpx.Timeout(ANSWER_SECONDS, connect=_CONNECT_SECONDS),
                follow_redirects=False,
                trust_env=False,
            )
        return self._http


def _may_be_tls(problem: BaseException | None) -> bool:
    """Tell a connection that nobody takes from one that TLS, or its end, may have broken off.

    A port that does not want our certificate may close it before we have read why.
    """
    if isinstance(problem, httpx.ReadError | httpx.WriteError | httpx.RemoteProtocolError):
        return True
    while problem is not None and not isinstance(problem, ssl.SSLError):
        problem = problem.__cause__ or problem.__context__
    return problem is not None


def _place(url: str) -> tuple[str, int]:
    """The host and port of an address. Raises ValueError."""
    parts = urlsplit(url)
    return parts.hostname or "", parts.port or HTTPS_PORT


def _is_about_schemas(body: bytes) -> bool:
    """Tell a registry's own "not found" from that of a server without such an address."""
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        return False
    return isinstance(answer, dict) and str(answer.get("error_code", "")).startswith("404")


def _message(body: bytes) -> str:
    return str(json.loads(body).get("message", ""))[:300] or "it answers 404."


def _words(problem: Exception) -> str:
    return str(problem)[:300].rstrip(".") or type(problem).__name__
