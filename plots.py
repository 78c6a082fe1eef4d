"""The figures: one function each, drawn from saved results alone.

A figure is `name(arrays, claims) -> matplotlib Figure`: arrays as saved in <experiment>.npz, claims
as in claims.json. `FIGURES` says which experiment draws which; a figure is saved as <name>.png.
Colours are those of Okabe & Ito (2008), told apart by colour-blind readers; line styles and
markers tell them apart in grey print.
"""

import functools
import itertools

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

COLOURS = {"black": "#000000", "orange": "#E69F00", "sky": "#56B4E9", "green": "#009E73",
           "blue": "#0072B2", "red": "#D55E00", "purple": "#CC79A7"}
STYLES = ["-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 3))]
SERIES = list(zip(("blue", "orange", "green", "purple", "black", "sky"), STYLES, strict=True))


def new_figure(rows=1, columns=1, *, width=4.6, height=3.6):
    """(Figure, axes array) of panels of width x height inches, without the top and right frame."""
    figure = Figure(figsize=(columns * width, rows * height), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False)
    for axis in axes.flat:
        axis.spines[["top", "right"]].set_visible(False)
    return figure, axes


@functools.cache
def student_quantile(freedom):
    """97.5% quantile of Student's t with a whole number of degrees of freedom, >= 1.

    Bisection of P(|t| < sqrt(freedom) tan(angle)) = 95% with its finite sums (Abramowitz & Stegun
    1964, 26.7.3 and 26.7.4).
    """
    powers = np.arange(freedom % 2, freedom - 1, 2)
    terms = np.cumprod(np.where(powers < 2, 1.0, (powers - 1) / np.maximum(powers, 1)))
    low, high = 0.0, np.pi / 2
    for _ in range(60):
        angle = (low + high) / 2
        share = np.sin(angle) * np.sum(terms * np.cos(angle)**powers)
        share = share if freedom % 2 == 0 else (angle + share) * 2 / np.pi
        low, high = (low, angle) if share > 0.95 else (angle, high)
    return float(np.sqrt(freedom) * np.tan(angle))


def mean_and_half(samples, axis=0):
    """Mean over replicates and half of its 95% interval (Student's t, independent replicates)."""
    n = samples.shape[axis]
    error = np.std(samples, axis=axis, ddof=1) / np.sqrt(n)
    return np.mean(samples, axis=axis), student_quantile(n - 1) * error


# ------------------------------------------------------------------------------------------ core


def equivalence(arrays, claims):
    """Difference between each rule and its attention, by length, under the bound."""
    figure, axes = new_figure(width=8.4, height=4.0)
    axis, names, lengths = axes[0, 0], arrays["names"], arrays["lengths"]
    rows = range(len(names))
    for column, (length, marker) in enumerate(zip(lengths, "ovs^D", strict=False)):
        axis.plot([max(error, 1e-17) for error in arrays["errors"][:, column]], rows, marker,
                  color=grey_shade(column, len(lengths)), label=f"T = {length}", markersize=5)
    axis.axvline(1e-12, color=COLOURS["red"], linestyle="--")
    axis.text(8e-13, len(names) - 1, "bound", color=COLOURS["red"], va="center", ha="right")
    axis.set_xscale("log")
    axis.set_xlim(5e-18, 2e-12)
    axis.set_yticks(rows, [f"{name} = {twin}" for name, twin in zip(names, arrays["twins"],
                                                                    strict=True)])
    axis.invert_yaxis()
    axis.set_xlabel("largest relative difference of a token (float64)")
    axis.set_title("Attention, in all its forms, against the learning rule", fontsize=10)
    axis.legend(fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5), title="tokens")
    return figure


def grey_shade(index, count):
    """Grey level for item `index` of `count`, dark to light."""
    return str(0.7 * index / max(count - 1, 1))


def blocking(arrays, claims):
    """Blocked strength, closed form and simulation; their difference; the index by pretraining."""
    figure, axes = new_figure(1, 3)
    curves, errors, index = axes[0]
    for row, (beta, (colour, style)) in enumerate(zip(arrays["betas"], SERIES, strict=False)):
        curves.plot(arrays["blocks"], arrays["closed"][row], color=COLOURS[colour],
                    linestyle=style, label=f"$\\beta$ = {beta:g}")
        curves.plot(arrays["blocks"][::3], arrays["simulated"][row][::3, 1], "o",
                    color=COLOURS[colour], markersize=4, fillstyle="none")
    curves.set(xticks=range(0, len(arrays["blocks"]), 5), xlabel="trials of AX+",
               ylabel="response to X ($\\lambda$ = 1)",
               title="X after A+ training: closed form (lines),\nattention (circles)")
    curves.legend(fontsize=8)
    for column, (name, marker) in enumerate((("as a rule", "o"), ("as attention", "s"))):
        errors.plot(arrays["betas"], [max(e, 1e-17) for e in arrays["errors"][:, column]], marker,
                    label=name, color=(COLOURS["blue"], COLOURS["orange"])[column],
                    fillstyle="none" if column else "full")
    for level, style, name in ((1e-7, ":", "arXiv 2508.08289: < $10^{-7}$"),
                               (1e-12, "--", "our bound")):
        errors.axhline(level, color=COLOURS["red"], linestyle=style, label=name)
    errors.set(yscale="log", ylim=(5e-18, 1e-5), xlabel="learning rate $\\beta$",
               ylabel="largest |simulation - closed form|", title="Simulation against closed form")
    errors.legend(fontsize=8)
    m = arrays["pretraining"]
    index.plot(m, arrays["index"][0], "o", color=COLOURS["blue"], label="compound AX summed")
    index.plot(m, arrays["V_A"], "-", color=COLOURS["blue"], label="theory $V_A/\\lambda$")
    index.plot(m, arrays["index"][1], "s", color=COLOURS["orange"],
               label="compound L2-normalised")
    index.plot(m, arrays["V_A"] / 2**0.5, "--", color=COLOURS["orange"],
               label="theory $V_A/(\\lambda\\sqrt{2})$")
    index.set(xscale="log", xlabel="trials of A+ before AX+", ylim=(0, 1.05),
              ylabel="blocking index 1 - blocked / control",
              title="Key normalisation limits blocking")
    index.legend(fontsize=8)
    return figure


def competition(arrays, claims):
    """Responses to X of both groups, by rule, one panel a phenomenon."""
    names, phenomena = arrays["rules"], arrays["phenomena"]
    figure, axes = new_figure(1, len(phenomena), width=2.7, height=3.4)
    for axis, phenomenon, responses in zip(axes[0], phenomena, arrays["responses"], strict=True):
        for row, (experimental, control) in enumerate(responses):
            axis.plot([experimental, control], [row, row], color="0.7", linewidth=2, zorder=0)
        axis.plot(responses[:, 1], range(len(names)), "o", fillstyle="none", markersize=8,
                  color=COLOURS["black"], label="control")
        axis.plot(responses[:, 0], range(len(names)), "D", markersize=4, color=COLOURS["red"],
                  label="experimental")
        axis.axhline(2.5, color="0.8", linestyle=":")
        axis.invert_yaxis()
        axis.set_title(phenomenon, fontsize=10)
        axis.set_xlabel("response to X ($\\lambda$ = 1)")
        axis.set_yticks(range(len(names)), names if axis is axes[0, 0] else [""] * len(names))
    axes[0, 0].legend(fontsize=8, loc="lower right")
    figure.suptitle("Cue competition: none without a shared error (above the dotted line)",
                    fontsize=10)
    return figure


def recovery(arrays, claims):
    """Response size over retention; responses after extinction under KDA; gain by decays."""
    figure, axes = new_figure(1, 3)
    theorem, curves, grid = axes[0]
    for kind, colour, style, name in (
            ("orthogonal", "blue", "-", "retention keys orthogonal to the cue"),
            ("any", "orange", "--", "control: any keys")):
        sizes = arrays[f"size_error_{kind}"]
        for row, size in enumerate(sizes):
            theorem.plot(size / size[0], color=COLOURS[colour], linestyle=style, linewidth=1,
                         label=name if row == 0 else None)
    theorem.set(xlabel="retention trials", ylabel="|response| / |response before|", yscale="log",
                title="Scalar rates and decays:\nno recovery (5 of the sequences)")
    theorem.legend(fontsize=8)
    slow, fast = arrays["slow"], arrays["fast"]
    for decay, delayed, (colour, style) in zip(fast, arrays["delayed"][-1], SERIES, strict=False):
        curves.plot(delayed, linestyle=style, color=COLOURS[colour], label=f"fast {decay:g}")
    curves.set(xlabel="trials since the end of extinction", ylabel="response to A ($\\lambda$ = 1)",
               title=f"KDA, slow decay {slow[-1]:g}:\nrecovers during trials of another cue")
    curves.set_ylim(0, 1.45 * arrays["delayed"][-1].max())
    curves.legend(fontsize=8, ncols=3, loc="upper left", title="decay of the fast feature",
                  title_fontsize=8)
    image = grid.imshow(arrays["gain"], cmap="cividis", origin="lower", vmin=0, aspect="auto")
    for i in range(len(slow)):
        for j in range(len(fast)):
            value = arrays["gain"][i, j]
            grid.text(j, i, f"{value:.3f}", ha="center", va="center", fontsize=7,
                      color="black" if value > 0.6 * arrays["gain"].max() else "white")
    grid.set_xticks(range(len(fast)), [f"{d:g}" for d in fast])
    grid.set_yticks(range(len(slow)), [f"{d:g}" for d in slow])
    grid.set(xlabel="decay of the fast feature", ylabel="decay of the slow feature",
             title="Largest gain of the response")
    figure.colorbar(image, ax=grid, label="gain ($\\lambda$ = 1)")
    return figure


def associability(arrays, claims):
    """First-trial rates by history and by exposure; same-token rates; where the effects hold."""
    figure, axes = new_figure(2, 2, width=5.4)
    names, rows = arrays["names"], range(len(arrays["names"]))
    axis = axes[0, 0]
    axis.plot(arrays["inconsistent"], rows, "D", color=COLOURS["red"], markersize=6,
              label="after 20 trials of 50% $\\lambda$")
    axis.plot(arrays["consistent"], rows, "o", color=COLOURS["black"], markersize=9,
              fillstyle="none", label="after 20 trials of $\\lambda/2$")
    axis.set_yticks(rows, names)
    axis.invert_yaxis()
    axis.set(xlabel="first-trial rate $\\Delta W / (\\lambda - W)$", xlim=(0, None),
             title="Equal exposure, different errors: Pearce-Hall up,\n"
                   "Mackintosh down, rates from exposure equal")
    axis.legend(fontsize=8)
    axis = axes[0, 1]
    for name, rate, style, colour in zip(names, arrays["by_exposure"], STYLES,
                                         ("red", "black", "blue", "green", "purple"), strict=False):
        axis.plot(arrays["exposure"], rate / rate[0], linestyle=style, color=COLOURS[colour],
                  label=name)
    axis.set(xlabel="exposures without outcome", ylabel="first-trial rate / rate of a novel cue",
             title="Exposure alone lowers the rates of Pearce-Hall,\nKalman and preconditioner",
             ylim=(0, 1.05))
    axis.legend(fontsize=8)
    axis = axes[1, 0]
    for row, rates in enumerate(arrays["rates"]):
        axis.plot(rates / rates.mean(), [row] * len(rates), "|", markersize=12,
                  color=COLOURS["red" if row == len(arrays["rates"]) - 1 else "blue"])
    axis.set_yticks(range(len(arrays["gates"])), arrays["gates"])
    axis.invert_yaxis()
    axis.set(xlabel="rate of the same last token / its mean over 64 histories",
             title="A gate b = f(token) cannot see the history")
    axis = axes[1, 1]
    for key, name, style, colour in (
            ("latent_inhibition", "latent inhibition", "-o", "blue"),
            ("transfer", "Hall-Pearce negative transfer", "--s", "orange")):
        share = (arrays[key] < -0.01).mean(axis=(0, 2, 3))
        axis.plot(arrays["betas"], share, style, color=COLOURS[colour], label=f"{name}, by beta")
        share = (arrays[key] < -0.01).mean(axis=(0, 1, 3))
        axis.plot(arrays["etas"], share, style, color=COLOURS[colour], fillstyle="none",
                  linewidth=0.8, label=f"{name}, by eta")
    axis.set(xlabel="$\\beta$ (filled) or $\\eta$ (open)", ylabel="share of settings that show it",
             title="Where Pearce-Hall shows the two effects", ylim=(0, 1.05))
    axis.legend(fontsize=8)
    return figure


def minibatch(arrays, claims):
    """Blocked over control by mini-batch size: a dial at rate beta / B, none at a fixed rate."""
    figure, axes = new_figure(1, 2)
    dial, fixed = axes[0]
    sizes, m = arrays["sizes"], int(arrays["m"])
    for beta, ratio, closed, (colour, style) in zip(
            arrays["betas"], arrays["frozen"], arrays["closed"], SERIES, strict=False):
        dial.plot(sizes[:-1], closed, linestyle=style, color=COLOURS[colour],
                  label=f"$(1-\\beta)^{{m/B}}$, $\\beta$ = {beta:g}")
        dial.plot(sizes, ratio, "o", color=COLOURS[colour], fillstyle="none")
    dial.set(xscale="log", xlabel="trials B whose error is frozen",
             ylabel="blocked / control (circles: simulated)", ylim=(0, 1.05),
             title="Rate $\\beta/B$: from Rescorla-Wagner to Hebb")
    fixed.plot(sizes, arrays["fixed"], "-o", color=COLOURS["red"], fillstyle="none")
    fixed.axhline(0, color="0.7", linewidth=0.8)
    fixed.set(xscale="log", xlabel="trials B whose error is frozen", ylabel="blocked / control",
              title=f"Fixed rate {arrays['betas'][0]:g}: no dial")
    for axis in (dial, fixed):
        axis.set_xticks(sizes, [{m: f"{m}\n(all A+)", 2 * m: f"{2 * m}\n(all)"}.get(size, size)
                                for size in sizes.tolist()])
        axis.minorticks_off()
    dial.legend(fontsize=8, loc="upper left")
    return figure


# ------------------------------------------------------------------------------------- the atlas


VERDICTS = {1: ("shows it", "blue", "+", "white"), 0: ("no effect", "white", "\u00b7", "black"),
            -1: ("the opposite", "orange", "\u2212", "black"),
            2: ("n/a: the rule lacks what the row needs", "0.85", "n", "0.3")}


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
    axis.text(-1.3, -0.1, "animals:\nexperimental\n(or first)\nagainst\ncontrol\n(or second)",
              ha="center", va="bottom", size=8)
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

    The scale is the same in all panels but where only the second phase is shown; Hebb, which has no
    asymptote, leaves it.
    """
    figure, axes = new_figure(2, 4, width=3.4, height=3.1)
    looks = (("black", "o"), ("blue", "s"), ("orange", "^"), ("green", "D"))
    for place, axis in enumerate(axes.flat):
        ends = arrays["curve_ends"][place]
        start, length = int(arrays["curve_starts"][place]), int(ends.max())
        for rule, (colour, marker) in enumerate(looks):
            for group, style in enumerate(("-", "--")):
                label = f"{arrays['curve_rules'][rule]} = {arrays['curve_layers'][rule]}"
                axis.plot(range(start + 1, length + 1),
                          arrays["curves"][place, rule, group, start:length],
                          style, color=COLOURS[colour], linewidth=1.5, marker=marker, markersize=4,
                          markevery=(rule * (length - start) // 20, max(1, (length - start) // 5)),
                          label=label if group == 0 else None)
        for end in ends[(ends > start) & (ends < length)]:
            axis.axvline(end + 0.5, color="0.7", linewidth=0.8)
        experimental, control = arrays["curve_designs"][place]
        axis.set_title(f"{arrays['curve_names'][place]}\n\u2014\u2014 {experimental}\n"
                       f"- - - {control}", size=8.5)
        axis.set(ylim=(0, 1) if start else (-1.15, 2.15), xlim=(start + 1, length), xlabel="trial",
                 ylabel="response to the test stimulus (\u03bb = 1)" if place % 4 == 0 else None)
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=4,
                  frameon=False)
    return figure



def design(groups, layers):
    """A user's design: response on each trial, a panel for each group and rule, a line a stimulus.

    groups: {title: GroupResponses}, with the value at each test; layers: {rule: layer}.
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
        for axis, name in zip(row, names, strict=True):
            if axis is not row[0]:
                axis.sharey(row[0])
            for cues, (style, (colour, marker)) in stimuli.items():
                shown = [t for t, (_, trial) in enumerate(group.trials) if trial.cues == cues]
                axis.plot(np.array(shown) + 1, group.columns[name][shown], style, marker=marker,
                          color=COLOURS[colour], markersize=4, linewidth=1.3, label=cues,
                          markevery=max(1, len(shown) // 12))
            for t in group.tests:
                axis.annotate(f"{group.columns[name][t]:.3f}", (t + 1, group.columns[name][t]),
                              xytext=(-5, 5), textcoords="offset points", ha="right", size=8)
            for end in np.flatnonzero(np.diff(phases)):
                axis.axvline(end + 1.5, color="0.7", linewidth=0.8)
            axis.set(title=f"{name} = {layers[name]}" if name in layers else name,
                     xlabel="trial", xlim=(0.3, 1.02 * len(phases) + 0.7))
        row[0].set_ylabel(f"{title}:\nresponse to the trial's stimulus (\u03bb = 1)", size=9)
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center",
                  ncols=min(len(stimuli), 8) or 1, title="stimulus", frameon=False)
    return figure


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

TRAINED_STYLES = {"linear attention": ("orange", "-", "o"), "RetNet": ("purple", "--", "s"),
                  "DeltaNet": ("blue", "-", "^"), "Gated DeltaNet": ("green", "--", "v"),
                  "PH-attention": ("red", "-.", "D")}


def _rule_array(arrays, rule, key):
    return arrays[f"{rule.lower().replace(' ', '_').replace('-', '_')}_{key}"]


def _smoothed(losses, width=25):
    """Mean loss over models, averaged over `width` steps: (steps, losses)."""
    mean = np.convolve(losses.mean(axis=1), np.ones(width) / width, mode="valid")
    return np.arange(len(mean)) + (width + 1) / 2, mean


def trained_losses(arrays, claims):
    """Training loss of each rule against hand-set weights, and linear attention's exact floor."""
    figure, ((left, right),) = new_figure(1, 2, width=5.2)
    for rule, (colour, line, _) in TRAINED_STYLES.items():
        losses, by_hand = (_rule_array(arrays, rule, key) for key in ("losses", "hand_set_loss"))
        left.plot(*_smoothed(losses), color=COLOURS[colour], linestyle=line, label=rule)
        left.plot(len(losses) * np.array([1.02, 1.12]), 2 * [by_hand.mean()], linewidth=3,
                  color=COLOURS[colour], linestyle=line, solid_capstyle="butt")
    left.plot([], [], color="0.4", linewidth=3, label="hand-set weights (bars, right)")
    right.plot(*_smoothed(arrays["once_losses"]), color=COLOURS["orange"],
               label="linear attention, training")
    mean, half = mean_and_half(arrays["once_test_loss"])
    right.errorbar(len(arrays["once_losses"]) * 1.04, mean, half, color=COLOURS["orange"],
                   marker="o", label="new sequences after training")
    right.axhline(float(arrays["floor"]), color=COLOURS["black"], linestyle=":",
                  label=f"exact floor (N-1)/(d+N-1) = {float(arrays['floor']):.3f}")
    left.set_title("pairs shown repeatedly", fontsize="medium")
    right.set_title("each pair shown exactly once", fontsize="medium")
    for axis, ticks in ((left, (0.1, 0.2, 0.5, 1, 2)), (right, (0.3, 0.5, 1))):
        axis.set(yscale="log", xlabel="training step (Adam)",
                 ylabel="squared error of the answer\n(an outcome has length 1)")
        axis.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
        axis.minorticks_off()
        axis.legend(frameon=False, fontsize="small")
    return figure


def trained_indices(arrays, claims):
    """Index of each conditioning effect by rule: trained, hand-set and closed form."""
    probes, rules = [str(probe) for probe in arrays["probes"]], list(TRAINED_STYLES)
    figure, axes = new_figure(2, 3, width=3.9, height=3.1)
    place = np.arange(len(rules))
    for i, (axis, probe) in enumerate(zip(axes.flat, probes, strict=True)):
        trained = [mean_and_half(_rule_array(arrays, rule, "indices"))
                   for rule in rules]
        by_hand = [_rule_array(arrays, rule, "hand_set_indices").mean(axis=0)[i] for rule in rules]
        closed = [_rule_array(arrays, rule, "closed_form_indices")[i] for rule in rules]
        axis.axhline(0, color="0.8", linewidth=0.8)
        axis.plot(place, closed, color=COLOURS["red"], marker="_", markersize=26, linestyle="",
                  markeredgewidth=2, label="closed form at the learned rate, where there is one")
        axis.plot(place + 0.17, by_hand, color=COLOURS["black"], marker="s", fillstyle="none",
                  linestyle="", label="hand-set weights")
        axis.errorbar(place - 0.17, [mean[i] for mean, _ in trained],
                      [half[i] for _, half in trained], color=COLOURS["blue"], marker="o",
                      linestyle="", label="trained (mean, 95% interval over models)")
        axis.set_title(probe, fontsize="medium")
        axis.set_xticks(place, [rule.replace(" ", "\n").replace("-", "-\n") for rule in rules],
                        fontsize="x-small")
        axis.set_xlim(-0.5, len(rules) - 0.5)
        axis.margins(y=0.15)
        axis.set_ylabel("index (0: no effect)", fontsize="small")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3,
                  frameon=False, fontsize="small")
    return figure


def trained_recovery(arrays, claims):
    """Response after extinction against the number of orthogonal fillers, by rule."""
    trials = arrays["retention_trials"]
    panels = [(f"{rule}, trained", _rule_array(arrays, rule, "retention"),
               _rule_array(arrays, rule, "hand_set_retention")) for rule in TRAINED_STYLES]
    panels.append(("slow and fast features, by hand\n(a memory that recovers)",
                   arrays["slow_fast_retention"], None))
    figure, axes = new_figure(2, 3, width=3.6, height=2.9)
    for axis, (title, responses, by_hand) in zip(axes.flat, panels, strict=True):
        axis.axhline(0, color="0.8", linewidth=0.8)
        for cue, colour, line, marker, label in (
                (0, "blue", "-", "o", "acquired and extinguished cue"),
                (1, "orange", "--", "s", "cue never shown")):
            axis.errorbar(trials, *mean_and_half(responses[:, cue]), color=COLOURS[colour],
                          linestyle=line, marker=marker, label=label)
        if by_hand is not None:
            axis.plot(trials, by_hand[:, 0].mean(axis=0), color=COLOURS["black"], linestyle=":",
                      marker="x", label="acquired and extinguished cue, hand-set weights")
        axis.set_title(title, fontsize="medium")
        axis.set(xlabel="orthogonal fillers before the test (trials)",
                 ylabel="response (outcome = 1)")
        axis.set_ylim(-0.05, 0.3) if responses.max() < 0.3 else axis.set_ylim(-0.2, None)
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3,
                  frameon=False, fontsize="small")
    return figure


def trained_rates(arrays, claims):
    """Strength that one trial leaves after pre-training of the same and of another cue."""
    names = [str(name) for name in arrays["rate_probes"][::2]]
    figure, axes = new_figure(1, 2, width=4.4)
    for axis, rule in zip(axes.flat, ("DeltaNet", "PH-attention"), strict=True):
        mean, half = mean_and_half(_rule_array(arrays, rule, "rates"))
        for shift, part, colour, marker, label in (
                (-0.12, slice(0, None, 2), "blue", "o", "pre-training of the same cue"),
                (0.12, slice(1, None, 2), "orange", "s", "pre-training of another cue")):
            axis.errorbar(np.arange(len(names)) + shift, mean[part], half[part], linestyle="",
                          color=COLOURS[colour], marker=marker, label=label)
        axis.set_title(f"{rule}, trained", fontsize="medium")
        axis.set_xticks(range(len(names)), ["outcome\nomitted", "half the outcome,\nalways",
                                            "outcome half\nof the time"])
        axis.set(xlim=(-0.5, len(names) - 0.5), ylim=(0, 1.25), xlabel="pre-training, 6 trials",
                 ylabel="strength after one trial\nwith a new, orthogonal outcome")
        axis.legend(frameon=False, loc="lower left", fontsize="small")
    return figure


def trained_gates(arrays, claims):
    """Write rate after many histories of a cue: two trained layers, and PH-attention by hand."""
    histories = [str(history) for history in arrays["histories"]]
    figure, ((axis,),) = new_figure(width=8.4)
    for key, colour, marker, label in (
            ("gates_1", "sky", "v", "DeltaNet, trained: gate of layer 1 (sees the token)"),
            ("gates_2", "blue", "o", "DeltaNet, trained: gate of layer 2 (sees layer 1's answer)"),
            ("hybrid_rates", "red", "D", "PH-attention, one layer by hand: beta x associability")):
        axis.errorbar(range(len(histories)), *mean_and_half(arrays[key]), linestyle="",
                      color=COLOURS[colour], marker=marker, label=label)
    axis.set_xticks(range(len(histories)), histories)
    axis.set(xlabel="history of cue A before the trial", ylim=(0, 1.45),
             ylabel="write rate on the next trial with A", yticks=np.arange(0, 1.1, 0.2))
    axis.legend(frameon=False, loc="upper left", fontsize="small")
    return figure


# ------------------------------------------------------------------------------------- benchmark


def speed(arrays, claims):
    """Cost of the forms by length; of the chunkwise form by size; training; simulation."""
    figure, axes = new_figure(2, 2, width=5.2, height=3.8)
    by_length, by_size, training, simulation = axes.flat
    for form, (colour, style) in zip(("recurrent", "parallel", "chunkwise"), SERIES, strict=False):
        by_length.loglog(arrays["T_sizes"], arrays[f"T_{form}_seconds"] / arrays["T_sizes"] * 1e6,
                         "o", linestyle=style, color=COLOURS[colour], label=form, markersize=4)
    by_length.set(xlabel="tokens T", ylabel="µs a token of 4 sequences",
                  title="DeltaNet, K = D = 64, float32")
    names = {"batch": "sequences (from 1)", "K": "key features K", "D": "value features D"}
    for (axis, label), (colour, style) in zip(names.items(), SERIES[2:], strict=False):
        sizes, seconds = arrays[f"{axis}_sizes"], arrays[f"{axis}_chunkwise_seconds"]
        by_size.loglog(sizes, seconds * 1e3, "s", linestyle=style, color=COLOURS[colour],
                       label=label, markersize=4)
    by_size.set(xlabel="size", ylabel="ms", title="Chunkwise DeltaNet, T = 256, others 64, batch 4")
    for K, ratios, (colour, style) in zip(arrays["features"], arrays["training_ratios"], SERIES,
                                          strict=False):
        training.loglog(arrays["lengths"], ratios, "^", linestyle=style, color=COLOURS[colour],
                        label=f"K = D = {K}", markersize=4)
    training.axhline(1, color=COLOURS["red"], linewidth=0.8)
    training.set(xlabel="tokens T", ylabel="loop / parallel (times faster)",
                 title="Forward and backward, 16 sequences")
    styles = iter(SERIES)
    for order, rates in zip(("batch first", "batch last"), arrays["trials_a_second"], strict=True):
        for bits, rate in zip((64, 32), rates, strict=True):
            colour, style = next(styles)
            simulation.loglog(arrays["batches"], rate, "D", linestyle=style, markersize=4,
                              color=COLOURS[colour], label=f"{order} in memory, float{bits}")
    simulation.axhline(20e6, color=COLOURS["red"], linewidth=0.8)
    simulation.axhspan(1e4, 1e5, color="0.9")
    simulation.text(arrays["batches"][0], 3e4, "psychology packages", fontsize=8, va="center")
    simulation.set(xlabel="simulated animals at once", ylabel="simulated trials a second",
                   title="Rescorla-Wagner, 4 cues, 1 outcome (red: 20 million)", ylim=(7e3, 3e8))
    for axis, sizes in ((by_length, arrays["T_sizes"]), (training, arrays["lengths"])):
        axis.set_xticks(sizes, sizes)
        axis.minorticks_off()
    training.set_yticks([0.2, 0.5, 1, 2, 5], ["0.2", "0.5", "1", "2", "5"])
    by_length.set_yticks([5, 10, 20, 50, 100], ["5", "10", "20", "50", "100"])
    by_size.set_yticks([1, 2, 5, 10, 20], ["1", "2", "5", "10", "20"])
    for axis in axes.flat:
        axis.title.set_fontsize(10)
        axis.legend(fontsize=8)
    return figure


# ---------------------------------------------------------------------- which experiment draws what

FIGURES = {
    # core
    "equivalence": (equivalence,),
    "blocking": (blocking,),
    "competition": (competition,),
    "recovery": (recovery,),
    "associability": (associability,),
    "minibatch": (minibatch,),
    # the atlas
    "phenomena": (atlas, phenomena_curves),
    # quantitative results
    "capacity": (capacity,),
    "heads": (heads,),
    "depth": (depth,),
    "drift": (drift,),
    "unlearning": (unlearning,),
    "cost": (cost,),
    # trained models
    "trained": (trained_losses, trained_indices, trained_recovery, trained_rates),
    "trained_two_layers": (trained_gates,),
    # benchmark
    "benchmark": (speed,),
}
