"""Every code a message can fail with has advice of its own, and none that cannot help."""

import pytest

from integration.handlers.failures import LOST, RULES, classify
from integration.policy.failure import FailureClass
from integration.selectors.failures.advice import BY_CLASS, BY_CODE, STUMBLED, advice
from tests.architecture.test_codes import explained, of_runs, written

pytestmark = pytest.mark.fast

# Codes of a partition's state or of the cluster, or told to a sender at once: no failure has them.
NOT_OF_MESSAGES = {
    "CALL_TIMED_OUT",
    "GAP",
    "HEAD_HELD",
    "KAFKA_CERTIFICATE",
    "KAFKA_GROUP",
    "KAFKA_PROTOCOL",
    "KAFKA_REFUSED",
    "KAFKA_RIGHTS",
    "KAFKA_UNAVAILABLE",
    "KEYS_MOVED",
    "KEYS_REMAPPED",
    "MORE_PARTITIONS",
    "NOT_PUBLISHED",
    "PREPARE_REFUSED",
    "RESCUE_FENCED",
    "RESCUE_FULL",
    "RESCUE_SILENT",
    "RESCUE_STOPPED",
    "SECOND_DATABASE_DOWN",
    "RETRY_WAIT",
    "SAME_FAILURE_IN_A_ROW",
    "TOO_MANY_OPEN_ERRORS",
    "TOO_MANY_PARKED",
    "TOPIC_GONE",
    "TOPIC_RECREATED",
    "TOPIC_TRUNCATED",
    "TRANSACTION_HANGS",
    "TRANSACTION_OPEN",
    # The endpoint takes nothing: its messages wait in the topic, none of them fails.
    "ADDRESS_REFUSED",
    "AMQP_ADDRESS",
    "AMQP_ENDED",
    "AMQP_FULL",
    "AMQP_LOGIN_REFUSED",
    "AMQP_RIGHTS",
    "CERTIFICATE_REFUSED",
    "CONNECTION_FAILED",
    "CONNECT_TIMEOUT",
    "DATABASE_COLUMN_MISSING",
    "DATABASE_NO_KEY",
    "DATABASE_RIGHT_MISSING",
    "DATABASE_STATEMENT",
    "DATABASE_TABLE_MISSING",
    "DATABASE_UNREACHABLE",
    "ENDPOINT_CLOSED",
    "ENDPOINT_DISABLED",
    "ENDPOINT_DOWN",
    "ENDPOINT_PAUSED",
    "ENDPOINT_UNUSABLE",
    "FOLDER_FULL",
    "FOLDER_READ_ONLY",
    "FOLDER_UNUSABLE",
    "FUNCTION_MISSING",
    "HTTP_LOGIN_REFUSED",
    "PROXY_REFUSED",
    "HTTP_REDIRECTED",
    "HTTP_TOO_MANY",
    "NAME_NOT_FOUND",
    "TLS_FAILED",
    "TOKEN_REFUSED",
    "UNREACHABLE",
}
NAMES = {"interface": "MXPO", "system": "EAM", "queue": "orders"}
# Whatever the payload says, these are mended elsewhere.
ELSEWHERE = {
    "SERVICE_DISABLED",
    "SYSTEM_DISABLED",
    "HANDLER_MISSING",
    "SCHEMA_UNUSABLE",
    "DEADLOCK",
    "PROCESS_CRASH",
    "OUTAGE",
    "MISSING_DEPENDENCY",
    "FOREIGN_DATABASE",
}


def test_every_code_the_engine_writes_into_a_failure_has_advice():
    codes = written() | {rule.code for rule in (*RULES, LOST)}
    assert not sorted(codes - NOT_OF_MESSAGES - of_runs() - BY_CODE.keys())
    assert not sorted(BY_CODE.keys() - explained().keys()), "a code nobody can meet"


@pytest.mark.parametrize("code", sorted(BY_CODE))
def test_advice_is_whole_sentences_about_this_message(code):
    said = advice(code, FailureClass.PERMANENT, NAMES)
    assert said[0].isupper()
    assert said.endswith(".")
    assert "{" not in said
    assert any(word in said for word in ("release", "Release", "elete")), "how it ends"


@pytest.mark.parametrize("code", sorted(ELSEWHERE))
def test_nobody_is_sent_to_the_payload_for_what_is_not_in_it(code):
    assert "Edit" not in advice(code, FailureClass.PERMANENT, NAMES)


def test_a_service_is_registered_or_switched_on_by_its_name():
    assert "Register the enterprise service MXPO" in advice("UNKNOWN_SERVICE", "permanent", NAMES)
    assert "Switch the external system EAM on" in advice("SYSTEM_DISABLED", "disabled", NAMES)


@pytest.mark.parametrize("kind", list(FailureClass))
def test_codes_of_handlers_are_advised_by_their_class(kind):
    assert advice("OWN_CODE", kind, NAMES) == BY_CLASS[kind]


@pytest.mark.parametrize(
    "bug", [KeyError("kwh"), TypeError("x"), ValueError("x"), AttributeError("x")]
)
def test_what_the_handlers_own_code_stumbles_over_is_not_waited_for(bug):
    failure = classify(bug)
    assert failure.kind is FailureClass.TRANSIENT
    assert advice(failure.code, failure.kind, NAMES) == STUMBLED


def test_a_name_that_is_not_known_leaves_no_hole():
    assert "  " not in advice("UNKNOWN_SERVICE", "permanent", {**NAMES, "interface": ""})
