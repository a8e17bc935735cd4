"""The protocol that a broker's port speaks, asked without the client library.

Where the protocols differ, the client library tells of a timeout or of a broken connection only.
Nothing secret is sent: one request that needs no login, in the clear and, where that is not
understood, through TLS. Whose certificate it is does not matter for that and is not checked.
"""

import contextlib
import socket
import ssl
import struct
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from integration.resolving import connected

# For all of it, names included. A broker rejects what it does not understand at once.
ASK_SECONDS: Final = 2.0
# Kafka's SaslHandshake, version 1. Every broker answers it: one that wants a login names the
# mechanisms it offers, any other says that this is not the moment.
_HANDSHAKE, _VERSION, _NUMBER = 17, 1, 1
_MECHANISM: Final = b"PLAIN"
_OFFERED, _NOT_OFFERED, _NO_LOGIN_HERE = 0, 33, 34
_MOST_BYTES: Final = 64 * 1_024


@dataclass(frozen=True, slots=True)
class Listener:
    """The listener at an address. `logs_in` is None where the port did not tell."""

    address: str
    is_encrypted: bool
    logs_in: bool | None
    mechanisms: tuple[str, ...] = ()

    @property
    def protocols(self) -> tuple[str, ...]:
        """The values of security.protocol that fit; two where it did not tell about logins.

        >>> Listener("kafka:9092", is_encrypted=True, logs_in=None).protocols
        ('SSL', 'SASL_SSL')
        """
        ends = "SSL" if self.is_encrypted else "PLAINTEXT"
        fitting = {False: (ends,), True: (f"SASL_{ends}",), None: (ends, f"SASL_{ends}")}
        return fitting[self.logs_in]


def other_than(protocol: str, addresses: Iterable[str]) -> Listener | None:
    """The listener at the first address that answers, if `protocol` is not what it speaks.

    None also where nothing can be told. Takes two seconds at most for all addresses together: one
    that hangs uses them up, one that refuses at once lets the next one be asked. Raises nothing.
    """
    deadline = time.monotonic() + ASK_SECONDS
    for address in addresses:
        listener = _listener(address, deadline)
        if listener is not None:
            return None if protocol in listener.protocols else listener
        if time.monotonic() >= deadline:
            return None
    return None


def _listener(address: str, deadline: float) -> Listener | None:
    host, _, port = address.strip().rpartition(":")
    if not host or not port.isdecimal():
        return None
    place = (host.strip("[]"), int(port))
    with contextlib.suppress(OSError, UnicodeError, OverflowError, struct.error):
        return _in_the_clear(address, place, deadline) or _through_tls(address, place, deadline)
    return None


def _in_the_clear(address: str, place: tuple[str, int], deadline: float) -> Listener | None:
    """None where what came is not Kafka's. Raises OSError, TimeoutError where nothing comes."""
    with connected(*place, _left(deadline)) as line:
        try:
            logs_in, mechanisms = _asked(line, deadline)
        except (ConnectionError, _NotKafkaError):
            return None
    return Listener(address, False, logs_in, mechanisms)


def _through_tls(address: str, place: tuple[str, int], deadline: float) -> Listener | None:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with connected(*place, _left(deadline)) as bare:
        bare.settimeout(_left(deadline))
        try:
            line = context.wrap_socket(bare, server_hostname=place[0])
        except ssl.SSLError as problem:
            # Only who speaks TLS refuses us in its words.
            speaks = "ALERT" in (problem.reason or "")
            return Listener(address, True, None) if speaks else None
        with line:
            try:
                logs_in, mechanisms = _asked(line, deadline)
            except (OSError, _NotKafkaError):
                # One that wants our certificate says so only now.
                logs_in, mechanisms = None, ()
    return Listener(address, True, logs_in, mechanisms)


class _NotKafkaError(Exception):
    """The answer does not fit the question."""


def _asked(line: socket.socket, deadline: float) -> tuple[bool, tuple[str, ...]]:
    """Ask whether it wants a login, by which mechanisms. Raises OSError and _NotKafkaError."""
    head = struct.pack(">hhih", _HANDSHAKE, _VERSION, _NUMBER, -1)
    question = head + struct.pack(">h", len(_MECHANISM)) + _MECHANISM
    line.settimeout(_left(deadline))
    line.sendall(struct.pack(">i", len(question)) + question)
    (size,) = struct.unpack(">i", _read(line, 4, deadline))
    if not 6 <= size <= _MOST_BYTES:
        raise _NotKafkaError
    answer = _read(line, size, deadline)
    number, code = struct.unpack_from(">ih", answer)
    if number != _NUMBER or code not in (_OFFERED, _NOT_OFFERED, _NO_LOGIN_HERE):
        raise _NotKafkaError
    return code != _NO_LOGIN_HERE, _mechanisms(answer[6:])


def _mechanisms(answer: bytes) -> tuple[str, ...]:
    """An array of strings, as Kafka writes one."""
    (count,), place = struct.unpack_from(">i", answer), 4
    names = []
    for _ in range(min(count, _MOST_BYTES)):
        (length,) = struct.unpack_from(">h", answer, place)
        names.append(answer[place + 2 : place + 2 + length].decode("ascii", "replace"))
        place += 2 + length
    return tuple(sorted(names))


def _read(line: socket.socket, size: int, deadline: float) -> bytes:
    data = b""
    while len(data) < size:
        line.settimeout(_left(deadline))
        part = line.recv(size - len(data))
        if not part:
            raise _NotKafkaError
        data += part
    return data


def _left(deadline: float) -> float:
    """Return what is left of the time. Raises TimeoutError at its end, as for a port that drips."""
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left
