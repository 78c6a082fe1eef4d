"""Every result: computed, checked against a stated bound, saved and drawn. The command line.

    python experiments.py [run] [NAME ...] [--list] [--quick] [--seed N] [--device cpu|gpu]
                          [--out results]

An experiment is a function of keyword parameters that returns named arrays and claims. A claim
states what a source says, what was measured, the bound that decides, and whether it holds. The
exit status is 0 if all claims hold, 1 if one does not, 2 if the command could not be carried out.

`source` labels: P1 to P6, the first version of arXiv 2508.08289 ("Understanding Transformers
through the Lens of Pavlovian Conditioning"); A1 to A9, the third ("Attention as Conditioning");
"beyond", not claimed there. The README lists them.
"""

import argparse
import functools
import inspect
import itertools
import json
import multiprocessing
import os
import platform
import re
import shutil
import sys
import tempfile
import textwrap
import time
import tracemalloc
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
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
    """What an experiment returns: arrays on the host, by name, and its claims."""

    arrays: dict
    claims: list


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


# -------------------------------------------------------------------- equivalence (P1, A1-A3, A9)

# attention: (the rule it equals, error correcting, axes of beta, axes of decay, source)
CORNERS = {
    "linear attention": (rules.hebbian, False, "number", "one", "A1"),
    "RetNet": (rules.hebbian, False, "token", "token", "A3"),
    "GLA": (rules.hebbian, False, "feature", "feature", "A3"),
    "DeltaNet": (rules.rescorla_wagner, True, "token", "one", "A2"),
    "DeltaNet, rate per feature": (rules.rescorla_wagner, True, "feature", "one", "A2"),
    "Gated DeltaNet": (rules.rescorla_wagner, True, "token", "token", "A2"),
    "KDA": (rules.rescorla_wagner, True, "token", "feature", "A2"),
}


def random_layer(rng, batch, T, K=6, D=3):
    """Random queries, unit keys of which a third repeat, values and a state for T tokens."""
    keys = rng.normal(size=batch + (T, K))
    keys /= np.sqrt(np.sum(keys**2, axis=-1, keepdims=True))
    for t in range(2, T, 3):
        keys[..., t, :] = keys[..., rng.integers(t), :]
    return (rng.normal(size=batch + (T, K)), keys, rng.normal(size=batch + (T, D)),
            rng.normal(size=batch + (K, D)))


def random_rate(rng, axes, batch, T, K, high):
    """Rates from 0 to `high`, a tenth exactly 0 and a tenth exactly 1: a number, or an array."""
    if axes in ("one", "number"):
        return 1.0 if axes == "one" else float(rng.uniform(0, high))
    shape = batch + ((T,) if axes == "token" else (T, K))
    kind, rate = rng.random(shape), rng.uniform(0, high, shape)
    return np.where(kind < 0.1, 0.0, np.where(kind < 0.2, 1.0, rate))


def rule_outputs(rule, queries, cues, outcomes, *, state, **parameters):
    """What a rule answers to queries (..., T, K) after each trial, and its last state.

    A query is a test stimulus: every trial is followed by a test trial that presents the query.
    """
    xp = rules.array_module(cues)
    T = cues.shape[-2]

    def doubled(a, b):
        return xp.stack([a, b], axis=-2).reshape(a.shape[:-2] + (2 * T, a.shape[-1]))
    twice = {name: value if np.ndim(value) == 0 else
             xp.repeat(value, 2, axis=-1 if value.ndim < cues.ndim else -2)
             for name, value in parameters.items()}
    responses, state = learn(rule, doubled(cues, queries), doubled(outcomes, 0 * outcomes),
                             state=state, test=xp.arange(2 * T) % 2 == 1, **twice)
    return responses[..., 1::2, :], state


def attention_forms(call, T, chunks):
    """(outputs, state) of an attention call in each form, and of the sequence cut in two."""
    yield call(slice(None), None, form="recurrent")
    yield call(slice(None), None, form="parallel")
    for chunk in dict.fromkeys((*chunks, T)):
        yield call(slice(None), None, chunk=chunk)
    first, state = call(slice(0, T // 3), None)
    second, state = call(slice(T // 3, T), state)
    yield rules.array_module(first).concatenate([first, second], axis=-2), state


def corner_errors(rng, xp, corner, batch, T, chunks):
    """Largest difference between a corner's learning rule and any of its attention forms."""
    rule, error_correcting, beta_axes, decay_axes, _ = CORNERS[corner]
    layer = random_layer(rng, batch, T)
    high = 2.0 if beta_axes != "feature" else 1.0
    beta = random_rate(rng, beta_axes, batch, T, layer[1].shape[-1], high)
    decay = random_rate(rng, decay_axes, batch, T, layer[1].shape[-1], 1.0)
    queries, keys, values, start = (xp.asarray(array) for array in layer)
    beta, decay = (rate if np.ndim(rate) == 0 else xp.asarray(rate) for rate in (beta, decay))
    expected, final = rule_outputs(rule, queries, keys, values, state=start, beta=beta,
                                   decay=decay)

    def call(part, state, **options):
        def cut(rate):
            if np.ndim(rate) == 0:
                return rate
            return rate[..., part] if rate.ndim < keys.ndim else rate[..., part, :]
        return conditioning.attention(
            queries[..., part, :], keys[..., part, :], values[..., part, :], beta=cut(beta),
            decay=cut(decay), error_correcting=error_correcting,
            state=start if state is None else state, **options)
    errors = [max(largest_difference(outputs, expected), largest_difference(state, final))
              for outputs, state in attention_forms(call, T, chunks)]
    if error_correcting:
        predictions, _ = learn(rule, keys, values, state=start, beta=beta, decay=decay)
        solved = conditioning.prediction_errors(keys, values, beta=beta, decay=decay, state=start)
        errors.append(largest_difference(solved, values - predictions))
    return max(errors)


def associability_errors(rng, xp, batch, T):
    """Largest difference between Pearce-Hall and the two forms of PH-attention."""
    queries, keys, values, start = (xp.asarray(array) for array in random_layer(rng, batch, T))
    associability = xp.asarray(rng.uniform(0, 1, batch + keys.shape[-1:]))
    state = rules.AssociabilityState(start, associability)
    beta, eta = (xp.asarray(rng.uniform(0, 1, batch + (T,))) for _ in range(2))
    expected, final = rule_outputs(rules.pearce_hall, queries, keys, values, state=state,
                                   beta=beta, eta=eta)
    errors = []
    for form in ("recurrent", "parallel"):
        outputs, last = conditioning.ph_attention(queries, keys, values, beta=beta, eta=eta,
                                                  state=state, form=form)
        errors += [largest_difference(outputs, expected),
                   largest_difference(last.memory, final.memory),
                   largest_difference(last.associability, final.associability)]
    return max(errors)


def relative_errors(rng, xp, batch, T):
    """Two equivalences beside the one equation: (trace against filtered keys, Kalman against Mesa).

    The eligibility trace against linear attention over keys filtered by trace^(t - s); the Kalman
    filter without drift at noise 1 and prior 1 against MesaNet at ridge 1.
    """
    queries, keys, values, _ = (xp.asarray(array) for array in random_layer(rng, batch, T))
    trace = float(rng.uniform(0, 1))
    expected, _ = rule_outputs(rules.stimulus_trace, queries, keys, values, beta=0.5, trace=trace,
                               state=rules.initial_state(rules.stimulus_trace, keys, values))
    token = np.arange(T)
    filtered = xp.asarray(np.tril(trace ** abs(token[:, None] - token))) @ keys
    outputs, _ = conditioning.linear_attention(queries, filtered, values, beta=0.5)
    inferred, _ = rule_outputs(rules.kalman, queries, keys, values, noise=1.0,
                               state=rules.initial_state(rules.kalman, keys, values))
    regression = conditioning.mesa_attention(queries, keys, values, ridge=1.0)
    return largest_difference(outputs, expected), largest_difference(regression, inferred)


def circuit_claims(rng, xp, T=64):
    """P1: when the conditioning circuit is linear attention, and when it is not."""
    queries, keys, values, _ = (xp.asarray(array) for array in random_layer(rng, (3,), T))
    circuit, linear = conditioning.conditioning_circuit, conditioning.linear_attention
    mixing = xp.asarray(rng.normal(size=(6, 5)))
    stream = xp.asarray(rng.normal(size=(3, T, 6)))
    w_q, w_k, w_v = (xp.asarray(rng.normal(size=(6, n))) for n in (6, 6, 3))
    own = (stream @ w_q, stream @ w_k, stream @ w_v)

    def mixed(cue):
        return cue @ mixing

    def rectified(cue):
        return xp.maximum(cue, 0)

    def saturating(outcome):
        return xp.tanh(outcome)
    plain = linear(queries, keys, values)[0]
    return [
        claim("circuit with identity activations = linear attention", "P1",
              largest_difference(circuit(queries, keys, values), plain), below=1e-12),
        claim("... with a linear cue activation = linear attention over mixed keys, queries", "P1",
              largest_difference(circuit(queries, keys, values, cue_activation=mixed),
                                 linear(mixed(queries), mixed(keys), values)[0]), below=1e-12),
        claim("... with CS, US and test read from one sequence = linear self-attention", "P1",
              largest_difference(circuit(*own), linear(*own)[0]), below=1e-12),
        claim("does not reduce: a saturating US activation is not linear in the values "
              "(response to 2v less twice the response to v)", "P1",
              largest_difference(circuit(queries, keys, 2 * values, outcome_activation=saturating),
                                 2 * circuit(queries, keys, values,
                                             outcome_activation=saturating)), above=0.1),
        claim("does not reduce: a rectifying cue activation is linear attention over other "
              "features, not over the keys", "P1",
              largest_difference(circuit(queries, keys, values, cue_activation=rectified), plain),
              above=0.1),
        claim("does not reduce: test neurons with another activation than the CS neurons", "P1",
              largest_difference(circuit(queries, keys, values, test_activation=rectified), plain),
              above=0.1)]


@experiment(quick={"lengths": (1, 2, 7, 64)})
def equivalence(*, seed=0, device="cpu", lengths=(1, 2, 7, 64, 257), chunks=(1, 3, 16, 64),
                batches=((), (3,), (2, 3))):
    """Learning rules, trial by trial, against every form of the attention that they equal."""
    xp, rng = device_module(device), np.random.default_rng(seed)
    errors = np.zeros((len(CORNERS) + 3, len(lengths)))
    for column, T in enumerate(lengths):
        for batch in batches:
            found = [corner_errors(rng, xp, corner, batch, T, chunks) for corner in CORNERS]
            found += [associability_errors(rng, xp, batch, T), *relative_errors(rng, xp, batch, T)]
            errors[:, column] = np.maximum(errors[:, column], found)
    names = [*CORNERS, "PH-attention", "filtered keys", "MesaNet"]
    twins = [corner[0].__name__ for corner in CORNERS.values()]
    twins += ["pearce_hall", "stimulus_trace", "kalman"]
    sources = [corner[-1] for corner in CORNERS.values()] + ["A9", "A3", "beyond"]
    claims = [claim(f"{name} = {twin}, all forms, chunks, cuts and batch axes", source, row.max(),
                    below=1e-12)
              for name, twin, source, row in zip(names, twins, sources, errors, strict=True)]
    queries, keys, values, start = random_layer(rng, (3,), 64)
    outputs = {(correcting, decay): conditioning.attention(
        queries, keys, values, beta=0.5, decay=decay, error_correcting=correcting, state=start)[0]
        for correcting in (False, True) for decay in (1.0, 0.9)}
    apart = [largest_difference(a, b) for (i, a), (j, b) in itertools.combinations(
        outputs.items(), 2)]
    single, trace = np.eye(2)[[0, 1, 1, 1]], 0.7
    paired = np.array([[1.0], [0], [0], [0]])
    faded = conditioning.retention(single[[0, 0, 0, 0]], single, paired, decay=trace)[0]
    expected = trace ** np.arange(4)[:, None]
    claims += [
        claim("control: the two corners that differ most", "A1", max(apart), above=0.1),
        claim("control: the two corners that differ least", "A1", min(apart), above=0.01),
        claim("retention: a pairing m tokens ago counts decay^m, a decayed stimulus trace", "A3",
              largest_difference(faded, expected), below=1e-12),
        *circuit_claims(rng, xp)]
    return Result({"errors": errors, "names": np.array(names), "twins": np.array(twins),
                   "lengths": np.array(lengths)}, claims)


# ---------------------------------------------------------------------------------- blocking (A4)


def blocked_strength(xp, a, c, x, *, beta, m, n):
    """Responses to x after m trials of a and n of c, simulated: (as a rule, as attention).

    Vectors (..., K); the test is a token with beta 0 for the attention, a test trial for the rule.
    """
    a, c, x = np.broadcast_arrays(a, c, x)
    cues = xp.asarray(np.concatenate([np.repeat(vector[..., None, :], times, axis=-2)
                                      for vector, times in ((a, m), (c, n), (x, 1))], axis=-2))
    outcomes = xp.ones(cues.shape[:-1] + (1,))
    test = xp.broadcast_to(xp.arange(m + n + 1) == m + n, cues.shape[:-1])
    predictions, _ = learn(rules.rescorla_wagner, cues, outcomes, test=test, beta=beta)
    outputs, _ = conditioning.deltanet(cues, cues, outcomes,
                                       beta=conditioning.frozen(test, beta=beta)["beta"])
    return host(predictions)[..., -1, 0], host(outputs)[..., -1, 0]


@experiment(quick={"cases": 50})
def blocking(*, seed=0, device="cpu", betas=(0.05, 0.1, 0.2, 0.3, 0.5), m=20, n=20, cases=500):
    """Kamin blocking: the closed form against simulation, as a rule and as attention."""
    xp, rng = device_module(device), np.random.default_rng(seed)
    a, x = np.eye(2)
    closed_form = conditioning.blocking_strength
    blocks = np.arange(0, n + 1)
    closed = np.array([closed_form(a=a, c=a + x, x=x, beta=beta, m=m, n=blocks) for beta in betas])
    simulated = np.array([[blocked_strength(xp, a, a + x, x, beta=beta, m=m, n=int(k))
                           for k in blocks] for beta in betas])
    errors = np.max(abs(simulated - closed[..., None]), axis=1)
    control = np.array([closed_form(a=a, c=a + x, x=x, beta=beta, m=0, n=n) for beta in betas])

    lengths = rng.uniform(0.3, 1, size=(2, cases, 1))
    cosine = rng.uniform(-0.8, 0.8, size=(cases, 1))
    first = lengths[0] * np.array([1.0, 0.0])
    second = lengths[1] * np.concatenate([cosine, np.sqrt(1 - cosine**2)], axis=-1)
    general = {}
    for compound in ("sum", "normalised"):
        c = first + second
        if compound == "normalised":
            c = c / np.sqrt(np.sum(c**2, axis=-1, keepdims=True))
        expected = closed_form(a=first, c=c, x=second, beta=0.3, m=m, n=n)
        general[compound] = max(np.max(abs(response - expected)) for response in
                                blocked_strength(xp, first, c, second, beta=0.3, m=m, n=n))
    pretraining = np.array([1, 2, 3, 5, 8, 12, 20, 40])
    index = np.array([[1 - np.divide(*(blocked_strength(
        xp, a, scale * (a + x), x, beta=0.3, m=m_A, n=200)[1] for m_A in (int(k), 0)))
        for k in pretraining] for scale in (1.0, 0.5**0.5)])
    V_A = conditioning.acquisition_strength(alpha=1.0, beta=0.3, n=pretraining)
    generalised = []
    for cosine, beta, trials in ((-0.5, 0.3, n), (0.6, 0.05, 1)):
        similar = np.array([cosine, np.sqrt(1 - cosine**2)])
        generalised.append(1 - np.divide(*(blocked_strength(
            xp, a, a + similar, similar, beta=beta, m=k, n=trials)[0] for k in (m, 0))))
    claims = [claim(f"V_X after A+ | AX+ as {name}: simulation against closed form, 5 rates",
                    "A4", np.max(errors[:, i]), below=1e-12, paper="< 1e-7")
              for i, name in enumerate(("a rule", "attention"))]
    claims += [claim(f"... with unequal saliences and similar cues, compound {name}", "beyond",
                     error, below=1e-12) for name, error in general.items()]
    claims += [
        claim("control: the strength without pretraining is another one, smallest difference",
              "A4", np.min(control - closed[:, -1]), above=0.1),
        claim("L2-normalised compounds: blocking index less V_A / (lambda sqrt 2)", "beyond",
              np.max(abs(index[1] - V_A / np.sqrt(2))), below=1e-12),
        claim("... at the asymptote 1/sqrt 2 (summed compounds: 1)", "beyond", index[1, -1],
              within=(0.707, 0.70711)),
        claim("similar cues: the index leaves [0, 1]; cosine -.5, 20 compound trials", "beyond",
              generalised[0], above=1.0),
        claim("... cosine .6, one compound trial at rate .05 (X responds by generalisation)",
              "beyond", generalised[1], below=0.0)]
    return Result({"betas": np.array(betas), "blocks": blocks, "closed": closed,
                   "simulated": simulated, "errors": errors, "pretraining": pretraining,
                   "index": index, "V_A": V_A}, claims)


# ------------------------------------------------------------------------------- competition (A5)

# Parameters of each rule, its start, and whether it shares one error among the cues of a trial.
COMPETITORS = {
    "Hebb": (rules.hebbian, {"beta": 0.1}, {}, False),
    "Hebb, decay": (rules.hebbian, {"beta": 0.1, "decay": 0.98}, {}, False),
    "Bush-Mosteller": (rules.bush_mosteller, {"beta": 0.1}, {}, False),
    "Rescorla-Wagner": (rules.rescorla_wagner, {"beta": 0.1}, {}, True),
    "Rescorla-Wagner, decay": (rules.rescorla_wagner, {"beta": 0.1, "decay": 0.98}, {}, True),
    "Pearce-Hall": (rules.pearce_hall, {"beta": 0.3, "eta": 0.2}, {"associability": 0.5}, True),
    "Kalman": (rules.kalman, {"noise": 1.0}, {"prior": 1.0}, True),
}
# The attention layers among them.
COMPETING_LAYERS = {
    "Hebb": (conditioning.linear_attention, {"beta": 0.1}),
    "Hebb, decay": (conditioning.retention, {"beta": 0.1, "decay": 0.98}),
    "Rescorla-Wagner": (conditioning.deltanet, {"beta": 0.1}),
    "Rescorla-Wagner, decay": (conditioning.gated_deltanet, {"beta": 0.1, "decay": 0.98}),
}
# Experimental and control group, matched in trials before the test of X.
COMPETITION_DESIGNS = {
    "blocking": ("20A+ | 20AX+ | X?", "20_ | 20AX+ | X?"),
    "overshadowing": ("20AX+ | X?", "20X+ | X?"),
    "overexpectation": ("20A+/20X+ | 20AX+ | X?", "20A+/20X+ | 20X+ | X?"),
    "conditioned inhibition": ("20A+/20AX- | X?", "20A+/20X- | X?"),
}
# The classical control of overexpectation is left alone after training; X+ trials in its place
# match what X meets, so that forgetting cannot hide the effect or pass for it.
UNTREATED = "20A+/20X+ | 20_ | X?"
# The same seeded order of AX and BX in both groups: the kinds are listed in the same rhythm.
RELATIVE_VALIDITY = ("20AX+/20BX- | X?", "10AX+/10BX+/10AX-/10BX- | X?")


def test_response(name, arrays, xp, *, layer=False, **changed):
    """Response (...) of a competitor to the last trial of a design, which is a test."""
    cues, outcomes, test = (xp.asarray(array) for array in arrays)
    if layer:
        attend, parameters = COMPETING_LAYERS[name]
        rates = conditioning.frozen(test, **parameters)
        if attend in (conditioning.linear_attention, conditioning.deltanet):
            rates.pop("decay")
        return host(attend(cues, cues, outcomes, **rates)[0])[..., -1, 0]
    rule, parameters, start, _ = COMPETITORS[name]
    state = rules.initial_state(rule, cues, outcomes, **start)
    predictions, _ = learn(rule, cues, outcomes, state=state, test=test, **parameters | changed)
    return host(predictions)[..., -1, 0]


def compound_size_ratios(xp, layer, trials=20):
    """X after its L2-normalised compound over X alone: (X alone as long as in it, X alone at 1)."""
    a, x = np.eye(2)
    part = 0.5**0.5

    def response(cue, **beta):
        cues = xp.asarray(np.repeat(cue[None], trials, axis=0))
        state = layer(cues, cues, xp.ones((trials, 1)), **beta)[1]
        return float(host(state)[1, 0])
    beta = {"beta": 0.3}
    return (response(part * (a + x), **beta) / response(part * x, **beta),
            response(part * (a + x), **beta) / response(x, **beta))


@experiment(quick={"orders": 16})
def competition(*, seed=0, device="cpu", orders=128):
    """Cue competition: contiguity against error correction, own error against shared error."""
    xp = device_module(device)
    responses = np.zeros((len(COMPETITION_DESIGNS) + 1, len(COMPETITORS), 2))
    twins = []
    for row, pair in enumerate(COMPETITION_DESIGNS.values()):
        for group, text in enumerate(pair):
            arrays = conditioning.design_arrays(text, cues="AX")
            for column, name in enumerate(COMPETITORS):
                responses[row, column, group] = test_response(name, arrays, xp)
                if name in COMPETING_LAYERS:
                    twins.append(responses[row, column, group]
                                 - test_response(name, arrays, xp, layer=True))
    validity = [conditioning.design_arrays(text, cues="ABX", order="mirrored", orders=orders,
                                           seed=seed) for text in RELATIVE_VALIDITY]
    pairs = {name: np.array([np.mean(test_response(name, arrays, xp), axis=-1)
                             for arrays in validity]) for name in COMPETITORS}
    unequal = {"beta": 0.1, "beta_omitted": 0.05}
    stronger = np.array([np.mean(test_response("Rescorla-Wagner", arrays, xp, **unequal), axis=-1)
                         for arrays in validity])
    responses[-1] = [np.mean(pairs[name], axis=-1) for name in COMPETITORS]
    effect = responses[..., 1] - responses[..., 0]
    shared = np.array([entry[-1] for entry in COMPETITORS.values()])
    contiguity = np.array([entry[0] is rules.hebbian for entry in COMPETITORS.values()])
    claims = []
    for row, name in enumerate(COMPETITION_DESIGNS):
        claims.append(claim(f"{name}: rules with a shared error show it, smallest effect (control "
                            "less experimental)", "A5", effect[row, shared].min(), above=0.1))
        claims += [claim(f"{name}: {group}, exact tie, largest difference", "A5",
                         abs(effect[row, which]).max(), below=1e-12)
                   for group, which in (("contiguity", contiguity), (
                       "an own error for each cue (Bush-Mosteller)", ~shared & ~contiguity))]
    left_alone = conditioning.design_arrays(UNTREATED, cues="AX")
    fall = np.array([test_response(name, left_alone, xp) for name in COMPETITORS])
    fall -= responses[list(COMPETITION_DESIGNS).index("overexpectation"), :, 0]
    forgets = np.array(["decay" in entry[1] for entry in COMPETITORS.values()])
    claims += [
        claim("overexpectation against an untreated control: X does not fall under contiguity or "
              "own errors, largest fall", "A5", fall[~shared].max(), below=0.0),
        claim("... it falls under a shared error without decay, smallest fall", "A5",
              fall[shared & ~forgets].min(), above=0.1),
        claim("... with decay .98 the untreated control forgets as much: the fall is hidden",
              "beyond", fall[shared & forgets].max(), within=(-0.05, 0.05))]
    linear = [name for name in COMPETITORS if name != "Pearce-Hall"]
    validity_effect = {name: pair[1] - pair[0] for name, pair in pairs.items()}
    claims += [
        claim("relative validity: exact tie of every rule linear in the outcomes at equal rates, "
              "each mirrored pair of orders, largest difference", "A5",
              max(abs(validity_effect[name]).max() for name in linear), below=1e-12),
        claim("... control: single orders of Rescorla-Wagner do differ (largest difference)", "A5",
              abs(np.subtract(*(test_response("Rescorla-Wagner", arrays, xp)
                                for arrays in validity))).max(), above=0.01),
        _mean_claim("... appears with beta+ = 2 beta- (Pseudo less True, over orders)", "A5",
                    stronger[1] - stronger[0], above=0.05),
        _mean_claim("... Pearce-Hall shows it at equal rates (Pseudo less True, over orders)",
                    "A5", validity_effect["Pearce-Hall"], above=0.0),
        claim("the attention layers give the same responses, largest difference", "A5",
              np.max(np.abs(twins)), below=1e-12)]
    for name, layer, fair in (("linear attention", conditioning.linear_attention, 1.0),
                              ("DeltaNet", conditioning.deltanet, 0.5)):
        ratios = compound_size_ratios(xp, layer)
        claims += [claim(f"{name}, normalised keys: X overshadowed / X alone at its size in the "
                         f"compound ({fair:g}: {'shared' if fair < 1 else 'no'} error)", "A5",
                         ratios[0], within=(fair - 0.01, fair + 0.05)),
                   claim(f"{name}: the naive control, X alone at length 1, shows 1/sqrt 2 by "
                         "normalisation alone", "beyond", ratios[1], within=(0.70, 0.75))]
    return Result({"responses": responses, "rules": np.array(list(COMPETITORS)),
                   "phenomena": np.array([*COMPETITION_DESIGNS, "relative validity"])}, claims)


def _mean_claim(text, source, samples, **bound):
    mean, low, high = mean_interval(samples)
    return claim(text, source, mean, interval=(low, high), **bound)


# ---------------------------------------------------------------------------------- recovery (A8)


def retention_sequences(rng, sequences, T, K=6, D=3, orthogonal=True):
    """A cue (sequences, K), retention keys (..., T, K) orthogonal to it or not, and the rest.

    Returns cue, keys of length 1, values, scalar beta in (0, 2), scalar decay in [0, 1], state.
    """
    cue = rng.normal(size=(sequences, K))
    cue /= np.sqrt(np.sum(cue**2, axis=-1, keepdims=True))
    keys = rng.normal(size=(sequences, T, K))
    if orthogonal:
        keys -= np.sum(keys * cue[:, None], axis=-1, keepdims=True) * cue[:, None]
    keys /= np.sqrt(np.sum(keys**2, axis=-1, keepdims=True))
    values, state = rng.normal(size=(sequences, T, D)), rng.normal(size=(sequences, K, D))
    beta, decay = rng.uniform(0, 2, (sequences, T)), rng.uniform(0.8, 1.1, (sequences, T))
    return cue, keys, values, beta, np.minimum(decay, 1), state


def retention_responses(xp, cue, keys, values, beta, decay, state, *, error_correcting):
    """Responses to the cue before and after each retention trial: (sequences, T + 1, D)."""
    queries = np.broadcast_to(cue[:, None], keys.shape)
    moved = [xp.asarray(a) for a in (queries, keys, values, beta, decay, state)]
    outputs, _ = conditioning.attention(*moved[:3], beta=moved[3], decay=moved[4], state=moved[5],
                                        error_correcting=error_correcting)
    before = np.einsum("sk,skd->sd", cue, state)[:, None]
    return np.concatenate([before, host(outputs)], axis=1)


def delayed_responses(xp, decays, delays, *, error_correcting, beta=0.3, trials=20):
    """Response to A after A+ trials, A- trials and a delay: (..., delays + 1), decays (..., 2).

    A is coded by two features, slow and fast, each with a decay of its own; the delay is filled
    with reinforced trials of a cue B that shares no feature with A.
    """
    design = f"{trials}A+ | {trials}A- | {delays}B+"
    present = conditioning.design_arrays(design, cues="AB")
    code = np.repeat(np.eye(2), 2, axis=1) / np.sqrt(2)
    cues, decays = present.cues @ code, np.concatenate([decays, decays], axis=-1)[..., None, :]
    queries = np.broadcast_to(code[0], cues.shape)
    batch = decays.shape[:-2]
    keys, values, queries = (xp.asarray(np.broadcast_to(a, batch + a.shape))
                             for a in (cues, present.outcomes, queries))
    decay = xp.asarray(np.broadcast_to(decays, keys.shape))
    as_layer, _ = conditioning.attention(queries, keys, values, beta=beta, decay=decay,
                                         error_correcting=error_correcting)
    rule = rules.rescorla_wagner if error_correcting else rules.hebbian
    as_rule, _ = rule_outputs(rule, queries, keys, values, beta=beta, decay=decay,
                              state=rules.initial_state(rule, keys, values))
    return host(as_layer)[..., 2 * trials - 1:, 0], largest_difference(as_layer, as_rule)


@experiment(quick={"sequences": 500})
def recovery(*, seed=0, device="cpu", sequences=4000, T=40, delays=60,
             slow=(0.9, 0.95, 0.98, 0.99, 0.998), fast=(0.3, 0.5, 0.6, 0.7, 0.8, 0.9)):
    """Spontaneous recovery: none with scalar rates and decays (proved); where there is some."""
    xp, claims, arrays = device_module(device), [], {}
    for correcting, name in ((False, "contiguity"), (True, "error correction")):
        rng = np.random.default_rng([seed, correcting])
        for orthogonal in (True, False):
            sequence = retention_sequences(rng, sequences, T, orthogonal=orthogonal)
            responses = retention_responses(xp, *sequence, error_correcting=correcting)
            decay = sequence[4]
            kept = np.stack([conditioning.retained_response(1.0, decay[:, :t])
                             for t in range(T + 1)], axis=-1)
            difference = largest_difference(responses, kept[..., None] * responses[:, :1])
            size = np.sqrt(np.sum(responses**2, axis=-1))
            growth = np.max(size[:, 1:] / size[:, :-1])
            arrays[f"size_{name.split()[0]}_{'orthogonal' if orthogonal else 'any'}"] = size[:5]
            if orthogonal:
                claims += [
                    claim(f"{name}: response after orthogonal retention = product of the decays "
                          f"times the response before, {sequences} sequences", "A8", difference,
                          below=1e-12),
                    claim(f"{name}: it never grows, largest ratio of successive sizes less 1",
                          "A8", growth - 1, below=1e-9)]
            else:
                claims.append(claim(f"control, {name}: retention keys that are not orthogonal",
                                    "A8", difference, above=0.1))
    grid = np.stack(np.meshgrid(slow, fast, indexing="ij"), axis=-1)
    delayed, twin = delayed_responses(xp, grid, delays, error_correcting=True)
    gain = np.max(delayed, axis=-1) - delayed[..., 0]
    faded, _ = delayed_responses(xp, grid, delays, error_correcting=False)
    equal, _ = delayed_responses(xp, np.array([[0.95, 0.95]]), delays, error_correcting=True)
    stated = (slow.index(0.998), fast.index(0.8))
    claims += [
        claim("KDA, two timescales: recovers by itself after extinction, decays .998 and .8 "
              "(largest response in the delay less the one before)", "beyond", gain[stated],
              above=0.05),
        claim("... the slower the slow feature forgets, the more returns: smallest step of the "
              "gain over the grid", "beyond", np.min(np.diff(gain, axis=0)), above=0.0),
        claim("... as attention = as Rescorla-Wagner with slow and fast features", "beyond", twin,
              below=1e-12),
        claim("control: equal decays, no recovery (largest gain)", "beyond",
              np.max(equal) - equal[0, 0], below=1e-12),
        claim("GLA: without error correction omission leaves no inhibition for the fast feature "
              "to lose; largest gain", "beyond",
              np.max(np.max(faded, axis=-1) - faded[..., 0]), below=1e-12)]
    moved = {name: shared_feature_shift(xp, **options) for name, options in {
        "rate per feature": {"beta": [0.9, 0.1]}, "scalar rate": {"beta": [0.5, 0.5]}}.items()}
    claims += [
        claim("a rate per feature moves the response through shared features, although the "
              "retention key is orthogonal", "beyond", abs(moved["rate per feature"]), above=0.01),
        claim("... PH-attention, whose associability differs between features", "beyond",
              abs(shared_feature_shift(xp, associability=[0.9, 0.1])), above=0.01),
        claim("... control: the same with a scalar rate", "beyond", abs(moved["scalar rate"]),
              below=1e-12)]
    return Result(arrays | {"slow": np.array(slow), "fast": np.array(fast), "delayed": delayed,
                            "gain": gain, "faded": faded}, claims)


def shared_feature_shift(xp, beta=None, associability=None, trials=20):
    """Change of the response to A = (1, 1) / sqrt 2 while (1, -1) / sqrt 2 is reinforced."""
    cue, other = np.array([[1.0, 1.0], [1.0, -1.0]]) / np.sqrt(2)
    keys = xp.asarray(np.repeat(other[None], trials, axis=0))
    queries = xp.asarray(np.repeat(cue[None], trials, axis=0))
    state, values = xp.asarray(cue[:, None]), xp.ones((trials, 1))
    if beta is not None:
        rates = xp.asarray(np.repeat([beta], trials, axis=0))
        outputs = conditioning.deltanet(queries, keys, values, beta=rates, state=state)[0]
    else:
        start = rules.AssociabilityState(state, xp.asarray(np.array(associability)))
        outputs = conditioning.ph_attention(queries, keys, values, beta=0.5, eta=0.1,
                                            state=start)[0]
    return float(host(outputs)[-1, 0]) - 1.0


# ----------------------------------------------------------------------------- associability (A9)


class UsageState(NamedTuple):
    """State of `preconditioned`: memory (..., K, D), usage of each feature so far (..., K)."""

    memory: Any
    usage: Any


def preconditioned(state, cue, outcome, *, beta, scale=4.0):
    """A delta step whose rate falls with the use of a feature: beta / (1 + usage / scale).

    usage_i is the sum of x_i^2 so far: the diagonal preconditioner of the DeltaNet family (after
    Preconditioned DeltaNet, arXiv 2604.21100; departure: 1 / (1 + u / scale), not their bounded
    power of log u). A rate carried in the state that knows exposure and no error.
    """
    error = outcome - rules.recall(state.memory, cue)
    rate = beta / (1 + state.usage / scale)
    return UsageState(state.memory + rules.outer(rate * cue, error), state.usage + cue * cue)


preconditioned.start = lambda memory: UsageState(memory, 0 * memory[..., 0])

# A difference of responses below this is no effect (the outcome has size 1).
EFFECT = 0.01
# Designs of experimental and control group: the two preparations that Pearce & Hall explain.
ASSOCIABILITY_DESIGNS = {
    "latent inhibition": ("20A- | 5A+ | A?", "20_ | 5A+ | A?", (1.0, 2.0)),
    "Hall-Pearce transfer": ("66A+ | 6A++ | A?", "66B+ | 6A++ | A?", (0.25, 1.0)),
}


def history_rate(rule, history, xp, *, start=None, lam=1.0, **parameters):
    """First-trial rate dW / (lam - W) of cue A after outcomes (..., T): what has it become?"""
    outcomes = xp.asarray(np.concatenate([history, np.full(history.shape[:-1] + (2,), lam)],
                                         axis=-1)[..., None])
    cues, last = xp.ones(outcomes.shape), history.shape[-1]
    state = rules.initial_state(rule, cues, outcomes, **start or {})
    strength = host(learn(rule, cues, outcomes, state=state, **parameters)[0])[..., 0]
    return (strength[..., last + 1] - strength[..., last]) / (lam - strength[..., last])


def token_rates(rng, xp, layers, histories=64, T=20, K=6, D=3):
    """How much of the last token's value enters its output, after many histories: {name: (...)}.

    Each layer computes queries, keys, values and its gates from tokens by fixed random maps; the
    histories differ, the last token is the same. The rate is read as the change of the output for
    a change of the last value, so that it goes through the whole layer.
    """
    tokens = rng.normal(size=(histories, T, K))
    tokens[:, -1] = tokens[0, -1]
    w_q, w_k, w_gate = rng.normal(size=(3, K, K))
    keys = tokens @ w_k
    keys /= np.sqrt(np.sum(keys**2, axis=-1, keepdims=True))
    values = rng.normal(size=(histories, T, D)) * rng.uniform(0, 0.6, size=(histories, 1, 1))
    gate = 1 / (1 + np.exp(-tokens @ w_gate))
    changed = values.copy()
    changed[:, -1] += 1
    queries, keys, gate = (xp.asarray(array) for array in (tokens @ w_q, keys, gate))
    rates = {}
    for name, layer in layers.items():
        outputs = [host(layer(queries, keys, xp.asarray(v), gate))[:, -1, 0]
                   for v in (values, changed)]
        rates[name] = outputs[1] - outputs[0]
    return rates


def group_difference(xp, name, *, beta, eta, alpha, trials=None, rule=rules.pearce_hall,
                     layer=False):
    """Control less experimental response (...) in a design of ASSOCIABILITY_DESIGNS.

    beta, eta, alpha (...): one value a setting; `trials` replaces the number of the first phase.
    layer: through PH-attention in place of the rule (the test is the last token).
    """
    *texts, us = ASSOCIABILITY_DESIGNS[name]
    texts = [text if trials is None else re.sub(r"^\d+", str(trials), text) for text in texts]
    responses = []
    for text in texts:
        arrays = conditioning.design_arrays(text, cues="AB", us=us)
        batch = np.shape(beta)
        cues, outcomes = (xp.asarray(np.broadcast_to(a, batch + a.shape)) for a in arrays[:2])
        rates = {"beta": xp.asarray(beta)[..., None]}
        state = None
        if rule is rules.pearce_hall:
            rates["eta"] = xp.asarray(eta)[..., None]
            state = rules.initial_state(rule, cues, outcomes,
                                        associability=xp.asarray(alpha)[..., None])
        test = xp.asarray(arrays.test)
        if layer:
            held = conditioning.frozen(xp.broadcast_to(test, cues.shape[:-1]),
                                       beta=rates["beta"])["beta"]
            answers, _ = conditioning.ph_attention(cues, cues, outcomes, beta=held,
                                                   eta=rates["eta"], state=state)
        else:
            answers, _ = learn(rule, cues, outcomes, state=state, test=test, **rates)
        responses.append(host(answers)[..., -1, 0])
    return responses[1] - responses[0]


@experiment(quick={"orders": 16})
def associability(*, seed=0, device="cpu", beta=0.25, eta=0.3, alpha=1.0, orders=128,
                  betas=(0.05, 0.1, 0.2, 0.3, 0.5, 0.8), etas=(0.02, 0.05, 0.1, 0.2, 0.4, 0.8),
                  alphas=(0.25, 0.5, 0.75, 1.0), exposures=(5, 10, 20, 40)):
    """Pearce-Hall: rates that follow past errors, against gates that read the token alone."""
    xp, rng, claims = device_module(device), np.random.default_rng(seed), []
    setting = {"beta": np.array(beta), "eta": np.array(eta), "alpha": np.array(alpha)}
    grid = dict(zip(("beta", "eta", "alpha"), np.meshgrid(betas, etas, alphas, indexing="ij"),
                    strict=True))
    sweep = {}
    for name, verdict, bound in (("latent inhibition", "no effect", {"within": (-1e-12, 1e-12)}),
                                 ("Hall-Pearce transfer", "the opposite", {"below": -EFFECT})):
        sweep[name] = np.array([group_difference(xp, name, trials=trials, **grid)
                                for trials in exposures])
        twin = group_difference(xp, name, trials=exposures[-1], layer=True, **grid)
        claims += [
            claim(f"{name}: Pearce-Hall, control less experimental (beta {beta}, eta {eta}, "
                  f"alpha_0 {alpha})", "A9", group_difference(xp, name, **setting), above=0.05),
            claim(f"... Rescorla-Wagner = DeltaNet: {verdict}", "A9",
                  group_difference(xp, name, rule=rules.rescorla_wagner, **setting), **bound),
            claim(f"... share of {sweep[name].size} settings with an effect above {EFFECT} (rates "
                  f"{betas[0]}-{betas[-1]}, eta {etas[0]}-{etas[-1]}, alpha_0 {alphas[0]}-"
                  f"{alphas[-1]}, {exposures[0]}-{exposures[-1]} exposures)", "A9",
                  np.mean(sweep[name] > EFFECT), above=0.5),
            claim("... PH-attention gives the same, largest difference over the settings", "A9",
                  np.max(abs(twin - sweep[name][-1])), below=1e-12)]

    gates = {
        "DeltaNet, gate from the token": lambda q, k, v, gate: conditioning.deltanet(
            q, k, v, beta=gate[..., 0])[0],
        "rate per feature from the token": lambda q, k, v, gate: conditioning.deltanet(
            q, k, v, beta=gate)[0],
        "Gated DeltaNet": lambda q, k, v, gate: conditioning.gated_deltanet(
            q, k, v, beta=gate[..., 0], decay=gate[..., 1])[0],
        "KDA": lambda q, k, v, gate: conditioning.gated_deltanet(
            q, k, v, beta=gate[..., 0], decay=gate)[0],
        "PH-attention": lambda q, k, v, gate: conditioning.ph_attention(
            q, k, v, beta=gate[..., 0], eta=1.0)[0]}
    rates = token_rates(rng, xp, gates)
    spread = {name: np.ptp(rate) / abs(np.mean(rate)) for name, rate in rates.items()}
    claims += [
        claim("the same token after 64 histories: relative spread of the rate at which its value "
              "enters the output, any gate b = f(token)", "A9",
              max(value for name, value in spread.items() if name != "PH-attention"),
              below=1e-12),
        claim("... PH-attention", "A9", spread["PH-attention"], above=0.05)]

    order = np.stack([np.random.default_rng([seed, i]).permutation(20) for i in range(orders)])
    inconsistent, consistent = (order % 2).astype(float), np.full((1, 20), 0.5)
    rules_compared = {
        "Pearce-Hall": (rules.pearce_hall, {"associability": alpha}, {"beta": beta, "eta": eta}),
        "Rescorla-Wagner": (rules.rescorla_wagner, {}, {"beta": beta}),
        "Kalman = MesaNet": (rules.kalman, {}, {}),
        "preconditioner": (preconditioned, {}, {"beta": beta})}
    first_rate = {name: [history_rate(rule, history, xp, start=start, **parameters)
                         for history in (inconsistent, consistent)]
                  for name, (rule, start, parameters) in rules_compared.items()}
    exposure = np.arange(0, 41, 2)
    by_exposure = {name: np.array([float(history_rate(rule, np.zeros(n), xp, start=start,
                                                      **parameters)) for n in exposure])
                   for name, (rule, start, parameters) in rules_compared.items()}
    alternating = np.arange(20) % 2 == 0
    exact = [float(history_rate(rules.pearce_hall, history.astype(float), xp, beta=beta, eta=eta))
             for history in (alternating, consistent[0])]
    claims += [
        _mean_claim("first-trial rate after 20 trials of 50% lambda less after 20 of lambda / 2, "
                    "Pearce-Hall (random orders)", "A9",
                    first_rate["Pearce-Hall"][0] - first_rate["Pearce-Hall"][1], above=0.05),
        claim("... + and - in alternation: the rate after the inconsistent history", "A9", exact[0],
              within=(0.1, 0.2)),
        claim("... and after the consistent one", "A9", exact[1], within=(0.0, 0.05)),
        claim("... Rescorla-Wagner, Kalman = MesaNet, usage preconditioner: exactly equal, largest "
              "difference", "A9", max(np.max(abs(first_rate[name][0] - first_rate[name][1]))
                                      for name in first_rate if name != "Pearce-Hall"),
              below=1e-12),
        claim("exposure without outcome lowers the rate of MesaNet and the preconditioner too (CS "
              "pre-exposure alone does not separate them): smallest ratio 0 / 20 exposures", "A9",
              min(by_exposure[name][0] / by_exposure[name][10]
                  for name in ("Kalman = MesaNet", "preconditioner", "Pearce-Hall")), above=1.5)]
    return Result({
        "names": np.array(list(rules_compared)),
        "inconsistent": np.array([np.mean(pair[0]) for pair in first_rate.values()]),
        "consistent": np.array([np.mean(pair[1]) for pair in first_rate.values()]),
        "exposure": exposure, "by_exposure": np.array(list(by_exposure.values())),
        "gates": np.array(list(spread)), "rates": np.array(list(rates.values())),
        "betas": np.array(betas), "etas": np.array(etas), "exposures": np.array(exposures),
        "latent_inhibition": sweep["latent inhibition"],
        "transfer": sweep["Hall-Pearce transfer"]}, claims)


# ----------------------------------------------------------------------------- minibatch (beyond)


def minibatch_memory(cues, outcomes, *, rate, batch_size):
    """Memory (..., K, D) after a delta rule whose error is frozen for batch_size trials.

    W <- W + rate sum_t x_t (v_t - W^T x_t)^T, the sum over a mini-batch, all errors from the W
    before it: one gradient step a mini-batch, as TTT-linear takes it (Sun et al. 2024). cues
    (..., T, K), outcomes (..., T, D).
    """
    memory = rules.initial_state(rules.rescorla_wagner, cues, outcomes)
    for start in range(0, cues.shape[-2], batch_size):
        x = cues[..., start:start + batch_size, :]
        errors = outcomes[..., start:start + batch_size, :] - x @ memory
        memory = memory + rate * (x.swapaxes(-1, -2) @ errors)
    return memory


@experiment()
def minibatch(*, seed=0, device="cpu", betas=(0.05, 0.1, 0.2, 0.3), m=32):
    """The error frozen for B trials: a dial from Rescorla-Wagner to Hebb."""
    xp = device_module(device)
    groups = [conditioning.design_arrays(f"{m}{first} | {m}AX+", cues="AX")
              for first in ("A+", "_")]
    sizes = [size for size in range(1, m + 1) if m % size == 0]

    def ratio(rate, size):
        blocked, control = (host(minibatch_memory(xp.asarray(arrays.cues),
                                                  xp.asarray(arrays.outcomes), rate=rate,
                                                  batch_size=size))[1, 0] for arrays in groups)
        return blocked / control
    frozen = np.array([[ratio(beta / size, size) for size in sizes] for beta in betas])
    closed = np.array([[conditioning.minibatch_blocking(beta=beta, m=m, batch_size=size)
                        for size in sizes] for beta in betas])
    whole = np.array([ratio(beta / (2 * m), 2 * m) for beta in betas])
    fixed = np.array([ratio(betas[0], size) for size in [*sizes, 2 * m]])
    cues, outcomes = (xp.asarray(array) for array in groups[0][:2])
    difference = [np.max(abs(host(minibatch_memory(cues, outcomes, rate=rate, batch_size=size))
                             - host(learn(rule, cues, outcomes, beta=rate)[1])))
                  for rule, rate, size in ((rules.rescorla_wagner, betas[-1], 1),
                                           (rules.hebbian, betas[-1] / (2 * m), 2 * m))]
    expected_fixed = [(1 - size * betas[0]) ** (m / size) for size in sizes] + [1.0]
    claims = [
        claim("B = 1 is Rescorla-Wagner, B = T is Hebb at rate beta / T, largest difference",
              "beyond", max(difference), below=1e-12),
        claim("blocked / control at rate beta / B = (1 - beta)^(m / B), B dividing m", "beyond",
              np.max(abs(frozen - closed)), below=1e-12),
        claim("... monotone in B: smallest step of the ratio as B doubles", "beyond",
              np.min(np.diff(frozen, axis=1)), above=0.0),
        claim("... and 1, no blocking, where one batch holds the whole experiment", "beyond",
              np.max(abs(whole - 1)), below=1e-12),
        claim("at a fixed rate there is no dial: (1 - B beta)^(m / B)", "beyond",
              np.max(abs(fixed - expected_fixed)), below=1e-12),
        claim("... it turns negative at B = m (beta .05, m 32)", "beyond", fixed[-2], below=0.0)]
    return Result({"sizes": np.array([*sizes, 2 * m]), "betas": np.array(betas), "fixed": fixed,
                   "frozen": np.concatenate([frozen, whole[:, None]], axis=1), "closed": closed,
                   "m": np.array(m)}, claims)


# ------------------------------------------------------------------------- phenomena (the atlas)


# ---------------------------------------------------------------------------- capacity (P2, A6)


# ------------------------------------------------------------------------------- trained (A5, A8)


# ------------------------------------------------------------------------------------- benchmark


THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def in_one_thread(function, **parameters):
    """function(**parameters), in a new process whose matrix products use one thread."""
    before = {name: os.environ.get(name) for name in THREADS}
    os.environ.update(dict.fromkeys(THREADS, "1"))
    try:
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
            return pool.submit(function, **parameters).result()
    finally:
        for name, value in before.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value


def best_seconds(xp, calls, repeats):
    """{name: least seconds of a call over the repeats}, the calls taking turns, after a warm-up.

    In turns, so that a slow moment of the machine meets every call; the least, since whatever else
    runs can only add. On the CPU seconds of this process (wall-clock time if nothing else runs).
    """
    clock = time.process_time if xp is np else time.perf_counter
    best = dict.fromkeys(calls, np.inf)
    for repeat in range(repeats + 1):
        for name, call in calls.items():
            started = clock()
            call()
            if xp is not np:
                xp.cuda.get_current_stream().synchronize()
            if repeat:
                best[name] = min(best[name], clock() - started)
    return best


def timed_layer(xp, rng, batch, T, K, D, dtype=np.float32):
    """Queries, unit keys, values, beta and decay of a layer, on the device."""
    queries, keys = rng.normal(size=(2, batch, T, K))
    keys /= np.sqrt(np.sum(keys**2, axis=-1, keepdims=True))
    arrays = (queries, keys, rng.normal(size=(batch, T, D)), rng.uniform(0.1, 1, (batch, T)),
              rng.uniform(0.9, 1, (batch, T)))
    return [xp.asarray(array.astype(dtype)) for array in arrays]


def loop_gradients(queries, keys, values, d_outputs, *, beta):
    """DeltaNet forward and backward, trial by trial from 0: d queries, d keys, d values, d beta.

    Shapes as in `attention`, beta (..., T). What `attention_gradients` is timed against.
    """
    xp, T, steps = rules.array_module(keys), keys.shape[-2], []
    q, k, v, d_o = (array[..., None, :] for array in (queries, keys, values, d_outputs))
    b, state = beta[..., None, None], xp.zeros_like(keys[..., 0, :, None] * values[..., 0, None, :])
    for t in range(T):
        error = v[..., t, :, :] - k[..., t, :, :] @ state
        after = state + xp.swapaxes(b[..., t, :, :] * k[..., t, :, :], -1, -2) @ error
        steps.append((state, error, after))
        state = after
    found, d_state = [], xp.zeros_like(state)
    for t in reversed(range(T)):
        (before, error, after), key, rate = steps[t], k[..., t, :, :], b[..., t, :, :]
        d_query = d_o[..., t, :, :] @ xp.swapaxes(after, -1, -2)
        d_state = d_state + xp.swapaxes(q[..., t, :, :], -1, -2) @ d_o[..., t, :, :]
        d_write, d_error = error @ xp.swapaxes(d_state, -1, -2), rate * key @ d_state
        d_key = rate * d_write - d_error @ xp.swapaxes(before, -1, -2)
        d_state = d_state - xp.swapaxes(key, -1, -2) @ d_error
        found.append((d_query, d_key, d_error, xp.sum(key * d_write, axis=-1, keepdims=True)))
    d_queries, d_keys, d_values, d_beta = (xp.concatenate(d[::-1], axis=-2)
                                           for d in zip(*found, strict=True))
    return d_queries, d_keys, d_values, d_beta[..., 0]


def speed_of_forms(xp, rng, repeats, heads, T, chunks):
    """Seconds of the forms on one layer, float32, beside a 1024^3 product of the same dtype."""
    q, k, v, beta, decay = timed_layer(xp, rng, heads, T, 64, 64)
    square = xp.asarray(rng.normal(size=(1024, 1024)).astype(np.float32))
    calls = {"product": lambda: square @ square}
    for name, options in {"deltanet": {"beta": beta, "error_correcting": True},
                          "gated": {"beta": beta, "decay": decay, "error_correcting": True},
                          "linear": {}, "retention": {"decay": 0.95}}.items():
        def call(options=options, **form):
            return conditioning.attention(q, k, v, **options, **form)
        calls[name, "recurrent"] = functools.partial(call, form="recurrent")
        calls |= {(name, chunk): functools.partial(call, chunk=chunk) for chunk in chunks}
    return best_seconds(xp, calls, repeats)


def speed_by_size(xp, rng, repeats, sizes):
    """{axis: (sizes, {form: seconds})} of DeltaNet as one of T, K, D and the batch grows."""
    start, found = {"batch": 4, "T": 256, "K": 64, "D": 64}, {}
    for axis, values in sizes.items():
        seconds = {"recurrent": [], "parallel": [], "chunkwise": []}
        for value in values:
            size = start | {axis: int(value)}
            q, k, v, beta, _ = timed_layer(xp, rng, size["batch"], size["T"], size["K"], size["D"])
            calls = {form: functools.partial(conditioning.deltanet, q, k, v, beta=beta, form=form)
                     for form in seconds if form != "parallel" or size["T"] <= 1024}
            times = best_seconds(xp, calls, repeats)
            for form in seconds:
                seconds[form].append(times.get(form, np.nan))
        found[axis] = seconds
    return found


def speed_of_training(xp, rng, repeats, lengths, features, batch=16):
    """Loop seconds over parallel seconds, forward and backward: (features, lengths)."""
    ratios = []
    for K, T in itertools.product(features, lengths):
        q, k, v, beta, _ = timed_layer(xp, rng, batch, T, K, K)
        times = best_seconds(xp, {
            "loop": functools.partial(loop_gradients, q, k, v, v, beta=beta),
            "parallel": lambda q=q, k=k, v=v, beta=beta: (
                conditioning.deltanet(q, k, v, beta=beta, form="parallel"),
                conditioning.attention_gradients(q, k, v, v, beta=beta, error_correcting=True))},
            repeats)
        ratios.append(times["loop"] / times["parallel"])
    return np.reshape(ratios, (len(features), len(lengths)))


def speed_of_simulation(xp, rng, repeats, batches, trials):
    """Simulated trials a second of Rescorla-Wagner, 4 cues and 1 outcome, every animal its own
    design: (order in memory, dtype, batches).
    """
    rates = np.empty((2, 2, len(batches)))
    for i, batch in enumerate(batches):
        drawn = rng.integers(0, 2, size=(trials, 5, batch))
        for j, dtype in enumerate((np.float64, np.float32)):
            last = xp.moveaxis(xp.asarray(drawn.astype(dtype)), -1, 0)
            first = xp.array(last, order="C")
            times = best_seconds(xp, {
                order: functools.partial(learn, rules.rescorla_wagner, array[..., :4],
                                         array[..., 4:], beta=0.1)
                for order, array in enumerate((first, last))}, repeats)
            rates[:, j, i] = [batch * trials / times[order] for order in (0, 1)]
    return rates


def speed_of_stream(xp, rng, repeats, events, cues=100, active=3):
    """Seconds for one stream of sparse events, 100 cues to 100 outcomes, float64, chunks of 24."""
    drawn = xp.asarray((rng.uniform(size=(2, events, cues)) < active / cues).astype(float))
    call = functools.partial(conditioning.deltanet, drawn[0], drawn[0], drawn[1], beta=0.02,
                             chunk=24)
    return best_seconds(xp, {"stream": call}, repeats)["stream"]


def peak_gigabytes(rng, heads, T):
    """Most memory that NumPy holds during a chunkwise DeltaNet, its arguments included."""
    tracemalloc.start()
    q, k, v = rng.standard_normal(size=(3, heads, T, 64), dtype=np.float32)
    tracemalloc.reset_peak()
    conditioning.deltanet(q, 0.1 * k, v, beta=0.5)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / 2**30


def timings(*, seed, device, repeats, heads, T, chunks, sizes, lengths, features, batches, trials,
            events, longest):
    """All measurements of the benchmark, as arrays by name."""
    xp, rng = device_module(device), np.random.default_rng(seed)
    forms = speed_of_forms(xp, rng, repeats, heads, T, chunks)
    by_size = speed_by_size(xp, rng, repeats, sizes)
    return {
        "product_seconds": np.array(forms.pop("product")),
        "forms": np.array([f"{name} {form}" for name, form in forms]),
        "form_seconds": np.array(list(forms.values())),
        **{f"{axis}_sizes": np.array(values) for axis, values in sizes.items()},
        **{f"{axis}_{form}_seconds": np.array(seconds) for axis, found in by_size.items()
           for form, seconds in found.items()},
        "lengths": np.array(lengths), "features": np.array(features),
        "training_ratios": speed_of_training(xp, rng, repeats, lengths, features),
        "batches": np.array(batches),
        "trials_a_second": speed_of_simulation(xp, rng, repeats, batches, trials),
        "stream_seconds": np.array(speed_of_stream(xp, rng, repeats, events)),
        "gigabytes": np.array(np.nan if device == "gpu" else peak_gigabytes(rng, heads, longest))}


def upper_slope(sizes, seconds):
    """Slope of log seconds over log size, from the middle of the sizes on."""
    half = (len(sizes) - 1) // 2
    return np.polyfit(np.log(sizes[half:]), np.log(seconds[half:]), 1)[0]


def knee(sizes, seconds):
    """First size at which a call takes twice as long as at the smallest; the last if none does."""
    slow = np.flatnonzero(seconds >= 2 * seconds[0])
    return sizes[slow[0] if len(slow) else -1]


@experiment(only_by_name=True, quick={
    "repeats": 1, "T": 1024, "chunks": (16,), "lengths": (32, 64), "features": (32,),
    "batches": (2000,), "trials": 50, "events": 10_000, "longest": 4096,
    "sizes": {"batch": (1, 4), "T": (128, 256), "K": (32, 64), "D": (32, 64)}})
def benchmark(*, seed=0, device="cpu", repeats=5, heads=16, T=4096, chunks=(8, 16, 32, 64, 128),
              sizes=None, lengths=(16, 32, 64, 128, 256, 512), features=(16, 32, 64),
              batches=(100, 400, 1600, 6400, 25_600, 102_400), trials=60, events=100_000,
              longest=65_536):
    """Speed: chunkwise against the loop, training, simulation; one thread; ratios first."""
    sizes = sizes or {"batch": (1, 2, 4, 8, 16, 32, 64), "T": (64, 128, 256, 512, 1024, 2048, 4096),
                      "K": (8, 16, 32, 64, 128, 256), "D": (8, 16, 32, 64, 128, 256)}
    run = in_one_thread if device == "cpu" else (lambda function, **given: function(**given))
    found = run(timings, seed=seed, device=device, repeats=repeats, heads=heads, T=T, chunks=chunks,
                sizes=sizes, lengths=lengths, features=features, batches=batches, trials=trials,
                events=events, longest=longest)
    seconds = dict(zip(found["forms"].tolist(), found["form_seconds"], strict=True))
    # What a chunkwise DeltaNet has to compute a token at K = D = 64 and C = 16, whatever is done:
    # 6 K D for the memory, 4 C K + 2 C D + C (K + D) inside the chunk. Fixed, since a count of what
    # is executed would reward waste.
    counted = heads * T * (6 * 64 * 64 + 4 * 16 * 64 + 2 * 16 * 64 + 16 * 128)
    product_rate = 2 * 1024**3 / found["product_seconds"]
    claims, layer = [], f"{heads} sequences x heads, T = {T}, K = D = 64, float32"
    for name, share in (("deltanet", 0.40), ("gated", 0.35)):
        chunk = min(chunks, key=lambda chunk, name=name: seconds[f"{name} {chunk}"])
        best = seconds[f"{name} {chunk}"]
        claims += [
            claim(f"{name}, chunkwise (best chunk {chunk}: {1e3 * best:.0f} ms) over the loop over "
                  f"trials, {layer}", "beyond", seconds[f"{name} recurrent"] / best, above=4),
            claim(f"{name}, share of the rate of a 1024^3 product ({product_rate / 1e9:.0f} "
                  "GFLOP/s) at a fixed 32.8 thousand operations a token", "beyond",
                  counted / best / product_rate, above=share)]
    claims += [
        claim(f"{name}, chunkwise (chunk 16) over the loop over trials", "beyond",
              seconds[f"{name} recurrent"] / seconds[f"{name} 16"], above=4)
        for name in ("linear", "retention")]
    for K, ratios in zip(features, found["training_ratios"], strict=True):
        longest_faster = np.max(np.asarray(lengths)[ratios > 1], initial=0)
        claims.append(claim(f"K = D = {K}: longest T of {list(lengths)} at which forward and "
                            "backward of the parallel form beat the loop", "beyond",
                            longest_faster, above=31))
    best = np.max(found["trials_a_second"], axis=-1) / 1e6
    claims += [
        claim(f"simulated trials a second, in millions, 4 cues, 1 outcome, own designs, {order}, "
              f"float{bits}, batch {batches[np.argmax(found['trials_a_second'][i, j])]}", "beyond",
              best[i, j], above=20 if i else 1, paper="0.01-0.1" if i else None)
        for i, order in enumerate(("batch first in memory", "batch last in memory"))
        for j, bits in enumerate((64, 32))]
    claims.append(claim(f"one stream of {events} events, 100 cues, 100 outcomes, float64: seconds",
                        "beyond", found["stream_seconds"], below=0.5, paper="pyndl 1.4"))
    if device == "cpu":
        claims.append(claim(f"gigabytes held at T = {longest}, arguments included", "beyond",
                            found["gigabytes"], below=2))
    claims += [
        claim(f"chunkwise cost against {axis}: slope of the upper half "
              f"(twice the smallest from {axis} = {knee(values, time_)})", "beyond",
              upper_slope(values, time_), below=steepest)
        for axis, steepest in (("T", 1.15), ("batch", 1.3), ("K", 1.3), ("D", 1.3))
        for values, time_ in [(np.asarray(sizes[axis]), found[f"{axis}_chunkwise_seconds"])]]
    return Result(found, claims)


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
    lines = [f"{'source':<7}{'claim':<56}{'paper':>10}  {'measured':<26}{'bound':<18}"]
    for name, (result, _) in finished.items():
        lines.append(f"-- {name} ".ljust(width, "-"))
        for row in result.claims:
            measured = f"{row.measured:.3g}"
            if row.interval:
                measured += f" [{row.interval[0]:.3g}, {row.interval[1]:.3g}]"
            paper = "" if row.paper is None else str(row.paper)
            first, *rest = textwrap.wrap(row.claim, 55)
            lines.append(f"{row.source:<7}{first:<56}{paper:>10}  {measured:<26}{row.bound:<18} "
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
    """Write arrays, figures and claims aside, then move them into place.

    Only the results of the experiments in `finished` are replaced.
    """
    saved = read_claims(out)
    kept = [row for row in saved["claims"] if row["experiment"] not in finished]
    new = [{"experiment": name} | row._asdict()
           for name, (result, _) in finished.items() for row in result.claims]
    for name, (result, _) in finished.items():
        np.savez_compressed(staging / f"{name}.npz", **result.arrays)
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
    move_into_place(staging, Path(out))


def move_into_place(staging, out):
    """Replace the files in `out` by those in `staging`: all of them, or none if one fails."""
    files = sorted(staging.iterdir(), key=lambda path: path.name == "claims.json")
    earlier = staging / "earlier"
    earlier.mkdir()
    try:
        for path in files:
            if (out / path.name).exists():
                shutil.copy2(out / path.name, earlier / path.name)
        for path in files:
            os.replace(path, out / path.name)
    except BaseException:
        for path in files:
            if (earlier / path.name).exists():
                os.replace(earlier / path.name, out / path.name)
            elif not path.exists():
                (out / path.name).unlink(missing_ok=True)
        raise


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
    print(claims_table(finished))
    failed = sum(not row.holds for result, _ in finished.values() for row in result.claims)
    total = sum(len(result.claims) for result, _ in finished.values())
    print(f"{total - failed} of {total} claims hold; results in {options.out}/")
    return 1 if failed else 0


COMMANDS = {"run": run_command}


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
