"""`headrace tenants`: add, suspend, resume, remove, weigh and throttle tenants.

Each takes effect within one planning turn of a running driver, and survives a restart.
"""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table

from headrace.cli.amounts import duration, size
from headrace.cli.asking import YesOption
from headrace.cli.console import (
    DEFAULT_CONFIG,
    ConfigOption,
    JsonOption,
    out,
    print_list,
    store_of,
)
from headrace.cli.tenant_bulk import (
    DryRunOption,
    Exists,
    ExistsOption,
    FileOption,
    How,
    add_file,
    add_named,
    check_alone,
)
from headrace.cli.tenant_states import Names, remove, resume, suspend
from headrace.console.rows import changeable
from headrace.errors import ConfigError
from headrace.model.streams import State, Tenant, Throttle

app = typer.Typer(no_args_is_help=True, help="Customers: add, suspend, resume, remove, throttle.")

Name = Annotated[str, typer.Argument(help="The tenant, such as acme.", show_default=False)]
Records = Annotated[
    float | None,
    typer.Option("--records", help="Most records a second; none: no limit."),
]
Bytes = Annotated[
    float | None,
    typer.Option(
        "--bytes",
        parser=size,
        metavar="SIZE",
        help="Most bytes a second, such as 1m; none: no limit.",
    ),
]
Burst = Annotated[
    float | None,
    typer.Option(
        "--burst",
        parser=duration,
        metavar="DURATION",
        help="How much may come at once after a quiet time, as seconds of the limit; none: 1s.",
    ),
]


@app.command("list")
def list_(
    every: Annotated[bool, typer.Option("--all", help="Also those that were removed.")] = False,
    as_json: JsonOption = False,
    config: ConfigOption = DEFAULT_CONFIG,
) -> None:
    """Show every tenant with its state, weight and throttle.

    Example: `headrace tenants list`
    """
    with store_of(config) as store:
        found = [
            tenant
            for tenant in store.registry.tenants()
            if every or tenant.state is not State.REMOVED
        ]
        table = Table("tenant", "state", "weight", "records/s", "bytes/s", "burst", box=None)
        for tenant in found:
            table.add_row(
                tenant.name,
                tenant.state.value,
                f"{tenant.weight:g}",
                _limit(tenant.throttle.records_per_s),
                _limit(tenant.throttle.bytes_per_s),
                "-" if tenant.throttle == Throttle() else f"{tenant.throttle.burst_s:g} s",
            )
        print_list(table, [changeable(tenant) for tenant in found], as_json=as_json)


@app.command()
def add(  # noqa: PLR0913 - options of a command
    names: Names = None,
    weight: Annotated[
        float | None, typer.Option(help="Share against the others; none: 1.", show_default=False)
    ] = None,
    records_per_s: Records = None,
    bytes_per_s: Bytes = None,
    burst_s: Burst = None,
    *,
    file: FileOption = None,
    exists: ExistsOption = Exists.FAIL,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
    yes: YesOption = False,
    config: ConfigOption = DEFAULT_CONFIG,
) -> None:
    """Add tenants; streams begin with the next turn, as soon as their topics are there.

    One that was removed starts at startingOffsets: it is asked first if that reads records again.
    It is another customer from then on, and sees nothing of what the one before failed at.

    Of several all are added or none: whatever is wrong is told first, in a file by its line. Weight
    and limits are those of each that is named.

    Example: `headrace tenants add acme --weight 2 --records 500`, `headrace tenants add bolt corp`,
    or `headrace tenants add --file tenants.csv --dry-run`
    """
    with store_of(config) as store:
        how = How(exists, dry_run, yes, as_json)
        check_alone(names or [], (weight, records_per_s, bytes_per_s, burst_s), file)
        if file is not None:
            add_file(store, file, how, config)
            return
        options = {
            "weight": weight,
            "records_per_s": records_per_s,
            "bytes_per_s": bytes_per_s,
            "burst_s": burst_s,
        }
        said = [key for key, value in options.items() if value is not None]
        weight = 1.0 if weight is None else weight
        throttle = _throttle(records_per_s, bytes_per_s, burst_s)
        wanted = [Tenant(name, weight=weight, throttle=throttle) for name in names or []]
        add_named(store, wanted, said, how, config, _typed(weight, throttle))


app.command()(suspend)
app.command()(resume)
app.command()(remove)


@app.command()
def weigh(
    name: Name,
    weight: Annotated[float, typer.Argument(help="Share against the others.")],
    config: ConfigOption = DEFAULT_CONFIG,
) -> None:
    """Set a tenant's share of the executors against the others.

    Example: `headrace tenants weigh acme 3`
    """
    with store_of(config) as store:
        store.registry.set_weight(name, weight)
        out.print(f"tenant {name} has weight {weight:g}")


@app.command()
def throttle(
    name: Name,
    records_per_s: Records = None,
    bytes_per_s: Bytes = None,
    burst_s: Burst = None,
    config: ConfigOption = DEFAULT_CONFIG,
) -> None:
    """Limit what a tenant may read, all its streams together; without options lift the limit.

    After a quiet time the limit of some seconds may be read at once: the burst. What is given
    here replaces the whole limit that was there.

    Example: `headrace tenants throttle acme --records 100 --bytes 1m --burst 5s`
    """
    with store_of(config) as store:
        chosen = _throttle(records_per_s, bytes_per_s, burst_s)
        store.registry.set_throttle(name, chosen)
        limits = [
            f"{limit:g} {unit if limit != 1 else unit.removesuffix('s')} a second"
            for limit, unit in ((records_per_s, "records"), (bytes_per_s, "bytes"))
            if limit is not None
        ]
        burst = f", {chosen.burst_s:g} s of it at once after a quiet time"
        shown = " and ".join(limits) + burst if limits else "as much as it likes"
        out.print(f"tenant {name} may read {shown}", highlight=False)


def _throttle(
    records_per_s: float | None, bytes_per_s: float | None, burst_s: float | None
) -> Throttle:
    if burst_s is None:
        return Throttle(records_per_s, bytes_per_s)
    if records_per_s is None and bytes_per_s is None:
        raise ConfigError("--burst says how uneven a limit may be; give --records or --bytes too")
    return Throttle(records_per_s, bytes_per_s, burst_s)


def _typed(weight: float, throttle: Throttle) -> list[str]:
    """What was typed beside the names."""
    limits = {"--records": throttle.records_per_s, "--bytes": throttle.bytes_per_s}
    words = [] if weight == 1.0 else ["--weight", f"{weight:g}"]
    for option, limit in limits.items():
        if limit is not None:
            words += [option, f"{limit:.15g}"]
    return words if throttle == Throttle() else [*words, "--burst", f"{throttle.burst_s:.15g}s"]


def _limit(value: float | None) -> str:
    return "-" if value is None else f"{value:g}"
