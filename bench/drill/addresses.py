"""The console's addresses, filled with rows that the running stack has; and people to try them.

Runs within `manage.py shell`, where Django's table of addresses is. Prints one line of JSON.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any, Final, cast
from uuid import uuid4

from django.apps import apps
from django.contrib.auth.models import Group, User
from django.db.models import Model
from django.urls import reverse
from django.utils import timezone

from console.layout.access import ROLES, Right
from console.models import Limit
from crontasks.models import CronInstance, CronRun
from integration.models import (
    ApiToken,
    BulkRun,
    ChannelTarget,
    ConfigurationChange,
    Endpoint,
    EnterpriseService,
    ExternalSystem,
    Gap,
    MessageError,
    MessageTrack,
    ObjectStructure,
    Operation,
    OperationItem,
    OutboxRow,
    Provider,
    PublishChannel,
    Queue,
    RelayLease,
)
from tests.support.every_page import OWN, PUBLIC, every_pattern

MARK: Final = "DRILL "
# Values that forms take, whatever they are of.
PLAUSIBLE: Final[Mapping[str, object]] = {
    **dict.fromkeys(("reason", "why"), "drill"),
    **dict.fromkeys(("confirm", "enabled", "active", "is_active", "may_post"), "on"),
    **dict.fromkeys(("payload", "text", "body", "document"), "{}"),
    **dict.fromkeys(("late", "apply_as_newest", "partitions"), "1"),
    **dict.fromkeys(("offset", "position", "partition"), "0"),
    **dict.fromkeys(("rate", "minutes"), "5"),
    **dict.fromkeys(("interval_seconds", "seconds"), "600"),
    # What a new queue and a new endpoint need, so that nothing but the right is missing.
    **dict.fromkeys(("concurrency", "max_retries", "crash_limit", "retry_factor"), "1"),
    **dict.fromkeys(("max_open_errors", "failure_threshold", "max_parked"), "100"),
    **dict.fromkeys(("batch_size", "rescue_limit_mb", "max_concurrent", "open_after"), "8"),
    **dict.fromkeys(("retry_delay_seconds", "handler_timeout_seconds", "stay_seconds"), "1 min"),
    "retry_cap_seconds": "1 h",
    "retry_jitter": "0",
    "retention_seconds": "7 d",
    "backoff": "constant",
    "ordering": "none",
    "carrier": "row",
    "on_head_expired": "advance",
    "on_gap": "block",
    "group_protocol": "none",
    "topic_from": "create",
    "direction": "inbound",
    "kind": "continuous",
    "start_from": "end",
    "to": "beginning",
    "email": "drill@example.org",
    "verb": "release",
    "then": "release",
    "query": "",
    "task": "queue",
    "crontab": "* * * * *",
    "key_paths": "$.a",
    "bootstrap_servers": "127.0.0.1:1",
    "endpoint_type": "file",
    "format": "raw",
    "at_once": "1",
    "file_name": "{message_id}",
    "next": "/",
}
# Written by the engine, the schedule or a login into rows of people.
NOT_BY_PEOPLE: Final = (
    *("changed_at", "topic_keeps_seconds", "topic_max_bytes", "rescue_wanted_at"),
    *("start_requested_at", "help_wanted_at", "idle_watched_at", "last_login", "last_used_at"),
    *("periodic_task_id", "asked_at", "waits_since", "last_scheduled_at"),
)
VERBS: Final = ("", "-change", "-delete", "-switch", "-release", "-try", "-test")
# Of these there need not be a row: then the address names something that nobody has.
STAND_INS: Final[Mapping[str, Callable[[], object]]] = {
    "int": lambda: 999_999_999,
    "uuid": uuid4,
    "slug": lambda: "drill-nothing",
    "str": lambda: "drill-nothing",
    "path": lambda: "drill-nothing.txt",
}
# A person's role, and whether the person is limited to the drill's own system.
PEOPLE: Final = (
    *((role, False) for role in ("", *ROLES)),
    *((role, True) for role in ("Operators", "Editors", "Administrators")),
)


def make(suffix: str, password: str) -> dict[str, Any]:
    """Make people, their system and what the stack lacks; tell what is to be asked by whom."""
    home = ExternalSystem.objects.create(name=f"drill-home-{suffix}", description="Of a drill")
    people = [
        _person(suffix, password, role, home if limited else None) for role, limited in PEOPLE
    ]
    error = _failure()
    samples = _samples(error, suffix)
    return {
        "people": people,
        "failure": str(error.pk),
        "addresses": _addresses(samples),
        "form": _form(error, samples, suffix),
        "foreign": _foreign(),
        "tables": [model._meta.db_table for model in _configured()],
        "not_by_people": NOT_BY_PEOPLE,
    }


def clear(suffix: str) -> dict[str, Any]:
    """Remove what `make` made; the audit stays."""
    Operation.objects.filter(actor=_maker(suffix)).delete()
    BulkRun.objects.filter(actor=_maker(suffix)).delete()
    ApiToken.objects.filter(created_by=_maker(suffix)).delete()
    User.objects.filter(username__startswith=f"drill-{suffix}-").delete()
    ExternalSystem.objects.filter(name=f"drill-home-{suffix}").delete()
    return {"people": User.objects.filter(username__startswith=f"drill-{suffix}-").count()}


def run(verb: str, *words: str) -> None:
    """What the drill calls in the other process."""
    verbs: dict[str, Callable[..., object]] = {"make": make, "clear": clear}
    done = verbs[verb](*words)
    print(MARK + json.dumps(done, default=str))


def _maker(suffix: str) -> str:
    return f"drill-maker-{suffix}"


def _person(suffix: str, password: str, role: str, home: ExternalSystem | None) -> dict[str, Any]:
    words = [role.lower() or "nobody", *(["limited"] if home else [])]
    person = User.objects.create_user(f"drill-{suffix}-{'-'.join(words)}", password=password)
    if role:
        person.groups.add(Group.objects.get(name=role))
    if home is not None:
        Limit.objects.create(person=person).systems.add(home)
    # As the database has them: an administrator may have changed the roles.
    rights = [right.name for right in Right if person.has_perm(right.permission)]
    return {"name": person.username, "rights": rights, "limited": home is not None}


def _failure() -> MessageError:
    """Return one on hold of a partner's queue: nobody but a person moves it."""
    held = MessageError.objects.filter(
        state="HOLD", queue__direction="inbound", queue__kind="continuous"
    )
    # Other drills move their own.
    lasting = held.exclude(queue__system=None).exclude(queue__name__startswith="drill-")
    found = lasting.select_related("queue__system").order_by("queue_id", "pk").first()
    if found is None:
        raise LookupError("No failure is on hold: let the sample traffic run for a minute.")
    return found


def _foreign() -> list[str]:
    """Names that no limited person may read. Other drills call shared channels as their queues."""
    queues = Queue.objects.exclude(system=None).exclude(name__startswith="drill-")
    return list(queues.values_list("name", flat=True))


def _addresses(samples: Mapping[str, object]) -> list[dict[str, Any]]:
    found = []
    for pattern in every_pattern():
        name = str(pattern.name)
        if name in PUBLIC | OWN:
            continue
        parts, without_row = {}, []
        for part, converter in pattern.pattern.converters.items():
            value = samples.get(f"{name}:{part}", samples.get(part))
            if value is None:
                kind = type(converter).__name__.removesuffix("Converter")
                value = STAND_INS[{"string": "str"}.get(kind.lower(), kind.lower())]()
                without_row.append(part)
            parts[part] = value
        rights = getattr(pattern.callback, "rights", ())
        found.append(
            {
                "name": name,
                "path": reverse(name, kwargs=parts).removeprefix("/"),
                "rights": [right.name for right in rights],
                "has_parts": bool(parts),
                "without_row": without_row,
            }
        )
    return found


def _samples(error: MessageError, suffix: str) -> dict[str, object]:
    """The parts of addresses, by "address:part" or "part", as far as the stack has rows."""
    queue, system = error.queue, error.queue.system
    endpoint = Endpoint.objects.order_by("pk").first()
    numbers = {
        "system": queue.system_id,
        "service": _first(EnterpriseService),
        "structure": _first(ObjectStructure),
        "endpoint": None if endpoint is None else endpoint.pk,
        "provider": _first(Provider),
        "channel": _first(PublishChannel),
        "target": _first(ChannelTarget),
    }
    if system is None:
        raise ValueError("the failure's queue belongs to no system")
    of_system = ("http-api", "token-new", "token-rotate", "token-revoke")
    of_endpoint = ("delivery-endpoint", *(f"{v}-endpoint" for v in ("pause", "resume", "enable")))
    end_name = None if endpoint is None else endpoint.name
    person = User.objects.filter(username__startswith=f"drill-{suffix}-").latest("pk")
    return {
        **{f"{noun}{verb}:number": pk for noun, pk in numbers.items() for verb in VERBS},
        **{f"{name}:number": system.pk for name in of_system},
        **{f"{name}:name": end_name for name in (*of_endpoint, "disable-endpoint")},
        **_rows(error, suffix),
        "channel-subjects:number": numbers["channel"],
        "provider-forget:number": numbers["provider"],
        "service-test:number": numbers["service"],
        "token_id": _token(system, suffix).pk,
        "name": queue.name,
        "partner-step:name": "service",
        "removal:name": "sample",
        "error_id": error.pk,
        "person_id": person.pk,
        "job": "import",
        "file": "part-0.jsonl",
        "verb": "release",
        "decide-many:verb": "send-again",
        "decide-outbox:verb": "send-again",
    }


def _token(system: ExternalSystem, suffix: str) -> ApiToken:
    return ApiToken.objects.create(
        system=system,
        name=f"drill-{suffix}",
        prefix=f"drill-{suffix}"[:16],
        token_hash="0" * 64,
        created_at=timezone.now(),
        created_by=_maker(suffix),
    )


def _rows(error: MessageError, suffix: str) -> dict[str, object]:
    queue = error.queue
    instance = CronInstance.objects.filter(queue=queue).first() or CronInstance.objects.first()
    tracks = MessageTrack.objects.filter(queue=queue.pk)
    track, tested = tracks.first(), tracks.filter(message_id__regex=r"^[-\w]+$").first()
    bulk_run = BulkRun.objects.create(
        job="import",
        job_request={"source": "drill.csv", "structure": "drill", "rejects_queue": queue.name},
        state="FAILED",
        problem=["SOURCE_CHANGED", "The file is another one.", "Put it back."],
        queues=[queue.pk],
        actor=_maker(suffix),
        asked_at=timezone.now(),
        ended_at=timezone.now(),
    )
    return {
        "gap_id": _first(Gap),
        "row_id": _first(OutboxRow),
        "lease_id": _first(RelayLease),
        "instance_id": None if instance is None else instance.pk,
        "run_id": _first(CronRun),
        "message_id": None if track is None else track.message_id,
        # The pages of a test message take no other ids than those of test messages.
        **dict.fromkeys(
            ("test-message-outcome:message_id", "partner-outcome:message_id"),
            None if tested is None else tested.message_id,
        ),
        "change:number": _first(ConfigurationChange),
        "operation_id": _operation(error, suffix),
        "bulk_run_id": bulk_run.pk,
    }


def _operation(error: MessageError, suffix: str) -> object:
    operation = Operation.objects.create(
        verb="release",
        title="Release by a drill",
        actor=_maker(suffix),
        state="PLANNED",
        total=1,
        queues=[error.queue_id],
        created_at=timezone.now(),
    )
    OperationItem.objects.create(operation=operation, place=0, error=error, version=error.version)
    return operation.pk


def _form(error: MessageError, samples: Mapping[str, object], suffix: str) -> dict[str, object]:
    """What somebody would send who knows the names of fields and the numbers of foreign rows."""
    queue, name = error.queue, f"drill-crafted-{suffix}"
    row = OutboxRow.objects.filter(pk=cast("int", samples["row_id"])).first()
    return {
        **dict.fromkeys(("name", "username", "interface", "description", "title", "topic"), name),
        **dict.fromkeys(("rejects_queue", "queues", "word", "typed"), queue.name),
        "queue": queue.pk,
        **dict.fromkeys(("system", "systems"), queue.system_id),
        **PLAUSIBLE,
        "version": error.version,
        "chosen": f"{error.pk}:{error.version}",
        "outbox_chosen": "" if row is None else f"{row.pk}:{row.batch}",
        "source": error.pk,
        "provider": queue.provider_id,
        # A new queue is inbound: that is what it may not have.
        "endpoint": "",
        "channel": samples["channel:number"],
        "structure": samples["structure:number"],
        "roles": list(Group.objects.values_list("pk", flat=True)),
        "batch": "" if row is None else str(row.batch),
    }


def _configured() -> list[type[Model]]:
    """Everything that only people change."""
    named = (
        *(ExternalSystem, Queue, Endpoint, EnterpriseService, ObjectStructure, Provider),
        *(PublishChannel, ChannelTarget, ApiToken, CronInstance, User, Group, Limit),
    )
    through = [
        model
        for model in apps.get_models(include_auto_created=True)
        # By Django's stubs a truth; it is the model that the table was made for.
        if cast("type[Model]", model._meta.auto_created) in {User, Group, Limit}
    ]
    return [*named, *through]


def _first(model: type[Model]) -> object:
    row = model._default_manager.order_by("-pk").first()
    return None if row is None else row.pk
