"""A depot's terminal: posts stock levels over the HTTP API, with a token of its own."""

import json
import urllib.request
import uuid
from typing import Final

from integration.actions import tokens
from integration.actions.configuration import Author
from integration.documents.exact_json import encode
from integration.models import ApiToken, ExternalSystem
from sample import names
from sample.documents import Fields

SECONDS: Final = 3.0
ACTOR: Final = "sample_traffic"


class Terminal:
    """Posts to one console. `taken` and `refused` count its posts."""

    def __init__(self, address: str) -> None:
        self._address = f"{address.rstrip('/')}/esqueue/{names.DEPOT}/{names.LEVEL}"
        self._token = a_token()
        self.taken = 0
        self.refused = 0

    def post(self, level: Fields) -> bool:
        """Post it; returns whether it was taken: an absent console is no reason to stop."""
        request = urllib.request.Request(  # noqa: S310 - the console of this machine
            self._address,
            data=encode(level).encode(),
            headers={
                "Authorization": f"Bearer {self._token}",
                "Content-Type": "application/json",
                # A post that is sent again has the same id and is taken once.
                "Idempotency-Key": str(uuid.uuid4()),
            },
        )
        try:
            with urllib.request.urlopen(request, timeout=SECONDS) as answer:  # noqa: S310 - see above
                json.load(answer)
        except (OSError, ValueError):
            self.refused += 1
            return False
        self.taken += 1
        return True


def a_token() -> str:
    """A new token of the depot for this traffic; the one of the last start is no longer valid."""
    depot = ExternalSystem.objects.get(name=names.DEPOT)
    ApiToken.objects.filter(system=depot, name=names.TOKEN).delete()
    token = ApiToken(system=depot, name=names.TOKEN, services=[names.LEVEL])
    return tokens.make(token, Author(ACTOR, "for the sample's posts"), valid_for=None).text
