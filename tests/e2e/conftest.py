"""A real browser for the console's tests: the system's Chromium, which nothing here downloads."""

import os
import shutil
import time

import pytest
from console_fake import fake, served
from console_world import World

ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]


def chromium():
    """Path of the browser, or None."""
    names = ("chromium", "chromium-browser", "google-chrome")
    return os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, names)), None)


@pytest.fixture(scope="session")
def browser():
    """Chromium without a window."""
    found = chromium()
    if found is None:
        pytest.skip("there is no Chromium here: 'apt-get install chromium', or set CHROMIUM")
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - only where it is used

    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=found, args=ARGUMENTS)
        yield launched
        launched.close()


class Visit:
    """One person at a browser, who notes what goes wrong."""

    def __init__(self, context, address):
        self.page = context.new_page()
        self.address = address
        self.troubles = []
        self.page.on("pageerror", lambda error: self.troubles.append(str(error)))
        self.page.on("console", self._said)

    def _said(self, message):
        if message.type in {"error", "warning"}:
            self.troubles.append(f"{message.text} ({message.location['url']})")

    def enter(self, key, page=""):
        """Log in by link, and go to a page."""
        self.page.goto(f"{self.address}/#key={key}")
        self.page.locator("main h1").wait_for()
        if page:
            self.go(page)

    def until(self, claim, arg=None):
        """Wait for JavaScript to be true; the page's own waiting is refused by its CSP."""
        until = time.monotonic() + 60
        while not self.page.evaluate(claim, arg):
            assert time.monotonic() < until, claim
            self.page.wait_for_timeout(30)

    def drawn(self):
        """Wait until what was pressed or clicked is on the page: two frames."""
        frame = "requestAnimationFrame"
        self.page.evaluate(f"() => new Promise(then => {frame}(() => {frame}(then)))")

    def go(self, page):
        """Open a page by its address."""
        self.page.goto(f"{self.address}/#/{page}")
        self.page.locator("main h1").wait_for()


@pytest.fixture
def visit(browser):
    """Opens a browser of nobody yet: ``visit(address, theme="light", **options)``."""
    contexts = []

    def make(address, theme="light", **options):
        viewport = {"width": 1440, "height": 900}
        context = browser.new_context(color_scheme=theme, **{"viewport": viewport, **options})
        context.set_default_timeout(60000)
        contexts.append(context)
        return Visit(context, address)

    yield make
    for context in contexts:
        context.close()


@pytest.fixture(scope="module")
def still():
    """Address of a made-up world that stands still once it was told, for many tests."""
    world = World()
    world.silent = {"driver-2"}
    world.note("key:operator", "PUT /v1/tenants/acme-00", "acme-00", 200, '{"weight":2}')
    world.note("key:viewer", "POST /v1/keys", None, 403)
    with served(fake(world, turn_s=0)) as address:
        yield address


@pytest.fixture
def moving():
    """A small world for a test that changes it: (world, address)."""
    world = World(tenants=24)
    with served(fake(world, turn_s=0.5)) as address:
        yield world, address
