"""Reports of the client library, translated once into the engine's own words."""
# ruff: noqa: SLF001 - the library spells the codes of its own errors with an underscore

from collections.abc import Collection, Iterable
from typing import Final

from confluent_kafka import KafkaError, KafkaException

from integration.kafka.errors import (
    BrokerRefusedError,
    BrokerRightsError,
    BrokerUnreachableError,
)
from integration.values import Trouble, TroubleKind

END_REACHED: Final = KafkaError._PARTITION_EOF
# One broker of several that is gone concerns nobody yet; when all are, the library says so.
ONE_BROKER: Final = frozenset({KafkaError._TRANSPORT, KafkaError._RESOLVE, KafkaError._TIMED_OUT})
OUT_OF_RANGE: Final = frozenset(
    {KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._LOG_TRUNCATION}
)
UNKNOWN_TOPIC: Final = frozenset(
    {
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.UNKNOWN_TOPIC_ID,
        KafkaError.INCONSISTENT_TOPIC_ID,
        KafkaError.TOPIC_EXCEPTION,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_PARTITION,
    }
)
# Exceptions of the library's calls; the second by mistake, for a fatal error among callbacks.
RAISED: Final = (KafkaException, SystemError)
# Rights are refused to those only whose login went through.
LOGGED_IN: Final = frozenset(
    {
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)
REFUSED: Final = LOGGED_IN | frozenset(
    {
        KafkaError.ILLEGAL_SASL_STATE,
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError.SECURITY_DISABLED,
        KafkaError.UNSUPPORTED_SASL_MECHANISM,
        KafkaError._AUTHENTICATION,
        KafkaError._SSL,
    }
)
# A partition on its way from one broker to another, or to its first.
MOVING: Final = frozenset(
    {
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError._NOENT,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.REPLICA_NOT_AVAILABLE,
    }
)
# A group's coordinator on its way; a cluster that never had a group makes its first.
COORDINATOR_COMING: Final = frozenset(
    {
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
    }
)
UNAVAILABLE: Final = (
    MOVING
    | COORDINATOR_COMING
    | frozenset(
        {
            KafkaError.BROKER_NOT_AVAILABLE,
            KafkaError.KAFKA_STORAGE_ERROR,
            KafkaError.NETWORK_EXCEPTION,
            KafkaError.NOT_CONTROLLER,
            KafkaError.NOT_ENOUGH_REPLICAS,
            KafkaError.REQUEST_TIMED_OUT,
            KafkaError._ALL_BROKERS_DOWN,
            KafkaError._RESOLVE,
            KafkaError._TIMED_OUT,
            KafkaError._TIMED_OUT_QUEUE,
            KafkaError._TRANSPORT,
            KafkaError._WAIT_COORD,
        }
    )
)
# Who is to join a group comes through these by itself; that nobody is there is said apart.
PASSING: Final = UNAVAILABLE - {KafkaError._ALL_BROKERS_DOWN}
# Faults of one record: sending it again as it is cannot help, its neighbours are not concerned.
FOR_THE_RECORD: Final = UNKNOWN_TOPIC | frozenset(
    {
        KafkaError.INVALID_MSG,
        KafkaError.INVALID_MSG_SIZE,
        KafkaError.INVALID_RECORD,
        KafkaError.INVALID_TIMESTAMP,
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.POLICY_VIOLATION,
        KafkaError.RECORD_LIST_TOO_LARGE,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        KafkaError._INVALID_ARG,
    }
)
# A member commits with what it knew before a rebalance.
LEFT_BEHIND: Final = frozenset(
    {
        KafkaError.FENCED_MEMBER_EPOCH,
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.REBALANCE_IN_PROGRESS,
        KafkaError.STALE_MEMBER_EPOCH,
        KafkaError.UNKNOWN_MEMBER_ID,
    }
)
FENCED: Final = frozenset(
    {KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH}
)


_KINDS: Final = (
    (OUT_OF_RANGE, TroubleKind.OUT_OF_RANGE),
    (UNKNOWN_TOPIC, TroubleKind.UNKNOWN_TOPIC),
    (LOGGED_IN, TroubleKind.RIGHTS),
    (REFUSED, TroubleKind.REFUSED),
    (UNAVAILABLE, TroubleKind.UNAVAILABLE),
)


def kind_of(code: int) -> TroubleKind:
    """Return the engine's trouble that an error code means."""
    return next((kind for codes, kind in _KINDS if code in codes), TroubleKind.OTHER)


def error_of(exception: BaseException | None) -> KafkaError | None:
    """The library's error inside its exception, or inside what that exception came from.

    A fatal error that comes up while callbacks run arrives wrapped in a SystemError.
    """
    while exception is not None:
        first = exception.args[0] if exception.args else None
        if isinstance(first, KafkaError):
            return first
        exception = exception.__cause__ or exception.__context__
    return None


def has_code(exception: BaseException | None, codes: Collection[int]) -> bool:
    """Return whether the library's error in an exception is one of these."""
    error = error_of(exception)
    return error is not None and error.code() in codes


def trouble(error: KafkaError, partition: int | None) -> Trouble:
    return Trouble(kind_of(error.code()), partition, sentence(error))


def sentence(error: KafkaError) -> str:
    """`NAME: what the library says`."""
    return f"{error.name()}: {error.str()}"


def words_of(exception: Exception) -> str:
    """Return what an exception says, in the library's own words where it has some."""
    error = error_of(exception)
    return str(exception).rstrip(".") if error is None else sentence(error)


def may_be_tls(protocol: str, events: Iterable[KafkaError]) -> bool:
    """Return whether a connection that failed may have failed at its certificates.

    A refused login came through TLS; a port that does not take ours may just hang up.
    """
    passed = REFUSED - {KafkaError._SSL}
    return protocol.endswith("SSL") and all(event.code() not in passed for event in events)


def unreachable(provider: str, exception: Exception) -> BrokerUnreachableError:
    """The error to raise where a question to the cluster got no answer."""
    error: type[BrokerUnreachableError] = BrokerUnreachableError
    if has_code(exception, LOGGED_IN):
        error = BrokerRightsError
    elif has_code(exception, REFUSED):
        error = BrokerRefusedError
    return error(provider, words_of(exception) or "no answer in time")
