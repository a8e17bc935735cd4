"""The mark of a link that begins a connection, so that no other site can begin one.

Else one that had logged the browser in to the identity provider as somebody else could connect the
person's account with that somebody.
"""

from typing import Final

from django.http import HttpRequest
from django.utils.crypto import constant_time_compare, salted_hmac

SALT: Final = "console.people.company.connecting"


def mark(request: HttpRequest) -> str:
    """What only a page of this session has."""
    key = request.session.session_key or ""
    return salted_hmac(SALT, key, algorithm="sha256").hexdigest()[:32]


def is_marked(request: HttpRequest) -> bool:
    """Whether the request came from such a page."""
    return constant_time_compare(request.GET.get("mark", ""), mark(request))
