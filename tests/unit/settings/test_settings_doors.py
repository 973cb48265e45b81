"""The section of the doors: what would open them by mistake is refused."""

import pytest

from headrace.errors import ConfigError
from headrace.settings import read_settings

JWT = "issuer: https://i.example, audience: headrace"


@pytest.fixture
def doors_of(tmp_path):
    def doors_of(text, environment=None):
        path = tmp_path / "headrace.yaml"
        path.write_text(f"module: use_cases.py\ndoors: {{{text}}}\n")
        return read_settings(path, environment or {}).doors

    return doors_of


def test_paths_start_at_the_folder_of_the_file(doors_of, tmp_path):
    doors = doors_of(
        f"tls: {{certificate_file: a.pem, key_file: tls/k.pem}}, jwt: {{{JWT}, jwks_file: j.json}}"
    )
    assert doors.tls.certificate_file == tmp_path / "a.pem"
    assert doors.tls.key_file == tmp_path / "tls" / "k.pem"
    assert doors.jwt.jwks_file == tmp_path / "j.json"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (f"jwt: {{{JWT}}}", "doors.jwt: name either jwks_url or jwks_file"),
        (f"jwt: {{{JWT}, jwks_url: 'https://k', jwks_file: j}}", "either jwks_url or jwks_file"),
        (f"jwt: {{{JWT}, jwks_url: 'http://keys.example/'}}", "doors.jwt.jwks_url"),
        (f"jwt: {{{JWT}, jwks_url: 'file:///etc/passwd'}}", "doors.jwt.jwks_url"),
        (f"jwt: {{{JWT}, jwks_url: 'https://me:hunter2@keys.example/'}}", "no password into it"),
        (f"jwt: {{{JWT}, jwks_url: 'http://localhost.evil.example/'}}", "doors.jwt.jwks_url"),
        (f"jwt: {{{JWT}, jwks_url: 'http://localhost:80@evil.example/'}}", "doors.jwt.jwks_url"),
        (f"jwt: {{{JWT}, jwks_file: j, algorithms: []}}", "doors.jwt.algorithms"),
        (f"jwt: {{{JWT}, jwks_file: j, algorithms: [HS256]}}", "doors.jwt.algorithms"),
        ("jwt: {jwks_file: j, issuer: i}", "doors.jwt.audience"),
        ("proxies: [everywhere]", "doors.proxies"),
        ("proxies: [10.0.0.1/8]", "doors.proxies"),
        ("certificates: {URI=a: {role: viewer}}", "certificates are believed from proxies alone"),
        ("proxies: ['::1'], certificates: {URI=a: {role: sender}}", "need a tenant"),
        ("proxies: ['::1'], certificates: {URI=a: {role: viewer, tenant: a}}", "need a tenant"),
        ("tls: {certificate_file: a.pem}", "doors.tls.key_file: this key is missing"),
        ("secret: abc", "doors.secret: there is no such key"),
    ],
)
def test_what_would_open_them_by_mistake_is_refused(doors_of, text, told):
    with pytest.raises(ConfigError) as caught:
        doors_of(text)
    assert told in str(caught.value)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    "url", ["https://keys.example/jwks", "http://localhost:8080/k", "http://127.0.0.1/k"]
)
def test_an_issuers_keys_come_over_tls_or_from_this_machine(doors_of, url):
    assert doors_of(f"jwt: {{{JWT}, jwks_url: '{url}'}}").jwt.jwks_url == url
