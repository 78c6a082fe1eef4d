"""The figures: one function each, drawn from saved results alone.

A figure is `name(arrays, claims) -> matplotlib Figure`: arrays as saved in <experiment>.npz, claims
as in claims.json. `FIGURES` says which experiment draws which; a figure is saved as <name>.png.
Colours are those of Okabe & Ito (2008), told apart by colour-blind readers; line styles and
markers tell them apart in grey print.
"""

import itertools

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

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


VERDICTS = {1: ("shows it", "blue", "+", "white"), 0: ("no effect", "white", "\u00b7", "black"),
            -1: ("the opposite", "orange", "\u2212", "black")}


def atlas(arrays, claims):
    """The matrix: one row a phenomenon, the animals first, then one column a rule."""
    rows, columns = arrays["verdict"].shape
    figure, axes = new_figure(width=10.4, height=11.6)
    axis = axes[0, 0]
    axis.set(xlim=(-2.6, columns + 0.9), xticks=[], yticks=[])
    axis.spines[:].set_visible(False)
    y, ticks, group = 0.0, [], None
    for row in range(rows):
        if arrays["groups"][row] != group:
            group = str(arrays["groups"][row])
            y += 1.25
            axis.text(-2.75, y - 0.85, group, weight="bold", size=9, ha="right", va="center")
        ticks.append(y)
        finding = {-1: "lower", 0: "same", 1: "higher"}[int(arrays["findings"][row])]
        axis.text(-1.3, y, finding, ha="center", va="center", size=8)
        for column in range(columns):
            found = int(arrays["verdict"][row, column])
            _, colour, symbol, ink = VERDICTS[found]
            doubt = "?" if arrays["shares"][row, column, 1 - found] < 0.5 else ""
            axis.add_patch(Rectangle((column - 0.47, y - 0.45), 0.94, 0.9, edgecolor="0.75",
                                     facecolor=COLOURS.get(colour, colour), linewidth=0.6))
            axis.text(column, y, symbol + doubt, ha="center", va="center", size=10, color=ink)
        y += 1
    axis.set_ylim(y, -3.6)
    axis.set_yticks(ticks, arrays["names"], size=8.5)
    axis.tick_params(length=0)
    axis.text(-1.3, -0.1, "animals'\nexperimental\ngroup", ha="center", va="bottom", size=8)
    for column in range(columns):
        label = str(arrays["rules"][column])
        if arrays["layers"][column]:
            label += f"\n= {arrays['layers'][column]}"
        axis.text(column, -0.1, label, rotation=55, ha="left", va="bottom", size=8)
    axis.legend(handles=[
        Patch(facecolor=COLOURS.get(colour, colour), edgecolor="0.5", label=f"{symbol}  {word}")
        for word, colour, symbol, _ in VERDICTS.values()] + [
        Patch(facecolor="none", edgecolor="none", label="?  in fewer than half of the settings")],
        loc="upper center", bbox_to_anchor=(0.4, 0), ncols=4, frameon=False, fontsize=9)
    return figure


def phenomena_curves(arrays, claims):
    """The best-known phenomena: response to the test stimulus after each trial, both groups.

    The scale is the same in all panels; Hebb, which has no asymptote, leaves it.
    """
    figure, axes = new_figure(2, 4, width=3.4, height=3.1)
    looks = (("black", "o"), ("blue", "s"), ("orange", "^"), ("green", "D"))
    for place, axis in enumerate(axes.flat):
        ends = arrays["curve_ends"][place]
        length = int(ends.max())
        for rule, (colour, marker) in enumerate(looks):
            for group, style in enumerate(("-", "--")):
                label = f"{arrays['curve_rules'][rule]} = {arrays['curve_layers'][rule]}"
                axis.plot(range(1, length + 1), arrays["curves"][place, rule, group, :length],
                          style, color=COLOURS[colour], linewidth=1.5, marker=marker, markersize=4,
                          markevery=(rule * length // 20, max(1, length // 5)),
                          label=label if group == 0 else None)
        for end in ends[(ends > 0) & (ends < length)]:
            axis.axvline(end + 0.5, color="0.7", linewidth=0.8)
        experimental, control = arrays["curve_designs"][place]
        axis.set_title(f"{arrays['curve_names'][place]}\n\u2014\u2014 {experimental}\n"
                       f"- - - {control}", size=8.5)
        axis.set(ylim=(-1.15, 2.15), xlim=(1, length), xlabel="trial",
                 ylabel="response (\u03bb = 1)" if place % 4 == 0 else None)
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=4,
                  frameon=False)
    return figure



def design(groups, layers):
    """A user's design: response on each trial, a panel for each group and rule, a line a stimulus.

    groups: {title: (trials [(phase, trial)], {rule or layer: responses})}; layers: {rule: layer}.
    """
    names = [name for name in next(iter(groups.values())).columns if name not in layers.values()]
    figure, axes = new_figure(len(groups), len(names), width=4.2, height=3.2)
    looks = itertools.cycle(itertools.product(("-", "--", ":"), zip(
        ("blue", "orange", "green", "black", "red", "purple", "sky"), "os^Dv<>", strict=True)))
    stimuli = dict.fromkeys(trial.cues for group in groups.values() for _, trial in group.trials
                            if trial.cues)
    stimuli = {cues: look for cues, look in zip(stimuli, looks, strict=False)}
    for row, (title, group) in zip(axes, groups.items(), strict=True):
        phases = np.array([phase for phase, _ in group.trials])
        for axis, above, name in zip(row, axes[0], names, strict=True):
            if axis is not above:
                axis.sharey(above)
            for cues, (style, (colour, marker)) in stimuli.items():
                shown = [t for t, (_, trial) in enumerate(group.trials) if trial.cues == cues]
                axis.plot(np.array(shown) + 1, group.columns[name][shown], style, marker=marker,
                          color=COLOURS[colour], markersize=4, linewidth=1.3, label=cues,
                          markevery=max(1, len(shown) // 12))
            for end in np.flatnonzero(np.diff(phases)):
                axis.axvline(end + 1.5, color="0.7", linewidth=0.8)
            axis.set(title=f"{name} = {layers[name]}" if name in layers else name,
                     xlabel="trial", xlim=(0.3, 1.02 * len(phases) + 0.7))
        row[0].set_ylabel(f"{title}: response (\u03bb = 1)")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center",
                  ncols=min(len(stimuli), 8) or 1, title="stimulus", frameon=False)
    return figure


# -------------------------------------------------------------------------- quantitative results


# --------------------------------------------------------------------------------- trained models


# ------------------------------------------------------------------------------------- benchmark


# ---------------------------------------------------------------------- which experiment draws what

FIGURES = {
    # core
    # the atlas
    "phenomena": (atlas, phenomena_curves),
    # quantitative results
    # trained models
    # benchmark
}
