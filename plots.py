"""The figures: one function each, drawn from saved results alone.

A figure is `name(arrays, claims) -> matplotlib Figure`: arrays as saved in <experiment>.npz, claims
as in claims.json. `FIGURES` says which experiment draws which; a figure is saved as <name>.png.
Colours are those of Okabe & Ito (2008), told apart by colour-blind readers; line styles and
markers tell them apart in grey print.
"""

from matplotlib.figure import Figure

# Contiguity, error correction and associability look the same in every figure.
COLOURS = {"black": "#000000", "orange": "#E69F00", "sky": "#56B4E9", "green": "#009E73",
           "yellow": "#F0E442", "blue": "#0072B2", "red": "#D55E00", "purple": "#CC79A7"}


def new_figure(rows=1, columns=1, *, width=4.6, height=3.6):
    """(Figure, axes array) of panels of width x height inches, without the top and right frame."""
    figure = Figure(figsize=(columns * width, rows * height), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False)
    for axis in axes.flat:
        axis.spines[["top", "right"]].set_visible(False)
    return figure, axes


# ------------------------------------------------------------------------------------------ core


# ------------------------------------------------------------------------------------- the atlas


# -------------------------------------------------------------------------- quantitative results


# --------------------------------------------------------------------------------- trained models


# ------------------------------------------------------------------------------------- benchmark


# ---------------------------------------------------------------------- which experiment draws what

FIGURES = {
    # core
    # the atlas
    # quantitative results
    # trained models
    # benchmark
}
