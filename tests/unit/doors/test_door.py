"""A door that others reach has TLS, or a proxy before it, or says that it has neither."""

import pytest
from structlog.testing import capture_logs

from headrace.doors.door import listening_of
from headrace.settings.doors import DoorsSettings


@pytest.mark.parametrize(
    ("settings", "host", "warned"),
    [
        ({}, "0.0.0.0", True),
        ({}, "127.0.0.1", False),
        ({"proxies": ["10.0.0.0/8"]}, "0.0.0.0", False),
        ({"tls": {"certificate_file": "c.pem", "key_file": "k.pem"}}, "0.0.0.0", False),
    ],
    ids=["plain", "loopback", "proxy", "tls"],
)
def test_a_door_that_others_reach_in_the_clear_is_warned_of(settings, host, warned):
    with capture_logs() as lines:
        listening = listening_of(DoorsSettings.model_validate(settings), host, 8600)
    assert (listening.host, listening.port) == (host, 8600)
    assert ["in the clear" in line["event"] for line in lines] == [True] * warned
