"""The schemas of one registry, as a Python worker knows them.

Every record names its schema, and a registry is one small server. So what an id means is asked for
once in a worker and kept, up to a size. That leaves two troubles, and they must not be taken for
one another:

*Nobody answers.* Records of ids that are known go on; the others wait, and so do their lanes. The
registry is not asked for every one of them: after a failure everybody waits for a moment, which
grows from one second to fifteen, and starts at one again when it answers. Where it answers, and
gives out one id or subject only badly (no right to read it, an error, far too large), that one
waits so, alone: ids of many customers are asked for in one worker.

*It does not know the id.* A writer may have registered it this very second, at a server that this
one follows; or the bytes are no id at all. So the id is asked for again for a minute, less and less
often, and its lane waits. Then it is unknown, which is a fault of the record. That is remembered
for seconds only: a schema that comes late is found. Each worker counts its own minute.

A schema may refer to others, and these to others again. All are fetched, within the same time; what
was fetched when the time was over is kept for the next try, as far as there is room for it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote
from uuid import UUID

from headrace.connectors.schema_registry.config import RegistryConfig, registry_config
from headrace.connectors.schema_registry.exchange import MOST_BYTES, Exchange
from headrace.connectors.schema_registry.lookups import Lookups
from headrace.connectors.schema_registry.missed import Missed
from headrace.connectors.schema_registry.pauses import Pauses, RegistryAwayError
from headrace.connectors.schema_registry.subjects import Subjects
from headrace.connectors.schema_registry.texts import (
    MOST_CHARACTERS,
    Document,
    NotFoundError,
    ReferencesError,
    Referred,
    in_order,
    size_in_memory,
)
from headrace.errors import RegistryUnavailable, SchemaUnanswered
from headrace.formats.kept import Kept
from headrace.ports import (
    Connections,
    NoRegistry,
    RegisteredSchema,
    Registering,
    RegistryClient,
    SchemaId,
    WrittenSchema,
)

#: of all schemas that one knows by their ids
MOST_KNOWN_BYTES = 64 * 1024**2


@dataclass(frozen=True, slots=True)
class RegistrySchemasFactory:
    """Makes the schemas of a worker; where no registry is configured there are none."""

    def open(self, connections: Connections) -> RegistryClient:
        """Nobody is contacted yet.

        Raises:
            ConfigError: the settings cannot be.
        """
        if not connections.registry:
            return NoRegistry()
        return RegistrySchemas(registry_config(connections.registry))


class RegistrySchemas:
    """Implements ``headrace.ports.RegistryClient``."""

    def __init__(
        self,
        config: RegistryConfig,
        clock: Callable[[], float] = time.monotonic,
        *,
        most_bytes: int = MOST_BYTES,
    ) -> None:
        """Take where the registry is.

        Args:
            config: of the client.
            clock: seconds, as waits are counted.
            most_bytes: of one answer; who cannot wait while more is read takes less.
        """
        self._shown = str(config)
        self._exchange = Exchange(config, most_bytes)
        self._lookups = Lookups(Pauses(clock))
        self._known: Kept[SchemaId, WrittenSchema] = Kept(MOST_KNOWN_BYTES, size_in_memory)
        # Above what one schema may refer to.
        self._documents: Kept[Referred, Document] = Kept(
            2 * MOST_CHARACTERS, lambda document: len(document.text)
        )
        self._missed: Missed[SchemaId] = Missed(clock)
        self._subjects = Subjects(self._exchange.ask, self._fetched_all, self._lookups, clock)

    def __repr__(self) -> str:
        return f"RegistrySchemas({self._shown})"

    def schema(self, id_: SchemaId) -> WrittenSchema:
        """What was kept, or is found now; see ``headrace.ports.Schemas``."""
        known = self._known.get(id_)
        if known is not None:
            return known
        self._missed.refuse(id_)
        return self._lookups.read(id_, lambda until_s: self._looked_up(id_, until_s))

    def registered(self, subject: str, schema: WrittenSchema, how: Registering) -> RegisteredSchema:
        """The id to write by; see ``headrace.ports.SchemaIds``."""
        return self._subjects.registered(subject, schema, how)

    def version(self, subject: str, number: int | None) -> RegisteredSchema:
        """As it is now; see ``headrace.ports.NumberedSchemas``."""
        return self._subjects.version(subject, number)

    def numbers(self, subject: str) -> list[int]:
        """Those that are there; see ``headrace.ports.NumberedSchemas``."""
        return self._subjects.numbers(subject)

    def _looked_up(self, id_: SchemaId, until_s: float) -> WrittenSchema:
        """In the thread of look-ups; what was found, and what was not, is kept."""
        known = self._known.get(id_)
        if known is not None:  # by the look before, while it was asked for this one
            return known
        told = f"schema {id_} of the registry {self._shown}"
        try:
            found = self._fetched(id_, until_s)
        except RegistryAwayError:
            raise
        except RegistryUnavailable as error:
            raise self._missed.unanswered(id_, f"{told}: {error}") from error
        except NotFoundError as error:
            told = f"schema {id_} is not in the registry {self._shown}: {error}"
            raise self._missed.missing(id_, told) from None
        except ReferencesError as error:
            raise self._missed.unusable(id_, f"{told}: {error}") from error
        self._missed.forget(id_)
        self._known.put(id_, found)
        return found

    def _fetched(self, id_: SchemaId, until_s: float) -> WrittenSchema:
        kind = "guids" if isinstance(id_, UUID) else "ids"
        document = Document.of(self._found(f"schemas/{kind}/{id_}", until_s))
        return self._fetched_all(document, until_s)

    def _found(self, path: str, until_s: float) -> Mapping[str, Any]:
        answer = self._exchange.ask(path, until_s)
        if answer.status != 200:
            raise NotFoundError(answer.message or f"HTTP {answer.status}, and no word of why")
        return answer.body

    def _fetched_all(self, document: Document, until_s: float) -> WrittenSchema:
        """A schema with all that it refers to."""
        try:
            names = in_order(document, lambda referred: self._document(referred, until_s))
        except RegistryAwayError as error:
            # It did answer, a moment ago. That there was no time for all is this schema's trouble.
            raise SchemaUnanswered(str(error)) from error
        return WrittenSchema(document.kind, document.text, names)

    def _document(self, referred: Referred, until_s: float) -> Document:
        document = self._documents.get(referred)
        if document is None:
            # What is referred to may have been deleted since: whoever refers to it needs it still.
            place = f"subjects/{quote(referred.subject, safe='')}/versions/{referred.version}"
            document = Document.of(self._found(f"{place}?deleted=true", until_s))
            self._documents.put(referred, document)
        return document
