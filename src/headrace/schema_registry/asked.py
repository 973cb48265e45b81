"""What a request asks, read and bounded; what is said and not understood is refused.

Fields that this registry does not keep (``metadata``, ``ruleSet``) are refused where they carry
something, since a client that sends rules counts on them. Empty ones are what clients send who have
none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs

from headrace.model.credentials import Caller
from headrace.ports.schema_subjects import SchemaReference
from headrace.schema_registry import refusals
from headrace.schema_registry.refusals import Refusal
from headrace.schema_registry.rules.texts import BadSchema, json_of, names_kind
from headrace.schema_registry.wanted import LATEST, Sight, Wanted

_MEDIA = ("", "application/json", "application/octet-stream")
_MEDIA_OF_REGISTRY = "application/vnd.schemaregistry"
_MOST_SUBJECT = 400
_SCHEMA_FIELDS = frozenset({"schema", "schemaType", "references", "id", "version"})
#: what clients send of a schema that they have read before, and that says nothing here
_IDLE = {"subject", "guid", "propagateSchemaTags", "ts", "deleted"}
_KNOWN_OF_SCHEMA = _SCHEMA_FIELDS | _IDLE
_REFERENCE_FIELDS = frozenset({"name", "subject", "version"})
MOST_ID = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Asked:
    """A request that may be answered."""

    caller: Caller
    sight: Sight
    #: of the path: subject, version, id, ...
    parts: Mapping[str, str]
    query: Mapping[str, str]
    body: bytes
    media: str

    @property
    def subject(self) -> str:
        """The subject in the path; the door has checked its name."""
        return self.parts["subject"]

    @property
    def version(self) -> int:
        """The version in the path, ``LATEST`` for the latest.

        Raises:
            Refusal: it is none.
        """
        text = self.parts["version"]
        if text in ("latest", "-1"):
            return LATEST
        number = _number_in(text)
        if not number:
            raise refusals.bad_version(text)
        return number

    @property
    def id(self) -> int:
        """The id in the path; one that no schema can have is not found."""
        text = self.parts["id"]
        number = _number_in(text)
        if number is None:
            raise refusals.no_schema(text[:20])
        return number

    def flag(self, name: str) -> bool:
        """A parameter that is true or false."""
        return self.query.get(name, "").lower() == "true"

    def part_of(self, rows: Sequence[Any], most: int | None = None) -> list[Any]:
        """The rows that ``offset`` and ``limit`` ask for; not more than ``most``."""
        offset, limit = max(0, self._number("offset", 0)), self._number("limit", -1)
        bounds = [bound for bound in (limit if limit > 0 else None, most) if bound is not None]
        return list(rows[offset : offset + min(bounds)] if bounds else rows[offset:])

    def fields(self) -> dict[str, Any]:
        """The body, an object.

        Raises:
            Refusal: it is something else.
        """
        kind = self.media.partition(";")[0].strip().lower()
        if kind not in _MEDIA and not kind.startswith(_MEDIA_OF_REGISTRY):
            raise Refusal(415, 415, f"{kind[:60]} is not understood; send JSON")
        try:
            found = json_of(self.body.decode())
        except UnicodeDecodeError as exc:
            raise Refusal(400, 400, "the body is not UTF-8") from exc
        except BadSchema as exc:
            raise Refusal(400, 400, f"the body cannot be read: {exc}") from exc
        if not isinstance(found, dict):
            raise Refusal(400, 400, "the body is to be a JSON object")
        return found

    def wanted(self, if_empty: Refusal | None = None) -> Wanted:
        """The schema in the body.

        Args:
            if_empty: what is said where there is none.

        Raises:
            Refusal: there is none that could be one.
        """
        fields = self.fields()
        refuse_unknown(fields, _KNOWN_OF_SCHEMA)
        text = fields.get("schema")
        if not isinstance(text, str) or not text.strip():
            raise if_empty or refusals.bad_schema("there is no 'schema', or it is empty")
        try:
            kind = names_kind(_text(fields.get("schemaType") or "AVRO", "schemaType"))
        except BadSchema as error:
            raise refusals.bad_schema(str(error)) from error
        references = tuple(map(_reference, _list(fields.get("references"))))
        if len({reference.name for reference in references}) != len(references):
            raise refusals.bad_schema("two references have the same name")
        numbers = _given(fields, "id"), _given(fields, "version")
        return Wanted(kind, text, references, self.flag("normalize"), *numbers)

    def _number(self, name: str, default: int) -> int:
        text = self.query.get(name, "")
        try:
            return max(-1, int(text[:11])) if text else default
        except ValueError as exc:
            raise Refusal(422, 422, f"{name} is to be a whole number") from exc


def _number_in(text: str) -> int | None:
    """The number that a text is; None: it is none, or one that is given to nothing."""
    digits = text.lstrip("0")
    if not (text.isascii() and text.isdigit()) or len(digits) > len(str(MOST_ID)):
        return None
    number = int(digits or "0")
    return number if number <= MOST_ID else None


def query_of(raw: bytes) -> dict[str, str]:
    """Parameters by name; of one that comes twice the first counts."""
    try:
        found = parse_qs(raw.decode("latin-1"), keep_blank_values=True, max_num_fields=50)
    except ValueError as exc:
        raise Refusal(400, 400, "too many parameters") from exc
    return {name: values[0] for name, values in found.items()}


def subject_of(text: str) -> str:
    """A subject by the name in a path; ``:.:name`` is ``name`` in the default context.

    Raises:
        Refusal: no subject can have the name, or it is of another context.
    """
    text = text.removeprefix(":.:")
    if text.startswith(":"):
        raise refusals.bad_subject(
            f"{text[:100]} names a context, and there is only the default one here"
        )
    if not text.strip() or not text.isprintable() or text in ("__GLOBAL", "__EMPTY"):
        raise refusals.bad_subject("it is empty, reserved, or has characters that nobody sees")
    if len(text) > _MOST_SUBJECT:
        raise refusals.bad_subject(f"it has more than {_MOST_SUBJECT} characters")
    return text


def refuse_unknown(fields: Mapping[str, Any], known: Set[str]) -> None:
    """Refuse what would be dropped in silence.

    Raises:
        Refusal: a field that is not known carries something.
    """
    names = sorted(name for name in fields.keys() - known if fields[name] not in (None, {}, [], ""))
    if names:
        raise refusals.unknown_field(", ".join(name[:40] for name in names[:5]))


def _given(fields: Mapping[str, Any], name: str) -> int | None:
    """A number that is given; clients that have none say 0 or -1."""
    number = fields.get(name)
    if number in (None, 0, -1) and not isinstance(number, bool):
        return None
    if not isinstance(number, int) or isinstance(number, bool) or not 0 < number <= MOST_ID:
        raise Refusal(422, 422, f"{name} is to be a number from 1 on")
    return number


def _reference(found: Any) -> SchemaReference:
    if not isinstance(found, dict):
        raise refusals.bad_schema("a reference is an object of name, subject and version")
    refuse_unknown(found, _REFERENCE_FIELDS)
    name, version = found.get("name"), found.get("version", LATEST)
    is_number = isinstance(version, int) and not isinstance(version, bool)
    if not is_number or not (version == LATEST or 1 <= version <= MOST_ID):
        raise refusals.bad_schema("the version of a reference is a number from 1 on, or -1")
    subject = subject_of(_text(found.get("subject"), "subject"))
    name = _text(name, "name")
    if not name.isprintable():
        raise refusals.bad_schema("the name of a reference has characters that nobody sees")
    return SchemaReference(name, subject, version)


def _text(value: Any, what: str) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= _MOST_SUBJECT:
        raise refusals.bad_schema(f"{what} is to be a text")
    return value


def _list(value: Any) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise refusals.bad_schema("references are a list")
    return value
