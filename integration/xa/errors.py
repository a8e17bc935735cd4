"""Errors of branches, each with the code that the XA specification has for it."""

from typing import ClassVar

from integration.errors import IntegrationError


class XaError(IntegrationError):
    """What the XA interface answers with; `xa` and `number` are the specification's own."""

    xa: ClassVar[str] = "XAER_RMERR"
    number: ClassVar[int] = -3


class XidInvalidError(XaError):
    """It is no Xid."""

    code = "XA_XID_INVALID"
    xa, number = "XAER_INVAL", -5

    def __init__(self, text: str, reason: str) -> None:
        super().__init__(
            f"{text[:300]} is no Xid: {reason}.",
            next_step="An Xid is written FORMAT-GLOBAL-BRANCH: a number, 1 to 64 bytes in hex, up "
            "to 64 bytes in hex.",
        )


class XaUnknownError(XaError):
    """Nobody has such a branch: it never was, or it is over."""

    code = "XA_UNKNOWN"
    xa, number = "XAER_NOTA", -4

    def __init__(self, xid: object) -> None:
        super().__init__(
            f"There is no branch {xid}.",
            next_step="It is over, or was never written. After a commit take it for done.",
        )


class XaProtocolError(XaError):
    """A call that does not fit where the branch stands."""

    code = "XA_OUT_OF_ORDER"
    xa, number = "XAER_PROTO", -6

    def __init__(self, xid: object, call: str, state: str) -> None:
        super().__init__(
            f"The branch {xid} is {state.lower()}: {call} does not fit.",
            next_step="A branch is started, sent in, ended, prepared, then committed or rolled "
            "back.",
        )


class XaDuplicateError(XaError):
    """A branch is started that is there already."""

    code = "XA_DUPLICATE"
    xa, number = "XAER_DUPID", -8

    def __init__(self, xid: object) -> None:
        super().__init__(
            f"There is a branch {xid} already.",
            next_step="Give each branch an Xid of its own; roll back the one that is there, if "
            "nobody needs it.",
        )


class XaUnavailableError(XaError):
    """Kafka or the log did not answer, or another one was always faster."""

    code = "XA_UNAVAILABLE"
    xa, number = "XAER_RMFAIL", -7

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(
            f"The branches of {name!r} cannot be reached: {reason.rstrip('.')}.",
            next_step="Nothing is decided by that. Ask again; recovery does so by itself.",
        )


class XaTimedOutError(XaError):
    """The branch was not prepared in time."""

    code = "XA_TIMED_OUT"
    xa, number = "XA_RBTIMEOUT", 106

    def __init__(self, xid: object, seconds: float) -> None:
        super().__init__(
            f"The branch {xid} was not prepared within {seconds:g} s and is rolled back.",
            next_step="Do it again, faster, or let branches of the factory take longer.",
        )


class XaRolledBackError(XaError):
    """What was sent could not be written: the branch is rolled back."""

    code = "XA_ROLLED_BACK"
    xa, number = "XA_RBROLLBACK", 100

    def __init__(self, xid: object, reason: str) -> None:
        super().__init__(
            f"The branch {xid} is rolled back: {reason.rstrip('.')}.",
            next_step="Mend the reason and do it again.",
        )


class XaHeuristicCommitError(XaError):
    """A person has committed the branch already."""

    code = "XA_HEURISTIC_COMMIT"
    xa, number = "XA_HEURCOM", 7

    def __init__(self, xid: object) -> None:
        super().__init__(
            f"A person has committed the branch {xid}, without its coordinator.",
            next_step="Compare with the other resources, then forget the branch.",
        )


class XaHeuristicRollbackError(XaError):
    """A person has rolled the branch back already."""

    code = "XA_HEURISTIC_ROLLBACK"
    xa, number = "XA_HEURRB", 6

    def __init__(self, xid: object) -> None:
        super().__init__(
            f"A person has rolled back the branch {xid}, without its coordinator.",
            next_step="Compare with the other resources, then forget the branch.",
        )


class XaTopicMissingError(XaError):
    """The side topic or the log is not there."""

    code = "XA_TOPIC_MISSING"
    # Not "rolled back", as XAER_RMERR would say: it can be committed once the topic is right.
    xa, number = "XAER_RMFAIL", -7

    def __init__(self, topic: str, provider: str) -> None:
        super().__init__(
            f"The topic {topic} for branches is not at the provider {provider}.",
            next_step="If it was deleted, branches that were prepared are lost: compare with the "
            "other resources. Then create it as “Connections” in the documentation says.",
        )


class XaTopicUnsafeError(XaError):
    """The side topic or the log has settings by which branches would be lost."""

    code = "XA_TOPIC_UNSAFE"
    xa, number = "XAER_RMFAIL", -7

    def __init__(self, topic: str, reason: str, setting: str) -> None:
        super().__init__(
            f"The topic {topic} would lose branches: {reason}.",
            next_step=f"Set {setting} for it.",
        )


class XaLogReplacedError(XaError):
    """The log is not the one that branches were written to, or has lost records."""

    code = "XA_LOG_REPLACED"
    # Whoever asks again finds it out once a person has looked; nothing is decided by it.
    xa, number = "XAER_RMFAIL", -7

    def __init__(self, topic: str, reason: str) -> None:
        super().__init__(
            f"The log of transactions {topic} may lack branches that were prepared: {reason}.",
            next_step="Nothing is committed or rolled back by what is left in it. Compare what the "
            "other resources have done, then accept the log on the page of the connection.",
        )


class XaSideLostError(XaError):
    """Messages of a prepared branch are not in the side topic any more."""

    code = "XA_SIDE_LOST"

    def __init__(self, xid: object, topic: str, found: int, count: int) -> None:
        super().__init__(
            f"Of the {count} messages of the branch {xid}, {found} are left in the side topic "
            f"{topic}. Nothing of it was committed.",
            next_step="Raise the topic's retention above the time that coordinators may be away. "
            "Decide on the branch by hand, and send what is missing.",
        )


class XaOffError(XaError):
    """The factory has no transactions over several resources."""

    code = "XA_OFF"
    xa, number = "XAER_PROTO", -6

    def __init__(self, name: str) -> None:
        super().__init__(
            f"The connections of {name!r} take no part in transactions over several resources.",
            next_step="Choose a log for them under Set up, Connections.",
        )


def xa_code(problem: BaseException) -> tuple[str, int]:
    """The specification's name and number for whatever a call of a resource raised."""
    if isinstance(problem, XaError):
        return problem.xa, problem.number
    return XaUnavailableError.xa, XaUnavailableError.number
