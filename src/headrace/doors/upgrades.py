"""Requests that would rather go on in another protocol, in the one they came in.

Java's own HTTP client asks with each request for HTTP/2 (``Upgrade: h2c``), and a server that does
not speak that has to answer as if nobody had asked (RFC 9110, 7.8). llhttp takes whatever stands
behind such a header for the other protocol, so the body would be lost without a word, and what is
optional in it would be what it is by default. So a header that asks is read a second time, without
the asking, and then what stands behind it.

``CONNECT`` is another matter: there is nothing else that it could mean.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from httptools import HttpParserUpgrade, HttpRequestParser


class RequestParser(HttpRequestParser):
    """httptools' parser, which goes on where that one stops."""

    def __init__(self, protocol: Any, read_again: Callable[[bytes], None]) -> None:
        """Tell ``protocol`` what is read, and hand over what stands behind a header that asks."""
        super().__init__(protocol)
        self._read_again = read_again
        # As uvicorn has it: what comes behind the last request is let be.
        self.set_dangerous_leniencies(lenient_data_after_close=True)

    def feed_data(self, data: Any) -> None:
        """Read on."""
        try:
            super().feed_data(data)
        except HttpParserUpgrade as stopped:
            if not self.asks:
                raise
            self._read_again(bytes(data[stopped.args[0] :]))

    @property
    def asks(self) -> bool:
        """Whether what was read last could as well be answered as it is."""
        return bool(self.should_upgrade()) and self.get_method() != b"CONNECT"

    def without_asking(self, url: bytes, headers: list[tuple[bytes, bytes]]) -> bytes:
        """The header that was read last, as its sender would have written it without asking."""
        version = self.get_http_version().encode()
        lines = [b"%s %s HTTP/%s" % (self.get_method(), url, version)]
        lines += [b"%s: %s" % header for header in headers if header[0] != b"upgrade"]
        return b"\r\n".join([*lines, b"", b""])
