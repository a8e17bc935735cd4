"""A browser that notices what a person would: script errors, blocked content, foreign requests."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Literal
from weakref import WeakKeyDictionary

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.db import connections
from django.test import Client
from playwright.sync_api import (
    Browser,
    ConsoleMessage,
    Error,
    Locator,
    Page,
    Request,
    expect,
    sync_playwright,
)
from pytest_django.live_server_helper import LiveServer

from tests.support.rows import PASSWORD, a_person

OpenPage = Callable[..., Page]
Ear = Callable[[Any], None]
Pages = dict[bool, list[Page]]
# What each page has asked for and not got yet.
UNDER_WAY: WeakKeyDictionary[Page, set[Request]] = WeakKeyDictionary()
# Where a page waits for the next test: it asks for nothing, and is of the console, so that the
# browser keeps the page's process.
REST = "/healthz"
# Axe leaves much behind for a moment: with more room, V8 seldom has to tidy up.
ROOM = "--js-flags=--min-semi-space-size=32"
# Of a machine that does much else; what comes about is not waited for any longer by it.
PATIENCE_MS = 30_000
# Until the page is in these colours. A locator would first bring all of Playwright's own script
# into each document.
FOLLOWS = """([colours, patience]) => new Promise((follows, does_not) => {
  const end = performance.now() + patience;
  const look = () => {
    if (document.documentElement.dataset.bsTheme === colours) follows();
    else if (performance.now() > end) does_not(new Error(`The page is not ${colours}.`));
    else requestAnimationFrame(look);
  };
  look();
})"""


@pytest.fixture(scope="package")
def browser(chromium_program: Path, live_server: LiveServer) -> Iterator[Browser]:
    """One for all files of this folder that follow each other; of a test, no more stays than the
    console's files.

    While Playwright is at work an event loop runs in this thread, and Django then suspects
    every statement of it.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "1")
        expect.set_options(timeout=PATIENCE_MS)
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path=chromium_program,
                args=["--no-sandbox", "--disable-dev-shm-usage", ROOM],
            )
            yield browser
            browser.close()
            # While the loop runs, this thread has connections that nobody else would close.
            connections.close_all()


@pytest.fixture
def complaints() -> list[str]:
    """What the browser complained about; empty at the end of a good test."""
    return []


@pytest.fixture(scope="package")
def free_pages(browser: Browser) -> Pages:
    """Those that no test uses, with scripts and without.

    A new one would be a new process, and fetch and read all files again.
    """
    return {True: [], False: []}


@pytest.fixture
def open_page(
    browser: Browser, free_pages: Pages, live_server: LiveServer, complaints: list[str]
) -> Iterator[OpenPage]:
    """Log somebody in, on an empty page: `open_page("Editors", javascript=False, width=390)`.

    With `own_clock` the page's time passes as usual, and faster where the test says so.
    """
    with ExitStack() as taken:

        def open_page(
            role: str, *, javascript: bool = True, width: int = 1280, own_clock: bool = False
        ) -> Page:
            # A context keeps the clock that it was given.
            free = [] if own_clock else free_pages[javascript]
            page = free.pop() if free else a_page(browser, live_server.url, javascript=javascript)
            taken.callback(page.close) if own_clock else taken.callback(at_rest, page, free)
            taken.enter_context(watched(page, live_server.url, complaints))
            # A request still at work would keep the database open after the test.
            taken.callback(settled, page)
            page.context.add_cookies([a_login(a_person(role), live_server.url)])
            if own_clock:
                page.context.clock.install()
            page.set_viewport_size({"width": width, "height": 900})
            return page

        yield open_page


def a_page(browser: Browser, home: str, *, javascript: bool) -> Page:
    page = browser.new_context(
        base_url=home,
        color_scheme="light",
        reduced_motion="reduce",
        java_script_enabled=javascript,
    ).new_page()
    page.set_default_timeout(PATIENCE_MS)
    return page


def at_rest(page: Page, free: list[Page]) -> None:
    """Leave nothing of a test on its page, and the page to the next one."""
    page.goto(REST)
    page.context.clear_cookies()
    page.emulate_media(color_scheme="light", reduced_motion="reduce")
    free.append(page)


@contextmanager
def watched(page: Page, home: str, complaints: list[str]) -> Iterator[None]:
    """Note what the browser complains of, and what the page waits for."""
    UNDER_WAY[page] = set()
    ears = listening(UNDER_WAY[page], home, complaints)
    for event, ear in ears.items():
        page.on(event, ear)
    try:
        yield
    finally:
        for event, ear in ears.items():
            page.remove_listener(event, ear)


def listening(asked: set[Request], home: str, complaints: list[str]) -> dict[Any, Ear]:
    """What is done at each event of a page."""

    def said(message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            complaints.append(message.text)

    def failed(error: Error) -> None:
        complaints.append(str(error))

    # Playwright marks the functions that it calls, and cannot mark a method of a set.
    def begun(request: Request) -> None:
        asked.add(request)
        if not request.url.startswith((home, "data:")):
            complaints.append(f"foreign request: {request.url}")

    def over(request: Request) -> None:
        asked.discard(request)

    return {
        "console": said,
        "pageerror": failed,
        "request": begun,
        "requestfinished": over,
        "requestfailed": over,
    }


def settled(page: Page) -> None:
    """Wait until a page has got what it asked for; Playwright's idle network takes 0.5 s more."""
    for _ in range(1_000):
        # Lets the events in; what a page asks for once it is there has begun by then.
        page.wait_for_timeout(15)
        if not UNDER_WAY[page]:
            return
    raise AssertionError([request.url for request in UNDER_WAY[page]])


def in_colours(page: Page, colours: str) -> None:
    """Let the system's theme be this one; the page follows at once, without fading over."""
    scheme: Literal["dark", "light"] = "dark" if colours == "dark" else "light"
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    page.evaluate(FOLLOWS, [colours, PATIENCE_MS])


def a_login(person: User, home: str) -> Any:
    """The cookie of somebody who has logged in there."""
    client = Client()
    client.force_login(person)
    name = settings.SESSION_COOKIE_NAME
    return {"name": name, "value": client.cookies[name].value, "url": home}


def log_in(page: Page, name: str) -> None:
    """By the form, as people do."""
    page.goto("/login/")
    page.get_by_label("Name").fill(name)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Log in").click()
    account_of(page).wait_for()


def account_of(page: Page) -> Locator:
    """What opens the colours and the way out; without JavaScript, too."""
    return page.locator("details.account > summary")
