"""A process that rescues one queue's first partition and dies or stops where it is told to.

`python -m tests.support.rescue_child QUEUE_ID UNTIL STEP NTH SIGNAL`: as crash_child, for a rescue
of what lies below the offset UNTIL, in pieces of a hundred records.
"""

import sys

import django


def main() -> None:
    queue_id, until, step, nth, name = sys.argv[1:6]
    django.setup()
    from integration.models import Queue  # noqa: PLC0415 - Django is set up first
    from integration.runs.rescues import rescue_queue  # noqa: PLC0415 - Django is set up first
    from tests.support.crash_child import Fatal  # noqa: PLC0415 - as above

    queue = Queue.objects.select_related("provider").get(pk=queue_id)
    fatal = Fatal(step, int(nth), name)
    done = rescue_queue(queue, {0: int(until)}, step=fatal.step, piece_records=100)
    print(done.report.records, done.report.endings, done.busy)


if __name__ == "__main__":
    main()
