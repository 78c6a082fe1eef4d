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


# --------------------------------------------------------------------------------- trained models

TRAINED_STYLES = {"linear attention": ("orange", "-", "o"), "RetNet": ("purple", "--", "s"),
                  "DeltaNet": ("blue", "-", "^"), "Gated DeltaNet": ("green", "--", "v"),
                  "PH-attention": ("red", "-.", "D")}


def _rule_array(arrays, rule, key):
    return arrays[f"{rule.lower().replace(' ', '_').replace('-', '_')}_{key}"]


def _mean_and_half(samples):
    """Mean over models (axis 0) and half of its 95% interval (normal)."""
    return samples.mean(axis=0), 1.96 * samples.std(axis=0, ddof=1) / len(samples) ** 0.5


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
    mean, half = _mean_and_half(arrays["once_test_loss"])
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
        trained = [_mean_and_half(_rule_array(arrays, rule, "indices"))
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
            axis.errorbar(trials, *_mean_and_half(responses[:, cue]), color=COLOURS[colour],
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
        mean, half = _mean_and_half(_rule_array(arrays, rule, "rates"))
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
        axis.errorbar(range(len(histories)), *_mean_and_half(arrays[key]), linestyle="",
                      color=COLOURS[colour], marker=marker, label=label)
    axis.set_xticks(range(len(histories)), histories)
    axis.set(xlabel="history of cue A before the trial", ylim=(0, 1.45),
             ylabel="write rate on the next trial with A", yticks=np.arange(0, 1.1, 0.2))
    axis.legend(frameon=False, loc="upper left", fontsize="small")
    return figure


# ------------------------------------------------------------------------------------- benchmark


# ---------------------------------------------------------------------- which experiment draws what

FIGURES = {
    # core
    # the atlas
    # quantitative results
    # trained models
    "trained": (trained_losses, trained_indices, trained_recovery, trained_rates),
    "trained_two_layers": (trained_gates,),
    # benchmark
}
