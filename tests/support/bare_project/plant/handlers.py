"""What the plant does with its messages."""

from plant.models import Part

from integration.handlers import Message, inbound


@inbound("PART")
def take_part(message: Message) -> None:
    Part.objects.create(number=message.body["number"])
