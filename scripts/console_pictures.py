#!/usr/bin/env python3
"""Take the pictures of docs/console.md, from a made-up world of a thousand tenants.

Run by hand when the pages changed: `.venv/bin/python scripts/console_pictures.py`. A thousand
tenants with every kind of trouble are not to be had from a demo, so the pictures show the world of
the browser tests.
"""

from __future__ import annotations

import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "e2e"))

from console_fake import fake, served  # noqa: E402 - found by the line above
from console_world import World  # noqa: E402

from conftest import ARGUMENTS, chromium  # noqa: E402 - found by the line above

IMAGES = ROOT / "docs" / "images"
MOST_BYTES = 200_000


def main() -> None:
    """Take them all."""
    world = World()
    with served(fake(world, turn_s=1.0)) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=list(ARGUMENTS))
        for theme, shots in (("light", LIGHT), ("dark", DARK)):
            size = {"width": 1360, "height": 850}
            page = browser.new_context(color_scheme=theme, viewport=size).new_page()
            page.goto(f"{address}/#key=hr_operator")
            page.locator("main h1").wait_for()
            page.wait_for_timeout(25_000)  # lines of what is seen live need something to show
            for name, (where, prepare) in shots.items():
                page.keyboard.press("Escape")
                page.evaluate(f"location.hash = '#/{where}'")
                page.wait_for_timeout(4000)
                prepare(page)
                page.wait_for_timeout(700)
                keep(page, name)
        browser.close()


def keep(page: Page, name: str) -> None:
    """Store what is on the page now."""
    path = IMAGES / f"console-{name}.png"
    page.screenshot(path=path)
    Image.open(path).convert("RGB").save(path, optimize=True)
    size = path.stat().st_size
    assert size < MOST_BYTES, f"{path} has {size} bytes"
    print(f"{path.relative_to(ROOT)}  {size // 1000} kB")


def nothing(_page: Page) -> None:
    """As it is."""


def failure(page: Page) -> None:
    """Show the record."""
    page.get_by_role("button", name="Show record and stack").click()
    page.locator("pre[aria-label=stack]").wait_for()
    page.get_by_role("article", name="Failure 7").evaluate("each => each.scrollIntoView()")


def dialog(page: Page) -> None:
    """Ask before a record is passed over."""
    page.locator("main").evaluate("each => each.scrollTo(0, 0)")
    page.get_by_role("button", name="Skip…").click()


def block(page: Page) -> None:
    """Point at a block."""
    page.locator("[data-timeline]").hover(position={"x": 700, "y": 110})


LIGHT = {
    "tenants": ("tenants", nothing),
    "tenant": ("tenants/acme-00", nothing),
    "failure": ("tenants/acme-00", failure),
    "skip": ("tenants/acme-00", dialog),
    "waves": ("waves", block),
    "use-cases": ("use-cases", nothing),
}
DARK = {
    "tenants-dark": ("tenants", nothing),
    "waves-dark": ("waves", block),
    "alerts-dark": ("alerts", nothing),
}

if __name__ == "__main__":
    main()
