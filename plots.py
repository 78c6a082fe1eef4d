"""The figures: one function each, drawn from saved results alone.

A figure is `name(arrays, claims) -> matplotlib Figure`: arrays as saved in <experiment>.npz, claims
as in claims.json. `FIGURES` says which experiment draws which; a figure is saved as <name>.png.
Colours are those of Okabe & Ito (2008), told apart by colour-blind readers; line styles and
markers tell them apart in grey print.
"""

import numpy as np
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


CONDITION_COLOURS = [COLOURS[name] for name in ("blue", "orange", "green", "purple", "red", "black",
                                                "sky")]
CONDITION_MARKERS = "os^Dv<>"


def points_with_interval(axis, x, mean, interval, **style):
    """Markers with bars from interval[0] to interval[1]: what was simulated."""
    size = np.abs(np.asarray(interval) - mean)
    axis.errorbar(x, mean, yerr=size, linestyle="none", markersize=4.5, capsize=2, **style)


def capacity(arrays, claims):
    """Success against load, capacity against d, and the local slope up to d of a million."""
    figure, axes = new_figure(2, 2, width=5.4, height=4.0)
    shown = [d for d in arrays["dimensions"] if d in (8, 32, 64, 128, 256)]
    for axis, column, unit, range_shown, title in (
            (axes[0, 0], 1, lambda d: d, (0.1, 13), "Faithful retrieval: cosine at least .7"),
            (axes[0, 1], 3, lambda d: d**2, (0.003, 1), "Identification: the nearest of n")):
        for d, colour, marker in zip(shown, CONDITION_COLOURS, CONDITION_MARKERS, strict=False):
            here = arrays["d"] == d
            load, success = arrays["n"][here] / unit(d), arrays["success"][here, column]
            half = arrays["simultaneous"][here, column]
            axis.plot(load, arrays["theory"][here, column], color=colour, label=f"d = {d:.0f}")
            points_with_interval(axis, load, success, (success - half, success + half),
                                 color=colour, marker=marker)
        axis.set(xscale="log", xlim=range_shown, ylim=(-0.02, 1.05), title=title,
                 ylabel="share of pairs that pass",
                 xlabel="pairs over features, n / d" if column == 1 else "n / d squared")
        axis.legend(frameon=False, title="line: theory; marker: simulation\n(95%, all points)",
                    fontsize=8, title_fontsize=8)
    axis, names = axes[1, 0], list(arrays["criteria"])
    curves = [("identification, 95 %", names.index("identification, 0.95"), 1, 1.89, "orange", "s"),
              ("faithful, cosine .7, 95 %", names.index("0.7, 0.95"), 0, 1.22, "blue", "o")]
    for label, row, limit, exponent, colour, marker in curves:
        size = arrays["dimensions"]
        axis.plot(arrays["large"], arrays["limits"][limit], color=COLOURS[colour],
                  label=f"{label}: theory")
        points_with_interval(axis, size, arrays["capacity"][row],
                             arrays["capacity_interval"][:, row], color=COLOURS[colour],
                             marker=marker, label=f"{label}: simulation")
        start = arrays["limits"][limit, 2]
        axis.plot(arrays["large"], start * (arrays["large"] / arrays["large"][2]) ** exponent,
                  color=COLOURS[colour], linestyle=":", label=f"the paper's slope, {exponent}")
    points_with_interval(axis, arrays["worst_d"], arrays["worst"], arrays["worst_interval"],
                         color=COLOURS["green"], marker="^", label="worst case: simulation")
    axis.plot(arrays["large"], 0.5 * np.sqrt(np.pi * arrays["large"] / 2), linestyle="--",
              color=COLOURS["green"], label="worst case: ½ √(πd/2), interference at its mean")
    axis.set(xscale="log", yscale="log", xlabel="features d", ylabel="capacity, pairs",
             ylim=(1, 1e16), title="Capacity")
    axis.legend(frameon=False, fontsize=7.5, loc="upper left")
    axis = axes[1, 1]
    middle = np.sqrt(arrays["large"][1:] * arrays["large"][:-1])
    for (label, row, limit, exponent, colour, marker), end in zip(curves, (2, 1), strict=True):
        size = arrays["dimensions"]
        axis.plot(middle, arrays["local_slope"][limit], color=COLOURS[colour],
                  label=f"{label}: theory")
        axis.plot(np.sqrt(size[1:] * size[:-1]), np.diff(np.log(arrays["capacity"][row]))
                  / np.diff(np.log(size)), marker, color=COLOURS[colour], markersize=4.5,
                  label=f"{label}: simulation")
        axis.axhline(exponent, color=COLOURS[colour], linestyle=":",
                     label=f"the paper's exponent, {exponent}")
        axis.axhline(end, color="0.6", linewidth=0.8)
    size = arrays["worst_d"]
    axis.plot(np.sqrt(size[1:] * size[:-1]), np.diff(np.log(arrays["worst"]))
              / np.diff(np.log(size)), "^", color=COLOURS["green"], markersize=4.5,
              label="worst case: simulation")
    axis.axhline(0.5, color="0.6", linewidth=0.8, label="where theory ends: 2 (with a log), 1, ½")
    axis.set(xscale="log", xlabel="features d", ylabel="local slope of log capacity over log d",
             ylim=(0.2, 3.6), title="No exponent is a law: the slope moves with d")
    axis.legend(frameon=False, fontsize=7.5, loc="upper right", ncols=2)
    return figure


# --------------------------------------------------------------------------------- trained models


# ------------------------------------------------------------------------------------- benchmark


# ---------------------------------------------------------------------- which experiment draws what

FIGURES = {
    # core
    # the atlas
    # quantitative results
    "capacity": (capacity,),
    # trained models
    # benchmark
}
