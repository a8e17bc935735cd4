"""A session: what one thread sends by one connection."""

import json
from collections.abc import Mapping
from typing import Any

from integration.kafka.sessions import Headers, KafkaConnection
from integration.xa.resource import XaResource
from integration.xa.xid import Xid


class Session:
    """Sends by a connection that is its own until it ends. For one thread at a time.

    Without transactions a record is on its way as soon as it is sent, and `flush` waits for all of
    them. With transactions readers see what was sent once `commit` has made it visible, all of it
    or nothing; the session may go on afterwards.
    """

    def __init__(self, connection: KafkaConnection) -> None:
        self._connection = connection
        self._send = connection.send

    def send(
        self,
        topic: str,
        value: bytes | str | Mapping[str, Any] | list[Any] | None,
        *,
        key: bytes | str | None = None,
        headers: Headers | None = None,
    ) -> None:
        """Send a record; an object or array is written as JSON, None is a tombstone.

        Raises SendFailedError for one that cannot be sent at all.
        """
        if type(value) is not bytes:
            value = written(value)
        if isinstance(key, str):
            key = key.encode()
        self._send(topic, value, key, headers)

    def flush(self) -> None:
        """Wait until Kafka has everything that was sent. Raises SendFailedError."""
        self._connection.flush()

    def commit(self) -> None:
        """Make visible what was sent since the last commit.

        Raises SendFailedError, NotTransactionalError. After a commit that got no answer it is not
        known whether it happened.
        """
        self._connection.commit()

    def rollback(self) -> None:
        """Take back what was sent since the last commit. Raises NotTransactionalError."""
        self._connection.rollback()

    def end(self) -> None:
        """Commit, or flush where there are no transactions. Raises SendFailedError."""
        if self._connection.is_transactional:
            self._connection.commit()
        else:
            self._connection.flush()


class BranchSession:
    """Sends in a transaction over several resources, whose end is not the session's affair."""

    def __init__(self, resource: XaResource, xid: Xid) -> None:
        self.xid = xid
        self._resource = resource

    def send(
        self,
        topic: str,
        value: bytes | str | Mapping[str, Any] | list[Any] | None,
        *,
        key: bytes | str | None = None,
        headers: Headers | None = None,
    ) -> None:
        """As `Session.send`. What its topic would refuse is told when the branch ends."""
        pairs = headers.items() if isinstance(headers, Mapping) else headers or ()
        raw = key.encode() if isinstance(key, str) else key
        self._resource.send(self.xid, topic, written(value), raw, list(pairs))


def written(value: bytes | str | Mapping[str, Any] | list[Any] | None) -> bytes | None:
    """The bytes of a record's value: objects and arrays are written as JSON."""
    if value is None or isinstance(value, bytes):
        return value
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text.encode()
