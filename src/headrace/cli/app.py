"""The commands, gathered."""

from __future__ import annotations

from importlib.metadata import version
from typing import Annotated

import typer

from headrace.cli import (
    console_server,
    fleet,
    gateway,
    keys,
    planning,
    quarantine,
    reruns,
    running,
    store,
    streams,
    tenants,
    use_cases,
    verifying,
)
from headrace.cli.console import out

app = typer.Typer(
    name="headrace",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    help="""Many customers' Kafka topics on one Spark: in order, in near real time, none can hurt
another.

Start with `headrace demo`. For your own use case, write a Python file with a function under
`@use_case(...)`, name it in `headrace.yaml`, and type `headrace up`.
""",
)
app.command()(running.demo)
app.command()(running.run)
app.command()(running.up)
app.command()(console_server.console)
app.command("supervise")(fleet.supervise_)
app.command()(fleet.roll)
app.command()(gateway.gateway)
app.command("plan")(planning.plan_file)
app.command()(reruns.rerun)
app.command("verify")(verifying.verify)
app.add_typer(tenants.app, name="tenants")
app.add_typer(streams.app, name="streams")
app.add_typer(quarantine.app, name="quarantine")
app.add_typer(use_cases.app, name="use-cases")
app.add_typer(keys.app, name="keys")
app.add_typer(fleet.app, name="fleet")
app.add_typer(store.app, name="store")


def _show_version(value: bool) -> None:
    if value:
        out.print(version("headrace"), highlight=False)
        raise typer.Exit


@app.callback()
def _options(
    _: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show it.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Entry point of the `headrace` command."""
    app()
