"""Options of a driver: of one that runs here, and of those that a supervisor starts."""

from __future__ import annotations

from typing import Annotated

import typer

Master = Annotated[
    str | None,
    typer.Option(help="Spark master: local[2], spark://host:7077, yarn, k8s://... Overrides YAML."),
]
Name = Annotated[
    str | None,
    typer.Option(
        help="Unique among the drivers of the store; the next one of this name replaces this one. "
        "Overrides YAML; none: machine and module.",
        show_default=False,
    ),
]
HealthPort = Annotated[
    int, typer.Option(min=0, max=65535, help="Answer /livez and /readyz here; 0: nowhere.")
]
HealthHost = Annotated[
    str, typer.Option(help="The address of that port; anything but loopback lets others ask.")
]
DeployAnew = Annotated[
    bool,
    typer.Option("--deploy", help="First deploy all use cases as they are in the folder now."),
]
