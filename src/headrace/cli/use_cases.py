"""`headrace use-cases`: what is deployed, and deploying one anew while drivers run."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table

from headrace.assembly import deploy as deploy_into
from headrace.assembly import load
from headrace.cli.console import DEFAULT_CONFIG, ConfigOption, out, settings_and_folder, store_of

app = typer.Typer(no_args_is_help=True, help="Use cases: list, deploy and update one by one.")


@app.command("list")
def list_(config: ConfigOption = DEFAULT_CONFIG) -> None:
    """Show what is deployed, with the version of each."""
    with store_of(config) as store:
        table = Table("use case", "topic", "order", "priority", "version", "module", box=None)
        for each in store.deployments():
            table.add_row(
                each.use_case,
                each.topic,
                each.order.value,
                str(each.priority),
                each.digest[:12],
                each.module,
            )
        out.print(table)


@app.command()
def deploy(
    name: Annotated[str | None, typer.Argument(help="Only this one; else all of the file.")] = None,
    config: ConfigOption = DEFAULT_CONFIG,
) -> None:
    """Deploy the file's use cases as they are now. Running drivers take them over by themselves."""
    with store_of(config) as store:
        settings, folder = settings_and_folder(config)
        changed = deploy_into(settings, load(settings, folder), store, name)
        for each in changed:
            out.print(f"{each.use_case} deployed as {each.digest[:12]}", highlight=False)
        if not changed:
            out.print("nothing changed")
