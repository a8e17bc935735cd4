"""A browser that notices what a person would: script errors, blocked content, foreign requests."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal
from weakref import WeakKeyDictionary

import pytest
from django.db import connections
from playwright.sync_api import (
    Browser,
    BrowserContext,
    Locator,
    Page,
    Request,
    sync_playwright,
)
from pytest_django.live_server_helper import LiveServer

from tests.support.rows import PASSWORD, a_person

OpenPage = Callable[..., Page]
# What each page has asked for and not got yet.
UNDER_WAY: WeakKeyDictionary[Page, set[Request]] = WeakKeyDictionary()


@pytest.fixture(scope="module")
def browser(chromium_program: Path, live_server: LiveServer) -> Iterator[Browser]:
    """One for all tests of a file; what a test does stays in its own contexts.

    While Playwright is at work an event loop runs in this thread, and Django then suspects
    every statement of it.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "1")
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path=chromium_program, args=["--no-sandbox", "--disable-dev-shm-usage"]
            )
            yield browser
            browser.close()
            # While the loop runs, this thread has connections that nobody else would close.
            connections.close_all()


@pytest.fixture
def complaints() -> list[str]:
    """What the browser complained about; empty at the end of a good test."""
    return []


@pytest.fixture
def open_page(
    browser: Browser,
    live_server: LiveServer,
    complaints: list[str],
) -> Iterator[OpenPage]:
    """Log somebody in: `open_page("Editors", javascript=False, width=390, colours="dark")`."""
    contexts: list[BrowserContext] = []

    def open_page(
        role: str, *, javascript: bool = True, width: int = 1280, colours: str = "light"
    ) -> Page:
        context = browser.new_context(
            base_url=live_server.url,
            viewport={"width": width, "height": 900},
            color_scheme="dark" if colours == "dark" else "light",
            java_script_enabled=javascript,
        )
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(15_000)
        watch(page, live_server.url, complaints)
        log_in(page, a_person(role).get_username())
        return page

    yield open_page
    for context in contexts:
        # A request still at work would keep the database open after the test.
        for page in context.pages:
            settled(page)
        context.close()


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


def log_in(page: Page, name: str) -> None:
    page.goto("/login/")
    page.get_by_label("Name").fill(name)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Log in").click()
    account_of(page).wait_for()


def account_of(page: Page) -> Locator:
    """What opens the colours and the way out; without JavaScript, too."""
    return page.locator("details.account > summary")
