"""A process that tells of one notice: `python -m tests.support.notice_child SUBJECT`."""

import sys

import django


def main() -> None:
    django.setup()
    from crontasks.models.notice import NoticeKind  # noqa: PLC0415 - Django is set up first
    from crontasks.notices import book  # noqa: PLC0415 - as above
    from crontasks.notices.condition import Condition  # noqa: PLC0415 - as above

    kind = NoticeKind.BLOCKED
    book.settle([Condition(kind, sys.argv[1], "HEAD_HELD: Bad date.")], {kind})


if __name__ == "__main__":
    main()
