"""A browser that notices what a person would: script errors, blocked content, foreign requests."""

from collections.abc import Callable, Iterator
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
    BrowserContext,
    Locator,
    Page,
    Request,
    expect,
    sync_playwright,
)
from pytest_django.live_server_helper import LiveServer

from tests.support.rows import PASSWORD, a_person

OpenPage = Callable[..., Page]
Contexts = dict[bool, list[BrowserContext]]
# What each page has asked for and not got yet.
UNDER_WAY: WeakKeyDictionary[Page, set[Request]] = WeakKeyDictionary()
# Of a machine that does much else; what comes about is not waited for any longer by it.
PATIENCE_MS = 30_000


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
                args=["--no-sandbox", "--disable-dev-shm-usage"],
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
def free_contexts(browser: Browser) -> Contexts:
    """Those that no test uses, with scripts and without: a new one would fetch all files again."""
    return {True: [], False: []}


@pytest.fixture
def open_page(
    browser: Browser, free_contexts: Contexts, live_server: LiveServer, complaints: list[str]
) -> Iterator[OpenPage]:
    """Log somebody in, on an empty page: `open_page("Editors", javascript=False, width=390)`.

    With `own_clock` the page's time passes as usual, and faster where the test says so.
    """
    taken: list[tuple[BrowserContext, list[BrowserContext]]] = []

    def open_page(
        role: str, *, javascript: bool = True, width: int = 1280, own_clock: bool = False
    ) -> Page:
        # A context keeps the clock that it was given.
        free = [] if own_clock else free_contexts[javascript]
        context = free.pop() if free else a_context(browser, live_server.url, javascript=javascript)
        taken.append((context, free))
        context.add_cookies([a_login(a_person(role), live_server.url)])
        if own_clock:
            context.clock.install()
        page = context.new_page()
        page.set_viewport_size({"width": width, "height": 900})
        page.set_default_timeout(PATIENCE_MS)
        watch(page, live_server.url, complaints)
        return page

    yield open_page
    for context, free in taken:
        # A request still at work would keep the database open after the test.
        for page in context.pages:
            settled(page)
            page.close()
        context.clear_cookies()
        free.append(context)


def a_context(browser: Browser, home: str, *, javascript: bool) -> BrowserContext:
    return browser.new_context(
        base_url=home,
        color_scheme="light",
        reduced_motion="reduce",
        java_script_enabled=javascript,
    )


def watch(page: Page, home: str, complaints: list[str]) -> None:
    page.on(
        "console",
        lambda said: complaints.append(said.text) if said.type in {"error", "warning"} else None,
    )
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on(
        "request",
        lambda asked: (
            None
            if asked.url.startswith((home, "data:"))
            else complaints.append(f"foreign request: {asked.url}")
        ),
    )

    asked = UNDER_WAY[page] = set()

    # Playwright marks the functions that it calls, and cannot mark a method of a set.
    def begun(request: Request) -> None:
        asked.add(request)

    def over(request: Request) -> None:
        asked.discard(request)

    page.on("request", begun)
    page.on("requestfinished", over)
    page.on("requestfailed", over)


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
    page.locator(f"html[data-bs-theme={colours}]").wait_for(state="attached")


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
