"""`headrace schemas`: look at schemas, register and check them, for people and build pipelines.

It works on the store itself, as an operator: whoever may open the database needs no key. A check
that fails ends with exit code 1, so that a pipeline stops before anything is deployed. It asks no
registry by HTTP, and where drivers ask another one it says so: an answer would mean nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from headrace.cli.console import (
    DEFAULT_CONFIG,
    ConfigOption,
    JsonOption,
    print_json,
    print_list,
    say,
    settings_and_folder,
    shown_errors,
    told_of_up,
)
from headrace.cli.our_registry import addresses_of, drivers_ask_ours
from headrace.cli.servers import folder_of, remembered
from headrace.errors import ConfigError, plain
from headrace.ports import SchemaKind, SchemaReference, SchemaSubjects, SubjectSetting
from headrace.schema_registry.asked import subject_of
from headrace.schema_registry.judges import JudgesHere
from headrace.schema_registry.refusals import Incompatible, Refusal
from headrace.schema_registry.registry import SchemaRegistry
from headrace.schema_registry.rules.compatibility import DEFAULT_LEVEL, Level
from headrace.schema_registry.standing import level_of, version_in
from headrace.schema_registry.wanted import EVERYTHING, LATEST, Wanted
from headrace.store import open_store

app = typer.Typer(no_args_is_help=True, help="Schemas: list, show, check, register.")


def _subject(text: str) -> str:
    """A subject as the registry names it; what it refuses over HTTP could not be deleted there."""
    try:
        return subject_of(text)
    except Refusal as refusal:
        raise typer.BadParameter(str(refusal)) from refusal


Subject = Annotated[str, typer.Argument(help="Such as acme.visits-value.", callback=_subject)]
File = Annotated[Path, typer.Argument(help="The schema: .avsc, .json or .proto.")]
Kind = Annotated[
    SchemaKind | None,
    typer.Option("--type", help="Its language; left out: by the file's name.", show_default=False),
]
Reference = Annotated[
    list[str],
    typer.Option(
        "--reference", help="NAME=SUBJECT:VERSION of a schema that it refers to; may come again."
    ),
]
Normalize = Annotated[bool, typer.Option(help="Schemas that differ in order alone are one.")]
Own = Annotated[
    bool,
    typer.Option("--own", help="Our own registry, also where the YAML file names another."),
]
_KINDS = {".avsc": SchemaKind.AVRO, ".json": SchemaKind.JSON, ".proto": SchemaKind.PROTOBUF}


@app.command("list")
def list_(
    config: ConfigOption = DEFAULT_CONFIG,
    prefix: Annotated[str, typer.Option(help="Subjects that begin so.")] = "",
    deleted: Annotated[bool, typer.Option(help="Softly deleted versions too.")] = False,
    own: Own = False,
    as_json: JsonOption = False,
) -> None:
    """List subjects with their newest version.

    Example: `headrace schemas list --prefix acme.`
    """
    with _registry(config, own=own) as registry:
        rows = _rows(registry.subjects, prefix, deleted=deleted)
        shown = ("subject", "version", "id", "type", "compatibility")
        table = Table(*shown, *(["deleted"] if deleted else []), box=None)
        for row in rows:
            mark = [_mark(row)] if deleted else []
            table.add_row(*(str(row[name]) for name in shown), *mark)
        print_list(table, rows, as_json=as_json)


def _rows(subjects: SchemaSubjects, prefix: str, *, deleted: bool) -> list[dict[str, object]]:
    """The newest version of each subject; what goes meanwhile is left out."""
    there = subjects.versions(prefix)
    alive = {version.subject for version in there if not version.deleted}
    newest = {version.subject: version for version in there if deleted or not version.deleted}
    kept = subjects.schemas([version.id for version in newest.values()])
    levels = subjects.set_among(SubjectSetting.COMPATIBILITY, prefix)
    of_all = levels.get(None, DEFAULT_LEVEL.value)
    return [
        {
            "subject": version.subject,
            "version": version.version,
            "id": version.id,
            "type": kept[version.id].kind.value,
            "compatibility": levels.get(version.subject, of_all),
            "deleted": version.deleted,
            "subject_deleted": version.subject not in alive,
        }
        for version in newest.values()
        if version.id in kept
    ]


def _mark(row: Mapping[str, object]) -> str:
    """What of a subject is deleted."""
    if row["subject_deleted"]:
        return "subject"
    return "this version" if row["deleted"] else ""


@app.command()
def show(
    subject: Subject,
    version: Annotated[int, typer.Argument(help="Left out: the latest.")] = LATEST,
    config: ConfigOption = DEFAULT_CONFIG,
    own: Own = False,
    as_json: JsonOption = False,
) -> None:
    """Show the text of a version; with --json to the letter.

    Example: `headrace schemas show acme.visits-value 2`
    """
    with _registry(config, own=own) as registry:
        seen = registry.subjects.seen(subject)
        if not seen.versions:
            told = f"there is no subject {subject}{_nearest(registry, subject)}"
            raise Refusal(404, 40401, told)
        found = version_in(seen, version, deleted=True)
        kept = registry.subjects.schema(found.id)
        if kept is None:
            raise ConfigError(f"schema {found.id} was deleted meanwhile")
        if not as_json:
            say(_plain_lines(kept.text))
            return
        refers = [reference._asdict() for reference in kept.references]
        print_json(
            {**found._asdict(), "type": kept.kind.value, "schema": kept.text, "references": refers}
        )


@app.command()
def register(  # noqa: PLR0913, PLR0917 - options of a command
    subject: Subject,
    file: File,
    config: ConfigOption = DEFAULT_CONFIG,
    kind: Kind = None,
    reference: Reference = [],  # noqa: B006 - as Typer has it
    normalize: Normalize = False,
    own: Own = False,
    as_json: JsonOption = False,
) -> None:
    """Register a schema; one that is there already stays as it is.

    Example: `headrace schemas register acme.visits-value visit.avsc`
    """
    wanted = _wanted(file, kind, reference, normalize)
    with _registry(config, own=own) as registry:
        try:
            made = registry.register(subject, wanted, EVERYTHING)
        except Incompatible as refusal:
            raise _told_incompatible(refusal.faults, as_json=as_json) from refusal
        if as_json:
            print_json(made._asdict())
        else:
            say(f"{subject} version {made.version}, id {made.id}")


@app.command()
def check(  # noqa: PLR0913, PLR0917 - options of a command
    subject: Subject,
    file: File,
    config: ConfigOption = DEFAULT_CONFIG,
    kind: Kind = None,
    reference: Reference = [],  # noqa: B006 - as Typer has it
    normalize: Normalize = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="The same: a check never changes anything.")
    ] = False,
    own: Own = False,
    as_json: JsonOption = False,
) -> None:
    """Check whether a schema may come next; exit code 1 if it is incompatible.

    Nothing is registered, with or without --dry-run; 'headrace schemas register' checks too.

    Example: `headrace schemas check acme.visits-value visit.avsc --dry-run`
    """
    del dry_run
    wanted = _wanted(file, kind, reference, normalize)
    with _registry(config, own=own) as registry:
        faults = registry.faults(subject, wanted, EVERYTHING)
        if faults:
            raise _told_incompatible(faults, as_json=as_json)
        nothing = _uncompared(registry, subject)
        if as_json:
            print_json({"compatible": True, "messages": [nothing] if nothing else []})
        else:
            say(nothing or f"compatible with {subject}")


def _uncompared(registry: SchemaRegistry, subject: str) -> str:
    """Why a schema was compared with none, which a mistyped subject shows; empty if it was."""
    seen = registry.subjects.seen(subject)
    if not seen.alive:
        near = _nearest(registry, subject)
        return f"nothing to compare with: there is no version under {subject}{near}"
    if level_of(seen) is Level.NONE:
        return f"nothing was compared: the level of {subject} is NONE"
    return ""


def _nearest(registry: SchemaRegistry, subject: str) -> str:
    """The names that come nearest to one that is not there, as words behind it."""
    names = dict.fromkeys(found.subject for found in registry.subjects.versions())
    near = get_close_matches(subject, [name for name in names if name != subject])
    return f"; nearest by name: {', '.join(near)}" if near else ""


@contextmanager
def _registry(config: Path, *, own: bool) -> Iterator[SchemaRegistry]:
    with shown_errors():
        settings, base = settings_and_folder(config)
        with told_of_up(config), closing(open_store(settings.store_url())) as store:
            by_up = remembered(folder_of(base))
            if not own and not drivers_ask_ours(settings, store.keys, by_up):
                raise ConfigError(
                    "this command works on our own registry, in the store, and drivers ask "
                    f"{addresses_of(settings)}: check and register there, with the tools of that "
                    "registry; --own is for ours all the same"
                )
            yield SchemaRegistry(store.schema_subjects, JudgesHere())


def _plain_lines(text: str) -> str:
    """A text of somebody else in its lines, without what a terminal might obey."""
    return "\n".join("\t".join(map(plain, line.split("\t"))) for line in text.splitlines())


def _told_incompatible(faults: Sequence[str], *, as_json: bool) -> typer.Exit:
    if as_json:
        print_json({"compatible": False, "messages": faults})
    else:
        for fault in faults:
            say(f"incompatible: {fault}")
    return typer.Exit(1)


def _wanted(file: Path, kind: SchemaKind | None, references: list[str], normalize: bool) -> Wanted:
    named = kind or _KINDS.get(file.suffix)
    if named is None:
        raise typer.BadParameter(f"{file} says not what it is; add --type AVRO, JSON or PROTOBUF")
    try:
        text = file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        raise typer.BadParameter(f"{file} cannot be read: {exc}") from exc
    return Wanted(named, text, tuple(map(_reference, references)), normalize)


def _reference(text: str) -> SchemaReference:
    name, _, place = text.partition("=")
    subject, _, version = place.rpartition(":")
    if not name or not subject or not version.isdigit():
        raise typer.BadParameter(f"{text} is not NAME=SUBJECT:VERSION")
    return SchemaReference(name, _subject(subject), int(version))
