"""Advice on a failed message that waits for a person: one true step for every code."""

from collections.abc import Mapping
from typing import Final

from integration import jms_headers
from integration.envelope import FlawCode
from integration.models import MessageError, Queue
from integration.policy.failure import FailureClass
from integration.selectors.failures.delivery_advice import DELIVERING

CORRECT: Final = (
    "Edit: correct the text and release it; or have the sender correct it and send it again, and "
    "delete this one."
)
SEND_AGAIN: Final = (
    "What is missing cannot be made up here: have the sender send the whole message again, "
    "then delete this one."
)
RECODE: Final = (
    "Download the record, convert it to UTF-8, upload it under Edit and release it; or have the "
    "sender send it again, and delete this one."
)
WRAPPING: Final = (
    "Edit: correct the envelope's field “compressed” or its payload, then release it; or "
    "have the sender correct it and send it again, and delete this one."
)
OTHER_OBJECT: Final = (
    "See that what it refers to arrives (its message may be on hold itself), then release this one."
)
LOCKED: Final = (
    "Nothing is wrong with the message: look for long transactions or a missing index in the "
    "database, then release it."
)
AUTHOR: Final = (
    "The handler has to be fixed: show the details of the last attempt to its author; release "
    "the message when the new version is installed on every worker."
)
SERVER: Final = "Nothing is wrong with the message: bring back what is named, then release it."
RETYPE: Final = (
    "Edit: write the document that the row should have become, then release it; or delete it, and "
    "import the corrected file again."
)
FILL_IN: Final = (
    "Edit: correct the value that is named, then release it. Many can be corrected at once."
)

_CORRECTABLE: Final = (
    FlawCode.BAD_JSON,
    FlawCode.CURLY_QUOTES,
    FlawCode.UNESCAPED_QUOTES,
    FlawCode.DUPLICATE_KEY,
    FlawCode.NOT_A_NUMBER,
    FlawCode.NUMBER_TOO_LONG,
    FlawCode.LONE_SURROGATE,
    FlawCode.NUL_CHARACTER,
    FlawCode.BAD_XML,
    FlawCode.XML_DOCTYPE,
    FlawCode.XML_ENTITIES,
)
_CUT_OFF: Final = (
    FlawCode.TRUNCATED_JSON,
    FlawCode.TRUNCATED_XML,
    FlawCode.TRUNCATED_COMPRESSION,
    FlawCode.TRUNCATED_ENCODING,
)
_WRAPPED_WRONG: Final = (
    FlawCode.BAD_BASE64,
    FlawCode.UNMARKED_BASE64,
    FlawCode.BAD_COMPRESSION,
)

# `{interface}`, `{system}` and `{queue}` are the message's own.
BY_CODE: Final[Mapping[str, str]] = {
    **dict.fromkeys(_CORRECTABLE, CORRECT),
    **dict.fromkeys(_CUT_OFF, SEND_AGAIN),
    **dict.fromkeys(_WRAPPED_WRONG, WRAPPING),
    jms_headers.FlawCode.NO_MESSAGE_ID: "Look whether the same message is there twice, for it "
    "cannot be recognised if it comes again. If it is there once, release it and have the sender "
    "set an id; if twice, delete one.",
    jms_headers.FlawCode.NOT_READ: "Download the record and enter under Edit what was meant, then "
    "release it; or have the sender send it in another form, and delete this one.",
    "REPLAYED": "A replay gave it back to its queue. Release it to have it applied once more, "
    "or delete it if once was enough.",
    FlawCode.NOT_UTF8: RECODE,
    FlawCode.UTF16: RECODE,
    FlawCode.EMPTY_BODY: "Ask the sender what was meant: enter the content under Edit and "
    "release it, or delete it if nothing was meant.",
    FlawCode.TOO_LARGE: "Have the sender send it in parts, then delete this one. Under Edit "
    "you can upload a shorter record instead.",
    FlawCode.TOO_DEEP: "Edit: make the document flatter and release it; or have the sender "
    "do so, and delete this one.",
    FlawCode.BAD_FIELD: "Edit: correct the envelope's field that is named, "
    "then release it. Only the sender can correct a wrong Kafka header.",
    FlawCode.ZIP_BOMB: "Delete it unless you know the sender; a genuine document can be "
    "pasted under Edit, uncompressed, and released.",
    FlawCode.NOT_BY_SCHEMA: "Ask the sender which schema it was written by, and have it sent "
    "again; then delete this one.",
    FlawCode.TOO_MANY_VALUES: "Delete it unless you know the sender; a genuine document can be "
    "sent in parts.",
    "SCHEMA_UNKNOWN": "Ask the sender which schema registry it writes by. Once the schema is in "
    "the registry of the queue's provider, release this one.",
    "SCHEMA_CHANGED": "Find out which registry it was written by. If the present one is right, "
    "forget the known schemas on the provider's page, then release it; if not, bring back the "
    "former one.",
    "SCHEMA_NOT_READ": "The schema has to be corrected in the registry, under a new version. Have "
    "the sender send the message again by that one, then delete this one.",
    "FORMAT_MISMATCH": "Ask the sender; or change the format of the enterprise service "
    "{interface} under Set up. Then release it.",
    "NO_REGISTRY": "Enter the address of the schema registry at the provider of {queue} under "
    "Set up, then release it. The payload needs no change.",
    "SCHEMA_MISFIT": "Edit: correct the value that led to it; or have the handler's author publish "
    "what the schema allows. Then release it.",
    "SUBJECT_UNKNOWN": "Register the schema, or correct the subject on the channel's page under "
    "Set up. Then release it.",
    FlawCode.NO_KEY: "Edit: add the value that is missing; or correct the key path of the "
    "object structure under Set up. Then release it.",
    FlawCode.KEY_AMBIGUOUS: "If it holds several objects, have the sender send one in each "
    "message, and delete this one; or give the service a handler that takes all of them. If it "
    "is one, correct the key path of the object structure under Set up. Then release it.",
    FlawCode.KEY_TOO_LONG: "Correct the key path of the object structure under "
    "Set up, so that it points at an identifier; or shorten the value. Then release "
    "it.",
    # What the configuration said no to.
    "NO_SERVICE": "Give the queue {queue} a default service (Change on its page); or name one "
    "in the envelope (INTERFACE) under Edit. Then release it.",
    "UNKNOWN_SERVICE": "Register the enterprise service {interface} under Set up, or "
    "correct the name under Edit if it is misspelt. Then release it.",
    "SERVICE_DISABLED": "Switch the enterprise service {interface} on under Set up, "
    "then release it. The payload needs no change.",
    "SYSTEM_DISABLED": "Switch the external system {system} on under Set up, then "
    "release it. The payload needs no change.",
    "HANDLER_MISSING": "Install the app with the handler for {interface} on every worker "
    "(SLUICE_INTEGRATIONS), then release it. The payload needs no change.",
    "TOMBSTONE": "Delete it if nothing is to be deleted. If it is to delete the object, set "
    "“tombstone” to delete in the object structure under Set up, then release it.",
    "DELETE_ACTION": "Set “tombstone” to delete in the object structure under Set up, then release "
    "it: the stored document of its key is deleted. Or delete it, if the document is to stay.",
    "FOREIGN_FAILURE": "Another application put it on this error queue; its headers may say "
    "why. Release it to have this queue's service apply it, or delete it.",
    "DEAD_LETTER": "See under Facts who gave it up, and why. Once that is mended, send it back to "
    "the topic it came from; or release it to have this queue's service apply it here; or delete "
    "it.",
    "RESENDS_SPENT": "Look at why it fails where it is sent to. Once that is mended, send it back "
    "by hand; or release it to have this queue's service apply it here; or delete it.",
    "RESEND_LOOP": "Correct the application that puts it there, or the pattern of the dead-letter "
    "resend. Release it to have this queue's service apply it here, or delete it.",
    "RETURN_REFUSED": "Nobody tells where it came from. Release it to have this queue's service "
    "apply it here, or delete it.",
    "ID_REUSED": "Ask the sender which of the two contents is right. Release this one to "
    "apply it as well, or delete it.",
    # What happened in the handler.
    "PROCESS_CRASH": "Check the worker's log and memory: a handler or a document "
    "that is too large ended it. Fix that, then release it; it runs alone.",
    "HANDLER_TIMEOUT": "The worker's log tells where the call stood. Fix the handler or the "
    "payload, or give calls of {queue} more time (Change on its page); then release it.",
    "PERMANENT_ERROR": "Correct under Edit what the sentence above names, then release it; "
    "or delete it.",
    "TRANSIENT_ERROR": "See that what the sentence above names is over, then release it: it "
    "gets a fresh budget of retries.",
    "MISSING_DEPENDENCY": OTHER_OBJECT,
    "OBJECT_MISSING": OTHER_OBJECT,
    "FOREIGN_KEY_VIOLATION": OTHER_OBJECT,
    "OUTAGE": SERVER,
    "CONNECTION_ERROR": SERVER,
    "REGISTRY_AWAY": SERVER,
    "REGISTRY_REFUSED": SERVER,
    "REGISTRY_CERTIFICATE": SERVER,
    "VALIDATION": "Correct under Edit the values that are named, then release it.",
    "SCHEMA_VIOLATION": "Edit: correct what does not fit the JSON Schema; or correct the "
    "schema of the object structure under Set up. Then release it.",
    "SCHEMA_UNUSABLE": "Correct the JSON Schema of the object structure under Set up, "
    "then release it. The payload needs no change.",
    "SCHEMA_TOO_DEEP": "Edit: nest the document less deeply; or correct the JSON Schema of the "
    "object structure under Set up where it refers to itself. Then release it.",
    "NUMBER_TOO_LONG": "Edit: write numbers with smaller exponents, or as texts. Then release it.",
    "BAD_KEY": "The key of the Kafka record cannot be edited: delete it, and have the sender "
    "write the key as the object structure's key paths have it.",
    "BAD_VERSION": "Edit: correct the value at the version path; or correct the version path "
    "of the object structure under Set up. Then release it.",
    "UNKNOWN_STRUCTURE": "Create the object structure that the handler names under "
    "Set up, or have the handler's author correct the name. Then release it.",
    "UNKNOWN_QUEUE": "Register the outbound queue that is named (New queue), or have "
    "the handler's author correct the name. Then release it.",
    "UNKNOWN_CHANNEL": "Set up the publish channel that is named under Set up, or have the "
    "handler's author correct the name. Then release it.",
    "PAYLOAD_FORMAT": "Correct the format of the publish channel that is named under Set up, "
    "or have the handler's author hand over what it asks for. Then release it.",
    "PAYLOAD_TOO_LARGE": "Raise max.message.bytes of the topic that is named, let the "
    "retention sync run, and release it; or have the handler's author publish in parts.",
    "QUEUE_LOCK_TIMEOUT": LOCKED,
    "UNWRITABLE_MESSAGE": "Edit: take the broken characters out and release it; or have the "
    "handler's author clean the text.",
    "USER_NOT_PROVEN": "See that its sender posts it with a token that may speak for this user; "
    "then have it sent again, and delete this one. After an edit nothing proves the user any more. "
    "If many came at once, ask whether SLUICE_SECRET_KEY was changed: with the former key in "
    "SLUICE_SECRET_KEY_FALLBACKS of every worker they can be released.",
    "USER_NOT_ALLOWED": "Give the user who is named the right that is named, then release it; or "
    "delete it, if the user was not meant to do this.",
    "FOREIGN_DATABASE": AUTHOR,
    "SWALLOWED_DATABASE_ERROR": AUTHOR,
    "UNKNOWN_VERDICT": AUTHOR,
    "WRONG_VERDICT_COUNT": AUTHOR,
    "BATCH_ITEM": AUTHOR,
    "NOT_PREPARABLE": AUTHOR,
    "EXHAUSTED_HOOK_FAILED": "Mend what the message itself failed with, then release it. What its "
    "handler does once all retries are spent has failed, too, and left nothing: show the details "
    "of the last attempt to its author.",
    # What became of a delivery.
    **DELIVERING,
    # What became of an import's rows.
    **dict.fromkeys(("BAD_CSV", "COLUMN_COUNT", "ROW_TOO_LONG", "NO_OBJECT"), RETYPE),
    **dict.fromkeys(("VALUE_TWICE", "MISSING_VALUE", "WRONG_KIND"), FILL_IN),
    "BAD_ENCODING": "Delete it, and import the file again in its own encoding; or write the "
    "document under Edit and release it.",
    "UNJUDGED": "Edit: correct the value, or correct the JSON Schema of the object structure "
    "under Set up. Then release it.",
    "DUPLICATE_ROW": "Delete it if the earlier row is right. Release it to store this one "
    "in its place.",
    # What the database said.
    "DATA_ERROR": "Edit: correct the value that does not fit its column, then release it; or "
    "have the column widened first.",
    "NOT_NULL_VIOLATION": "Edit: add the value that is missing, then release it.",
    "CHECK_VIOLATION": "Edit: correct the value that the constraint refuses, then release it.",
    "UNIQUE_VIOLATION": "Another row has the same unique value: look which one is right. "
    "Correct this one under Edit and release it, or delete it.",
    "LOCK_NOT_AVAILABLE": LOCKED,
    "STATEMENT_TIMEOUT": LOCKED,
    "DEADLOCK": LOCKED,
    "SERIALIZATION_FAILURE": LOCKED,
    "DATABASE_LOST": SERVER,
    "DATABASE_SHUTDOWN": SERVER,
    "DATABASE_FULL": SERVER,
    "DATABASE_READ_ONLY": SERVER,
}
# For codes of handlers' own, and for exceptions nobody knows.
BY_CLASS: Final[Mapping[str, str]] = {
    FailureClass.PERMANENT: "If the message is wrong, correct it under Edit and release it, "
    "or delete it. If the message is right, the handler has to be fixed first.",
    FailureClass.TRANSIENT: "See what the sentence above names; the attempts below have the "
    "details for the handler's author. When the cause is gone, release it.",
    FailureClass.CONFLICT: LOCKED,
    FailureClass.DEPENDENCY: OTHER_OBJECT,
    FailureClass.OUTAGE: SERVER,
    FailureClass.DISABLED: "Switch on what is named, then release it. The payload needs no change.",
    FailureClass.CRASH: "Check the worker's log and memory, fix the cause, then release it.",
}
# What Python's exceptions of a handler that has a mistake come to: time mends none of them.
_STUMBLED: Final = frozenset(
    {"ATTRIBUTE_ERROR", "INDEX_ERROR", "KEY_ERROR", "TYPE_ERROR", "VALUE_ERROR"}
)
STUMBLED: Final = (
    "The handler's own code stumbled over this message; the attempts below show its author where. "
    "If a field is missing or wrong, correct it under Edit; if the message is right, have the "
    "handler corrected (it raises PermanentError for what cannot succeed). Then release it."
)
UNKNOWN: Final = "Correct it under Edit if it is wrong, then release it; or delete it."

# Instead of SERVICE_DISABLED, where nobody would take the messages were the service on.
NOBODY_TAKES: Final = "SERVICE_DISABLED without a taker"
# Instead of SERVICE_DISABLED and SYSTEM_DISABLED, where that is over.
SERVICE_ON_AGAIN: Final = "SERVICE_DISABLED no more"
SYSTEM_ON_AGAIN: Final = "SYSTEM_DISABLED no more"
UNTAKEN: Final = (
    "Leave the enterprise service {interface} off for now: no handler for it is installed on the "
    "process that answers you, and it has no structure. Switched on, its next message would stop "
    "the whole partition, messages of other services too. First install the app with its handler "
    "on every worker (SLUICE_INTEGRATIONS), or give it a structure; then switch it on and release "
    "this one. Or delete it."
)

SINCE_THEN: Final[Mapping[str, str]] = {
    NOBODY_TAKES: UNTAKEN,
    SERVICE_ON_AGAIN: "The enterprise service {interface} is switched on again: release it. "
    "The payload needs no change.",
    SYSTEM_ON_AGAIN: "The external system {system} is switched on again: release it. The "
    "payload needs no change.",
}


def advice(code: str, failure_class: str, names: Mapping[str, str]) -> str:
    """Return what to do now with a held message; `names` has its interface, system and queue."""
    of_code = BY_CODE.get(code) or SINCE_THEN.get(code)
    of_handler = STUMBLED if code in _STUMBLED else None
    sentence = of_code or of_handler or BY_CLASS.get(failure_class, UNKNOWN)
    for name, value in names.items():
        sentence = sentence.replace(f"{{{name}}}", value).replace("  ", " ")
    return sentence


def advice_for(error: MessageError, queue: Queue, code: str) -> str:
    """Return what to do now with this message of the queue, held for this code."""
    system = queue.system.name if queue.system else ""
    names = {"interface": error.interface, "system": system, "queue": queue.name}
    return advice(code, error.failure_class, names)
