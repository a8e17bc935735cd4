"""Whether the masking rules for what a bulk job reads are also for what it makes of it.

A rule may be limited to a queue, an external system, a service or a structure. Where a copy is out
of its limits, it is shown to whoever sees the copy.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from crontasks.bulk.job_requests.imports import default_interface
from integration.masking.mask import Part, Rule
from integration.models import ObjectStructure, Queue
from integration.selectors.masking.rules import Masks, masks
from spark_jobs.replay.parameters import Into


def export_loses_rules(parameters: Mapping[str, Any]) -> bool:
    """Return whether a rule for the documents is for none of the messages that they become."""
    known, target = masks(), parameters["target"]
    rules = known.fitting_structure(parameters["structure"])
    readers = _readers(parameters["provider"], target["topic"])
    return bool(rules) and (
        not readers
        or any(
            rules - _of(known, queue, target["interface"] or default_interface(queue))
            for queue in readers
        )
    )


def replay_loses_rules(parameters: Mapping[str, Any]) -> bool:
    """Return whether a rule for the chosen messages is not for all of what becomes of them."""
    known = masks()
    source = Queue.objects.filter(pk=parameters["queue"]).first()
    if not known.rules or source is None or parameters["into"] == Into.QUEUE:
        return False
    rules = _of(known, source, parameters["chosen"]["interface"])
    if parameters["into"] == Into.STRUCTURE:
        return bool(_of_payload(rules) - _of_structure(known, parameters["structure"]["name"]))
    readers = _readers(parameters["provider"], parameters["target"])
    # Of a topic that no queue reads nobody knows who will.
    return bool(rules) and (
        not readers or any(_is_lost(known, source, reader, parameters) for reader in readers)
    )


def _is_lost(known: Masks, source: Queue, reader: Queue, parameters: Mapping[str, Any]) -> bool:
    """Return whether this reader of the topic shows what a rule hides of a message at its source.

    A message keeps the service that it names. One that names none is of the service that its
    queue has for such, which may be another one here than there.
    """
    chosen, default = parameters["chosen"]["interface"], parameters["default_interface"]
    if source.retry_wrapper and not reader.retry_wrapper:
        # There the wrapper is the document, and a path for what is in it leads nowhere.
        return bool(_of_payload(_of(known, source, chosen)))
    names = [(name, name) for name in ([chosen] if chosen else ["", *known.known])]
    if chosen in {"", default}:
        names.append((default, default_interface(reader)))
    return any(_of(known, source, there) - _of(known, reader, here) for there, here in names)


def _readers(provider: int, topic: str) -> list[Queue]:
    queues = Queue.objects.filter(provider=provider, topic=topic)
    return list(queues.select_related("default_service"))


def _of(known: Masks, queue: Queue, interface: str) -> frozenset[Rule]:
    """The rules for messages of a queue and a service; by an empty name of any service."""
    return known.fitting([(queue.pk, queue.system_id)], [interface])


def _of_payload(rules: Iterable[Rule]) -> frozenset[Rule]:
    """The rules that speak of documents: one that is stored has no header and no key."""
    return frozenset(rule for rule in rules if rule.part is Part.PAYLOAD)


def _of_structure(known: Masks, name: str) -> frozenset[Rule]:
    structure = ObjectStructure.objects.filter(name=name).first()
    return frozenset() if structure is None else known.fitting_structure(structure.pk)
