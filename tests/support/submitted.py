"""A Spark application that runs one job after the other: `python -m spark_jobs` runs one and ends.

Its argument is a pipe, out of which it reads the names of files of arguments.
"""

import sys
from pathlib import Path

from spark_jobs.contract import Arguments, Lines
from spark_jobs.running import run
from spark_jobs.session import SessionSettings, open_session


def main(pipe: str) -> None:
    lines = Lines(_say)
    session = open_session(SessionSettings())
    with Path(pipe).open() as names:
        for name in names:
            lines.report(run(session, Arguments.read(Path(name.strip()).read_text()), lines))


def _say(line: str) -> None:
    sys.stdout.write(line)
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1])
