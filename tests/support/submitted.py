"""A Spark application that runs one job after the other, the last by the program that is shipped.

Its argument is a pipe, out of which it reads names of files of arguments. `python -m spark_jobs`
runs one job and ends: so does this, behind the name that is marked as the last.
"""

import runpy
import sys
from pathlib import Path
from typing import Final

from spark_jobs import __main__ as shipped
from spark_jobs.contract import Arguments, Lines
from spark_jobs.running import run
from spark_jobs.session import SessionSettings, open_session

PROGRAM: Final = str(shipped.__file__)
LAST: Final = "the last: "


def main(pipe: str) -> None:
    # As Python has it where Spark was given that program.
    sys.path[0] = str(Path(PROGRAM).parent)
    lines = Lines(_say)
    session = open_session(SessionSettings())
    with Path(pipe).open() as names:
        for name in map(str.strip, names):
            if name.startswith(LAST):
                sys.argv = [PROGRAM, name.removeprefix(LAST)]
                runpy.run_path(PROGRAM, run_name="__main__")
            lines.report(run(session, Arguments.read(Path(name).read_text()), lines))


def _say(line: str) -> None:
    sys.stdout.write(line)
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1])
