"""The figures: one function each, drawn from saved results alone.

A figure is `name(arrays, claims) -> matplotlib Figure`: arrays as saved in <experiment>.npz, claims
as in claims.json. `FIGURES` says which experiment draws which; a figure is saved as <name>.png.
Colours are those of Okabe & Ito (2008), told apart by colour-blind readers; line styles and
markers tell them apart in grey print.
"""

from matplotlib.figure import Figure

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
    # quantitative results
    # trained models
    # benchmark
    "benchmark": (speed,),
}
