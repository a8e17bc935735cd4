"""The rules that changed messages are judged by, as they are configured now."""

import json

from integration.codec import decode_headers
from integration.models import EnterpriseService, ObjectStructure, Queue
from integration.recipe_use import Rules, Subject
from integration.store.operations import Content


def rules_now() -> Rules:
    """Read the rules in two queries."""
    return Rules.of(structures_now(), defaults_now())


def structures_now() -> dict[str, ObjectStructure]:
    """The structure that each service stores into, by the service's name."""
    services = EnterpriseService.objects.select_related("structure").exclude(structure=None)
    return {row.interface: row.structure for row in services if row.structure is not None}


def defaults_now() -> dict[int, str]:
    """The service that takes messages which name none, by queue."""
    named = Queue.objects.exclude(default_service=None)
    return dict(named.values_list("pk", "default_service__interface"))


def subject_of(content: Content) -> Subject:
    """A failure's content as a recipe takes it."""
    headers = decode_headers(json.loads(content.headers))
    return Subject(content.queue_id, content.interface, content.record, headers)
