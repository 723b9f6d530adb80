# SPDX-License-Identifier: Apache-2.0
"""Pictures for a materialisation's card: the report's own as inline Markdown, and bars where it has none."""

import base64
import io
from collections.abc import Mapping
from typing import Any

#: The web server keeps metadata in its database; larger images are left out.
MAX_INLINE_BYTES = 100_000
#: More bars could not be told apart at card size.
MAX_BARS = 40
_COLOUR = "#1d4ed8"

# Matplotlib's keyword arguments are untyped, which strict checking refuses at every call.
type Axes = Any


def inline_image(png: bytes, alt: str) -> str:
    """Returns a picture as a Markdown image that needs no server, or a sentence where it would be too large."""
    encoded = base64.b64encode(png).decode()
    if len(encoded) > MAX_INLINE_BYTES:
        return f"{alt}: too large to be shown here; see the report"
    return f"![{alt}](data:image/png;base64,{encoded})"


def plot_bars(values: Mapping[str, float | None], *, title: str, limits: tuple[float, float] = (0.0, 1.0)) -> bytes:
    """Draws one horizontal bar per name and returns a PNG; names without a value have a question mark."""
    # No pyplot: it would keep figures alive and choose a backend for the whole process.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    shown = dict(list(values.items())[:MAX_BARS])
    figure = Figure(figsize=(5.6, 0.7 + 0.2 * max(1, len(shown))), dpi=90, layout="constrained")
    axes: Axes = figure.add_subplot()
    for place, value in enumerate(shown.values()):
        if value is None:
            axes.text(limits[0], place, " ?", va="center", fontsize=7)
        else:
            axes.barh(place, value, color=_COLOUR, height=0.7)
    axes.set_yticks(range(len(shown)), labels=[name.replace("$", r"\$") for name in shown], fontsize=7)
    axes.invert_yaxis()
    axes.set_xlim(*limits)
    axes.axvline(0, color="black", linewidth=0.6)
    axes.tick_params(axis="x", labelsize=7)
    more = len(values) - len(shown)
    axes.set_title(title + (f" ({more} more not drawn)" if more else ""), fontsize=8, loc="left")
    stream = io.BytesIO()
    FigureCanvasAgg(figure).print_png(stream)  # pyright: ignore[reportUnknownMemberType]
    return stream.getvalue()
