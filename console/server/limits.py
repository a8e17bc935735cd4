"""Limits on size and time of requests, and the addresses of the HTTP API.

The server reads this before Django is set up: nothing here may import it.
"""

from typing import Final

# What begins so is answered by the HTTP API alone, also where nothing is at the address.
HTTP_API_PREFIXES: Final = ("/esqueue/", "/es/", "/meaweb/", "/api/", "/openapi.json")

# Request line and header fields together. gunicorn's own limits would allow 800 KiB, of which a
# thousand connections could make this process hold 800 MB.
HEAD_BYTES: Final = 64 * 1024
# From the first byte (on a new connection: from its start) to the empty line.
HEAD_SECONDS: Final = 10.0

# The largest body that any system may be allowed to post: it is held in memory as a whole.
HTTP_API_BODY_BYTES: Final = 100 * 2**20
# A partner's body comes within this time, whatever its pace.
BODY_SECONDS: Final = 60.0
# A person's upload may be large and their line slow: it has this much longer for each byte.
UPLOAD_BYTES_PER_SECOND: Final = 64 * 1024
# What a form may hold beside its file.
FORM_BYTES: Final = 17 * 2**20

# A body up to this size waits in memory, a larger one in a temporary file.
MEMORY_BYTES: Final = 64 * 1024
# What the bodies of all requests that are not answered yet may take on disk, in each process, once
# for the HTTP API and once for the console. Bodies that wait in memory do not count.
DISK_BYTES: Final = 1024 * 2**20

# A request that takes longer hangs: its process is replaced.
HTTP_API_SECONDS: Final = 120.0
CONSOLE_SECONDS: Final = 900.0
# How long a client may leave an answer unread once so much of it waits.
UNREAD_SECONDS: Final = 30.0
UNREAD_BYTES: Final = 8 * 2**20


def is_for_http_api(target: bytes) -> bool:
    """Return True for targets of the HTTP API, as `console.http_api.entrance` sees them.

    A wrong guess gives a request the other's threads, nothing else.
    """
    return target.decode("latin-1").startswith(HTTP_API_PREFIXES)
