"""`headrace tenants`: add, suspend, resume, remove, weigh and throttle tenants.

Each takes effect within one planning turn of a running driver, and survives a restart.
"""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table

from headrace.cli.console import DEFAULT_CONFIG, ConfigOption, out, store_of
from headrace.model.streams import State, Tenant, Throttle

app = typer.Typer(no_args_is_help=True, help="Customers: add, suspend, resume, remove, throttle.")

Name = Annotated[str, typer.Argument(help="The tenant, such as acme.", show_default=False)]
Rate = Annotated[float | None, typer.Option(min=0.001, help="Most per second; none: no limit.")]


@app.command("list")
def list_(config: ConfigOption = DEFAULT_CONFIG) -> None:
    """Show every tenant with its state, weight and throttle."""
    with store_of(config) as store:
        table = Table("tenant", "state", "weight", "records/s", "bytes/s", box=None)
        for each in store.tenants():
            table.add_row(
                each.name,
                each.state.value,
                f"{each.weight:g}",
                _limit(each.throttle.records_per_s),
                _limit(each.throttle.bytes_per_s),
            )
        out.print(table)


@app.command()
def add(
    name: Name,
    weight: Annotated[float, typer.Option(min=0.001, help="Share against the others.")] = 1.0,
    records_per_s: Rate = None,
    bytes_per_s: Rate = None,
    config: ConfigOption = DEFAULT_CONFIG,
) -> None:
    """Add a tenant; its streams begin with the next turn, as soon as its topics are there."""
    with store_of(config) as store:
        throttle = Throttle(records_per_s, bytes_per_s)
        store.add_tenant(Tenant(name, weight=weight, throttle=throttle))
        out.print(f"tenant {name} added")


@app.command()
def suspend(name: Name, config: ConfigOption = DEFAULT_CONFIG) -> None:
    """Stop planning a tenant; positions are kept."""
    _set_state(config, name, State.SUSPENDED)


@app.command()
def resume(name: Name, config: ConfigOption = DEFAULT_CONFIG) -> None:
    """Go on with a suspended tenant where it stopped."""
    _set_state(config, name, State.ACTIVE)


@app.command()
def remove(name: Name, config: ConfigOption = DEFAULT_CONFIG) -> None:
    """Remove a tenant. What is in flight may end; its topics and results are left alone."""
    _set_state(config, name, State.REMOVED)


@app.command()
def weigh(
    name: Name,
    weight: Annotated[float, typer.Argument(min=0.001, help="Share against the others.")],
    config: ConfigOption = DEFAULT_CONFIG,
) -> None:
    """Set a tenant's share of the executors against the others."""
    with store_of(config) as store:
        store.set_weight(name, weight)
        out.print(f"tenant {name} has weight {weight:g}")


@app.command()
def throttle(
    name: Name,
    records_per_s: Rate = None,
    bytes_per_s: Rate = None,
    config: ConfigOption = DEFAULT_CONFIG,
) -> None:
    """Limit what each of a tenant's streams may read; without options the limit is lifted."""
    with store_of(config) as store:
        store.set_throttle(name, Throttle(records_per_s, bytes_per_s))
        limits = f"{_limit(records_per_s)} records/s, {_limit(bytes_per_s)} bytes/s"
        out.print(f"tenant {name} may read {limits}")


def _set_state(config: ConfigOption, name: str, state: State) -> None:
    with store_of(config) as store:
        store.set_tenant_state(name, state)
        out.print(f"tenant {name} is {state.value}")


def _limit(value: float | None) -> str:
    return "-" if value is None else f"{value:g}"
