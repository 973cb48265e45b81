"""Charts of a run over time, as SVG that reads well on light and dark pages and in black and white.

Panels lie above each other over the same seconds, so that cause and effect are on one line. Every
contender has one colour and one dash everywhere; the colours are Okabe and Ito's, which people with
any colour vision can tell apart. The same numbers give the same file, so a chart changes in a
commit only when its numbers did.

Nothing here knows what is measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

IMAGES = Path(__file__).parents[1] / "docs" / "images"

#: colour and dash, by the place of a name in the order given to `draw`
_STYLES = (
    ("#000000", (0, (1, 1.2))),
    ("#0072B2", "solid"),
    ("#D55E00", (0, (4, 1.5))),
    ("#009E73", (0, (6, 1.5, 1, 1.5))),
)
_SETTINGS = {
    "svg.hashsalt": "headrace",
    # text stays text: small files, and it can be searched and read aloud
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.sans-serif": ["Helvetica", "Arial", "DejaVu Sans"],
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
}
_WIDTH_IN, _PANEL_IN, _HEAD_IN = 8.0, 1.6, 0.9


@dataclass(frozen=True, slots=True)
class Line:
    """What one contender did, or what was asked of all."""

    name: str
    seconds: Sequence[float]
    #: None is a gap
    values: Sequence[float | None]


@dataclass(frozen=True, slots=True)
class Panel:
    """Lines of one quantity."""

    #: what, and its unit
    label: str
    lines: Sequence[Line]
    log: bool = False


def draw(
    path: Path,
    title: str,
    names: Sequence[str],
    panels: Sequence[Panel],
    shaded: tuple[float, float] | None = None,
) -> Path:
    """Draw panels below each other.

    Args:
        path: the SVG file to write.
        title: one line that says what was done.
        names: of all lines, in the order of the styles; the first is for what is asked of all.
        panels: from top to bottom.
        shaded: seconds to set off in all panels.

    Returns:
        ``path``.
    """
    assert len(names) <= len(_STYLES), "too many lines to tell apart"
    styles = dict(zip(names, _STYLES, strict=False))
    with mpl.rc_context(_SETTINGS):
        height_in = _HEAD_IN + _PANEL_IN * len(panels)
        figure = Figure(figsize=(_WIDTH_IN, height_in), facecolor="white")
        rows = figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
        handles: dict[str, Any] = {}
        for axes, panel in zip(rows, panels, strict=True):
            handles |= _fill(axes, panel, styles)
            if shaded is not None:
                axes.axvspan(*shaded, color="#f0f0f0", zorder=0)
        rows[-1].set_xlabel("seconds")
        figure.align_ylabels(rows)
        ordered = {name: handles[name] for name in names if name in handles}
        figure.suptitle(title, x=0.01, ha="left", fontsize=10, fontweight="bold")
        figure.legend(
            ordered.values(),
            ordered.keys(),
            loc="upper left",
            bbox_to_anchor=(0.0, 1.0 - 0.28 / height_in),
            ncols=len(ordered),
            frameon=False,
        )
        figure.tight_layout(rect=(0.0, 0.0, 1.0, 1.0 - 0.4 / height_in))
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, format="svg", metadata={"Date": None, "Title": title})
    return path


def _fill(axes: Any, panel: Panel, styles: dict[str, tuple[str, Any]]) -> dict[str, Any]:
    handles = {}
    for line in panel.lines:
        colour, dash = styles[line.name]
        values = [float("nan") if value is None else value for value in line.values]
        (handles[line.name],) = axes.plot(
            line.seconds, values, color=colour, linestyle=dash, linewidth=1.4
        )
    axes.set_ylabel(panel.label)
    if panel.log:
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(lambda number, _: f"{number:g}")
        axes.yaxis.set_minor_formatter(NullFormatter())
    else:
        axes.set_ylim(bottom=0)
    return handles
