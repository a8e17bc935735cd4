"""Enters configuration as a person does: through the forms of the set-up pages, with its history.

So the sample holds nothing that people could not set up themselves.
"""

from typing import Any, Final

from django.core.exceptions import ValidationError

from console.forms.setup_form import SetupForm
from console.setup.queues.fields import NEW, PRESENT
from console.setup.queues.form import QueueForm
from integration.actions.configuration import Author
from integration.kafka import admin
from integration.models import Provider, Queue

AUTHOR: Final = Author("seed_sample", "The sample")


def entered(form: type[SetupForm], **fields: Any) -> Any:
    """Store what the empty page would store with these fields filled in.

    Raises ValidationError with what the form says, and IntegrationError.
    """
    filled = form(_as_sent(form(initial=fields)))
    _refuse_mistakes(filled)
    filled.store(AUTHOR, None)
    return filled.instance


def entered_queue(provider: Provider, topic: str, **fields: Any) -> Queue:
    """The same for a queue; its topic is created, or adopted from the beginning.

    Raises ValidationError and IntegrationError.
    """
    is_there = admin.topic_facts(provider, topic) is not None
    of_topic = {"topic": topic, "topic_from": PRESENT if is_there else NEW}
    if is_there:
        of_topic["start_from"] = Queue.StartFrom.BEGINNING.value
    initial = {"provider": provider, **of_topic, **fields}
    form = QueueForm(_as_sent(QueueForm(instance=Queue(), initial=initial)))
    _refuse_mistakes(form)
    queue: Queue = form.instance
    form.store(AUTHOR, None)
    return queue


def _as_sent(form: SetupForm) -> dict[str, Any]:
    """The fields as a browser sends them: what is empty or not ticked is left out."""
    values = {bound.name: bound.value() for bound in form}
    left_out = {name for name, value in values.items() if value is None or value is False}
    return {name: value for name, value in values.items() if name not in left_out and value != ""}


def _refuse_mistakes(form: SetupForm) -> None:
    if not form.is_valid():
        errors = form.errors.get_json_data().items()
        raise ValidationError([f"{name}: {e['message']}" for name, ones in errors for e in ones])
