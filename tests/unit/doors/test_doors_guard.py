"""Who is let in, for how long, and that a refusal tells nothing."""

from dataclasses import replace
from typing import Annotated

import pytest
from asking import Asking
from fastapi import Depends, FastAPI
from structlog.testing import capture_logs

from headrace.doors.attempts import Attempts
from headrace.doors.guard import SESSION_COOKIE, SESSION_S, Guard, allowed, own
from headrace.doors.key_ring import REMEMBERED_S, USABLE_S
from headrace.doors.problems import Problem, install_problems
from headrace.errors import StoreUnavailable, StoreUnusable
from headrace.model.credentials import Caller, Role
from headrace.model.streams import State

SECRET = b"a secret of thirty-two characters"


def bearer(text):
    return f"Bearer {text}"


def refusal(guard, *shown, **more):
    with pytest.raises(Problem) as caught:
        guard.caller(*shown, **more)
    return caught.value


def altered(text):
    return text[:-2] + ("AA" if text[-2:] != "AA" else "BB")


def test_a_key_says_who_calls(guard, give):
    text, key = give(Role.SENDER, "acme")
    assert guard.caller(bearer(text)) == Caller(f"key:{key.prefix}", Role.SENDER, "acme")
    assert guard.caller(f"bearer  {text} ") == guard.caller(bearer(text))


def test_all_wrong_credentials_are_refused_with_the_same_words(guard, give, store, clock):
    text, _ = give()
    revoked, key = give()
    store.keys.revoke(key.prefix, clock())
    expired, _ = give(lives_s=1.0)
    clock.now_s += 1.0
    wrong = [altered(text), revoked, expired, text.replace(text[3:11], "unknown0"), "", "x", "é"]
    answers = {
        (problem.status_code, problem.detail)
        for w in wrong
        for problem in [refusal(guard, bearer(w))]
    }
    answers |= {
        (problem.status_code, problem.detail) for problem in [refusal(guard, f"Basic {text}")]
    }
    assert answers == {(401, "this credential is not known, or does not work any more")}
    assert refusal(guard, None).headers == {"WWW-Authenticate": "Bearer"}


def test_a_wrong_key_costs_one_look_into_the_store_whether_its_prefix_exists_or_not(
    guard, give, keys
):
    text, _ = give()
    guard.caller(bearer(text))
    keys.looked_up.clear()
    refusal(guard, bearer(altered(text)))
    refusal(guard, bearer("hr_unknown0_" + "a" * 43))
    assert keys.looked_up == [text[3:11], "unknown0"]


def test_a_key_is_remembered_for_a_moment_and_then_looked_up_again(guard, give, keys, store, clock):
    text, key = give()
    guard.caller(bearer(text))
    store.keys.revoke(key.prefix, clock())
    clock.now_s += REMEMBERED_S - 0.1
    assert guard.known(bearer(text)) is not None
    clock.now_s += 0.1
    assert guard.known(bearer(text)) is None
    assert refusal(guard, bearer(text)).status_code == 401
    assert guard.known(bearer(text)) is None
    assert keys.looked_up == [key.prefix] * 2


def test_what_is_remembered_ends_when_the_key_expires(guard, give, clock):
    text, _ = give(lives_s=2.0)
    guard.caller(bearer(text))
    assert guard.known(bearer(text)) is not None
    clock.now_s += 2.0
    assert guard.known(bearer(text)) is None


def test_a_clock_that_is_set_back_does_not_revive_a_revoked_key(guard, give, store, clock):
    text, key = give()
    guard.caller(bearer(text))
    store.keys.revoke(key.prefix, clock())
    clock.set_back(3600.0)
    clock.now_s += REMEMBERED_S
    assert guard.known(bearer(text)) is None
    assert refusal(guard, bearer(text)).status_code == 401


def test_a_clock_that_is_set_back_does_not_lengthen_what_is_remembered(guard, give, keys, clock):
    text, _ = give(lives_s=2.0)
    forever, _ = give()
    for token in (text, forever):
        guard.caller(bearer(token))
    clock.set_back(3600.0)
    clock.now_s += 2.0
    assert guard.known(bearer(text)) is None, "its time is over"
    assert guard.known(bearer(forever)) is not None
    keys.down = True
    clock.now_s += USABLE_S - 2.0
    with pytest.raises(StoreUnavailable):
        guard.caller(bearer(forever))


def test_a_key_made_under_another_secret_does_not_work(give, store, clock):
    text, _ = give()
    assert refusal(Guard(store.keys, b"another" * 6, clock=clock), bearer(text)).status_code == 401


def test_a_key_of_a_removed_tenant_opens_nothing_of_the_next_of_its_name(guard, give, store, clock):
    text, _ = give(Role.TENANT, "acme")
    guard.caller(bearer(text))
    store.registry.set_tenant_state("acme", State.REMOVED)
    store.registry.add_tenant(replace(store.registry.tenants()[0], state=State.ACTIVE))
    clock.now_s += REMEMBERED_S
    assert refusal(guard, bearer(text)).status_code == 401


@pytest.mark.parametrize("trouble", [StoreUnavailable, StoreUnusable])
def test_while_the_store_does_not_answer_a_key_that_was_right_stays_good_for_a_while(
    guard, give, keys, clock, trouble
):
    keys.trouble = trouble
    text, _ = give()
    caller = guard.caller(bearer(text))
    keys.down = True
    clock.now_s += USABLE_S - 1
    assert guard.caller(bearer(text)) == caller
    with pytest.raises(trouble):
        guard.caller(bearer(give()[0]))
    clock.now_s += 1
    with pytest.raises(trouble):
        guard.caller(bearer(text))
    keys.down = False
    assert guard.caller(bearer(text)) == caller


def test_an_outage_of_the_store_is_told_once_and_so_is_its_end(guard, give, keys, clock):
    texts = [give()[0] for _ in range(2)]
    for text in texts:
        guard.caller(bearer(text))
    with capture_logs() as logs:
        for down in (True, False):
            keys.down = down
            for text in texts * 2:
                clock.now_s += REMEMBERED_S
                guard.caller(bearer(text))
    assert [line["event"] for line in logs] == [
        "keys are believed without the store",
        "keys are looked up in the store again",
    ]


def test_while_the_store_does_not_answer_a_key_still_expires(guard, give, keys, clock):
    text, _ = give(lives_s=20.0)
    guard.caller(bearer(text))
    keys.down = True
    clock.now_s += 20.0
    with pytest.raises(StoreUnavailable):
        guard.caller(bearer(text))


def test_of_many_that_show_a_key_one_looks_it_up_and_the_others_go_on(give, keys, guard, clock):
    text, _ = give()
    caller = guard.caller(bearer(text))
    clock.now_s += REMEMBERED_S
    others = []
    keys.meanwhile = lambda: others.append(guard.caller(bearer(text)))
    assert guard.caller(bearer(text)) == caller
    assert others == [caller]
    assert len(keys.looked_up) == 2


# brute force


def test_an_address_that_guesses_has_to_wait_and_others_have_not(keys, give, clock):
    guard = Guard(keys, SECRET, clock=clock, steady=clock.steady, attempts=Attempts(per_minute=3))
    text, _ = give()
    for number in range(3):
        wrong = f"hr_guess{number:03}_" + "a" * 43
        assert refusal(guard, bearer(wrong), address="9.9.9.9").status_code == 401
    keys.looked_up.clear()
    waits = refusal(guard, bearer(wrong), address="9.9.9.9")
    assert waits.status_code == 429
    assert 1 <= int(waits.headers["Retry-After"]) <= 60
    assert keys.looked_up == [], "who has to wait costs the store nothing"
    assert guard.caller(bearer(text), address="8.8.8.8").role is Role.OPERATOR


def test_nobody_can_lock_a_key_out_by_guessing_its_prefix(keys, give, clock):
    guard = Guard(
        keys, SECRET, clock=clock, steady=clock.steady, attempts=Attempts(of_one_key_per_minute=2)
    )
    text, _ = give()
    for _ in range(2):
        refusal(guard, bearer(altered(text)), address="9.9.9.9")
    assert refusal(guard, bearer(altered(text)), address="9.9.9.9").status_code == 429
    assert guard.caller(bearer(text), address="8.8.8.8").role is Role.OPERATOR


def test_a_neighbour_who_guesses_does_not_lock_out_who_was_let_in(keys, give, clock):
    guard = Guard(keys, SECRET, clock=clock, steady=clock.steady, attempts=Attempts(per_minute=2))
    text, _ = give()
    guard.caller(bearer(text), address="9.9.9.9")
    for _ in range(2):
        refusal(guard, bearer(altered(text)), address="9.9.9.9")
    clock.now_s += 100 * REMEMBERED_S
    assert guard.caller(bearer(text), address="9.9.9.9").role is Role.OPERATOR


def test_who_still_uses_a_key_that_has_ended_waits_with_it_and_not_with_the_next(
    keys, give, store, clock
):
    attempts = Attempts(per_minute=3, of_one_key_per_minute=2)
    guard = Guard(keys, SECRET, clock=clock, steady=clock.steady, attempts=attempts)
    old, key = give()
    store.keys.revoke(key.prefix, clock())
    statuses = [refusal(guard, bearer(old), address="9.9.9.9").status_code for _ in range(5)]
    assert statuses == [401, 401, 429, 429, 429]
    assert guard.caller(bearer(give()[0]), address="9.9.9.9").role is Role.OPERATOR


def test_no_credential_at_all_is_no_guess(guard):
    for _ in range(100):
        assert refusal(guard, None, address="9.9.9.9").status_code == 401


# sessions


def test_a_session_stands_for_its_key_until_it_ends(guard, give, clock):
    text, key = give(Role.VIEWER)
    caller, cookie = guard.session(text)
    assert caller == Caller(f"key:{key.prefix}", Role.VIEWER)
    assert guard.caller(None, cookie) == caller
    assert text not in cookie
    clock.now_s += SESSION_S - 1
    assert guard.caller(None, cookie) == caller
    clock.now_s += 1
    assert guard.known(None, cookie) is None
    assert refusal(guard, None, cookie).status_code == 401


def test_a_session_ends_with_its_key(guard, give, store, clock):
    text, key = give()
    _, cookie = guard.session(text)
    store.keys.revoke(key.prefix, clock())
    clock.now_s += REMEMBERED_S
    assert refusal(guard, None, cookie).status_code == 401


def test_a_session_cannot_be_made_up_or_made_longer(guard, give):
    text, key = give()
    _, cookie = guard.session(text)
    prefix, ends, signature = cookie.split(".")
    other, _ = give()
    for wrong in (
        f"{prefix}.{int(ends) + 1}.{signature}",
        f"{other[3:11]}.{ends}.{signature}",
        f"{prefix}.{ends}.{signature[:-1]}",
        f"{prefix}.{ends}.",
        f"{prefix}.{ends}.é",
        f"{prefix}.²³.{signature}",
        f"{prefix}.{'9' * 5000}.{signature}",
        f"\x00.{ends}.{signature}",
        "",
        text,
    ):
        assert refusal(guard, None, wrong).status_code == 401
    with pytest.raises(Problem):
        guard.session(altered(text))
    assert key.works(0.0)


def test_the_header_counts_more_than_the_cookie(guard, give):
    _, cookie = guard.session(give()[0])
    assert refusal(guard, "Bearer wrong", cookie).status_code == 401


# as dependencies


@pytest.fixture
def client(guard):
    app = FastAPI()
    app.state.guard = guard
    install_problems(app)
    viewers = Annotated[Caller, Depends(allowed(Role.VIEWER, Role.OPERATOR))]
    anybody = Annotated[Caller, Depends(allowed(*Role))]

    @app.get("/all")
    def see(caller: viewers) -> str:
        return caller.name

    @app.api_route("/{tenant}", methods=["GET", "POST"])
    def of_tenant(caller: anybody, tenant: str) -> str:
        own(caller, tenant)
        return caller.name

    return Asking(app)


def test_a_role_that_may_not_is_told_so(client, give):
    text, key = give(Role.VIEWER)
    answer = client.get("/all", headers={"Authorization": bearer(text)})
    assert answer.json() == f"key:{key.prefix}"
    text, _ = give(Role.SENDER, "acme")
    answer = client.get("/all", headers={"Authorization": bearer(text)})
    assert (answer.status_code, answer.json()["type"]) == (403, "urn:headrace:problem:forbidden")
    assert answer.json()["detail"] == "role sender may not do this; role operator or viewer may"
    assert client.get("/all").status_code == 401


def test_a_request_with_two_credentials_is_refused_whichever_is_right(client, give):
    right = ("Authorization", bearer(give(Role.VIEWER)[0]))
    for other in (right, ("authorization", "Bearer wrong"), ("Authorization", "Basic eDp5")):
        for shown in ([right, other], [other, right]):
            answer = client.get("/all", headers=shown)
            assert answer.status_code == 400
            assert "more than one Authorization header" in answer.json()["detail"]
    assert client.get("/all", headers=[right]).status_code == 200


def test_a_foreign_tenant_is_as_one_that_is_not_there(client, give):
    for role in (Role.TENANT, Role.SENDER):
        shown = {"Authorization": bearer(give(role, "acme")[0])}
        assert client.get("/acme", headers=shown).status_code == 200
        foreign = client.get("/bolt", headers=shown)
        unknown = client.get("/nobody", headers=shown)
        assert foreign.status_code == 404
        assert foreign.text.replace("bolt", "nobody") == unknown.text
        assert foreign.json()["detail"].endswith("role operator or viewer sees all")
    for role in (Role.VIEWER, Role.OPERATOR):
        shown = {"Authorization": bearer(give(role)[0])}
        assert client.get("/bolt", headers=shown).status_code == 200


def test_a_change_by_cookie_has_to_come_from_our_own_page(client, guard, give):
    _, cookie = guard.session(give()[0])
    client.cookies = {SESSION_COOKIE: cookie}
    assert client.get("/acme").status_code == 200
    forged = client.post("/acme")
    assert (forged.status_code, forged.json()["type"]) == (403, "urn:headrace:problem:forged")
    assert client.post("/acme", headers={"X-Headrace": "1"}).status_code == 200
    client.cookies = {}
    shown = {"Authorization": bearer(give()[0])}
    assert client.post("/acme", headers=shown).status_code == 200
