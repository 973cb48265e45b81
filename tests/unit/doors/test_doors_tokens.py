"""Which tokens are believed, and what an issuer that does not answer means."""

import base64
import hashlib
import hmac
import json
import time
import warnings

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from structlog.testing import capture_logs

from headrace.doors.guard import Guard
from headrace.doors.key_ring import REMEMBERED_S, USABLE_S
from headrace.doors.problems import Problem
from headrace.doors.signers import Signers
from headrace.doors.tokens import TokenRules, Tokens
from headrace.errors import ConfigError, StoreUnavailable
from headrace.model.credentials import Caller, Role
from headrace.model.everyone import EVERYONE
from headrace.model.records import Deployment
from headrace.model.streams import State, Tenant

ISSUER, AUDIENCE = "https://issuer.example", "headrace"
EC_KEY = ec.generate_private_key(ec.SECP256R1())
OTHER_KEY = ec.generate_private_key(ec.SECP256R1())


@pytest.fixture(scope="module")
def rsa_key():
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def jwk_of(key, kid, **more):
    kinds = {ec.EllipticCurvePrivateKey: jwt.algorithms.ECAlgorithm}
    kind = next(
        (algorithm for base, algorithm in kinds.items() if isinstance(key, base)),
        jwt.algorithms.RSAAlgorithm,
    )
    return {**json.loads(kind.to_jwk(key.public_key())), "kid": kid, **more}


def publish(path, *keys):
    path.write_text(json.dumps({"keys": keys}))
    return path


@pytest.fixture
def published(tmp_path):
    return publish(tmp_path / "jwks.json", jwk_of(EC_KEY, "k1"))


@pytest.fixture
def tokens(published):
    return Tokens(TokenRules(ISSUER, AUDIENCE, published))


def claims(**more):
    given = {
        "iss": ISSUER,
        "aud": AUDIENCE,
        "sub": "ada",
        "exp": time.time() + 300,
        "role": "sender",
        "tenant": "acme",
        **more,
    }
    return {name: value for name, value in given.items() if value is not None}


def token(key=EC_KEY, algorithm="ES256", kid="k1", **more):
    return jwt.encode(claims(**more), key, algorithm, headers={"kid": kid} if kid else {})


def refused(tokens, text):
    try:
        return tokens.caller(text) is None
    except Problem as problem:
        return problem.status_code == 401


def test_a_token_says_who_calls(tokens):
    assert tokens.caller(token()) == Caller("jwt:ada", Role.SENDER, "acme")
    assert tokens.caller(token(role="viewer")) == Caller("jwt:ada", Role.VIEWER)
    assert tokens.caller(token(aud=["other", AUDIENCE])) is not None


@pytest.mark.parametrize(
    "wrong",
    [
        {"iss": "https://evil.example"},
        {"iss": ISSUER + "/"},
        {"aud": "other"},
        {"nbf": time.time() + 3600},
        {"iat": time.time() + 3600},
        {"iss": None},
        {"aud": None},
        {"exp": None},
        {"sub": None},
        {"sub": 7},
        {"key": OTHER_KEY},
        {"kid": "k2"},
        {"exp": 10**400},
        {"iat": -(10**400)},
    ],
    ids=[
        "issuer",
        "issuer/",
        "audience",
        "not yet",
        "issued later",
        "no issuer",
        "no audience",
        "no end",
        "no subject",
        "subject a number",
        "key",
        "name of key",
        "end beyond reckoning",
        "beginning beyond reckoning",
    ],
)
def test_a_token_with_something_wrong_is_refused(tokens, wrong):
    assert refused(tokens, token(**wrong))


def test_a_token_of_role_schemas_is_for_one_tenant_and_never_for_all(tokens):
    caller = Caller("jwt:ada", Role.SCHEMAS, "acme")
    assert tokens.caller(token(role="schemas", tenant="acme")) == caller
    with pytest.raises(Problem, match="names no tenant"):
        tokens.caller(token(role="schemas", tenant=None))


def test_a_token_that_has_expired_is_told_so_if_it_was_right(tokens):
    with pytest.raises(Problem, match="the token has expired") as caught:
        tokens.caller(token(exp=1.0))
    assert caught.value.status_code == 401
    assert refused(tokens, token(exp=1.0, key=OTHER_KEY))


def test_an_issuers_key_that_is_too_short_is_not_believed(tmp_path):
    short = rsa.generate_private_key(public_exponent=65537, key_size=1024)
    published = publish(tmp_path / "jwks.json", jwk_of(short, "r1"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        text = token(short, "RS256", "r1")
    assert refused(Tokens(TokenRules(ISSUER, AUDIENCE, published)), text)


def test_clocks_may_differ_a_little(published):
    text = token(exp=time.time() - 10)
    assert Tokens(TokenRules(ISSUER, AUDIENCE, published, leeway_s=30)).caller(text)
    with pytest.raises(Problem, match="expired"):
        Tokens(TokenRules(ISSUER, AUDIENCE, published, leeway_s=5)).caller(text)


def part(value):
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def test_no_algorithm_but_the_pinned_ones_is_tried(tokens, published):
    unsigned = f"{part({'alg': 'none', 'kid': 'k1'})}.{part(claims())}."
    assert refused(tokens, unsigned)
    # Signed with the public key as if it were a shared secret.
    public = EC_KEY.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    signed = f"{part({'alg': 'HS256', 'kid': 'k1'})}.{part(claims())}"
    mac = hmac.digest(public, signed.encode(), hashlib.sha256)
    assert refused(tokens, f"{signed}.{base64.urlsafe_b64encode(mac).rstrip(b'=').decode()}")
    only_rsa = Tokens(TokenRules(ISSUER, AUDIENCE, published, algorithms=("RS256",)))
    assert refused(only_rsa, token())


def test_an_algorithm_that_does_not_fit_the_key_is_refused(tmp_path, rsa_key):
    published = publish(
        tmp_path / "jwks.json",
        jwk_of(EC_KEY, "k1"),
        jwk_of(rsa_key, "r1"),
        {"kty": "oct", "kid": "o1", "k": "c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0"},
    )
    tokens = Tokens(TokenRules(ISSUER, AUDIENCE, published))
    assert tokens.caller(token(rsa_key, "RS256", "r1")) is not None
    assert refused(tokens, token(rsa_key, "RS256", "k1"))
    assert refused(tokens, token(EC_KEY, "ES256", "r1"))
    assert refused(tokens, token(EC_KEY, "ES256", "o1"))


@pytest.mark.parametrize("algorithms", [("HS256",), ("none",), ("ES256", "HS512"), ()])
def test_symmetric_algorithms_cannot_be_configured(algorithms, published):
    with pytest.raises(ConfigError, match="choose from"):
        TokenRules(ISSUER, AUDIENCE, published, algorithms=algorithms)


def test_keys_by_an_address_in_the_token_are_not_looked_for(tokens):
    text = jwt.encode(
        claims(),
        OTHER_KEY,
        "ES256",
        headers={"kid": "x", "jku": "https://evil.example/k", "jwk": jwk_of(OTHER_KEY, "x")},
    )
    assert refused(tokens, text)


def test_a_key_for_encryption_signs_nothing(tmp_path):
    published = publish(tmp_path / "jwks.json", jwk_of(EC_KEY, "k1", use="enc"))
    assert refused(Tokens(TokenRules(ISSUER, AUDIENCE, published)), token())


def test_keys_of_two_kinds_may_have_one_id(tmp_path, rsa_key):
    pair = [jwk_of(EC_KEY, "k1"), jwk_of(rsa_key, "k1")]
    for order in (pair, pair[::-1]):
        tokens = Tokens(TokenRules(ISSUER, AUDIENCE, publish(tmp_path / "jwks.json", *order)))
        assert tokens.caller(token()) is not None
        assert tokens.caller(token(rsa_key, "RS256")) is not None
        assert refused(tokens, token(OTHER_KEY))


def test_a_key_signs_by_no_algorithm_but_its_own(tmp_path, rsa_key):
    def believed(algorithm, **said):
        published = publish(tmp_path / "jwks.json", jwk_of(rsa_key, "k1", **said))
        rules = TokenRules(ISSUER, AUDIENCE, published, algorithms=("RS256", "RS512", "PS256"))
        return not refused(Tokens(rules), token(rsa_key, algorithm))

    assert [believed(name) for name in ("RS256", "RS512", "PS256")] == [True, True, True]
    assert [believed(name, alg="RS512") for name in ("RS256", "RS512")] == [False, True]
    assert [believed(name, alg="PS256") for name in ("RS256", "PS256")] == [False, True]


@pytest.mark.parametrize("said", [{"key_ops": ["encrypt"]}, {"key_ops": []}, {"kid": 7}])
def test_a_key_that_is_not_for_signatures_is_none_and_harms_no_other(tmp_path, said):
    published = publish(
        tmp_path / "jwks.json", jwk_of(EC_KEY, "k1"), {**jwk_of(OTHER_KEY, "k2"), **said}
    )
    tokens = Tokens(TokenRules(ISSUER, AUDIENCE, published))
    assert tokens.caller(token()) is not None
    assert refused(tokens, token(OTHER_KEY, kid="k2"))
    assert not refused(tokens, token(kid=None)), "it is the only one"


def test_a_key_may_say_that_it_is_for_signatures(tmp_path):
    published = publish(tmp_path / "1.json", jwk_of(EC_KEY, "k1", use="sig", key_ops=["verify"]))
    assert Tokens(TokenRules(ISSUER, AUDIENCE, published)).caller(token()) is not None


@pytest.mark.parametrize("subject", ["", "  "])
def test_who_has_no_name_is_nobody(tokens, subject):
    assert refused(tokens, token(sub=subject))


def test_without_a_key_id_the_issuer_has_to_have_one_key(tmp_path, tokens):
    assert tokens.caller(token(kid=None)) is not None
    several = publish(tmp_path / "2.json", jwk_of(EC_KEY, "k1"), jwk_of(OTHER_KEY, "k2"))
    assert refused(Tokens(TokenRules(ISSUER, AUDIENCE, several)), token(kid=None))


@pytest.mark.parametrize(
    "text", ["", "..", "a.b.c", "é.é.é", "x" * 20_000, part({"alg": []}) + ".e30.AA", "[" * 9000]
)
def test_what_is_no_token_is_refused(tokens, text):
    assert refused(tokens, text)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"role": "king"}, "one role"),
        ({"role": None}, "one role"),
        ({"role": ["viewer", "operator"]}, "one role"),
        ({"role": {"sender": 1}}, "one role"),
        ({"tenant": None}, "no tenant"),
        ({"tenant": "a/b"}, "no tenant"),
        ({"tenant": ["acme"]}, "no tenant"),
        ({"role": "tenant", "tenant": ""}, "no tenant"),
    ],
)
def test_a_believed_token_without_role_or_tenant_is_told_so(tokens, wrong, told):
    with pytest.raises(Problem, match=told) as caught:
        tokens.caller(token(**wrong))
    assert caught.value.status_code == 403


def test_claims_can_have_other_names_and_stand_deeper(published):
    rules = TokenRules(
        ISSUER,
        AUDIENCE,
        published,
        tenant_claim="https://acme.example/tenant",
        role_claim="/realm/roles",
    )
    text = token(
        realm={"roles": ["uma", "tenant"]}, **{"https://acme.example/tenant": "bolt", "role": "x"}
    )
    assert Tokens(rules).caller(text) == Caller("jwt:ada", Role.TENANT, "bolt")
    with pytest.raises(Problem):
        Tokens(rules).caller(token(realm="x"))


def test_a_checked_token_is_remembered_for_a_moment(published):
    now = [time.time()]
    tokens = Tokens(TokenRules(ISSUER, AUDIENCE, published), lambda: now[0])
    text = token(exp=now[0] + 3)
    assert tokens.known(text) is None
    caller = tokens.caller(text)
    assert tokens.known(text) == caller
    now[0] += 3
    assert tokens.known(text) is None, "it expires while it is remembered"


def test_a_clock_that_is_set_back_does_not_lengthen_what_is_remembered(published):
    now, steady = [time.time()], [0.0]
    rules = TokenRules(ISSUER, AUDIENCE, published)
    tokens = Tokens(rules, lambda: now[0], lambda: steady[0])
    text = token()
    tokens.caller(text)
    now[0] -= 3600
    assert tokens.known(text) is not None
    steady[0] += 5
    assert tokens.known(text) is None


class Issuer:
    """A file of keys, and time that is moved by hand."""

    def __init__(self, path):
        self.path, self.now_s = path, 1000.0
        self.signers = Signers(path, lambda: self.now_s)


@pytest.fixture
def issuer(published):
    return Issuer(published)


def test_a_new_key_of_the_issuer_is_found_but_not_by_asking_each_time(issuer):
    assert issuer.signers.find("k1", "ES256")
    publish(issuer.path, jwk_of(EC_KEY, "k2"))
    assert issuer.signers.find("k2", "ES256") is None, "made-up ids do not hammer the issuer"
    issuer.now_s += 30
    assert issuer.signers.find("k2", "ES256")
    assert issuer.signers.find("k1", "ES256") is None, "a key that was taken back is not believed"


def test_keys_are_asked_for_again_after_a_while(issuer):
    assert issuer.signers.find("k1", "ES256")
    publish(issuer.path, jwk_of(EC_KEY, "k2"))
    issuer.now_s += 299
    assert issuer.signers.find("k1", "ES256")
    issuer.now_s += 1
    assert issuer.signers.find("k1", "ES256") is None


def test_an_issuer_that_does_not_answer_leaves_its_last_keys_for_a_day(issuer):
    assert issuer.signers.find("k1", "ES256")
    issuer.path.unlink()
    with capture_logs() as logs:
        for _ in range(100):
            issuer.now_s += 800
            assert issuer.signers.find("k1", "ES256")
    assert logs[0]["log_level"] == "warning"
    issuer.now_s += 24 * 3600
    with pytest.raises(Problem) as caught:
        issuer.signers.find("k1", "ES256")
    assert caught.value.status_code == 503


@pytest.mark.parametrize("text", ["", "{}", '{"keys": 1}', "[]", "[" * 99_999])
def test_what_is_no_set_of_keys_is_none(issuer, text):
    issuer.path.write_text(text)
    with pytest.raises(Problem) as caught:
        issuer.signers.find("k1", "ES256")
    assert caught.value.status_code == 503
    assert caught.value.headers["Retry-After"] == "30"


@pytest.mark.parametrize("text", ['{"keys": []}', '{"keys": [1, {"kty": "?"}, {}]}'])
def test_an_issuer_that_took_its_only_key_back_is_believed(issuer, text):
    assert issuer.signers.find("k1", "ES256")
    issuer.path.write_text(text)
    issuer.now_s += 300
    with capture_logs() as logs:
        assert issuer.signers.find("k1", "ES256") is None
    assert "no key that can be read" in logs[0]["event"]


def test_an_unknown_key_of_an_issuer_that_does_not_answer_is_asked_for_later(issuer):
    assert issuer.signers.find("k1", "ES256")
    issuer.now_s += 30
    issuer.path.unlink()
    with pytest.raises(Problem) as caught:
        issuer.signers.find("k2", "ES256")
    assert caught.value.status_code == 503
    assert issuer.signers.find("k1", "ES256"), "the last ones stay"


def test_right_tokens_of_a_key_that_is_not_known_yet_lock_nobody_out(keys, clock, published):
    rules = TokenRules(ISSUER, AUDIENCE, published)
    guard = Guard(keys, b"a secret of thirty-two characters", tokens=rules, steady=clock.steady)
    assert guard.caller(f"Bearer {token()}", address="9.9.9.9")
    publish(published, jwk_of(EC_KEY, "k2"))
    for number in range(60):
        early = f"Bearer {token(kid='k2', sub=str(number))}"
        with pytest.raises(Problem) as caught:
            guard.caller(early, address="9.9.9.9")
        assert caught.value.status_code == 401
    assert guard.caller(f"Bearer {token(sub='eve')}", address="9.9.9.9")


def test_the_guard_takes_tokens_only_where_an_issuer_is_configured(keys, published):
    secret = b"a secret of thirty-two characters"
    with pytest.raises(Problem) as caught:
        Guard(keys, secret).caller(f"Bearer {token()}")
    assert caught.value.status_code == 401
    guard = Guard(keys, secret, tokens=TokenRules(ISSUER, AUDIENCE, published))
    text = f"Bearer {token()}"
    assert guard.known(text) is None
    assert guard.caller(text) == guard.known(text) == Caller("jwt:ada", Role.SENDER, "acme")
    made_up = f"Bearer {token(key=OTHER_KEY)}"
    assert status_of(guard, made_up, 11) == [401] * 10 + [429]
    expired = f"Bearer {token(exp=1.0)}"
    assert status_of(guard, expired, 50) == [401] * 50, "who comes late does not guess"


def test_a_neighbour_who_guesses_does_not_lock_out_a_token_that_was_let_in(keys, clock, published):
    rules = TokenRules(ISSUER, AUDIENCE, published)
    secret = b"a secret of thirty-two characters"
    guard = Guard(keys, secret, tokens=rules, clock=clock, steady=clock.steady)
    text = f"Bearer {token()}"
    caller = guard.caller(text, address="9.9.9.9")
    for number in range(30):
        made_up = f"Bearer {token(key=OTHER_KEY, sub=str(number))}"
        assert status_of(guard, made_up, 1) == [401]
    clock.now_s += 60
    assert guard.known(text) is None
    assert guard.caller(text, address="9.9.9.9") == caller
    assert status_of(guard, f"Bearer {token(sub='eve')}", 1) == [429]


def test_a_token_that_is_not_right_any_more_is_not_taken_for_one_that_was(published, monkeypatch):
    tokens = Tokens(TokenRules(ISSUER, AUDIENCE, published))
    text = token()
    assert tokens.caller(text) is not None
    assert tokens.was_believed(text)
    monkeypatch.setattr(tokens._signers, "find", lambda _: None)
    assert refused(tokens, text)
    assert not tokens.was_believed(text)


# tenants of the same name


@pytest.fixture
def added_again(keys, store, clock, published):
    """A guard, and acme removed and added again a minute ago."""
    clock.now_s = time.time()
    store.registry.set_tenant_state("acme", State.REMOVED)
    store.registry.add_tenant(Tenant("acme"), at_s=clock() - 60)
    rules = TokenRules(ISSUER, AUDIENCE, published)
    secret = b"a secret of thirty-two characters"
    return Guard(keys, secret, tokens=rules, clock=clock, steady=clock.steady)


@pytest.mark.parametrize("role", ["tenant", "sender"])
def test_a_token_of_an_earlier_tenant_is_refused(added_again, role, clock):
    for issued in ({"iat": clock() - 61}, {"iat": clock() - 45}, {}, {"iat": None}):
        with pytest.raises(Problem, match="issued before this tenant was added") as caught:
            added_again.caller(f"Bearer {token(role=role, **issued)}")
        assert caught.value.status_code == 401
    own = token(role=role, iat=clock() - 10)
    assert added_again.caller(f"Bearer {own}").tenant == "acme"


def test_other_tokens_need_not_say_when_they_were_issued(added_again):
    for more in ({"tenant": "bolt"}, {"role": "operator", "tenant": None}):
        assert added_again.caller(f"Bearer {token(**more)}") is not None


def test_a_token_that_was_let_in_is_refused_soon_after_its_tenant_is_another(
    keys, store, clock, published
):
    clock.now_s = time.time()
    rules = TokenRules(ISSUER, AUDIENCE, published)
    secret = b"a secret of thirty-two characters"
    guard = Guard(keys, secret, tokens=rules, clock=clock, steady=clock.steady)
    text = f"Bearer {token(iat=clock())}"
    guard.caller(text)
    store.registry.set_tenant_state("acme", State.REMOVED)
    store.registry.add_tenant(Tenant("acme"), at_s=clock())
    clock.now_s += REMEMBERED_S
    assert guard.known(text) is None
    with pytest.raises(Problem, match="issued before"):
        guard.caller(text)
    # Nor is it believed by those who come while it is looked up once more.
    assert guard.known(text, within_s=USABLE_S) is None


def test_while_the_store_does_not_answer_tokens_of_known_tenants_stay_good_for_a_while(
    keys, clock, published
):
    clock.now_s = time.time()
    rules = TokenRules(ISSUER, AUDIENCE, published)
    secret = b"a secret of thirty-two characters"
    guard = Guard(keys, secret, tokens=rules, clock=clock, steady=clock.steady)
    text = f"Bearer {token(exp=time.time() + 3600)}"
    caller = guard.caller(text)
    keys.down = True
    clock.now_s += USABLE_S - 1
    assert guard.caller(text) == caller
    assert guard.caller(f"Bearer {token(role='operator', tenant=None)}") is not None
    with pytest.raises(StoreUnavailable):
        guard.caller(f"Bearer {token(tenant='bolt')}")
    clock.now_s += 1
    with pytest.raises(StoreUnavailable):
        guard.caller(text)


def status_of(guard, shown, times):
    statuses = []
    for _ in range(times):
        with pytest.raises(Problem) as caught:
            guard.caller(shown, address="9.9.9.9")
        statuses.append(caught.value.status_code)
    return statuses


def test_no_token_is_of_all_customers_whoever_signed_it(added_again, store, clock):
    text = f"Bearer {token(tenant=EVERYONE, role='tenant', exp=clock() + 300)}"
    for deploys in (False, True):
        if deploys:
            store.registry.deploy(Deployment("count", "m.py", "00", "impressions"))
        with pytest.raises(Problem, match="everyone stands for all customers") as caught:
            added_again.caller(text)
        assert caught.value.status_code == 403
        assert added_again.known(text) is None


def test_a_customer_whom_an_earlier_version_let_have_that_name_keeps_its_token(
    added_again, store, clock
):
    store.data.tenants[EVERYONE] = Tenant(EVERYONE)
    text = f"Bearer {token(tenant=EVERYONE, exp=clock() + 300)}"
    assert added_again.caller(text).tenant == EVERYONE
