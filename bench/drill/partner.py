"""A partner of the HTTP API: a system of its own with a token and a queue."""

import http.client
import json
import time
from dataclasses import dataclass
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from bench.drill.ground import Ground
from integration.http_api.tokens import new_token

SERVICE: Final = "BenchPing"
TIMEOUT_SECONDS: Final = 30.0
_ADMIT: Final = """
INSERT INTO integration_apitoken (system_id, name, prefix, token_hash, may_post, may_call, may_read,
  may_publish, services, created_at, created_by)
SELECT id, 'drill', %s, %s, true, false, true, false, '[]', now(), 'drill'
FROM integration_externalsystem WHERE name = %s"""


class Answer(NamedTuple):
    """What the HTTP API said, and how long it took with the connection; status 0 for nothing."""

    status: int
    code: str
    seconds: float


@dataclass
class Partner:
    """One external system; the name of its queue is its own."""

    name: str
    place: tuple[str, int]
    token: str

    @property
    def path(self) -> str:
        return f"/esqueue/{self.name}/{SERVICE}"

    def post(self, body: bytes) -> Answer:
        """Post over a connection of its own; without a type, the body itself decides."""
        line = http.client.HTTPConnection(*self.place, timeout=TIMEOUT_SECONDS)
        began = time.monotonic()
        try:
            line.request("POST", self.path, body, {"Authorization": f"Bearer {self.token}"})
            answer = line.getresponse()
            code = str(json.loads(answer.read()).get("code", ""))
        except (OSError, http.client.HTTPException, ValueError) as failure:
            return Answer(0, type(failure).__name__, time.monotonic() - began)
        finally:
            line.close()
        return Answer(answer.status, code, time.monotonic() - began)

    def post_well(self, body: bytes) -> None:
        """Raises ValueError when it is not accepted."""
        answer = self.post(body)
        if answer.status != http.client.ACCEPTED:
            raise ValueError(f"{answer.status} {answer.code}")


def partner(ground: Ground, kind: str) -> Partner:
    """Set one up, with a continuous queue for the handler BenchPing."""
    name = f"drill-{kind}-{ground.suffix}"
    ground.queue(kind, kind="continuous", interface=SERVICE, system=name)
    token = new_token()
    ground.rig.write(_ADMIT, [token.prefix, token.token_hash, name])
    place = urlsplit(ground.address)
    return Partner(name, (str(place.hostname), int(place.port or 80)), token.text)
