"""`headrace use-cases`: what is deployed, and deploying one anew while drivers run."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table

from headrace.cli.console import (
    DEFAULT_CONFIG,
    ConfigOption,
    out,
    print_table,
    settings_and_folder,
    store_of,
)
from headrace.deploying import deploy as deploy_into
from headrace.deploying import load
from headrace.errors import UnknownName
from headrace.model.streams import State

app = typer.Typer(
    no_args_is_help=True, help="Use cases: list, deploy and update one by one, resume."
)


@app.command("list")
def list_(config: ConfigOption = DEFAULT_CONFIG) -> None:
    """Show what is deployed, with the version of each.

    Example: `headrace use-cases list`
    """
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
        print_table(table)


@app.command()
def resume(
    name: Annotated[str, typer.Argument(help="The use case.", show_default=False)],
    config: ConfigOption = DEFAULT_CONFIG,
) -> None:
    """Go on with all streams of a use case that a failure suspended; what failed is retried.

    With `bad_record="fail"` one bad record stops the use case for all tenants, and this undoes it.
    Streams that somebody suspended by hand stay suspended.

    Example: `headrace use-cases resume score`
    """
    with store_of(config) as store:
        if name not in {each.use_case for each in store.deployments()}:
            raise UnknownName(f"there is no use case {name}; 'headrace use-cases list' shows them")
        count = 0
        for each in store.streams():
            # Only what was not suspended by hand has a reason.
            if each.id.use_case == name and each.state is State.SUSPENDED and each.reason:
                store.set_stream_state(each.id, State.ACTIVE)
                count += 1
        out.print(f"streams of {name} resumed: {count}", highlight=False)


@app.command()
def deploy(
    name: Annotated[str | None, typer.Argument(help="Only this one; else all of the file.")] = None,
    config: ConfigOption = DEFAULT_CONFIG,
) -> None:
    """Deploy the file's use cases as they are now. Running drivers take them over by themselves.

    Example: `headrace use-cases deploy score`
    """
    with store_of(config) as store:
        settings, folder = settings_and_folder(config)
        changed = deploy_into(settings, load(settings, folder), store, name)
        for each in changed:
            out.print(f"{each.use_case} deployed as {each.digest[:12]}", highlight=False)
        if not changed:
            out.print("nothing changed")
