"""A condition: something that is wrong right now."""

from typing import NamedTuple

from crontasks.models.notice import NoticeKind
from crontasks.models.notice_kinds import FACTS, OF_SCHEDULES


class Condition(NamedTuple):
    """Something that is so right now: of which subject, why, and what to do about it.

    `queue` is its name where the subject does not begin with it.
    """

    kind: NoticeKind
    subject: str
    text: str
    queue: str = ""

    @property
    def queue_name(self) -> str:
        """The queue it is about, empty where it is about none."""
        return self.queue or queue_of(self.kind, self.subject)


def queue_of(kind: NoticeKind, subject: str) -> str:
    """The queue that a notice's subject names: "assets" of "assets[0]".

    Names of queues have no blanks; what has some is a provider, a relay or a connection.
    """
    if not FACTS[kind].is_of_queue or kind in OF_SCHEDULES or " " in subject:
        return ""
    return subject.partition("[")[0]


def cause_subject(queue: str, code: str) -> str:
    """The subject of many failures of one cause."""
    return f"{queue} {code}"


def code_of(kind: NoticeKind, subject: str) -> str:
    """The cause that such a subject names, empty where it names none."""
    return subject.partition(" ")[2] if kind == NoticeKind.FAILURES else ""
