"""Methods of HTTP that only ask, as RFC 9110 has them."""

from typing import Final

# Section 9.2.1: who sends one of them asks for nothing to be changed.
SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
