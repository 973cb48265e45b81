"""What a store answers is told by the client library in words of its own, and here in ours."""

from __future__ import annotations

import ssl

import pyarrow as pa
import pytest
import trustme

from headrace.connectors.object_stores import stores
from headrace.errors import ConfigError, SinkUnavailable
from headrace.model.streams import LaneId, Slice
from headrace.ports import Connections, Effect, Server, Site, Written
from headrace.sinks import ParquetFiles
from own_tls import tls_files
from s3_relay import SILENT, Relay, said
from still_there import StillThere

_SECRET = "the secret of the key"


@pytest.fixture
def relay():
    with Relay() as made:
        yield made


def _site(url, **who):
    server = Server(url, **({"user": "AKIA", "password": _SECRET} | who))
    return Site(Connections({}, "", servers={"lake": server}), StillThere(), "wave", "0")


def _at(relay, scheme="http"):
    return f"s3://bucket/part?region=us-east-1&endpoint={scheme}://127.0.0.1:{relay.port}"


def _effect():
    piece = Slice(LaneId("copy", "acme", "t[0]"), "t", 0, 9, epoch=1)
    return Effect((piece,), (9,), pa.table({"value": ["a"]}))


def _write(url, **who):
    return ParquetFiles("visits", at="lake").open(_site(url, **who)).write([_effect()])[0]


_THERE = (206, b"h")


@pytest.mark.parametrize(
    ("answer", "code", "words"),
    [
        (said(503, "SlowDown"), "SinkUnavailable", "503 SlowDown"),
        (said(500, "InternalError"), "SinkUnavailable", "500 InternalError"),
        ((502, b"<html>bad gateway</html>"), "SinkUnavailable", "502"),
        (said(429, "TooManyRequests"), "SinkUnavailable", "429"),
        (said(400, "RequestTimeout"), "SinkUnavailable", "RequestTimeout"),
        (said(400, "ExpiredToken"), "SinkUnavailable", "the credentials have expired"),
        (said(403, "InvalidAccessKeyId"), "SinkUnavailable", "lets nobody in with this key"),
        (said(403, "SignatureDoesNotMatch"), "SinkUnavailable", "not that of the key"),
        (said(403, "AuthenticationFailed"), "SinkUnavailable", "not that of the account"),
        (said(403, "RequestTimeTooSkewed"), "SinkUnavailable", "the clock of this machine"),
        (said(403, "AccessDenied"), "TargetMissing", "the key lacks a right"),
        (said(404, "NoSuchBucket"), "TargetMissing", "the bucket is not there"),
        (said(301, "PermanentRedirect"), "TargetMissing", "another region: say region="),
        (said(501, "NotImplemented"), "TargetMissing", "cannot write on a condition"),
        (said(400, "EntityTooLarge"), "SinkRefused", "EntityTooLarge"),
        (said(400, "KeyTooLongError"), "SinkRefused", "KeyTooLongError"),
        (said(400, "NeverHeardOf"), "TargetMissing", "400 NeverHeardOf"),
    ],
)
def test_an_answer_is_told_by_its_status_and_code(relay, answer, code, words):
    relay.fates += [_THERE, answer]
    error = _write(_at(relay)).error
    assert (error.code, error.temporary) == (code, code == "SinkUnavailable")
    assert "connection lake (s3://bucket/part)" in error.message
    assert words in error.message
    assert relay.methods == ["GET", "PUT"]


@pytest.mark.parametrize("code", ["ExpiredToken", "InvalidAccessKeyId", "RequestTimeTooSkewed"])
def test_who_is_not_let_in_at_the_first_look_is_tried_again_too(relay, code):
    relay.fates.append(said(403, code))
    error = _write(_at(relay)).error
    assert (error.code, code in error.message) == ("SinkUnavailable", True)


def test_what_a_store_quotes_is_not_repeated(relay):
    quoted = "<AWSAccessKeyId>AKIA</AWSAccessKeyId><StringToSign>what was signed</StringToSign>"
    relay.fates += [_THERE, said(403, "SignatureDoesNotMatch", quoted)]
    written = _write(_at(relay))
    assert not any(text in str(written) for text in ("AKIA", "what was signed", _SECRET, "Debug"))


def test_a_store_that_says_nothing_is_not_waited_for_without_end(relay, monkeypatch):
    monkeypatch.setattr(stores, "_ALONE", (1, 1))
    relay.silence_s = 2.0
    relay.fates += [_THERE, SILENT]
    error = _write(_at(relay)).error
    assert (error.code, "it says nothing" in error.message) == ("SinkUnavailable", True)


def test_a_store_that_is_away_is_tried_again():
    with Relay() as gone:
        pass
    error = _write(_at(gone)).error
    assert (error.code, "Connection refused" in error.message) == ("SinkUnavailable", True)


def test_a_name_with_redirect_in_it_does_not_make_an_outage_another_region():
    with Relay() as gone:
        pass
    error = _write(_at(gone).replace("bucket/part", "bucket/redirects")).error
    assert (error.code, "Connection refused" in error.message) == ("SinkUnavailable", True)


def test_a_certificate_that_nobody_vouches_for_is_told_and_an_own_authority_named(tmp_path):
    authority = trustme.CA()
    files = tls_files(authority, tmp_path, "127.0.0.1")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.certificate_file, files.key_file)
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    with Relay(tls=context) as relay:
        relay.always = _THERE
        error = _write(_at(relay, "https")).error
        assert (error.code, error.temporary) == ("SinkUnavailable", True)
        assert "its certificate is not believed" in error.message
        assert "ca=" in error.message
        assert _write(_at(relay, "https") + f"&ca={tmp_path}/ca.pem") == Written()


def test_credentials_of_the_connection_are_not_mixed_with_those_of_the_environment(
    relay, monkeypatch
):
    monkeypatch.setenv("AWS_SESSION_TOKEN", "of somebody else")
    relay.always = _THERE
    assert _write(_at(relay)) == Written()
    assert [asked.get("x-amz-security-token") for asked in relay.headers] == [None, None]
    assert _write(_at(relay) + "&session_token=mine") == Written()
    assert relay.headers[-1]["x-amz-security-token"] == "mine"


@pytest.mark.parametrize(
    ("url", "who", "words"),
    [
        ("postgresql://db/history", {}, "no object store that is known"),
        ("s3://AKIA:secret@bucket", {}, "say user and password apart"),
        ("s3://", {}, "the bucket alone before the first slash"),
        ("s3://minio:9000/bucket", {}, "the bucket alone before the first slash"),
        ("s3://bucket?region", {}, "its URL cannot be read"),
        ("s3://bucket?nonsense=secret", {}, "'nonsense' is not valid"),
        ("s3://bucket?ca=/nowhere", {}, "ca=/nowhere cannot be read"),
        ("s3://bucket", {"password": None}, "say both, user and password, or neither"),
    ],
)
def test_a_url_that_cannot_be_used_is_told_at_the_deploy_and_not_repeated(url, who, words):
    with pytest.raises(ConfigError, match="connection lake") as caught:
        ParquetFiles("visits", at="lake").prepare(_site(url, **who))
    assert words in str(caught.value)
    assert not any(text in str(caught.value) for text in ("AKIA", "secret", "//db"))


def test_at_a_deploy_a_store_that_is_away_is_tried_again_and_one_that_lacks_a_bucket_is_not(relay):
    sink = ParquetFiles("visits", at="lake")
    relay.always = said(503, "SlowDown")
    with pytest.raises(SinkUnavailable):
        sink.prepare(_site(_at(relay)))
    relay.always = said(404, "NoSuchBucket")
    with pytest.raises(ConfigError, match="the bucket is not there"):
        sink.prepare(_site(_at(relay)))


def test_without_the_client_library_it_is_said_how_to_have_it(relay, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "obstore", None)
    with pytest.raises(ConfigError, match="headrace\\[s3\\]"):
        ParquetFiles("visits", at="lake").prepare(_site(_at(relay)))
