"""Advice on a message that its endpoint did not take: one true step for every code."""

from collections.abc import Mapping
from typing import Final

REACH: Final = (
    "Nothing is wrong with the message: see that the endpoint can be reached and is set up "
    "rightly, then release it."
)
SETTINGS: Final = (
    "Correct the endpoint's settings under Set up and test them there, then release it. The "
    "payload needs no change."
)
ANSWER: Final = (
    "Read below what the partner answered: correct the payload under Edit, or have the partner "
    "take it as it is. Then release it."
)
GATEWAY: Final = (
    "Where other messages arrive, ask the partner why its system fails at this one: correct the "
    "payload under Edit, or have the partner correct its system. Then release it."
)
MAY_BE_THERE: Final = (
    "Look for its message id in the partner's system. If it is there, say that it arrived; if not, "
    "release it, and it is sent again."
)
ROOM: Final = (
    "Nothing is wrong with the message: make room in the endpoint's folder, or let it be "
    "written. Then release it."
)
TABLE: Final = (
    "Have the other database's table, columns or rights put right, or correct the endpoint's "
    "settings under Set up. Then release it."
)

DELIVERING: Final[Mapping[str, str]] = {
    "DELIVERY_UNKNOWN": MAY_BE_THERE,
    "CALL_OVERDUE": MAY_BE_THERE,
    "ENDPOINT_RAISED": MAY_BE_THERE,
    "COMMIT_UNKNOWN": MAY_BE_THERE,
    "HTTP_NO_ANSWER": MAY_BE_THERE,
    "HTTP_BROKEN_OFF": MAY_BE_THERE,
    "NO_ANSWER": MAY_BE_THERE,
    "AMQP_NO_ANSWER": MAY_BE_THERE,
    "FILE_UNCONFIRMED": "Look for its file in the endpoint's folder, or ask the partner. If it is "
    "there, say that it arrived; if not, release it, and it is sent again.",
    "FUNCTION_HANGS": MAY_BE_THERE,
    "RESTORED_REVIEW": "Ask the partner for its message id. If it is missing there, release it; "
    "if it is there, say that it arrived.",
    "REFUSED": ANSWER,
    "HTTP_REFUSED": ANSWER,
    "HTTP_FAILED": ANSWER,
    "AMQP_REJECTED": ANSWER,
    "AMQP_TOO_LARGE": "The message is larger than the broker takes: have its limit raised, then "
    "release it.",
    "AMQP_UNWRITABLE": "Correct under Edit what its text names, or the endpoint's settings under "
    "Set up. Then release it.",
    "AMQP_RELEASED": REACH,
    "AMQP_FAILED": REACH,
    "AMQP_ENDED": REACH,
    "AMQP_FULL": "Nothing is wrong with the message: see why nobody takes messages from the "
    "broker's address, or have it hold more. Then release it.",
    "AMQP_LOGIN_REFUSED": SETTINGS,
    "AMQP_RIGHTS": SETTINGS,
    "AMQP_ADDRESS": SETTINGS,
    "NOT_NOW": REACH,
    "UNREACHABLE": REACH,
    "HTTP_UNAVAILABLE": GATEWAY,
    "HTTP_TOO_MANY": REACH,
    "CONNECTION_FAILED": REACH,
    "CONNECT_TIMEOUT": REACH,
    "NAME_NOT_FOUND": REACH,
    "DATABASE_UNREACHABLE": REACH,
    "DATABASE_BUSY": REACH,
    "ENDPOINT_CLOSED": REACH,
    "ADDRESS_REFUSED": SETTINGS,
    "DATABASE_OWN": SETTINGS,
    "CERTIFICATE_REFUSED": SETTINGS,
    "TLS_FAILED": SETTINGS,
    "HTTP_ADDRESS": SETTINGS,
    "HTTP_HEADER": SETTINGS,
    "HTTP_LOGIN_REFUSED": SETTINGS,
    "PROXY_REFUSED": SETTINGS,
    "HTTP_REDIRECTED": SETTINGS,
    "TOKEN_REFUSED": SETTINGS,
    "FUNCTION_MISSING": SETTINGS,
    "FUNCTION_ANSWER": "The endpoint's function has to be fixed: show its author the details "
    "below, and release the message when the new version is installed on every worker.",
    "PROVIDER_MISSING": SETTINGS,
    "TOPIC_MISSING": SETTINGS,
    "FORWARD_LOOP": "Look at the queues that its text names: one of them leads back here. Change "
    "where one of the queues forwards to, and delete this message: its way is noted in it.",
    "FOLDER_FULL": ROOM,
    "FOLDER_READ_ONLY": ROOM,
    "FOLDER_UNUSABLE": ROOM,
    "FILE_NAME": "Correct under Edit the value that the file's name is made of, or the "
    "endpoint's file name under Set up. Then release it.",
    "FILE_EXISTS": "Look whose file it is: move it away, or give the endpoint another file "
    "name under Set up. Then release it.",
    "FILE_FORMAT": "Correct the payload under Edit so that it fits the endpoint's format, or "
    "choose another format under Set up. Then release it.",
    "DATABASE_TABLE_MISSING": TABLE,
    "DATABASE_COLUMN_MISSING": TABLE,
    "DATABASE_NO_KEY": TABLE,
    "DATABASE_RIGHT_MISSING": TABLE,
    "DATABASE_STATEMENT": TABLE,
    "DATABASE_REFUSED": "Correct under Edit the value that the other database refuses, or "
    "have its table changed. Then release it.",
    "TEMPLATE_FIELD_MISSING": "Add the field that is named under Edit, or take it out of the "
    "endpoint's settings under Set up. Then release it.",
    "PAYLOAD_UNREADABLE": "Correct the payload under Edit so that it can be read, then release it.",
    "NO_ENDPOINT": "Give the queue {queue} an endpoint (Change on its page), or the channel "
    "{interface} a target with one under Set up; then release it. The payload needs no change.",
    "NOTHING_TO_DELIVER": "Delete it: it has no value, so an endpoint gets nothing from it.",
    "PARKED": "Release or delete the earlier message of its key first; this one follows by itself.",
}
