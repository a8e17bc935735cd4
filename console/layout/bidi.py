"""Bidirectional control characters of partners' texts, spelt out on every page at one place."""

import re
from collections.abc import Callable
from typing import Final

from django.http import HttpRequest, HttpResponse

from integration.plain import without_bidi

# In UTF-8; of most pages no more is read than this.
FOUND: Final = re.compile(rb"\xd8\x9c|\xe2\x80[\x8e\x8f\xaa-\xae]|\xe2\x81[\xa6-\xa9]")
# What a field holds is sent back as it is: saving a form changes nothing by itself.
HELD: Final = re.compile(
    r'(<textarea\b(?![^>]*\breadonly\b)[^>]*>.*?</textarea>|(?<=\s)value="[^"]*")', re.DOTALL
)


class PlainDirections:
    r"""Middleware that shows U+202E and its like as `\u202e` instead of obeying them.

    A partner could make a key, an id or a cause read as another one. Downloads are not touched.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        is_page = response.get("Content-Type", "").startswith("text/html")
        if is_page and not response.streaming and FOUND.search(response.content):
            response.content = shown(response.text).encode()
            if "Content-Length" in response:
                response["Content-Length"] = str(len(response.content))
        return response


def shown(page: str) -> str:
    """The page with these characters spelt out, except in its fields."""
    parts = HELD.split(page)
    # What is held stands at the odd places.
    parts[::2] = [without_bidi(part) for part in parts[::2]]
    return "".join(parts)
