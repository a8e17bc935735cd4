"""A configuration of gunicorn for tests: as it is shipped, with seconds where it has minutes."""

import re
import time
from typing import Any

from console.server import limits

limits.HEAD_SECONDS = 3.0  # type: ignore[misc]
limits.BODY_SECONDS = 4.0  # type: ignore[misc]
limits.HTTP_API_SECONDS = 4.0  # type: ignore[misc]
limits.DISK_BYTES = 2 * limits.MEMORY_BYTES  # type: ignore[misc]
LARGE = 4 * 2**20
# gunicorn's own limit of a process in which no thread runs.
timeout = 5


def post_worker_init(worker: Any) -> None:
    """Addresses beside the product's own: one answers a lot, one of each side never."""
    shipped = worker.wsgi

    def answered(environ: dict[str, Any], start_response: Any) -> Any:
        if environ["PATH_INFO"] == "/large":
            start_response("200 OK", [("Content-Length", str(LARGE))])
            return [b"x" * LARGE]
        while environ["PATH_INFO"] in {"/api/hang", "/hang"}:
            time.sleep(0.01)
        if environ["PATH_INFO"] == "/api/seize":
            re.match(r"(a+)+$", "a" * 60 + "b")
        return shipped(environ, start_response)

    worker.wsgi = answered
