"""Runs one job: `python -m spark_jobs ARGUMENTS`, or the same file under spark-submit.

ARGUMENTS is a file of JSON (contract.Arguments), "-" for standard input. Each line of the output
is a JSON object; the last one is the report. Ends with 0 when the job is done, else with 1.
"""

import argparse
import os
import sys
from pathlib import Path

from spark_jobs.contract import Arguments, JobState, Lines, Report
from spark_jobs.errors import JobError
from spark_jobs.running import preview, run
from spark_jobs.session import SessionSettings, open_session


def main(words: list[str] | None = None) -> int:
    """Read the arguments, make a session, run the job, tell the report."""
    parser = argparse.ArgumentParser(prog="spark_jobs", description=__doc__)
    parser.add_argument("arguments", help='a file, or "-" for standard input')
    parser.add_argument("--dry-run", action="store_true", help="only tell what would be met")
    parser.add_argument("--master", default="", help="Spark's master; spark-submit knows its own")
    parser.add_argument("--memory-mb", type=int, default=1_024)
    parser.add_argument("--jars", type=Path, help="the folder of the pinned connectors")
    options = parser.parse_args(words)
    lines = Lines(_say)
    try:
        arguments = Arguments.read(_text(options.arguments))
        if options.dry_run:
            lines.preview(preview(arguments))
            return 0
        session = open_session(
            SessionSettings(master=options.master, memory_mb=options.memory_mb, jars=options.jars)
        )
    except JobError as e:
        lines.report(Report(job="", run="", state=JobState.FAILED, problem=e.as_tuple))
        return 1
    report = run(session, arguments, lines)
    lines.report(report)
    session.stop()
    return 0 if report.state is JobState.DONE else 1


def _text(name: str) -> str:
    try:
        return sys.stdin.read() if name == "-" else Path(name).read_text()
    except OSError as e:
        raise JobError(
            "BAD_ARGUMENTS", f"{name} cannot be read: {e.strerror}.", "Name a file of arguments."
        ) from e


def _say(line: str) -> None:
    sys.stdout.write(line)
    sys.stdout.flush()


if __name__ == "__main__":
    # Not sys.exit: Spark's gateway keeps threads that would hold the process.
    code = main()
    sys.stdout.flush()
    os._exit(code) if code else sys.exit(0)
