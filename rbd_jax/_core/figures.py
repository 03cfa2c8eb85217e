"""The style of figures: colors and axes."""

from __future__ import annotations

import io

from .errors import missing_package


COLORS = ("#3b6fb6", "#c8553d", "#4a9a6a", "#8a63a8", "#c99a2e", "#4aa3b5")
GREY = "#5a5f66"

#: The color of failures.
ALARM = "#b23a26"


def dress(axes, title: str, across: str = "t [s]") -> None:
    labels = axes.get_legend_handles_labels()[1]
    if labels:
        low, high = axes.get_ylim()
        columns = 3 if max(map(len, labels)) < 15 else 2
        rows = -(-len(labels) // columns)
        axes.set_ylim(
            low, high + max(0.25, 0.13 * rows) * (high - low)
        )  # space for the legend above the curves
        key = axes.legend(fontsize=8, frameon=False, loc="upper left", ncols=columns, columnspacing=1.2)
        key.set_in_layout(False)
    axes.set_title(title, loc="left", fontsize=10)
    axes.set_xlabel(across, fontsize=9)
    axes.tick_params(labelsize=8)
    axes.grid(alpha=0.25, linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)


def new_figure(**options):
    """Returns a new matplotlib figure."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise missing_package("matplotlib", "plots") from None
    return Figure(**options)


def plain(name: str) -> str:
    """Escapes a name for matplotlib, which would read text between dollar signs as mathematics."""
    return name.replace("\\", "\\\\").replace("$", r"\$") if "$" in name else name


def as_svg(figure) -> bytes:
    """Returns a figure as reproducible SVG bytes: without the date, and with deterministic element names."""
    import matplotlib

    file = io.BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": "rbd_jax"}):
        figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    return file.getvalue()
