"""`headrace keys`: make, show, replace and end API keys.

A key goes to stdout alone, so that a script can take it, and nowhere else: it is shown once, and
the store has only a digest of it.
"""

from __future__ import annotations

import time
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from headrace.cli.amounts import duration
from headrace.cli.console import (
    DEFAULT_CONFIG,
    ConfigOption,
    JsonOption,
    err,
    out,
    print_list,
    settings_and_folder,
    shown_errors,
    store_of,
)
from headrace.cli.failure_text import printable, when
from headrace.console.rows import key_row
from headrace.doors.keys import bound_to, new_key, rotate
from headrace.doors.secret import secret_of
from headrace.model.credentials import Key, Role

app = typer.Typer(
    no_args_is_help=True,
    help="API keys for the gateway and the console: create, list, rotate, revoke.",
)

Prefix = Annotated[
    str, typer.Argument(help="The part behind hr_, as the list shows it.", show_default=False)
]


@app.command()
def create(
    role: Annotated[
        Role,
        typer.Option(
            help="sender: posts events of its tenant; tenant: sees and steers its own; viewer: "
            "sees all; schemas: registers schemas, with --tenant those of its topics alone; "
            "operator: everything, keys too.",
            show_default=False,
        ),
    ],
    tenant: Annotated[
        str | None,
        typer.Option(help="Whose it is, for roles sender and tenant; schemas may have one."),
    ] = None,
    subjects: Annotated[
        str | None,
        typer.Option(
            help="Of role schemas: the only ones that it sees and registers under, such as "
            "'acme.*'; none: all that it may."
        ),
    ] = None,
    label: Annotated[str, typer.Option(help="What people call it.")] = "",
    expires_s: Annotated[
        float | None,
        typer.Option(
            "--expires",
            parser=duration,
            metavar="DURATION",
            help="For how long it works, such as 720h; none: until it is revoked.",
        ),
    ] = None,
    config: ConfigOption = DEFAULT_CONFIG,
) -> None:
    """Make a key and show it, once; keep it where you keep passwords.

    Example: `headrace keys create --role sender --tenant acme --label shop --expires 2160h`
    """
    secret = _secret(config)
    with store_of(config) as store:
        now_s = time.time()
        expires_at_s = None if expires_s is None else now_s + expires_s
        text, key = new_key(role, tenant, label, secret, now_s, expires_at_s=expires_at_s)
        key = bound_to(key, subjects)
        store.keys.add(key)
    _show(text, key)


@app.command("list")
def list_(
    tenant: Annotated[str | None, typer.Option(help="Those of one tenant.")] = None,
    as_json: JsonOption = False,
    config: ConfigOption = DEFAULT_CONFIG,
) -> None:
    """Show every key, but for the key itself; those that do not work any more too.

    Example: `headrace keys list --tenant acme`
    """
    with store_of(config) as store:
        now_s = time.time()
        table = Table("prefix", "role", "tenant", "label", "created", "state", box=None)
        found = store.keys.every(tenant)
        for key in found:
            table.add_row(
                key.prefix,
                Text(_does(key)),
                key.tenant or "-",
                Text(printable(key.label) or "-"),
                when(key.created_at_s),
                _state(key, now_s),
            )
        values = [{**key_row(key), "works": key.works(now_s)} for key in found]
        print_list(table, values, as_json=as_json)


@app.command("rotate")
def rotate_(
    prefix: Prefix,
    overlap_s: Annotated[
        float,
        typer.Option(
            "--overlap",
            parser=duration,
            metavar="DURATION",
            help="For how long the old one works beside it.",
        ),
    ] = "24h",  # type: ignore[assignment]
    config: ConfigOption = DEFAULT_CONFIG,
) -> None:
    """Make a key for the same as another one, which ends after the overlap.

    Example: `headrace keys rotate 3k9x0a7m --overlap 1h`
    """
    secret = _secret(config)
    with store_of(config) as store:
        text, key = rotate(store.keys, prefix, secret, time.time(), overlap_s=overlap_s)
    err.print(f"key {prefix} works for {overlap_s / 3600:g} h more", highlight=False)
    _show(text, key)


@app.command()
def revoke(prefix: Prefix, config: ConfigOption = DEFAULT_CONFIG) -> None:
    """End a key; doors that are open forget it within five seconds.

    Example: `headrace keys revoke 3k9x0a7m`
    """
    with store_of(config) as store:
        store.keys.revoke(prefix, time.time())
        out.print(f"key {prefix} is revoked", highlight=False)


def _secret(config: ConfigOption) -> bytes:
    with shown_errors():
        settings, _ = settings_and_folder(config)
        return secret_of(settings)


def _does(key: Key) -> str:
    return key.role.value + ("" if key.subjects is None else f" ({printable(key.subjects)})")


def _show(text: str, key: Key) -> None:
    whose = "" if key.tenant is None else f" of tenant {key.tenant}"
    err.print(
        f"key {key.prefix}, role {_does(key)}{whose}; it is shown once, on standard output:",
        highlight=False,
    )
    # Not through Rich, which would break a long line.
    typer.echo(text)


def _state(key: Key, now_s: float) -> str:
    if key.revoked_at_s is not None:
        return f"revoked {when(key.revoked_at_s)}"
    if key.expires_at_s is None:
        return "works"
    word = "works until" if key.works(now_s) else "expired"
    return f"{word} {when(key.expires_at_s)}"
