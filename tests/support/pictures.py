"""`python -m tests.support.pictures [NAME …]`: takes the pictures of docs/ anew.

Those of the tutorial are taken by going its way, in a project made of its page, on servers of its
own; the others in the running console of `make run`. All have one size and the light colours.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import psycopg
from playwright.sync_api import Browser, Page, expect, sync_playwright

from bench.rig import answers
from devstack import chromium, errors, keys, paths, ports, servers
from devstack.app import App
from devstack.supervise import Command, Process
from tests.support import tutorial, waterfall
from tests.support.screenshots import linked, password

IMAGES: Final = paths.ROOT / "docs" / "images"
SIZE: Final = {"width": 1200, "height": 760}
# A page of the documentation has to be there at once.
MOST_BYTES: Final = 150_000
PATIENCE_MS: Final = 90_000
# The ends of topics are looked at every 15 seconds; how many wait is known then.
LOOKED_AT_MS: Final = 20_000
# Of this checkout, and nothing that the tutorial's project has heard of.
OURS: Final = re.compile(r"SLUICE_|DJANGO_|PYTHONPATH")
NAME, PASSWORD = "ada", "tutorial"

# A page by its address; "page -> link" is the first link of this kind on that page.
OF_THE_STACK: Final = {
    "overview": "/",
    "failure": "/failures/messages/?state=HOLD&queue=erp-assets -> /failures/[0-9a-f-]{36}/",
    "causes": "/failures/",
    "queue": "/queues/erp-assets/",
    "flow": "/queues/erp-assets/flow/",
    "message": "/tracking/ -> /tracking/message/",
    "delivery": "/delivery/",
    "cron": "/cron/",
    "bulk": "/bulk/new/import/",
    "tokens": "/account/tokens/new/",
}
EDIT, TUTORIAL, TRACE = "operation", "tutorial", "trace"
# In the tutorial's project, set up further by RECEIVER.
OF_THE_RECEIVER: Final = {
    "endpoint": "/ops/endpoints/ -> /ops/endpoints/[0-9]+/$",
    "events": "/ops/event-subscriptions/ -> /ops/event-subscriptions/[0-9]+/$",
}
# Somebody who is told of the shop's failures.
RECEIVER: Final = """format: 1
systems:
- name: ticketing
  description: The help desk
endpoints:
- name: ticketing-events
  system: ticketing
  endpoint_type: http
  idempotent: true
  properties:
    url: https://tickets.example.org/hooks/sluice
  secrets:
    signing_secret: ${ENV:TICKETING_SECRET}
queues:
- name: ticketing-events
  provider: main
  topic: ticketing.events
  kind: sequential
  direction: outbound
  system: ticketing
  start_from: end
channels:
- name: EVENTS
  envelope: false
channel_targets:
- channel: EVENTS
  system: ticketing
  queue: ticketing-events
  endpoint: ticketing-events
event_subscriptions:
- name: tickets
  description: A ticket for each message on hold and each blocked queue
  channel: EVENTS
  kinds: [failure.held, failure.resolved, queue.blocked]
"""
TRACING_TEST: Final = "tests/functional/test_tracing.py"
OF_THE_TUTORIAL: Final = ("queue", "blocked", "check", "resolved")
EVERY: Final = frozenset(
    {
        *OF_THE_STACK,
        *OF_THE_RECEIVER,
        EDIT,
        TRACE,
        *(f"{TUTORIAL}-{name}" for name in OF_THE_TUTORIAL),
    }
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status 1: a picture could not be taken, or is too large."""
    parser = argparse.ArgumentParser(prog="tests.support.pictures", description=__doc__)
    known = [*OF_THE_STACK, *OF_THE_RECEIVER, EDIT, TUTORIAL, TRACE]
    parser.add_argument("names", nargs="*", choices=[*known, []], metavar="NAME")
    names = parser.parse_args(arguments).names or known
    program = chromium.find()
    if program is None:
        print(chromium.MISSING, file=sys.stderr)
        return 1
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=program, args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        try:
            if TRACE in names:
                of_a_trace(browser)
            if {*names} - {TUTORIAL, TRACE, *OF_THE_RECEIVER}:
                of_the_stack(browser, names)
            if TUTORIAL in names:
                of_the_tutorial(browser)
            if {*names} & {*OF_THE_RECEIVER}:
                of_the_receiver(browser, names)
        except errors.Problem as problem:
            print(f"{problem.what}\n{problem.remedy}", file=sys.stderr)
            return 1
        finally:
            browser.close()
    large = [one.name for one in IMAGES.glob("*.png") if one.stat().st_size > MOST_BYTES]
    if large:
        print(f"larger than {MOST_BYTES:,} bytes: {', '.join(large)}", file=sys.stderr)
    return 1 if large else 0


def keep(page: Page, name: str) -> None:
    """Take the picture of what a person sees now."""
    page.wait_for_load_state("networkidle")
    page.screenshot(path=IMAGES / f"{name}.png", caret="initial")
    print(f"  {name}")


def of_the_stack(browser: Browser, names: Sequence[str]) -> None:
    app = App(paths.STACK, servers.as_left_in(paths.STACK))
    page = a_page(browser, app.address)
    log_in(page, "/login/", keys.ADMINISTRATOR, password(app))
    take_each(page, OF_THE_STACK, names)
    if EDIT in names:
        try_an_edit(page)
    page.context.close()


def take_each(page: Page, ways: Mapping[str, str], names: Sequence[str]) -> None:
    """Those of the pictures that are asked for."""
    for name, way in ways.items():
        if name not in names:
            continue
        start, _, link = way.partition(" -> ")
        page.goto(start)
        if link:
            page.goto(next(linked(page, link)))
        keep(page, name)


def of_a_trace(browser: Browser) -> None:
    """The spans that a test's collector got, from a post to a partner's answer."""
    with tempfile.TemporaryDirectory() as folder:
        spans = Path(folder) / "spans.jsonl"
        words = ["-q", "-n0", "-p", "no:cacheprovider", TRACING_TEST]
        around = {**os.environ, "TESTS_TRACE": str(spans)}
        subprocess.run(
            [sys.executable, "-m", "pytest", *words], cwd=paths.ROOT, env=around, check=True
        )
        waterfall.take(browser, spans, IMAGES / f"{TRACE}.png")
    print(f"  {TRACE}")


def try_an_edit(page: Page) -> None:
    """One edit of many failures, tried and not begun: who does nothing more leaves no trace."""
    page.goto("/failures/")
    page.get_by_role("button", name="Edit all").first.click()
    page.get_by_label("Path").first.fill("$.siteid")
    page.get_by_label("Value").first.fill("QUARRY")
    page.get_by_label("Add it where it is missing").check()
    page.get_by_role("button", name="Try it").click()
    expect(page.get_by_text("Edit one first").first).to_be_visible()
    keep(page, EDIT)


def a_page(browser: Browser, address: str) -> Page:
    page = browser.new_context(
        base_url=address, viewport=SIZE, color_scheme="light", reduced_motion="reduce"
    ).new_page()
    page.set_default_timeout(PATIENCE_MS)
    return page


def log_in(page: Page, address: str, name: str, secret: str) -> None:
    page.goto(address)
    page.get_by_label("Name").fill(name)
    page.get_by_label("Password").fill(secret)
    page.get_by_role("button", name="Log in").click()
    page.wait_for_load_state("networkidle")


def of_the_tutorial(browser: Browser) -> None:
    """Go the way of docs/tutorial.md."""
    expect.set_options(timeout=PATIENCE_MS)
    with a_shop() as shop:
        page = a_page(browser, shop.address)
        log_in(page, "/ops/login/", NAME, PASSWORD)
        set_up(page, shop.kafka)
        shop.send(("O-1003", "Linus", "12,50"), ("O-1004", "Ken", "40.00"))
        page.goto("/ops/")
        expect(page.get_by_role("link", name="Fix").first).to_be_visible()
        page.wait_for_timeout(LOOKED_AT_MS)
        page.reload()
        keep(page, "tutorial-blocked")
        repair(page)
        page.context.close()


def of_the_receiver(browser: Browser, names: Sequence[str]) -> None:
    """What a system that hears of the shop's events has in the set-up."""
    with a_shop() as shop:
        shop.apply(RECEIVER)
        page = a_page(browser, shop.address)
        log_in(page, "/ops/login/", NAME, PASSWORD)
        take_each(page, OF_THE_RECEIVER, names)
        page.context.close()


def set_up(page: Page, kafka: str) -> None:
    """The page's chapter on the topic: a new partner."""
    page.goto("/ops/")
    page.get_by_role("link", name="New partner", exact=True).first.click()
    press, follow = _pressing(page, "button"), _pressing(page, "link")
    page.get_by_label("Name").first.fill("main")
    page.get_by_label("Servers").first.fill(kafka)
    press("Save and continue")
    follow("Continue")
    page.get_by_label("Name").first.fill("webshop")
    press("Save and continue")
    page.get_by_label("Interface").first.fill("ORDER")
    press("Save and continue")
    follow("Continue")
    page.get_by_label("Adopt an existing topic").check()
    page.locator("#id_topic").fill(tutorial.TOPIC)
    page.locator("#id_topic").blur()
    page.get_by_label("Sequential: stop at the first failure").check()
    page.get_by_label("The oldest message the topic still has").check()
    page.locator("#part-topic").scroll_into_view_if_needed()
    page.wait_for_timeout(2_000)
    keep(page, "tutorial-queue")
    press("Save and continue")
    expect(page.get_by_text(f"{tutorial.QUEUE} was added").first).to_be_visible()


def _pressing(page: Page, role: str) -> Callable[[str], None]:
    def press(name: str) -> None:
        page.wait_for_load_state("networkidle")
        page.get_by_role(role, name=name, exact=True).first.click()

    return press


def repair(page: Page) -> None:
    """The page's last chapter: from the overview's card to the resolved message."""
    page.get_by_role("link", name="Fix").first.click()
    text = page.locator("#text")
    text.fill(text.input_value().replace("12,50", "12.50"))
    page.get_by_role("button", name="Check").click()
    expect(page.get_by_role("heading", name="It would be applied.")).to_be_visible()
    keep(page, "tutorial-check")
    page.get_by_role("button", name="Save and release").click()
    expect(page.locator("main .badge").first).to_contain_text("Resolved")
    keep(page, "tutorial-resolved")


@dataclass(frozen=True)
class Shop:
    """The tutorial's project at work, and what its topic gets."""

    address: str
    kafka: str
    send: Callable[..., None]
    apply: Callable[[str], None]


@contextmanager
def a_shop() -> Iterator[Shop]:
    with tempfile.TemporaryDirectory(prefix="sluice-pictures-") as name:
        folder = Path(name)
        # The database runs as another user when we run as root, and has to come through.
        folder.chmod(0o755)
        with servers.running(folder / "servers", durable=False) as running:
            told = _environment(running)
            project = folder / "shop"
            project.mkdir()
            tutorial.lay_out(project, told)
            manage = [sys.executable, "manage.py"]
            person = ["createsuperuser", "--noinput", "--username", NAME, "--email", "a@b.example"]
            tutorial.run([*manage, *person], project, told)

            send = partial(tutorial.send, project, told, sys.executable)
            send(("O-1001", "Ada", "25.50"), ("O-1002", "Grace", "8.00"))
            port = ports.choose()
            with (
                _running(project, told, "run_services"),
                _running(project, told, "runserver", "--noreload", str(port)),
            ):
                _wait_for(f"http://127.0.0.1:{port}/ops/login/")
                address = f"http://127.0.0.1:{port}"
                yield Shop(address, running.kafka_bootstrap, send, partial(_apply, project, told))


def _apply(project: Path, told: Mapping[str, str], text: str) -> None:
    """Set the tutorial's queue up, and what this file says."""
    tutorial.set_up(project, told, sys.executable)
    (project / "more.yaml").write_text(text)
    tutorial.run([sys.executable, "manage.py", "config", "apply", "more.yaml"], project, told)


def _wait_for(address: str) -> None:
    deadline = time.monotonic() + PATIENCE_MS / 1_000
    while not answers(address):
        if time.monotonic() > deadline:
            raise TimeoutError(address)
        time.sleep(0.2)


def _environment(running: servers.Servers) -> dict[str, str]:
    """The page's shop.env, with a database made for it."""
    with psycopg.connect(running.database_url, autocommit=True) as session:
        session.execute("CREATE DATABASE shop")
    kept = {name: value for name, value in os.environ.items() if not OURS.match(name)}
    return {
        **kept,
        "PYTHONPATH": str(paths.ROOT),
        "SLUICE_DATABASE_URL": urlsplit(running.database_url)._replace(path="/shop").geturl(),
        "SLUICE_CELERY_BROKER_URL": running.celery_broker_url,
        "SLUICE_KAFKA_BOOTSTRAP": running.kafka_bootstrap,
        "SLUICE_ENCRYPTION_KEYS": keys.encryption_key(),
        "DJANGO_SUPERUSER_PASSWORD": PASSWORD,
        "TICKETING_SECRET": PASSWORD,
    }


@contextmanager
def _running(folder: Path, told: Mapping[str, str], *words: str) -> Iterator[None]:
    process = Process(words[0], folder)
    argv = [sys.executable, "manage.py", *words]
    process.spawn(Command(argv=argv, environment=told, folder=folder))
    try:
        yield
    finally:
        process.stop(grace_seconds=10)


if __name__ == "__main__":
    sys.exit(main())
