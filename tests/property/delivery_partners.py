"""What partners do in a story: they send, repeat, forge, and Kafka forgets."""

from typing import Any
from uuid import UUID

from hypothesis import strategies as st
from hypothesis.stateful import rule

from integration.delivery.reading import retry_marker_headers
from tests.property.delivery_order import KeepsOrder

DEEDS = [
    *["ok"] * 6,
    "permanent",
    "verdict",
    "transient",
    "until",
    "missing",
    "outage",
    "orphan",
    "deadlock",
    "swallow",
    "overlong",
    "superseded",
    "kill",
]
INTERFACES = ["", "ONE", "ALONE", "BATCH", "MUTE"]


class Partners(KeepsOrder):
    """The senders of a story, and the relay and the retention of their topic."""

    bodies: dict[tuple[int, int], tuple[int, str]]
    keys: dict[tuple[int, int], bytes | None]
    markers: set[tuple[int, int]]
    ids: int

    # partners

    @rule(
        deeds=st.lists(st.sampled_from(DEEDS), min_size=1, max_size=5),
        interface=st.sampled_from(INTERFACES),
        partition=st.integers(0, 1),
        key=st.sampled_from([b"a", b"a", b"b", None]),
    )
    def send(self, deeds: list[str], interface: str, partition: int, key: bytes | None) -> None:
        for do in deeds:
            self._sent(do, partition, interface=interface, until=2, key=key)

    def _sent(self, do: str, partition: int, **body: Any) -> None:
        partition %= len(self.world.database.places)
        self.ids += body.get("id") is None
        message_id = body.pop("id", None) or f"id-{self.ids}"
        offset = self.world.send(do, partition=partition, id=message_id, **body)
        self.bodies[partition, offset] = (message_id, do)
        self.keys[partition, offset] = body.get("key")

    @rule(
        deeds=st.lists(st.sampled_from(["ok", "transient", "new"]), min_size=2, max_size=6),
        interface=st.sampled_from(INTERFACES),
        partition=st.integers(0, 1),
    )
    def repeat(self, deeds: list[str], interface: str, partition: int) -> None:
        """A partner sends what it has sent before, or other content under the same id.

        Something new may come in between.
        """
        id_ = f"repeated-{partition % len(self.world.topic.partitions)}"
        for do in deeds:
            if do == "new":
                self._sent("ok", partition, interface=interface)
            else:
                self._sent(do, partition, interface=interface, id=id_)

    @rule(value=st.sampled_from([None, b"{", b"\xff", b"", b'{"do": "ok"}']))
    def send_odd(self, value: bytes | None) -> None:
        """Tombstone, junk, and a retry marker's headers on a record with a body."""
        headers = retry_marker_headers(UUID(int=7), 1, "q") if value else []
        offset = self.world.topic.append(value, headers=headers)
        self.bodies[0, offset] = (f"odd-{offset}", "odd")

    @rule(retry_no=st.integers(0, 3), data=st.data())
    def forge(self, retry_no: int, data: st.DataObject) -> None:
        """A stranger's retry marker: for no row, or for a row of ours with any number."""
        known = [UUID(int=7), *self.world.database.errors]
        error = data.draw(st.sampled_from(known))
        offset = self.world.topic.append(b"", headers=retry_marker_headers(error, retry_no, "q"))
        self.markers.add((0, offset))

    @rule(twice=st.booleans())
    def relay(self, *, twice: bool) -> None:
        before = {p: log.end for p, log in self.world.topic.partitions.items()}
        self.world.relay(twice=twice)
        for partition, log in self.world.topic.partitions.items():
            self.markers |= {(partition, o) for o in range(before[partition], log.end)}

    @rule(share=st.floats(0, 1), partition=st.integers(0, 1))
    def expire(self, share: float, partition: int) -> None:
        log = self.world.topic.partitions.get(partition)
        if log is not None:
            low = log.low + int(share * (log.end - log.low))
            self.world.topic.expire(low, partition)
