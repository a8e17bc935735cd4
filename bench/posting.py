"""Posts over HTTP by many senders at once, with as little work of the sender's as can be."""

import socket
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

_END: Final = b"\r\n\r\n"
_LENGTH: Final = b"content-length:"
_TIMEOUT_SECONDS: Final = 60


@dataclass(frozen=True, slots=True)
class Posted:
    """The number of posts answered a second, and how long each took, in seconds."""

    rate: float
    took: Sequence[float]
    statuses: frozenset[bytes]


def post_all(address: str, requests: Sequence[bytes], senders: int) -> Posted:
    """Send every request, each sender over one connection that stays open."""
    place = urlsplit(address)
    shares = [requests[n::senders] for n in range(senders)]
    where = (str(place.hostname), int(place.port or 80))
    with ThreadPoolExecutor(senders) as pool:
        began = time.perf_counter()
        results = list(pool.map(lambda own: _sent(where, own), shares))
        seconds = time.perf_counter() - began
    took = [seconds for each, _ in results for seconds in each]
    statuses = frozenset(status for _, codes in results for status in codes)
    return Posted(len(requests) / seconds, took, statuses)


def request(path: str, body: bytes, headers: dict[str, str]) -> bytes:
    """One POST as it goes over the wire."""
    lines = [f"POST {path} HTTP/1.1", "Host: 127.0.0.1", f"Content-Length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + _END + body


def _sent(where: tuple[str, int], requests: Sequence[bytes]) -> tuple[list[float], set[bytes]]:
    took, statuses = [], set()
    with socket.create_connection(where, timeout=_TIMEOUT_SECONDS) as line:
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for content in requests:
            began = time.perf_counter()
            line.sendall(content)
            statuses.add(_answered(line))
            took.append(time.perf_counter() - began)
    return took, statuses


def _answered(line: socket.socket) -> bytes:
    """Read one answer whole; returns its status."""
    answer = b""
    while _END not in answer:
        answer += _more(line)
    head, _, body = answer.partition(_END)
    lower = head.lower()
    at = lower.index(_LENGTH) + len(_LENGTH)
    left = int(lower[at:].split(b"\r\n", 1)[0]) - len(body)
    while left > 0:
        left -= len(_more(line))
    return head[9:12]


def _more(line: socket.socket) -> bytes:
    piece = line.recv(65_536)
    if not piece:
        raise ConnectionError("the server closed the connection in the middle of an answer")
    return piece
