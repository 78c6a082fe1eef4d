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
            (axes[0, 1], 2, lambda d: d**2, (0.003, 1), "Identification: the nearest of n")):
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


def heads(arrays, claims):
    """Error against total state, and failures of redundant heads against their number."""
    figure, axes = new_figure(1, 3, width=4.7, height=4.2)
    for axis, arm, title in ((axes[0, 0], 0, "Own keys a head, averaged: state alone (A7)"),
                             (axes[0, 1], 2, "Projections of shared keys of 64 features")):
        for i, H in enumerate(arrays["heads"]):
            style = {"color": CONDITION_COLOURS[i]}
            x = arrays["entries"][arm, i]
            axis.plot(x, arrays["theory"][arm, i], **style)
            points_with_interval(axis, x, arrays["error"][0, arm, i], arrays["error"][1:, arm, i],
                                 marker=CONDITION_MARKERS[i], label=f"H = {H}", **style)
        axis.set(xscale="log", yscale="log", title=title, ylabel="mean squared error",
                 xlabel="total state, entries of all association matrices", ylim=(0.015, 12))
        axis.legend(frameon=False, fontsize=8, ncols=2, loc="lower left", title_fontsize=8,
                    title="line: theory; marker: simulation (95%)")
    axis, loads, failure = axes[0, 2], arrays["loads"], arrays["failure"]
    most = failure.shape[-1] - 3
    p = failure[0, :, 0]
    for column, colour, marker in ((0, "black", "o"), (1, "blue", "s"), (most - 1, "green", "^")):
        style = {"color": COLOURS[colour]}
        axis.plot(loads, p ** (column + 1), linestyle="--", **style,
                  label=f"P3: p to the power {column + 1}" if column else None)
        points_with_interval(axis, loads, failure[0, :, column], (
            arrays["failure_low"][0, :, column], arrays["failure_high"][0, :, column]),
            marker=marker, **style, label=f"all of {column + 1} wrong" if column
            else "p: one head wrong")
    for store, column, colour, marker, label in (
            (2, most - 1, "purple", "D", f"all of {most} wrong, keys projected from 64"),
            (1, most, "orange", "v", f"vote of {most}"),
            (1, most + 2, "red", "<", f"average of {most}")):
        points_with_interval(axis, loads, failure[store, :, column], (
            arrays["failure_low"][store, :, column], arrays["failure_high"][store, :, column]),
            marker=marker, color=COLOURS[colour], label=label)
    axis.set(yscale="log", ylim=(1e-10, 3), xlabel="pairs n, heads of 32 features",
             ylabel="share of pairs missed, simulation (95%)",
             title="'At least one is right' (P3) and real read-outs")
    axis.legend(frameon=False, fontsize=7.5, loc="lower right")
    return figure


def depth(arrays, claims):
    """Errors of stacks with and without clean-up, and wide against deep at equal state."""
    figure, axes = new_figure(1, 3, width=4.7, height=4.2)
    L = arrays["L"]
    for i, n in enumerate(arrays["loads"]):
        style = {"color": CONDITION_COLOURS[i], "marker": CONDITION_MARKERS[i]}
        for arm, filled, label in (("cleaned", style["color"], "clean-up after each hop"),
                                   ("raw", "white", "no clean-up")):
            points_with_interval(axes[0, 0], L, arrays[arm][0, i], arrays[arm][1:, i], **style,
                                 markerfacecolor=filled, label=f"n = {n}, {label}")
        axes[0, 0].plot(L, arrays["formula"][i], color=style["color"],
                        label=f"n = {n}: 1 - (1 - r)^L")
        axes[0, 0].plot(L, arrays["single"][i] * L, color=style["color"], linestyle=":",
                        label=f"n = {n}: the paper's L r")
        points_with_interval(axes[0, 1], L, arrays["growth"][0, i], arrays["growth"][1:, i],
                             **style, label=f"n = {n}, simulation (95%)")
        axes[0, 1].plot(L, arrays["growth_theory"][i], color=style["color"],
                        label=f"n = {n}: (1 + (n - 1)/d)^L - 1")
    axes[0, 0].set(xlabel="hops L", ylabel="share of wrong items", yscale="log", ylim=(6e-4, 2),
                   xlim=(0, 17), title="Stacks of memories, d = 32")
    axes[0, 1].set(xlabel="hops L", ylabel="mean squared error", yscale="log",
                   title="No clean-up: interference grows exponentially")
    axes[0, 0].legend(frameon=False, fontsize=7, loc="lower right", ncols=2)
    axes[0, 1].legend(frameon=False, fontsize=8)
    axis, count = axes[0, 2], len(arrays["arm_names"])
    for i, (d, n, hops) in enumerate(arrays["settings"]):
        points_with_interval(axis, np.arange(count) + 0.16 * (i - 1), arrays["arms"][0, i],
                             arrays["arms"][1:, i], color=CONDITION_COLOURS[i],
                             marker=CONDITION_MARKERS[i], label=f"d = {d}, n = {n}, {hops} hops")
    axis.set_xticks(np.arange(count), arrays["arm_names"], rotation=40, ha="right", fontsize=8)
    axis.set(ylabel="share of chains with a wrong hop", ylim=(-0.03, 1.05),
             title="Wide against deep, equal state (simulation)")
    axis.legend(frameon=False, fontsize=8, loc="upper center")
    return figure


def drift(arrays, claims):
    """Reversal: error and norm over trials; steady drift: error and best rates."""
    figure, axes = new_figure(2, 2, width=5.4, height=3.9)
    names, trials = list(arrays["names"]), np.arange(arrays["error"].shape[-1]) + 1
    styles = {name: {"color": CONDITION_COLOURS[i], "linestyle": line, "label": name}
              for i, (name, line) in enumerate(zip(names, ("-", "--", "-", "-.", ":"),
                                                   strict=True))}
    window = 20
    for i, name in enumerate(names):
        smooth = arrays["error"][i].reshape(3, -1, window).mean(axis=-1)
        at = trials[window // 2::window]
        axes[0, 0].plot(at, smooth[0], **styles[name])
        axes[0, 0].fill_between(at, np.maximum(smooth[1], 1e-6), smooth[2], alpha=0.2, linewidth=0,
                                color=styles[name]["color"])
        norm = arrays["norm"][i]
        at = (np.arange(norm.shape[-1]) + 1) * arrays["block"]
        axes[0, 1].plot(at, norm[0], **styles[name])
        axes[0, 1].fill_between(at, norm[1], norm[2], alpha=0.2, linewidth=0,
                                color=styles[name]["color"])
    axes[0, 1].axhline(arrays["bound"], color="0.4", linewidth=0.9, linestyle=(0, (5, 1)),
                       label="Oja's closed bound, max |x| / |v|")
    axes[0, 0].set(yscale="log", ylim=(1e-4, 1e3), xlabel="trial (all outcomes reversed at half)",
                   ylabel="squared error an outcome",
                   title="Reversal, simulation (band: 95%)")
    axes[0, 1].set(yscale="log", ylim=(0.08, 300), xlabel="trial",
                   ylabel="largest column norm of W", title="Norm of the memory")
    for axis in axes[0]:
        axis.legend(frameon=False, fontsize=8, ncols=2, loc="upper left")
    axis = axes[1, 0]
    for i, q in enumerate(arrays["q"]):
        style = {"color": CONDITION_COLOURS[i]}
        axis.plot(arrays["fine_betas"], arrays["delta_fine"][i], **style)
        axis.plot(1 - arrays["fine_decays"], arrays["hebb_fine"][i], linestyle="--", **style)
        points_with_interval(axis, arrays["betas"], arrays["delta"][0, i], arrays["delta"][1:, i],
                             marker=CONDITION_MARKERS[i], label=f"q = {q:g}", **style)
        points_with_interval(axis, 1 - arrays["decays"], arrays["hebb"][0, i],
                             arrays["hebb"][1:, i], marker=CONDITION_MARKERS[i],
                             markerfacecolor="white", **style)
    axis.set(xscale="log", yscale="log", ylabel="excess error an outcome", ylim=(0.01, 6),
             xlabel="rate: beta of Delta, 1 - decay of Hebb",
             title="Steady drift: line theory, marker simulation (95%)")
    axis.legend(frameon=False, fontsize=8, ncols=2, loc="upper left", title_fontsize=8,
                title="filled, full line: Delta\nopen, dashed: Hebb with decay")
    axis = axes[1, 1]
    for label, found, interval, exact, colour, marker in (
            ("beta of Delta", "found_beta", "beta_interval", "exact_beta", "green", "o"),
            ("1 - decay of Hebb", "found_rate", "rate_interval", "exact_rate", "orange", "s")):
        points_with_interval(axis, arrays["q"], arrays[found], arrays[interval], marker=marker,
                             color=COLOURS[colour], label=f"{label}: simulation (95%)")
        axis.plot(arrays["q"], arrays[exact], color=COLOURS[colour], label=f"{label}: theory")
    axis.plot(arrays["q"], arrays["random_walk_beta"], color=COLOURS["green"], linestyle=":",
              label="beta of Delta: random-walk law")
    axis.set(xscale="log", yscale="log", xlabel="drift q, variance a trial", ylabel="best rate",
             ylim=(3e-3, 20), title="The best rate rises with the drift")
    axis.legend(frameon=False, fontsize=8, loc="upper left")
    return figure


def unlearning(arrays, claims):
    """What unlearning one association leaves of it and does to the others."""
    figure, axes = new_figure(2, 2, width=5.2, height=3.9)
    load, ways = arrays["loads"] / arrays["d"], list(arrays["ways"])
    for i, store in enumerate(("Hebbian", "delta")):
        filled = {} if i == 0 else {"markerfacecolor": "white"}
        line = "-" if i == 0 else "--"
        for k, way in enumerate(ways):
            style = {"color": CONDITION_COLOURS[k], "marker": CONDITION_MARKERS[k]} | filled
            for axis, m in ((axes[0, 0], 0), (axes[0, 1], 1)):
                points_with_interval(axis, load * (1 + 0.02 * (k - 1)),
                                     np.maximum(arrays["measured"][0, i, k, :, m], 1e-5),
                                     np.maximum(arrays["measured"][1:, i, k, :, m], 1e-5),
                                     label=f"{way}, {store} store", **style)
        axes[0, 1].plot(load, arrays["change"][i], line, color=CONDITION_COLOURS[0],
                        label=f"error correction, {store}: theory")
        axis = axes[1, 0]
        for m, colour, label in ((2, "black", "before"), (3, "blue", "after error correction")):
            style = {"color": COLOURS[colour]}
            axis.plot(load, arrays["error"][i, m - 2], line, **style)
            points_with_interval(axis, load, arrays["measured"][0, i, 0, :, m],
                                 arrays["measured"][1:, i, 0, :, m], **style, **filled,
                                 marker="os"[m - 2], label=f"{store} store, {label}")
    left = arrays["loads"]
    axes[0, 0].plot(load, (left - 1) / arrays["d"], "-", color=CONDITION_COLOURS[1],
                    label="(n - 1)/d: theory")
    axes[0, 0].axhline(arrays["kept"]**2, color=CONDITION_COLOURS[2], linestyle="--",
                       label="decay, delta store: theory")
    axes[0, 0].set(yscale="log", ylim=(5e-6, 1e4), xlabel="load n / d",
                   ylabel="|response|^2 left (1e-5: none)", title="The chosen association")
    axes[0, 1].set(yscale="log", ylim=(5e-3, 200), xlabel="load n / d",
                   ylabel="|change of response|^2", title="The others: change")
    axes[1, 0].set(xlabel="load n / d", ylabel="mean squared error", ylim=(-0.02, 1.4),
                   title="The others: error (line: theory)")
    for i, (store, line) in enumerate((("Hebbian", "-"), ("delta", "--"))):
        style = {"color": CONDITION_COLOURS[0], "marker": "os"[i]} | (
            {"markerfacecolor": "white"} if i else {})
        axes[1, 1].plot(arrays["overlaps"], arrays["overlap_theory"][i], line,
                        color=style["color"], label=f"{store} store: theory, rho^2 |o|^2")
        points_with_interval(axes[1, 1], arrays["overlaps"], arrays["overlap"][0, i],
                             arrays["overlap"][1:, i], label=f"{store} store: simulation (95%)",
                             **style)
    axes[1, 1].set(xlabel="overlap rho of an item's key with the target's",
                   ylabel="|change of its response|^2", title="One other, by overlap")
    for axis in axes.flat:
        axis.legend(frameon=False, fontsize=7.5, loc="upper left")
    return figure


def cost(arrays, claims):
    """CPU time and memory against the number of tokens."""
    figure, axes = new_figure(1, 2, width=5.0, height=4.0)
    for i, name in enumerate(arrays["names"]):
        T, seconds = arrays[f"{name} T"], arrays[f"{name} seconds"]
        style = {"color": CONDITION_COLOURS[i], "marker": CONDITION_MARKERS[i], "markersize": 4.5}
        label = "softmax attention" if name == "softmax" else f"linear attention, {name}"
        least = np.min(seconds, axis=0)
        axes[0, 0].plot(T, least, label=label, **style)
        axes[0, 0].fill_between(T, least, np.median(seconds, axis=0), alpha=0.2,
                                color=style["color"], linewidth=0)
        axes[0, 1].plot(T, arrays[f"{name} bytes"] / 1e6, label=label, **style)
        law = 2 if name in ("softmax", "parallel") else 1
        for axis, last in ((axes[0, 0], least[-1]), (axes[0, 1],
                                                     arrays[f"{name} bytes"][-1] / 1e6)):
            axis.plot(T, last * (T / T[-1]) ** law, color="0.3", linewidth=0.9,
                      linestyle=":" if law == 2 else "--")
    for axis, title, label in ((axes[0, 0], "Time: fastest repeat (band: to the median)",
                                "CPU seconds a sequence"),
                               (axes[0, 1], "Memory", "largest memory at any time, MB")):
        axis.plot([], [], ":", color="0.3", label="the paper's law: T squared")
        axis.plot([], [], "--", color="0.3", label="the paper's law: T")
        axis.set(xscale="log", yscale="log", xlabel="tokens T", ylabel=label, title=title)
        axis.legend(frameon=False, fontsize=8)
    return figure


# --------------------------------------------------------------------------------- trained models


# ------------------------------------------------------------------------------------- benchmark


# ---------------------------------------------------------------------- which experiment draws what

FIGURES = {
    # core
    # the atlas
    # quantitative results
    "capacity": (capacity,),
    "heads": (heads,),
    "depth": (depth,),
    "drift": (drift,),
    "unlearning": (unlearning,),
    "cost": (cost,),
    # trained models
    # benchmark
}
