"""Requests to the API: with the token, tried again where that is safe, every page of a list."""

import os
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx

from sluice_cli.operations import NEXT, Operation

ADDRESS: Final = "SLUICE_URL"
TOKEN: Final = "SLUICE_TOKEN"  # noqa: S105 - the name of a variable
TOKEN_FILE: Final = "SLUICE_TOKEN_FILE"  # noqa: S105 - as above
SECONDS: Final = 60.0
TRIES: Final = 4
LATER: Final = 503


class RefusedError(Exception):
    """The API answered with a problem."""

    def __init__(self, problem: Mapping[str, Any]) -> None:
        super().__init__(str(problem.get("detail", "")))
        self.problem = problem


class NotConnectedError(Exception):
    """There is no address, no token, or nobody who answers."""


@dataclass(frozen=True, slots=True)
class Request:
    """What the command line asks of an operation."""

    operation: Operation
    parts: Mapping[str, str]
    query: Mapping[str, Any]
    body: Mapping[str, Any]
    file: Path | None = None
    key: str = ""

    @property
    def path(self) -> str:
        return self.operation.path.format_map(self.parts)


@dataclass(slots=True)
class Connection:
    """The way to one installation. `client` and `wait` are others in tests."""

    client: httpx.Client
    wait: Callable[[float], object] = field(default=time.sleep)

    def answer(self, request: Request) -> httpx.Response:
        """The good answer. Raises RefusedError, NotConnectedError.

        A request that acts carries a key, so that it may be sent again when nobody knows whether
        it was carried out.
        """
        headers = {}
        if request.operation.acts:
            headers["Idempotency-Key"] = request.key or str(uuid.uuid4())
        for pause in [*(2.0**n for n in range(TRIES - 1)), None]:
            try:
                response = self.client.request(
                    request.operation.method,
                    request.path,
                    params=request.query,
                    headers=headers,
                    **_content(request),
                )
            except httpx.TransportError as failure:
                if pause is None:
                    raise NotConnectedError(f"Nobody answers: {failure}") from failure
            else:
                if response.status_code != LATER or pause is None:
                    return _good(response)
            self.wait(pause)
        raise AssertionError("the last try has no pause")

    def pages(self, request: Request) -> Iterator[dict[str, Any]]:
        """Every page of a list, from the one that is asked for."""
        query = dict(request.query)
        while True:
            asked = Request(request.operation, request.parts, query, request.body)
            page: dict[str, Any] = self.answer(asked).json()
            yield page
            if page.get(NEXT) is None:
                return
            query[request.operation.place] = page[NEXT]


def connected(variables: Mapping[str, str] | None = None) -> Connection:
    """The installation that the environment names. Raises NotConnectedError."""
    given = os.environ if variables is None else variables
    address = given.get(ADDRESS, "")
    if not address.startswith(("https://", "http://")):
        raise NotConnectedError(f"{ADDRESS} does not say where the console is: set it to https://…")
    headers = {"Authorization": f"Bearer {_token(given)}", "Accept": "application/json"}
    return Connection(httpx.Client(base_url=address, headers=headers, timeout=SECONDS))


def _token(given: Mapping[str, str]) -> str:
    """Never from the command line, which every process of the machine can read."""
    token, file = given.get(TOKEN, ""), given.get(TOKEN_FILE, "")
    if file and not token:
        try:
            token = Path(file).read_text(encoding="utf-8")
        except OSError as problem:
            raise NotConnectedError(f"{TOKEN_FILE}: {problem.strerror}.") from problem
    if not token.strip():
        raise NotConnectedError(
            f"There is no token: make one under “My account” in the console and set {TOKEN}, or "
            f"{TOKEN_FILE} to a file that holds it."
        )
    return token.strip()


def _content(request: Request) -> dict[str, Any]:
    if request.file is not None:
        content = request.file.read_bytes()
        if request.operation.file.startswith("multipart/"):
            return {"files": {"file": (request.file.name, content)}}
        return {"content": content}
    return {} if request.operation.method == "GET" else {"json": dict(request.body)}


def _good(response: httpx.Response) -> httpx.Response:
    if response.is_success:
        return response
    if "json" not in response.headers.get("Content-Type", ""):
        raise NotConnectedError(
            f"{response.url} answers with status {response.status_code} and no problem of Sluice: "
            f"is {ADDRESS} the console's address?"
        )
    raise RefusedError(response.json())
