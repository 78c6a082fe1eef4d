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
import inspect
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


# ---------------------------------------------------------------------------- capacity (P2, A6)


# ------------------------------------------------------------------------------- trained (A5, A8)
#
# Axes: S seeds (models trained side by side), B sequences, T tokens, F = K + D + 1 features of a
# token: cue (K), outcome (D), is-query (1). Every parameter has the seeds as its leading axis.
#
# A layer, with x = [cue, outcome, is-query] + position (in layer 2: + what layer 1 has written):
#   q = x W_q / |x W_q|    k = x W_k / |x W_k|    v = x W_v    beta = sigmoid(x w + b)
#   decay: 1, sigmoid(b) or sigmoid(x w + b);    o = the memory's answer (`attention` or
#   `ph_attention` of conditioning.py), written or answered as o W_o
# Keys of length 1 make the compound AB (a + b)/sqrt 2: an element of a compound gets at most 1/sqrt
# 2 of the outcome where classical Rescorla-Wagner (a + b) gives it 1/2, complete blocking comes to
# an index of 1/sqrt 2 instead of 1, and a compound learns at the rate of a single cue.


class MemoryRule(NamedTuple):
    """Which memory a layer has; decay is "none", "scalar" (one learned number) or "token"."""

    error_correcting: bool
    decay: str
    associability: bool = False


TRAINED_RULES = {"linear attention": MemoryRule(False, "none"),
                 "RetNet": MemoryRule(False, "scalar"),
                 "DeltaNet": MemoryRule(True, "none"),
                 "Gated DeltaNet": MemoryRule(True, "token"),
                 "PH-attention": MemoryRule(True, "none", True)}
CONTIGUITY = [name for name, rule in TRAINED_RULES.items() if not rule.error_correcting]
CORRECTION = [name for name, rule in TRAINED_RULES.items() if rule.error_correcting]
CUES, OUTCOMES, TOKENS = 16, 8, 32
# Wide enough not to act on trained models: associability starts at 6 to 7 and falls to |error|.
ASSOCIABILITY_BOUNDS = (0.0, 20.0)
LENGTH_EPSILON = 1e-12


def parameter_shapes(rule, *, layers=1, cues=CUES, outcomes=OUTCOMES, tokens=TOKENS):
    """{name: shape of one model's parameter}; `beta_1` is a weight, `beta_1_bias` a bias.

    Layer l projects the stream (F) to queries, keys (K), values (D) and, for the gates, to one
    number a token; `outputs_l` maps what its memory answers (D) back to the stream, or, in the
    last layer, to the answer (D).
    """
    stream = cues + outcomes + 1
    shapes = {"positions": (tokens, stream)}
    for layer in range(1, layers + 1):
        shapes |= {f"queries_{layer}": (stream, cues), f"keys_{layer}": (stream, cues),
                   f"values_{layer}": (stream, outcomes), f"beta_{layer}": (stream, 1),
                   f"outputs_{layer}": (outcomes, outcomes if layer == layers else stream),
                   f"beta_{layer}_bias": (1, 1)}
        if rule.decay == "token":
            shapes[f"decay_{layer}"] = (stream, 1)
        if rule.decay != "none":
            shapes[f"decay_{layer}_bias"] = (1, 1)
        if rule.associability:
            shapes |= {f"eta_{layer}_bias": (1, 1), f"associability_{layer}_bias": (1, 1)}
    return shapes


def initial_parameters(rule, generators, *, dtype="float32", **sizes):
    """Random parameters (S, ...), one generator a model; gates near 1/2, decays near .9975."""
    shapes = parameter_shapes(rule, **sizes)
    start = {"decay": 6.0, "eta": np.log(0.4)}
    models = [{name: start.get(name.partition("_")[0], 0.0) + np.zeros(shape)
               if name.endswith("bias") else rng.normal(size=shape) / np.sqrt(shape[0])
               for name, shape in shapes.items()} for rng in generators]
    for model in models:
        model["positions"] *= 0.1
    return {name: np.stack([model[name] for model in models]).astype(dtype) for name in shapes}


def project(stream, matrices):
    """Each model's matrix applied to its stream: (S, B, T, F), (S, F, G) -> (S, B, T, G).

    One S may be 1: one stream for all models, or one model for all streams.
    """
    S, B, T, F = stream.shape
    return (stream.reshape(S, B * T, F) @ matrices).reshape(-1, B, T, matrices.shape[-1])


def project_gradient(stream, d_projection):
    """Gradient (S, F, G) of the matrices of `project`."""
    S, B, T, F = stream.shape
    rows = stream.reshape(S, B * T, F).swapaxes(-1, -2)
    return rows @ d_projection.reshape(S, B * T, -1)


ACTIVATIONS = {"queries": "unit", "keys": "unit", "values": "linear", "beta": "sigmoid",
               "decay": "sigmoid", "eta": "exp", "associability": "exp"}


def unit_length(vectors):
    """sqrt(|x|^2 + epsilon), (..., 1), by which keys and queries are divided.

    A zero key stays zero, and its slope there is 1 / sqrt(epsilon), large but finite.
    """
    xp = rules.array_module(vectors)
    return xp.sqrt(xp.sum(vectors**2, axis=-1, keepdims=True) + LENGTH_EPSILON)


def memory_inputs(parameters, layer, stream):
    """(raw, active): the layer's projections of the stream, and what the memory gets of them.

    Queries and keys are scaled to length 1 (so a compound AB is (a + b)/sqrt 2), beta and decay
    are sigmoids; eta and the starting associability are exponentials of one number a model.
    """
    xp, raw, active = rules.array_module(stream), {}, {}
    for name, activation in ACTIVATIONS.items():
        weight, bias = f"{name}_{layer}", f"{name}_{layer}_bias"
        if weight not in parameters and bias not in parameters:
            continue
        raw[name] = project(stream, parameters[weight]) if weight in parameters else 0
        if bias in parameters:
            raw[name] = raw[name] + parameters[bias][:, None]
        if activation == "unit":
            active[name] = raw[name] / unit_length(raw[name])
        elif activation == "linear":
            active[name] = raw[name]
        else:
            active[name] = (1 / (1 + xp.exp(-raw[name])) if activation == "sigmoid"
                            else xp.exp(raw[name]))[..., 0]
    return raw, active


def raw_gradients(raw, active, d_active):
    """Gradients of the projections from those of the memory's inputs."""
    xp, d_raw = rules.array_module(raw["keys"]), {}
    for name, before in raw.items():
        d, value = getattr(d_active, name), active[name]
        if ACTIVATIONS[name] == "unit":
            along = xp.sum(d * value, axis=-1, keepdims=True)
            d_raw[name] = (d - along * value) / unit_length(before)
        elif ACTIVATIONS[name] == "linear":
            d_raw[name] = d
        else:
            slope = value * (1 - value) if ACTIVATIONS[name] == "sigmoid" else value
            d_raw[name] = (d * slope)[..., None]
    return d_raw


def memory_outputs(rule, inputs):
    """What the layer's memory answers: (S, B, T, D)."""
    if rule.associability:
        return conditioning.ph_attention(**inputs, bounds=ASSOCIABILITY_BOUNDS)[0]
    return conditioning.attention(**inputs, error_correcting=rule.error_correcting)[0]


def memory_gradients(rule, inputs, d_outputs):
    """Gradients of the memory's inputs from those of its outputs."""
    if rule.associability:
        return conditioning.ph_attention_gradients(**inputs, d_outputs=d_outputs,
                                                   bounds=ASSOCIABILITY_BOUNDS)
    return conditioning.attention_gradients(**inputs, d_outputs=d_outputs,
                                            error_correcting=rule.error_correcting)


def model_answers(rule, parameters, tokens):
    """(answers (S, B, T, D), what `model_gradients` needs) for tokens (S, B, T, F).

    stream_0 = token + position, stream_l = stream_{l-1} + (memory's answer) W_o; the last layer's
    answer is not added but returned.
    """
    stream = tokens + parameters["positions"][:, None, :tokens.shape[-2]]
    layers, last = [], sum(name.startswith("outputs_") for name in parameters)
    for layer in range(1, last + 1):
        raw, active = memory_inputs(parameters, layer, stream)
        outputs = memory_outputs(rule, active)
        layers.append((stream, raw, active, outputs))
        answers = project(outputs, parameters[f"outputs_{layer}"])
        stream = stream + answers if layer < last else None
    return answers, layers


def model_gradients(rule, parameters, layers, d_answers):
    """{name: gradient (S, ...)} of every parameter, from the gradient of the answers."""
    gradients, d_stream, d_written = {}, 0, d_answers
    for layer in range(len(layers), 0, -1):
        stream, raw, active, outputs = layers[layer - 1]
        matrix = parameters[f"outputs_{layer}"]
        gradients[f"outputs_{layer}"] = project_gradient(outputs, d_written)
        d_active = memory_gradients(rule, active, project(d_written, matrix.swapaxes(-1, -2)))
        for name, d_raw in raw_gradients(raw, active, d_active).items():
            weight, bias = f"{name}_{layer}", f"{name}_{layer}_bias"
            if weight in parameters:
                gradients[weight] = project_gradient(stream, d_raw)
                d_stream = d_stream + project(d_raw, parameters[weight].swapaxes(-1, -2))
            if bias in parameters:
                gradients[bias] = d_raw.sum(axis=(1, 2))[:, None]
        d_written = d_stream
    positions = 0 * parameters["positions"]
    positions[:, :d_stream.shape[-2]] = d_stream.sum(axis=1)
    return gradients | {"positions": positions}


class Sequences(NamedTuple):
    """tokens (S, B, T, F), targets (S, B, T, D), asked (S, B, T): where an answer is wanted."""

    tokens: Any
    targets: Any
    asked: Any


def random_units(rng, shape):
    """Random vectors of length 1 along the last axis."""
    vectors = rng.normal(size=shape)
    return vectors / np.sqrt(np.sum(vectors**2, axis=-1, keepdims=True))


def join_tokens(cues, outcomes, asked):
    """Tokens [cue, outcome, is-query]; a query shows no outcome."""
    asked = np.asarray(asked, dtype=float)[..., None]
    return np.concatenate([cues, outcomes * (1 - asked), asked], axis=-1)


def association_task(generators, *, sequences, pairs, once=False, dtype="float32",
                     tokens=TOKENS, cues=CUES, outcomes=OUTCOMES, query_share=0.4):
    """In-context association: `Sequences` of new random pairs, on the host, one generator a model.

    Every sequence draws `pairs` cues with an outcome each, all random and of length 1. Tokens show
    a random pair; a pair that has been shown before is asked for instead with probability
    `query_share`. once=True: each pair is shown exactly once, then each is asked for, in another
    random order (in the same order, positions alone would tell the pairs apart). There is no
    compound, no omitted outcome and no design of a conditioning experiment in it.
    """
    drawn = []
    for rng in generators:
        pair_cues = random_units(rng, (sequences, pairs, cues))
        pair_outcomes = random_units(rng, (sequences, pairs, outcomes))
        if once:
            order = rng.permuted(np.tile(np.arange(pairs), (sequences, 1)), axis=1)
            which = np.concatenate([np.tile(np.arange(pairs), (sequences, 1)), order], axis=1)
            asked = np.repeat([[False, True]], pairs, axis=1) & np.ones((sequences, 1), bool)
        else:
            which = rng.integers(pairs, size=(sequences, tokens))
            shown = np.cumsum(which[..., None] == np.arange(pairs), axis=1)
            repeated = np.take_along_axis(shown, which[..., None], axis=-1)[..., 0] > 1
            asked = repeated & (rng.random(which.shape) < query_share)
        targets = np.take_along_axis(pair_outcomes, which[..., None], axis=1)
        shown_cues = np.take_along_axis(pair_cues, which[..., None], axis=1)
        drawn.append((join_tokens(shown_cues, targets, asked), targets, asked))
    return Sequences(*(np.stack(each).astype(dtype) for each in zip(*drawn, strict=True)))


def squared_error(answers, sequences):
    """(loss (S,), its gradient (S, B, T, D)): mean over the asked of |answer - target|^2."""
    xp = rules.array_module(answers)
    error = (answers - sequences.targets) * sequences.asked[..., None]
    share = 1 / xp.sum(sequences.asked, axis=(1, 2))
    return xp.sum(error**2, axis=(1, 2, 3)) * share, 2 * error * share[:, None, None, None]


def adam_step(parameters, gradients, moments, step, rate):
    """(parameters, moments) after step 1, 2, ... of Adam (Kingma & Ba 2015, algorithm 1)."""
    new, new_moments = {}, {}
    for name, gradient in gradients.items():
        first, second = moments.get(name, (0, 0))
        first, second = 0.9 * first + 0.1 * gradient, 0.999 * second + 0.001 * gradient**2
        size = (second / (1 - 0.999**step)) ** 0.5 + 1e-8
        new[name] = parameters[name] - rate / (1 - 0.9**step) * first / size
        new_moments[name] = first, second
    return new, new_moments


def learning_rate(step, steps, largest, warm_up=60):
    """Rises linearly over the warm-up, then falls to 0 along half a cosine; step 1 to steps."""
    rise = min(1.0, step / warm_up)
    return largest * rise * (0.5 + 0.5 * np.cos(np.pi * step / steps))


def train(rule, parameters, draw, *, steps, rate, label="", xp=np):
    """(parameters, losses (steps, S)) after Adam on draw() -> Sequences, all models at once.

    Prints the loss and the time left to stderr.
    """
    # A freed block of this size makes glibc keep memory instead of returning it to the system,
    # without which the page faults of the temporaries below take half of the time.
    np.empty(2**25 - 2**13, np.uint8)
    parameters = {name: xp.asarray(value) for name, value in parameters.items()}
    moments, losses, started = {}, [], time.perf_counter()
    for step in range(1, steps + 1):
        sequences = Sequences(*map(xp.asarray, draw()))
        answers, layers = model_answers(rule, parameters, sequences.tokens)
        loss, d_answers = squared_error(answers, sequences)
        gradients = model_gradients(rule, parameters, layers, d_answers)
        parameters, moments = adam_step(parameters, gradients, moments, step,
                                        learning_rate(step, steps, rate))
        losses.append(loss)
        if step % 20 == 0 or step == steps:
            left = (time.perf_counter() - started) * (steps / step - 1)
            line = f"{label}: step {step}/{steps}, loss {float(loss.mean()):.3f}, {left:.0f} s left"
            print("\n" if step == min(20, steps) else "\r", f"  {line:<76}", sep="", end="",
                  file=sys.stderr, flush=True)
    return parameters, host(xp.stack(losses))


def loss_of(rule, parameters, sequences):
    """Loss (S,) of models on sequences, on the host."""
    return host(squared_error(model_answers(rule, parameters, sequences.tokens)[0], sequences)[0])


def hand_set_parameters(rule, *, beta, gain=1.0, decay=1.0, eta=1.0, associability=1.0,
                        cues=CUES, outcomes=OUTCOMES, tokens=TOKENS, dtype="float32"):
    """Parameters of one model set by hand: keys = queries = cues, values = outcomes, positions 0.

    The gate is the constant beta in (0, 1), shut on queries; `gain` scales the answer; decay in
    (0, 1); eta and associability above 0.
    """
    values = {name: np.zeros(shape) for name, shape in parameter_shapes(
        rule, cues=cues, outcomes=outcomes, tokens=tokens).items()}
    values["queries_1"][:cues] = values["keys_1"][:cues] = np.eye(cues)
    values["values_1"][cues:-1] = np.eye(outcomes)
    values["outputs_1"][:] = gain * np.eye(outcomes)
    values["beta_1"][-1] = -60.0
    for name, value in (("beta", np.log(beta / (1 - beta))), ("eta", np.log(eta)),
                        ("decay", -np.log(1 / decay - 1) if decay < 1 else 60.0),
                        ("associability", np.log(associability))):
        if f"{name}_1_bias" in values:
            values[f"{name}_1_bias"][:] = value
    return {name: value[None].astype(dtype) for name, value in values.items()}


HAND_SET = ("beta", "decay", "eta", "associability", "gain")


def hand_set_grid(rule):
    """Constants to try by hand; without error correction beta is part of the gain."""
    if rule.associability:
        return [{"beta": beta, "eta": eta, "associability": first_rate / beta}
                for beta in (0.15, 0.2, 0.25, 0.3, 0.4) for eta in (0.4, 0.7, 1.0, 1.4)
                for first_rate in (0.9, 1.0, 1.1, 1.2, 1.3)]
    betas = [step / 20 for step in range(10, 20)] if rule.error_correcting else [0.5]
    decays = [1.0] if rule.decay == "none" else [1.0, 0.99, 0.98, 0.97, 0.96, 0.95, 0.94, 0.92, 0.9]
    return [{"beta": beta, "decay": decay} for beta in betas for decay in decays]


def best_hand_set(rule, sequences, xp=np):
    """(constants, parameters) of least loss over `hand_set_grid`, with the best gain for each."""
    best, asked = None, sequences.asked[..., None]
    for constants in hand_set_grid(rule):
        parameters = {name: xp.asarray(value) for name, value in
                      hand_set_parameters(rule, **constants).items()}
        answers = asked * model_answers(rule, parameters, sequences.tokens)[0]
        gain = float((answers * sequences.targets).sum() / (answers**2).sum())
        loss = float(squared_error(gain * answers, sequences)[0].mean())
        if best is None or loss < best[0]:
            best = loss, constants | {"gain": gain}
    return best[1], {name: xp.asarray(value) for name, value in
                     hand_set_parameters(rule, **best[1]).items()}


class CueSets(NamedTuple):
    """Orthonormal cues (S, R, K, K), one a row, and outcomes (S, R, D, D) of R sets a model."""

    cues: Any
    outcomes: Any


def random_cue_sets(generators, *, sets, cues=CUES, outcomes=OUTCOMES):
    """`CueSets`, on the host: uniform random orthonormal bases (Mezzadri 2007), one rng a model."""
    def bases(rng, size):
        q, r = np.linalg.qr(rng.normal(size=(sets, size, size)))
        return q * np.sign(np.diagonal(r, axis1=-2, axis2=-1))[..., None, :]
    drawn = [(bases(rng, cues), bases(rng, outcomes)) for rng in generators]
    return CueSets(*(np.stack(each) for each in zip(*drawn, strict=True)))


def design_prompt(design, sets, *, plus=1.0):
    """A conditioning design as a prompt, tokens (S, R, T, F), with the cues of each set.

    "+" is `plus` times the set's first outcome, "++" its second, orthogonal outcome; "?" a query.
    A compound is the sum of its cues.
    """
    names = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"[:sets.cues.shape[-1]]
    trials = conditioning.design_arrays(design, cues=names)
    cues = trials.cues @ sets.cues
    first, second = (sets.outcomes[..., i, None, :] for i in (0, 1))
    outcomes = plus * (trials.outcomes == 1) * first + (trials.outcomes == 2) * second
    return join_tokens(cues, outcomes, np.broadcast_to(trials.test, cues.shape[:-1]))


def probe_responses(rule, parameters, design, sets, *, plus=1.0, outcome=0):
    """Answers (S, R) to the design's last token, along the first (0) or second (1) outcome."""
    xp, dtype = rules.array_module(parameters["positions"]), parameters["positions"].dtype
    tokens = xp.asarray(design_prompt(design, sets, plus=plus).astype(dtype))
    answers = host(model_answers(rule, parameters, tokens)[0])[..., -1, :]
    return np.sum(answers * sets.outcomes[..., outcome, :], axis=-1)


# Each probe: the test, a control of the same length, and what their difference is divided by.
PROBES = {
    "blocking": ("6A+|6AB+|B?", "6C+|6AB+|B?", "6C+|6AB+|B?"),
    "overshadowing": ("6AB+|A?", "AC+/AD+/AE+/AF+/AG+/AH+|A?", "AC+/AD+/AE+/AF+/AG+/AH+|A?"),
    "overexpectation": ("6A+/6B+|6AB+|A?", "6A+/6B+|6CD+|A?", "6A+/6B+|6CD+|A?"),
    "conditioned inhibition": ("6A+/6AB-|B?", "6A+/6CB-|B?", "6A+/6CB-|A?"),
    "extinction": ("6A+|6A-|A?", "6A+|6C-|A?", "6A+|6C-|A?"),
    "overshadowing, against A alone": ("6AB+|A?", "6A+|A?", "6A+|A?")}

# One trial with a second, orthogonal outcome ("++") after pre-training; the rate is what it leaves.
RATE_PROBES = {
    "omitted": ("6A-|A++|A?", 1.0), "omitted, another cue": ("6B-|A++|A?", 1.0),
    "constant half": ("6A+|A++|A?", 0.5), "constant half, another cue": ("6B+|A++|A?", 0.5),
    "half of the time": ("3A+/3A-|A++|A?", 1.0),
    "half of the time, another cue": ("3B+/3B-|A++|A?", 1.0)}

RETENTION = (0, 4, 8, 16, 23)
FILLERS = "CDEFGHIJKLMNOP"


def probe_indices(rule, parameters, sets):
    """(indices (S, probes), responses (S, probes, 3)): means over the cue sets of each model."""
    responses = np.stack([[probe_responses(rule, parameters, design, sets).mean(axis=-1)
                           for design in designs] for designs in PROBES.values()])
    test, control, reference = np.moveaxis(responses, 1, 0)
    return ((control - test) / reference).T, np.moveaxis(responses, -1, 0)


def rate_probes(rule, parameters, sets):
    """Strength (S, rate probes) that one trial with a second outcome leaves along it."""
    return np.stack([probe_responses(rule, parameters, design, sets, plus=plus, outcome=1)
                     .mean(axis=-1) for design, plus in RATE_PROBES.values()], axis=-1)


def retention_design(fillers, tested):
    """Acquisition and extinction of A, then orthogonal cues with an outcome of their own."""
    waits = [f"{FILLERS[i % len(FILLERS)]}++" for i in range(fillers)]
    return "|".join(["4A+", "4A-", *waits, f"{tested}?"])


def retention_responses(rule, parameters, sets, respond=probe_responses):
    """Mean responses (S, 2, m) to A and to a cue never shown, after m fillers."""
    return np.stack([[respond(rule, parameters, retention_design(m, tested), sets).mean(axis=-1)
                      for m in RETENTION] for tested in "AB"]).transpose(2, 0, 1)


def recovery(responses):
    """Rise of the response to A since m = 0, less that of the cue never shown: (S, m)."""
    rise = responses - responses[..., :1]
    return rise[:, 0] - rise[:, 1]


def slow_fast_responses(rule, parameters, design, sets, *, beta=0.6, decays=(1.0, 0.6)):
    """`probe_responses` of a memory set by hand that does recover; rule and parameters are ignored.

    Each cue twice, in features that decay slowly and fast and share one error: slow excitation
    outlives fast inhibition.
    """
    tokens = design_prompt(design, sets)
    cues, outcomes = np.split(tokens[..., :-1], [sets.cues.shape[-1]], axis=-1)
    keys = np.concatenate([cues, cues], axis=-1) / np.sqrt(2)
    decay = np.ones(keys.shape) * np.repeat(decays, cues.shape[-1])
    outputs, _ = conditioning.gated_deltanet(
        keys, keys, outcomes, **conditioning.frozen(tokens[..., -1] > 0, beta=beta, decay=decay))
    return np.sum(outputs[..., -1, :] * sets.outcomes[..., 0, :], axis=-1)


def closed_form_indices(rule, beta, n=6):
    """Indices (probes) of Rescorla-Wagner or Hebb at rate beta for n trials a phase, orthogonal
    cues and compounds scaled to length 1; NaN where there is no closed form.

    Conditioned inhibition is that at equilibrium (A+/AB- without end). A decay is left out: that
    of contiguity cancels in all but overexpectation, that of Gated DeltaNet is close to 1.
    """
    if rule.associability:
        return np.full(len(PROBES), np.nan)
    alone = 1 - 1 / np.sqrt(2)
    if not rule.error_correcting:
        gained = -1 / np.sqrt(2) if rule.decay == "none" else np.nan
        return np.array([0, 0, gained, 0, 0, alone])
    a, b = np.eye(2)
    compound = (a + b) / np.sqrt(2)
    single = conditioning.acquisition_strength(alpha=1, beta=beta, n=n)
    element = single / np.sqrt(2)
    partners = np.sqrt(2) * conditioning.acquisition_strength(alpha=0.5, beta=beta, n=n)
    blocked = conditioning.blocking_strength(a=a, c=compound, x=b, beta=beta, m=n, n=n)
    lost = (np.sqrt(2) * single - 1) * element
    inhibitor = conditioning.equilibrium_strength(np.stack([a, compound]), np.eye(2)[:, :1])[1, 0]
    extinguished = conditioning.extinction_strength(V_0=single, alpha=1, beta=beta, n=n)
    return np.array([1 - blocked / element, 1 - element / partners, lost / single, -inhibitor,
                     1 - extinguished / single, alone])


def gate_means(rule, parameters, sets, layer=1):
    """Mean gate (S, 3) on paired, omitted and asked tokens of "6A+|6A-|A?"."""
    xp, dtype = rules.array_module(parameters["positions"]), parameters["positions"].dtype
    tokens = xp.asarray(design_prompt("6A+|6A-|A?", sets).astype(dtype))
    gate = host(model_answers(rule, parameters, tokens)[1][layer - 1][2]["beta"]).mean(axis=1)
    return np.stack([part.mean(axis=-1) for part in np.split(gate, [6, 12], axis=-1)], axis=-1)


def seed_generators(seed, seeds, *purpose):
    """One generator a model, whose numbers do not depend on how many models there are."""
    return [np.random.default_rng([seed, replicate, *purpose]) for replicate in range(seeds)]


def train_rule(name, *, seed, seeds, sequences, pairs, steps, rate, xp, label="", layers=1,
               once=False):
    """(initial parameters, trained parameters, losses) of a rule on the association task."""
    rule, generators = TRAINED_RULES[name], seed_generators(seed, seeds)
    start = initial_parameters(rule, generators, layers=layers)
    start = {key: xp.asarray(value) for key, value in start.items()}
    trained, losses = train(
        rule, start, lambda: association_task(generators, sequences=sequences, pairs=pairs,
                                              once=once),
        steps=steps, rate=rate, label=label or name, xp=xp)
    return start, trained, losses


def model_claim(text, source, samples, **bound):
    """A claim about the mean of one number a model, with its 95% interval over models."""
    mean, low, high = mean_interval(samples)
    return claim(text, source, mean, interval=(low, high), **bound)


def slug(name):
    """The name of a rule as it begins the names of its arrays."""
    return name.lower().replace(" ", "_").replace("-", "_")


def saved_weights(arrays, name):
    """{parameter: array} of a trained rule, from the arrays (or the .npz) of the experiment."""
    prefix = f"{slug(name)}_weights_"
    return {key.removeprefix(prefix): arrays[key] for key in arrays if key.startswith(prefix)}


def trained_arrays(name, start, parameters, losses, test, cue_sets, xp):
    """All that is measured of one trained rule, by name, on the host."""
    rule = TRAINED_RULES[name]
    few = Sequences(*(array[:, :128] for array in test))
    constants, by_hand = best_hand_set(rule, few, xp)
    gates = gate_means(rule, parameters, cue_sets)
    indices, responses = probe_indices(rule, parameters, cue_sets)
    found = {
        "losses": losses, "test_loss": loss_of(rule, parameters, test),
        "hand_set_loss": loss_of(rule, by_hand, test),
        "hand_set_constants": np.array([constants.get(key, np.nan) for key in HAND_SET]),
        "indices": indices, "responses": responses,
        "untrained_responses": probe_indices(rule, start, cue_sets)[1],
        "hand_set_indices": probe_indices(rule, by_hand, cue_sets)[0],
        "closed_form_indices": closed_form_indices(rule, gates[:, 0].mean()),
        "hand_set_closed_form_indices": closed_form_indices(rule, constants["beta"]),
        "gates": gates, "rates": rate_probes(rule, parameters, cue_sets),
        "retention": retention_responses(rule, parameters, cue_sets),
        "hand_set_retention": retention_responses(rule, by_hand, cue_sets)}
    found |= {f"weights_{key}": host(value) for key, value in parameters.items()}
    return {f"{slug(name)}_{key}": value for key, value in found.items()}


@experiment(quick={"seeds": 3, "steps": 200, "ph_steps": 240, "once_steps": 120, "sets": 80,
                   "test_sequences": 64, "quick": True})
def trained(*, seed=0, device="cpu", seeds=5, sequences=32, pairs=8, steps=500, ph_steps=1000,
            once_steps=300, rate=0.05, sets=200, test_sequences=512, quick=False):
    """Cue competition, no recovery, error-driven rates: do they survive training?"""
    xp = device_module(device)
    test = association_task(seed_generators(seed, seeds, 1), sequences=test_sequences, pairs=pairs)
    test = Sequences(*map(xp.asarray, test))
    cue_sets = random_cue_sets(seed_generators(seed, seeds, 2), sets=sets)
    once = association_task(seed_generators(seed, seeds, 3), sequences=4 * test_sequences,
                            pairs=pairs, once=True)
    common = {"seed": seed, "seeds": seeds, "sequences": sequences, "pairs": pairs, "xp": xp}
    arrays = {"probes": np.array(list(PROBES)), "rate_probes": np.array(list(RATE_PROBES)),
              "retention_trials": np.array(RETENTION), "hand_set_names": np.array(HAND_SET),
              "floor": np.array((pairs - 1) / (CUES + pairs - 1))}
    for number, (name, rule) in enumerate(TRAINED_RULES.items(), 1):
        models = train_rule(name, steps=ph_steps if rule.associability else steps, rate=rate,
                            label=f"{number} of {len(TRAINED_RULES) + 1}, {name}", **common)
        arrays |= trained_arrays(name, *models, test, cue_sets, xp)
    _, parameters, arrays["once_losses"] = train_rule(
        "linear attention", steps=once_steps, rate=rate, once=True,
        label=f"{len(TRAINED_RULES) + 1} of {len(TRAINED_RULES) + 1}, linear attention, pairs "
        "shown once", **common)
    arrays["once_test_loss"] = loss_of(TRAINED_RULES["linear attention"], parameters,
                                       Sequences(*map(xp.asarray, once)))
    arrays["slow_fast_retention"] = retention_responses(None, None, cue_sets, slow_fast_responses)
    claims = [*training_claims(arrays, loss_slack=1.6 if quick else 1.0),
              *competition_claims(arrays), *recovery_claims(arrays), *associability_claims(arrays)]
    note = f" (quick: {seeds} models, {steps} steps)" if quick else ""
    return Result(arrays, [row._replace(claim=row.claim + note) for row in claims])


def training_claims(arrays, *, loss_slack):
    """That the models have learned the task."""
    claims = [model_claim(f"{name}: loss after training over that of the best hand-set weights",
                          "A5", arrays[f"{slug(name)}_test_loss"]
                          / arrays[f"{slug(name)}_hand_set_loss"], below=loss_slack)
              for name in TRAINED_RULES]
    claims.append(model_claim(
        "linear attention, each pair shown once: loss over its exact floor (N-1)/(d+N-1)", "A5",
        arrays["once_test_loss"] / arrays["floor"], within=(0.97, 1.05 * loss_slack)))
    claims.append(model_claim("PH-attention: loss over DeltaNet's", "A9",
                              arrays["ph_attention_test_loss"] / arrays["deltanet_test_loss"],
                              below=loss_slack))
    return claims


def competition_claims(arrays):
    """Cue competition in error-correcting models, none in models of contiguity."""
    indices = {name: dict(zip(PROBES, arrays[f"{slug(name)}_indices"].T, strict=True))
               for name in TRAINED_RULES}
    claims = [model_claim(f"{name}, trained: blocking index", "A5", indices[name]["blocking"],
                          above=0.5) for name in CORRECTION]
    claims += [model_claim(f"{name}, trained: blocking index", "A5", indices[name]["blocking"],
                           within=(-0.1, 0.1)) for name in CONTIGUITY]
    for probe, least in (("overshadowing", 0.25), ("overexpectation", 0.15),
                         ("conditioned inhibition", 0.5), ("extinction", 0.5)):
        lowest = min(CORRECTION, key=lambda name, probe=probe: indices[name][probe].mean())
        highest = max(CONTIGUITY, key=lambda name, probe=probe: indices[name][probe].mean())
        claims += [
            model_claim(f"{probe}, least index of the trained error-correcting rules ({lowest})",
                        "A5", indices[lowest][probe], above=least),
            model_claim(f"{probe}, largest index of the trained contiguity rules ({highest})",
                        "A5", indices[highest][probe], below=0.1)]
    four = [list(PROBES).index(probe) for probe in ("blocking", "overshadowing", "overexpectation",
                                                    "extinction")]
    claims.append(claim("DeltaNet, hand-set weights: largest difference of four indices from the "
                        "closed forms", "A5", np.max(np.abs(
                            arrays["deltanet_hand_set_indices"].mean(axis=0)
                            - arrays["deltanet_hand_set_closed_form_indices"])[four]), below=1e-4))
    alone = np.concatenate([entry["overshadowing, against A alone"] for entry in indices.values()])
    claims.append(model_claim(
        "overshadowing against A alone, all rules: 1 - 1/sqrt 2 = .293 from scaling the compound "
        "to length 1, not competition", "A5", alone, within=(0.2, 0.4)))
    control = list(PROBES).index("blocking")
    claims += [model_claim(f"{name}, untrained: response to B in the blocking control, over the "
                           "trained response", "A5",
                           arrays[f"{slug(name)}_untrained_responses"][:, control, 1]
                           / arrays[f"{slug(name)}_responses"][:, control, 1].mean(),
                           within=(-0.25, 0.25)) for name in ("linear attention", "DeltaNet")]
    return claims


def recovery_claims(arrays):
    """No recovery by orthogonal fillers, by the largest rise over their number."""
    rises = {name: recovery(arrays[f"{slug(name)}_retention"])[:, 1:]
             for name in [*TRAINED_RULES, "slow fast"]}
    rises["by hand"] = recovery(arrays["ph_attention_hand_set_retention"])[:, 1:]
    largest = {name: rise[:, np.argmax(rise.mean(axis=0))] for name, rise in rises.items()}
    claims = [model_claim(f"{name}, trained: largest recovery after 4 to 23 orthogonal fillers, "
                          "less that of a cue never shown", "A8", largest[name], below=0.03)
              for name in TRAINED_RULES if name != "PH-attention"]
    claims.append(model_claim("the same, PH-attention: it does recover in part; rates per feature "
                              "are not covered by the theorem", "A8", largest["PH-attention"],
                              above=0))
    claims.append(model_claim("the same, PH-attention with hand-set weights and orthogonal dense "
                              "keys", "A8", largest["by hand"], above=0))
    claims.append(model_claim("the same, slow and fast features set by hand: a memory that does "
                              "recover", "A8", largest["slow fast"], above=0.03))
    return claims


HALF_EFFECT = "reinforced half of the time less always with half the outcome"


def rate_differences(rates):
    """{effect: (S,)}: what pre-training did to the strength that one trial leaves."""
    strength = dict(zip(RATE_PROBES, rates.T, strict=True))
    return {"latent inhibition: another cue less the pre-exposed cue":
            strength["omitted, another cue"] - strength["omitted"],
            "Hall-Pearce: another cue less the cue paired with a weak outcome":
            strength["constant half, another cue"] - strength["constant half"],
            HALF_EFFECT: strength["half of the time"] - strength["constant half"]}


def associability_claims(arrays):
    """History-dependent rates in trained PH-attention, none in DeltaNet with a learned gate."""
    differences = {name: rate_differences(arrays[f"{slug(name)}_rates"])
                   for name in ("PH-attention", "DeltaNet")}
    claims = [model_claim(f"PH-attention, trained; {effect}", "A9", samples, above=0.1)
              for effect, samples in differences["PH-attention"].items()]
    claims += [model_claim(f"DeltaNet, trained; {effect}", "A9", samples, within=(-0.05, 0.05))
               for effect, samples in differences["DeltaNet"].items()]
    rates = dict(zip(RATE_PROBES, arrays["ph_attention_rates"].T, strict=True))
    claims.append(model_claim(
        "PH-attention, trained; the last difference, less that left by the same pre-training of "
        "another cue (dense keys share features)", "A9",
        differences["PH-attention"][HALF_EFFECT] - rates["half of the time, another cue"]
        + rates["constant half, another cue"], above=0))
    claims.append(model_claim("PH-attention: learned eta (at 0 it is DeltaNet)", "A9",
                              np.exp(arrays["ph_attention_weights_eta_1_bias"]).ravel(), above=0.1))
    return claims


# The first half shows A alone six times with different errors, the others less often or never.
HISTORIES = ("6A+", "6A-", "3A+/3A-", "3A+|3A-", "3A-|3A+", "6B+", "6B-", "3B+/3B-", "6AB+",
             "3B+|3AB-")


def rates_after(rule, parameters, sets, layer):
    """Mean write rate (S, histories) of a layer on "A++" after each history; for an associability
    its mean over features, weighted with the squared key, counts too.
    """
    positions, rates = parameters["positions"], []
    xp = rules.array_module(positions)
    for history in HISTORIES:
        tokens = xp.asarray(design_prompt(f"{history}|A++", sets).astype(positions.dtype))
        inputs = model_answers(rule, parameters, tokens)[1][layer - 1][2]
        rate = inputs["beta"][..., -1]
        if rule.associability:
            before = {name: value[..., :-1, :] if name in ("queries", "keys", "values") else value
                      for name, value in inputs.items()} | {"beta": inputs["beta"][..., :-1]}
            _, state = conditioning.ph_attention(**before, bounds=ASSOCIABILITY_BOUNDS)
            rate = rate * (state.associability * inputs["keys"][..., -1, :]**2).sum(axis=-1)
        rates.append(host(rate.mean(axis=-1)))
    return np.stack(rates, axis=-1)


@experiment(quick={"seeds": 3, "steps": 200, "sets": 30, "test_sequences": 64, "quick": True})
def trained_two_layers(*, seed=0, device="cpu", seeds=5, sequences=32, pairs=8, steps=800,
                       rate=0.03, sets=200, test_sequences=512, quick=False):
    """Does a gate that sees another layer's output come to depend on past errors?"""
    xp, rule, hybrid = device_module(device), *map(TRAINED_RULES.get, ("DeltaNet", "PH-attention"))
    test = association_task(seed_generators(seed, seeds, 1), sequences=test_sequences, pairs=pairs)
    test = Sequences(*map(xp.asarray, test))
    cue_sets = random_cue_sets(seed_generators(seed, seeds, 2), sets=sets)
    _, parameters, losses = train_rule(
        "DeltaNet", seed=seed, seeds=seeds, sequences=sequences, pairs=pairs, steps=steps,
        rate=rate, xp=xp, layers=2)
    _, by_hand = best_hand_set(rule, Sequences(*(array[:, :64] for array in test)), xp)
    hybrid_by_hand = {name: xp.asarray(value) for name, value in hand_set_parameters(
        hybrid, beta=0.3, eta=0.7, associability=3.5).items()}
    arrays = {"histories": np.array(HISTORIES), "losses": losses,
              "test_loss": loss_of(rule, parameters, test),
              "hand_set_loss": loss_of(rule, by_hand, test),
              "gates_1": rates_after(rule, parameters, cue_sets, 1),
              "gates_2": rates_after(rule, parameters, cue_sets, 2),
              "hybrid_rates": rates_after(hybrid, hybrid_by_hand, cue_sets, 1),
              "rates": rate_probes(rule, parameters, cue_sets)}
    arrays |= {f"weights_{name}": host(value) for name, value in parameters.items()}

    def spread(rates):
        """Range over the histories that show A six times, over the mean."""
        return np.ptp(rates[:, :5], axis=-1) / rates[:, :5].mean(axis=-1)

    def novelty(rates):
        """Rate after histories without A less that after six trials of A, over the mean."""
        return (rates[:, 5:8].mean(axis=-1) - rates[:, :5].mean(axis=-1)) / rates.mean(axis=-1)
    effects, slack = rate_differences(arrays["rates"]), 3.0 if quick else 1.0
    claims = [
        model_claim("two layers of DeltaNet: loss over that of one hand-set layer", "A9",
                    arrays["test_loss"] / arrays["hand_set_loss"], below=slack),
        model_claim("gate of layer 2 after five histories of the same exposure and other errors: "
                    "range over mean", "A9", spread(arrays["gates_2"]), below=0.05 * slack),
        model_claim("the same, the write rate of one layer of PH-attention set by hand", "A9",
                    spread(arrays["hybrid_rates"]), above=0.1),
        model_claim("gate of layer 2 for a cue never shown less one shown six times, over mean: "
                    "exposure, not error", "beyond", novelty(arrays["gates_2"]),
                    within=(-0.2 * slack, 0.2 * slack))]
    claims += [model_claim(f"two layers of DeltaNet; {effect}", "A9", samples,
                           within=(-0.1 * slack, 0.1 * slack))
               for effect, samples in effects.items()]
    note = f" (quick: {seeds} models, {steps} steps)" if quick else ""
    return Result(arrays, [row._replace(claim=row.claim + note) for row in claims])


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
