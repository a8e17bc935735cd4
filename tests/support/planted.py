"""A secret planted at a masked path of a message, in everything that this message leaves behind.

The message has failed, was edited, was sent on, tracked, stored as a document; errors, tracebacks
and answers quote its value. Whatever leaves is then searched for it.
"""

import base64
import json
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from django.utils import timezone

from integration.models import (
    Delivery,
    Endpoint,
    EnterpriseService,
    ErrorAttempt,
    ErrorChange,
    MaskingRule,
    MessageError,
    ObjectStructure,
    Operation,
    OutboxRow,
    Queue,
    QueuePartition,
    StoredObject,
)
from tests.support.every_page import a_world
from tests.support.rows import a_held
from tests.support.tracks import a_track_row

SECRET: Final = "Zx9-Qu4llärcon'ia"
SERVICE: Final = "PlantedService"
TOPIC_UUID: Final = "first-topic"
QUOTED: Final = (
    f"No customer {SECRET} is known; {json.dumps(SECRET)}, {SECRET!r}, {json.dumps([SECRET])}"
)
DOCUMENT: Final = {"order": 7, "person": {"name": "Jo", "ssn": SECRET, "cards": [{"no": SECRET}]}}
SCHEMA: Final = {"properties": {"person": {"properties": {"ssn": {"enum": ["nobody"]}}}}}
PATHS: Final = ("$.person.ssn", "$..no")


@dataclass(frozen=True, slots=True)
class Planted:
    """The world with the secret in it: samples of addresses, and what carries the secret."""

    samples: dict[str, Any]
    queue: Queue
    error: MessageError
    message_id: str

    @property
    def lists(self) -> list[tuple[str, dict[str, str]]]:
        """Pages that show it only when they are asked for by a query; by their names."""
        return [
            ("tracked-message", {"id": self.message_id}),
            ("tracking", {"hours": "8760"}),
            ("failure-list", {"state": ""}),
            ("failures", {"by": "cause"}),
            ("failures", {"by": "queue"}),
        ]


def is_in(content: bytes) -> bool:
    """Return whether the secret stands in what left: its beginning is the same in any writing."""
    core = SECRET[:9].encode()
    ways = (core, core.hex().encode(), base64.b64encode(core))
    return any(way in content for way in ways)


def rules() -> list[MaskingRule]:
    """The rules that hide it: two paths, a header, the key."""
    made = [
        MaskingRule.objects.create(name=f"planted-{number}", path=path)
        for number, path in enumerate(PATHS)
    ]
    return [
        *made,
        MaskingRule.objects.create(name="planted-header", part="header", path="X-Person"),
        MaskingRule.objects.create(name="planted-key", part="key"),
    ]


def a_planted_world() -> Planted:
    """Everything of tests.support.every_page, with the secret wherever a message leaves it."""
    samples = a_world()
    # The rule of that world hides nothing here.
    MaskingRule.objects.update(enabled=False)
    queue = Queue.objects.get(name=samples["name"])
    structure = ObjectStructure.objects.get(name="shared-structure")
    # What it objects to, it quotes.
    structure.json_schema = SCHEMA
    structure.save()
    EnterpriseService.objects.create(
        interface=SERVICE,
        structure=structure,
        external_id_path="$.person.ssn",
        search_paths=["$.person.cards[0].no", "$.order"],
    )
    record = json.dumps(DOCUMENT).encode()
    head = MessageError.objects.get(pk=samples["error_id"])
    headers = [
        ["X-Person", base64.b64encode(SECRET.encode()).decode()],
        ["kafka_dlt-exception-message", base64.b64encode(QUOTED.encode()).decode()],
    ]
    fields: dict[str, Any] = {
        "interface": SERVICE,
        "payload": record,
        "edited_payload": json.dumps({**DOCUMENT, "order": 8}).encode(),
        "edited_at": timezone.now(),
        "edited_by": "eva",
        "headers": headers,
        "key": SECRET.encode(),
        "text": QUOTED,
    }
    MessageError.objects.filter(pk=head.pk).update(**fields)
    QueuePartition.objects.filter(state_error=head.pk).update(state_text=QUOTED)
    _stopped(queue)
    ErrorAttempt.objects.filter(error=head).update(text=QUOTED, detail=f"Traceback\n{QUOTED}")
    a_held(queue, 12, **{**fields, "message_id": "plant/EAM/12", "edited_payload": None})
    ErrorChange.objects.create(
        error=head,
        at=timezone.now(),
        actor="eva",
        action="edit",
        from_state="HOLD",
        to_state="HOLD",
        payload_before=record,
    )
    head.refresh_from_db()
    _calls(samples, head)
    _elsewhere(samples, queue, structure, record, headers)
    return Planted(samples, queue, head, head.message_id)


def _stopped(queue: Queue) -> None:
    """Partitions that stopped at messages of which there is no failure, with a handler's words."""
    since = timezone.now() - timedelta(minutes=5)
    for number, state, code in (
        (5, "OUTAGE", "OUTAGE"),
        (6, "OUTAGE", "LEDGER_CLOSED"),
        (7, "BRAKED", "SAME_FAILURE_IN_A_ROW"),
    ):
        QueuePartition.objects.create(
            queue=queue,
            partition=number,
            topic_uuid=TOPIC_UUID,
            next_offset=1,
            state=state,
            state_code=code,
            state_text=QUOTED,
            state_since=since,
        )


def _calls(samples: dict[str, Any], head: MessageError) -> None:
    """A call of an endpoint whose answer repeats the value, and one in doubt."""
    endpoint = Endpoint.objects.get(name=samples["name"])
    out = Queue.objects.get(name=f"{samples['name']}-out")
    now = timezone.now()
    for queue, offset, state in ((head.queue, head.offset, "FAILED"), (out, 3, "UNKNOWN")):
        Delivery.objects.create(
            queue=queue,
            endpoint=endpoint,
            topic_uuid=head.topic_uuid,
            partition=0,
            offset=offset,
            message_id=head.message_id,
            interface=SERVICE,
            state=state,
            epoch=3,
            started_at=now,
            ended_at=now,
            text=QUOTED,
            excerpt=QUOTED,
        )
    a_held(
        out,
        3,
        topic_uuid=head.topic_uuid,
        interface=SERVICE,
        payload=json.dumps(DOCUMENT).encode(),
        key=SECRET.encode(),
        code="DELIVERY_UNKNOWN",
        text=QUOTED,
        message_id="plant/EAM/3",
    )


def _elsewhere(
    samples: dict[str, Any],
    queue: Queue,
    structure: ObjectStructure,
    record: bytes,
    headers: list[list[str]],
) -> None:
    """The outbox, tracking, the stored document, and a bulk edit that would copy the value."""
    OutboxRow.objects.filter(pk=samples["row_id"]).update(
        value=record, key=SECRET.encode(), headers=headers
    )
    a_track_row(
        queue,
        ago=timedelta(minutes=2),
        message_id="plant/EAM/10",
        interface=SERVICE,
        ended="HOLD",
        key=SECRET,
        external_id=SECRET,
        search_a=SECRET,
        payload=record,
    )
    StoredObject.objects.create(
        structure=structure,
        key="7",
        document=DOCUMENT,
        arrival_batch=1,
        arrival_index=0,
        updated_at=timezone.now(),
    )
    recipe = json.dumps([{"op": "copy", "from": "/person/ssn", "path": "/note"}])
    Operation.objects.filter(pk=samples["operation_id"]).update(
        verb="edit", recipe=recipe, trial={"at": 1, "fits": 1, "samples": [0]}
    )
