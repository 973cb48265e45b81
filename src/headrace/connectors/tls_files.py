"""What an address says behind its ``?``, such as files of TLS.

Those are an authority of one's own, and a certificate to show. An option that says nothing is
refused: who means an authority of their own is not to be given the system's.
"""

from __future__ import annotations

import ssl
from collections.abc import Collection, Mapping
from typing import Final
from urllib.parse import parse_qsl

from headrace.errors import ConfigError, TargetMissing

#: what an address may name
FILES: Final = ("ca_file", "certificate_file", "key_file")


def options_of(query: str, known: Collection[str], name: str) -> dict[str, str]:
    """What an address says behind its ``?``.

    Args:
        query: all of it.
        known: what may be there.
        name: of the connection.

    Raises:
        ConfigError: something else is there, or without a value.
    """
    given = dict(parse_qsl(query, keep_blank_values=True))
    for option, value in given.items():
        if option not in known:
            raise ConfigError(f"connection {name}: option {option!r} is none of {', '.join(known)}")
        if not value:
            raise ConfigError(f"connection {name}: option {option!r} says nothing")
    return given


def files_of(options: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """The files of TLS among the options of an address, each with which it is."""
    return tuple((key, options[key]) for key in FILES if key in options)


def context_of(files: Mapping[str, str], where: str) -> ssl.SSLContext:
    """What connections are made with: the system's authorities, or that of a file.

    Raises:
        TargetMissing: a file is not there, or is none of such.
    """
    try:
        context = ssl.create_default_context(cafile=files.get("ca_file"))
        if "certificate_file" in files:
            context.load_cert_chain(files["certificate_file"], files.get("key_file"))
    except OSError as error:
        raise TargetMissing(
            f"{where}: a file of TLS cannot be used: {error.strerror or error}"
        ) from error
    return context
