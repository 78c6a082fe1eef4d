"""Every result: computed, checked against a stated bound, saved and drawn. The command line.

    python experiments.py [run] [NAME ...] [--list] [--quick] [--seed N] [--device cpu|gpu]
                          [--out results]
    python experiments.py design "10A+ | 10AB+ | B?" [--rules RULE ...] [--control TEXT] [--beta B]
                          [--help: all options]

An experiment is a function of keyword parameters that returns named arrays and claims. A claim
states what a source says, what was measured, the bound that decides, and whether it holds. The
exit status is 0 if all claims hold, 1 if one does not, 2 if the command could not be carried out.

`source` labels: P1 to P6, the first version of arXiv 2508.08289 ("Understanding Transformers
through the Lens of Pavlovian Conditioning"); A1 to A9, the third ("Attention as Conditioning");
"beyond", not claimed there. The README lists them.
"""

import argparse
import csv
import inspect
import io
import json
import os
import platform
import shutil
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
import numpy as np

import conditioning
import plots
import rules
from rules import learn

# ------------------------------------------------------------------------- claims and experiments


class Claim(NamedTuple):
    """One line of the claims table; interval is [low, high] or None."""

    claim: str
    source: str
    paper: Any
    measured: Any
    interval: Any
    bound: str
    holds: bool


class Result(NamedTuple):
    """What an experiment returns: arrays on the host, by name, and its claims.

    files: texts to save beside them, by file name; report: a text to print.
    """

    arrays: dict
    claims: list
    files: dict = {}
    report: str = ""


class Experiment(NamedTuple):
    """A registered experiment: its function, and the parameters that --quick makes smaller."""

    function: Callable
    quick: dict
    only_by_name: bool


class CommandError(Exception):
    """Something the user can mend; the command line prints it in one line and exits with 2."""


EXPERIMENTS = {}


def experiment(*, quick=None, only_by_name=False):
    """Register a function (*, seed, device, sizes...) -> Result as an experiment."""
    def register(function):
        EXPERIMENTS[function.__name__] = Experiment(function, quick or {}, only_by_name)
        return function
    return register


def claim(text, source, measured, *, below=None, above=None, within=None, contains=None,
          interval=None, paper=None):
    """A Claim judged by one bound: below or above a number, within (low, high), or an interval that
    contains a number. Where there is an interval, all of it must lie within the bound.
    """
    measured = float(measured)
    low, high = (measured, measured) if interval is None else map(float, interval)
    if below is not None:
        bound, holds = f"< {below:g}", high < below
    elif above is not None:
        bound, holds = f"> {above:g}", low > above
    elif within is not None:
        bound, holds = f"{within[0]:g} to {within[1]:g}", within[0] <= low and high <= within[1]
    else:
        bound, holds = f"interval contains {contains:g}", low <= contains <= high
    return Claim(text, source, paper, measured, None if interval is None else [low, high], bound,
                 bool(holds))


def mean_interval(samples, axis=-1):
    """Mean and 95% interval (normal, 1.96 standard errors) over replicates: (mean, low, high)."""
    samples = np.asarray(samples)
    mean = np.mean(samples, axis=axis)
    half = 1.96 * np.std(samples, axis=axis, ddof=1) / np.sqrt(samples.shape[axis])
    return mean, mean - half, mean + half


# ------------------------------------------------------------------------------------- the device


def device_module(device):
    """numpy for "cpu", cupy for "gpu" (after a first product on it); CommandError says why not."""
    if device == "cpu":
        return np
    try:
        import cupy
        if cupy.cuda.runtime.getDeviceCount() < 1:
            raise RuntimeError("no CUDA device")
        (cupy.ones((2, 2)) @ cupy.ones((2, 2))).get()
    except Exception as reason:
        line = " ".join(str(reason).split()) or type(reason).__name__
        raise CommandError(f"--device gpu is not available: {line}") from None
    return cupy


def host(array):
    """The array as a NumPy array, wherever it lies."""
    return array.get() if hasattr(array, "get") else np.asarray(array)


def largest_difference(a, b):
    """Largest error of a token: |a - b| over the larger of 1 and |b|, for a, b (..., T, D)."""
    a, b = host(a), host(b)
    error, size = (np.sqrt(np.sum(x**2, axis=-1)) for x in (a - b, b))
    return float(np.max(error / np.maximum(size, 1), initial=0.0))


# --------------------------------------------------------------------- equivalence (P1, A1-A3, A9)


def unit_keys(rng, shape):
    """Random unit vectors; a third of the tokens repeat an earlier one, as cues do."""
    keys = rng.normal(size=shape)
    keys /= np.sqrt(np.sum(keys**2, axis=-1, keepdims=True))
    for t in range(2, shape[-2], 3):
        keys[..., t, :] = keys[..., rng.integers(t), :]
    return keys


# ---------------------------------------------------------------------------------- blocking (A4)


@experiment()
def blocking(*, seed=0, device="cpu", betas=(0.05, 0.1, 0.2, 0.3, 0.5), trials=20, cases=200):
    """Kamin blocking: the closed form against simulation, as a rule and as attention."""
    xp, rng = device_module(device), np.random.default_rng(seed)
    one_hot = np.eye(2)
    a, x = one_hot
    blocked, closed, as_rule, as_attention = [], [], [], []
    for beta in betas:
        cues = xp.asarray(np.repeat([a, a + x], trials, axis=0))
        outcomes = xp.ones((2 * trials, 1))
        _, memory = learn(rules.rescorla_wagner, cues, outcomes, beta=beta)
        _, state = conditioning.deltanet(cues, cues, outcomes, beta=beta)
        closed.append(conditioning.blocking_strength(a=a, c=a + x, x=x, beta=beta, m=trials,
                                                     n=trials))
        as_rule.append(host(memory)[1, 0])
        as_attention.append(host(state)[1, 0])
    del blocked, rng, cases
    closed = np.array(closed)
    return Result({"betas": np.array(betas), "closed": closed}, [
        claim("blocking, rule against closed form", "A4", np.max(abs(closed - as_rule)),
              below=1e-12, paper="< 1e-7"),
        claim("blocking, attention against closed form", "A4",
              np.max(abs(closed - as_attention)), below=1e-12, paper="< 1e-7")])


# ------------------------------------------------------------------------- phenomena (the atlas)


class Column(NamedTuple):
    """A column of the atlas: a learning rule, the attention layer that equals it ("": none).

    short: both in a few letters; function: the rule; parameters: stated once; at_rate: those that
    a sweep changes, for an array of learning rates; start: of `rules.initial_state`; features:
    copies of each cue (two where the decay differs between a slow and a fast one).
    """

    rule: str
    layer: str
    short: tuple
    function: Callable
    parameters: dict
    at_rate: Callable = lambda rate: {"beta": rate}
    start: dict = {}
    features: int = 1


COLUMNS = (
    Column("Hebb", "linear attention", ("Hebb", "lin."), rules.hebbian, {"beta": 0.05}),
    Column("Hebb, decay", "RetNet", ("Heb-d", "RetN"), rules.hebbian,
           {"beta": 0.05, "decay": 0.98}),
    Column("Rescorla-Wagner", "DeltaNet", ("RW", "Delta"), rules.rescorla_wagner, {"beta": 0.1}),
    Column("Rescorla-Wagner, decay", "Gated DeltaNet", ("RW-d", "Gated"), rules.rescorla_wagner,
           {"beta": 0.1, "decay": 0.98}),
    Column("Rescorla-Wagner, slow and fast decay", "KDA", ("RW-sf", "KDA"), rules.rescorla_wagner,
           {"beta": 0.1, "decay": np.array([0.998, 0.8])}, features=2),
    Column("Pearce-Hall (hybrid)", "PH-attention", ("PH", "PH-at"), rules.pearce_hall,
           {"beta": 0.1, "eta": 0.2}, start={"associability": 0.8}),
    Column("Kalman", "MesaNet", ("Kal", "Mesa"), rules.kalman, {"noise": 1.0},
           lambda rate: {"noise": 1 / rate - 1}),
    Column("Kalman, drift", "", ("Kal-q", ""), rules.kalman, {"noise": 1.0, "drift": 0.01},
           lambda rate: {"noise": 1 / rate - 1}),
    Column("Pearce-Kaye-Hall", "", ("PKH", ""), rules.pearce_kaye_hall,
           {"beta_excitatory": 0.1, "beta_inhibitory": 0.05, "eta": 0.2},
           lambda rate: {"beta_excitatory": rate, "beta_inhibitory": rate / 2},
           start={"associability": 0.8}),
    Column("Mackintosh", "", ("Mack", ""), rules.mackintosh, {"beta": 0.2, "theta": 0.2},
           start={"associability": 0.5}),
    Column("Bush-Mosteller", "", ("BM", ""), rules.bush_mosteller, {"beta": 0.1}),
    Column("exemplar model", "softmax attention", ("exem", "softm"), rules.exemplar_responses,
           {"scale": 4.0}, lambda rate: {"scale": 20 * rate}),
    Column("temporal difference", "", ("TD", ""), rules.temporal_difference,
           {"beta": 0.1, "trace": 0.9, "discount": 0.98}),
)


BATCH = 6000  # experiments (times learning rates) that run together: their arrays fit the cache


def batch_fastest(array, axes=2):
    """The same array with its first axes, the batch, running fastest in memory: cues have few
    features, so NumPy's inner loops are long this way, and the rules twice as fast.
    """
    order = (*range(axes, array.ndim), *range(axes))
    array = rules.array_module(array).ascontiguousarray(array.transpose(order))
    return array.transpose(tuple(int(axis) for axis in np.argsort(order)))


class Batch(NamedTuple):
    """Comparisons of similar length that run together: trials (1, M, T, ...), rows a trial (M,),
    places of test trials (counted from the end); for each comparison its row in the atlas and its
    place along M, in the axes (numbers, saliences, groups, orders, pair).
    """

    trials: conditioning.TrialArrays
    steps: np.ndarray
    places: np.ndarray
    parts: list


def batches(comparisons, saliences, xp, largest):
    """Batches of the comparisons, filled up in front to a common length with empty test trials.

    saliences: pairs, one for the tested cues and one for the others. largest: M of a batch.
    """
    joined = []
    for row in sorted(range(len(comparisons)), key=lambda i: comparisons[i].trials.test.shape[-1]):
        trials, axes = with_saliences(comparisons[row], saliences)
        if not joined or sum(len(other.test) for _, other, _ in joined[-1]) + len(trials.test) \
                > largest:
            joined.append([])
        joined[-1].append((row, trials, axes))
    for batch in joined:
        _, T, K = np.max([trials.cues.shape for _, trials, _ in batch], axis=0)
        filled, steps, parts, places = [], [], [], set()
        for row, (cues, outcomes, test), axes in batch:
            front = (T - cues.shape[1], 0)
            filled.append((np.pad(cues, ((0, 0), front, (0, K - cues.shape[2]))),
                           np.pad(outcomes, ((0, 0), front, (0, 0))),
                           np.pad(test, ((0, 0), front), constant_values=True)))
            parts.append((row, len(steps) + np.arange(len(test)).reshape(axes)))
            steps += [comparisons[row].steps] * len(test)
            places |= {int(place) - cues.shape[1] for place in comparisons[row].tests}
        yield Batch(conditioning.TrialArrays(*(
            batch_fastest(xp.asarray(np.concatenate(field)[None]))
            for field in zip(*filled, strict=True))), np.array(steps), np.array(sorted(places)),
            parts)


def with_saliences(comparison, saliences):
    """TrialArrays (M, T, ...) of a comparison at each pair of saliences, and the axes of M."""
    cues, outcomes, test = comparison.trials
    tested, others = np.array(saliences, dtype=float).T[..., None]
    salience = np.where(comparison.tested, tested, others)
    cues = cues[:, None] * np.sqrt(salience)[:, None, None, None, None, :]
    outcomes = np.broadcast_to(outcomes[:, None], cues.shape[:-1] + outcomes.shape[-1:])
    test = np.broadcast_to(test[:, None], cues.shape[:-1])
    return conditioning.TrialArrays(*(field.reshape((-1,) + field.shape[5:])
                                      for field in (cues, outcomes, test))), test.shape[:5]


def column_inputs(column, trials, rates=None):
    """Trials (1, M, T, ...) and parameters of a column; learning rates lie on the first axis."""
    xp, parameters = rules.array_module(trials.cues), dict(column.parameters)
    if rates is not None:
        parameters |= column.at_rate(np.array(rates)[:, None, None])
    if column.features > 1:
        copies = xp.repeat(trials.cues, column.features, axis=-1) / column.features**0.5
        parameters["decay"] = np.tile(parameters["decay"], trials.cues.shape[-1])[None, None, None]
        trials = trials._replace(cues=batch_fastest(copies))
    return trials, {name: xp.asarray(value) if isinstance(value, np.ndarray) else value
                    for name, value in parameters.items()}


def rule_responses(column, trials, parameters, steps, places):
    """Responses (rates, M, places) of a column's learning rule to the trials at the places."""
    xp, (cues, outcomes, test) = rules.array_module(trials.cues), trials
    places = xp.asarray(places)
    if column.function is rules.exemplar_responses:
        earlier = xp.arange(-test.shape[-1], 0) < places[:, None]
        scale = xp.asarray(parameters["scale"])[..., None]
        return rules.exemplar_responses(cues[..., places, :], cues, outcomes, scale=scale,
                                        stored=earlier & ~test[..., None, :])[..., 0]
    if column.function is rules.temporal_difference:
        trace = conditioning.trial_trace(parameters["trace"], cues.shape[-2], steps)
        parameters = parameters | {"trace": xp.asarray(trace)[None]}
    predictions, _ = learn(column.function, cues, outcomes, test=test, **parameters,
                           state=start_state(column, cues, outcomes, parameters))
    return predictions[..., places, 0]


def start_state(column, cues, outcomes, parameters):
    """The rule's first state, for every rate, laid out as `batch_fastest` does."""
    rates = max((len(value) for value in parameters.values() if getattr(value, "ndim", 0)),
                default=1)
    cues = rules.array_module(cues).broadcast_to(cues, (rates,) + cues.shape[1:])
    state = rules.initial_state(column.function, cues, outcomes, **column.start)
    if isinstance(state, tuple):
        return type(state)(*map(batch_fastest, state))
    return batch_fastest(state)


def has_layer(function, parameters):
    """Whether an attention layer equals the rule; none equals Kalman with drift."""
    return function in LAYERS and not parameters.get("drift")


def layer_predictions(function, trials, *, start=None, **parameters):
    """What the attention layer of a rule answers to each cue before it reads the trial.

    (..., T, D) for cues (..., T, K). The query of token t is the cue of trial t + 1, shrunk by the
    decay of that trial; test trials are tokens that write nothing. None if the rule has no layer.
    """
    if not has_layer(function, parameters):
        return None
    xp, (cues, outcomes, test) = rules.array_module(trials.cues), trials
    beta = parameters.get("beta", 1.0)
    if parameters.get("beta_omitted") is not None:
        beta = xp.where(outcomes[..., 0] == 0, parameters["beta_omitted"], beta)
    rates = conditioning.frozen(test, beta=beta, decay=parameters.get("decay", 1.0))
    decay = rates["decay"] if rates["decay"].ndim == cues.ndim else rates["decay"][..., None]
    nothing = xp.zeros_like(cues[..., :1, :])
    queries = xp.concatenate([(decay * cues)[..., 1:, :], nothing], axis=-2)
    outputs = LAYERS[function](queries, cues, outcomes, test, rates, start or {}, parameters)
    return xp.concatenate([xp.zeros_like(outputs[..., :1, :]), outputs[..., :-1, :]], axis=-2)


def _ph_layer(queries, cues, outcomes, test, rates, start, parameters):
    eta = rules.array_module(cues).where(test, 0.0, parameters["eta"])
    return conditioning.ph_attention(queries, cues, outcomes, beta=rates["beta"], eta=eta,
                                     form="parallel", **start)[0]


def _mesa_layer(queries, cues, outcomes, test, rates, start, parameters):
    return conditioning.mesa_attention(
        queries, rules.array_module(cues).where(test[..., None], 0.0, cues), outcomes,
        ridge=parameters["noise"] / start.get("prior", 1.0))


def _softmax_layer(queries, cues, outcomes, test, rates, start, parameters):
    """Test tokens are hidden by one more feature, that sends their score to minus infinity."""
    xp = rules.array_module(cues)
    shown, hidden = xp.ones_like(queries[..., :1]), xp.where(test[..., None], -1e300, 0.0)
    return conditioning.softmax_attention(xp.concatenate([queries, shown], axis=-1),
                                          xp.concatenate([cues, hidden], axis=-1), outcomes,
                                          scale=parameters["scale"])


LAYERS = {
    rules.hebbian: lambda queries, keys, values, test, rates, start, parameters:
        conditioning.retention(queries, keys, values, **rates)[0],
    rules.rescorla_wagner: lambda queries, keys, values, test, rates, start, parameters:
        conditioning.gated_deltanet(queries, keys, values, **rates)[0],
    rules.pearce_hall: _ph_layer,
    rules.kalman: _mesa_layer,
    rules.exemplar_responses: _softmax_layer,
}


def verdict(effect, low, high, finding, threshold):
    """1 shows the finding, -1 the opposite, 0 no effect: smaller than the threshold, or an interval
    that contains 0. Where animals show no difference (finding 0), 1 without and -1 with an effect.
    """
    found = np.where((np.abs(effect) < threshold) | (low * high <= 0), 0, np.sign(effect))
    return (found * finding if finding else 1 - 2 * np.abs(found)).astype(int)


@experiment(quick={"pairs": 10, "layer_pairs": 2, "sweep_pairs": 2, "rates": (0.05, 0.2, 0.5),
                   "trials": (6, 20)})
def phenomena(*, seed=0, device="cpu", pairs=100, layer_pairs=10, sweep_pairs=8, threshold=0.02,
              rates=(0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5), trials=(6, 10, 20, 30, 50),
              saliences=((1, 1), (0.5, 0.5), (0.5, 1), (1, 0.5), (0.25, 1))):
    """The atlas: classical phenomena in every learning rule and its attention layer.

    pairs of random orders at the stated parameters, `layer_pairs` of them through the attention
    layers too, `sweep_pairs` in the sweep over rates, trials and saliences (tested cues, others).
    threshold: the least effect, in units of lambda.
    """
    xp, started, simulated = device_module(device), time.perf_counter(), 0
    shape = (len(conditioning.PHENOMENA), len(COLUMNS))
    cells = {name: np.zeros(shape) for name in ("experimental", "control", "effect", "low", "high",
                                                "verdict")}
    shares, difference = np.zeros(shape + (3,)), np.zeros(shape)
    for column, row, responses, far, trials_done in atlas_responses(
            conditioning.PHENOMENA, COLUMNS, xp, layer_pairs=layer_pairs, orders=pairs, seed=seed):
        experimental, control = responses[0, 0, 0]
        effect, low, high = order_interval(experimental - control)
        found = verdict(effect, low, high, conditioning.PHENOMENA[row].finding, threshold)
        cell = (np.mean(experimental), np.mean(control), effect, low, high, found)
        for name, value in zip(cells, cell, strict=True):
            cells[name][row, column] = value
        difference[row, column] = far
        simulated += trials_done
    for column, row, responses, _, trials_done in atlas_responses(
            conditioning.PHENOMENA, COLUMNS, xp, saliences=saliences, rates=rates, trials=trials,
            orders=sweep_pairs, seed=seed):
        effect = np.mean(responses[..., 0, :, :] - responses[..., 1, :, :], axis=(-2, -1))
        found = verdict(effect, effect, effect, conditioning.PHENOMENA[row].finding, threshold)
        shares[row, column] = [np.mean(found == kind) for kind in VERDICTS]
        simulated += trials_done
    cells["verdict"] = cells["verdict"].astype(int)
    seconds = time.perf_counter() - started
    settings = len(rates) * len(trials) * len(saliences)
    arrays = cells | {
        "shares": shares, "layer_difference": difference,
        "names": np.array([entry.name for entry in conditioning.PHENOMENA]),
        "groups": np.array([entry.group for entry in conditioning.PHENOMENA]),
        "findings": np.array([entry.finding for entry in conditioning.PHENOMENA]),
        "rules": np.array([entry.rule for entry in COLUMNS]),
        "layers": np.array([entry.layer for entry in COLUMNS]),
        "short": np.array([entry.short for entry in COLUMNS])} | curve_arrays(xp)
    report = (f"{atlas_table(arrays, settings, threshold)}\n{simulated:,} trials simulated in "
              f"{seconds:.1f} s: {simulated / seconds:,.0f} a second")
    return Result(arrays, atlas_claims(arrays, relative_validity(pairs, seed, xp)),
                  atlas_files(arrays, threshold, rates, trials, saliences), report)


VERDICTS = {1: "shows", 0: "no effect", -1: "opposite"}


def atlas_responses(rows, columns, xp, *, saliences=((1, 1),), rates=None, layer_pairs=0,
                    **options):
    """Yields column, row, responses (rates, numbers, saliences, 2 groups, orders, pair), largest
    difference between rule and attention layer, number of trials simulated, for every cell.

    rows: phenomena; rates: None for the stated ones; options: of `phenomenon_arrays`.
    """
    for in_time in (False, True):
        comparisons = [conditioning.phenomenon_arrays(phenomenon, in_time=in_time, **options)
                       for phenomenon in rows]
        for batch in batches(comparisons, saliences, xp, BATCH // len(rates or [0])):
            for place, column in enumerate(columns):
                if (column.function is rules.temporal_difference) == in_time:
                    for cell in batch_responses(column, batch, comparisons, rates, layer_pairs):
                        yield place, *cell


def batch_responses(column, batch, comparisons, rates, layer_pairs):
    """Yields row, responses, difference and number of trials of one column, for a batch's rows."""
    trials, parameters = column_inputs(column, batch.trials, rates)
    responses = host(rule_responses(column, trials, parameters, batch.steps, batch.places))
    layer = difference = None
    if layer_pairs and column.layer:
        some = np.concatenate([part[..., :layer_pairs, :].ravel() for _, part in batch.parts])
        chosen = rules.array_module(trials.cues).asarray(some)
        first = conditioning.TrialArrays(*(field[:, chosen] for field in trials))
        layer = layer_predictions(column.function, first, start=column.start, **parameters)
        difference = np.zeros(len(batch.steps))
        difference[some] = np.max(abs(host(layer)[0][..., batch.places, 0] - responses[0, some]),
                                  axis=-1)
    done = np.sum(~host(trials.test)[0], axis=-1) / batch.steps * len(responses)
    for row, part in batch.parts:
        comparison = comparisons[row]
        tests = comparison.tests - comparison.trials.test.shape[-1]
        answers = responses[:, part][..., np.searchsorted(batch.places, tests)]
        yield (row, np.sum(answers * comparison.weights, axis=-1),
               0.0 if layer is None else np.max(difference[part]), int(np.sum(done[part])))


def order_interval(effects):
    """Mean effect and its 95% interval over pairs of orders, for effects (orders, pair)."""
    effects = np.mean(effects, axis=-1)
    if len(effects) == 1:
        return effects[0], effects[0], effects[0]
    return mean_interval(effects)


def relative_validity(pairs, seed, xp):
    """Rescorla-Wagner's effect on each mirrored pair of orders, at beta_omitted = beta and half of
    it: (2, pairs). At equal rates the two groups tie in every pair.
    """
    design = [entry for entry in conditioning.PHENOMENA if entry.name == "relative validity"]
    columns = [Column("", "", (), rules.rescorla_wagner, {"beta": 0.1, "beta_omitted": omitted})
               for omitted in (0.1, 0.05)]
    cells = atlas_responses(design, columns, xp, orders=pairs, seed=seed)
    return np.array([np.mean(responses[0, 0, 0, 0] - responses[0, 0, 0, 1], axis=-1)
                     for _, _, responses, *_ in cells])


CURVES = ("extinction", "blocking", "overshadowing", "overexpectation",
          "conditioned inhibition: summation", "latent inhibition",
          "Hall-Pearce negative transfer", "backward blocking")
CURVE_LAYERS = ("linear attention", "DeltaNet", "PH-attention", "MesaNet")


def curve_arrays(xp):
    """Learning curves of the best-known phenomena: curves (phenomena, rules, 2 groups, T), the
    response to the test stimulus after each trial, NaN beyond the design; ends of the phases.
    """
    columns = [entry for layer in CURVE_LAYERS for entry in COLUMNS if entry.layer == layer]
    chosen = [entry for name in CURVES for entry in conditioning.PHENOMENA if entry.name == name]
    curves, ends = [], np.zeros((len(chosen), 3), dtype=int)
    for row, entry in enumerate(chosen):
        comparison = conditioning.phenomenon_arrays(entry._replace(order="alternate"))
        trained = comparison.tests[0]
        cues, outcomes = (np.broadcast_to(field[0, :, 0, 0], (2,) + field.shape[-2:])
                          for field in comparison.trials[:2])
        probes = comparison.weights[:, 0] @ cues[:, comparison.tests]
        probed = np.stack([cues[:, :trained], np.repeat(probes, trained, axis=1)], axis=2)
        answers = np.stack([outcomes[:, :trained], 0 * outcomes[:, :trained]], axis=2)
        trials = conditioning.TrialArrays(*map(xp.asarray, (
            probed.reshape(2, 2 * trained, -1), answers.reshape(2, 2 * trained, 1),
            np.tile([False, True], (2, trained)))))
        curves.append([host(learn(column.function, trials.cues, trials.outcomes, test=trials.test,
                                  state=rules.initial_state(column.function, trials.cues,
                                                            trials.outcomes, **column.start),
                                  **column.parameters)[0])[:, 1::2, 0] for column in columns])
        phases = conditioning.parse_design(entry.experimental).phases
        lengths = [sum(trial.count for trial in phase) for phase in phases
                   if phase[-1].outcome != "?"]
        ends[row, :len(lengths)] = np.cumsum(lengths)
    longest = ends.max()
    padded = [np.pad(curve, ((0, 0), (0, 0), (0, longest - np.shape(curve)[-1])),
                     constant_values=np.nan) for curve in curves]
    return {"curves": np.array(padded), "curve_names": np.array(CURVES), "curve_ends": ends,
            "curve_layers": np.array(CURVE_LAYERS),
            "curve_rules": np.array([column.rule for column in columns]),
            "curve_designs": np.array([compared_texts(entry) for entry in chosen])}


def compared_texts(phenomenon):
    """The designs of both groups, with those test trials alone that the contrast uses."""
    texts = phenomenon.experimental, phenomenon.control or phenomenon.experimental
    contrasts = phenomenon.contrast, phenomenon.control_contrast or phenomenon.contrast
    phases = [text.split(" | ") for text in texts]
    return [" | ".join(phase for phase, weight in zip(
        group, [1] * (len(group) - len(contrast)) + list(contrast), strict=True) if weight)
        for group, contrast in zip(phases, contrasts, strict=True)]


def atlas_table(arrays, settings, threshold):
    """The matrix as text, at most 120 columns wide."""
    lines = [f"{title:<41}" + "".join(f"{entry.short[place]:<6}" for entry in COLUMNS)
             for place, title in enumerate((f"{'rule':<36}an.", "attention layer"))]
    group = ""
    for row, name in enumerate(arrays["names"]):
        if arrays["groups"][row] != group:
            group = arrays["groups"][row]
            lines.append(f"-- {group} ".ljust(118, "-"))
        cells = "".join(atlas_cell(arrays, row, column) for column in range(len(COLUMNS)))
        lines.append(f"{name:<37}{'<=>'[arrays['findings'][row] + 1]}  {cells}")
    columns = "; ".join(f"{entry.short[0]} {entry.rule}" + f" = {entry.layer}" * bool(entry.layer)
                        for entry in COLUMNS)
    legend = ("an.: animals respond less (<), more (>) or as much (=) in the experimental group. "
              f"+ shows it, - the opposite, . no effect (below {threshold:g} lambda). The number: "
              f"per cent of {settings} settings of rate, trials and salience with the same "
              f"verdict; ? fewer than half. Columns: {columns}.")
    return "\n".join([line.rstrip() for line in lines] + textwrap.wrap(legend, 118))


def atlas_cell(arrays, row, column):
    """One cell of the table: verdict, doubt, per cent of the settings that agree."""
    found = arrays["verdict"][row, column]
    share = arrays["shares"][row, column, 1 - found]
    return f"{'.+-'[found]}{'?' if share < 0.5 else ' '}{100 * share:<4.0f}"


def atlas_files(arrays, threshold, rates, trials, saliences):
    """{file name: text}: every cell of the matrix as JSON and as CSV."""
    rows = []
    for row, phenomenon in enumerate(conditioning.PHENOMENA):
        for column, entry in enumerate(COLUMNS):
            numbers = {name: float(arrays[name][row, column])
                       for name in ("experimental", "control", "effect", "low", "high")}
            shares = {f"settings: {word}": float(share) for word, share in zip(
                VERDICTS.values(), arrays["shares"][row, column], strict=True)}
            rows.append({"phenomenon": phenomenon.name, "group": phenomenon.group,
                         "source": phenomenon.source, "finding": phenomenon.finding,
                         "rule": entry.rule, "layer": entry.layer,
                         "verdict": VERDICTS[int(arrays["verdict"][row, column])]}
                        | numbers | shares)
    content = {
        "threshold": threshold, "cells": rows,
        "sweep": {"rates": rates, "trials": trials, "saliences (tested, others)": saliences},
        "designs": [entry._asdict() for entry in conditioning.PHENOMENA],
        "columns": [{"rule": entry.rule, "layer": entry.layer,
                     "parameters": {name: np.asarray(value).tolist() for name, value in
                                    (entry.parameters | entry.start).items()}}
                    for entry in COLUMNS],
        "left out": [{"finding": finding, "needs": needs}
                     for finding, needs in conditioning.LEFT_OUT]}
    table = io.StringIO()
    writer = csv.DictWriter(table, rows[0])
    writer.writeheader()
    writer.writerows(rows)
    return {"phenomena.json": json.dumps(content, indent=1), "phenomena.csv": table.getvalue()}


def atlas_claims(arrays, validity):
    """Claims of the atlas: rules equal layers, and what tells the layers apart."""
    names, columns = list(arrays["names"]), [entry.layer or entry.rule for entry in COLUMNS]

    def effect(name, column):
        place = names.index(name), columns.index(column)
        return arrays["effect"][place]

    sources = {"linear attention": "A1", "DeltaNet": "A2", "RetNet": "A3", "PH-attention": "A9"}
    largest = np.max(arrays["layer_difference"], axis=0)
    claims = [claim(f"{entry.layer} = {entry.rule} on all {len(names)} phenomena: difference",
                    sources.get(entry.layer, "beyond"), difference, below=1e-10)
              for entry, difference in zip(COLUMNS, largest, strict=True) if entry.layer]
    apart = abs(arrays["experimental"][:, columns.index("DeltaNet")]
                - arrays["experimental"][:, columns.index("Bush-Mosteller")])
    claims.append(claim("control: DeltaNet against Bush-Mosteller, an error for each cue", "A2",
                        np.max(apart), above=0.1))
    competition = ("blocking", "overshadowing", "overexpectation", "zero contingency")
    claims.append(claim("cue competition in DeltaNet: the smallest of 4 losses of the target", "A5",
                        max(effect(name, "DeltaNet") for name in competition), below=-0.1))
    claims.append(claim("cue competition in linear attention: the largest of 4 losses", "A5",
                        min(effect(name, "linear attention") for name in competition),
                        above=-1e-2))
    single = ("linear attention", "RetNet", "DeltaNet", "Gated DeltaNet")
    claims += [
        claim("spontaneous recovery, the largest in a layer of one decay", "A8",
              max(effect("spontaneous recovery", layer) for layer in single), below=1e-12),
        claim("control: KDA, slow and fast features", "A8",
              effect("spontaneous recovery", "KDA"), above=0.02),
        claim("PH-attention: latent inhibition, experimental - control", "A9",
              effect("latent inhibition", "PH-attention"), below=-0.02),
        claim("PH-attention: Hall-Pearce negative transfer", "A9",
              effect("Hall-Pearce negative transfer", "PH-attention"), below=-0.02),
        claim("PH-attention: blocking is kept", "A9",
              effect("blocking", "PH-attention"), below=-0.1),
        claim("DeltaNet: no latent inhibition", "A9",
              abs(effect("latent inhibition", "DeltaNet")), below=1e-12),
        claim("DeltaNet: the opposite of Hall-Pearce negative transfer", "A9",
              effect("Hall-Pearce negative transfer", "DeltaNet"), above=0.02),
        claim("relative validity at equal rates: a tie in each mirrored pair", "beyond",
              np.max(abs(validity[0])), below=1e-12)]
    mean, low, high = mean_interval(validity[1])
    claims.append(claim("relative validity at beta_omitted = beta / 2: True - Pseudo", "beyond",
                        mean, below=-0.02, interval=(low, high)))
    return claims


# The command `design`: a user's own design.

# Parameters that the user does not give are those of the atlas's first column with the rule.
STATED = {rules.stimulus_trace: {"beta": 0.05, "trace": 0.9}, rules.oja: {"beta": 0.1}} | {
    entry.function: entry.parameters | entry.start for entry in reversed(COLUMNS)}
RATE_OPTIONS = ("beta", "beta_omitted", "beta_excitatory", "beta_inhibitory", "decay", "trace",
                "discount", "eta", "theta", "noise", "drift", "associability", "prior")
SHARED_ERROR = ("rescorla_wagner", "pearce_hall", "temporal_difference")


def design_command(arguments):
    """`python experiments.py design TEXT ...`: returns the exit status."""
    parser = Parser(prog="experiments.py design", allow_abbrev=False, description=(
        "Run a design such as '10A+ | 10AB+ | B?' through learning rules and the attention layers "
        "that equal them: response before each trial's learning, as text, CSV and figure."))
    parser.add_argument("text", metavar="TEXT", help="such as '10A+/10AB- | B?': README")
    parser.add_argument("--rules", nargs="+", default=["rescorla_wagner", "hebbian"],
                        metavar="RULE", help=", ".join(rules.RULES))
    parser.add_argument("--control", metavar="TEXT", help="a second group, to print the effect")
    for name in RATE_OPTIONS:
        parser.add_argument("--" + name.replace("_", "-"), type=rate_number,
                            help="of the rules that have it (default: as in the atlas)")
    parser.add_argument("--us", nargs=2, type=rate_number, default=[1.0, 2.0], metavar="SIZE",
                        help="sizes of + and ++ (default: 1 2)")
    parser.add_argument("--salience", nargs="+", default=[], type=named_number, metavar="A=0.5")
    parser.add_argument("--similarity", nargs="+", default=[], type=named_number, metavar="AB=0.3",
                        help="cosine between two cues")
    parser.add_argument("--compound", choices=("sum", "normalised"), default="sum")
    parser.add_argument("--order", choices=("alternate", "random"), default="alternate",
                        help="of mixed trials")
    parser.add_argument("--seed", type=seed_number, default=0, help="of a random order")
    parser.add_argument("--out", default="results", help="folder for design.csv and design.png")
    options = parser.parse_args(arguments)
    try:
        designs = [conditioning.parse_design(text) for text in (options.text, options.control)
                   if text is not None]
        cues = sorted({cue for design in designs for cue in design.cues})
        chosen = rule_parameters(options)
        groups = {title: design_responses(design, cues, chosen, options)
                  for title, design in zip(("experimental", "control"), designs, strict=False)}
    except ValueError as error:
        raise CommandError(str(error)) from None
    layers = {name: layer_name(function, parameters)
              for name, (function, parameters, _) in chosen.items()
              if has_layer(function, parameters)}
    report = design_report(groups, layers)
    staging = staging_folder(options.out)
    try:
        save_design(groups, layers, staging)
        for path in sorted(staging.iterdir()):
            os.replace(path, Path(options.out) / path.name)
    except OSError as error:
        raise CommandError(f"not saved, {options.out} is as it was: {error}") from None
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    print(f"{report}\nresults in {options.out}/design.csv and design.png")
    return 0


def rate_number(text):
    """A finite number from 0 on."""
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < np.inf:
        raise argparse.ArgumentTypeError(f"must be a number from 0 on, got {text!r}")
    return number


def named_number(text):
    """A pair such as A=0.5."""
    name, _, number = text.partition("=")
    try:
        return name, float(number)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be such as A=0.5, got {text!r}") from None


def rule_parameters(options):
    """{rule name: (function, parameters, start)} of the options; CommandError for a wrong one."""
    given = {name: getattr(options, name) for name in RATE_OPTIONS
             if getattr(options, name) is not None}
    for name, most in (("decay", 1), ("trace", 1), ("discount", 1)):
        if given.get(name, 0) > most:
            raise CommandError(f"--{name} must be 0 to {most}, got {given[name]:g}")
    if given.get("noise") == 0:
        raise CommandError("--noise must be above 0, got 0")
    chosen, used = {}, set()
    for name in options.rules:
        if name not in rules.RULES:
            raise CommandError(f"no rule {name!r}; there are: {', '.join(rules.RULES)}")
        function = rules.RULES[name]
        allowed = set(list(inspect.signature(function).parameters)[3:])
        starts = set(inspect.signature(function.start).parameters) - {"memory"} \
            if hasattr(function, "start") else set()
        values = STATED[function] | {key: value for key, value in given.items()
                                     if key in allowed | starts}
        used |= set(values)
        chosen[name] = (function, {key: values[key] for key in values if key in allowed},
                        {key: values[key] for key in values if key in starts})
    for name in given:
        if name not in used:
            raise CommandError(f"--{name.replace('_', '-')} is a parameter of none of the rules "
                               f"{', '.join(options.rules)}")
    return chosen


def design_responses(design, cues, chosen, options):
    """GroupResponses of a design."""
    trials = [trial for phase in design.phases for trial in phase]
    if sum(trial.count for trial in trials) > 100_000:
        raise CommandError("a design has at most 100,000 trials here")
    rng = None if options.order == "alternate" else np.random.default_rng([options.seed, 0])
    sequence, columns = conditioning.trial_sequence(design, rng=rng), {}
    for name, (function, parameters, start) in chosen.items():
        steps = 0
        if function is rules.temporal_difference:
            steps = 2 + max(trial.cues.count(">") for trial in trials)
        arrays = conditioning.design_arrays(
            design, cues=cues, us=options.us, saliences=dict(options.salience),
            similarity=dict(options.similarity), compound=options.compound, order=options.order,
            seed=options.seed, steps=steps)
        if options.order == "random":
            arrays = conditioning.TrialArrays(*(field[0] for field in arrays))
        check_stable(name, parameters, start, arrays)
        state = rules.initial_state(function, arrays.cues, arrays.outcomes, **start)
        in_time = {"trace": conditioning.trial_trace(parameters["trace"], len(arrays.test), steps)
                   } if steps else {}
        with np.errstate(all="ignore"):
            predictions, _ = learn(function, arrays.cues, arrays.outcomes, state=state,
                                   test=arrays.test, **parameters | in_time)
            layer = layer_predictions(function, arrays, start=start, **parameters)
        if not np.all(np.isfinite(predictions)):
            raise CommandError(f"{name} runs beyond the largest number: use smaller rates")
        columns[name] = predictions[::max(steps, 1), 0]
        if layer is not None:
            columns[layer_name(function, parameters)] = layer[:, 0]
    return GroupResponses([(place + 1, trial) for place, phase in enumerate(sequence)
                           for trial in phase], columns)


def layer_name(function, parameters):
    """Name of the attention layer that equals a rule with these parameters."""
    fading = parameters.get("decay", 1.0) < 1
    return next(entry.layer for entry in COLUMNS
                if entry.function is function and ("decay" in entry.parameters) == fading)


def check_stable(name, parameters, start, arrays):
    """CommandError where a rule's step overshoots twice: beta |cue|^2 of 2 or more."""
    squares, beta = arrays.cues**2, max(parameters.get("beta", 0),
                                        parameters.get("beta_omitted") or 0)
    step = beta * max(start.get("associability", 1), 1)
    if name in SHARED_ERROR:
        size, what = np.max(np.sum(squares, axis=-1), initial=0), "|cue|^2 of the largest stimulus"
    elif name in ("bush_mosteller", "mackintosh"):
        size, what = np.max(squares, initial=0), "the largest salience"
    elif name == "oja":
        size, what = np.max(arrays.outcomes**2, initial=0), "the largest outcome squared"
    else:
        return
    if step * size >= 2:
        raise CommandError(f"{name} is unstable: rate {step:g} times {what}, {size:g}, is "
                           f"{step * size:g} and must be below 2")


class GroupResponses(NamedTuple):
    """A group's trials, [(phase, trial)], and {rule or layer: response before each trial}."""

    trials: list
    columns: dict


def design_report(groups, layers):
    """Every trial of every group as text, the layers' differences and the effects at the tests."""
    lines = []
    for title, group in groups.items():
        lines += [f"{title} group", f"{'trial':>5}  {'phase':>5}  {'stimulus':<10}" + "".join(
            f"{name:>21}" for name in group.columns)]
        lines += [f"{t + 1:>5}  {phase:>5}  {trial!s:<10}" + "".join(
            f"{values[t]:>21.6f}" for values in group.columns.values())
            for t, (phase, trial) in enumerate(group.trials)]
    for rule, layer in layers.items():
        difference = max(np.max(abs(group.columns[rule] - group.columns[layer]), initial=0)
                         for group in groups.values())
        lines.append(f"{rule} = {layer}: largest difference {difference:.1e}")
    if len(groups) > 1:
        lines += design_effects(*groups.values(), layers)
    return "\n".join(lines)


def design_effects(experimental, control, layers):
    """Lines on the effect at each test trial, experimental less control."""
    tests = [[t for t, (_, trial) in enumerate(group.trials) if trial.outcome == "?"]
             for group in (experimental, control)]
    if len(tests[0]) != len(tests[1]) or not tests[0]:
        raise CommandError(f"an effect needs as many test trials (such as X?) in both groups, got "
                           f"{len(tests[0])} and {len(tests[1])}")
    lines = []
    if tests[0] != tests[1]:
        lines.append(f"note: {tests[0][0]} trials before the test against {tests[1][0]}; empty "
                     "trials such as 20_ make the groups alike in time")
    for here, there in zip(*tests, strict=True):
        for rule in experimental.columns:
            if rule not in layers.values():
                a, b = experimental.columns[rule][here], control.columns[rule][there]
                lines.append(f"effect, {experimental.trials[here][1]} against "
                             f"{control.trials[there][1]}, {rule}: {a:.6f} - {b:.6f} = "
                             f"{a - b:.6f}")
    return lines


def save_design(groups, layers, folder):
    """design.csv and design.png of the groups."""
    first = next(iter(groups.values()))
    with open(folder / "design.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["group", "trial", "phase", "stimulus", *first.columns])
        for title, group in groups.items():
            writer.writerows([title, t + 1, phase, str(trial),
                              *(values[t] for values in group.columns.values())]
                             for t, (phase, trial) in enumerate(group.trials))
    plots.design(groups, layers).savefig(folder / "design.png", dpi=110,
                                         metadata={"Software": None})


# ---------------------------------------------------------------------------- capacity (P2, A6)


# ------------------------------------------------------------------------------- trained (A5, A8)


# ------------------------------------------------------------------------------------- benchmark


# ------------------------------------------------------------------------------ running and saving


def run_experiments(names, *, seed, device, quick, say=print):
    """{name: (Result, parameters)} of the experiments, one line on each as it runs."""
    finished = {}
    for name in names:
        function, smaller, _ = EXPERIMENTS[name]
        parameters = {"seed": seed, "device": device} | (smaller if quick else {})
        say(f"{name:<14} {function.__doc__.splitlines()[0]}", end=" ", flush=True)
        started = time.perf_counter()
        result = function(**parameters)
        say(f"[{time.perf_counter() - started:.1f} s]", flush=True)
        defaults = {key: parameter.default
                    for key, parameter in inspect.signature(function).parameters.items()}
        finished[name] = (result, defaults | parameters | {"quick": quick})
    return finished


def claims_table(finished, width=118):
    """The claims as lines of text: label, claim, the paper's value, ours, the bound, verdict."""
    lines = [f"{'source':<7}{'claim':<58}{'paper':>10}  {'measured':<26}{'bound':<14}"]
    for name, (result, _) in finished.items():
        lines.append(f"-- {name} ".ljust(width, "-"))
        for row in result.claims:
            measured = f"{row.measured:.3g}"
            if row.interval:
                measured += f" [{row.interval[0]:.3g}, {row.interval[1]:.3g}]"
            paper = "" if row.paper is None else str(row.paper)
            first, *rest = textwrap.wrap(row.claim, 56)
            lines.append(f"{row.source:<7}{first:<58}{paper:>10}  {measured:<26}{row.bound:<14}"
                         f"{'holds' if row.holds else 'FAILS'}")
            lines += [" " * 7 + line for line in rest]
    return "\n".join(lines)


def read_claims(out):
    """The results already in a folder, as the dictionary of claims.json."""
    path = Path(out) / "claims.json"
    if not path.exists():
        return {"claims": [], "parameters": {}}
    try:
        saved = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(saved["claims"], list) and isinstance(saved["parameters"], dict):
            return saved
        problem = "has no claims and parameters"
    except (ValueError, KeyError, TypeError, OSError) as error:
        problem = " ".join(str(error).split())
    raise CommandError(f"{path} is not a results file ({problem}): move it away or choose another "
                       "--out")


def staging_folder(out):
    """A new hidden folder inside `out`, which is made if need be; CommandError if it cannot."""
    try:
        Path(out).mkdir(parents=True, exist_ok=True)
        return Path(tempfile.mkdtemp(prefix=".unfinished-", dir=out))
    except OSError as error:
        raise CommandError(f"cannot write to --out {out}: {error.strerror}") from None


def save_results(finished, out, staging, *, seed, device):
    """Write arrays, figures and claims aside, then move them into place, claims.json last.

    Only the results of the experiments in `finished` are replaced.
    """
    saved = read_claims(out)
    kept = [row for row in saved["claims"] if row["experiment"] not in finished]
    new = [{"experiment": name} | row._asdict()
           for name, (result, _) in finished.items() for row in result.claims]
    for name, (result, _) in finished.items():
        np.savez_compressed(staging / f"{name}.npz", **result.arrays)
        for file, text in result.files.items():
            (staging / file).write_text(text, encoding="utf-8")
        for figure in plots.FIGURES.get(name, ()):
            figure(result.arrays, result.claims).savefig(
                staging / f"{figure.__name__}.png", dpi=110, metadata={"Software": None})
    content = {
        "claims": kept + new,
        "parameters": saved["parameters"] | {name: parameters
                                             for name, (_, parameters) in finished.items()},
        "seed": seed, "device": device,
        "versions": {"python": platform.python_version(), "numpy": np.__version__,
                     "matplotlib": matplotlib.__version__}}
    (staging / "claims.json").write_text(json.dumps(content, indent=1, default=str),
                                         encoding="utf-8")
    for path in sorted(staging.iterdir(), key=lambda path: path.name == "claims.json"):
        os.replace(path, Path(out) / path.name)


# --------------------------------------------------------------------------------- command line


class Parser(argparse.ArgumentParser):
    """An argument parser that answers a mistake in one line."""

    def error(self, message):
        """One line, exit status 2."""
        raise CommandError(message)


def seed_number(text):
    """A whole number from 0 on."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"must be a whole number from 0 on, got {text!r}")
    return int(text)


def run_command(arguments):
    """`python experiments.py [run] ...`: returns the exit status."""
    parser = Parser(prog="experiments.py", description=__doc__.splitlines()[0], allow_abbrev=False)
    parser.add_argument("names", nargs="*", metavar="NAME", help="experiments (default: all)")
    parser.add_argument("--list", action="store_true", help="name the experiments and stop")
    parser.add_argument("--quick", action="store_true", help="smaller sizes, to see it work")
    parser.add_argument("--seed", type=seed_number, default=0, help="seed of all random numbers")
    parser.add_argument("--device", choices=("cpu", "gpu"), default="cpu")
    parser.add_argument("--out", default="results", help="folder for results")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.names if name not in EXPERIMENTS]
    if unknown:
        raise CommandError(f"no experiment {unknown[0]!r}; there are: {', '.join(EXPERIMENTS)}")
    if options.list:
        for name, (function, *_) in EXPERIMENTS.items():
            print(f"{name:<14} {function.__doc__.splitlines()[0]}")
        return 0
    names = list(dict.fromkeys(options.names)) or [
        name for name, entry in EXPERIMENTS.items() if not entry.only_by_name]
    device_module(options.device)
    read_claims(options.out)
    staging = staging_folder(options.out)
    try:
        finished = run_experiments(names, seed=options.seed, device=options.device,
                                   quick=options.quick)
        save_results(finished, options.out, staging, seed=options.seed, device=options.device)
    except OSError as error:
        raise CommandError(f"results not saved, {options.out} is as it was: {error}") from None
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    for result, _ in finished.values():
        if result.report:
            print(result.report)
    print(claims_table(finished))
    failed = sum(not row.holds for result, _ in finished.values() for row in result.claims)
    total = sum(len(result.claims) for result, _ in finished.values())
    print(f"{total - failed} of {total} claims hold; results in {options.out}/")
    return 1 if failed else 0


COMMANDS = {"run": run_command, "design": design_command}


def main(arguments=None):
    """Run the command line; returns the exit status."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    command, rest = (arguments[0], arguments[1:]) if arguments[:1] and arguments[0] in COMMANDS \
        else ("run", arguments)
    try:
        return COMMANDS[command](rest)
    except CommandError as error:
        print(f"experiments.py: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nexperiments.py: interrupted; earlier results are as they were", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
