"""The pages in a real browser, over a made-up world: every page, every role, table and keyboard.

The world is made up because a thousand tenants and every kind of alert are not to be had quickly
from a real service; `test_console_service.py` has the real one.
"""

import re

import pytest
from axe_playwright_python.sync_playwright import Axe
from console_fake import fake, served
from console_world import World

pytestmark = [pytest.mark.browser, pytest.mark.slow]

PAGES = ("tenants", "tenants/acme-00", "waves", "use-cases", "alerts", "keys", "audit")


def settled(somebody):
    """Wait until nothing says that it loads."""
    somebody.page.locator("main h1").wait_for()
    somebody.until("!document.querySelector('.is-loading, .strip.is-waiting')")
    charts = "[...document.querySelectorAll('.chart-place')]"
    somebody.until(f"{charts}.every(each => each.querySelector('canvas'))")


def violations(page):
    found = Axe().run(page)
    return [
        f"{violation['id']}: {violation['nodes'][0]['html'][:200]}"
        for violation in found.response["violations"]
    ]


# -- every page ----------------------------------------------------------------------------------


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_a_page_opens_without_errors_and_axe_finds_nothing(visit, still, name, theme):
    somebody = visit(still, theme)
    somebody.enter("hr_operator", name)
    settled(somebody)
    assert violations(somebody.page) == []
    assert somebody.troubles == []


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_door_says_what_to_do_with_a_wrong_key(visit, still, theme):
    somebody = visit(still, theme)
    page = somebody.page
    page.goto(still)
    page.get_by_label("Key", exact=True).fill("hr_nobody")
    page.get_by_role("button", name="Log in").click()
    page.get_by_text("Check that you pasted all of it").wait_for()
    assert violations(page) == []
    page.get_by_label("Key", exact=True).fill("hr_viewer")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Tenants").wait_for()
    # the browser itself notes an answer of 401, and there is no way to ask without one
    assert all("401" in trouble for trouble in somebody.troubles)


def test_a_link_with_a_key_leaves_no_key_behind(visit, still):
    somebody = visit(still)
    somebody.enter("hr_operator")
    assert "hr_" not in somebody.page.url
    somebody.page.goto(f"{still}/#/alerts")
    somebody.page.go_back()
    assert "hr_" not in somebody.page.url
    assert somebody.page.evaluate("document.cookie + JSON.stringify(localStorage)") == "{}"


@pytest.mark.parametrize(
    "action", ["Retry…", "Skip…", "Seek…", "Redrive…", "Limits…", "Suspend tenant"]
)
def test_axe_finds_nothing_in_a_dialog(visit, still, action):
    somebody = visit(still, "dark")
    somebody.enter("hr_operator", "tenants/acme-00")
    somebody.page.get_by_role("button", name=action).first.click()
    somebody.page.get_by_role("dialog").wait_for()
    assert violations(somebody.page) == []
    assert somebody.troubles == []


def test_a_phone_shows_everything_without_scrolling_sideways(visit, still):
    somebody = visit(still, viewport={"width": 390, "height": 844})
    somebody.enter("hr_operator")
    for name in PAGES:
        somebody.go(name)
        settled(somebody)
        assert somebody.page.evaluate("document.documentElement.scrollWidth") <= 390, name


def test_the_theme_switch_is_remembered(visit, still):
    somebody = visit(still, "light")
    somebody.enter("hr_operator")
    ground = "getComputedStyle(document.body).backgroundColor"
    light = somebody.page.evaluate(ground)
    somebody.page.get_by_role("button", name="Dark colours").click()
    dark = somebody.page.evaluate(ground)
    somebody.page.reload()
    somebody.page.get_by_role("button", name="Light colours").wait_for()
    assert somebody.page.evaluate(ground) == dark != light


# -- roles ---------------------------------------------------------------------------------------


def test_a_viewer_is_offered_nothing_that_it_may_not_do(visit, still):
    somebody = visit(still)
    somebody.enter("hr_viewer", "tenants/acme-00")
    page = somebody.page
    page.get_by_role("heading", name="1 open failure").wait_for()
    page.get_by_role("article", name="Stream acme-00/score").locator("table.lanes").wait_for()
    for name in ("Retry…", "Skip…", "Suspend", "Suspend tenant", "Seek…", "Redrive…", "Limits…"):
        assert page.get_by_role("button", name=name, exact=True).count() == 0, name
    assert page.get_by_role("link", name="Keys").count() == 0


def test_a_tenant_sees_its_own_page_and_no_other(visit, still):
    somebody = visit(still)
    somebody.enter("hr_tenant", "tenants/bolt-00")
    page = somebody.page
    page.get_by_role("heading", name="acme-00").wait_for()
    assert page.get_by_role("navigation", name="Pages").get_by_role("link").count() == 0
    # the heading is there before what the tenant may do is known
    page.get_by_role("button", name="Suspend tenant").wait_for()
    assert page.get_by_role("button", name="Seek…").count() == 0


def test_by_which_schemas_records_were_written_is_told_in_words(visit, still):
    somebody = visit(still)
    somebody.enter("hr_operator", "tenants/acme-00")
    table = somebody.page.get_by_role("region", name="Schemas of the last hour").first
    table.wait_for()
    rows = [row.split("\t") for row in table.inner_text().split("\n") if "\t" in row]
    assert [row[:2] for row in rows[1:]] == [
        ["acme-00.score-value version 2, id 100007", "3"],
        ["acme-00.score-value version 1, id 100001", "1,204"],
        ["77 (value)", "5"],
        ["all others (value)", "9"],
    ]


def test_a_senders_key_is_told_where_it_belongs(visit, still):
    page = visit(still).page
    page.goto(f"{still}/#key=hr_sender")
    page.get_by_text("A sender's key opens the ingest gateway").wait_for()


# -- the table -----------------------------------------------------------------------------------


#: in JavaScript: whether every tenant shown has this in its name
ALL_NAMED = (
    "part => [...document.querySelectorAll('[data-table] tbody a')]"
    ".every(each => each.textContent.includes(part))"
)
#: the same: what the column of rates in shows
INS = "[...document.querySelectorAll('tr[data-place] td:nth-child(6)')].map(each => each.innerText)"


def column(page, title):
    """What a column shows, row by row."""
    names = page.locator("[data-table] th").all_inner_texts()
    place = names.index(title) + 1
    return page.locator(
        f"[data-table] tbody tr[data-place] td:nth-child({place})"
    ).all_inner_texts()


def test_every_column_sorts_both_ways(visit, still):
    somebody = visit(still)
    somebody.enter("hr_operator")
    page = somebody.page
    page.locator("[data-table] tbody a").first.wait_for()
    for title in (
        "tenant",
        "state",
        "lag",
        "in",
        "out",
        "p50",
        "p95",
        "p99",
        "task share",
        "behind",
    ):
        header = page.get_by_role("columnheader", name=title, exact=True)
        header.get_by_role("button").click()
        somebody.drawn()
        before = header.get_attribute("aria-sort")
        shown = column(page, "tenant")[0]
        header.get_by_role("button").click()
        somebody.drawn()
        assert {before, header.get_attribute("aria-sort")} == {"ascending", "descending"}
        assert column(page, "tenant")[0] != shown, title


def test_search_and_state_narrow_the_table_together(visit, still):
    somebody = visit(still)
    somebody.enter("hr_operator")
    page = somebody.page
    page.get_by_role("button", name=re.compile("^throttled")).click()
    names = page.locator("[data-table] tbody a")
    somebody.until("document.querySelectorAll('[data-table] tbody a').length < 20")
    assert names.count() == 11
    page.get_by_role("searchbox", name="Search tenants").fill("delta")
    somebody.until(ALL_NAMED, "delta")
    page.get_by_role("searchbox", name="Search tenants").fill("no such")
    page.get_by_role("button", name="Show all").click()
    assert page.get_by_role("table").get_attribute("aria-rowcount") == "1001"


def test_the_keyboard_reaches_everything(visit, still):
    somebody = visit(still)
    somebody.enter("hr_operator")
    page = somebody.page
    page.locator("[data-table] tbody a").first.wait_for()
    focused = "document.activeElement.textContent.trim()"
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("Tab")
    somebody.until(f"x => {focused} === x", "Skip to content")
    page.keyboard.press("Enter")
    somebody.until(f"x => {focused} === x", "Tenants")
    page.keyboard.press("/")
    somebody.until("document.activeElement.matches('[data-search]')")
    page.keyboard.type("fjord-6")
    somebody.until("document.querySelector('[data-search]').value === 'fjord-6'")
    somebody.until(ALL_NAMED, "fjord-6")
    for key in ("Escape", "Escape", "j", "j", "ArrowDown", "k"):
        page.keyboard.press(key)
        somebody.drawn()
    somebody.until(f"x => {focused} === x", column(page, "tenant")[1])
    page.keyboard.press("End")
    somebody.until("document.activeElement.closest('tr')?.dataset.place === '999'")
    last = page.evaluate(focused)
    page.keyboard.press("Enter")
    page.get_by_role("heading", name=last).wait_for()
    somebody.until(f"x => {focused} === x", last)
    page.keyboard.press("?")
    page.get_by_role("dialog", name="Keyboard shortcuts").wait_for()
    page.keyboard.press("Escape")
    somebody.until("!document.querySelector('dialog')")
    page.keyboard.press("g")
    page.keyboard.press("w")
    page.get_by_role("heading", name="Waves", exact=True).wait_for()
    assert somebody.troubles == []


def test_the_timeline_is_walked_by_arrows_and_told_in_words(visit, still):
    somebody = visit(still)
    somebody.enter("hr_operator", "waves")
    timeline = somebody.page.locator("[data-timeline]")
    timeline.focus()
    said = timeline.get_by_role("status")
    heard = set()
    for key in ("ArrowLeft", "ArrowLeft", "ArrowUp", "ArrowLeft", "ArrowDown", "ArrowRight"):
        somebody.page.keyboard.press(key)
        somebody.drawn()
        heard.add(said.inner_text())
    assert len(heard) >= 4
    assert all(
        re.match(r"(running|done|yielded|failed): \w+, .* of driver-\d", label) for label in heard
    )


# -- live ----------------------------------------------------------------------------------------


def test_figures_change_by_themselves_and_a_suspended_tenant_says_so(visit, moving):
    world, address = moving
    somebody = visit(address)
    somebody.enter("hr_operator")
    page = somebody.page
    page.locator("[data-table] tbody a").first.wait_for()
    before = column(page, "in")
    somebody.until(f"before => {INS}.some((each, place) => each !== before[place])", before)
    world.set_state("cedar-00", "suspended")
    row = page.get_by_role("row", name=re.compile("^cedar-00"))
    row.get_by_text("suspended").wait_for()
    assert somebody.troubles == []


def test_the_order_is_held_while_somebody_points(visit, moving):
    _, address = moving
    somebody = visit(address)
    somebody.enter("hr_operator")
    page = somebody.page
    page.get_by_role("columnheader", name="in", exact=True).get_by_role("button").click()
    page.locator("[data-table] tbody a").nth(3).hover()
    names, figures = column(page, "tenant"), column(page, "in")
    some = f"before => {INS}.filter((each, place) => each !== before[place]).length > 12"
    somebody.until(some, figures)
    assert column(page, "tenant") == names
    page.mouse.move(5, 5)
    somebody.until("!document.querySelector('.held')")


def test_a_lost_connection_is_shown_and_comes_back(visit):
    world = World(tenants=5)
    with served(fake(world, turn_s=0.5)) as address:
        somebody = visit(address)
        somebody.enter("hr_operator")
        page = somebody.page
        page.locator(".live.is-live").wait_for()
    page.get_by_text("reconnecting").wait_for()
    assert page.locator("[data-table] tbody tr[data-place]").count() == 5
    with served(fake(world, turn_s=0.5), port=int(address.rsplit(":", 1)[1])):
        page.locator(".live.is-live").wait_for(timeout=60000)


def test_a_thousand_rows_that_change_are_drawn_by_those_in_sight_and_make_no_elements(visit):
    """How long that takes is asked in benchmarks/console.py."""
    with served(fake(World(), turn_s=0.5, part=1.0)) as address:
        somebody = visit(address)
        somebody.enter("hr_operator")
        page = somebody.page
        page.locator("[data-table] tbody a").first.wait_for()
        page.evaluate("""async () => {
            const { listen } = await import('/pages/live.js');
            window.updates = window.changed = window.made = 0;
            listen(['tenants'], () => { window.updates += 1; });
            new MutationObserver((changes) => changes.forEach((each) => {
                window.changed += each.type === "characterData";
                window.made += [...each.addedNodes].filter((node) => node.tagName === "TR").length;
            })).observe(document.querySelector("[data-table] tbody"),
                { subtree: true, childList: true, characterData: true });
        }""")
        somebody.until("window.updates >= 8 && window.changed > 100")
        assert page.evaluate("window.made") == 0
        table = page.locator("[data-table] table")
        assert table.get_attribute("aria-rowcount") == "1001"
        assert table.locator("tbody tr[data-place]").count() < 60
