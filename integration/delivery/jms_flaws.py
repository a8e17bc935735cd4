"""Messages of a JMS broker that wait for a person, whatever their body says."""

from typing import Final

from integration.jms_headers import FLAW, FlawCode
from integration.policy.failure import Failure, FailureClass
from integration.values import Record

_SAYS: Final = {
    FlawCode.NO_MESSAGE_ID: (
        "The message has no id, so that it could not be known if the broker sent it again. Release "
        "it once you have made sure that it is not there twice."
    ),
    FlawCode.NOT_READ: (
        "The message holds something that only AMQP has a word for. What came is kept as it is: "
        "correct it, or have it sent in another form."
    ),
}


def jms_flaw(record: Record) -> Failure | None:
    """Return what the source found wrong with a message; None where that is nothing."""
    said = dict(record.headers or ()).get(FLAW)
    if said is None:
        return None
    code, _, why = said.decode("utf-8", "replace").partition(": ")
    says = _SAYS[FlawCode(code)]
    return Failure(FailureClass.PERMANENT, code, f"{says} ({why})" if why else says)
