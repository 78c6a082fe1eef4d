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
               title=f"KDA, slow decay {slow[-1]:g}:\nrecovers by itself")
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
             title="Equal exposure, different errors: only Pearce-Hall tells")
    axis.legend(fontsize=8)
    axis = axes[0, 1]
    for name, rate, style, colour in zip(names, arrays["by_exposure"], ["-", "--", "-.", ":"],
                                         ("red", "black", "blue", "green"), strict=True):
        axis.plot(arrays["exposure"], rate / rate[0], linestyle=style, color=COLOURS[colour],
                  label=name)
    axis.set(xlabel="exposures without outcome", ylabel="first-trial rate / rate of a novel cue",
             title="Exposure alone lowers every rate kept in a state", ylim=(0, 1.05))
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
    for key, name, style, colour in (("latent_inhibition", "latent inhibition", "-o", "blue"),
                                     ("transfer", "Hall-Pearce transfer", "--s", "orange")):
        share = (arrays[key] > 0.01).mean(axis=(0, 2, 3))
        axis.plot(arrays["betas"], share, style, color=COLOURS[colour], label=f"{name}, by beta")
        share = (arrays[key] > 0.01).mean(axis=(0, 1, 3))
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
    # trained models
    # benchmark
    "benchmark": (speed,),
}
