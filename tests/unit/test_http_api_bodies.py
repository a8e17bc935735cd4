"""What it costs to take the body of a post apart."""

import tracemalloc
from collections.abc import Callable

import pytest

from integration import envelope
from integration.envelope.document import Limits
from integration.http_api.bodies import pieces
from integration.http_api.errors import TooManyMessagesError
from integration.http_api.receipts import Post

pytestmark = pytest.mark.fast


def peak_bytes(act: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        act()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_post_of_too_many_messages_costs_no_more_than_its_reading() -> None:
    most = 2**20
    text = b"[" + b"{}," * 50_000 + b"{}]"
    post = Post(system_id=1, system="A", service="A", body=text, most_bytes=most)

    def refused() -> None:
        with pytest.raises(TooManyMessagesError, match="50,001"):
            pieces(post)

    reading = peak_bytes(lambda: envelope.read(text, None, Limits(max_bytes=most)))
    assert peak_bytes(refused) < 1.1 * reading
