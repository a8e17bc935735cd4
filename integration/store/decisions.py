"""Decisions about failures outlive them: each is noted apart before its failure is removed."""

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from integration.store.sessions import execute

# Payloads go with their failure: its queue says how long they may be kept.
KEEP: Final = """
UPDATE integration_errorchange c
SET error_id = NULL, queue_name = q.name, message_id = e.message_id, payload_before = NULL
FROM integration_messageerror e JOIN integration_queue q ON q.id = e.queue_id
WHERE c.error_id = e.id AND e.id = ANY(%(keys)s)"""


def keep(error_ids: Sequence[UUID]) -> None:
    """Let the decisions about these failures stand by themselves, in the caller's transaction."""
    execute(KEEP, {"keys": list(error_ids)})
