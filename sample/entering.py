"""Enters configuration as a person does: through the forms of the set-up pages, with its history.

So the sample holds nothing that people could not set up themselves.
"""

from typing import Any, Final

from django.conf import settings
from django.core.exceptions import ValidationError

from console.forms.setup_form import SetupForm
from console.setup.providers import ProviderForm
from console.setup.queues.fields import NEW, PRESENT
from console.setup.queues.form import QueueForm
from integration.actions import configuration
from integration.actions.configuration import Author
from integration.errors import IntegrationError
from integration.kafka import admin
from integration.models import Provider, Queue

AUTHOR: Final = Author("seed_sample", "The sample")


class NoKafkaError(IntegrationError):
    """Nobody said where the Kafka of the examples is."""

    code = "NO_KAFKA"

    def __init__(self) -> None:
        super().__init__(
            "SLUICE_KAFKA_BOOTSTRAP is not set, so the topics of the examples cannot be made.",
            next_step="Set it, or leave the sample out with SAMPLE=0.",
        )


def entered(form: type[SetupForm], by: Author = AUTHOR, **fields: Any) -> Any:
    """Store what the empty page would store with these fields filled in.

    Raises ValidationError with what the form says, and IntegrationError.
    """
    filled = form(_as_sent(form(initial=fields)))
    _refuse_mistakes(filled)
    filled.store(by, None)
    return filled.instance


def entered_queue(provider: Provider, topic: str, by: Author = AUTHOR, **fields: Any) -> Queue:
    """The same for a queue; a topic of Kafka is created, or adopted from the beginning.

    Raises ValidationError and IntegrationError.
    """
    of_topic = {"topic": topic}
    if not provider.is_jms:
        is_there = admin.topic_facts(provider, topic) is not None
        of_topic["topic_from"] = PRESENT if is_there else NEW
        if is_there:
            of_topic["start_from"] = Queue.StartFrom.BEGINNING.value
    initial = {"provider": provider, **of_topic, **fields}
    form = QueueForm(_as_sent(QueueForm(instance=Queue(), initial=initial)))
    _refuse_mistakes(form)
    queue: Queue = form.instance
    form.store(by, None)
    return queue


def entered_cluster(name: str, by: Author = AUTHOR) -> tuple[Provider, str]:
    """The provider of the Kafka at hand, and what was done about it; empty when nothing was.

    Raises NoKafkaError and ValidationError.
    """
    servers = settings.SLUICE_KAFKA_BOOTSTRAP
    if not servers:
        raise NoKafkaError
    provider = Provider.objects.filter(name=name).first()
    if provider is None:
        made: Provider = entered(ProviderForm, by, name=name, bootstrap_servers=servers)
        return made, f"the provider {made}"
    if provider.bootstrap_servers == servers:
        return provider, ""
    # The servers of `make run` have taken another port.
    provider.bootstrap_servers = servers
    configuration.save(provider, by)
    return provider, f"the provider {provider} point at {servers}"


def _as_sent(form: SetupForm) -> dict[str, Any]:
    """The fields as a browser sends them: what is empty or not ticked is left out."""
    values = {bound.name: bound.value() for bound in form}
    left_out = {name for name, value in values.items() if value is None or value is False}
    return {name: value for name, value in values.items() if name not in left_out and value != ""}


def _refuse_mistakes(form: SetupForm) -> None:
    if not form.is_valid():
        errors = form.errors.get_json_data().items()
        raise ValidationError([f"{name}: {e['message']}" for name, ones in errors for e in ones])
