"""When two texts are one schema: if they come to the same content, by a digest of it.

One schema has one text, that of whoever registered it first, and whoever registers the same content
is shown that text. In Avro and JSON Schema it says no more than the content does. In Protobuf it
does: comments and the name of a file do not count, and may be one customer's alone. So such a text
is kept for its own subject only, and nobody else comes to its id. Within the subject it is still
one schema with its descriptor, and with the same file without comments.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from headrace.ports.schema_subjects import NewSchema, SchemaReference
from headrace.ports.schemas import SchemaKind


@dataclass(frozen=True, slots=True)
class Content:
    """A schema as it is kept, and the digests that it may be kept under already."""

    new: NewSchema
    digests: tuple[bytes, ...]

    @property
    def is_of_subject(self) -> bool:
        """Whether it is kept for its subject only."""
        return self.new.digest != self.digests[0]

    def judged_with(self, referred_ids: tuple[int, ...]) -> Content:
        """The same, to be kept only where what it refers to has these ids still."""
        return replace(self, new=replace(self.new, referred_ids=referred_ids))

    def of_id(self, id_: int) -> bytes:
        """The digest that it is kept under if it was imported beside the same under another id."""
        return _digest([self.digests[0].hex(), id_])


def content_of(
    subject: str,
    kind: SchemaKind,
    text: str,
    references: tuple[SchemaReference, ...],
    canonical: str,
) -> Content:
    """The content of a schema that is registered or looked up under a subject."""
    said = [kind.value, canonical, [list(reference) for reference in references]]
    of_all = _digest(said)
    if kind is SchemaKind.PROTOBUF:
        of_subject = _digest([*said, subject])
        digest = of_subject if _says_more(text, canonical) else of_all
        digests: tuple[bytes, ...] = (of_all, of_subject)
    else:
        digest, digests = of_all, (of_all,)
    guid = UUID(bytes=digest[:16], version=5)
    return Content(NewSchema(kind, text, digest, guid, references), digests)


def _says_more(text: str, canonical: str) -> bool:
    """Whether a Protobuf may say more than its content; of a doubtful one that it does."""
    if ";" in text or "{" in text:
        return "//" in text or "/*" in text
    # A descriptor in base64: it may have comments, the name of its file, and what nobody knows.
    return text != canonical


def _digest(said: Sequence[object]) -> bytes:
    return hashlib.sha256(json.dumps(said).encode("utf-8", "surrogatepass")).digest()
