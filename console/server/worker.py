"""The worker that gunicorn runs: its threads compute, and wait for no client.

gunicorn's own threads read a request as slowly as it comes, so a handful of connections that say
little keep everybody else out. Here one poller collects requests and sends answers, for as many
connections as there are; a thread gets a request that is whole. The HTTP API and the console
have threads of their own, so that neither can hold the other's.
"""

import faulthandler
import os
import selectors
import socket
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, Final, NamedTuple

from django.conf import settings
from gunicorn.workers.gthread import TConn, ThreadWorker

from console.server import charsets, limits
from console.server.arriving import Arriving, Ending, Head
from console.server.sockets import BufferedSocket

# How often deadlines are looked at.
_LOOK_SECONDS: Final = 0.25
# How long a client may take to close what was answered for the last time (RFC 9112, 9.6).
_LINGER_SECONDS: Final = 2.0
# How long a process that stops keeps connections open on which nothing is being asked.
_STOP_SECONDS: Final = 2.0
# An answer that does not go out at once has this pace at least.
_ANSWER_BYTES_PER_SECOND: Final = 16 * 1024
_LEAVE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
_REFUSALS: Final = {
    Ending.TOO_LARGE: ("413 Content Too Large", "More was sent than this installation accepts."),
    Ending.TOO_SLOW: ("408 Request Timeout", "The request came too slowly. Nothing was done."),
    Ending.NO_ROOM: (
        "503 Service Unavailable",
        "Too much is being sent at once. Nothing was done; send it again in a minute.",
    ),
}


class _Wait(NamedTuple):
    """The wait of a connection outside of the threads, and what happens when it is late."""

    ends: float
    late: Callable[[TConn], None]


class BufferedWorker(ThreadWorker):  # type: ignore[misc]
    """Collects whole requests before threads see them. For plain HTTP/1: TLS ends at the proxy."""

    wsgi: Any

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._waits: dict[TConn, _Wait] = {}
        self._arriving: dict[TConn, Arriving] = {}
        # Of whole requests until they are answered: is it the HTTP API's, and its bytes on disk.
        self._handed: dict[TConn, tuple[bool, int]] = {}
        # What came behind a request that is being answered.
        self._rest: dict[TConn, bytes] = {}
        self._hangs_at: dict[TConn, float] = {}
        self._hung: set[TConn] = set()
        self._look_at = 0.0
        self._stops_at: float | None = None

    @classmethod
    def check_config(cls, cfg: Any, log: Any) -> None:
        """Raises ValueError for TLS."""
        super().check_config(cfg, log)
        if cfg.is_ssl:
            message = "This worker speaks plain HTTP: let the proxy in front of it end TLS."
            raise ValueError(message)

    def init_process(self) -> None:
        self._upload_bytes = settings.SLUICE_BULK_UPLOAD_MB * 2**20 + limits.FORM_BYTES
        self._http_api_pool = ThreadPoolExecutor(self.cfg.threads, "http-api")
        super().init_process()

    def load_wsgi(self) -> None:
        super().load_wsgi()
        self.wsgi = charsets.readable(self.wsgi)

    def get_thread_pool(self) -> ThreadPoolExecutor:
        """The console's; the HTTP API's is `_http_api_pool`."""
        return ThreadPoolExecutor(self.cfg.threads, "console")

    def run(self) -> None:
        super().run()
        self._http_api_pool.shutdown(wait=False)
        if self._hung:
            # A usual exit waits for every thread, and one of them never ends.
            os._exit(0)

    # --- from the line to a thread ---

    def accept(self, listener: Any) -> None:
        """A new connection. It costs no thread until it has asked something."""
        try:
            accepted, client = listener.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return
        conn = TConn(self.cfg, BufferedSocket(accepted), client, listener.getsockname())
        # The thread has nothing to wait for.
        conn.data_ready = True
        self.nr_conns += 1
        self._await(conn, limits.HEAD_SECONDS)

    def _await(self, conn: TConn, seconds: float, rest: bytes = b"") -> None:
        self._arriving[conn] = Arriving(self._most_bytes)
        self._poll(conn, selectors.EVENT_READ, self._on_piece)
        self._wait(conn, seconds, self._too_slow)
        if rest:
            self._take(conn, rest)

    def _most_bytes(self, head: Head) -> int:
        return (
            limits.HTTP_API_BODY_BYTES
            if limits.is_for_http_api(head.target)
            else self._upload_bytes
        )

    def _on_piece(self, conn: TConn) -> None:
        piece = conn.sock.arrive()
        if piece:
            self._take(conn, piece)
        else:
            self._over(conn, Ending.CUT_SHORT)

    def _take(self, conn: TConn, piece: bytes) -> None:
        coming = self._arriving[conn]
        had_begun, had_head = coming.has_begun, coming.head is not None
        rest = coming.take(piece)
        has_room = self._has_room(coming)
        if coming.ending is not None:
            self._rest[conn] = rest
            is_whole = coming.ending is Ending.WHOLE
            self._over(conn, Ending.NO_ROOM if is_whole and not has_room else coming.ending)
        elif coming.head is None:
            if not had_begun:
                self._wait(conn, limits.HEAD_SECONDS, self._too_slow)
        elif not had_head:
            self._wait_for_body(conn, coming.head)
        elif not has_room:
            self._over(conn, Ending.NO_ROOM)

    def _has_room(self, coming: Arriving) -> bool:
        if coming.head is None or not coming.on_disk:
            return True
        return self._on_disk(coming.head) <= limits.DISK_BYTES

    def _wait_for_body(self, conn: TConn, head: Head) -> None:
        seconds = limits.BODY_SECONDS
        if not limits.is_for_http_api(head.target):
            seconds += head.length / limits.UPLOAD_BYTES_PER_SECOND
        self._wait(conn, seconds, self._too_slow)
        if head.waits_for_leave:
            conn.sock.send(_LEAVE)

    def _on_disk(self, like: Head) -> int:
        """All of this side; also what waits for a thread, or is read by one."""
        side = limits.is_for_http_api(like.target)
        arriving = sum(
            other.on_disk
            for other in self._arriving.values()
            if other.head is not None and limits.is_for_http_api(other.head.target) is side
        )
        return arriving + sum(size for one, size in self._handed.values() if one is side)

    def _too_slow(self, conn: TConn) -> None:
        self._over(conn, Ending.TOO_SLOW)

    def _over(self, conn: TConn, ending: Ending) -> None:
        """Nothing more of this request is waited for."""
        coming = self._arriving.pop(conn)
        self._leave(conn)
        is_for_http_api = coming.head is not None and limits.is_for_http_api(coming.head.target)
        is_announced = coming.head is not None and bool(coming.head.length)
        if (
            ending is Ending.WHOLE
            or is_for_http_api
            or (ending is Ending.TOO_LARGE and is_announced)
        ):
            # The HTTP API answers for itself, with a code, also what did not come whole; the
            # console has a page for what is too large, and reads nothing of it.
            self._handed[conn] = is_for_http_api, coming.on_disk
            conn.sock.give(coming.hand_over(), ending)
            self._submit(conn, self._http_api_pool if is_for_http_api else self.tpool)
            return
        coming.drop()
        if not coming.has_begun or ending is Ending.CUT_SHORT:
            # A form that was cut off would be taken for one with fewer fields.
            self._close(conn)
            return
        conn.sock.send(_refusal(ending))
        self._flush(conn, stays=False)

    def _submit(self, conn: TConn, pool: ThreadPoolExecutor) -> None:
        seconds = limits.HTTP_API_SECONDS if pool is self._http_api_pool else limits.CONSOLE_SECONDS
        future = pool.submit(self._compute, conn, seconds)
        future.add_done_callback(
            lambda done: self.method_queue.defer(self.finish_request, conn, done)
        )

    def _compute(self, conn: TConn, seconds: float) -> bool:
        self._hangs_at[conn] = time.monotonic() + seconds
        return bool(self.handle(conn))

    # --- from the thread back to the line ---

    def finish_request(self, conn: TConn, fs: "Future[bool]") -> None:
        """The thread is done: what it left goes out, and the next request may come."""
        self._hangs_at.pop(conn, None)
        if conn in self._hung:
            return
        self._handed.pop(conn, None)
        is_read = conn.sock.take_back()
        stays = not fs.cancelled() and fs.exception() is None and fs.result() and is_read
        # What the parser kept for later would be answered as a request of its own.
        self._flush(conn, stays=stays and not conn.parser.unreader.buf.getvalue())

    def _flush(self, conn: TConn, *, stays: bool) -> None:
        try:
            conn.sock.flush()
        except OSError:
            self._close(conn)
            return
        if conn.sock.unsent:
            self._poll(conn, selectors.EVENT_WRITE, partial(self._on_room, stays=stays))
            seconds = limits.UNREAD_SECONDS + conn.sock.unsent / _ANSWER_BYTES_PER_SECOND
            self._wait(conn, seconds, self._close)
        elif stays:
            self._await(conn, self.cfg.keepalive, self._rest.pop(conn, b""))
        else:
            self._linger(conn)

    def _on_room(self, conn: TConn, *, stays: bool) -> None:
        conn.sock.flush()
        if not conn.sock.unsent:
            self._leave(conn)
            self._flush(conn, stays=stays)

    def _linger(self, conn: TConn) -> None:
        """Close as the standard wants: an early reset would take the answer's end away."""
        try:
            conn.sock.shutdown(socket.SHUT_WR)
        except OSError:
            self._close(conn)
            return
        self._poll(conn, selectors.EVENT_READ, self._on_leftover)
        self._wait(conn, _LINGER_SECONDS, self._close)

    def _on_leftover(self, conn: TConn) -> None:
        if not conn.sock.arrive():
            self._close(conn)

    # --- waiting ---

    def _poll(self, conn: TConn, events: int, callback: Callable[[TConn], None]) -> None:
        self.poller.register(conn.sock, events, partial(self._on_event, conn, callback))

    def _wait(self, conn: TConn, seconds: float, late: Callable[[TConn], None]) -> None:
        self._waits[conn] = _Wait(time.monotonic() + seconds, late)

    def _on_event(self, conn: TConn, callback: Callable[[TConn], None], _: object) -> None:
        try:
            callback(conn)
        except BlockingIOError:
            return
        except OSError:
            self._close(conn)

    def _leave(self, conn: TConn) -> None:
        """The poller has nothing to do with it for now."""
        if self._waits.pop(conn, None) is not None:
            self.poller.unregister(conn.sock)

    def _close(self, conn: TConn) -> None:
        self._leave(conn)
        coming = self._arriving.pop(conn, None)
        if coming is not None:
            coming.drop()
        self._rest.pop(conn, None)
        self.nr_conns -= 1
        conn.sock.close()

    def murder_pending(self) -> None:
        """Called once in each round: give up what is late."""
        now = time.monotonic()
        if now < self._look_at:
            return
        self._look_at = now + _LOOK_SECONDS
        for conn, wait in [*self._waits.items()]:
            if wait.ends <= now:
                wait.late(conn)
        for conn, hangs_at in [*self._hangs_at.items()]:
            if hangs_at <= now:
                self._give_up(conn)
        if not self.alive:
            self._stop(now)

    def _stop(self, now: float) -> None:
        self._stops_at = self._stops_at or now + _STOP_SECONDS
        if now >= self._stops_at:
            for conn in [c for c, coming in self._arriving.items() if not coming.has_begun]:
                self._close(conn)

    def _give_up(self, conn: TConn) -> None:
        """A thread cannot be ended: let the others finish, and have a new process started."""
        self.log.critical("A request hangs; this process ends once the others are answered.")
        faulthandler.dump_traceback()
        del self._hangs_at[conn]
        self._hung.add(conn)
        self.nr_conns -= 1
        self.alive = False


def _refusal(ending: Ending) -> bytes:
    status, sentence = _REFUSALS[ending]
    return (
        f"HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nRetry-After: 60\r\n"
        f"Connection: close\r\nContent-Length: {len(sentence)}\r\n\r\n{sentence}"
    ).encode()
