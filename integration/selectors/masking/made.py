"""The masks of what a message would make: documents that are stored, messages that are sent."""

from typing import NamedTuple

from integration.masking.mask import Mask
from integration.models import MessageError, ObjectStructure
from integration.selectors.masking.outgoing import named_in, rules_of_topic
from integration.selectors.masking.rules import Masks
from integration.values import Outgoing


class Made(NamedTuple):
    """The message that was checked, and the rules for what its handler would store and send."""

    error: MessageError
    rules: Masks

    def of_document(self, name: str) -> Mask:
        """The mask of a document stored in this structure: others' values may be in it."""
        structure = ObjectStructure.objects.filter(name=name).first()
        own = frozenset() if structure is None else self.rules.fitting_structure(structure.pk)
        return self.rules.of_made(self.error.queue, self.error.interface, own)

    def of_sent(self, row: Outgoing) -> Mask:
        """The mask of a message to another topic, whose readers have rules of their own."""
        provider = row.provider_id or self.error.queue.provider_id
        of_topic = rules_of_topic(self.rules, provider, row.topic, named_in(row.headers))
        return self.rules.of_made(self.error.queue, self.error.interface, of_topic)
