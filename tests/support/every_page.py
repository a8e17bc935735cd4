"""Every address of the console, from its own table: a new one cannot be forgotten."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.contrib.auth.models import User
from django.urls import URLPattern, URLResolver, get_resolver, reverse
from django.utils import timezone

from console.access import Right
from crontasks.models import CronInstance, CronRun
from integration.models import (
    Gap,
    OutboxRow,
    RelayLease,
)
from tests.support.rows import a_blocked_queue

# Addresses that everybody may ask for: they log in, or tell machines how this installation is.
PUBLIC = frozenset({"login", "logout", "healthz", "readyz", "metrics", "theme", "refresh"})
# One's own password: everybody who is logged in, by Django's own view.
OWN = frozenset({"password_change"})
VERBS = ("release", "send-again")


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


def a_world(name: str = "hidden-away", **fields: Any) -> dict[str, Any]:
    """One row of everything that addresses speak of, all under one name, as samples.

    `fields` are further ones of its queue.
    """
    queue, place, error = a_blocked_queue(name=name, topic=f"{name}-topic", **fields)
    provider = queue.provider
    gap = Gap.objects.create(
        partition=place,
        topic_uuid="first-topic",
        from_offset=1,
        to_offset=2,
        reason="EXPIRED",
        found_at=timezone.now(),
    )
    row = OutboxRow.objects.create(
        provider=provider,
        topic=f"{name}-topic",
        kind="MESSAGE",
        state="DEAD",
        created_at=timezone.now(),
    )
    lease = RelayLease.objects.create(provider=provider, shard=0)
    instance = CronInstance.objects.filter(queue=queue).first()
    assert instance is not None
    run = CronRun.objects.create(
        instance=instance, started_at=timezone.now(), ended_at=timezone.now(), state="DONE"
    )
    return {
        "name": queue.name,
        "gap_id": gap.pk,
        "error_id": error.pk,
        "row_id": row.pk,
        "lease_id": lease.pk,
        "instance_id": instance.pk,
        "run_id": run.pk,
        "person_id": User.objects.create_user("somebody").pk,
        "verb": VERBS[0],
        "decide-many:verb": VERBS[1],
        "decide-outgoing:verb": VERBS[1],
    }
