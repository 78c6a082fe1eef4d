"""All tests. `python -m pytest -q`; those marked `gpu` need a CUDA GPU and CuPy."""

import ast
import contextlib
import csv
import fcntl
import functools
import inspect
import io
import itertools
import json
import operator
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
import types
import zlib
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import conditioning
import experiments
import plots
import rules
from conditioning import (
    attention,
    design_arrays,
    parse_design,
    ph_attention,
    prediction_errors,
    recurrence,
    responses,
)
from experiments import RULES
from rules import AssociabilityState, initial_state, learn, memory_of

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it

# ----------------------------------------------------------------------------- arrays for all tests

TIGHT = {"rtol": 1e-12, "atol": 1e-12}  # two float64 forms of one thing
same = functools.partial(assert_allclose, **TIGHT)


def mapped(function, tree):
    """The tree of tuples, lists and dicts with the function applied to each array in it."""
    if isinstance(tree, dict):
        return {key: mapped(function, value) for key, value in tree.items()}
    if isinstance(tree, (tuple, list)):
        parts = [mapped(function, part) for part in tree]
        return type(tree)(*parts) if hasattr(tree, "_fields") else type(tree)(parts)
    return function(tree) if hasattr(tree, "dtype") and not isinstance(tree, np.generic) else tree


def leaves(tree):
    """All arrays in the tree."""
    found = []
    mapped(found.append, tree)
    return found


def assert_same(found, expected, **tolerance):
    """Each array in one tree is that in the other, wherever it lies."""
    for one, other in zip(leaves(found), leaves(expected), strict=True):
        assert one.shape == other.shape
        assert_allclose(one.get() if hasattr(one, "get") else one, other, **(tolerance or TIGHT))


def tokens(*batch, T=9, K=4, D=2):
    """Queries, unit keys of which the second half repeats the first, values and a memory."""
    rng = np.random.default_rng([T, K])
    queries, keys, values, memory = (rng.standard_normal(batch + shape)
                                     for shape in ((T, K), (T, K), (T, D), (K, D)))
    keys /= np.sqrt((keys**2).sum(-1, keepdims=True))
    keys[..., T - T // 2:, :] = keys[..., :T // 2, :]
    values[..., 1:2, :1] = 0
    return queries, keys, values, memory


PKH = {"beta_excitatory": 0.1, "beta_inhibitory": 0.2, "eta": 0.1, "salience": 0.5}
TD = {"beta": 0.1, "trace": 0.5, "discount": 0.9}


def squared(features):
    return features * abs(features)


NAMES = vars(rules) | vars(conditioning) | {
    "np": np, "PKH": PKH, "TD": TD, "squared": squared, "BLOCKING": "10A+ 10AB+"}


def table(text):
    """Rows of a text, their cells evaluated; a row goes on where a line is indented."""
    lines = re.sub(r"\n +", " ", re.sub(r"#.*\n", "", text)).strip().splitlines()
    return [[eval(cell, NAMES) for cell in line.split(" | ")] for line in lines]


def trials(text, cues="ABCXY"):
    """Cues and outcomes of trials such as "10A+ 10AB+"."""
    parts = [part for number, part in re.findall(r"(\d*)([A-Z]+[+-])", text)
             for _ in range(int(number or 1))]
    return (np.array([[cue in part for cue in cues] for part in parts], float),
            np.array([["+" in part] for part in parts], float))


# ------------------------------------------------------------------------ rules: one trial, by hand

# Cue (1, 2) and memory (1, .25): the prediction is 1.5. Rule, outcome, parameters, the leaves of
# the state beside the memory, the leaves after the trial.
BY_HAND = table("""
hebbian | 3 | dict(beta=.1, decay=.5) | [] | [[.5 + .3, .125 + .6]]
stimulus_trace | 3 | dict(beta=.1, trace=.5) | [[1, 0]] | [[1.45, .85], [1.5, 2]]
bush_mosteller | 3 | dict(beta=.1) | [] | [[1 + .1 * 2, .25 + .2 * 2.5]]
rescorla_wagner | 3 | dict(beta=.1, beta_omitted=9) | [] | [[1 + .15, .25 + .3]]
rescorla_wagner | 0 | dict(beta=.1, beta_omitted=.05) | [] | [[1 - .075, .25 - .15]]
# the decay comes first: memory (.5, .125), error 3 - .75
rescorla_wagner | 3 | dict(beta=.1, decay=.5) | [] | [[.5 + .225, .125 + .45]]
rescorla_wagner | 3 | dict(beta=.1, floor=2) | [] | [[1 + .1, .25 + .2]]
oja | 3 | dict(beta=.1) | [] | [[1 + .1 * (3 - 9), .25 + .1 * (6 - 2.25)]]
# own errors 2 and 2.5, those of the other cue 2.5 and 2: alpha moves by theta x^2 (+-.5)
mackintosh | 3 | dict(beta=.1, theta=.05) | [[.5, .5]] | [[1.1, .5], [.525, .4]]
mackintosh | 3 | dict(beta=.1, theta=.05, fall=.25) | [[.5, .5]] | [[1.1, .5], [.525, .35]]
mackintosh | 3 | dict(beta=.1, theta=2) | [[.5, .5]] | [[1.1, .5], [1, .1]]
# alpha moves by eta x^2 (1.5 - alpha)
pearce_hall | 3 | dict(beta=.1, eta=.2) | [[.5, .5]] | [[1 + .075, .25 + .15], [.7, 1]]
pearce_hall | 0 | dict(beta=.1, eta=.2, bounds=(.6, 9)) | [[.4, 3]]
    | [[1 - .06, .25 - .9], [.62, 3 - .8 * 1.5]]
pearce_hall | 3 | dict(beta=.1, eta=.2, bounds=(.6, .6)) | [[.5, .5]] | [[1.075, .4], [.6, .6]]
# alpha becomes .9 * .5 + .1 |e| for each cue present, whatever its size
pearce_kaye_hall | 3 | PKH | [[0, 0], [.5, .5]] | [[1.075, .4], [0, 0], [.6, .6]]
pearce_kaye_hall | .5 | PKH | [[0, 0], [.5, .5]] | [[1, .25], [.05, .1], [.55, .55]]
pearce_kaye_hall | 1.5 | PKH | [[0, 0], [.5, .5]] | [[1, .25], [0, 0], [.45, .45]]
# gain (1, 2) / (5 + 5); after the drift the covariance is 2 I and the gain (2, 4) / (10 + 5)
kalman | 3 | dict(noise=5) | [np.eye(2)] | [[1.15, .55], [[.9, -.2], [-.2, .6]]]
kalman | 3 | dict(noise=5, drift=1) | [np.eye(2)]
    | [[1.2, .65], [[2 - 4 / 15, -8 / 15], [-8 / 15, 2 - 16 / 15]]]
# the last step's cue was (0, 1) and so predicted .25: error 3 + .9 * 1.5 - .25
temporal_difference | 3 | TD | [[0, 1], [0, 1]] | [[1, .25 + .41], [1, 2.45], [1, 2]]
temporal_difference | 3 | dict(TD, floor=2) | [[0, 1], [0, 1]] | [[1, .53], [1, 2.45], [1, 2]]
# two outcomes, predicted (1.5, 0): the error is (3, 4), its length 5
pearce_hall | [4.5, 4] | dict(beta=.1, eta=.2, bounds=(0, 9)) | [[.5, .5]]
    | [[1.15, .2, .55, .4], [.5 + .2 * 4.5, .5 + .8 * 4.5]]
pearce_kaye_hall | [4.5, 4] | PKH | [[0] * 4, [.5, .5]]
    | [[1.1125, .1, .475, .2], [0] * 4, [.95, .95]]
mackintosh | [4.5, 4] | dict(beta=.1, theta=.05) | [[.5, .5]] | [[1.175, .2, .65, .4],
    [.5 + .05 * (32**.5 - 28.25**.5), .5 - .2 * (32**.5 - 28.25**.5)]]
""")


@pytest.mark.parametrize("rule, outcome, parameters, others, after", BY_HAND)
def test_one_trial_by_hand(rule, outcome, parameters, others, after):
    cue, outcome = np.array([[1.0], [2.0]]), np.array(outcome, float).reshape(1, -1)
    start = initial_state(rule, cue.T, outcome)

    def state(*rows):
        columns = [np.array(row, float).reshape(2, -1) for row in rows]
        return type(start)(*columns) if others else columns[0]
    prediction = np.array([[1.5, 0]])[:, :outcome.size]
    start = state(prediction * [[1 / 1.5], [0.25 / 1.5]], *others)
    assert_same(rule(start, cue, outcome, **parameters), state(*after))
    assert_same(learn(rule, cue.T, outcome, state=start, **parameters), (prediction, state(*after)))


def test_start_values_in_every_form_and_back_in():
    _, cues, outcomes, _ = tokens(3, T=4, K=3)
    rates = {"beta": 0.2, "eta": 0.1}
    for start in (0.4, [0.2, 0.4, 0.9], np.linspace(0, 1, 9).reshape(3, 3)):
        column = np.zeros((3, 3, 1)) + np.array(start)[..., None]
        given = AssociabilityState(np.zeros((3, 3, 2)), column)
        _, last = learn(rules.pearce_hall, cues, outcomes, state=given, **rates)
        for chosen in ({"associability": start}, {"associability": column}, {"state": given}):
            assert_same(learn(rules.pearce_hall, cues, outcomes, **rates, **chosen)[1], last)
            assert_same(ph_attention(cues, cues, outcomes, **rates, **chosen)[1], last)


def test_rates_may_be_numbers_lists_and_arrays():
    _, cues, outcomes, memory = tokens(T=2)
    expected = learn(rules.hebbian, cues, outcomes, beta=0.5)
    for beta in (np.float32(0.5), np.array(0.5), [0.5], [0.5, 0.5], [[0.5]], np.full((1, 4), 0.5)):
        assert_same(learn(rules.hebbian, cues, outcomes, beta=beta), expected)
        assert_same(attention(cues, cues, outcomes, beta=beta)[1], expected[1])
    assert_same(conditioning.deltanet(
        cues, cues, outcomes, beta=0, state=memory, chunk=True)[1], memory)


def waning(state, cue, outcome, *, beta, power=1):
    """A rule of one's own: the rate falls with the use of the cue."""
    rate = beta / (1 + state.associability) ** power
    return AssociabilityState(state.memory + rate * cue * (outcome - cue * state.memory),
                              state.associability + cue)


waning.start = lambda memory, usage=0.0: AssociabilityState(memory, usage)


def test_a_rule_of_one_s_own_and_rules_with_parameters_set():
    ones, rates = np.ones((3, 1)), {"beta": 0.5, "associability": 0.4}
    predictions, _ = learn(waning, ones, ones, beta=0.5, usage=1.0, power=None)
    same(predictions[:, 0], [0, 1 / 4, 1 / 4 + 3 / 4 / 6])
    partial = functools.partial(rules.pearce_hall, eta=0.3)
    assert_same(learn(partial, ones, ones, **rates),
                learn(rules.pearce_hall, ones, ones, eta=0.3, **rates))


# ------------------------------------------------------------------- rules: other people's programs

REFERENCES = table("""
"calmr 0.8" | rescorla_wagner | "10A+" | dict(beta=.15) | [[.803125595659277]]
"calmr 0.8" | rescorla_wagner | "10A+ 10A-" | dict(beta=.15, beta_omitted=.06)
    | [[.432575584338556]]
"calmr 0.8, pyndl 1.2.4, PALMS" | rescorla_wagner | BLOCKING | dict(beta=.16)
    | [[.9107007471232, .0856019758891807]]
"calmr 0.8, PALMS" | rescorla_wagner | "10AB+" | dict(beta=.16) | [[.489430385899214] * 2]
"calmr 0.8" | rescorla_wagner | "A+ AB- " * 20 + "10BC+" | dict(beta=.16)
    | [[.798494169206436, .125782808999539, .838021780643259]]
"catlearn 1.1 slpRW, 8 digits" | rescorla_wagner | "A+ AX+ BY+ CY- " * 48 | dict(beta=.01)
    | [[.56598963, .31985658, -.06531738, .24498046, .25453919]]
"catlearn 1.1 slpMack75" | mackintosh | BLOCKING | dict(beta=.3, theta=.2, associability=.5)
    | [[.997798245045854, .407429172712925], [1, .1]]
"catlearn 1.1 slpMack75" | mackintosh | "5A+" | dict(beta=.3, theta=.2, associability=.5)
    | [[.598880717245682], [.763796778425]]
"KTD 94cd94d" | kalman | BLOCKING | dict(noise=1., drift=.01)
    | [[.9340736280699894, .06196684127316135]]
"KTD 94cd94d" | kalman | "10AB+ 10A+" | dict(noise=1., drift=.01)
    | [[.9390786002665075, .11631827616905646]]
"KTD 94cd94d: ridge regression" | kalman | BLOCKING | {} | [[120 / 131, 10 / 131]]
"hgf-toolbox 2437f4d" | pearce_hall | "5A+" | dict(beta=.4, eta=1., associability=.5)
    | [[.770701545472]]
"hgf-toolbox 2437f4d" | pearce_hall | "10A+ 10A-" | dict(beta=.4, eta=1., associability=.5)
    | [[.15198580797217754]]
"PALMS b84c565" | pearce_kaye_hall | BLOCKING | dict(beta_excitatory=.2, beta_inhibitory=.1,
    eta=.3, associability=.5, bounds=(0, np.inf)) | [[1.0574724869999996, 0], [.005952649360857262,
    .009720826272183682], [.04793966911665275, .05678400395673154]]
"calmr 0.8" | pearce_kaye_hall | "A+ AB-" * 10 | dict(beta_excitatory=.2, beta_inhibitory=.1,
    eta=.2, associability=.8) | [[1.18917293246457, 0], [.265736489832025, .280693745806494],
    [.486108448799405, .614534272772652]]
"calmr 0.8" | pearce_kaye_hall | "10A+ 10A-" | dict(beta_excitatory=.4, beta_inhibitory=.3,
    eta=.3, associability=.4, bounds=np.array([.1, 1])) | [[1.133816, 0], [.944055392292125, 0],
    [.344400997780823, .4]]
"start" | stimulus_trace | "A-" | dict(beta=.1, trace=1) | [[0] * 5, [1] + [0] * 4]
"start" | temporal_difference | "A-" | TD | [[0] * 5, [1] + [0] * 4, [1] + [0] * 4]
"start" | mackintosh | "A-" | dict(beta=.1, theta=0) | [[0] * 5, [1] * 5]
"start" | pearce_hall | "A-" | dict(beta=.1, eta=0) | [[0] * 5, [1] * 5]
"start" | pearce_kaye_hall | "A-" | dict(PKH, eta=0) | [[0] * 5, [0] * 5, [1] * 5]
"start" | kalman | "AB-" | dict(prior=[2, 3, 4, 5, 6]) | [[0] * 5, [2 - 4 / 6, -1, 0, 0, 0]]
# the associability of what is absent is not clipped
"start" | mackintosh | "A-" | dict(beta=.1, theta=.1, associability=3.) | [[0] * 5, [1] + [3] * 4]
"start" | pearce_hall | "A-" | dict(beta=.1, eta=.1, associability=3.) | [[0] * 5, [1] + [3] * 4]
"start" | pearce_kaye_hall | "A-" | dict(PKH, associability=3.)
    | [[0] * 5, [0] * 5, [1] + [3] * 4]
""")


@pytest.mark.parametrize("source, rule, text, parameters, expected", REFERENCES)
def test_strengths_of_other_programs(source, rule, text, parameters, expected):
    _, state = learn(rule, *trials(text), **parameters)
    digits = {"rtol": 0, "atol": 5e-9} if "8 digits" in source else TIGHT
    for leaf, rows in zip(leaves([state]), expected, strict=False):
        assert_allclose(leaf[:len(rows), 0], rows, **digits, err_msg=source)


def test_salience_and_several_outcomes_of_other_programs():
    cues, outcomes = trials("20AB+", "AB")
    sizes = np.sqrt([0.6, 0.2])
    _, memory = learn(rules.rescorla_wagner, cues * sizes, outcomes, beta=0.4)
    same(memory[:, 0] * sizes, [0.749664849773281, 0.24988828325776])  # calmr
    events = "aA abA bcB abcC cC cC cC cC abA abA abA bcB bcB bcB aA aA aD".split()  # pyndl 1.2.4
    cues, outcomes = (np.array([[name in event for name in names] for event in events], float)
                      for names in ("abc", "ABCD"))
    _, memory = learn(rules.rescorla_wagner, cues, outcomes, beta=0.01)
    expected = """
[.06642289580193711, .03694530544391187, -.0014872093321183378]
[-.00046795424924160015, .038365057936308816, .038261177234308816]
[.009132376564080003, .007694083331579601, .0472921134315796]
[.01, 0, 0]"""
    same(memory.T, [row for row, in table(expected)])


@pytest.mark.parametrize("text", ["200A+", "A+ AB-" * 60, "AB+ B-" * 60])
def test_rescorla_wagner_in_exact_fractions(text):
    strengths, predictions = np.array([Fraction(0)] * 2), []
    cues, outcomes = trials(text, "AB")
    for cue, outcome in zip(cues.astype(int), outcomes.astype(int), strict=True):
        predictions.append(cue @ strengths)
        strengths = strengths + Fraction(3, 16) * cue * (int(outcome[0]) - predictions[-1])
    found, _ = learn(rules.rescorla_wagner, cues, outcomes, beta=3 / 16)
    assert_allclose(found[:, 0], np.array(predictions, float), rtol=0, atol=1e-14)


def test_exemplar_responses_are_weighted_means():
    probes, cues = np.array([[0.0], [1], [9e9], [0]]), np.array([[0.0], [2]])
    stored = np.array([[1], [1], [1], [0]]) > 0
    found = rules.exemplar_responses(probes[None], cues, np.eye(2), scale=0.7, stored=stored)
    near = 1 / (1 + np.exp(-2 * 0.7))  # distances 0 and 2
    same(found, [[[near, 1 - near], [0.5, 0.5], [0, 1], [0, 0]]])


# --------------------------------------------------------------- every layer, form and rule at once


# name | layer, None for a rule by `learn` | the rule that it is | rates, by the names in `case`
LAYERS = {name: cells for name, *cells in table("""
"linear" | linear_attention | hebbian | {}
"betas" | linear_attention | hebbian | dict(beta="betas")
"retention" | retention | hebbian | dict(decay="decay")
"GLA" | retention | hebbian | dict(decay="decays")
"deltanet" | deltanet | rescorla_wagner | dict(beta="beta")
"gated" | gated_deltanet | rescorla_wagner | dict(beta="beta", decay="decay")
"gated, betas" | gated_deltanet | rescorla_wagner | dict(beta="betas", decay="decay")
"KDA" | gated_deltanet | rescorla_wagner | dict(beta="beta", decay="decays")
"PH" | ph_attention | pearce_hall | dict(beta="decay", eta="betas")
"mesa" | mesa_attention | kalman | dict(ridge=.5)
"softmax" | softmax_attention | None | dict(scale=1.3)
"circuit" | conditioning_circuit | None | dict(cue_activation=squared)
"errors" | prediction_errors | rescorla_wagner | dict(beta="beta", decay="decays")
"hebbian" | None | hebbian | dict(beta=.1, decay=.9)
"stimulus_trace" | None | stimulus_trace | dict(beta=.1, trace=.6)
"bush_mosteller" | None | bush_mosteller | dict(beta=.2)
"oja" | None | oja | dict(beta=.1)
"rescorla_wagner" | None | rescorla_wagner | dict(beta=.2, beta_omitted=.1, decay=.95, floor=-.3)
"mackintosh" | None | mackintosh | dict(beta=.3, theta=.2, fall=.05)
"pearce_hall" | None | pearce_hall | dict(beta=.3, eta=.2)
"pearce_kaye_hall" | None | pearce_kaye_hall | PKH
"kalman" | None | kalman | dict(noise=.5, drift=.01)
"temporal_difference" | None | temporal_difference | TD
""")}
FAMILY, STATELESS = list(LAYERS)[:8], ("mesa", "softmax", "circuit")
ROWS = "queries", "keys", "values"
EACH = {"form": "recurrent"}, {"form": "parallel"}, {"chunk": 3}, {}
FORMS = list(itertools.product(FAMILY, EACH))
FORMS += [("PH", {"chunk": 1}), ("PH", {"chunk": 4}), *((name, {}) for name in list(LAYERS)[8:])]
EVERY_FORM = pytest.mark.parametrize("name, form", FORMS, ids=str)


def case(name, form, *batch, T, K=4, D=2):
    """(run, arrays and rates by name, the start state): run(**arrays) is (outputs, *state).

    Rates are drawn for every token and feature; 0 and 1 are among the decays, beta is below 2.
    """
    rng = np.random.default_rng([7, T, K])
    beta, decay = rng.uniform(0, 1.95, (*batch, T)), rng.uniform(0.5, 1, (*batch, T))
    betas, decays = rng.uniform(0, 1, (2, *batch, T, K))
    decay[..., 2::5], decay[..., 3::5], decays[..., 2::5, :1] = 0, 1, 0
    drawn = {"beta": beta, "decay": decay, "betas": betas, "decays": decays}
    layer, rule, rates = LAYERS[name]
    rates = {key: drawn.get(value, value) if layer or key in ("noise", "discount", "floor")
             else value * (0.5 + betas / 2) for key, value in rates.items()}
    start = {}
    if name not in STATELESS:
        first = tokens(*batch, T=3, K=K, D=D)[1:3]
        start["state"] = learn(rule, *first, **LAYERS[rule.__name__][2])[1]

    call = layer or functools.partial(learn, getattr(rules, name))

    def run(queries, keys, values, **options):
        read = () if name == "errors" or name in RULES else (queries,)
        found = call(*read, keys, values, **options, **form)
        return found if isinstance(found, tuple) else (found,)
    rows = dict(zip(ROWS, tokens(*batch, T=T, K=K, D=D), strict=False))
    return run, rows | rates, start


def numbers(given):
    """The rates as numbers."""
    return {key: value if key in ROWS else mapped(np.mean, value) for key, value in given.items()}


def at(index, tree):
    """The tree with each array cut at its first axis."""
    return mapped(lambda array: array[index], tree)


def by_hand(name, queries, keys, values, state=None, **rates):
    """Outputs, and the last state, trial by trial with the rule; softmax by its sum."""
    if name == "softmax":
        rows = [np.exp(1.3 * keys[:t + 1] @ query) for t, query in enumerate(queries)]
        rows = [row @ values[:len(row)] / row.sum() for row in rows]
        return (np.array(rows).reshape(values.shape),)
    if name == "circuit":
        return by_hand("linear", squared(queries), squared(keys), values)[:1]
    rates = {"noise": 0.5} if name == "mesa" else rates
    if name in FAMILY:
        rates.setdefault("beta", 1.0)
    (layer, rule, _), outputs = LAYERS[name], []
    state = initial_state(rule, keys, values) if state is None else state
    for t, (query, key, value) in enumerate(zip(queries, keys, values, strict=True)):
        now = mapped(lambda rate, t=t: rate[t].reshape(-1, 1), rates)
        before = memory_of(state)
        state = rule(state, key[:, None], value[None], **now)
        outputs.append(query @ memory_of(state) if layer else key @ before)
        if name == "errors":
            outputs[-1] = value - key @ (now["decay"] * before)
    return np.array(outputs).reshape(values.shape), *[state][name in ("mesa", "errors"):]


@EVERY_FORM
def test_every_form_is_its_rule_and_may_be_cut_anywhere(name, form):
    for T in (0, 1, 2, 3, 4, 15, 16, 17, 33):
        run, given, start = case(name, form, T=T)
        found = run(**given, **start)
        assert_same(found, by_hand(name, **given, **start))
        for last, first in itertools.product(leaves(found), leaves(start)):
            assert last.flags.writeable and not np.shares_memory(last, first)
    for cut in (0, 1, 13, 32) if len(found) == 2 else ():
        first, state = run(**at(slice(cut), given), **start)
        if cut and name in RULES:
            path = run(**given, **start, path=True)[2]
            assert_same(at(cut - 1, path), rules.Path(
                memory_of(state), state.associability[:, 0] if hasattr(state, "associability")
                else None))
        second, state = run(**at(slice(cut, None), given), state=state)
        assert_same((np.concatenate([first, second]), state), found)


@EVERY_FORM
def test_sequences_packed_into_one_padding_and_test_trials(name, form):
    run, given, start = case(name, form, T=37)
    if name == "PH":  # a reset has its own start; what is absent keeps its value out of bounds
        given["associability"] = 0.4
        start["state"] = AssociabilityState(start["state"].memory, np.full((4, 1), 1.5))
    if name != "errors":
        found = run(**given, reset=np.isin(np.arange(37), [5, 6, 26]), **start)
        parts = [run(**at(slice(*ends), given), **(start if ends[0] == 0 else {}))
                 for ends in itertools.pairwise([0, 5, 6, 26, 37])]
        assert_same(found, (np.concatenate([part[0] for part in parts]), *parts[-1][1:]))
    where = [0, 0, 9, 37]  # padding at the front, in the middle and at the end holds anything
    test = np.insert(np.zeros(37), where, 1)
    padded = {key: np.insert(array, where, np.nan if key in ROWS else 0.3, 0)
              if np.ndim(array) else array for key, array in given.items()}
    more = run(**padded, test=test, **start)
    assert_same((more[0][test == 0], *more[1:]), run(**given, **start))
    again = run(**at([*range(37), 36], given), test=np.arange(38) == 37)[0]
    if name not in ("errors", *RULES):
        same(again[37], again[36])


@EVERY_FORM
def test_batch_axes_of_one_argument_alone_and_arguments_unchanged(name, form):
    run, given, start = case(name, form, 1, T=7)
    given |= start | {"test": np.arange(7)[None] == 2, "reset": np.arange(7)[None] == 4}
    if name == "errors":
        del given["reset"]
    several = mapped(lambda array: np.concatenate([array, array[:, ::-1]]), given)
    for array in leaves((given, several)):
        array.flags.writeable = False
    for key in given:
        found = run(**given | {key: several[key]})
        for i in range(2):
            one = run(**at(0, given) | {key: at(i, several[key])})
            for whole, alone in zip(leaves(found), leaves(one), strict=True):
                same(whole[i % len(whole)], alone)
    assert run(**mapped(lambda array: np.stack([array] * 2), given))[0].shape == (2, 1, 7, 2)


@EVERY_FORM
def test_sizes_and_precision(name, form):
    def run_in(dtype, given):
        found = run(**{key: mapped(lambda array: array.astype(dtype) if array.dtype == "f8"
                                   else array, value) if key in (*ROWS, "state") else value
                       for key, value in given.items()})
        checked = leaves(found)[:2 if name == "kalman" else 9]  # its covariance apart
        assert {leaf.dtype for leaf in checked} == {np.dtype(dtype)}
        return found
    run, given, start = case(name, form, 2, T=60)
    for one, other in zip(*(leaves(run_in(dtype, given | start)) for dtype in ("f4", "f8")),
                          strict=True):
        assert np.max(abs(one - other)) < 1e-5 * np.max(abs(other))
    for size in (1e-200, 1e200):  # contiguity is linear in the keys, Oja's rule cubic in the values
        for row in ("values", "keys")[name == "oja":1 + (name in FAMILY[:4])]:
            for leaf in leaves(run(**given | {row: size * given[row]})):
                assert np.isfinite(leaf).all()
    given = numbers(given)
    run_in("f4", given | start)
    run_in("f4", given | {"values": given["values"].astype(int)})
    for batch, T, K, D in ((0, 5, 3, 2), (2, 0, 3, 2), (2, 5, 0, 2), (2, 5, 3, 0)):
        run, given, start = case(name, form, batch, T=T, K=K, D=D)
        for dtype in ("f2", "f8"):
            found = run_in(dtype, given | start)
            assert found[0].shape == (batch, T, D)
            assert len(found) == 1 or memory_of(found[1]).shape == (batch, K, D)
            assert K or name == "errors" or not found[0].any()


@EVERY_FORM
def test_a_later_nan_or_infinity_changes_no_earlier_output_where_promised(name, form):
    run, given, _ = case(name, form, T=9)
    before, safe = run(**given)[0], 7 - 7 % form.get("chunk", 9)  # its own chunk, by default all
    if name in RULES or form.get("form") == "recurrent":
        safe = 7
    for key, spoiled in itertools.product(ROWS, (np.inf, np.nan)):
        changed = given | {key: given[key].copy()}
        changed[key][7] = spoiled
        with np.errstate(invalid="ignore"):
            after = run(**changed)[0]
        unchanged = 7 if key == "queries" else safe
        assert_array_equal(after[:unchanged], before[:unchanged])
    assert safe == 7 or np.isnan(after[safe:7]).any()
    assert all("NaN" in NAMES[each].__doc__ for each in """parallel chunkwise fast_chunkwise
        ph_errors mesa softmax circuit attention mesa_attention conditioning_circuit""".split())


# ------------------------------------------------------------------------------- forms of attention


@pytest.mark.parametrize("beta", [0.3, 0.6, 1.0, 1.9, 2.0])
@pytest.mark.parametrize("text", ["64A+", "32A+ 32AB+", "A+ AB-" * 32])
def test_a_cue_repeated_64_times(beta, text):
    """Powers of the matrix A of `parallel` would reach 1e17."""
    cues, outcomes = trials(text, "AB")
    cues /= np.sqrt(cues.sum(-1, keepdims=True))
    expected, state = learn(rules.rescorla_wagner, cues, outcomes, beta=beta)
    digits = {"rtol": 0, "atol": 1e-11}
    for form in (*EACH, {"chunk": 64}):
        found, last = conditioning.deltanet(np.roll(cues, -1, 0), cues, outcomes, beta=beta, **form)
        assert_same((found[:-1], last), (expected[1:], state), **digits)
    assert_same(prediction_errors(cues, outcomes, beta=beta), outcomes - expected, **digits)


@pytest.mark.parametrize("name", ["betas", "retention", "gated", "gated, betas"])
def test_the_fast_form_is_its_specification_and_forms_are_as_asked(name, monkeypatch):
    _, given, start = case(name, {}, 2, T=37)
    columns = {"beta": 1.0, "decay": 1.0} | {
        key: rate.reshape(2, 37, -1) for key, rate in given.items()}
    columns |= start | {"error_correcting": float("gated" in name)}
    for chunk, segment in itertools.product((1, 2, 5, 36, 37, 40), (1, 8, 256)):
        assert_same(conditioning.fast_chunkwise(**columns, chunk=chunk, segment=segment),
                    conditioning.chunkwise(**columns, chunk=chunk))
    for kernel, options in (("recurrent", EACH[0]), ("parallel", EACH[1]), ("fast_chunkwise", {}),
                            ("chunkwise", {"decay": given["keys"]**2})):
        with monkeypatch.context() as patch, pytest.raises(TypeError, match="NoneType"):
            patch.setattr(conditioning, kernel, None)
            attention(*(given[key] for key in ROWS), **options)


# Naive operators of flash-linear-attention (commit bc3b101), the hidden scale K^-1/2 taken off the
# queries: keys, values, queries, rates, outputs, last state; one feature a token as numbers.
FLASH_LINEAR_ATTENTION = table("""
[[1, 0]] * 3 | [1, 5, -2] | [[1, 0]] * 3 | dict(beta=1.) | [1, 5, -2] | [-2, 0]
[1] * 5 | [1] * 5 | [1] * 5 | dict(beta=.3) | [.3, .51, .657, .7599, .83193] | [.83193]
[[1, 0]] * 4 + [[.5**.5] * 2] * 4 | [1] * 8 | [[0, 1]] * 8 | dict(beta=.25) | [0, 0, 0, 0,
    .0913274765466369, .15982308395661457, .21119478951409784, .24972356868221027]
    | [.9333173186822102, .2497235686822102]
[[0, 0], [1, 0], [0, 0]] | [9, 1, 9] | [[0, 0], [1, 0], [0, 0]] | dict(beta=.5) | [0, .5, 0]
    | [.5, 0]
[1] * 6 | [1] * 6 | [1] * 6 | dict(beta=2.2)
    | [2.2, -.44, 2.728, -1.0736, 3.48832, -1.985984] | [-1.985984]
[2] * 4 | [1] * 4 | [2] * 4 | dict(beta=1.) | [4, -8, 28, -80] | [-40]
[[.6, .8]] | [2] | [[.6, .8]] | dict(beta=.5) | [1] | [.6, .8]
np.eye(3) | [1, 2, 3] | np.ones((3, 3)) | dict(beta=1.) | [1, 3, 6] | [1, 2, 3]
[1] * 6 | [1] * 6 | [1] * 6 | dict(beta=.5, decay=.9)
    | [.5, .725, .82625, .8718125, .892315625, .90154203125] | [.90154203125]
[1, 0, 0, 0] | [1, 0, 0, 0] | [1] * 4 | dict(decay=.5, error_correcting=False)
    | [1, .5, .25, .125] | [.125]
[1] * 5 | [1] * 5 | [1] * 5 | dict(error_correcting=False) | [1, 2, 3, 4, 5] | [5]
""")


@pytest.mark.parametrize("keys, values, queries, rates, outputs, last", FLASH_LINEAR_ATTENTION)
def test_numbers_of_flash_linear_attention(keys, values, queries, rates, outputs, last):
    arrays = [np.array(rows, float).reshape(len(values), -1) for rows in (queries, keys, values)]
    for form in EACH:
        found, state = attention(*arrays, **{"error_correcting": True} | rates | form)
        same(np.concatenate([found, state])[:, 0], [*outputs, *last])


# ------------------------------------------------------------------------------------ hard numbers


def test_half_precision_is_computed_in_single():
    """A sum of ones stalls at 2048 in float16, and a decay of 1 - 2^-12 is 1."""
    ones = np.ones((40000, 1), np.float16)
    for form, T in (("recurrent", 2500), ("parallel", 2500), ("chunkwise", 40000)):
        outputs, state = attention(ones[:T], ones[:T], ones[:T], form=form)
        assert outputs.dtype == state.dtype == np.float16 and state == T
    assert learn(rules.hebbian, ones[:4096], ones[:4096], beta=1.0)[1] == 4096
    small, kept = np.full((2500, 1), 2.0**-6, np.float16), 1 - 2.0**-12
    wanted = attention(*[small.astype(float)] * 3, decay=kept)[0]
    for decay in (kept, np.full(2500, kept, np.float32)):
        for form in ("recurrent", "chunkwise"):
            found = attention(small, small, small, decay=decay, form=form)[0]
            assert_allclose(found, wanted, rtol=1e-3)


@pytest.mark.parametrize("noise", [1e-4, 1e-6])
def test_nearly_collinear_cues_in_single_precision(noise):
    def ridge(cues, outcomes):
        x, y = cues.astype(float), outcomes.astype(float)
        return np.linalg.solve(x.T @ x + noise * np.eye(6), x.T @ y)
    rng = np.random.default_rng(3)
    cues = rng.standard_normal((3000, 1)) + 1e-4 * rng.standard_normal((3000, 6))
    cues[:, -1] = 0  # never presented: its variance stays 1 while that of the others falls
    cues = cues.astype("f4")
    outcomes = (cues @ rng.standard_normal((6, 1))).astype("f4")
    _, state = learn(rules.kalman, cues, outcomes, noise=noise)
    assert_allclose(state.memory, ridge(cues, outcomes), atol=1e-2 * np.max(abs(state.memory)))
    assert np.linalg.eigvalsh(state.covariance).min() > 0
    queries = np.ones((6, 6), np.float32)
    found = conditioning.mesa_attention(queries, cues[:6], outcomes[:6], ridge=noise)
    assert_allclose(found[-1], ridge(cues[:6], outcomes[:6]).sum(0), rtol=1e-3)


def test_small_ridges_and_small_decays():
    keys, values = np.ones((20, 3), np.float32), np.arange(20, dtype=np.float32)[:, None]
    for ridge in (1e-8, np.float32(1e-8), np.array(1e-8)):
        found = conditioning.mesa_attention(keys, keys, values, ridge=ridge)
        assert_allclose(found[:, 0], np.arange(20) / 2, rtol=1e-3, atol=1e-3)
    *arrays, _ = tokens(T=40)
    for decay in (1e-300, np.full(40, 1e-38)):
        found = [conditioning.gated_deltanet(*arrays, beta=1.0, decay=decay, **form)
                 for form in EACH]
        assert_same(found[1:], found[:1] * 3)


# ----------------------------------------------------------------------- stand-ins for other arrays


OPERATORS = """add multiply divide subtract remainder power matmul bitwise_and bitwise_or less
    less_equal greater greater_equal equal not_equal negative absolute invert""".split()


class Space(types.ModuleType):
    """A namespace whose arrays (NumPy inside) have the names given and no others.

    It refuses what CuPy 14.2 refuses: NumPy arrays and lists as operands, other keywords, `where`
    without an array as its condition, cumulative sums and products of nothing, a `solve` that would
    broadcast; like CuPy it answers NaN to a singular one. It counts launches, and waits for the
    device. `portable` as JAX and PyTorch: no assignment, no in-place operator, no step backwards,
    no arithmetic of truth values with floats, of which PyTorch makes single precision.
    """

    def __init__(self, name, functions, methods, keywords, portable=False):
        super().__init__(name)
        self.names, self.methods = functions.split(), methods.split()
        self.keywords, self.portable = set(keywords.split()), portable
        self.launches = self.waits = 0
        self.ndarray = type("ndarray", (StandIn,), {"__module__": name, "space": self})
        sys.modules[name] = self.linalg = self

    def __getattr__(self, name):
        if name not in self.names:
            raise AttributeError(f"{self.__name__} has no {name}")
        return self.raised(getattr(np, name, None) or getattr(np.linalg, name))

    def lowered(self, value):
        if isinstance(value, self.ndarray):
            return value.held
        if isinstance(value, (np.ndarray, list, StandIn)):
            raise TypeError(f"a {type(value).__name__} as an operand")
        return tuple(map(self.lowered, value)) if isinstance(value, tuple) else value

    def raised(self, value):
        if isinstance(value, (tuple, list)):
            return type(value)(map(self.raised, value))
        if isinstance(value, (np.ndarray, np.generic)):
            if value.dtype.kind not in "fiubc":
                raise ValueError(f"no arrays of {value.dtype}")
            return self.ndarray(np.asarray(value))
        function = callable(value) and not isinstance(value, type)
        return functools.partial(self.call, value) if function else value

    def call(self, function, *arguments, **options):
        name = function.__name__
        self.launches += 1
        self.waits += name in ("nonzero", "unique")
        if not self.keywords.issuperset(options):
            raise TypeError(f"{name} takes no {sorted(options)}")
        if name in ("asarray", "array") and not isinstance(arguments[0], StandIn):
            return self.raised(np.array(*arguments, **options))
        if name in ("concatenate", "stack"):
            arguments = (tuple(arguments[0]), *arguments[1:])
        if name == "where" and not (len(arguments) == 3 and isinstance(arguments[0], StandIn)):
            raise TypeError("where needs an array condition and two choices")
        low = self.lowered(arguments)
        truths = any(getattr(side, "dtype", "") == np.bool_ for side in low)
        floats = any(isinstance(side, float) for side in low) and name in OPERATORS[:3]
        if self.portable and truths and (floats or name == "subtract"):
            raise TypeError("PyTorch takes truth values for single precision")
        whole = getattr(function, "__self__", None)
        if name.startswith("cum") and 0 in np.shape(low[0] if whole is None else whole):
            raise ValueError(f"{name} of nothing")
        if name == "solve" and low[0].shape[:-2] != low[1].shape[:-2]:
            raise ValueError("solve does not broadcast")
        try:
            return self.raised(function(*low, **mapped(self.lowered, options)))
        except np.linalg.LinAlgError:
            return self.raised(np.full_like(low[1], np.nan))


class StandIn(np.lib.mixins.NDArrayOperatorsMixin):
    """An array of a `Space`."""

    def __init__(self, held):
        self.held = held

    def __array__(self, dtype=None, copy=None):
        raise TypeError("implicit conversion to NumPy")

    def __array_ufunc__(self, function, method, *sides, **out):
        if function.__name__ not in OPERATORS:
            raise TypeError(f"{function.__name__} of NumPy")
        return self.space.call(function, *sides, **out)

    def __getattr__(self, name):
        if name not in self.space.methods:
            raise AttributeError(f"{self.space.__name__}.ndarray has no {name}")
        return self.space.raised(getattr(self.held, name))

    def _key(self, key):
        for each in key if isinstance(key, tuple) else (key,):
            self.space.waits += getattr(each, "dtype", "") == np.bool_
            if self.space.portable and isinstance(each, slice) and (each.step or 1) < 0:
                raise ValueError("PyTorch has no step backwards")
        return self.space.lowered(key)

    def __getitem__(self, key):
        return self.space.raised(self.held[self._key(key)])

    def __setitem__(self, key, value):
        if self.space.portable:
            raise TypeError("JAX has no assignment")
        self.space.launches += 1
        self.held[self._key(key)] = self.space.lowered(value)

    def __len__(self):
        return len(self.held)

    def get(self):
        self.space.waits += 1
        return self.held.copy()


for _name in "item tolist __bool__ __float__ __int__ __index__ __iter__".split():
    setattr(StandIn, _name, lambda self, name=_name: getattr(self.get(), name)())
PORTABLE = Space("portable", """where concatenate stack exp tril triu ones_like zeros_like amax inf
                 solve""",
                 "sum clip cumsum cumprod swapaxes shape ndim dtype", "keepdims", portable=True)


def strict_module():
    """A namespace as strict as CuPy 14.2, for a machine without a GPU; `.get()` comes back."""
    return Space(
        "strict_cupy",
        """abs all amax amin any arange arccos argmax argmin argsort array asarray
        ascontiguousarray atleast_2d bincount broadcast_arrays broadcast_to ceil clip
        column_stack concatenate cos cosh
        count_nonzero cov cumprod cumsum diag diagonal diff dot einsum empty empty_like exp
        expand_dims expm1 eye flip float32 float64 floor full full_like hstack hypot identity inf
        int64 interp isfinite isin isnan linspace log log10 log1p log2 logical_and logical_not
        logical_or logspace max maximum mean median meshgrid min minimum moveaxis nan newaxis
        nonzero ones ones_like outer percentile pi power prod quantile ravel repeat reshape
        result_type roll round searchsorted sign sin sort sqrt square squeeze stack std sum
        swapaxes take take_along_axis tan tanh tensordot tile trace transpose tril triu unique var
        vstack where zeros zeros_like
        cholesky det eigh eigvalsh inv lstsq norm pinv qr solve svd""",
        """shape ndim size dtype itemsize T all any argmax argmin argsort astype clip copy cumprod
        cumsum diagonal dot fill flatten max mean min nbytes prod ravel repeat reshape round sort
        squeeze std strides sum swapaxes take trace transpose var""",
        "axis axes copy order ddof dtype indexing k keepdims out num endpoint axisa ord")


def test_the_stand_in_counts_what_waits_for_a_device():
    xp = strict_module()
    array = xp.asarray(np.ones(3))
    assert np.isnan(xp.linalg.solve(xp.ones((2, 2)), xp.ones((2, 1))).get()).all()
    array += 1.0
    array[:1] = 5.0
    assert array.get().tolist() == [5, 2, 2]
    before = xp.waits
    assert (bool(array[0] > 1), float(array[1]), array[array > 3].shape) == (True, 2, (1,))
    assert xp.waits == before + 3


# ------------------------------------------- every function on a device, and copied alone


def answered(function, *arguments, **options):
    """The results of a call, and the gradients if the last one is a pullback."""
    found = function(*arguments, **options)
    if isinstance(found, tuple) and callable(found[-1]):
        return (*found[:2], found[2](found[0], *found[1]))
    return found


def every_call():
    """Every rule, layer and form, with rates and with numbers, and the gradient: name, function,
    arguments by name."""
    marks = {"test": np.arange(6) % 4 == 2, "reset": np.arange(6) == 4}
    for name, form in FORMS:
        run, given, start = case(name, form, 3, T=6)
        yield name, run, given | start | (marks if name != "errors" else {})
        yield name, run, numbers(given)
        for T, K in ((0, 4), (5, 0)):
            yield name, *case(name, form, 3, T=T, K=K)[:2]
        if name == "pearce_hall":
            yield "path", run, given | {"path": True}
        if name == "mesa":
            yield "ridge", run, given | {"ridge": np.array(0.5)}
    *rows, memory = tokens(3, T=6)
    yield "exemplars", rules.exemplar_responses, dict(
        zip(("probes", "cues", "outcomes"), rows, strict=True), scale=0.7,
        stored=np.arange(6)[:, None] > np.arange(6))
    beta, decay, eta = np.random.default_rng(6).uniform(0.1, 0.9, (3, 3, 6, 4))
    yield "gradient", functools.partial(answered, conditioning.recurrence), dict(
        zip(ROWS, rows, strict=True), beta=beta, decay=decay, error_correcting=1.0, eta=eta,
        bounds=(0.1, 0.8), memory=memory, associability=eta[:, 0, :, None])


def test_every_function_runs_copied_alone(monkeypatch):
    """With the named tuple of its state and `array_module`; `chunkwise` also with `parallel`."""
    seen, kernels = [], """exemplar_responses recurrent parallel chunkwise fast_chunkwise ph_errors
        mesa softmax circuit recurrence""".split()
    states = {name: each for name, each in NAMES.items() if hasattr(each, "_fields")}

    def recorded(name):
        @functools.wraps(NAMES[name])
        def call(*arguments, **options):
            seen.append((name, *mapped(np.copy, (arguments, options))))
            return NAMES[name](*arguments, **options)
        return call
    for name in (*kernels, *RULES):
        for module in (rules, conditioning):
            monkeypatch.setattr(module, name, recorded(name), raising=False)
    for _, function, options in every_call():
        function(**options)
    assert {name for name, *_ in seen} == {*kernels, *RULES}
    for name, arguments, options in seen:
        copied = {"sys": sys} | states
        for function in ("array_module", *["parallel"] * (name == "chunkwise"), name):
            exec(inspect.getsource(NAMES[function]), copied)
        expected = answered(NAMES[name], *arguments, **options)
        assert_same(answered(copied[name], *arguments, **options), expected)
        xp = strict_module() if name == "fast_chunkwise" else PORTABLE
        moved = mapped(lambda array, xp=xp: xp.ndarray(array.copy()), (arguments, options))
        assert_same(answered(copied[name], *moved[0], **moved[1]), expected)


def a_gpu():
    """CuPy; skips the test where it finds no GPU."""
    cupy = pytest.importorskip("cupy", exc_type=ImportError)
    try:
        cupy.ones(1).get()
    except Exception as reason:
        pytest.skip(str(reason))
    return cupy


@pytest.mark.parametrize("device", ["stand-in", pytest.param("cupy", marks=pytest.mark.gpu)])
def test_everything_runs_on_the_device_and_never_waits(device):
    xp = strict_module() if device == "stand-in" else a_gpu()
    digits = TIGHT if device == "stand-in" else {"rtol": 1e-9, "atol": 1e-11}
    for name, function, given in every_call():
        launches = []
        for copies in (2, 1):  # twice the batch, as many launches
            moved = mapped(lambda array, copies=copies: xp.asarray(
                np.concatenate([array] * copies) if len(array.shape) > 1 and len(array) == 3
                else array), given)
            xp.launches = xp.waits = 0
            found = function(**moved)
            launches.append(xp.launches)
            assert xp.waits == 0 and launches[0] == xp.launches, name
        assert all(isinstance(leaf, xp.ndarray) for leaf in leaves(found)), name
        assert_same(found, function(**given), **digits)


# ------------------------------------------------------------------------------------- one gradient


def recurrence_arrays(T):
    """Arguments of `recurrence` with a rate for every token and feature; alpha within .5 and .8."""
    beta, decay, eta = np.random.default_rng(T).uniform(0.1, 0.95, (3, 2, T, 3))
    rows = dict(zip(ROWS, tokens(2, T=T, K=3), strict=False))
    return rows | {"beta": beta, "decay": decay, "eta": eta, "memory": tokens(2, T=T, K=3)[3],
                   "associability": np.random.default_rng(1).uniform(0.5, 0.8, (2, 3, 1))}


@pytest.mark.parametrize("size", [1, 1e200])
def test_the_recurrence_is_its_kernels(size):
    queries, keys, values, beta, decay, eta, memory, alpha = recurrence_arrays(6).values()
    rows, one, bounds = (queries, keys, size * values), 0 * alpha + 1, (0.35, 0.9)
    for c in (0.0, 1.0):
        outputs, state, _ = recurrence(*rows, beta, decay, c, 0 * eta, bounds, memory, one)
        assert_same((outputs, state),
                    (*conditioning.recurrent(*rows, beta, decay, c, memory), one))
    outputs, state, _ = recurrence(*rows, beta, beta**0, c, eta, bounds, memory, alpha)
    *pairs, last = conditioning.ph_errors(*rows[1:], beta, eta, 0 * eta[..., :1], bounds, alpha,
                                          memory, alpha)
    expected = conditioning.parallel(queries, *pairs, 1.0, 1.0, 0.0, memory)
    assert_same((outputs, state), (expected[0], (expected[1], last)))


@pytest.mark.parametrize("c, bounds", [(0.0, (0, 5)), (1.0, (0, 5)), (1.0, (0.35, 0.9))])
def test_gradients_against_central_differences(c, bounds):
    given = recurrence_arrays(5)
    given["values"][1, 3] *= 3
    given["keys"][0, 2] = given["eta"][0, 0] = 0
    if bounds[0]:  # one alpha is outside the bounds until its feature is presented
        given["eta"][1, 0, 1], given["associability"][1, 1] = 0, 1.7
    run = functools.partial(recurrence, error_correcting=c, bounds=bounds)
    outputs, state, pullback = run(**given)
    rng = np.random.default_rng(4)
    weights = [rng.standard_normal(array.shape) for array in (outputs, *state)]

    def loss(field, move):
        outputs, state, _ = run(**given | {field: given[field] + move})
        return sum((one * two).sum() for one, two in zip((outputs, *state), weights, strict=True))
    for field, gradient in pullback(*weights)._asdict().items():
        moves = 1e-5 * np.eye(gradient.size).reshape(-1, *gradient.shape)
        numeric = [(loss(field, move) - loss(field, -move)) / 2e-5 for move in moves]
        assert_allclose(gradient, np.reshape(numeric, given[field].shape), rtol=1e-6, atol=1e-7,
                        err_msg=field)


def test_gradients_of_nothing():
    for T in (0, 5):
        given = mapped(np.zeros_like, recurrence_arrays(T))
        outputs, _, pullback = recurrence(**given, error_correcting=1.0, bounds=(0, 1))
        found = pullback(outputs + 1)._asdict()
        assert mapped(np.shape, found) == mapped(np.shape, given)
        assert all(np.isfinite(leaf).all() for leaf in leaves(found))


# ---------------------------------------------------------------------------------------- bad input

# call | exception | what the message says: the argument, what was given, what is allowed
REFUSED = r"""
learn("hebbian", X, V, beta=1) | TypeError | 'hebbian' is not a callable
hebb(X, V, bta=1, beta=1) | TypeError | unexpected.*'bta'; the rule's parameters are beta, decay$
hebb(X, V) | TypeError | missing.*'beta'; the rule's parameters are beta, decay
hebb(X, V, beta=None) | TypeError | missing.*'beta'
hebb(X, V, beta=1, prior=1) | TypeError | unexpected.*'prior'
ph(associability=1, alpha=1) | TypeError | 'alpha'; .* are beta, eta, bounds, associability$
learn(temporal_difference, X, V, beta=1) | TypeError | missing.* are beta, trace, discount, floor$
initial_state(kalman, X, V, associability=1) | TypeError | associability
hebb(X, V, beta=1j) | TypeError | beta must be a plain array of real.*complex
hebb(X, V, beta="a") | TypeError | beta must be a plain array of real.*str
hebb(X, V, beta=[[1], [1, 2]]) | TypeError | beta must be a plain array of real.*list
hebb(X, V, beta={}) | TypeError | beta must be a plain array of real.*dict
hebb(X, V, beta=nan) | ValueError | beta must be finite, got nan
hebb(X, V, beta=[1, nan, 1]) | ValueError | beta must be finite
hebb(X, V, beta=1, decay=-0.1) | ValueError | decay must be from 0 to 1, got -0.1
hebb(X, V, beta=1, decay=1.1) | ValueError | decay must be from 0 to 1, got 1.1
hebb(X, V, beta=np.ones((3, 4))) | ValueError | beta.*\(3, 2\), got shape \(3, 4\)
hebb(X, V, beta=np.ones((2, 2))) | ValueError | beta.*\(3, 2\), got shape \(2, 2\)
hebb(X, V, beta=np.ones(5)) | ValueError | one value a trial \(3,\).*got shape \(5,\)
hebb(B, V, beta=np.ones(4)) | ValueError | one a batch entry \(4, 1\)
hebb(X, V, beta=np.ones((1, 1, 1))) | ValueError | beta must be a number
hebb(B, np.ones((5, 3, 1)), beta=1) | ValueError | 'cues': \(4, 3, 2\), 'outcomes': \(5, 3, 1\)
hebb(B, V, beta=np.ones((5, 3))) | ValueError | batch axes do not broadcast.*'beta': \(5, 3, 1\)
hebb(X, V[:2], beta=1) | ValueError | one T.*'cues': \(3, 2\), 'outcomes': \(2, 1\)
hebb(X[0], V, beta=1) | ValueError | 'cues': \(2,\)
hebb(X * 1j, V, beta=1) | TypeError | cues.*complex128
hebb(X.astype(object), V, beta=1) | TypeError | cues.*object
hebb(X.astype(str), V, beta=1) | TypeError | cues.*<U
hebb(MASKED, V, beta=1) | TypeError | cues.*MaskedArray
hebb("x", V, beta=1) | TypeError | cues.*str
hebb(X, V, beta=1, test=np.ones(4)) | ValueError | test must mark each of the 3.*4
hebb(X, V, beta=1, reset=True) | ValueError | reset must mark each
hebb(X, V, beta=1, test=["a", "", ""]) | TypeError | test
hebb(X, V, beta=1, state=V) | ValueError | state must be ndarray.*\(2, 1\).*\(3, 1\)
hebb(X, V, beta=1, state=W * 1j) | TypeError | state.*complex
hebb(X, V, beta=1, state=np.ma.ones((2, 1))) | TypeError | state.*MaskedArray
hebb(X, V, beta=1, state=[[0.0], [nan]]) | ValueError | state must be finite
hebb(X, V, beta=1, state="x") | TypeError | state must be a plain array of real.*str
hebb(X, V, beta=1, state=(V, W)) | ValueError | batch axes do not broadcast.*'state': <class 'tu
hebb(X, V, beta=1, state=State(W, W)) | TypeError | state must be ndarray.*got Associ
ph(state=W) | TypeError | state must be AssociabilityState.*got ndarray
ph(state=State(W, 1.0)) | ValueError | state must be Assoc.*got.*\(\)
ph(state=State(W, W[0])) | ValueError | state must be.*\(2, 1\).*\(1,\)
ph(state=State(W, B[..., :1])) | ValueError | state must be.*\(2, 1\).*\(3, 1\)
ph(state=State(B[:, :2, :1], W), test=np.ones((5, 3))) | ValueError | test.*'state': \(4, 2, 1\)
ph(associability=np.ones((5, 2))) | ValueError | associability.*\(2,\), got shape \(5, 2\)
ph(eta=-1) | ValueError | eta must be at least 0 and finite, got -1
ph(bounds=(1, 0)) | ValueError | bounds must be two numbers, low and high, got \(1, 0\)
ph(bounds=3) | ValueError | bounds must be two numbers
ph(bounds=(0, nan)) | ValueError | bounds must be two numbers
ph(bounds=X) | ValueError | bounds must be two numbers
ph(bounds="ab") | TypeError | bounds must be a plain array
ph(associability=-1) | ValueError | associability must be at least 0
ph(state=(W, W, W)) | TypeError | state must be AssociabilityState.*got tuple
learn(pearce_kaye_hall, X, V, **dict(PKH, salience=-1)) | ValueError | salience must be at least 0
learn(mackintosh, X, V, beta=1, theta=1, fall=-1) | ValueError | fall must be at least 0
learn(mackintosh, X, V, beta=1, theta=-1) | ValueError | theta must be at least 0
learn(rescorla_wagner, X, V, beta=1, floor=X) | ValueError | floor must be a number
learn(kalman, X, V, noise=-1) | ValueError | noise must be above 0 and finite, got -1
learn(kalman, X, V, noise=0) | ValueError | noise must be above 0
learn(kalman, X, V, noise=np.zeros(3, "e")) | ValueError | noise must be above 0
learn(kalman, X, V, noise=X) | ValueError | noise must be.*\(3, 1\)
learn(kalman, X, V, drift=-1) | ValueError | drift must be at least 0
learn(kalman, X, V, prior=0) | ValueError | prior must be above 0
learn(kalman, X, V, prior=[1.0, nan]) | ValueError | prior must be above 0
learn(temporal_difference, X, V, beta=1, trace=2.0) | ValueError | trace must be from 0 to 1
learn(temporal_difference, X, V, beta=1, trace=0, discount=X) | ValueError | discount must be
learn(temporal_difference, X, V, beta=1, trace=0, discount=2) | ValueError | discount.*0 to 1
attention(X, X, V, beta=None) | TypeError | beta must be a plain array of real.*NoneType
attention(X, X, V, decay=-0.1) | ValueError | decay must be from 0 to 1, got -0.1
attention(X, X, V, decay=np.full((3, 2), -0.1)) | ValueError | decay must be from 0 to 1
attention(X, X, V, beta=np.inf) | ValueError | beta must be finite
attention(B, B, B, beta=np.ones(4)) | ValueError | batch entry \(4, 1\).*got shape \(4,\)
attention(np.ones((2, 3, 2)), B, V) | ValueError | 'queries': \(2, 3, 2\), 'keys': \(4, 3, 2\)
attention(X, np.ones((3, 4)), V) | ValueError | queries and keys.*\(3, 2\).*\(3, 4\)
attention(X, X, V[:2]) | ValueError | one T.*'values': \(2, 1\)
attention(X, MASKED, V) | TypeError | keys.*MaskedArray
attention(X, X, V, state=X) | ValueError | state must be ndarray.*\(2, 1\).*got.*\(3, 2\)
attention(X, X, V, state=0.0) | TypeError | state must be ndarray.*\(2, 1\).*got.*\(\)
attention(X, X, V, state=np.ma.ones((2, 1))) | TypeError | state.*MaskedArray
attention(X, X, V, form="loop") | ValueError | form.*chunkwise, got 'loop'
attention(X, X, V, error_correcting="no") | ValueError | error_correcting.*True or False, got 'no'
attention(X, X, V, chunk=np.ones(2)) | ValueError | chunk.*at least 1
attention(X, X, V, chunk=0) | ValueError | chunk must be.*at least 1, got 0
attention(X, X, V, chunk=1.5) | ValueError | chunk must be a whole number.*1.5
attention(X, X, V, test=np.ones(2)) | ValueError | test must mark each.*\(2,\)
linear_attention(X, X, V, error_correcting=True) | TypeError | values.*'error_correcting'
deltanet(X, X, V, beta=1, decay=1) | TypeError | multiple values.*'decay'
deltanet(X, X, V) | TypeError | beta
layer(state=W) | TypeError | state must be AssociabilityState
layer(state=State(0.0, 1.0)) | TypeError | state must be
layer(associability=np.ones((5, 2))) | ValueError | associability.*\(2,\), got shape \(5, 2\)
layer(bounds=(2, 1)) | ValueError | bounds must be two
layer(chunk=0) | ValueError | chunk must be
mesa_attention(X, X, V, ridge=-1) | ValueError | ridge must be above 0 and finite, got -1
mesa_attention(X, X, V, ridge=0) | ValueError | ridge must be above 0
mesa_attention(X, X, V, ridge=nan) | ValueError | ridge must be above 0
mesa_attention(X, X, V, ridge=np.ones(3)) | ValueError | ridge must be one number.*\(3,\)
mesa_attention(X, X, V, ridge=[1.0]) | ValueError | ridge must be one number
mesa_attention(X, X, V, ridge=1e-17) | ValueError | ridge must be larger for these keys
softmax_attention(X, X, V, scale=nan) | ValueError | scale must be finite
softmax_attention(X, X, V, scale=np.ones(3)) | ValueError | scale must be one number.*\(3,\)
prediction_errors(X, V, beta=np.ones(2)) | ValueError | beta must be a number
prediction_errors(X, V, beta=1, state=X) | ValueError | state must be ndarray.*\(3, 2\)
attention(x, X, v) | TypeError | NumPy and of a device are mixed
attention(x, x, v, beta=np.ones(3)) | TypeError | mixed
attention(x, x, v, state=W) | TypeError | mixed
attention(X, X, V, state=xp.ones((2, 1))) | TypeError | mixed
attention(x, x, v, test=np.ones(3)) | TypeError | mixed
hebb(X, v, beta=0.1) | TypeError | mixed
hebb(x, v, beta=0.1, reset=np.ones(3)) | TypeError | mixed
hebb(x, v, beta=0.1, state=W) | TypeError | mixed
learn(pearce_hall, x, v, beta=0.1, eta=0.1, associability=np.ones(2)) | TypeError | mixed
ph_attention(x, x, v, beta=0.1, eta=0.1, associability=np.ones(2)) | TypeError | mixed
mesa_attention(x, x, v, ridge=np.ones(())) | TypeError | mixed
attention(x, x, v, decay=-0.1) | ValueError | decay must be from 0 to 1
attention(x, x, v, decay=np.float64(1.5)) | ValueError | decay must be from 0 to 1
hebb(x, v, beta=1.0, decay=nan) | ValueError | decay must be from 0 to 1
np.asarray(x) | TypeError | implicit conversion
x + X | TypeError | a ndarray as an operand
X * x | TypeError | a ndarray as an operand
np.array(1.0) * x | TypeError | a ndarray as an operand
x * [1.0, 2.0] | TypeError | a list as an operand
np.exp(x) | TypeError | exp of NumPy
xp.vecdot(x, x) | AttributeError | has no vecdot
x.nothing | AttributeError | has no nothing
x.__array_namespace__() | AttributeError | has no __array_namespace__
xp.sum(x, initial=0) | TypeError | takes no
x[[0]] | TypeError | a list as an operand
xp.where(True, x, x) | TypeError | an array condition
xp.where(x) | TypeError | an array condition
xp.ones((0, 2)).cumprod(0) | ValueError | of nothing
xp.cumsum(xp.ones((0, 2))) | ValueError | of nothing
xp.linalg.solve(xp.ones((2, 2)), xp.ones((3, 2, 1))) | ValueError | does not broadcast
xp.asarray(None) | ValueError | no arrays of object
xp.concatenate([X]) | TypeError | a ndarray as an operand
portable.__setitem__(0, 1.0) | TypeError | no assignment
portable.__iadd__(1.0) | TypeError | takes no \['out'\]
portable[::-1] | ValueError | no step backwards
(portable > 0) * 0.5 | TypeError | truth values
1 - (portable > 0) | TypeError | truth values
portable.astype(float) | AttributeError | has no astype
portable.max() | AttributeError | has no max
"""


@pytest.mark.parametrize("line", REFUSED.strip().splitlines())
def test_bad_input_is_refused_in_one_line(line):
    X, V, xp = np.ones((3, 2)), np.ones((3, 1)), strict_module()
    hybrid = {"beta": 1, "eta": 1}
    names = NAMES | {
        "X": X, "V": V, "B": np.ones((4, 3, 2)), "W": np.ones((2, 1)), "MASKED": np.ma.ones((3, 2)),
        "xp": xp, "x": xp.ones((3, 2)), "v": xp.ones((3, 1)), "portable": PORTABLE.ndarray(X),
        "nan": np.nan, "State": AssociabilityState,
        "hebb": functools.partial(learn, rules.hebbian),
        "ph": functools.partial(learn, rules.pearce_hall, X, V, **hybrid),
        "layer": functools.partial(ph_attention, X, X, V, **hybrid)}
    call, kind, message = line.split(" | ")
    with pytest.raises(eval(kind), match=message) as caught:
        eval(call, names)
    assert "\n" not in str(caught.value)
    assert not xp.waits  # to check a number costs no wait


def test_a_state_goes_on_in_any_batch():
    rng = np.random.default_rng(5)
    keys, values = rng.normal(size=(4, 3)) / 2, rng.normal(size=(4, 1))
    state = ph_attention(keys, keys, values, beta=0.3, eta=0.5)[1]
    for shape in ((3, 6), (6,)):  # 3 is also the number of features
        more, outcomes = rng.normal(size=(*shape, 3)) / 2, rng.normal(size=(*shape, 1))
        layer = ph_attention(more, more, outcomes, beta=0.3, eta=0.5, state=state)[1]
        rule = learn(rules.pearce_hall, more, outcomes, beta=0.3, eta=0.5, state=state)[1]
        same(layer.memory, rule.memory), same(layer.associability, rule.associability)
        state = state._replace(associability=layer.associability)  # more batch than the memory


# ------------------------- every experiment at small sizes: its claims hold, and notice an error

SMALL = {  # sizes in the tests
    "equivalence": {"T": 7}, "blocking": {}, "competition": {"pairs": 20, "trials": 80},
    "recovery": {"cases": 40, "T": 8, "codes": 80}, "associability": {},
    "atlas": {"orders": 4, "layer_orders": 1, "sweep_orders": 1, "rates": (0.1, 0.3),
              "trials": (6,), "saliences": ((1, 1), (0.5, 1))},
    "capacity": {"dimensions": (16, 32), "replicates": 8, "items": 1500},
    "heads": {"H": (1, 4), "d_h": (8, 32), "replicates": 24, "sets": 48, "items": 1500, "draws": 6,
              "parts": ((16, 4, 64), (16, 16, 64), (16, 4, 64, True)), "cells": ((3, 4), (7, 8))},
    "depth": {"L": 8, "replicates": 4, "items": 2000, "stacks": 6,
              "settings": ((24, 24, 4, 30), (16, 16, 9, 15))},
    "drift": {"q": (1e-3,), "replicates": 32, "trials": 1000}, "lag": {"dimensions": (8,)},
    "unlearning": {"loads": [6], "overlaps": [0.5], "replicates": 5000, "sweeps": 15},
    "trained": {"models": 6, "sequences": 2, "steps": 2, "test_sequences": 24, "sets": 4}}


def run_small(name):
    """(What it returns, names of its claims that fail), trained layers set by hand."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(experiments, "training", lambda *_, **__: (hand_set(6), np.ones(1)))
        result = experiments.EXPERIMENTS[name](np.random.default_rng(1), np, **SMALL[name])
    return result, {row.claim.partition(":")[0] for row in result.claims if not row.holds}


small = functools.cache(run_small)

# What the small runs give: every claim's number, then the mean size of every array.
SMALL_NUMBERS = {name: [float(number) for number in numbers.split()] for name, numbers in (
    line.split(": ") for line in re.sub(r"\n +", " ", """
equivalence: 0 0 0 0 0 0 0.112144 0 0.262144 0 3 0.564489 0.907345
blocking: 0 0 0 0.23 0.0310246 0.0310246 10.5 0.351408 0.351408
competition: 0.110917 0 0 0 1.0038 0.25448 2.33333 0.104051
recovery: 0 0 0.00260069 0.0639693 0.546994 0 0.0232509 0.0326409 0.7718 5.44894 0.0412588
  0.0186306
associability: 0.107941 0 11 0.156055 20 0.152534
atlas: -0.308482 0.437259 -0.106079 -0.152894 -0.0703748 0 0 0.0457815 0 0 0 -0.442359 0.0316737
  0.184439 0.277236 0.384068 0 0.5 0 0.572895 0.595407 0.28803 0.295488 0.282785 0.760294 0.874265
  0.0191176 0
capacity: 1.1966 1.78163 1.00335 0.00171757 0.523435 1.01101 1.00435 1.00593 24 155344 9.75579e+08
  1.48408 181216 135.698 19.7071 137.792
heads: -0.997998 0.00685171 1.00389 4.58894 1.00068 3.51665 2.49335 0.104538 0.179605 0.187304
  -0.446027 2.39738 11.25 32 29.3333 0.626563 70.6667 5.5 22 68 0.0421836 1.51036 0.627475
  0.116852 0.315924 0.684516 0.157727
depth: 0.995951 0.864068 -0.0930556 0.0652778 0 1.21558 0.27755 0.81946 1.58504 32 17.25
  0.0224858 0.0939778 0.296267 645.732
drift: 1.97447 0.985529 -4.23161 0.951449 0.997872 0.98639 0.977148 0.0525067 4.94976 1.24051
  0.001 0.261725 0.289739 0.345293
lag: 1.01355 0.99735 0.995631 1.18229 -0.05206 1.01035 1.61732 0.0540961 1.66042 8 1.55 0.692595
unlearning: 0 0.989244 1.00979 -10.9579 16 6 0.114583 0.5 0.3125 0.114467 0.314336
trained: 1.08115 0.644237 1.80389 0 0.985256 0 -0.00021255 0.0728162 0.880882 0.375814 0.163252
  0.106258 0 9.75 1 0.368839 0.310702 0.7 0.531316 0.66457 0.148835 0.531316 0.148325 0.66457
""").strip().splitlines())}


@pytest.mark.parametrize("name", SMALL)
def test_small_experiments_hold_and_draw(name):
    """Positions that were not learned change nothing in trained layers: that claim must fail."""
    result, failing = small(name)
    assert failing == ({"positions lower blocking"} if name == "trained" else set())
    assert len({row.claim.partition(":")[0] for row in result.claims}) == len(result.claims)
    getattr(plots, name)(result.arrays, result.claims).draw_without_rendering()
    numbers = [row.measured for row in result.claims] + [
        np.mean(abs(array)) for array in result.arrays.values() if array.dtype.kind in "fib"]
    assert_allclose(numbers, SMALL_NUMBERS[name], rtol=3e-4, atol=1e-9)


def fixed(function, **values):
    """The function with parameters set to other values than those it is given."""
    return functools.wraps(function)(
        lambda *arrays, **parameters: function(*arrays, **parameters | values))


def other_rule(function):
    """The function with Hebb and Delta swapped."""
    return lambda *arrays, error_correcting=False, **rates: function(
        *arrays, error_correcting=1 - error_correcting, **rates)


def cells(text):
    """Rows of a table in a text, cells between " : "."""
    return [line.split(" : ") for line in text.splitlines()[1:]]


# Experiment (errors of one run are planted together), which name or entry of a table in its code is
# replaced, by what (`right` is what stood there), the claims that must fail.
PLANTED = cells("""
equivalence 1 : hebbian : fixed(right, decay=0.9) : linear attention; RetNet
equivalence 1 : conditioning_circuit : fixed(right, test_activation=abs) : circuit
equivalence 2 : rescorla_wagner : fixed(right, decay=0.9) : DeltaNet; other layers
equivalence 2 : ph_attention : fixed(right, associability=0.6) : PH-attention
equivalence 3 : stimulus_trace : fixed(right, trace=0.75) : RetNet; one pairing
equivalence 3 : kalman : fixed(right, drift=0.01) : other layers
equivalence 4 : retention : fixed(right, decay=0.75) : one pairing; DeltaNet
equivalence 5 : exemplar_responses : fixed(right, scale=3.1) : other layers
equivalence 5 : conditioning_circuit : lambda *tokens, **_: right(*tokens) : circuit controls
blocking : blocking_strength : fixed(right, m=21) : closed form; general formula
blocking : minibatch_blocking : fixed(right, batch_size=1) : mini-batches
competition 1 : COMPETING: blocking : right[::-1] : shared error
competition 1 : LEARNERS: RetNet : LEARNERS["Gated DeltaNet"] : contiguity
competition 1 : LEARNERS: Bush-Mosteller : LEARNERS["DeltaNet"] : own error
competition 1 : relative_validity : fixed(right, beta_omitted=0.9) : \
relative validity, unequal rates
competition 2 : rescorla_wagner : fixed(right, beta_omitted=0.1) : relative validity, equal rates
recovery 1 : retained_response : fixed(right, decay=0.8) : scalar rate and decay; condition
recovery 1 : recovery_peak : fixed(right, w_fast=-1e-3) : KDA, time of the peak
recovery 1 : design_arrays : lambda text: right(text, similarity={"AB": 0.5}) : PH-attention
recovery 2 : across : lambda keys, cue: right(keys, cue[:, :1]) : condition
recovery 2 : ph_attention : fixed(right, eta=0.0) : PH-attention, interference
recovery 3 : ph_attention : fixed(right, eta=0.0) : PH-attention, after extinction
associability 1 : RATES: Pearce-Hall : (right[0], {"beta": 0.25, "eta": 0}) : inconsistent history
associability 1 : RATES: Kalman, MesaNet : RATES["DeltaNet"] : exposure
associability 2 : RATES: DeltaNet : RATES["Pearce-Hall"] : blind to errors
associability 3 : RATES: token gates : RATES["Pearce-Hall"] : blind to errors
capacity : log_slope : lambda x, y: right(x, y) * np.log(2) : \
faithful slope; identification slope; worst case slope
capacity : worst_case_pairs : lambda d: np.sqrt(np.pi * d / 8) : worst case formula
capacity : least_squares_error : lambda n, d: 1.08 * right(n, d) : least squares
capacity : faithful_probability : fixed(right, tau=0.75) : success in theory
heads 1 : identification_failure : lambda n, d: np.minimum(n / d, 0.99) : \
bound by integral; exponential in d; steeper for d < n
heads 1 : vars(conditioning): shared_direction : lambda d_h, M: 1.0 : parts of shared keys
heads 1 : chain_failures : lambda *a: 2 * [right(*a)[0]] : any of four right
heads 2 : chain_failures : lambda *a: 8 * np.array(right(*a)) : bound by simulation
heads 2 : head_keys : lambda *a: right(*a)[:, :1] : number of heads; averaging is better
depth : chained_error : lambda r, L: L * r : chain with clean-up
depth : wide_and_deep : lambda *sizes: np.array(right(*sizes))[[0, 2, 1, 3]] : wide wins; deep wins
depth : rescorla_wagner : hebbian : Delta ten times
depth : oja : rescorla_wagner : Oja grows too
drift 1 : hebbian : fixed(right, decay=0.98) : Hebb grows
drift 1 : rescorla_wagner : hebbian : omission; Delta unlearns
drift 1 : random_walk_beta : fixed(right, s2=0.15) : best rate of Delta
drift 1 : tracking_errors : lambda *sizes: right(*sizes)[:, :, ::-1] : Delta tracks better
drift 2 : hebbian : rescorla_wagner : Hebb cannot unlearn
drift 2 : delta_tracking_error : fixed(right, s2=0.12) : steady drift
drift 3 : oja : oja_own_response : omission
drift 3 : hebbian_tracking_error : fixed(right, s2=0.0) : steady drift
drift 4 : oja_own_response : rescorla_wagner : omission
drift 5 : oja_1982 : oja_own_response : omission
drift 5 : oja : hebbian : Oja is bounded
lag 1 : lag_moments : lambda *a, **b: np.roll(right(*a, **b), 1, axis=1) : error by lag
lag 2 : lag_moments : lambda *a, **b: (right(*a, **b).T * [1, 1.08]).T : error by lag
lag 3 : lag_moments : lambda *a, **b: (right(*a, **b).T * [1.08, 1]).T : error by lag
lag 4 : lag_moments : lambda *a, **b: (right(*a, **b).T * [1, 3]).T : \
useful context is about d/beta with forgetting
lag 5 : lag_moments : other_rule(right) : error by lag; Delta forgets better than decay
lag 6 : attention : fixed(right, decay=0.9) : \
Hebb's context is limited; Delta's half-life is (d - 1/2) ln 2 tokens
lag 7 : attention : other_rule(right) : fidelity falls gracefully
unlearning 1 : unlearning_change : lambda n, d: 1.08 * right(n, d) : the others pay
unlearning 2 : unlearning_change : lambda n, d: right(n, d) - 1 / d : the others pay
unlearning 3 : unlearning_change : lambda n, d: right(n, d) - (n - 2) / d**2 : the others pay
unlearning 4 : unlearning_change : lambda n, d: right(n, d) - 3 / (d * (d + 2)) : the others pay
unlearning 5 : unlearned_error : lambda n, d: 1.08 * right(n, d) : the others pay
unlearning 6 : unlearned_error : lambda n, d: right(n, d) - (n - 2) / d : the others pay
unlearning 7 : unlearned_error : lambda n, d: right(n, d) + (n - 2) / d**2 : the others pay
unlearning 8 : unlearned_error : lambda n, d: right(n, d) - 3 / (d * (d + 2)) : the others pay
unlearning 9 : rescorla_wagner : fixed(right, beta=0.95) : \
the response is gone; similar items pay more
unlearning 9 : attention : fixed(right, beta=0.02) : rehearsal keeps the others
trained 1 : EFFECTS: blocking : ("6C+|6AB+|B?", "6A+|6AB+|B?", "6C+|6AB+|B?") : \
blocking; blocking formula
trained 2 : EFFECTS: blocking by one trial : ("2A+|6AB+|B?", *2 * ["2C+|6AB+|B?"]) : \
blocking formula
trained 3 : EFFECTS: overshadowing : ("6AB+|A?", *2 * ["6AC+|A?"]) : competition
trained 4 : EFFECTS: overexpectation : 3 * ["6A+/6B+|6CD+|A?"] : competition
trained 5 : EFFECTS: conditioned inhibition : ("6A+/6B-|B?", "6A+/6CB-|B?", "6A+/6CB-|A?") : \
competition
trained 6 : EFFECTS: extinction : ("12A+|A?", *2 * ["6A+|6C-|A?"]) : competition
trained 7 : LAYERS: RetNet : LAYERS["DeltaNet"] : contiguity
trained 8 : OFF : (0, 30, -30, 0, 4) : no recovery; rates without error
trained 9 : HAND: eta : (4, 2, 1e-9) : \
interference; latent inhibition; inconsistent outcomes; own history
trained 10 : HAND: exposure : (5, 4, 1e-9) : interference; latent inhibition; loss
trained 11 : HAND: first : (4, 3, 0.9) : loss
trained 12 : HISTORIES: half of the time : HISTORIES["always half"] : \
inconsistent outcomes; own history
trained 13 : HISTORIES: always half : ("6A+", "6A+", 0.5) : own history""")


@pytest.mark.parametrize("run, errors", [
    (run, [*rows]) for run, rows in itertools.groupby(PLANTED, operator.itemgetter(0))])
def test_planted_errors_fail_their_claims(monkeypatch, run, errors):
    expected = set()
    for _, place, error, claims in errors:
        table, _, key = place.rpartition(": ")
        names = globals() | vars(experiments) | NAMES
        table = eval(table, names) if table else vars(experiments)
        monkeypatch.setitem(table, key, eval(error, names | {"right": table[key]}))
        expected |= {*claims.split("; ")}
    assert expected <= run_small(run.split()[0])[1]


# ------------------------------------------------ equivalence to associability: closed forms


def test_a_claim_holds_where_its_whole_interval_does_and_t_is_student_s():
    for bound, holds in (({"above": 0.9}, True), ({"above": 1}, False), ({"below": 3}, False)):
        assert experiments.claim("a: b", "P1", 2, interval=(1, 3), **bound).holds is holds
    row = experiments.ratio_claim("a: b", "P1", np.arange(20.0).reshape(10, 2), 10, tolerance=1)
    t = 2.685010847  # two cells at once: P(T > t) = .0125, 9 degrees of freedom
    half = t * np.std(np.arange(0, 2, 0.2), ddof=1) / 10**0.5
    assert_allclose(row.interval, [0.9 - half, 0.9 + half], rtol=1e-8)


@pytest.mark.parametrize("beta", [0.05, 0.3, 1.0])
def test_strengths_in_closed_form_against_simulation(beta):
    n, options = np.array([1, 5, 20]), {"saliences": {"A": 0.5, "X": 0.25}, "cues": "AX"}
    alphas = np.array([0.5, 0.25])
    acquired, both = (conditioning.acquisition_strength(alpha=alpha, beta=beta, n=trials)
                      for alpha, trials in ((0.5, n), (alphas, 9)))
    A, X = conditioning.compound_strength(alphas=alphas, beta=beta, n=n, V_0=both).T
    extinguished = conditioning.extinction_strength(V_0=acquired[1], alpha=0.5, beta=beta, n=n)
    for text, closed in (("{}A+ | A?", acquired), ("5A+ | {}A- | A?", extinguished),
                         ("9A+/9X+ | {}AX+ | A?", A), ("9A+/9X+ | {}AX+ | X?", X)):
        found = [responses(rules.rescorla_wagner, design_arrays(text.format(trials), **options),
                           beta=beta)[0, 0] for trials in n]
        same(found, closed)


def test_blocking_index_of_similar_cues_and_of_compounds_of_length_1():
    """As the docstring of `blocking_strength` says."""
    a, b = np.eye(2)
    for x, scale, index in ((0.75**0.5 * b - a / 2, 1, 1.4996010386685),
                            (b, 2**-0.5, (1 - 0.7**20) / 2**0.5)):
        blocked, control = conditioning.blocking_strength(
            a=a, c=scale * (a + x), x=x, beta=0.3, m=np.array([20, 0]), n=20)
        assert 1 - blocked / control == pytest.approx(index)


def test_equilibria_of_partial_reinforcement_contingency_and_relative_validity():
    def resting(text, omitted=1):
        cues, outcomes, _ = design_arrays(text)
        weight = np.sqrt(np.where(outcomes == 0, omitted, 1))  # unequal rates weigh the trials
        return conditioning.equilibrium_strength(weight * cues, weight * outcomes)[:, 0]
    contingent = conditioning.contingency_strength(p_cue=0.5, p_no_cue=0.25, lam=2)
    for text, expected in (
            ("1A+/3A-", [0.25]), ("A+/AB-", [1, -1]), ("2AX+/2BX-", [2 / 3, -1 / 3, 1 / 3]),
            ("2AK+/2AK-/1K+/3K-", [contingent / 2, 0.25])):
        same(resting(text), expected)
    for omitted in (1, 1 / 2, 1 / 4):
        true, pseudo = (resting(text, omitted)[2] for text in ("2AX+/2BX-", "AX+/BX+/AX-/BX-"))
        same(conditioning.relative_validity(beta=1, beta_omitted=omitted, lam=2),
             2 * (true - pseudo))


def test_the_peak_of_a_recovery_is_where_the_response_is_largest():
    t, setting = np.linspace(0, 60, 600_001), {"slow": 0.99, "fast": 0.7, "w_slow": 0.4}
    peaks = conditioning.recovery_peak(**setting, w_fast=np.array([-0.3, -0.001]))
    expected = t[np.argmax(0.4 * 0.99**t - 0.3 * 0.7**t)], 0  # the second falls from the start
    assert_allclose(peaks, expected, rtol=0, atol=1e-3)


def test_mini_batches_lie_between_rescorla_wagner_and_hebb():
    cues, outcomes, _ = design_arrays("8A+ | 8AX+")
    for batch_size, rule in ((1, rules.rescorla_wagner), (16, rules.hebbian)):
        memory = experiments.minibatch_memory(cues, rate=np.full((1, 1), 0.1),
                                              batch_size=batch_size)
        same(memory, learn(rule, cues, outcomes, beta=0.1)[1])


def test_numbers_of_kda_gla_and_the_hybrid():
    """Computed once by other code: peaks, responses and first-trial rates."""
    def response(outcomes, *options):
        return experiments.two_timescales(np, np.array([0.998, 0.8]), [1.0] * 20 + outcomes,
                                          *options).sum(-1)
    peaks = [np.argmax(response([0.0] * 20, beta)) for beta in (0.1, 0.3, 1.0)]
    assert peaks == [15, 19, 21]
    gla = response([-1.0] * 5, 0.1, rules.hebbian)
    assert_allclose([gla[0], gla.max()], [0.635, 0.699], rtol=0, atol=5e-4)
    rates = experiments.first_trial_rates(np, np.array([[1.0, 0.0] * 10, [0.5] * 20]))
    same(rates, [[0.13305904691629167, 0.02479423595997429], [0.25] * 2, [0.25] * 2,
                 [1 / 22] * 2])


# -------------------------------------------------------------------------------------- designs


READ = """
 10A+/10AB- | 5 B++ | _   : 10A+/10AB- | 5B++ | 1_
20A+50% | AB? : 10A+/10A- | 1AB?
20A+0% : 20A-
20A+100% : 20A+
 | 10NL+ | L? : | 10NL+ | 1L?
A\u2212 | | : 1A- | |
2AB > _ > C+/A>A\u2013 : 2AB>_>C+/1A>A-"""
ORDERS = "alternate", "random", "mirrored", "reversed"
MALFORMED = """
A+/ : '' in phase 1: a trial stands on both sides
A+/|B? : '' in phase 1: a trial stands on both sides
10a+ : one capital letter
A+ | A+x : 'A+x' in phase 2: a cue is one capital letter
A+ B+ : between two trials stands / or |
A++A : between two trials
A+++ : such as 10AB+, A-, B? or 20_, got
3B-|AA+ : 'AA+' in phase 2: a cue occurs once in a compound
AB>BB+ : once in a compound
10 : such as
A>+ : such as
A>>B+ : such as
>A+ : such as
3B-|0A+ : occurs 1 to 999999 times
1234567890A+ : occurs 1 to 999999 times
10A+33% : whole number of the trials
10A-50% : goes with + or ++
10A+200% : a percentage, 0 to 100
20+ | A? : a US alone needs the context
10A | B? : ends with its outcome
10A(US) : the US is written +
#10A+/10B- : a random order is an option
10A+! : a random order is an option
10A+,10B+ : separated by /"""


@pytest.mark.parametrize("text, phases", cells(READ))
def test_a_design_is_read_as_it_is_written(text, phases):
    design = parse_design(text)
    assert design.text == text and design.cues == tuple(sorted({*text} & {*"ABCLN"}))
    assert "|".join("/".join(f"{trial.count}{trial}" for trial in phase)
                    for phase in design.phases) == phases.replace(" ", "")


@pytest.mark.parametrize("text, expected", [
    *cells(MALFORMED), ("", "must have a trial"), (" | ", "must have a trial"),
    (" " * 10**5 + "A", "'A' in phase 1"), ("A>" * 10**5, "such as"), ("A" * 10**5, "once")])
def test_a_malformed_design_is_an_error_in_one_line_that_shows_the_place(text, expected):
    with pytest.raises(ValueError, match=re.escape(expected)) as error:
        parse_design(text)
    assert len(str(error.value)) < 240 and "\n" not in str(error.value)


def test_designs_become_arrays():
    cues, outcomes, test = design_arrays("2A+/4B- | 2_ | AB++ | A?", us=(1.0, 3.0))
    A, B, none = [1, 0], [0, 1], [0, 0]
    assert cues.tolist() == [B, A, B, B, A, B, none, none, [1, 1], A]  # spread evenly
    assert outcomes[:, 0].tolist() == [0, 1, 0, 0, 1, 0, 0, 0, 3, 0]
    assert test.tolist() == [False] * 9 + [True]
    assert design_arrays("A+ | AB+", saliences={"A": 0.25}).cues.tolist() == [[0.5, 0], [0.5, 1]]
    similar = design_arrays("A+ | B+", similarity={"BA": 0.6}, saliences={"B": 0.25}).cues
    same(similar @ similar.T, [[1, 0.3], [0.3, 0.25]])
    unit = design_arrays("A+ | AB+ | _", compound="normalised", saliences={"A": 0.25}).cues
    same(unit, [A, [0.2**0.5, 0.8**0.5], none])


def test_random_orders_are_seeded_and_pairs_are_mirrored_or_reversed():
    def outcomes(order, text="6A+/6A- | 4B+/4C-"):
        return design_arrays(text, order=order, orders=5, seed=3).outcomes[..., 0]
    random, mirrored, backwards = map(outcomes, ORDERS[1:])
    assert len({*map(bytes, random)}) == 5 and random[:, :12].sum(-1).tolist() == [6] * 5
    assert (mirrored[:, 0] == random).all() and (backwards[:, 0] == random).all()
    assert (mirrored[:, 1] == 1 - random).all()
    assert (backwards[:, 1] == np.hstack([random[:, 11::-1], random[:, :11:-1]])).all()
    unmixed = outcomes("mirrored", text="3A+/3_/A? | 2B-")
    assert (unmixed[:, 0] == unmixed[:, 1]).all()


@pytest.mark.parametrize("order", ORDERS)
def test_the_nth_test_is_the_same_in_every_order(order):
    cues, _, test = design_arrays("4A+/2B?/4AB-/2C? | A?/B?", order=order, orders=6)
    asked = cues[test].reshape(-1, 6, 3)
    assert (asked == np.eye(3)[[1, 2, 1, 2, 0, 1]]).all()
    assert len({*map(bytes, test.reshape(len(asked), -1))}) > 1 or order == "alternate"


@pytest.mark.parametrize("options, message", cells("""
order="shuffled" : order must be
compound="product" : compound must be sum or normalised
cues="AC" : contain the design's
cues="AAB" : cues must be at least one, distinct
saliences={"AB": 1} : must name cues
saliences={"A": 0} : above 0
saliences={"A": np.nan} : above 0
saliences={"A": np.inf} : finite
saliences=[1.0] : must be numbers by name
similarity=0.5 : must be numbers by name
saliences={"A": "1"} : saliences must be a plain array of real numbers
similarity={"AB": None} : similarity must be a plain array of real numbers
similarity={"A": 0.5} : pairs of
similarity={"AA": -0.5} : pairs of
similarity={"AB": np.nan} : between -1 and 1
similarity={"AB": 1.0} : independent
similarity={"AB": 0.9, "BC": 0.9, "AC": -0.9}, cues="ABC" : independent
similarity={"AB": -1.5} : between -1 and 1
us=(1.0,) : us must be two
us=(1.0, np.nan) : us must be two
order="random", orders=0 : orders must be at
orders=2.5 : orders must be at
seed=-1 : seed at least 0
steps=1 : steps must be at least 2"""))
def test_bad_design_options_say_what_is_allowed(options, message):
    with pytest.raises((TypeError, ValueError), match=message):
        design_arrays("A+/2B-", **eval(f"dict({options})", {"np": np}))


def test_groups_share_cues_and_counts_are_scaled():
    groups = conditioning.group_arrays(["2A+ | A?", "AX+ | _ | X?"], us=(0.5, 1.0))
    assert groups.cues.tolist() == [[[1, 0]] * 3, [[1, 1], [0, 0], [0, 1]]]
    assert groups.outcomes[..., 0].tolist() == [[0.5, 0.5, 0], [0.5, 0, 0]]
    with pytest.raises(ValueError, match=r"same number of trials .*, got \[2, 1\]"):
        conditioning.group_arrays(["2A+", "A+"])
    scaled = conditioning.scaled_design(parse_design("4A+/3B- | A+ | 2_ | A?"), 0.25)
    assert [trial.count for phase in scaled.phases for trial in phase] == [1] * 5
    assert conditioning.scaled_design(scaled, 4) == scaled  # single trials stay single


def test_a_serial_compound_is_one_trial_or_several_steps():
    design = parse_design("2AB > _ > C+ | A?")
    assert design.steps == 4
    assert design_arrays(design).cues.sum(-1).tolist() == [3, 3, 1]
    cues, outcomes, test = design_arrays(design, steps=5)
    assert cues.sum(-1).tolist() == [2, 0, 1, 0, 0] * 2 + [1, 0, 0, 0, 0]
    assert outcomes[:, 0].tolist() == [0, 0, 0, 1, 0] * 2 + [0] * 5
    assert test.tolist() == [False] * 10 + [True] * 5
    assert conditioning.trial_trace(0.5, np.ones((2, 6)), 3).tolist() == [[0.5, 0.5, 0] * 2] * 2


def test_a_rule_a_layer_and_a_function_answer_a_design():
    text, beta = "10A+ | 10AB+ | B?/AB? | 2_ | B?", 0.2
    first = responses(rules.rescorla_wagner, text, beta=beta)
    same(first[[0, 2], 0], 0.5 * 0.8**10 * (1 - 0.6**10))
    for learner in rules.rescorla_wagner, conditioning.deltanet:
        same(responses(functools.partial(learner, beta=beta), parse_design(text)), first)

    def own(cues, outcomes, test, *, size):
        return size * cues[:, :1] + test[:, None]
    assert responses(own, design_arrays(text), size=2).tolist() == [[1], [3], [1]]
    assert responses(rules.hebbian, "A+", beta=1).shape == (0, 1)


def test_responses_of_groups_are_asked_at_their_own_places():
    texts = "2A+ | 4AX+/X? | X?", "4AX+/X? | 2A- | X?"
    groups = conditioning.group_arrays(texts)
    same(responses(rules.rescorla_wagner, groups, beta=0.1),
         [responses(rules.rescorla_wagner, text, beta=0.1) for text in texts])
    groups.test[0, -1] = False
    with pytest.raises(ValueError, match="different numbers of tests"):
        responses(rules.rescorla_wagner, groups, beta=0.1)


def test_temporal_difference_declines_with_the_gap():
    """An independent simulator's strengths at lambda .9; the closed form of the first step."""
    gaps = np.array([0, 2, 4, 8])
    found = [responses(rules.temporal_difference, f"26A{'>_' * gap}+ | A?", beta=0.1, trace=0.9,
                       discount=0.98).item() for gap in gaps]
    same(found, (1 - 0.9**26) * (0.98 * 0.9) ** gaps)
    assert_allclose(found, [0.935, 0.728, 0.566, 0.343], rtol=0, atol=6e-4)


def test_every_step_of_a_serial_test_is_answered():
    """B before a trained A gains beta gamma V(A), and loses the part that its trace keeps."""
    found = responses(rules.temporal_difference, "9A+ | B>A- | B>A?/A?", beta=0.1, trace=0.5,
                      discount=0.98)
    V_A = 1 - 0.9**9
    same(found[:, 0], [0.1 * 0.98 * V_A * (1 - 0.5), 0.9 * V_A, 0.9 * V_A])
    text = "6A+/6AB- | 4BC+ | A?/B?"
    same(responses(rules.temporal_difference, text, beta=0.2, trace=0.9),
         responses(rules.rescorla_wagner, text, beta=0.2))


# --------------------------------------------------------------------------------------- the atlas

# What animals do. What a table drawn up from other programs (calmr, PALMS, pyndl, catlearn, KTD,
# and plain loops) says of the columns of `REFERENCE`: + shows it, ~ partly, - not (no effect or the
# opposite). The sign of the effect in each column: = no effect, n not applicable, ~ near the
# threshold, where another seed may decide otherwise.
ATLAS = {name: row for name, *row in cells("""
acquisition slows down : < : -++~++ : =<<<<<<<<<<<<<<<<
extinction : < : -+++++ : ==<<<<<<<<<<<<<<<
partial reinforcement extinction : > : ------ : ======>====<>>===
second-order conditioning : > : -----+ : ==<<<<<<=<<<===>>
sensory preconditioning : > : ------ : =======<=<=======
trace conditioning : < : -----+ : nnnnnnnnnnnnnnn<<
blocking : < : -+++++ : ==<<<<<<=<<<<<=<<
unblocking by a larger US : > : ~+++++ : nn>>>>>>n>>>>>n>>
unblocking by a smaller US : > : --+--- : nn<<<<<<n<<<>>n<<
overshadowing : < : -+~+++ : ==<<<<<<=<<<<<=<<
one-trial overshadowing : < : ----+- : =======<=<=======
overexpectation : < : -+-+++ : >><<><<<=<<<==~<<
relative validity : < : --++-- : ===<==<====<<~===
zero contingency : < : -+-+++ : =~<<<<<<~<<<~~~<<
redundancy effect : > : --+--- : =~<<<<~<><<<>>><<
inhibitor gains more than excitor : > : --++-- : ====~====~=>>>>==
conditioned inhibition: summation : < : -+-+++ : ==<<<<<<><<<===<<
conditioned inhibition: retardation : < : -+-+++ : ==<<<<<<><<<>>=<<
negative contingency inhibits : < : -+--++ : >><<~<<<<<<~>>><<
inhibitor alone keeps inhibition : < : ---+-- : nn>>>>>>n><<nnn><
novel cue with inhibitor is neutral : = : +-++-- : nn>>>>>>n>==nnn>=
protection from extinction : > : -+-+++ : ==>>>>>==>>>===>>
superconditioning : > : -+-+++ : ==>>>>>>=>>><<=>>
latent inhibition : < : ---++- : ======<<<<=<=<===
Hall-Pearce negative transfer : < : ---++- : >>>>>><<<<><>>>>>
US pre-exposure : < : -+++++ : ==<<<<<<><<<<<=<<
uncorrelated CS and US, against CS alone : < : ---~+- : >><<<<<<><<<>>><<
uncorrelated CS and US, against US alone : < : ---~+- : >>>>>>><<<>>>>>>>
backward blocking : < : ----+- : =======<=<=======
recovery from overshadowing : > : ----+- : =======><>=======
feature-positive discrimination : > : -++~++ : ==>>>>>>>>>>>>>>>
feature-negative discrimination : < : -+-+++ : ==<<<<<<<<<<===<<
negative patterning : > : ------ : <<<<<<<<><<<<<<<<
negative patterning, unique cue : > : -+-+++ : <<>>>>>>>>>><<<>>
external inhibition: a cue is added : < : ------ : ========<========
generalisation decrement: a cue is removed : < : ~~~~~~ : <<<<<<<<<<<<<<<<<
spontaneous recovery : > : ------ : nn==~>===========
rapid reacquisition : > : +----- : nn====<<<<=<<<===
ABA renewal : > : ~~~~~~ : nn>>>>>>>>>>>>>>>
reinstatement : > : -~~~~~ : nn>>>>>~>>>>>>>>>""")}
REFERENCE = ("linear attention", "DeltaNet", "Mackintosh, linear form 2016",
             "Pearce-Kaye-Hall 1982", "Kalman, drift", "TD(lambda)")
DIFFERENT = {
    # The table asks for less than both controls; US pre-exposure alone beats it here too.
    ("uncorrelated CS and US, against CS alone", "DeltaNet"),
    ("uncorrelated CS and US, against CS alone", "TD(lambda)"),
    # The table compares the level after extinction, here it is the share of the level before.
    ("partial reinforcement extinction", "Mackintosh, linear form 2016"),
    # Not asked here: the finding without its cause, with no inhibitor, with nothing extinguished.
    ("novel cue with inhibitor is neutral", "linear attention"),
    ("novel cue with inhibitor is neutral", "Mackintosh, linear form 2016"),
    ("rapid reacquisition", "linear attention")}

# Strengths from the same table, trials alternating: experimental and control group.
ATLAS_REFERENCE_NUMBERS = [
    ("blocking", "linear attention", 2.0, 2.0), ("blocking", "DeltaNet", 0.007, 0.500),
    ("blocking", "Mackintosh, linear form 2016", 0.609, 0.985),
    ("blocking", "Pearce-Kaye-Hall 1982", 0.0, 0.519), ("blocking", "Kalman, drift", 0.003, 0.500),
    ("unblocking by a larger US", "DeltaNet", 0.507, 0.007),
    ("unblocking by a smaller US", "DeltaNet", -0.485, 0.007),
    ("unblocking by a smaller US", "Mackintosh, linear form 2016", 0.735, 0.609),
    ("unblocking by a smaller US", "Kalman, drift", -0.890, 0.003),
    ("overshadowing", "DeltaNet", 0.494, 0.878),
    ("overshadowing", "Mackintosh, linear form 2016", 0.878, 0.977),
    ("one-trial overshadowing", "DeltaNet", 0.100, 0.100),
    ("overexpectation", "linear attention", 4.0, 2.0),
    ("overexpectation", "DeltaNet", 0.500, 0.985),
    ("superconditioning", "DeltaNet", 0.940, 0.494),
    ("latent inhibition", "Kalman, drift", 0.632, 0.945),
    ("negative patterning", "DeltaNet", 0.286, 0.571),
    ("rapid reacquisition", "DeltaNet", 0.4095, 0.4095),
    ("rapid reacquisition", "Pearce-Kaye-Hall 1982", 0.263, 0.418)]

# Effects in all columns, trials alternating.
ATLAS_EFFECTS = {
    "extinction": [0, 0, -.772, -.564, -.457, -.381, -.455, -.465, -.5, -.845, -.772, -.479, -.652,
                   -.620, -.772, -.772, -.772],
    "latent inhibition": [0, 0, 0, 0, 0, 0, -.153, -.713, -.8, -.312, 0, -.265, 0, -.508, 0, 0, 0],
    "Hall-Pearce negative transfer": [.825, .408, .133, .133, .1, .136, -.07, -.549, -.562, -.327,
                                      .133, -.087, .292, .304, .133, .133, .133],
    "inhibitor alone keeps inhibition": [0, 0, .437, .302, .096, .192, .08, .058, -.009, .486,
                                         -.451, -.362, 0, 0, 0, .437, -.451],
    "trace conditioning": [0] * 15 + [-.376, -.376],
    "spontaneous recovery": [0, -.184, 0, 0, -.021, .046] + [0] * 11}


def phenomenon(name, **changes):
    entry = next(entry for entry in conditioning.PHENOMENA if entry.name == name)
    return entry._replace(**changes)


def column(label, **changes):
    found = experiments.COLUMNS[experiments.EVERY.index(label)]
    return found._replace(fixed=found.fixed | changes)


def effects(entry, columns=experiments.COLUMNS, **options):
    """Effect of a phenomenon in each of the columns, mean over orders."""
    return np.array([experiments.cell_numbers(groups)[2] for groups in
                     experiments.row_responses(entry, columns, np, **options)])


def test_every_cell_of_the_atlas_is_the_expected_one():
    atlas, _ = small("atlas")
    effect, low, high = (atlas.arrays[name] for name in experiments.NUMBERS[2:])
    verdict, expected = atlas.arrays["verdict"], np.array([[*row[2]] for row in ATLAS.values()])
    sure = expected != "~"
    found = np.where((abs(effect) < 0.02) | (low * high <= 0), "=", np.where(effect > 0, ">", "<"))
    found[verdict == 2] = "n"
    assert_array_equal(found[sure], expected[sure])
    assert_array_equal(atlas.arrays["near"], (verdict != 2) & (0.02 / 1.5 < abs(effect))
                       & (abs(effect) < 0.03))
    assert list(ATLAS) == atlas.arrays["name"].tolist()
    # At noise 9 and 7/3, saliences s 1 and .5: s / (s + noise) - s / (s + 1 + noise), small at 9.
    assert atlas.arrays["share"][list(ATLAS).index("one-trial overshadowing"), 7] == 0.5
    for entry, row in zip(conditioning.PHENOMENA, ATLAS.values(), strict=True):
        assert row[0] == "<=>"[entry.finding + 1]
        assert {*row[2]} & {"<", ">"}  # else groups that change places went unnoticed


def test_atlas_agrees_with_the_reference_table_but_for_stated_reasons():
    shows = small("atlas")[0].arrays["verdict"] == 1
    places = [experiments.EVERY.index(label) for label in REFERENCE]
    other = {(name, REFERENCE[i]) for row, (name, (_, marks, signs)) in enumerate(ATLAS.items())
             for i, place in enumerate(places)
             if "~" not in (marks[i], signs[place]) and shows[row, place] != (marks[i] == "+")}
    assert other == DIFFERENT


@pytest.mark.parametrize("name, label, experimental, control", ATLAS_REFERENCE_NUMBERS)
def test_atlas_reproduces_the_strengths_of_other_programs(name, label, experimental, control):
    entry = phenomenon(name, order="alternate")
    groups, = experiments.row_responses(entry, [column(label)], np)
    found = experiments.cell_numbers(groups)[:2]
    assert_allclose(found, [experimental, control], rtol=0, atol=6e-4)


def test_effects_of_all_columns():
    for name, expected in ATLAS_EFFECTS.items():
        found = effects(phenomenon(name, order="alternate"))
        assert_allclose(found, expected, rtol=0, atol=6e-4, err_msg=name)


@pytest.mark.parametrize("label, name", [
    (label, name) for label, entry in zip(experiments.EVERY, experiments.COLUMNS, strict=True)
    for name in entry.parameters(0.3)])
def test_the_pinned_effects_depend_on_each_parameter(label, name):
    stated = column(label)
    changed = column(label, **{name: stated.parameters(stated.rate)[name] / 2 or -1.0})
    assert any(abs(np.diff(effects(phenomenon(row, order="alternate"), [stated, changed]))) > 2e-3
               for row in ATLAS_EFFECTS)


def test_orders_come_from_the_seed_and_do_not_depend_on_their_number():
    def responses(seed, orders):
        groups, = experiments.row_responses(phenomenon("zero contingency"), [column("DeltaNet")],
                                            np, seed=seed, orders=orders)
        return groups[0][0, 0]
    assert_array_equal(responses(3, 5)[:2], responses(3, 2))
    assert np.min(abs(responses(3, 2) - responses(4, 2))) > 1e-6


def test_rates_trials_and_saliences_of_the_sweep_follow_the_closed_form():
    """X of salience s learns s/(s+t) [1 - (1-(s+t) beta)^n] beside A of salience t."""
    groups, = experiments.row_responses(
        phenomenon("overshadowing"), [column("DeltaNet")], np, rates=(0.1, 0.3), trials=7,
        saliences=((1, 1), (0.25, 1), (1, 0.5)))
    beta, s, t = np.array([0.1, 0.3])[:, None], np.array([1, 0.25, 1]), np.array([1, 1, 0.5])
    expected = s / (s + t) * (1 - (1 - (s + t) * beta)**7), 1 - (1 - s * beta)**7
    assert_allclose(np.array(groups)[..., 0, 0], expected, rtol=0, atol=1e-12)


def test_verdicts_by_hand(monkeypatch):
    entries = [phenomenon("extinction"), phenomenon("spontaneous recovery"),
               phenomenon("novel cue with inhibitor is neutral", needs="")]
    monkeypatch.setattr(experiments, "PHENOMENA", entries)
    monkeypatch.setattr(experiments, "COLUMNS", experiments.COLUMNS[:5])
    effect = np.array([[-0.03, -0.019, -0.03, 0.5, -0.5], [0.03] * 5, [0, 0.01, 0.03, -0.03, 0.03]])
    low = effect - 0.001
    low[0, 2], low[2, 4] = -0.07, -0.01
    high = 2 * effect - low
    assert_array_equal(experiments.verdicts(effect, low, high, 0.02),
                       [[1, 0, 0, -1, 1], [1, 2, 2, 2, 1], [1, 1, -1, -1, 1]])


def swapped(name):
    entry = phenomenon(name)
    return entry._replace(comparison="  ".join(entry.comparison.split("  ")[::-1]))


# Claim, row and column of a cell, what stands in the place of the row or of the column.
@pytest.mark.parametrize("name, row, label, change", cells("""
conditioned inhibition : conditioned inhibition: retardation : DeltaNet : swapped(row)
superconditioning : superconditioning : DeltaNet : swapped(row)
relative validity : relative validity : DeltaNet, beta by token : column("DeltaNet")
latent inhibition : latent inhibition : PH-attention : column(label, eta=0.0)
Hall-Pearce transfer : Hall-Pearce negative transfer : PH-attention : column(label, eta=0.0)
delta layers show neither : latent inhibition : KDA : column("PH-attention")
no spontaneous recovery : spontaneous recovery : DeltaNet : \
phenomenon(row, comparison="20A+ | 10A- | 30_ | A?  >  20_ | 20A+ | 20A- | A?")
spontaneous recovery : spontaneous recovery : KDA : column("Gated DeltaNet")
revaluation of an absent cue : backward blocking : MesaNet : swapped(row)
revaluation of an absent cue : recovery from overshadowing : MesaNet : column(label, noise=1.01)
no revaluation of an absent cue : backward blocking : DeltaNet : column("MesaNet")
drift adds to the variance : one-trial overshadowing : Kalman, drift : column(label, drift=0.0)
an inhibitor alone keeps its inhibition : inhibitor alone keeps inhibition : RW, floor 0 : \
column("DeltaNet")
second-order conditioning : second-order conditioning : TD(lambda) : swapped(row)
second-order conditioning : second-order conditioning : Bush-Mosteller : column("TD(lambda)")
inhibitors gain more than excitors : inhibitor gains more than excitor : \
Bush-Mosteller : column("DeltaNet")
inhibitors gain more than excitors : inhibitor gains more than excitor : \
MesaNet : column("Pearce-Kaye-Hall 1982")
redundancy effect : redundancy effect : Bush-Mosteller : column("DeltaNet")
negative patterning : negative patterning : softmax, unit keys : column(label, scale=0.0)
findings shown : blocking : DeltaNet : swapped(row)
findings shown : overexpectation : MesaNet : phenomenon(row, comparison="A+ | X?  >  A+ | X?")
renewal is the strength of the contexts : ABA renewal : DeltaNet : \
phenomenon(row, saliences={})"""))
def test_an_error_in_the_atlas_fails_its_claim(name, row, label, change):
    arrays = mapped(np.copy, small("atlas")[0].arrays)
    found = eval(change, globals() | {"row": row, "label": label})
    entry, learner = ((found, column(label)) if isinstance(found, conditioning.Phenomenon)
                      else (phenomenon(row), found))
    groups, = experiments.row_responses(entry, [learner], np, orders=6)
    for key, number in zip(experiments.NUMBERS, experiments.cell_numbers(groups), strict=True):
        arrays[key][list(ATLAS).index(row), experiments.EVERY.index(label)] = number
    arrays["verdict"] = experiments.verdicts(
        *(arrays[key] for key in experiments.NUMBERS[2:]), 0.02)
    assert name in [row.claim.partition(":")[0] for row in experiments.atlas_claims(arrays)
                    if not row.holds]


def test_layers_that_differ_from_their_rules_fail_the_claim(monkeypatch):
    layers, claims = list(experiments.IN_LAYERS), experiments.atlas_claims
    layers[2] = layers[2]._replace(learner=conditioning.linear_attention)
    layers[8] = layers[8]._replace(fixed={"scale": 1.0})
    for name, value in (("IN_LAYERS", layers), ("PHENOMENA", [phenomenon("negative patterning")]),
                        ("atlas_claims", lambda _: [])):
        monkeypatch.setattr(experiments, name, value)
    found = run_small("atlas")[0].arrays["layer_difference"]
    assert np.flatnonzero(found[0] > 1e-12).tolist() == [2, 8]
    monkeypatch.undo()
    arrays = small("atlas")[0].arrays
    assert not claims(arrays | {"layer_difference": found})[-1].holds


def test_pearce_and_hall_1980_unblock_by_a_smaller_us():
    """Their excitation, dV = S alpha lambda, with the hybrid's associability at eta 1."""
    def excitation(state, cue, outcome, *, beta):
        moved = rules.pearce_hall(state, cue, outcome, beta=0, eta=1)
        return moved._replace(memory=state.memory + beta * state.associability * cue * outcome)
    excitation.start = rules.pearce_hall.start
    found = [responses(excitation, f"40A{us} | 8AX+ | X?", beta=0.05).item() for us in ("++", "+")]
    assert_allclose(found, [0.399, 0.068], rtol=0, atol=6e-4)


def test_second_order_conditioning_with_b_alone_in_the_control():
    """TD passes there too; so do exemplars, because the control's B- is nearer to the test."""
    plain = phenomenon("second-order conditioning",
                       comparison="40A+ | 5B>A-/5_ | B?  >  40A+ | 5B-/5A- | B?")
    time, exemplars = effects(plain, [column("TD(lambda)"), column("softmax, unit keys")], orders=6)
    assert time > 0.02 and exemplars > 0.1


def test_empty_trials_are_no_exemplars_and_order_does_not_matter():
    arrays = conditioning.design_arrays("20_ | A+/2B- | AB?", order="random", orders=3,
                                        compound="normalised")
    for learner in (experiments.exemplar_model, experiments.softmax_layer):
        found = conditioning.responses(learner, arrays, scale=4.0)
        assert_allclose(found, np.full((3, 1, 1), 1 / 3), rtol=0, atol=1e-12)


def test_partial_reinforcement_leaves_a_lower_level_in_every_rule():
    entry = phenomenon("partial reinforcement extinction",
                       comparison="40A+50% | 10A- | A?  >  40A+ | 10A- | A?")
    assert np.max(effects(entry, orders=6)) < 1e-12


def test_phenomena_are_matched_named_grouped_and_sourced():
    seen = {"", conditioning.TIME_STEPS}
    groups = [name for name, _ in itertools.groupby(conditioning.PHENOMENA, lambda e: e.group)]
    assert all(groups) and len(groups) == len({*groups}) == 7
    for entry in conditioning.PHENOMENA:
        assert entry.needs in seen and entry.name not in seen, entry.name
        seen.add(entry.name)
        assert re.search(r"\b(19|20)\d\d[ab]?\b", entry.source) and entry.species
        for factor in (1, 0.3, 0.6):
            first, second = ([sum(trial.count for trial in phase) for phase in
                              conditioning.scaled_design(design, factor).phases]
                             for design in conditioning.compared_designs(entry))
            assert first == second, entry.name


@pytest.mark.parametrize("name, text", cells("""
overshadowing : X: AX+  <  X+
blocking : X: A+ | AX+  <  _ | AX+
conditioned inhibition: summation : A+/AX-/N- | B+: BX  <  BN
zero contingency : A: KA+50%/K+50%  <  KA+50%/K-
acquisition slows down : A: A+ | A+  < twice  _ | A+
partial reinforcement extinction : A: A+50% | A? | A-  >  A+ | A? | A-"""))
def test_contrasts_in_the_notation(name, text):
    assert conditioning.contrast_text(phenomenon(name)) == text


def test_csv_of_the_atlas_says_what_the_arrays_say():
    atlas, _ = small("atlas")
    rows = csv.DictReader(io.StringIO(atlas.files["phenomena.csv"]))
    found = [(row["name"], row["answer"], float(row["effect"])) for row in rows]
    assert found == [
        (name, experiments.ANSWERS[verdict], effect)
        for name, *cells in zip(ATLAS, atlas.arrays["verdict"], atlas.arrays["effect"], strict=True)
        for verdict, effect in zip(*cells, strict=True)]


# ------------------------------------------------------------------------ capacity, heads and depth

@pytest.mark.parametrize("d", [4, 20, 10**6])
def test_quadratures_have_the_moments_of_random_unit_vectors(d):
    angle, weights = conditioning.sphere_angle(d, 2000)
    moments = [weights @ (d**0.5 * np.sin(angle)) ** power for power in (1, 2, 4)]
    assert_allclose(moments, [0, 1, 3 * d / (d + 2)], rtol=1e-5, atol=1e-9)
    for m in (2, 30):
        r, weights = conditioning.interference_length(m, d, 4000)
        assert weights @ r**2 == pytest.approx(m / d, rel=2e-3)
        assert weights @ r**4 == pytest.approx(
            (m * m + 2 * m * (d - 1) / (d + 2) + 2 * m * (m - 1) / d) / d**2, rel=2e-3)


@pytest.mark.parametrize(("n", "d"), [(3, 4), (4, 16), (12, 16), (30, 16)])
def test_capacity_theory_agrees_with_simulation(n, d):
    rng = np.random.default_rng(n)
    keys, values = (experiments.random_units(rng, 60_000 // n, n, d) for _ in range(2))
    responses = keys @ (keys.swapaxes(-1, -2) @ values)
    products = responses @ values.swapaxes(-1, -2)
    cosine = np.diagonal(products, axis1=1, axis2=2) / np.linalg.norm(responses, axis=-1)
    for tau in (0.5, 0.7, 0.9):
        assert conditioning.faithful_probability(n, d, tau=tau) == pytest.approx(
            np.mean(cosine >= tau), abs=0.015)
    right = np.mean(products.argmax(axis=-1) == np.arange(n))
    assert conditioning.identification_probability(n, d) == pytest.approx(
        right, abs=0.006 if n < 12 else 0.012)


def test_capacity_theory_has_the_known_limits():
    tau, d = 0.7, 2.0**14
    n = np.array([0.97, 1.0, 1.03]) * d * (1 - tau**2) / tau**2
    below, at, above = conditioning.faithful_probability(n, d, tau=tau)
    assert below > 0.85 and above < 0.15 and at == pytest.approx(0.5, abs=0.02)
    n, d = np.array([[15], [40]]), np.array([16, 64])
    assert_allclose(*(conditioning.identification_failure(n, d, nodes=nodes)
                      for nodes in (40, 80)), rtol=1e-3)
    capacity = conditioning.capacity_limit(conditioning.faithful_probability, 64, 0.9)
    assert conditioning.faithful_probability(capacity, 64) == pytest.approx(0.9, abs=5e-5)


def test_worst_case_of_the_triangular_draw_is_that_of_random_keys():
    rng = np.random.default_rng(2)
    drawn = np.mean([experiments.safe_pairs(rng, 400) for _ in range(400)])
    gram = np.abs([k @ k.T for k in experiments.random_units(rng, 400, 20, 400)])
    counted = np.mean([max(n for n in range(1, 21) if one[:n, :n].sum(axis=-1).max() < 1.5)
                       for one in gram])
    assert drawn == pytest.approx(counted, abs=0.25) and drawn > 8
    for d, share in ((256, 0.454), (10**6, 0.564), (1e16, np.sqrt(np.pi / 8))):
        assert conditioning.worst_case_pairs(d) == pytest.approx(share * d**0.5, rel=1e-3)


def test_shared_direction_is_its_mean_over_projections():
    rng = np.random.default_rng(3)
    A, B = np.moveaxis(np.linalg.qr(rng.standard_normal((20_000, 24, 2)))[0][:, :6], -1, 0)
    a, b, both = np.sum([A * A, B * B, A * B], axis=-1)
    g = np.mean(np.sqrt(a / b) * (1 - both**2 / (a * b)))
    assert conditioning.shared_direction(6, 24) == pytest.approx(g, rel=0.01)
    assert conditioning.shared_direction(64, 64) == pytest.approx(1, abs=1e-12)  # nothing is lost
    assert conditioning.averaged_head_error(5, 2, 8) == 4 / 16
    assert conditioning.averaged_head_error(5, 2, 6, 24) == pytest.approx(
        4 * (1 / 12 + g**2 / 48), rel=0.01)


def own_nearest(responses, values):
    distances = np.linalg.norm(responses[:, None] - values, axis=-1)
    return distances.argmin(axis=-1) == np.arange(len(values))


def test_read_outs_counted_one_by_one():
    rng, shares = np.random.default_rng(4), []
    keys = experiments.head_keys(rng, np, 6, 12, 3, 4)
    for own, (v,) in zip(keys, experiments.unit_vectors(rng, np, 6, 1, 12, 5), strict=True):
        responses = np.array([k @ (k.T @ v) for k in own])
        right, average = [own_nearest(one, v) for one in responses], responses.mean(axis=0)
        shares.append([1 - np.sum((average - v)**2) / 12, np.mean(right),
                       np.any(right, axis=0).mean(), own_nearest(average, v).mean()])
    assert_allclose(experiments.read_outs(np.random.default_rng(4), np, 12, 5, 6, 3, 4),
                    1 - np.mean(shares, axis=0), atol=1e-6)


def test_chains_by_hand():
    assert conditioning.chained_error(0.1, 2) == pytest.approx(0.19, abs=1e-12)
    same(conditioning.least_squares_error(np.array([2, 4, 8]), 4), [0, 0, 0.5])
    items = np.array([[[[1.0, 0]], [[0, 1]], [[1, 0]]]])
    memories = np.array([[[[0, 2.0], [0, 0]], [[0, 0], [1, 1]]]])    # (1,0) -> (0,2) -> (2,2)
    assert_allclose(experiments.relayed(items, memories), [[[1, 5]], [[4, 8]]], atol=1e-12)
    assert experiments.wide_and_deep(np.random.default_rng(5), np, 256, 2, 4, 5) == [0] * 4
    assert experiments.wide_and_deep(np.random.default_rng(5), np, 8, 8, 4, 50)[-1] < 0.05


def test_every_claim_shows_the_cell_next_to_the_bound():
    samples = np.array([[0.9, 5.5], [1, 5.6], [1.1, 5.7]])
    for bound, shown, holds in (({"below": 5}, 5.6, False), ({"above": -5}, 1, True)):
        row = experiments.every_claim("a: b", "beyond", samples, **bound)
        assert row.measured == pytest.approx(shown) and row.holds == holds
    assert experiments.log_slope((2, 4, 8), np.array([[3, 12, 48], [8, 4, 2]])) == pytest.approx(
        [2, -1])


# ------------------------------------------- drift, lag, unlearning, cost, benchmark: closed forms


def test_best_rate_of_a_random_walk_minimises_its_error():
    betas, K, q, s2 = np.linspace(0.01, 1, 10_000), 16, 1e-6, 0.1
    error = conditioning.delta_tracking_error(beta=betas, K=K, rho=np.sqrt(1 - q), s2=s2)
    assert error == pytest.approx((K * q + betas**2 * s2) / (2 * betas - betas**2), rel=1e-3)
    best = conditioning.random_walk_beta(K=K, q=q, s2=s2)
    assert best == pytest.approx(betas[np.argmin(error)], abs=2e-4)


@pytest.mark.parametrize("rule, after, fixed", [
    (rules.oja, [0.988, 0.988, 0.988], 1 / 0.5),
    (experiments.oja_own_response, [1.0, 0.320, 0.110], 0.5 ** (1 / 3)),
    (experiments.oja_1982, [0.618, 1.0, 1.0], (np.sqrt(0.5**2 + 4) - 0.5) / 2)])
def test_oja_in_three_readings_by_hand(rule, after, fixed):
    """After 0, 20, 200 omissions, from a loop on floats; the fixed point for an outcome of .5."""
    outcomes = np.repeat([[1.0], [0.0]], [20, 201], axis=0)
    answers, _ = rules.learn(rule, np.ones((221, 1)), outcomes, beta=0.2)
    assert answers[[20, 40, 220], 0] == pytest.approx(after, abs=1e-3)
    _, memory = rules.learn(rule, np.ones((400, 1)), np.full((400, 1), 0.5), beta=0.2)
    assert memory[0, 0] == pytest.approx(fixed, abs=1e-6)


@pytest.mark.parametrize("c", [False, True])
def test_lag_moments_by_hand_and_by_simulation(c):
    d, beta, decay, T, rng = 5, 0.7, 0.9, 12, np.random.default_rng(3)
    k, v = (experiments.random_units(rng, 15_000, T, features) for features in (d, 3))
    W = np.zeros((15_000, d, 3))
    for x, y in zip(k.swapaxes(0, 1), v.swapaxes(0, 1), strict=True):
        W = decay * W
        W = W + beta * x[:, :, None] * (y[:, None] - c * (x[:, None] @ W))
    r = (k @ W)[:, ::-1]
    rule = {"beta": beta, "decay": decay, "error_correcting": c}
    match, size = map(np.diagonal, conditioning.lag_moments(
        T, before=np.arange(T)[::-1], d=d, **rule))
    assert (r * v[:, ::-1]).sum(-1).mean(0) == pytest.approx(match, abs=0.02)
    assert (r**2).sum(-1).mean(0) == pytest.approx(size, rel=0.05)
    # One feature: every response is the whole memory, up to its sign.
    memory = beta**2 * np.cumsum((decay**2 * (1 - c * (2 * beta - beta**2))) ** np.arange(300))
    for before in (0, 2, np.inf):
        _, size = conditioning.lag_moments(6, before=before, d=1, **rule)
        same(size, memory[before:before + 6] if before < 3 else memory[-1])
    same(conditioning.lag_moments(3, before=7, d=1, beta=0.5)[1], [2, 2.25, 2.5])


@pytest.mark.parametrize("powers", [(2, 2, 1, 1), (1, 1, 2, 2)])
def test_cost_tells_slopes_of_a_clock_of_its_own(monkeypatch, powers):
    clock, powers = [0.0], dict(zip(("softmax", "parallel", "recurrent", "chunkwise"), powers,
                                    strict=True))

    def layer(keys, *_, form="softmax", **__):
        clock[0] += keys.shape[0] * keys.shape[1] ** powers[form]
        return keys if form == "softmax" else (keys, None)

    monkeypatch.setattr(experiments, "softmax_attention", layer)
    monkeypatch.setattr(experiments, "attention", layer)
    monkeypatch.setattr(experiments.time, "process_time", lambda: clock[0])
    result = experiments.cost(np.random.default_rng(0), np, repeats=2, sizes=(1, 2))
    assert [row.holds for row in result.claims] == 4 * [powers["softmax"] == 2]
    assert plots.cost(result.arrays, result.claims).axes


def test_benchmark_at_small_sizes_and_in_one_thread(monkeypatch):
    assert experiments.in_one_thread("os.environ['OMP_NUM_THREADS']") == "1"
    assert 0.01 < experiments.peak_gigabytes(64) < 20
    found = experiments.speeds(scale=128)
    assert min(found.values()) > 0
    known = dict.fromkeys(found, 0.2) | {"loop": 1.2, "simulation": 0.384 / 25}
    monkeypatch.setattr(experiments, "in_one_thread",
                        lambda call: 0.5 if "peak_gigabytes(65536)" in call else dict(known))
    rows = experiments.benchmark(np.random.default_rng(0), np).claims
    assert [row.measured for row in rows] == pytest.approx([6, 25, 0.2, 0.5])


def test_calls_are_timed_in_turns_and_the_first_left_out():
    clock, order, costs = [0.0], [], {"a": [9, 3, 2], "b": [0.5, 4, 5]}

    def call(name):
        order.append(name)
        clock[0] += costs[name][order.count(name) - 1]
        return np.zeros(1)
    found = experiments.timed([functools.partial(call, name) for name in costs], 2,
                              lambda: clock[0])
    assert found.tolist() == [[3, 4], [2, 5]] and order == ["a", "b"] * 3


# ---------------------------------------------------------------------------------- trained layers

HAND = {  # exp(bias) of a layer's rate (beta / (1 - beta) for a gate): layer, rate, value
    "beta": (slice(None), 0, 3), "fast": (4, 0, 7 / 13), "eta": (4, 2, 0.5),
    "first": (4, 3, 1.3 / 0.35), "first alone": (5, 3, 1.3 / 0.75), "exposure": (5, 4, 1.0)}


def hand_set(models):
    """Weights in float64: keys = queries = cues, values = outcomes, the gate shut on queries, a
    gain of .36 in the first two layers."""
    weights, _ = experiments.initial_weights(np.random.default_rng(0), models)
    weights |= {name: 0 * weights[name] + fixed for name, fixed in {
        "queries": np.eye(17, 12), "keys": np.eye(17, 12), "values": np.eye(17, 4, -12),
        "outputs": np.eye(4), "positions": 0, "rates": 0}.items()}
    weights["rates"][..., -1, 0] = -60
    weights["outputs"][:2] *= 0.36
    for layer, rate, value in HAND.values():
        weights["biases"][layer, :, 0, rate] = np.log(value)
    return weights


def test_layer_gradients():
    """Every weight of every layer, along random directions, against central differences."""
    size, rng = {"cues": 4, "outcomes": 3, "tokens": 6}, np.random.default_rng(1)
    weights, learned = experiments.initial_weights(rng, 2, **size)
    for name in learned:
        weights[name] = weights[name] + 0.3 * rng.standard_normal(weights[name].shape)
    tokens, *wanted = experiments.association_task(rng, 2, 8, pairs=2, dtype="float64", **size)

    def loss(weights):
        answers, _, pullback = experiments.layer_answers(weights, tokens)
        loss, d_answers = experiments.squared_error(answers, *wanted)
        return loss, pullback(d_answers)
    for name, gradient in loss(weights)[1].items():
        for step in 1e-5 * rng.standard_normal((5, *gradient.shape)):
            up, down = (loss(weights | {name: weights[name] + move})[0] for move in (step, -step))
            assert_allclose((gradient * step).sum((-2, -1)), (up - down) / 2, rtol=1e-5, atol=1e-11)


def test_layers_are_their_rules():
    """Hand-set layers answer as `learn` does; a query decays and surprises as any token does."""
    tokens, _, asked = experiments.association_task(
        np.random.default_rng(3), 1, 2, dtype="float64")
    answers, gate, _ = experiments.layer_answers(hand_set(1), tokens)
    answers[:2] /= 0.36
    cues, shown, shut = tokens[0, ..., :12], tokens[0, ..., 12:16], asked[0, ..., 0] > 0
    fade = 1 / (1 + np.exp(-6))
    falling = 1.3 / (1 + np.cumsum(cues**2, axis=1) - cues**2) * ~shut[..., None]
    for name, rule, rates in (
            ("linear attention", rules.hebbian, {}),
            ("RetNet", rules.hebbian, {"decay": fade}),
            ("DeltaNet", rules.rescorla_wagner, {}),
            ("Gated DeltaNet, positions", rules.rescorla_wagner, {"decay": fade}),
            ("exposure alone", rules.rescorla_wagner, {"beta": falling}),
            ("PH-attention", rules.pearce_hall, {
                "beta": 0.35 * ~shut, "eta": 0.5, "associability": 1.3 / 0.35,
                "bounds": experiments.ASSOCIABILITY_BOUNDS})):
        expected = rules.learn(rule, cues, shown, **{"beta": 0.75 * ~shut} | rates)[0]
        found = answers[list(experiments.LAYERS).index(name), 0] / rates.get("decay", 1)
        assert_allclose((found - expected)[shut], 0, atol=1e-10)
    assert_allclose(gate[2, 0, ..., 0], 0.75 * ~shut, atol=1e-12)


def test_the_task_has_no_conditioning_design():
    """Single cues with their outcome; 40% of repeated pairs are asked for and show none."""
    tokens, targets, asked = experiments.association_task(
        np.random.default_rng(4), 2, 60, dtype="float64")
    cues = tokens[..., :12]
    assert_allclose([(rows**2).sum(-1) for rows in (cues, targets)], 1, atol=1e-12)
    assert_array_equal(tokens[..., 12:], np.concatenate([np.where(asked, 0, targets), asked], -1))
    same, paired = ((rows[..., :, None, :] == rows[..., None, :, :]).all(-1)
                    for rows in (cues, targets))
    before = np.tril(same, -1).any(-1)
    assert not asked[~before].any() and abs(asked[before].mean() - 0.4) < 0.03
    assert_array_equal(same, paired)


def test_training_is_adam(monkeypatch):
    """On gradients that are given; averages are sums over all the steps before."""
    steps, gradients = np.arange(1, 31), np.random.default_rng(5).standard_normal((30, 4))
    share, ones, given = np.array([1, 1, 0.3, 0]), np.ones((1, 1, 1, 1)), iter(gradients)
    monkeypatch.setattr(experiments, "layer_answers", lambda *_: (
        ones[None], None, lambda _: {"outputs": next(given)}))
    weights, _ = experiments.training({"outputs": np.ones(4)}, {"outputs": share},
                                      lambda: 3 * [ones], steps=30, rate=0.1)

    def averages(kept, rows):
        powers = np.tril(kept ** (steps[:, None] - steps + 0.0))
        return powers @ rows / powers.sum(1, keepdims=True)
    rates = 0.1 * np.minimum(1, steps / 20) * (1 + np.cos(np.pi * steps / 30)) / 2
    moves = averages(0.9, gradients) / averages(0.999, gradients**2) ** 0.5
    assert_allclose(weights["outputs"], 1 - share * (rates @ moves), rtol=1e-6)


def test_a_layer_learns_what_it_has():
    rng = np.random.default_rng(5)
    start, learned = mapped(np.float32, experiments.initial_weights(rng, 2))
    found, _ = experiments.training(
        start, learned, lambda: experiments.association_task(rng, 2, 4), steps=2, rate=0.1)
    sizes = [np.mean(abs(found[name])) for name in found]
    assert_allclose(sizes, [0.19647, 0.19633, 0.1993, 0.36646, 14.723, 0.053, 0.0034186, 0.75],
                    rtol=3e-4)
    moved = {name: (found[name] != start[name]).any((1, 2)) for name in learned}
    assert moved["positions"].any(-1).tolist() == 6 * [False] + 2 * [True]
    assert moved["rates"][[1, 3, 4], :3].tolist() == [[1, 0, 0], [1, 1, 0], [1, 0, 0]]
    assert moved["biases"][[1, 4, 5]].tolist() == [
        [1, 1, 0, 0, 0], [1, 0, 1, 1, 0], [1, 0, 0, 1, 1]]


def test_best_constant_rate_by_trial():
    task = experiments.association_task(np.random.default_rng(6), 2, 4, dtype="float64")
    (tokens, targets, asked), losses = task, []
    for beta in np.arange(10, 21) / 20:
        answers = asked * rules.learn(rules.rescorla_wagner, tokens[..., :12], targets,
                                      test=asked[..., 0] > 0, beta=beta)[0]
        gain = (answers * targets).sum() / (answers**2).sum()
        losses.append(experiments.squared_error(gain * answers, targets, asked)[0])
    found = experiments.hand_set_losses(*task)
    assert_allclose(found[2], min(losses, key=np.mean), rtol=1e-9)
    assert np.all(np.diff(found.mean(-1)) < 0)


def test_a_worst_claim_shows_the_one_furthest_out():
    samples = np.array([[[1.0, 1.2, 1.1]], [[0.0, -2.0, 1.0]]])
    row = experiments.worst_claim("x: y", "A5", samples, within=(-5.5, 5.5))
    assert row.interval == list(experiments.mean_interval(samples[1, 0], 2)[1:]) and not row.holds


def test_trained_runs_and_is_drawn():
    """From training to the figure at the smallest size; untrained layers fail."""
    result = experiments.trained(np.random.default_rng(8), np, **SMALL["trained"])
    assert all(np.isfinite(row.measured) for row in result.claims)
    assert not result.claims[0].holds and result.arrays["losses"].dtype == np.float32
    assert len(plots.trained(result.arrays, result.claims).axes) == 3


# ------------------------------------------------------------------------- a design of one's own


@pytest.fixture
def design(monkeypatch, tmp_path, capsys):
    """Run the command, with an empty figure: ({"rule,group,trial,stimulus,quantity,of":
    [mean, low, high]} of its CSV, what it prints)."""
    monkeypatch.setattr(plots, "design", lambda *_: plots.Figure())

    def run(arguments):
        assert experiments.main(["design", *arguments.split("~"), "--out", str(tmp_path)]) == 0
        lines = (tmp_path / "design.csv").read_text().splitlines()
        rows = {",".join((*row[:3], *row[4:7])): [float(number or "nan") for number in row[7:]]
                for row in csv.reader(lines[1:])}
        printed = capsys.readouterr().out
        assert printed == (tmp_path / "design.txt").read_text() + (
            f"saved in {tmp_path}: design.txt, design.csv, design.png\n")
        assert len(contents(tmp_path)) == 3
        return rows, printed
    return run


BLOCKED = ("10A+ | 10AB+ | B?~--rules~rescorla_wagner~hebbian~--beta~0.2"
           "~--control~10_ | 10AB+ | B?")


@pytest.mark.parametrize("arguments, place, expected", cells(f"""
{BLOCKED} : rescorla_wagner,control,,B?,response, : 0.5 * (1 - 0.6**10)
{BLOCKED} : rescorla_wagner,experimental,,B?,DeltaNet, : 0.8**10 * 0.5 * (1 - 0.6**10)
{BLOCKED} : rescorla_wagner,experimental - control,,B?,effect, : (0.8**10 - 1) * 0.5 * (1 - 0.6**10)
{BLOCKED} : hebbian,experimental - control,,B?,effect, : 0
3A+ | 2AB++~--rules~pearce_hall~--us~0.25~1 : pearce_hall,experimental,2,A+,V,A : 0.035870
3A+ | 2AB++~--rules~pearce_hall~--us~0.25~1 : pearce_hall,experimental,2,A+,alpha,A : 0.598
3A+ | 2AB++~--rules~pearce_hall~--us~0.25~1 : pearce_hall,experimental,3,A+,alpha,B : 0.8
3A+ | 2AB++~--rules~pearce_hall~--us~0.25~1 : pearce_hall,experimental,4,AB++,V,B : 0.076106002"""))
def test_every_number_of_a_design_is_in_its_table(design, arguments, place, expected):
    rows, printed = design(arguments)
    assert rows[place] == pytest.approx([eval(expected), np.nan, np.nan], abs=1e-9, nan_ok=True)
    assert "note" not in printed and "phase 3  V" not in printed


def test_every_rule_runs_equals_its_layer_and_has_its_parameters_as_options(design):
    rows, _ = design(f"4A+/4AX-/2X? | 2_ | B>A- | X?/B>A?~--rules~{'~'.join(RULES)}~--orders~5"
                     "~--salience~A=0.5~--similarity~AX=0.3~--decay~0.9~--beta-omitted~0.05")
    for layer, rule in {"RetNet": "hebbian", "Gated DeltaNet": "rescorla_wagner",
                        "PH-attention": "pearce_hall", "MesaNet": "kalman"}.items():
        places = [place for place in rows if f",{layer}," in place]
        assert {place.partition(",")[0] for place in places} == {rule}
        for place in places:
            assert rows[place] == pytest.approx(rows[place.replace(layer, "response")], abs=1e-12)
    assert {place.partition(",")[0] for place in rows} == {*RULES}
    assert {*experiments.MEANINGS} == {
        name for rule in RULES for name in experiments.rule_rates(rule, experiments.MEANINGS)}


def test_a_random_order_is_the_one_that_is_learned(design):
    rows, _ = design("6A+/6A-~--order~random~--seed~3~--rules~hebbian")
    shown = [place.split(",")[3] for place in rows]
    assert shown != ["A+", "A-"] * 6
    assert [mean for mean, *_ in rows.values()] == pytest.approx(
        0.05 * np.cumsum([text == "A+" for text in shown]), abs=1e-12)


def test_means_and_effects_have_an_interval_over_orders(design):
    rows, printed = design("6A+/6AX- | X?~--rules~rescorla_wagner~--orders~20~--seed~5"
                           "~--control~6A+/6X- | X?")
    arrays = design_arrays("6A+/6AX- | X?", order="random", orders=20, seed=5)
    memory = learn(rules.rescorla_wagner, *arrays[:2], beta=0.1, path=True,
                   test=arrays.test)[2].memory[..., 0]
    for place, samples in (("experimental - control,,X?,effect,", memory[:, -1, 1]),
                           ("experimental,5,A+/AX-,V,A", memory[:, 4, 0])):
        mean, low, high = experiments.mean_interval(samples)
        assert rows[f"rescorla_wagner,{place}"] == pytest.approx([mean, low, high], abs=1e-12)
        assert printed.count(f"X? {mean:.4g} ({low:.4g} to {high:.4g})") == 3 * ("X?" in place)


@pytest.mark.parametrize("arguments, printed", cells(f"""
{BLOCKED} : effect             B? -0.4436
{BLOCKED} : phase 3  response           B? 0.05336
40T+ | L>T?/T?~--rules~temporal_difference : L>T? at L 0  L>T? at T 0.9852  T? 0.9852
4L>_>T+ | L>_>T?~--rules~temporal_difference : L>_>T? at L 0.272  L>_>T? at T 0.3439
B>A-~--rules~hebbian~oja : note: B>A- is one compound in hebbian, oja: temporal_difference
B>A- : rescorla_wagner: beta 0.1, decay 1.0
L>T+~--rules~temporal_difference : temporal_difference: beta 0.1, trace 0.9, discount 0.98
L>T+~--rules~temporal_difference : V                  L 0.0882  T 0.1
4A+/4B- | A? : note: one order of mixed trials
2A+/2AX- : V                  A 0.1639  X -0.0271
A+ | B?~--rules~pearce_hall~--similarity~AB=.6~--salience~B=.5 : alpha              A 0.84  B 0.8144
3A+ | A?~--rules~pearce_hall~--eta~0.9~--salience~A=2 : PH-attention
4A+ | A?~--control~4B+ | B? : note: the groups are not asked the same tests
4A+ | A?~--control~4B+ | B? : control                phase 2  response           B? 0.3439
 | 10A+ | 2A?~--rules~hebbian : phase 3  response           A? 0.5  A? 0.5
10A+ | A?~--beta~-1e-1 : A? -1.594
3A+ | A?~--rules~rescorla_wagner~--floor~0 : floor 0.0
4AB+~--beta~0.99 : V                  A 0.03882
4AB+~--beta~1.9~--compound~normalised : V                  A 0.2432
4AB+~--beta~1.9~--rules~bush_mosteller~mackintosh : V                  A 0.3439
4A+~--beta~9~--rules~pearce_hall~--associability~0.2~--eta~0 : alpha              A 0.2"""))
def test_what_a_design_prints(design, arguments, printed):
    assert printed in design(arguments)[1]


@pytest.mark.parametrize("arguments, message", cells("""
10A+ | B! : got 'B!' in phase 2: a random order is an option
10A+~--rules~skinner : invalid choice: 'skinner'
10A+~--beta~.1~--beta=.2 : --beta is given twice
10A+~--salience~A=.5~A=.2 : A is given twice
10AB+~--similarity~AB=.3~BA=.9 : BA is given twice
10A+~--salience~Q=1 : saliences must name cues
10A+~--salience~A : must be such as A=0.5
10A+~--eta~0.2 : --eta is a parameter of none of the rules
10A+~--beta-omitted~0.2~--rules~oja : --beta-omitted is a parameter of none of the rules oja
10A+~--decay~1.5 : decay must be from 0 to 1
10A+~--rules~kalman~--prior~0 : prior must be above 0
10A+~--rules~pearce_hall~--bounds~1~0 : bounds must be two numbers
10A+~--rules~pearce_hall~--bounds~0~inf : bounds must be finite
10A+~--orders~0 : orders must be at least 1
10A+~--us~1~nan : us must be two finite numbers
20_ : must have a cue
90000A+ : at most 20,000 trials a group
20000A+~--orders~1001 : at most 20,000,000 trials x orders x cues, got 20,000 x 1,001 x 1
9000AB+~--rules~kalman~--orders~600 : with kalman at most 10,000,000
9000A>B+~--rules~temporal_difference~--orders~400 : at most 6,666,666
500A+~--rules~hebbian~--beta~1e308 : runs beyond the largest number
10AB+~--beta~1 : rescorla_wagner is unstable: after AB+ an error is 1 times as large
10AB+/5A-~--beta~1.1 : unstable: after AB+ an error is 1.2 times as large
10A++~--rules~oja~--beta~0.5 : oja is unstable
10A+~--rules~mackintosh~--beta~2 : mackintosh is unstable
10AB+~--rules~pearce_hall~--beta~1 : pearce_hall is unstable
10AB+~--rules~pearce_kaye_hall~--beta-inhibitory~1 : pearce_kaye_hall is unstable
10A+~--rules~pearce_hall~--eta~1.1~--salience~A=2 : unstable
100A>A>A>A>A+ | A?~--rules~temporal_difference~--beta~0.5~--discount~1 : 1.05 times as large
2A>A>B+/2B>A+~--rules~temporal_difference~--beta~1.7~--trace~.1 : after A>A>B+/B>A+"""))
def test_design_command_refuses_in_one_line(arguments, message, tmp_path, capsys):
    (tmp_path / "design.csv").write_text("earlier")
    assert experiments.main(["design", *arguments.split("~"), "--out", str(tmp_path)]) == 2
    printed = capsys.readouterr()
    assert message in printed.err and printed.err.count("\n") == 1 and not printed.out
    assert contents(tmp_path) == {"design.csv": b"earlier"}


def test_earlier_files_stay_whole_when_saving_fails(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(csv, "writer", None)
    (tmp_path / "design.csv").write_text("earlier")
    assert experiments.main(["design", "3A+ | A?", "--out", str(tmp_path)]) == 2
    assert not capsys.readouterr().out and contents(tmp_path) == {"design.csv": b"earlier"}


def test_the_figure_has_both_groups_on_one_scale_with_bands_and_the_size_of_the_us():
    rows = [("rule", group, trial, trial, "A+/AH-", "V", cue, trial, 0, 3)
            for group in ("experimental", "control") for cue in "AH" for trial in (1, 2)]
    axis, = plots.design(rows, [0.25, 3]).axes
    looks = {(line.get_color(), line.get_linestyle()) for line in axis.lines
             if "," in line.get_label()}
    assert len(looks) == len(axis.collections) == 4
    ends = [(line.get_xdata()[0], *line.get_ydata()) for line in axis.lines]
    assert (0, 0.25, 0.25) in ends and (1.5, 0, 1) in ends and (0, 3, 3) not in ends


# -------------------------------------------------------------- running, saving, command line

HERE = Path(__file__).parent


@pytest.fixture
def fake(monkeypatch):
    """fake(name, measured, action) registers an experiment; a thread takes the process's place."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    monkeypatch.setattr(experiments, "EXPERIMENTS", {})
    monkeypatch.setitem(experiments.WORKERS, "cpu", threading.Thread)
    monkeypatch.setattr(experiments.os, "sched_getaffinity", lambda _: {0}, raising=False)

    def register(name, measured=0.5, action=lambda: None):
        def function(rng, xp, size=3):
            """Takes no time."""
            action()
            x = rng.random(size)
            return experiments.Result({"x": x}, [
                experiments.claim("number: below one", "P1", measured, below=1)],
                {f"{name}.csv": str(x[0])})
        experiments.EXPERIMENTS[name] = function
    yield register
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.fixture(scope="session", autouse=True)
def bounds():
    """{name of a claim: its bounds} of all claims that the tests make, at whatever size."""
    made, original = {}, experiments.claim

    def recording(text, *numbers, **bound):
        row = original(text, *numbers, **bound)
        made.setdefault(text.partition(":")[0], set()).add(row.bound)
        return row
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(experiments, "claim", recording)
        yield made


def contents(folder):
    return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


def files(*names, ends=("json", "npz", "csv")):
    return {"claims.json", "claims.txt", *(f"{name}.{end}" for name in names for end in ends)}


def changed(before, folder):
    """Names of the files that are not what they were; none is missing."""
    after = contents(folder)
    return {name for name in before if after[name] != before[name]}


def run(out, *arguments):
    return experiments.main([*arguments, "--out", str(out)])


def test_a_run_saves_its_own_files_and_keeps_the_others(fake, tmp_path, monkeypatch, capsys):
    fake("first"), fake("second")
    monkeypatch.setattr(plots, "first", lambda arrays, claims: plots.Figure(), raising=False)
    out = tmp_path / "new" / "results"
    assert run(out, "first", "--seed", "7") == 0
    before = contents(out)
    assert {*before} == files("first") | {"first.png"}
    x = np.random.default_rng([7, zlib.crc32(b"first")]).random(3)
    assert np.array_equal(np.load(out / "first.npz")["x"], x)
    assert run(out, "run", "second", "--seed", "0", "second") == 0
    assert changed(before, out) == {"claims.json", "claims.txt"}
    both = json.loads((out / "claims.json").read_text())
    assert {*both} == {"claims", "verdicts", "parameters", "versions"}
    for name, seed in (("first", 7), ("second", 0)):
        assert both["parameters"][name].items() >= {
            "seed": seed, "device": "cpu", "size": 3}.items()
    assert {*both["versions"]} >= {"python", "numpy", "matplotlib"}
    assert both["claims"][1] == {"experiment": "second"} | experiments.claim(
        "number: below one", "P1", 0.5, below=1)._asdict()
    assert {*both["verdicts"][0]} == {*experiments.Verdict._fields}
    printed = capsys.readouterr()
    assert printed.out.endswith(f"1 of 1 claims hold; results in {out}\n")
    assert re.match(r"first started\nfirst ended after [\d.]+ s: 1 of 1 claims hold\n", printed.err)


def test_without_names_all_run_but_the_benchmark_the_long_ones_first(fake, tmp_path, capsys,
                                                                     monkeypatch):
    fake("quick"), fake("benchmark"), fake("slow", action=lambda: time.sleep(0.2))
    monkeypatch.setattr(experiments, "LONG_ONES", {"slow"})
    monkeypatch.setattr(experiments, "SILENCE", 0.05)
    assert run(tmp_path) == experiments.main(["--list"]) == 0
    printed = capsys.readouterr()
    said = [line for line in printed.err.splitlines() if "ended" not in line]
    assert said[:2] == ["slow started", "still running: slow"] and 3 <= len(said) <= 6
    assert said[-1] == "quick started" and "\r" not in printed.err
    assert "label " in printed.out and "not run" in printed.out
    assert printed.out.endswith("slow           Takes no time.\n")
    assert all(len(line) <= 120 for line in printed.out.splitlines())
    monkeypatch.setattr(experiments.os, "sched_getaffinity", lambda _: {0, 1})
    assert [experiments.worker_count(*names) for names in (
        (["quick"], "cpu"), (["benchmark"], "cpu"), (["quick"], "gpu"))] == [2, 1, 1]


@pytest.mark.parametrize("measured, interval, shown", [
    (2.0, None, "2.00"), (np.nan, None, "not finite"), (0.5, (0, np.inf), "not finite")])
def test_a_claim_that_fails_gives_1_and_no_nan_is_saved(fake, tmp_path, capsys, monkeypatch,
                                                        measured, interval, shown):
    monkeypatch.setattr(experiments, "claim",
                        functools.partial(experiments.claim, interval=interval))
    fake("wrong", measured)
    assert run(tmp_path, "wrong") == 1
    assert f"FAILS wrong: number: {shown}, bound < 1\n0 of 1" in capsys.readouterr().out
    row = json.loads((tmp_path / "claims.json").read_text())["claims"][0]
    assert row["holds"] is False and row["measured"] == (2.0 if measured == 2 else None)
    assert not re.search(b"NaN|Infinity", (tmp_path / "wrong.json").read_bytes())
    with pytest.raises(ValueError):
        experiments.results_text([], {"size": np.nan})


def test_a_crash_gives_2_its_reason_and_the_others_results(fake, tmp_path, capsys):
    fake("crash"), fake("fine")
    assert run(tmp_path, "crash", "fine") == 0
    before = contents(tmp_path)
    fake("crash", action=lambda: {}["a\nkey"])
    assert run(tmp_path, "crash", "fine", "--seed", "1") == 2
    printed = capsys.readouterr()
    assert "crash failed\nTraceback" in printed.err and "KeyError: 'a\\nkey'\n" in printed.err
    assert printed.err.endswith("experiments.py: failed: crash\n")
    assert "1 of 1 claims hold" in printed.out
    assert changed(before, tmp_path) == files("fine") - {"claims.txt"}


@pytest.mark.parametrize("blocked, message", cells("""
first.npz : first failed: [Errno 5]
first.csv : first failed: [Errno 5]
first.json : first failed: [Errno 5]
claims.json : claims.json is not up to date"""))
def test_the_files_of_an_experiment_are_replaced_all_or_none(fake, tmp_path, monkeypatch, capsys,
                                                             blocked, message):
    fake("first")
    assert run(tmp_path, "first") == 0
    before, replace, listed, described = contents(tmp_path), os.replace, os.listdir, []
    monkeypatch.setattr(experiments.os, "listdir", lambda path: sorted(listed(path))[::-1])

    def failing(source, target):
        if source.parent.name != "earlier" and target.name in ("first.npz", "first.csv"):
            described.append((tmp_path / "first.json").exists())
        if target.name == blocked and source.parent.name in ("first", "claims"):
            raise OSError(5, "Input/output error")
        replace(source, target)
    monkeypatch.setattr(experiments.os, "replace", failing)
    for _ in range(2):
        assert run(tmp_path, "first", "--seed", "5") == 2
        assert message in capsys.readouterr().err
        assert changed(before, tmp_path) == (
            files("first") - files() if blocked == "claims.json" else set())
    assert described and not any(described)  # the JSON never describes files of another run


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_run_keeps_what_was_saved_and_leaves_nothing_over(fake, tmp_path, capsys, number):
    before = signal.getsignal(number)

    def stop():
        os.kill(os.getpid(), number)
        os.kill(os.getpid(), number)
        time.sleep(0.3)
    fake("fine"), fake("stop", action=stop), fake("later")
    assert run(tmp_path / "out", "stop") == 130 and not (tmp_path / "out").exists()
    assert signal.signal(number, before) == signal.SIG_IGN  # a further one comes too late
    with experiments.stop_signals():
        pass
    assert signal.getsignal(number) == before and run(tmp_path) == 130
    assert capsys.readouterr().err.endswith("interrupted; saved before that: fine\n")
    assert {*contents(tmp_path)} == files("fine")
    with experiments.stop_signals() as asked:  # as in a shell's background, where it is ignored
        os.kill(os.getpid(), number)
        assert not asked.poll()


def test_a_folder_in_use_is_refused_one_left_by_a_killed_run_is_not(fake, tmp_path, capsys,
                                                                     monkeypatch):
    fake("fine")
    with experiments.folder_in_use(tmp_path):
        assert run(tmp_path, "fine") == 2
        assert capsys.readouterr().err == f"experiments.py: {tmp_path} is in use by another run\n"
    assert not contents(tmp_path)
    moved = tmp_path / ".unfinished/earlier/design.csv"  # by a run that was killed
    moved.parent.mkdir(parents=True), moved.touch()
    assert run(tmp_path, "fine") == 0
    assert {*contents(tmp_path)} == files("fine") | {moved.name}
    monkeypatch.setattr(fcntl, "flock", lambda *_: os.stat(tmp_path / "nothing"))
    assert run(tmp_path, "fine") == 0  # where a folder cannot be locked


@pytest.mark.parametrize("name", ["claims.json", "fine.json"])
@pytest.mark.parametrize("content", [
    "no JSON", "[]", '{"claims": [{}], "parameters": {"fine": {}}}',
    '{"claims": 1, "parameters": {"fine": {}}}', '{"claims": [], "parameters": 1}'])
def test_results_that_are_not_ours_are_not_overwritten(fake, tmp_path, capsys, name, content):
    fake("fine")
    (tmp_path / name).write_text(content)
    assert run(tmp_path, "fine") == 2
    assert f"{name} cannot be read as results" in capsys.readouterr().err
    assert contents(tmp_path) == {name: content.encode()}


@pytest.mark.parametrize("arguments, message", cells("""
blokking : no experiment 'blokking'; there are: fine
--quick : unrecognized
--seed -1 : must be a whole number from 0 on
--seed x : must be a whole number from 0 on
--seed 1 --seed 1 : --seed is given twice
--device tpu : invalid choice
fine --out : expected one argument
--out= : must name a folder
--device gpu : is not available: ModuleNotFoundError
--out README.md : cannot write to --out README.md
--out README.md/below : cannot write to --out README.md/below"""))
def test_a_wrong_command_gets_one_line_and_2(fake, capsys, monkeypatch, arguments, message):
    fake("fine")
    monkeypatch.chdir(HERE)
    monkeypatch.setitem(sys.modules, "cupy", None)
    assert experiments.main(arguments.split()) == 2
    printed = capsys.readouterr().err
    assert printed.startswith("experiments.py: ") and printed.count("\n") == 1
    assert message in printed


@pytest.mark.parametrize("error", [KeyError("bug"), OSError(28, "full")])
def test_only_a_failing_claim_gives_1(monkeypatch, capsys, error):
    def broken(options):
        raise error
    monkeypatch.setattr(experiments, "run_command", broken)
    assert experiments.main([]) == 2
    assert capsys.readouterr().err.startswith("experiments.py: ")


@pytest.mark.parametrize("name", ["stdout", "stderr"])
def test_whatever_becomes_of_the_output_results_are_saved(fake, tmp_path, monkeypatch, name,
                                                          capsys):
    fake("fails", 2.0)
    read, write = os.pipe()
    os.close(read)
    ascii_only = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    for place, stream in {"gone": open(write, "w"), "closed": None, "full": open("/dev/full", "w"),
                          "en ü": ascii_only, "text": io.StringIO()}.items():
        monkeypatch.setattr(sys, name, stream)
        assert run(tmp_path / place) == (2 if (name, place) == ("stdout", "full") else 1)
        assert {*contents(tmp_path / place)} == files("fails")
        if place in ("gone", "full"):
            stream.close()
    assert name == "stderr" or b"en ?\n" in ascii_only.buffer.getvalue()
    assert "started" not in capsys.readouterr().out


SCRIPT = """
import multiprocessing, os, signal, sys, time
import experiments
from experiments import Result, claim

def killed(rng, xp):
    assert signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, [])
    os.kill(os.getpid(), signal.SIGKILL)

def fine(rng, xp):
    assert multiprocessing.parent_process()
    return Result({}, [claim("threads: one", "P1", float(os.environ["OMP_NUM_THREADS"]), below=2)])

def slow(rng, xp):
    print("runs", flush=True)
    time.sleep(60)

experiments.EXPERIMENTS = {"killed": killed, "fine": fine, "slow": slow}
os.sched_getaffinity = lambda _: {0}
if __name__ == "__main__":
    sys.exit(experiments.main())
"""


@pytest.mark.parametrize("number, arguments, awaited, status", [
    (signal.SIGTERM, ["script.py", "killed", "fine", "slow"], "runs\n", 130),
    (signal.SIGKILL, ["script.py", "slow"], "runs\n", -9),
    *((number, ["-X", "importtime", HERE / "experiments.py"], "numpy", 130)  # while it imports
      for number in (signal.SIGINT, signal.SIGTERM))])
def test_processes_end_alone_and_none_outlives_the_command(tmp_path, monkeypatch, number,
                                                           arguments, awaited, status):
    (tmp_path / "script.py").write_text(SCRIPT)
    monkeypatch.setenv("PYTHONPATH", str(HERE))
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    with subprocess.Popen([sys.executable, *arguments, "--out", "out"], cwd=tmp_path, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        before = [*itertools.takewhile(lambda line: awaited not in line, process.stdout)]
        process.send_signal(number)
        printed = "".join([*before, *process.stdout])  # until all that could write to it have ended
    assert process.returncode == status and "Traceback" not in printed
    assert (tmp_path / "out").exists() == (awaited == "runs\n")
    if "fine" in arguments:
        assert "killed failed: its process ended with exit code -9\n" in printed
        assert printed.endswith("interrupted; saved before that: fine\n")
        assert {*contents(tmp_path / "out")} == files("fine", ends=("json", "npz"))
        assert json.loads((tmp_path / "out" / "fine.json").read_text())["claims"][0]["holds"]


# --------------------------------------------------------------------------------- verdicts


def test_a_verdict_shows_the_numbers_of_its_claims_if_all_of_them_hold():
    verdict = experiments.Verdict("A6", "capacity grows", "under a condition: width",
                                  "exponents {heads: one} and {heads: two}", "capacity",
                                  ("heads: three",))
    claims = [{"experiment": "heads", "claim": f"{name}: what: is compared", "measured": measured,
               "interval": interval, "holds": True} for name, measured, interval in (
                   ("one", 1.2, [1.186, 1.209]), ("two", 2e-14, None), ("three", 3.0, None))]

    def judged(claims):
        found, = experiments.judged(claims, [verdict])
        return found
    shown = verdict._replace(here="exponents 1.20 [1.19, 1.21] and 2e-14")
    assert judged(claims) == shown
    assert experiments.verdict_markdown(claims, [verdict]).splitlines()[2] == (
        f"|{'|'.join(shown[:5])}|")
    for missing in itertools.combinations(claims, 2):
        assert judged(missing) == verdict._replace(verdict="not run", here="")
    claims[2]["holds"] = False
    assert judged(claims) == shown._replace(verdict="undecided: heads: three fails")


@pytest.mark.parametrize("number, text", cells("""
0 : 0
1.2 : 1.20
-0.0512 : -0.0512
123.4 : 123
999.7 : 1,000
2.31e7 : 23,100,000
1 : 1.00
0.001 : 0.00100
-2.4e-14 : -2e-14
None : not finite"""))
def test_numbers_have_three_digits(number, text):
    assert experiments.number_text(eval(number)) == text


def test_verdicts_use_the_four_words_and_experiments_that_exist():
    for entry in experiments.VERDICTS:
        assert entry.verdict in ("reproduced", "in the limit", "not reproduced") or (
            entry.verdict.startswith("under a condition: "))
        names = [*experiments.REFERENCE.findall(entry.here), *entry.needs]
        assert {name.partition(": ")[0] for name in names} <= {*experiments.EXPERIMENTS}
        assert "|" not in "".join(entry[:5])


TABLES = """
label   the source says                   verdict                 here                            \
         figure
------  --------------------------------  ----------------------  --------------------------------\
-------  -------------
P1      the conditioning circuit is       not run                                                 \
         equivalence
experiment     source  claim                                     paper      measured              \
  bound
-------------  ------  ----------------------------------------  ---------  ----------------------\
  -------------  -----
associability  P1, A9  a claim that is longer than its column    8 +- 1.22  0.500 [0.400, 0.600]  \
  0.25 to 0.75   holds
                       of forty
"""


def test_the_tables_of_verdicts_and_claims_fit_120_columns():
    row = {"experiment": "associability", "source": "P1, A9", "paper": "8 +- 1.22",
           "claim": "a claim that is longer than its column of forty", "measured": 0.5,
           "interval": [0.4, 0.6], "bound": "0.25 to 0.75", "holds": True}
    verdicts = experiments.verdict_table([]).splitlines()[:3]
    assert ["", *verdicts, *experiments.claims_table([row]).splitlines()] == TABLES.splitlines()


# ----------------------------------------------------------------------------------------- README

README = (HERE / "README.md").read_text(encoding="utf-8")
SAVED = json.loads((HERE / "figures" / "claims.json").read_text(encoding="utf-8"))
EXAMPLES = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", README, re.DOTALL)


@pytest.mark.parametrize("code, printed", EXAMPLES)
def test_each_example_of_the_readme_prints_what_it_says(code, printed):
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(code, {})
    assert len(EXAMPLES) == README.count("```python") and output.getvalue() == printed


def test_the_readme_is_short_its_design_runs_and_its_experiments_and_figures_exist(tmp_path,
                                                                                   capsys):
    command, = re.findall(r"^    python experiments.py (design .*)$", README, re.MULTILINE)
    assert experiments.main([*shlex.split(command), "--out", str(tmp_path)]) == 0
    assert "DeltaNet" in capsys.readouterr().out and (tmp_path / "design.csv").exists()
    named = re.findall(r"`python experiments.py ([a-z ]+)`", README)
    assert named and {*" ".join(named).split()} <= {*experiments.EXPERIMENTS}
    assert all((HERE / name).exists() for name in re.findall(r"\((figures/\S+)\)", README))
    assert len(README.split()) <= 2300


def test_the_readme_s_verdicts_are_those_of_the_claims_it_was_written_from():
    assert experiments.verdict_markdown(SAVED["claims"]) in README
    assert all(row["holds"] for row in SAVED["claims"])
    assert not [entry for entry in experiments.judged(SAVED["claims"])
                if entry.verdict.startswith(("undecided", "not run"))]


def test_the_saved_claims_are_of_the_present_sizes_and_bounds(bounds):
    for name in experiments.EXPERIMENTS.keys() - experiments.BY_NAME_ONLY:
        sizes = experiments.defaults(experiments.EXPERIMENTS[name], 2)
        run = {key: SAVED["parameters"][name][key] for key in ("seed", "device", "seconds")}
        assert SAVED["parameters"][name] == run | json.loads(json.dumps(sizes, default=str))
    saved = {}
    for row in SAVED["claims"]:
        saved.setdefault(row["claim"].partition(":")[0], set()).add(row["bound"])
    assert all(bounds.get(name, set()) <= saved[name] for name in saved)  # all, if all tests run


def test_the_mathematics_imports_numpy_and_the_standard_library_alone():
    for name, own in (("rules.py", set()), ("conditioning.py", {"rules"})):
        tree = ast.parse((HERE / name).read_text(encoding="utf-8"))
        found = {node.module if isinstance(node, ast.ImportFrom) else node.names[0].name
                 for node in ast.walk(tree) if isinstance(node, (ast.Import, ast.ImportFrom))}
        assert {module.partition(".")[0] for module in found} <= own | {
            "numpy", *sys.stdlib_module_names}
