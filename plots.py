"""Figures, each from the saved results of one experiment alone.

A figure is `name(arrays, claims) -> Figure`; the first line of its docstring is the sentence that
it shows and prints under its title. Colours are safe for colour-blind readers and never the only
difference.
"""

import re

import numpy as np
from matplotlib.figure import Figure

# Okabe & Ito (2008): told apart by colour-blind readers. Line styles and markers differ as well.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
STYLES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1)), (0, (3, 1, 1, 1, 1, 1)), (0, (1, 1)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X")


def panels(figure_function, columns, *, rows=1, width=4.2, height=3.5):
    """(figure, axes) with the figure's sentence, the first line of its docstring, as its title."""
    figure = Figure(figsize=(columns * width, rows * height + 0.4), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    figure.suptitle((figure_function.__doc__ or "").partition("\n")[0], fontsize=11)
    for axis in axes:
        axis.spines[["top", "right"]].set_visible(False)
    return figure, axes


def lines(axis, x, curves, *, first=0, **style):
    """One line a label: curves {label: y}."""
    for i, (label, y) in enumerate(curves.items(), first):
        axis.plot(x, y, color=COLOURS[i % 7], linestyle=STYLES[i % 7], label=label, **style)


def points(axis, x, mean, low, high, *, label="", index=0, **style):
    """Means with their intervals."""
    axis.errorbar(x, mean, [np.subtract(mean, low), np.subtract(high, mean)], label=label,
                  fmt=MARKERS[index % 7], color=COLOURS[index % 7], markersize=4, capsize=2,
                  **style)


def finish(axis, title, x, y, *, legend=True, **scales):
    """Title, axis labels with units, scales (xscale="log") and the legend of one panel."""
    axis.set(title=title, xlabel=x, ylabel=y, **scales)
    axis.title.set_fontsize(10)
    if legend:
        axis.legend(fontsize=7, frameon=False)


# ---------------------------------------------- equivalence to associability (P1, A1 - A5, A8, A9)


def named_rows(axis, names):
    """The names down the y axis, the first one on top."""
    axis.set_yticks(range(len(names)), names, fontsize=7)
    axis.invert_yaxis()


def equivalence(arrays, claims):
    """Layers equal their rules to rounding; RetNet's decay is no stimulus trace."""
    figure, (left, right) = panels(equivalence, 2, width=5.4)
    names = arrays["layers"].tolist()
    left.plot(np.maximum(arrays["errors"], 1e-17), range(len(names)), "o", label="measured")
    left.axvline(1e-12, color="0.3", linestyle="--", label="bound")
    named_rows(left, names)
    finish(left, "Layer against its learning rule, all forms",
           "largest difference (0 is drawn at $10^{-17}$)", "", xscale="log")
    for i, pairings in enumerate(("once", "twice")):
        trace, decay = arrays[pairings]
        lines(right, arrays["gaps"], {f"stimulus trace, {pairings}": trace}, first=i)
        right.plot(arrays["gaps"], decay, MARKERS[i], color=COLOURS[i], fillstyle="none",
                   label=f"RetNet, {pairings}")
    finish(right, "A cue paired once, and twice (decay .8)",
           "gap in trials: before the US (trace), before the test (RetNet)", "strength",
           ylim=(0, None))
    return figure


def blocking(arrays, claims):
    """Blocking follows its closed form; at rate beta / B mini-batches weaken it."""
    figure, (left, right) = panels(blocking, 2, width=5.4)
    trials, names = np.arange(arrays["closed"].shape[1]), [f"beta {b:g}" for b in arrays["betas"]]
    lines(left, trials, dict(zip(names, arrays["closed"], strict=True)))
    lines(right, arrays["sizes"], dict(zip([f"{name} / B" for name in names] + ["fixed rate .05"],
                                           arrays["dial"], strict=True)))
    for axis, x, simulated in ((left, trials, arrays["simulated"]),
                               (right, arrays["sizes"], arrays["frozen"])):
        for i, curve in enumerate(simulated):
            axis.plot(x, curve, MARKERS[i], color=COLOURS[i], fillstyle="none", markersize=4)
    finish(left, "X after 20 A+: closed form, DeltaNet (points)", "trials of AX+",
           "response to X (US 1)", xticks=trials[::5])
    finish(right, "Error frozen for B trials, 32 A+ | 32 AX+", "mini-batch B", "blocked / control",
           xscale="log", xticks=arrays["sizes"], xticklabels=arrays["sizes"])
    right.minorticks_off()
    return figure


def competition(arrays, claims):
    """Cues compete where they share one error, and only there."""
    figure, (left, right) = panels(competition, 2, width=5.4)
    phenomena = arrays["phenomena"].tolist()
    for i, (name, effect) in enumerate(zip(arrays["learners"], arrays["effects"].T, strict=True)):
        left.plot(effect, np.arange(len(phenomena)) + 0.1 * (i - 3), MARKERS[i], color=COLOURS[i],
                  label=name)
    named_rows(left, phenomena)
    left.axvline(0, color="0.7", linewidth=0.8)
    finish(left, "Effect on X in the direction of animals", "difference of the groups (US 1)", "")
    ratio = np.linspace(1, 5, 50)
    lines(right, ratio, {"1/3 - (2/3) b+ / (b+ + b-)": 1 / 3 - 2 / 3 * ratio / (ratio + 1)})
    right.plot(arrays["ratios"], arrays["resting"].mean(0), "s", color=COLOURS[3],
               label="Rescorla-Wagner, random orders")
    finish(right, "Relative validity: AX+/BX- less AX+/BX+/AX-/BX-",
           "rate of reinforced over rate of unreinforced trials", "difference in X (US 1)")
    return figure


def recovery(arrays, claims):
    """Slow and fast decays recover by themselves; PH-attention moves through shared features."""
    figure, (left, right) = panels(recovery, 2, width=5.4)
    for i, fast in enumerate(arrays["grid"][-1, :, 1]):
        curve = arrays["response"][1, -1, i]
        lines(left, np.arange(len(curve)), {f"fast decay {fast:g}": curve}, first=i)
        left.axvline(arrays["peaks"][1, -1, i], ymax=0.06, color=COLOURS[i])
    finish(left, "KDA, slow decay .998 (ticks: peaks in theory)", "blank trials since extinction",
           "response to A (US 1)", ylim=(0, 0.2))
    low, median, high = np.percentile(arrays["changes"], (2.5, 50, 97.5), axis=1)
    right.errorbar(median, range(3), xerr=[median - low, high - median], fmt="o", capsize=3)
    named_rows(right, ["extinguished,\nfillers without US", "always paired,\nfillers without US",
                       "never shown,\nfillers with US"])
    right.axvline(0, color="0.7", linewidth=0.8)
    finish(right, "PH-attention, dense orthogonal fillers",
           "change of the response to A (median, 95% of the codes)", "", legend=False)
    return figure


def associability(arrays, claims):
    """Pearce-Hall's rate follows past errors, MesaNet's exposure, and DeltaNet's neither."""
    figure, (left, right) = panels(associability, 2, width=5.4)
    rules = arrays["rules"].tolist()
    for i, (history, rate) in enumerate(zip(("US on half of 20 trials", "half the US on 20 trials"),
                                            arrays["after"], strict=True)):
        left.plot(rate, range(len(rules)), MARKERS[i], color=COLOURS[1 - i], label=history,
                  markersize=10 - 4 * i, fillstyle="none")
    named_rows(left, rules)
    finish(left, "After histories of equal exposure", "first-trial rate", "", xlim=(0, None))
    lines(right, arrays["exposure"], {rule: rate / rate[0] for rule, rate in
                                      zip(rules, arrays["used"], strict=True)})
    finish(right, "After exposure without the US", "trials of exposure",
           "first-trial rate over that of a novel cue", ylim=(0, 1.05))
    return figure


# --------------------------------------------------------------------------------------- the atlas

ATLAS_CELLS = {1: ("+", "shows what animals do", COLOURS[0], "white"),
               0: ("\u00b7", "no effect", "white", "black"),
               -1: ("\u2212", "the opposite (for =: a difference)", COLOURS[4], "black"),
               2: ("", "not asked: the rule lacks what comes first (extinction, blocking, "
                   "inhibition, time steps)", "0.88", "black")}
ATLAS_LEGEND = """\
How to read a row. Blocking: the response to X after A+ | AX+ is less than after _ | AX+, where _ \
is an empty trial. Numbers of trials and sources: phenomena.csv. Left of the gap: rules that equal \
an attention layer.
The hybrid (Li et al. 2011): Rescorla-Wagner's error, the associability of Pearce & Hall (1980). \
Mackintosh 1975: alpha also falls on ties; linear form: Le Pelley et al. 2016.
?  holds in fewer than half of the settings (rates, trials, saliences)        ~  effect within a \
factor 1.5 of the threshold, which is .02 of the US; a + so marked is counted
Rates: Hebb .05; Mackintosh .2 (theta .2, alpha .5, fall .1); Kalman noise 1, drift .01; softmax \
scale 4; all others .1, with decay .98, eta .2 and alpha .8, trace .9 and discount .98.
RW is Rescorla-Wagner. A compound is the sum of its cues; for softmax attention every stimulus, \
also a compound, has length 1."""


def atlas(arrays, claims):
    """Of 40 comparisons Hebb shows 1 or 2, Rescorla-Wagner about half, no rule all."""
    verdict = arrays["verdict"]
    groups, first = np.unique(arrays["group"], return_index=True)
    y = np.arange(len(verdict)) + 1.3 * np.cumsum(np.isin(np.arange(len(verdict)), first))
    x = 1.17 * np.arange(verdict.shape[1]) + 0.4 * (arrays["layer"] == "")
    marks = np.char.add(np.where((arrays["share"] < 0.5) & (verdict != 2), "?", ""),
                        np.where(arrays["near"], "~", ""))
    figure = Figure(figsize=(12, 13.8))
    axis = figure.add_axes((0.01, 0, 0.98, 0.97), xlim=(-21.5, 22), ylim=(y[-1] + 21, -8.2))
    axis.axis("off")

    def write(place, height, words, size=7.5, **style):
        axis.text(place, height, words, fontsize=size, **{"va": "center"} | style)

    for kind, (sign, word, colour, ink) in ATLAS_CELLS.items():
        rows, columns = np.nonzero(verdict == kind)
        axis.barh(y[rows], 1.1, 0.9, x[columns] - 0.55, color=colour, edgecolor="0.7",
                  linewidth=0.5, label=f"{sign}  {word}")
        for row, column in zip(rows, columns, strict=True):
            write(x[column], y[row], sign + marks[row, column], 8.5, color=ink, ha="center")
    noted = np.where(arrays["caveat"] == "", "", " *")
    for place, head, texts in ((-21.5, "finding", np.char.add(arrays["name"], noted)),
                               (-12.2, "what animals do (<, >, =)", arrays["contrast"]),
                               (-3.7, "species", arrays["species"])):
        for height, words in zip([-0.9, *y], [head, *texts], strict=True):
            write(place, height, words)
    for group, height in zip(groups, y[first], strict=True):
        write(-21.5, height - 1, group, 8.5, weight="bold")
    for place, rule, layer, shown in zip(x, arrays["rule"], arrays["layer"],
                                         (verdict == 1).sum(0), strict=True):
        write(place - 0.2, 0.6, rule + f"\n= {layer}" * bool(layer), rotation=68, ha="left",
              rotation_mode="anchor")
        write(place, y[-1] + 1.2, shown, 8.5, ha="center", weight="bold")
    write(-3.7, y[-1] + 1.2, f"+ of {len(y)}:", 8.5, weight="bold")
    notes = [f"* {name}: {caveat}" for name, caveat in zip(arrays["name"], arrays["caveat"],
                                                           strict=True) if caveat]
    write(-21.5, y[-1] + 2.5, "\n".join([ATLAS_LEGEND, *notes]), va="top")
    axis.legend(loc="upper left", frameon=False, fontsize=8)
    axis.set_title((atlas.__doc__ or "").partition("\n")[0], fontsize=11)
    return figure


# -------------------------------------------------------------------------- capacity, heads, depth


def capacity(arrays, claims):
    """The exponents 1.22 and 1.89 are finite-size values of 1, and of 2 with a logarithm."""
    figure, axes = panels(capacity, 3)
    large, dims, worst = arrays["large"], arrays["dimensions"], arrays["worst"]
    for i, kind in enumerate(("faithful: 95% at cosine .7", "identified: 95%")):
        lines(axes[0], large, {f"{kind}, theory": arrays["limits"][i]}, first=i)
        points(axes[0], dims, *arrays["capacity"][:, i], index=i, label=f"{kind}, simulated")
        lines(axes[1], np.sqrt(large[1:] * large[:-1]), {f"{kind}, theory": arrays["local"][i]},
              first=i)
        axes[1].axhline(i + 1, color="0.8", linewidth=0.8)
        axes[1].plot(dims[[0, -1]], [(1.22, 1.89)[i]] * 2, ":", color=COLOURS[i],
                     label=f"paper: {(1.22, 1.89)[i]}")
    finish(axes[0], "Capacity under Hebb", "features d", "pairs n", xscale="log", yscale="log")
    finish(axes[1], "Its exponent (grey: limits)", "features d", "local slope of log n over log d",
           xscale="log", ylim=(0.9, 2.3))
    lines(axes[2], worst, {"closed form": arrays["safe_theory"] / worst**0.5}, first=2)
    points(axes[2], worst, *arrays["safe"] / worst**0.5, index=2, label="simulated")
    axes[2].axhline(np.sqrt(np.pi / 8), color="0.5", linestyle=":", label="limit, √(π/8)")
    finish(axes[2], "Worst case: no signs sum to 1/2", "features d", "n / √d", xscale="log")
    return figure


def heads(arrays, claims):
    """Heads are capacity, best averaged; P3's (n/d)^H is a loose bound, the failure exponential."""
    figure, axes = panels(heads, 3)
    state, parts = arrays["grid"].prod(axis=-1), arrays["parts"][:, :2].prod(axis=-1)
    points(axes[0], state, *arrays["error"], label="independent keys, 1 to 16 heads")
    points(axes[0], parts[-1:], *arrays["shared"][:, -1:], index=1, label="slices of one rotation")
    points(axes[0], parts[:-1], *arrays["shared"][:, :-1], index=2,
           label="projections of shared keys")
    axes[0].plot(parts[:-1], arrays["theory"][:-1], "k_", markersize=12, label="theory with g²")
    axes[0].plot(state, (arrays["n"] - 1) / state, color="0.5", label="theory: (n - 1) / (H d)")
    finish(axes[0], "Averaged heads, n = 32", "state H d", "squared error", xscale="log",
           yscale="log")
    n, d = arrays["cells"].T
    for i, (few,) in enumerate(arrays["few"]):
        lines(axes[1], arrays["dims"], {f"n = {few}": arrays["failure"][i]}, first=i)
        axes[1].plot(arrays["dims"], few / arrays["dims"], ":", color=COLOURS[i])
        points(axes[1], d[n == few], *arrays["failures"][:, n == few, 0, 0], index=i)
    finish(axes[1], "One head (markers: simulated; dotted: P3, n/d)", "features d",
           "share of pairs missed", yscale="log", ylim=(1e-12, 20))
    for i, (label, power) in enumerate({"one head: p": 1, "none of 4 right": 4}.items()):
        lines(axes[2], arrays["loads"], {f"p^{power}": arrays["missed"][0, :, 0]**power}, first=i)
        points(axes[2], arrays["loads"], *arrays["missed"][..., i], index=i, label=label)
    points(axes[2], arrays["loads"][-1:], *arrays["together"][:, 3:], index=2, label="average of 4")
    points(axes[2], arrays["loads"][-1:], *arrays["projected"][:, 2:3], index=3,
           label="none of 4 right, projected keys")
    finish(axes[2], "Read-outs of heads of 32 features", "pairs n", "share of pairs missed",
           yscale="log")
    return figure


def depth(arrays, claims):
    """Cleaned stacks err at most L r; without clean-up only a converged delta rule stays exact."""
    figure, axes = panels(depth, 3)
    errors, hops = arrays["errors"][0], np.arange(1, arrays["cleaned"].shape[-1] + 1)
    for i, (n, r) in enumerate(zip(arrays["loads"], arrays["single"][0], strict=True)):
        lines(axes[0], hops, {f"n = {n}: 1 - (1 - r)^L": 1 - (1 - r) ** hops}, first=i)
        axes[0].plot(hops, r * hops, ":", color=COLOURS[i], label=f"n = {n}: L r")
        points(axes[0], hops, *arrays["cleaned"][:, i], index=i, label=f"n = {n}: simulated")
    finish(axes[0], "Clean-up after each hop, d = 32", "hops L", "share of wrong items",
           yscale="log", xticks=range(0, len(hops) + 1, 4))
    lines(axes[1], np.arange(1, errors.shape[-1] + 1),
          dict(zip(arrays["rules"], np.maximum(errors, 2e-3), strict=True)))
    axes[1].axhline(1, color="0.8", linewidth=0.8)
    finish(axes[1], "No clean-up, n = 24 (converged: 0; grey: no answer)", "hops L",
           "squared error", yscale="log", ylim=(1e-3, 1e7))
    for i, (d, n, count, _) in enumerate(arrays["settings"]):
        points(axes[2], np.arange(4) + 0.15 * (i - 1), *arrays["arms"][:, i], index=i,
               label=f"d = {d}, n = {n}, {count} hops")
    axes[2].set_xticks(range(4), ("deep, level known", "wide, level known", "wide, all items",
                                  "wide, one hop"), rotation=30, ha="right")
    finish(axes[2], "Equal state, clean-up to items", "", "share of wrong chains",
           ylim=(-0.02, 0.75))
    return figure


# ----------------------------------------------------- drift, lag, unlearning and cost (P4 - P7)


def drift(arrays, claims):
    """Hebb grows for ever; Oja is bounded, but unlearns in one reading only; Delta tracks best."""
    figure, (left, middle, right) = panels(drift, 3)
    rules = arrays["rules"]
    lines(left, np.arange(600) + 1, dict(zip(rules, arrays["norms"], strict=True)))
    finish(left, "Norm of the memory (outcomes reversed at 300)", "trial", "|W|", yscale="log")
    lines(middle, np.arange(201), dict(zip(rules, arrays["omission"], strict=True)))
    finish(middle, "Omission after 20 trials with outcome 1 (Hebb stays at 4)", "omitted outcomes",
           "response", ylim=(-0.05, 1.2), legend=False)
    for rule, name in enumerate(("Delta", "Hebb with decay")):
        for i, q in enumerate(arrays["q"]):
            lines(right, arrays["rates"][rule], {f"{name}, q = {q:g}": arrays["curves"][i, rule]},
                  first=3 * rule + i)
            points(right, arrays["rates"][rule, ::200], *arrays["errors"][:, i, rule],
                   index=3 * rule + i)
    finish(right, "Steady drift of q a trial (points: simulation)",
           "rate: beta of Delta, 1 - decay of Hebb",
           "excess squared error", xscale="log", yscale="log", ylim=(0.03, 20))
    return figure


def lag(arrays, claims):
    """New items push out old ones: all alike under Hebb, the oldest first under decay and Delta."""
    figure, (left, middle, right) = panels(lag, 3)
    d, loads = arrays["d"], arrays["loads"]
    lags = np.arange(4 * d + 1) + 1
    shown = np.geomspace(1, 4 * d, 12).astype(int) - 1
    for i, rule in enumerate(("Hebb", "Hebb, decay 1 - 1/d", "Delta", "Delta, decay 1 - 1/d")):
        lines(left, lags, {rule: arrays["curves"][i, 3]}, first=i)
        points(left, lags[shown], *arrays["curves"][i, :3, shown].T, index=i)
    left.axhline(1, color="0.6", label="answering 0")
    finish(left, f"d {d}, {4 * d + 1} pairs, beta 1 (points: simulation)",
           "tokens since the item (1: the last one)", "mean |r - v|^2", xscale="log")
    names = [f"{rule}, beta {beta}" for rule in ("Hebb", "Delta") for beta in (0.25, 0.5, 1)]
    lines(middle, arrays["forgotten"],
          dict(zip(names, arrays["useful"].reshape(6, -1), strict=True)))
    finish(middle, "Useful context in a stream without end (theory)", "1 - decay",
           "items better than answering 0, over d", xscale="log")
    lines(right, loads, {"1/sqrt(1 + (n - 1)/d)": 1 / np.sqrt(1 + loads)})
    points(right, loads, *arrays["fidelity"])
    finish(right, "Fidelity of Hebb (points: simulation)", "(n - 1)/d, n associations", "r.v / |r|",
           ylim=(0, 1.05))
    return figure


def unlearning(arrays, claims):
    """One omission unlearns the chosen response; others pay about 1/d each, similar ones more."""
    figure, axes = panels(unlearning, 3)
    load, paid, theory = arrays["loads"] / arrays["d"], arrays["paid"], arrays["theory"]
    lines(axes[1], load, {"Hebbian store, before": load - 1 / arrays["d"]}, first=2)
    for axis, title, x, across, found, closed in zip(
            axes, ("The others: |change of response|^2",
                   "The others: |response - value|^2 afterwards",
                   "One other: |change of response|^2"), (load, load, arrays["overlaps"]),
            ("load n / d", "load n / d", "overlap of its key with the chosen one"),
            (paid[:, 0], paid[:, 1], arrays["similar"].swapaxes(1, 2)),
            (*theory, arrays["by_overlap"].T), strict=True):
        for i, store in enumerate(("Hebbian store", "delta store")):
            lines(axis, x, {f"{store}, theory": closed[i]}, first=i)
            points(axis, x, *found[:, i], index=i)
        finish(axis, title, across, "mean square (points: simulation)", ylim=(0, None))
    return figure


def cost(arrays, claims):
    """Softmax and parallel attention cost T^2, recurrent and chunkwise attention T."""
    figure, (axis,) = panels(cost, 1, width=7)
    laws = {"softmax": 2, "parallel": 2, "recurrent": 1, "chunkwise": 1}
    for i, (form, law) in enumerate(laws.items()):
        T, seconds = arrays[form]
        points(axis, T, seconds, seconds, seconds, index=i)
        lines(axis, T, {f"{form}: slope {law}": seconds[-1] * (T / T[-1]) ** law}, first=i)
    finish(axis, "Points: measured; lines: through the last point", "tokens T",
           "CPU seconds a sequence", xscale="log", yscale="log")
    return figure


# --------------------------------------------------------------------- trained layers (A5, A8, A9)


def trained(arrays, claims):
    """Trained layers do as their rules do; only PH-attention's rates depend on past errors."""
    figure, (left, middle, right) = panels(trained, 3, width=4.8, height=3.8)
    layers, effects, histories = (
        [str(name) for name in arrays[key]] for key in ("layers", "effects", "histories"))
    for i, layer in enumerate(layers[:7]):
        points(left, np.arange(5) + 0.11 * (i - 3), *arrays["index_interval"][:, :5, i], index=i,
               label=layer)
    left.plot([-0.4, 0.4], 2 * [0.5**0.5], "k:", label="blocking in closed form, 1/sqrt 2")
    left.axhline(0, color="0.8", linewidth=0.8, zorder=0)
    left.set_xticks(range(5), [effect.replace(" ", "\n").replace("over", "over-\n")
                               for effect in effects[:5]], fontsize=8)
    finish(left, "Six layers without positions, one with", "", "index (0: none)",
           ylim=(-1.1, 2.2))
    for i, layer in enumerate(layers[4:], 4):
        tested, never_shown = np.moveaxis(arrays["recovery_interval"][..., i], 1, 0)
        points(middle, arrays["fillers"] + 0.3 * (i - 5), *tested, index=i, label=layer)
        lines(middle, arrays["fillers"], {"": never_shown[0]}, first=i, linewidth=0.8)
    middle.plot([], [], "0.4", linewidth=0.8, label="lines: a cue never shown")
    finish(middle, "Response to an extinguished cue", "orthogonal fillers before the test",
           "response (outcome 1)", ylim=(-0.02, 0.2))
    for i in (2, 5, 4):
        for other, face in ((0, None), (1, "white")):
            points(right, np.arange(3) + 0.12 * (i - 4) + 0.05 * other,
                   *arrays["rate_interval"][:, :, other, i], index=i, mfc=face,
                   label=layers[i] + ", history of another cue" * other)
    right.set_xticks(range(3), histories, fontsize=8)
    finish(right, "Rate of the first trial with a new outcome", "outcome in six trials before",
           "what one trial leaves", ylim=(0.4, 1.5))
    return figure


# --------------------------------------------------------------------------- a design of one's own


def design(rows, us):
    """Strength V and associability of every cue after each trial.

    rows: those of design.csv; us: sizes of + and ++, the dotted lines. A panel for each rule and
    quantity. The first group is solid, the second broken; bands are 95% intervals over orders,
    grey lines the ends of phases.
    """
    curves, sizes = {}, set()
    for rule, group, trial, phase, stimulus, quantity, cue, *numbers in rows:
        sizes |= {us[len(plus) - 1] for plus in re.findall(r"\++", stimulus)}
        if cue:
            curves.setdefault((rule, quantity), {}).setdefault((cue, group), []).append(
                (trial, phase, *numbers))
    figure, axes = panels(design, len(curves))
    for axis, ((rule, quantity), lines) in zip(axes, curves.items(), strict=True):
        for (cue, group), places in lines.items():
            trials, phases, mean, low, high = np.array(places, dtype=float).T
            i, line = sorted({cue for cue, _ in lines}).index(cue) % 7, STYLES[group == "control"]
            axis.plot(trials, mean, color=COLOURS[i], linestyle=line, marker=MARKERS[i],
                      markevery=0.1, markersize=4, label=f"{cue}, {group}")
            axis.fill_between(trials, low, high, color=COLOURS[i], alpha=0.2, linewidth=0)
            for end in trials[:-1][np.diff(phases) > 0]:
                axis.axvline(end + 0.5, color="0.8", linestyle=line, linewidth=0.8)
        for size in sizes if quantity == "V" else ():
            axis.axhline(size, color="0.5", linestyle=":", linewidth=1)
        axis.xaxis.get_major_locator().set_params(integer=True)
        finish(axis, rule, "trial", {"V": "strength V (dotted: size of the US)"}.get(
            quantity, "associability"), legend=False)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=8,
                  fontsize=8)
    return figure
