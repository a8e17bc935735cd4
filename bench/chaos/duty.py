"""The person on duty in the chaos run, at the console: edits, releases, parks, deletes, resumes."""

import html
import json
import random
import re
import sys
import threading
import urllib.error
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from bench.chaos.plan import INTERFACE, STRANGER
from bench.faults.looking import Look
from bench.smoke.person import CONFLICT, Person

LOOK_SECONDS: Final = 0.3
PATIENCE_SECONDS: Final = 0.5
AT_ONCE: Final = 10
# Of the messages that have to be edited, so many are released as they are at first.
TOO_SOON: Final = 0.15
PARKED: Final = 0.4
SERVER_ERROR: Final = 500
HELD: Final = """
SELECT e.id, coalesce(e.edited_payload, e.payload), e.parked_at IS NOT NULL,
  EXISTS (SELECT 1 FROM integration_queuepartition p
    WHERE p.state = 'BLOCKED' AND p.state_error = e.id AND q.kind = 'sequential')
FROM integration_messageerror e JOIN integration_queue q ON q.id = e.queue_id
WHERE e.state = 'HOLD' ORDER BY e.last_failed_at LIMIT %s
"""
# Stopped at their failure threshold, and little of what stopped them is left.
STOPPED: Final = """
SELECT DISTINCT q.name FROM integration_queue q JOIN integration_queuepartition p
  ON p.queue_id = q.id AND p.state = 'BRAKED'
WHERE (SELECT count(*) FROM integration_messageerror e WHERE e.queue_id = q.id
  AND e.state IN ('HOLD', 'PARKED', 'READY', 'RETRY', 'PROCESSING')) < %s
"""
FEW: Final = 100
_TEXT: Final = re.compile(r'<textarea [^>]*name="text"[^>]*>\n?(.*?)</textarea>', re.DOTALL)
_VERSION: Final = re.compile(r'name="version" value="(\d+)"')


@dataclass(frozen=True, slots=True)
class Held:
    """A message on hold; `blocks` when a sequential queue stops at it."""

    id: object
    payload: bytes
    is_parked: bool
    blocks: bool

    @property
    def document(self) -> Any:
        """The message as it can be read; None when it cannot."""
        try:
            return json.loads(bytes(self.payload))
        except ValueError:
            return None


def mended(text: str) -> str:
    """The text of a message without what makes it fail."""
    document = json.loads(text.replace(STRANGER, INTERFACE))
    document.pop("fails", None)
    return json.dumps(document)


def has_to_be_edited(document: Any) -> bool:
    return "fails" in document or document.get("INTERFACE") == STRANGER


class OnDuty(threading.Thread):
    """Decides about whatever is on hold, until it is ended. Comes back when the console fails.

    `refusals` are answers that no fault explains; `resumed` counts queues that were resumed.
    """

    def __init__(self, look: Look, person: Person, login: tuple[str, str], seed: str) -> None:
        super().__init__(name="on duty", daemon=True)
        self.look = look
        self.person = person
        self.login = login
        self.chance = random.Random(f"duty {seed}")
        self.ending = threading.Event()
        self.refusals: list[str] = []
        self.resumed = 0

    def run(self) -> None:
        while not self.ending.wait(LOOK_SECONDS):
            for row in self.look.rows(HELD, [AT_ONCE]) or ():
                self._try(partial(self.decide, Held(*row)))
            for (name,) in self.look.rows(STOPPED, [FEW]) or ():
                self._try(partial(self._resume, str(name)))

    def _try(self, deed: Callable[[], None]) -> None:
        try:
            deed()
        except urllib.error.HTTPError as e:
            if e.code < SERVER_ERROR and e.code != CONFLICT:
                self._refused(f"{e.code} {e.url}")
            self.ending.wait(PATIENCE_SECONDS)
        except OSError:
            # Refused, reset, or too slow: the console has its own faults.
            self.ending.wait(PATIENCE_SECONDS)

    def decide(self, held: Held) -> None:
        """Do what a careful person would do about this one, and now and then a careless one."""
        document = held.document
        if document is None:
            self._post(held, "deletions", "Nobody can read it.")
        elif held.blocks and not held.is_parked and self.chance.random() < PARKED:
            self._post(held, "parkings", "The others need not wait.")
        elif has_to_be_edited(document) and self.chance.random() >= TOO_SOON:
            self._edit(held)
        else:
            self._post(held, "releases", "")

    def _resume(self, name: str) -> None:
        page = self._read(f"queues/{name}/")
        self.person.post(f"queues/{name}/resumptions/", page, {"reason": "It is mended."})
        self.resumed += 1

    def _edit(self, held: Held) -> None:
        page = self._read(f"failures/{held.id}/edits/?part=record")
        text, version = _TEXT.search(page), _VERSION.search(page)
        if text is None or version is None:
            return
        fields = {"version": version[1], "part": "record", "then": "release", "reason": "mended"}
        fields["text"] = mended(html.unescape(text[1]))
        self.person.post(f"failures/{held.id}/edits/", page, fields)

    def _post(self, held: Held, verb: str, reason: str) -> None:
        page = self._read(f"failures/{held.id}/")
        version = _VERSION.search(page)
        if version is not None:
            fields = {"version": version[1], "reason": reason}
            self.person.post(f"failures/{held.id}/{verb}/", page, fields)

    def _read(self, path: str) -> str:
        page = self.person.read(path)
        if 'name="password"' in page:
            self.person.log_in(*self.login)
            page = self.person.read(path)
        return page

    def _refused(self, answer: str) -> None:
        self.refusals.append(answer)
        print(f"the console refused: {answer}", file=sys.stderr)
