"""A slot of a worker for tests of calls that hang: one run of a queue in a process of its own.

`python -m tests.support.hung_child QUEUE_ID [HOW [FILE]]`: with HOW, the parser hangs that way on
every message whose text says `unreadable`. With FILE, what is sent arrives there.
"""

import sys
from pathlib import Path

import django


def plant(how: str) -> None:
    """Have the parser hang as a fault of its own would."""
    from integration import envelope  # noqa: PLC0415 - Django is set up first
    from tests.support.world import hanging  # noqa: PLC0415 - see above

    parse = envelope.parse

    def hangs(value, headers=None):
        if b"unreadable" in value:
            hanging.WAYS[how]()
        return parse(value, headers)

    envelope.parse = hangs


def main() -> None:
    queue_id, how, file, *_ = [*sys.argv[1:], "", ""]
    django.setup()
    from integration.runs.queues import run_queue  # noqa: PLC0415 - Django is set up first
    from integration.store import watchdog  # noqa: PLC0415 - see above
    from tests.support.sending_child import FilePartner  # noqa: PLC0415 - see above

    watchdog.own_this_process()
    if how:
        plant(how)
    endpoints = {"endpoints": lambda _: FilePartner(Path(file))} if file else {}
    report = run_queue(int(queue_id), **endpoints)
    print(report.ending, dict(report.counts), report.text)


if __name__ == "__main__":
    main()
