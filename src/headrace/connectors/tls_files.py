"""TLS by the files that an address names: an authority of one's own, and a certificate to show."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Final

from headrace.errors import TargetMissing

#: what an address may name
FILES: Final = ("ca_file", "certificate_file", "key_file")


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
