"""`headrace state`: what use cases remember of keys, to be looked at."""

from __future__ import annotations

from typing import Annotated

import msgspec
import typer
from rich.table import Table
from rich.text import Text

from headrace.cli.amounts import stream_of
from headrace.cli.console import (
    DEFAULT_CONFIG,
    ConfigOption,
    JsonOption,
    out,
    print_list,
    print_table,
    say,
    store_of,
)
from headrace.cli.failure_text import printable
from headrace.errors import ConfigError, UnknownName
from headrace.model.state import StateRow
from headrace.model.streams import StreamId
from headrace.operating.state_keys import keys_asked
from headrace.ports import Store

app = typer.Typer(no_args_is_help=True, help="State of keys: how much there is, and its rows.")


@app.command("list")
def list_(
    tenant: Annotated[
        str | None, typer.Argument(help="Only those of one tenant, with the tables of each.")
    ] = None,
    as_json: JsonOption = False,
    config: ConfigOption = DEFAULT_CONFIG,
) -> None:
    """Show which streams keep state, and how much; of one tenant also in which tables.

    Example: `headrace state list acme`
    """
    with store_of(config) as store:
        sizes = store.kept_state.sizes(tenant)
        found = [(stream, {"": size}) for stream, size in sizes.items()]
        if tenant is not None:
            found = [(stream, store.kept_state.tables(stream)) for stream in sizes]
        if not (found or as_json):
            out.print("no stream keeps state" if tenant is None else f"{tenant} keeps no state")
            return
        more = () if tenant is None else ("table",)
        shown = Table("stream", *more, "rows", "bytes", box=None)
        values: list[dict[str, object]] = []
        for stream, tables in found:
            for name, size in tables.items():
                named = {} if tenant is None else {"table": name}
                values.append({"stream": str(stream), **named, **size._asdict()})
                cells = (str(stream), *named.values(), f"{size.rows:,}", f"{size.bytes:,}")
                shown.add_row(*map(Text, cells))
        print_list(shown, values, as_json=as_json)


@app.command()
def show(  # noqa: PLR0913 - each is an option
    name: Annotated[
        str,
        typer.Argument(
            metavar="TENANT/USE-CASE",
            help="The stream; its tenant alone, where one use case has such a table.",
            show_default=False,
        ),
    ],
    table: Annotated[str, typer.Argument(help="The table, as `list` shows it.")],
    *,
    key: Annotated[
        list[str] | None,
        typer.Option(help="A key, as text or a number; may be said again. Without it, all rows."),
    ] = None,
    key_hex: Annotated[
        list[str] | None, typer.Option(help="A key that is no text, by hexadecimal digits.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="The most rows.")] = 100,
    as_json: JsonOption = False,
    config: ConfigOption = DEFAULT_CONFIG,
) -> None:
    """Show rows of a table of state, by partition and key, as they are kept.

    Example: `headrace state show acme/visitors seen --key ada`
    """
    with store_of(config) as store:
        stream = _stream(store, name, table)
        keys = keys_asked(key or (), key_hex or ())
        found = store.kept_state.rows(stream, table, keys, most=limit + 1)
    rows = found[:limit]
    if as_json:
        say(msgspec.json.format(msgspec.json.encode([_values(row) for row in rows])).decode())
        return
    if not rows:
        out.print(f"{stream} keeps no row of this key" if keys else f"{stream} keeps no row there")
        return
    shown = Table("partition", "row", box=None)
    for row in rows:
        shown.add_row(Text(row.part), Text(printable(row.value.decode("utf-8", "replace"))))
    print_table(shown)
    if len(found) > limit:
        out.print(f"and more: --limit shows more than {limit}, --key one of them")


def _values(row: StateRow) -> dict[str, object]:
    # As it was written, so that no digit of a number is lost.
    return {"part": row.part, "key_hex": row.key.hex(), "row": msgspec.Raw(row.value)}


def _stream(store: Store, name: str, table: str) -> StreamId:
    """The stream that is meant.

    Raises:
        UnknownName: there is none, or it has no such table.
        ConfigError: several of the tenant's have one of this name.
    """
    if "/" in name:
        stream = stream_of(name)
        tables = store.kept_state.tables(stream)
        if table in tables:
            return stream
        has = ", ".join(tables) or "none"
        raise UnknownName(f"stream {stream} has no rows in a state table {table!r}; it has {has}")
    sizes = store.kept_state.sizes(name)
    fit = [stream for stream in sizes if table in store.kept_state.tables(stream)]
    if len(fit) > 1:
        raise ConfigError(
            f"tenant {name} has several state tables {table!r}: say which, "
            f"{' or '.join(map(str, fit))}"
        )
    if not fit:
        raise UnknownName(
            f"tenant {name} has no rows in a state table {table!r}; 'headrace state list {name}' "
            "shows what it has"
        )
    return fit[0]
