"""What stands behind the sections of a message that a broker may change."""

import pytest

from integration.amqp.sections import beyond_delivery, has_body
from tests.support.growth import slow_parser

pytestmark = pytest.mark.fast
EMPTY_HEADER = b"\x00\x53\x70\x45"
# Long ones, so that to copy what is left takes more time than to look at each.
LONG_HEADER = b"\x00\x53\x70\xc0\xff" + bytes(255)
HEADER = b"\x00\x53\x70\xc0\x02\x01\x41"
ANNOTATIONS = b"\x00\x80" + bytes(7) + b"\x71\xd1\x00\x00\x00\x04" + bytes(4)
PROPERTIES = b"\x00\xa3\x14amqp:properties:list\xc0\x03\x01\xa1\x00"
BODY = b"\x00\x53\x77\xa1\x02ab"
NO_BODY = b"\x00\x53\x77\x40"
FOOTER = b"\x00\x53\x78\xc1\x01\x00"


@pytest.mark.parametrize("parse", [beyond_delivery, has_body])
def test_sections_that_repeat_are_read_in_linear_time(parse) -> None:
    assert not slow_parser(parse, lambda n: LONG_HEADER * n, 2_000)


@pytest.mark.parametrize(
    ("before", "rest"),
    [
        (b"", b""),
        (b"", BODY),
        (EMPTY_HEADER, BODY),
        (EMPTY_HEADER * 3, b""),
        (HEADER + ANNOTATIONS, PROPERTIES + BODY),
        (HEADER, HEADER[:-1]),
        (HEADER, EMPTY_HEADER[:-1]),
        (HEADER, b"\x00\x53\x70\xd0\x00\x00"),
        (HEADER, b"\x00\x53\x70\xa1\x00"),
    ],
)
def test_what_a_broker_may_change_is_left_out(before: bytes, rest: bytes) -> None:
    assert beyond_delivery(before + rest) == rest


@pytest.mark.parametrize(
    ("rest", "has"),
    [(b"", False), (BODY, True), (NO_BODY, False), (FOOTER, False), (b"\x00\x53\x75", True)],
)
def test_a_body_is_found_behind_all_that_stands_before_it(rest: bytes, has: bool) -> None:
    assert has_body(HEADER + ANNOTATIONS + PROPERTIES + rest) is has
    assert has_body(rest) is has
