"""A provider's schema registry: the test of it, the schemas met there, and a channel's subjects."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Final

from integration.counting import so_many
from integration.kafka.examination import Finding, Section, Verdict
from integration.models import Provider, PublishChannel, RegistrySchema
from integration.registries.client import Address, RegistryClient
from integration.registries.errors import RegistryError, SchemaNotFoundError

SHOWN: Final = 100
NO_LEVEL: Final = "NONE"


def known_schemas(provider: Provider) -> list[RegistrySchema]:
    """Return the schemas that messages of this provider were written by, as they were met."""
    address = provider.registry_url.rstrip("/")
    return list(provider.schemas.filter(registry=address)[:SHOWN]) if address else []


def examined_registry(provider: Provider) -> Section | None:
    """Ask a provider's registry, stored or not; None where it has none. Raises nothing."""
    if not provider.registry_url:
        return None
    client = RegistryClient(Address.of(provider))
    try:
        return Section("Schema registry", tuple(_findings(client)))
    finally:
        client.close()


def _findings(client: RegistryClient) -> list[Finding]:
    try:
        subjects = client.subjects()
    except RegistryError as problem:
        said = f"{problem.code}: {problem}"
        return [Finding("Ask for its subjects", Verdict.REFUSED, said)]
    found = Finding("Ask for its subjects", Verdict.OK, f"{so_many(len(subjects), 'subject')}.")
    try:
        level = client.compatibility()
    except RegistryError as problem:
        text = f"It does not tell its compatibility level. {problem}"
        return [found, Finding("Compatibility", Verdict.UNKNOWN, text, is_needed=False)]
    text = f"{level}." if level != NO_LEVEL else f"{NO_LEVEL}: it accepts any next version."
    return [found, Finding("Compatibility", Verdict.OK, text, is_needed=False)]


@dataclass(frozen=True, slots=True, kw_only=True)
class SubjectRow:
    """The subject that a channel writes by for one target: what the registry has, or why not."""

    system: str
    subject: str
    kind: str = ""
    id: int | None = None
    version: int | None = None
    latest: int | None = None
    compatibility: str = ""
    problem: str = ""


def subjects_of(channel: PublishChannel, ids: Collection[int]) -> Sequence[SubjectRow]:
    """Ask the registries of these targets of a channel: some seconds where one does not answer."""
    every = channel.targets.select_related("system", "queue__provider").order_by("system__name")
    targets = every.filter(pk__in=ids)
    away: dict[int, str] = {}
    rows = []
    for target in targets:
        provider = target.queue.provider
        subject = channel.subject_for(target.queue.topic)
        row = SubjectRow(system=target.system.name, subject=subject)
        if provider.pk in away:
            rows.append(replace(row, problem=away[provider.pk]))
            continue
        row = _asked(provider, row, channel.schema_version)
        if row.problem and row.id is None and not row.latest:
            away[provider.pk] = row.problem
        rows.append(row)
    return rows


def _asked(provider: Provider, row: SubjectRow, version: int | None) -> SubjectRow:
    """The row with what the registry says of its subject."""
    if not provider.registry_url:
        return replace(row, problem=f"The provider {provider} has no schema registry.")
    client = RegistryClient(Address.of(provider))
    try:
        chosen = client.version(row.subject, version)
        latest = chosen if version is None else client.version(row.subject)
        level = client.compatibility(row.subject)
    except SchemaNotFoundError as problem:
        return replace(row, latest=-1, problem=str(problem))
    except RegistryError as problem:
        return replace(row, problem=str(problem))
    finally:
        client.close()
    return replace(
        row,
        kind=chosen.kind,
        id=chosen.id,
        version=chosen.version,
        latest=latest.version,
        compatibility=level,
    )
