"""Every address of the console, from its own table: a new one cannot be forgotten."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.contrib.auth.models import Group, User
from django.urls import URLPattern, URLResolver, get_resolver, reverse
from django.utils import timezone

from console.layout.access import Right
from console.models import CompanyIdentity, ConsoleSession, GroupRule, SecondFactor
from console.people import personal_tokens
from crontasks.models import CronInstance, CronRun, Notice, NoticeRecipient, NoticeRule
from integration.actions.configuration import Author
from integration.actions.testmessages import Draft, send
from integration.models import (
    ApiToken,
    BulkRun,
    ConfigurationChange,
    ConnectionFactory,
    Endpoint,
    EnterpriseService,
    EventSubscription,
    ExternalSystem,
    Gap,
    MaskingRule,
    MessageError,
    ObjectStructure,
    Operation,
    OperationItem,
    OutboxRow,
    Provider,
    Queue,
    RelayLease,
)
from tests.support.channels import a_channel, a_target, an_outbound
from tests.support.rows import a_blocked_queue, a_jms_queue_row

# Addresses that everybody may ask for: they log in, or tell machines how this installation is.
PUBLIC = frozenset(
    {
        "login",
        "login-code",
        "login-second",
        "company-login",
        "company-callback",
        "admin-login",
        "logout",
        "admin-logout",
        "healthz",
        "readyz",
        "metrics",
        "theme",
        "refresh",
    }
)
# One's own password: everybody who is logged in, by Django's own view; the admin leads there.
OWN = frozenset({"password_change", "admin-password", "admin-password-done"})
VERBS = ("release", "send-again")
# The key of a sample that no address has a part for.
JMS = "jms queue and provider"
OF_QUEUES = ("queue", "flow", "position", "test-message", "queue-change", "queue-delete")
OF_PROVIDERS = ("provider", "provider-change", "provider-delete")


@dataclass(frozen=True, slots=True)
class Address:
    """One named address with the rights its view asks for; None = it does not say."""

    name: str
    path: str
    rights: tuple[Right, ...] | None


def every_pattern() -> Iterator[URLPattern]:
    """The console's own patterns; the admin's are Django's."""

    def within(patterns: list[Any]) -> Iterator[URLPattern]:
        for pattern in patterns:
            if isinstance(pattern, URLResolver):
                if pattern.app_name != "admin":
                    yield from within(pattern.url_patterns)
            else:
                yield pattern

    yield from within(get_resolver().url_patterns)


def every_address(samples: dict[str, Any]) -> list[Address]:
    """Every address filled in from `samples`, by the names of its parts.

    A part is looked up as "address:part" first, then as "part".
    """
    found = []
    for pattern in every_pattern():
        name = pattern.name
        assert name, f"{pattern.pattern} has no name"
        parts = {}
        for part in pattern.pattern.converters:
            key = f"{name}:{part}" if f"{name}:{part}" in samples else part
            assert key in samples, f"say in tests/support/every_page.py what “{name}:{part}” is"
            parts[part] = samples[key]
        rights = getattr(pattern.callback, "rights", None)
        found.append(Address(name, reverse(name, kwargs=parts), rights))
    return found


def jms_pages(samples: dict[str, Any]) -> list[str]:
    """The pages of a queue and a provider once more, where these are at a JMS broker."""
    name, number = samples[JMS]
    return [
        *(reverse(page, args=[name]) for page in OF_QUEUES),
        *(reverse(page, args=[number]) for page in OF_PROVIDERS),
        f"{reverse('queue-new')}?like={name}",
    ]


def a_cluster_for_it(bootstrap: str) -> None:
    """Give the world of `a_world`, made after this, brokers that answer: none is waited for."""
    for name in ("plant", "main"):
        Provider.objects.create(name=name, bootstrap_servers=bootstrap)


def a_world(name: str = "hidden-away", **fields: Any) -> dict[str, Any]:
    """One row of everything that addresses speak of, as samples.

    What belongs to an external system is called by `name`; what all partners share is not.
    `fields` are further ones of the queue.
    """
    system = ExternalSystem.objects.create(name=name, description="A partner of ours")
    queue, place, error = a_blocked_queue(name=name, topic=f"{name}-topic", system=system, **fields)
    now = timezone.now()
    at_jms = a_jms_queue_row(name=f"{name}-jms", system=system, selector="JMSType = 'order'")
    gap = Gap.objects.create(
        partition=place,
        topic_uuid="first-topic",
        from_offset=1,
        to_offset=2,
        reason="EXPIRED",
        found_at=now,
    )
    row = OutboxRow.objects.create(
        provider=queue.provider,
        topic=queue.topic,
        kind="MESSAGE",
        state="DEAD",
        created_at=now,
    )
    lease = RelayLease.objects.create(provider=queue.provider, shard=0)
    instance = CronInstance.objects.filter(queue=queue).first()
    assert instance is not None
    run = CronRun.objects.create(instance=instance, started_at=now, ended_at=now, state="DONE")
    return {
        "name": queue.name,
        "gap_id": gap.pk,
        "error_id": error.pk,
        "notice_id": _a_notice(queue).pk,
        "row_id": row.pk,
        "lease_id": lease.pk,
        "instance_id": instance.pk,
        "run_id": run.pk,
        **_a_person(),
        "rule_id": _a_group_rule().pk,
        "role_id": Group.objects.get(name="Viewers").pk,
        "message_id": send(queue, Draft(payload="{}"), Author("otto")),
        "partner-step:name": "service",
        "operation_id": _an_operation(name, error).pk,
        "bulk_run_id": _a_bulk_run(name, queue).pk,
        "job": "import",
        "file": "part-0.jsonl",
        "finding_id": 1,
        "waiting-messages:name": at_jms.name,
        JMS: (at_jms.name, at_jms.provider_id),
        "verb": VERBS[0],
        "decide-many:verb": VERBS[1],
        "decide-outbox:verb": VERBS[1],
        **_set_up(name, system, queue.provider.pk),
    }


def _a_person() -> dict[str, int]:
    """Somebody with a token: whose own page asks for it finds it, others do not."""
    person = User.objects.create_user("somebody")
    made = personal_tokens.make(person, "theirs", [Right.VIEW], valid_for=timedelta(days=1))
    pages = ("personal-token-revoke", "person-token-revoke")
    now = timezone.now()
    session = ConsoleSession.objects.create(
        person=person, session_key="theirs", way="password", began_at=now, seen_at=now
    )
    CompanyIdentity.objects.create(
        person=person, issuer="https://id.example", subject="theirs", groups=["/plant"], seen_at=now
    )
    factor = SecondFactor.objects.create(person=person, kind="app", name="theirs", created_at=now)
    return {
        "person_id": person.pk,
        "session_id": session.pk,
        "factor_id": factor.pk,
        **{f"{page}:token_id": made.token.pk for page in pages},
    }


def _a_group_rule() -> GroupRule:
    return GroupRule.objects.create(group="/plant", role=Group.objects.get(name="Viewers"))


def _a_notice(queue: Queue) -> Notice:
    return Notice.objects.create(
        kind="BLOCKED",
        subject=f"{queue.name}[0]",
        queue=queue,
        text="HEAD_HELD: Bad date.",
        opened_at=timezone.now(),
    )


def _an_operation(name: str, error: MessageError) -> Operation:
    operation = Operation.objects.create(
        verb="release",
        title=f"Release of {name}",
        actor="otto",
        state="PLANNED",
        total=1,
        queues=[error.queue_id],
        created_at=timezone.now(),
    )
    OperationItem.objects.create(operation=operation, place=0, error=error, version=error.version)
    return operation


def _a_bulk_run(name: str, queue: Queue) -> BulkRun:
    now = timezone.now()
    return BulkRun.objects.create(
        job="import",
        job_request={
            "source": f"/srv/{name}.csv",
            "structure": "shared-structure",
            "rejects_queue": name,
        },
        progress={"stage": "stage", "done": 3, "total": 8, "rows": 3_000},
        state="FAILED",
        problem=["SOURCE_CHANGED", "The file is another one.", "Put it back."],
        log="2026-11-22 12:00:00 It begins.",
        queues=[queue.pk],
        actor="otto",
        asked_at=now,
        started_at=now,
        ended_at=now,
    )


def _set_up(name: str, system: ExternalSystem, provider: int) -> dict[str, int]:
    """The numbers of configured things, for each address of theirs."""
    endpoint = Endpoint.objects.create(name=name, system=system, endpoint_type="file")
    structure = ObjectStructure.objects.create(name="shared-structure", key_paths=["$.a"])
    service = EnterpriseService.objects.create(interface="SharedService", structure=structure)
    factory = ConnectionFactory.objects.create(name="shared-connection", provider_id=provider)
    token = ApiToken.objects.create(
        system=system,
        name=name,
        prefix=f"sluice_{name}"[:16],
        token_hash="0" * 64,
        created_at=timezone.now(),
        created_by="adam",
    )
    queue = an_outbound(f"{name}-out", system)
    target = a_target(a_channel("SharedChannel"), name, queue=queue)
    recipient = NoticeRecipient.objects.create(
        name="shared-recipient", addresses=["ops@example.org"]
    )
    rule = NoticeRule.objects.create(name=name, kind="LAG", system=system, at_least=100)
    change = ConfigurationChange.objects.create(
        at=timezone.now(),
        actor="adam",
        action="create",
        kind="externalsystem",
        subject=str(system.pk),
        name=name,
        system=system,
        after={"name": name},
    )
    numbers = {
        "system": system.pk,
        "service": service.pk,
        "structure": structure.pk,
        "endpoint": endpoint.pk,
        "provider": provider,
        "connection": factory.pk,
        "channel": target.channel_id,
        "target": target.pk,
        "notice-recipient": recipient.pk,
        "notice-rule": rule.pk,
        "masking-rule": MaskingRule.objects.create(name="shared-mask", path="$.shared").pk,
        "event-subscription": EventSubscription.objects.create(
            name="shared-events", channel=target.channel, kinds=["failure.held"]
        ).pk,
    }
    verbs = ("", "-change", "-delete", "-switch", "-release", "-try", "-test")
    each = {f"{noun}{verb}:number": pk for noun, pk in numbers.items() for verb in verbs}
    of_registries = {
        "channel-subjects:number": target.channel_id,
        "provider-forget:number": provider,
        "connection-branch:number": factory.pk,
        "connection-log:number": factory.pk,
    }
    pages = dict.fromkeys(
        ("http-api:number", "token-new:number", "token-rotate:number", "token-revoke:number"),
        system.pk,
    )
    return {**each, **pages, **of_registries, "token_id": token.pk, "change:number": change.pk}
