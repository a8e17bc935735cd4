"""What a broker's words come to on a connection."""

import pytest

from integration.amqp.connection import has_address

pytestmark = pytest.mark.fast


class Place:
    """A source or target as the engine tells of it."""

    def __init__(self, raw: bytes | None) -> None:
        self.raw = raw

    @property
    def address(self) -> str | None:
        return None if self.raw is None else self.raw.decode()


@pytest.mark.parametrize(
    ("raw", "has"), [(None, False), (b"", True), (b"in", True), (b"\xe4", True)]
)
def test_an_address_is_one_also_where_it_is_no_utf_8(raw: bytes | None, has: bool) -> None:
    assert has_address(Place(raw)) is has
