"""This process's name for people: in leases, attempts and heartbeats."""

import os
import socket


def worker_name() -> str:
    """Host and pid, as `host:pid`."""
    return f"{socket.gethostname()}:{os.getpid()}"
