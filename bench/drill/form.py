"""A delivering queue is set up by the console's forms alone, in a real browser, and delivers.

Sixty messages of twelve keys go to a partner over HTTP who refuses one of them three times. Each
has to arrive once, no key out of order, and the browser has nothing to complain of.
"""

import json
import re
import sys
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from playwright.sync_api import ConsoleMessage, Error, Page, Request, sync_playwright

from bench.drill.ground import Ground
from bench.rig import BenchmarkError
from devstack import chromium

MESSAGES: Final = 60
KEYS: Final = 12
REFUSED: Final = 17
REFUSALS: Final = 3
LIMIT_SECONDS: Final = 120
# Whatever comes twice comes soon after.
AFTERWARDS_SECONDS: Final = 3.0
PATIENCE_MS: Final = 30_000
# So long a call takes: otherwise none would meet another.
CALL_SECONDS: Final = 0.03
QUEUE: Final[Mapping[str, str]] = {
    "kind": "continuous",
    "partitions": "2",
    "ordering": "key",
    "concurrency": "4",
    "max_retries": "5",
    "backoff": "constant",
    "retry_delay_seconds": "1 s",
}
# Of the topic that was made with it; a stored queue is not asked for them.
ONLY_NEW: Final = frozenset({"partitions"})
# What a form shows while one types is asked for a moment later.
READING_MS: Final = 400
TOKEN: Final = re.compile(r"sluice_[A-Za-z0-9_-]{20,}")
_OPEN: Final = """
SELECT count(*) FROM integration_messageerror e JOIN integration_queue q ON q.id = e.queue_id
WHERE q.name = %s AND e.state NOT IN ('RESOLVED', 'DELETED')
"""


@dataclass
class Partner:
    """Takes each post but the first three of one message."""

    taken: list[tuple[str, int, str]] = field(default_factory=list)
    refused: int = 0
    at_once: int = 0
    most_at_once: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self) -> None:
        with self.lock:
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)

    def answer(self, message_id: str, body: Mapping[str, Any]) -> int:
        """Return the status for this post."""
        with self.lock:
            self.at_once -= 1
            if body["n"] == REFUSED and self.refused < REFUSALS:
                self.refused += 1
                return 503
            self.taken.append((message_id, body["n"], body["key"]))
            return 200

    def out_of_order(self) -> int:
        """Count what came after a later message of its key."""
        last: dict[str, int] = {}
        wrong = 0
        for _, n, key in self.taken:
            wrong += n < last.get(key, -1)
            last[key] = max(n, last.get(key, -1))
        return wrong


def drill(ground: Ground) -> dict[str, Any]:
    """Carry it out on the running stack. Afterwards its queue is switched off."""
    began, name = time.monotonic(), f"drill-form-{ground.suffix}"
    with _listening() as (partner, address):
        complaints, differences, token = _set_up(ground, name, address)
        published = _publish(ground, name, token)
        _wait(partner)
        time.sleep(AFTERWARDS_SECONDS)
    _switch_off(ground, name)
    times = Counter(message_id for message_id, _, _ in partner.taken)
    figures = {
        "published": len(published),
        "lost": len(published - set(times)),
        "doubled": len(partner.taken) - len(times),
        "strange": len(set(times) - published),
        "out_of_order": partner.out_of_order(),
        "open_failures": int(ground.value(_OPEN, [name])),
        "complaints": complaints,
        "differences": differences,
    }
    good = len(published) == MESSAGES and partner.refused == REFUSALS
    return {
        "ok": good and not any(value for what, value in figures.items() if what != "published"),
        **figures,
        "delivered": len(times),
        "refused": partner.refused,
        "most_at_once": partner.most_at_once,
        "seconds": round(time.monotonic() - began, 1),
    }


# the partner


@contextmanager
def _listening() -> Iterator[tuple[Partner, str]]:
    partner = Partner()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            partner.begin()
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            time.sleep(CALL_SECONDS)
            self.send_response(partner.answer(self.headers["Idempotency-Key"], body))
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Nothing: the figures say it."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield partner, f"http://127.0.0.1:{server.server_port}/orders"
    finally:
        server.shutdown()
        server.server_close()


# the browser


class Hand:
    """What a person does in the browser, and what the browser says to it."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.complaints: list[str] = []
        self._under_way: set[Request] = set()
        page.set_default_timeout(PATIENCE_MS)
        page.on("pageerror", self._failed)
        page.on("console", self._said)
        page.on("request", self._begun)
        page.on("requestfinished", self._over)
        page.on("requestfailed", self._over)

    def log_in(self, name: str, password: str) -> None:
        self.page.goto("login/")
        self.page.get_by_label("Name").fill(name)
        self.page.get_by_label("Password").fill(password)
        self.page.get_by_role("button", name="Log in").click()
        self.page.locator("details.account > summary").wait_for()

    def save(self, path: str, values: Mapping[str, str]) -> str:
        """Fill a form and save it; returns the address of the page it leads to.

        Raises BenchmarkError with what the form says against it.
        """
        self.open(path)
        for name, value in values.items():
            self._enter(name, value)
        self.settle()
        self.page.locator(".card-footer button.btn-primary").click()
        self.settle()
        mistakes = self.page.locator(".invalid-feedback, [role=alert].alert-danger")
        if mistakes.count():
            raise BenchmarkError(f"{path}: {' '.join(mistakes.all_inner_texts())}")
        return self.page.url

    def differences(self, path: str, values: Mapping[str, str]) -> list[str]:
        """Tell which values the stored form does not show as they were entered."""
        self.open(path)
        found = []
        for name in sorted(values.keys() - ONLY_NEW):
            shown, value = self._shown(name), values[name]
            # A choice is shown with what it is about: "drill (HTTP, partner)".
            is_same = value in shown if self._kind(name) == "select" else shown == value
            found += [] if is_same else [f"{name}: {shown} instead of {value}"]
        return found

    def open(self, path: str) -> None:
        """What leaves a page while it asks for something is told as its error."""
        self.settle()
        self.page.goto(path)
        self.settle()

    def settle(self) -> None:
        """Pause as one who reads, then wait until the page has got what it asked for."""
        self.page.wait_for_timeout(READING_MS)
        for _ in range(1_000):
            if not self._under_way:
                return
            self.page.wait_for_timeout(15)
        raise BenchmarkError(f"never answered: {[one.url for one in self._under_way]}")

    def _enter(self, name: str, value: str) -> None:
        field_ = self.page.locator(f"#id_{name}")
        match self._kind(name):
            case "radio":
                self.page.locator(f"input[name={name}][value={value}]").check()
            case "checkbox":
                field_.set_checked(bool(value))
            case "select":
                offered = field_.locator("option").filter(has_text=value)
                named = offered.first.get_attribute("value") if offered.count() else value
                field_.select_option(named)
                # Another system brings the form again, with what fits it.
                self.settle()
            case _:
                field_.fill(value)

    def _shown(self, name: str) -> str:
        field_ = self.page.locator(f"#id_{name}")
        match self._kind(name):
            case "radio":
                chosen = self.page.locator(f"input[name={name}]:checked")
                return str(chosen.get_attribute("value"))
            case "checkbox":
                return "on" if field_.is_checked() else ""
            case "select":
                script = "box => `${box.selectedOptions[0].text} ${box.value}`"
                return str(field_.evaluate(script))
            case _:
                return field_.input_value()

    def _kind(self, name: str) -> str:
        script = "field => field.tagName === 'SELECT' ? 'select' : field.type"
        return str(self.page.locator(f"main [name={name}]").first.evaluate(script))

    def _said(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            self.complaints.append(message.text)

    def _failed(self, error: Error) -> None:
        self.complaints.append(str(error))

    def _begun(self, request: Request) -> None:
        self._under_way.add(request)

    def _over(self, request: Request) -> None:
        self._under_way.discard(request)


@contextmanager
def _browsing(ground: Ground) -> Iterator[Hand]:
    """Yield the hand of somebody who is logged in."""
    program = chromium.find()
    if program is None:
        raise BenchmarkError(chromium.MISSING)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=program, args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        hand = Hand(browser.new_context(base_url=ground.address).new_page())
        hand.log_in(*ground.login)
        yield hand
        browser.close()


def _set_up(ground: Ground, name: str, address: str) -> tuple[list[str], list[str], str]:
    """Return what the browser complained of, which values were not kept, and a token."""
    with _browsing(ground) as hand:
        system = hand.save("systems/new/", {"name": name})
        end = {"name": name, "system": name, "url": address, "private_network": "on"}
        endpoint = hand.save("endpoints/new/?endpoint_type=http", end)
        channel = {"name": name, "envelope": "", "key_path": "$.key"}
        stored = hand.save("channels/new/", channel)
        provider = str(ground.value("SELECT name FROM integration_provider ORDER BY id LIMIT 1"))
        queue = {"name": name, "topic": name, "system": name, "provider": provider, **QUEUE}
        number = endpoint.rstrip("/").rpartition("/")[2]
        hand.save(f"queues/new/?endpoint={number}", queue)
        hand.save("channels/targets/new/", {"channel": name, "system": name, "queue": name})
        hand.save(f"{system}http-api/tokens/new/", {"name": name, "may_publish": "on"})
        token = TOKEN.search(hand.page.content())
        if token is None:
            raise BenchmarkError("the page of a new token does not show it")
        differences = [
            *hand.differences(f"queues/{name}/change/", {**queue, "endpoint": name}),
            *hand.differences(f"{endpoint}change/", end),
            *hand.differences(f"{stored}change/", channel),
        ]
        hand.settle()
    return hand.complaints, differences, token[0]


# the messages


def _publish(ground: Ground, name: str, token: str) -> set[str]:
    """Publish over the HTTP API; returns the message ids."""
    ids = set()
    for n in range(MESSAGES):
        request = urllib.request.Request(  # noqa: S310 - our own http address
            f"{ground.address}api/publish/{name}",
            data=json.dumps({"n": n, "key": f"K{n % KEYS}"}).encode(),
            headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310 - as above
            told = json.load(answer)
        ids |= set(told["messages"].values())
    return ids


def _wait(partner: Partner) -> None:
    deadline = time.monotonic() + LIMIT_SECONDS
    while len(partner.taken) < MESSAGES and time.monotonic() < deadline:
        time.sleep(0.2)


def _switch_off(ground: Ground, name: str) -> None:
    """Leave no queue behind that takes turns for nothing."""
    person = ground.person()
    page = person.read(f"queues/{name}/")
    person.post(f"queues/{name}/disablings/", page, {"reason": "The drill is over"})


if __name__ == "__main__":
    from bench.drill.ground import running

    outcome = drill(running())
    print(json.dumps(outcome, indent=2))
    sys.exit(0 if outcome["ok"] else 1)
