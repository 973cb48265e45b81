"""What each dialog of the pages says before it does something, and after, over a made-up world."""

import re

import pytest

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def asked(page, button):
    """Press a button; returns its dialog."""
    page.get_by_role("button", name=button, exact=True).first.click()
    dialog = page.get_by_role("dialog")
    dialog.wait_for()
    return dialog


def test_retry_says_where_the_lane_goes_on(visit, moving):
    world, address = moving
    somebody = visit(address)
    somebody.enter("hr_operator", "tenants/acme-00")
    dialog = asked(somebody.page, "Retry…")
    said = dialog.inner_text()
    assert "acme-00/score" in said
    assert "partition 1 of acme-00.score, goes on at offset 307,001" in said
    dialog.get_by_role("button", name="Retry").click()
    dialog.get_by_text("Failure 7 is closed").wait_for()
    somebody.page.keyboard.press("Escape")
    somebody.until("!document.querySelector('.failure')")
    assert world.failures[7]["state"] == "retried"
    assert somebody.troubles == []


def test_skip_says_what_is_passed_over_and_where_it_is_kept(visit, moving):
    world, address = moving
    somebody = visit(address)
    somebody.enter("hr_operator", "tenants/acme-00")
    dialog = asked(somebody.page, "Skip…")
    said = dialog.inner_text()
    assert "passes over offset 307,001" in said
    assert "The next one read is 307,002" in said
    assert "acme-00.score.dlq" in said
    dialog.get_by_role("button", name="Skip").click()
    dialog.get_by_text("The lane goes on at offset").wait_for()
    assert world.failures[7]["state"] == "skipped"


def test_a_slice_without_a_named_record_is_skipped_only_on_purpose(visit, still):
    somebody = visit(still)
    somebody.enter("hr_operator", "tenants/bolt-20")
    dialog = asked(somebody.page, "Skip…")
    assert "kept nowhere but in Kafka" in dialog.inner_text()
    button = dialog.get_by_role("button", name="Skip")
    assert button.is_disabled()
    dialog.get_by_role("checkbox", name="Pass over the whole slice").check()
    somebody.drawn()
    assert button.is_enabled()


def test_a_refusal_is_shown_with_what_to_do(visit, moving):
    world, address = moving
    somebody = visit(address)
    somebody.enter("hr_operator", "tenants/acme-00")
    dialog = asked(somebody.page, "Retry…")
    world.failures[7]["state"] = "skipped"
    dialog.get_by_role("button", name="Retry").click()
    alert = dialog.get_by_role("alert")
    alert.wait_for()
    assert "failure 7 is not open any more" in alert.inner_text()
    assert "Mend what it says" in alert.inner_text()


def said_in(dialog):
    return " ".join(dialog.inner_text().split())


def test_redrive_counts_before_it_sends(visit, moving):
    _, address = moving
    somebody = visit(address)
    somebody.enter("hr_operator", "tenants/acme-00")
    dialog = asked(somebody.page, "Redrive…")
    dialog.get_by_role("button", name="Send 12 back").wait_for()
    assert "acme-00.clicks.dlq, acme-00.visits.dlq" in dialog.inner_text()
    dialog.get_by_label("The most to send").fill("5")
    dialog.get_by_role("button", name="Send 5 back").click()
    dialog.get_by_text("5 dead letters").wait_for()
    assert "sent back to acme-00.clicks, acme-00.visits; 7 left for the next" in said_in(dialog)


def test_seek_says_of_each_lane_what_moving_it_does(visit, moving):
    world, address = moving
    somebody = visit(address)
    somebody.enter("hr_operator", "tenants/acme-00")
    dialog = asked(somebody.page, "Seek…")
    assert dialog.get_by_role("button", name="Move 0 lanes").is_disabled()
    dialog.get_by_label("Move partition 0 to").fill("299000")
    dialog.get_by_text("what is between is read again").wait_for()
    dialog.get_by_text("effects of up to 1,000 records of acme-00/").wait_for()
    said = dialog.inner_text()
    assert "every effect is made again, under any guarantee" in said
    assert "not exactly-once" not in said
    assert world.sought == [], "to count moves nothing"
    dialog.get_by_role("button", name="Move 1 lane").click()
    dialog.get_by_text("1 lane moved").wait_for()
    ((lane, at),) = world.sought[0].items()
    assert (lane.startswith("acme-00."), lane[-3:], at) == (True, "[0]", "299000")


def test_a_whole_stream_is_sought_in_the_words_of_the_command(visit, moving):
    world, address = moving
    somebody = visit(address)
    somebody.enter("hr_operator", "tenants/acme-00")
    dialog = asked(somebody.page, "Seek…")
    dialog.get_by_label("Move partition 0 to").fill("299000")
    dialog.get_by_label("Or the whole stream to", exact=False).fill('{"acme.clicks": null}')
    assert dialog.get_by_label("Move partition 0 to").is_disabled()
    dialog.get_by_text("effects of up to 1,000 records of acme-00/").wait_for()
    dialog.get_by_role("button", name="Move the stream").click()
    dialog.get_by_text("2 lanes moved").wait_for()
    assert world.sought == ['{"acme.clicks": null}']


def test_suspending_asks_first_and_gives_the_focus_back(visit, moving):
    world, address = moving
    somebody = visit(address)
    somebody.enter("hr_operator", "tenants/bolt-00")
    page = somebody.page
    dialog = asked(page, "Suspend tenant")
    page.keyboard.press("Escape")
    somebody.until("!document.querySelector('dialog')")
    assert world.tenants["bolt-00"]["state"] == "active"
    somebody.until("document.activeElement.textContent.trim() === 'Suspend tenant'")
    page.keyboard.press("Enter")
    dialog.get_by_role("button", name="Suspend").click()
    page.get_by_role("button", name="Resume tenant").click()
    page.get_by_role("dialog").get_by_role("button", name="Resume").click()
    page.get_by_role("button", name="Suspend tenant").wait_for()
    assert world.tenants["bolt-00"]["state"] == "active"


def test_a_tenant_is_told_that_it_may_not_resume_what_an_operator_suspended(visit, moving):
    world, address = moving
    world.set_state("acme-00", "suspended")
    somebody = visit(address)
    somebody.enter("hr_tenant", "tenants/acme-00")
    dialog = asked(somebody.page, "Resume tenant")
    assert "only an operator resumes it" in dialog.inner_text()
    assert dialog.get_by_role("button", name="Resume").is_disabled()
    assert somebody.troubles == []


def test_limits_are_kept_as_entered(visit, moving):
    world, address = moving
    somebody = visit(address)
    somebody.enter("hr_operator", "tenants/bolt-00")
    dialog = asked(somebody.page, "Limits…")
    dialog.get_by_label("Records a second, at most").fill("50")
    # The page behind is drawn anew while somebody types; what was typed stays.
    world.set_state("bolt-00", "suspended")
    somebody.page.locator("button", has_text="Resume tenant").wait_for(state="attached")
    dialog.get_by_role("button", name="Save").click()
    somebody.page.get_by_text("at most 50 records/s").wait_for()
    assert world.tenants["bolt-00"]["throttle"]["bytes_per_s"] is None


def test_a_record_is_shown_as_it_came_and_never_as_markup(visit, still):
    somebody = visit(still)
    somebody.enter("hr_operator", "tenants/acme-00")
    page = somebody.page
    page.get_by_role("button", name="Show record and stack").click()
    value = page.locator("pre[aria-label=value]")
    assert "<b>two</b>" in value.inner_text()
    page.get_by_role("group", name="Show value as").get_by_text("hex").click()
    somebody.drawn()
    assert value.inner_text().startswith("000000  7b 22 65")
    assert "f0 f1 f2" in page.locator("pre[aria-label='header trace']").inner_text()
    assert "InvalidOperation" in page.locator("pre[aria-label=stack]").inner_text()


def test_a_new_key_is_shown_once(visit, moving):
    _, address = moving
    somebody = visit(address)
    somebody.enter("hr_operator", "keys")
    page = somebody.page
    dialog = asked(page, "New key…")
    dialog.get_by_role("textbox", name="Tenant").fill("acme-00")
    dialog.get_by_label("Label").fill("new till")
    dialog.get_by_role("button", name="Create").click()
    shown = page.get_by_role("dialog", name="The new key").get_by_label("Key", exact=True)
    key = shown.input_value()
    assert key.startswith("hr_")
    page.get_by_role("button", name="I have it").click()
    page.get_by_role("cell", name="new till", exact=True).wait_for()
    assert key not in page.content()
    page.get_by_role("row", name=re.compile("new till")).get_by_role(
        "button", name=re.compile("^Revoke")
    ).click()
    page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
    page.get_by_role("row", name=re.compile("new till")).get_by_text("revoked").wait_for()
    assert somebody.troubles == []
