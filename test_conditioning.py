"""All tests: python -m pytest -q

Tolerances are written in full: CLOSE for two float64 forms of one thing, SINGLE for float32.
Numbers of other people's programs stand here with their source.
"""

import ast
import itertools
import json
import os
import re
import subprocess
import sys
import types
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import conditioning
import experiments
import plots
import rules
from conditioning import attention, design_arrays, parse_design, ph_attention
from rules import AssociabilityState, initial_state, learn, memory_of

HERE = Path(__file__).parent
CLOSE = {"rtol": 1e-12, "atol": 1e-12}
SINGLE = {"rtol": 1e-4, "atol": 1e-5}
PARAMETERS = {
    "hebbian": {"beta": 0.1, "decay": 0.9},
    "stimulus_trace": {"beta": 0.1, "trace": 0.6},
    "bush_mosteller": {"beta": 0.2},
    "rescorla_wagner": {"beta": 0.2, "beta_omitted": 0.1, "decay": 0.95},
    "oja": {"beta": 0.1},
    "mackintosh": {"beta": 0.3, "theta": 0.2},
    "pearce_hall": {"beta": 0.3, "eta": 0.2},
    "pearce_kaye_hall": {"beta_excitatory": 0.2, "beta_inhibitory": 0.1, "eta": 0.2},
    "kalman": {"noise": 0.5, "drift": 0.01},
}
EVERY_RULE = pytest.mark.parametrize("name", list(rules.RULES))


def layer(*batch, T=9, K=4, D=2, seed=0, dtype=float):
    """Queries, unit keys with repeats, values and a state."""
    arrays = experiments.random_layer(np.random.default_rng([seed, T]), batch, T, K, D)
    return [array.astype(dtype) for array in arrays]


def arrays_of(state):
    """The arrays of a state, whatever its kind."""
    return list(state) if isinstance(state, tuple) else [state]


# -------------------------------------------------------------------------------------- the rules

# One trial by hand: cue (1, 2), outcome 3, memory (0.5, -0.25), so that the prediction is 0.
HAND = [
    ("hebbian", {"beta": 0.1, "decay": 0.5}, {}, [0.25 + 0.3, -0.125 + 0.6], None),
    ("stimulus_trace", {"beta": 0.1, "trace": 0.5}, {}, [0.5 + 0.3, -0.25 + 0.6], [1, 2]),
    ("bush_mosteller", {"beta": 0.1}, {}, [0.5 + 0.1 * 2.5, -0.25 + 0.2 * 3.5], None),
    ("rescorla_wagner", {"beta": 0.1}, {}, [0.5 + 0.3, -0.25 + 0.6], None),
    ("rescorla_wagner", {"beta": 0.1, "decay": 0.5}, {}, [0.25 + 0.3, -0.125 + 0.6], None),
    ("oja", {"beta": 0.1}, {}, [0.5 + 0.1 * (3 - 4.5), -0.25 + 0.1 * (6 + 2.25)], None),
    # own errors 2.5 and 3.5; the others' errors 3.5 and 2.5: alpha moves by theta x^2 (+-1)
    ("mackintosh", {"beta": 0.1, "theta": 0.1}, {"associability": 0.5},
     [0.5 + 0.05 * 2.5, -0.25 + 0.1 * 3.5], [0.6, 0.1]),
    # alpha moves by eta x^2 (3 - 0.5), here without a clip in reach
    ("pearce_hall", {"beta": 0.1, "eta": 0.1, "bounds": (0, 9)}, {"associability": 0.5},
     [0.5 + 0.05 * 3, -0.25 + 0.1 * 3], [0.75, 1.5]),
    ("pearce_hall", {"beta": 0.1, "eta": 0.1}, {"associability": 0.5},
     [0.5 + 0.05 * 3, -0.25 + 0.1 * 3], [0.75, 1.0]),
    # gain (1, 2) / (5 + 5)
    ("kalman", {"noise": 5.0}, {}, [0.5 + 0.3, -0.25 + 0.6], [[0.9, -0.2], [-0.2, 0.6]]),
    # covariance 2 I after the drift: gain (2, 4) / (10 + 5)
    ("kalman", {"noise": 5.0, "drift": 1.0}, {}, [0.5 + 0.4, -0.25 + 0.8],
     [[2 - 4 / 15, -8 / 15], [-8 / 15, 2 - 16 / 15]]),
]


@pytest.mark.parametrize("name, parameters, start, memory, other", HAND)
def test_one_trial_by_hand(name, parameters, start, memory, other):
    rule, cue, outcome = rules.RULES[name], np.array([1.0, 2.0]), np.array([3.0])
    state = initial_state(rule, cue[None], outcome[None], **start)
    before = np.array([[0.5], [-0.25]])
    state = state._replace(memory=before) if isinstance(state, tuple) else before
    after = rule(state, cue, outcome, **parameters)
    assert_allclose(memory_of(after)[:, 0], memory, **CLOSE)
    if other is not None:
        assert_allclose(after[1], other, **CLOSE)


def test_one_trial_of_pearce_kaye_hall_by_hand():
    rule, cue = rules.pearce_kaye_hall, np.array([1.0, 2.0])
    parameters = {"beta_excitatory": 0.1, "beta_inhibitory": 0.2, "eta": 0.25, "salience": 0.5}
    state = rules.ExcitationInhibitionState(np.array([[0.5], [0.0]]), np.array([[0.0], [0.25]]),
                                            np.array([0.5, 0.5]))
    up = rule(state, cue, np.array([3.0]), **parameters)  # error 3
    assert_allclose(up.excitation[:, 0], [0.5 + 0.1 * 0.25 * 3, 0.1 * 0.5 * 3], **CLOSE)
    assert_allclose(up.inhibition, state.inhibition, **CLOSE)
    assert_allclose(up.associability, [1.0, 1.0], **CLOSE)  # .75 * .5 + .25 * 3, clipped
    down = rule(state, cue, np.array([-0.5]), **parameters)  # error -0.5
    assert_allclose(down.excitation, state.excitation, **CLOSE)
    assert_allclose(down.inhibition[:, 0], [0.2 * 0.25 * 0.5, 0.25 + 0.2 * 0.5 * 0.5], **CLOSE)
    assert_allclose(down.associability, [0.5, 0.5], **CLOSE)


def compounds(*phases):
    """Cues and outcomes of (number, cues, outcome) phases, for example (10, [1, 0], 1)."""
    cues = np.concatenate([np.repeat([np.array(cue, float)], n, axis=0) for n, cue, _ in phases])
    return cues, np.concatenate([np.full((n, 1), float(outcome)) for n, _, outcome in phases])


def final(name, phases, start=None, **parameters):
    """State after the phases."""
    cues, outcomes = compounds(*phases)
    state = initial_state(rules.RULES[name], cues, outcomes, **start or {})
    return learn(rules.RULES[name], cues, outcomes, state=state, **parameters)[1]


ALTERNATING = [(1, [1, 0, 0], 1), (1, [1, 1, 0], 0)] * 20
REDUNDANCY = [(1, [1, 0, 0, 0, 0], 1), (1, [1, 0, 0, 1, 0], 1), (1, [0, 1, 0, 0, 1], 1),
              (1, [0, 0, 1, 0, 1], 0)] * 48
A, AB = [1, 0], [1, 1]
# (source, rule, phases, start, parameters, strengths, relative tolerance: the digits given)
REFERENCES = [
    ("calmr 0.8 RW1972", "rescorla_wagner", [(10, [1], 1)], {}, {"beta": 0.15}, [0.803125595659277],
     1e-12),
    ("calmr 0.8 RW1972", "rescorla_wagner", [(10, [1], 1), (10, [1], 0)], {},
     {"beta": 0.15, "beta_omitted": 0.06}, [0.432575584338556], 1e-12),
    ("calmr, pyndl 1.2, cpm, PALMS", "rescorla_wagner", [(10, A, 1), (10, AB, 1)], {},
     {"beta": 0.16}, [0.9107007471232, 0.0856019758891807], 1e-12),
    ("calmr, PALMS", "rescorla_wagner", [(10, AB, 1)], {}, {"beta": 0.16},
     [0.489430385899214, 0.489430385899214], 1e-12),
    ("calmr, pyndl", "rescorla_wagner", [(20, np.sqrt([0.6, 0.2]), 1)], {}, {"beta": 0.4},
     np.divide([0.749664849773281, 0.24988828325776], np.sqrt([0.6, 0.2])), 1e-12),
    ("calmr", "rescorla_wagner", ALTERNATING, {}, {"beta": 0.16},
     [0.798494169206436, -0.712238971643719, 0], 1e-12),
    ("calmr", "rescorla_wagner", ALTERNATING + [(10, [0, 1, 1], 1)], {}, {"beta": 0.16},
     [0.798494169206436, 0.125782808999539, 0.838021780643259], 1e-12),
    ("catlearn 1.1 slpRW", "rescorla_wagner", REDUNDANCY, {}, {"beta": 0.01},
     [0.56598963, 0.31985658, -0.06531738, 0.24498046, 0.25453919], 8e-8),
    ("catlearn 1.1 slpMack75", "mackintosh", [(10, A, 1), (10, AB, 1)], {"associability": 0.5},
     {"beta": 0.3, "theta": 0.2}, [0.997798245045854, 0.407429172712925], 1e-12),
    ("catlearn 1.1 slpMack75", "mackintosh", [(5, A, 1)], {"associability": 0.5},
     {"beta": 0.3, "theta": 0.2}, [0.598880717245682, 0], 1e-12),
    ("KTD (Gershman)", "kalman", [(10, A, 1), (10, AB, 1)], {}, {"noise": 1.0, "drift": 0.01},
     [0.9340736281, 0.0619668413], 1e-9),
    ("KTD (Gershman)", "kalman", [(10, AB, 1)], {}, {"noise": 1.0, "drift": 0.01},
     [0.4830932139, 0.4830932139], 1e-9),
    ("KTD (Gershman)", "kalman", [(10, AB, 1), (10, A, 1)], {}, {"noise": 1.0, "drift": 0.01},
     [0.9390786003, 0.1163182762], 1e-9),
    ("ridge regression", "kalman", [(10, A, 1), (10, AB, 1)], {}, {"noise": 1.0},
     [120 / 131, 10 / 131], 1e-12),
    ("hgf-toolbox ph_binary", "pearce_hall", [(5, [1], 1)], {"associability": 0.5},
     {"beta": 0.4, "eta": 1.0}, [0.770701545472], 1e-12),
    ("hgf-toolbox ph_binary", "pearce_hall", [(10, [1], 1)], {"associability": 0.5},
     {"beta": 0.4, "eta": 1.0}, [0.8525577183723119], 1e-12),
    ("hgf-toolbox ph_binary", "pearce_hall", [(10, [1], 1), (10, [1], 0)], {"associability": 0.5},
     {"beta": 0.4, "eta": 1.0}, [0.15198581], 1e-7),
]


@pytest.mark.parametrize("source, name, phases, start, parameters, strengths, rtol", REFERENCES)
def test_numbers_of_independent_simulators(source, name, phases, start, parameters, strengths,
                                           rtol):
    assert_allclose(memory_of(final(name, phases, start, **parameters))[:, 0], strengths,
                    rtol=rtol, atol=1e-12, err_msg=source)


PKH = {"beta_excitatory": 0.2, "beta_inhibitory": 0.1}


def test_pearce_kaye_hall_as_palms_and_calmr_have_it():
    blocked = final("pearce_kaye_hall", [(10, A, 1), (10, AB, 1)], {"associability": 0.5},
                    eta=0.3, bounds=(0, np.inf), **PKH)
    assert_allclose(blocked.excitation[:, 0], [1.057472487, 0], rtol=1e-9, atol=1e-12)
    assert_allclose(blocked.inhibition[:, 0], [0.005952, 0.009721], rtol=0, atol=1e-6)
    control = final("pearce_kaye_hall", [(10, AB, 1)], {"associability": 0.5}, eta=0.3,
                    bounds=(0, np.inf), **PKH)
    assert_allclose(control.excitation[:, 0], [0.60521, 0.60521], rtol=0, atol=1e-5)
    assert_allclose(control.inhibition[:, 0], [0.027493, 0.027493], rtol=0, atol=1e-6)
    inhibitor = final("pearce_kaye_hall", [(1, A, 1), (1, AB, 0)] * 10, {"associability": 0.8},
                      eta=0.2, **PKH)
    assert_allclose(inhibitor.excitation[:, 0], [1.18917293246457, 0], **CLOSE)
    assert_allclose(inhibitor.inhibition[:, 0], [0.265736489832025, 0.280693745806494], **CLOSE)


def test_pearce_kaye_hall_trajectory_of_calmr_with_clamped_associability():
    cues, outcomes = compounds((1, [1], 1))
    state = initial_state(rules.pearce_kaye_hall, cues, outcomes, associability=0.4)
    found = []
    for _ in range(5):
        _, state = learn(rules.pearce_kaye_hall, cues, outcomes, state=state, eta=0.3,
                         beta_excitatory=0.4, beta_inhibitory=0.3, bounds=(0.1, 1))
        found.append((state.excitation[0, 0], state.associability[0]))
    expected = [(.16, .58), (.392, .658), (.6552, .643), (.9124, .55354), (1.133816, .413758)]
    assert_allclose(found, expected, **CLOSE)


@pytest.mark.parametrize("trial_types, blocks", [
    ([((1, 0), 1)], 200), ([((1, 0), 1), ((1, 1), 0)], 60), ([((1, 1), 1), ((0, 1), 0)], 60)])
def test_rescorla_wagner_in_exact_fractions(trial_types, blocks):
    beta, strengths, predictions = Fraction(3, 16), [Fraction(0), Fraction(0)], []
    for cue, outcome in trial_types * blocks:
        prediction = sum(w for w, x in zip(strengths, cue, strict=True) if x)
        predictions.append(float(prediction))
        strengths = [w + x * beta * (outcome - prediction)
                     for w, x in zip(strengths, cue, strict=True)]
    cues = np.array([cue for cue, _ in trial_types] * blocks, dtype=float)
    outcomes = np.array([[outcome] for _, outcome in trial_types] * blocks, dtype=float)
    found, memory = learn(rules.rescorla_wagner, cues, outcomes, beta=3 / 16)
    assert_allclose(found[:, 0], predictions, rtol=0, atol=1e-14)
    assert_allclose(memory[:, 0], [float(w) for w in strengths], rtol=0, atol=1e-14)


@EVERY_RULE
def test_batch_axes_dtype_and_arguments(name):
    rule, parameters = rules.RULES[name], PARAMETERS[name]
    _, cues, outcomes, _ = layer(2, 3, T=6)
    kept = cues.copy(), outcomes.copy()
    cues.flags.writeable = outcomes.flags.writeable = False
    predictions, state = learn(rule, cues, outcomes, **parameters)
    assert predictions.shape == (2, 3, 6, 2) and memory_of(state).shape == (2, 3, 4, 2)
    assert_array_equal(cues, kept[0])
    assert_array_equal(outcomes, kept[1])
    for i, j in itertools.product(range(2), range(3)):
        alone, last = learn(rule, cues[i, j], outcomes[i, j], **parameters)
        assert_allclose(predictions[i, j], alone, **CLOSE)
        for whole, part in zip(arrays_of(state), arrays_of(last), strict=True):
            assert_allclose(whole[i, j], part, **CLOSE)
    single, small = learn(rule, cues.astype("f4"), outcomes.astype("f4"), **{
        key: np.float64(value) for key, value in parameters.items()})
    assert single.dtype == np.float32
    assert all(array.dtype == np.float32 for array in arrays_of(small))
    assert_allclose(single, predictions, **SINGLE)
    whole_numbers, _ = learn(rule, np.eye(4, dtype=int), np.ones((4, 1), dtype=int), **parameters)
    assert whole_numbers.dtype == np.float64


@EVERY_RULE
def test_phases_chain_and_test_trials_change_nothing(name):
    rule, parameters = rules.RULES[name], PARAMETERS[name]
    _, cues, outcomes, _ = layer(3, T=8)
    whole, last = learn(rule, cues, outcomes, **parameters)
    first, state = learn(rule, cues[:, :5], outcomes[:, :5], **parameters)
    second, state = learn(rule, cues[:, 5:], outcomes[:, 5:], state=state, **parameters)
    assert_allclose(np.concatenate([first, second], axis=1), whole, **CLOSE)
    tested, after = learn(rule, np.repeat(cues, 2, axis=1), np.repeat(outcomes, 2, axis=1),
                          test=np.arange(16) % 2 == 1, **parameters)
    assert_allclose(tested[:, ::2], whole, **CLOSE)
    for a, b, c in zip(*map(arrays_of, (last, state, after)), strict=True):
        assert_allclose(a, b, **CLOSE)
        assert_allclose(a, c, **CLOSE)
    response, _ = learn(rule, cues[:, :1], outcomes[:, :1], state=last, test=[True], **parameters)
    assert_allclose(response[:, 0], rules.recall(memory_of(last), cues[:, 0]), **CLOSE)


def test_one_group_is_tested_while_the_other_learns():
    cues, outcomes = np.ones((2, 3, 1)), np.ones((2, 3, 1))
    predictions, _ = learn(rules.rescorla_wagner, cues, outcomes, beta=0.5, decay=0.5,
                           test=np.array([[False, True, False], [False, False, False]]))
    assert_allclose(predictions[..., 0], [[0, 0.5, 0.25], [0, 0.25, 0.3125]], **CLOSE)


@EVERY_RULE
def test_parameters_per_trial_and_feature(name):
    rule, parameters = rules.RULES[name], PARAMETERS[name]
    _, cues, outcomes, _ = layer(2, T=5)
    expected, _ = learn(rule, cues, outcomes, **parameters)
    varied = [("every trial", (5,)), ("every group and trial", (2, 5))]
    for _, shape in varied[1:]:
        arrays = {key: np.full(shape, value) for key, value in parameters.items()}
        assert_allclose(learn(rule, cues, outcomes, **arrays)[0], expected, **CLOSE)
    features = {key: np.full((2, 5, 4 if key != "noise" else 1), value)
                for key, value in parameters.items()}
    assert_allclose(learn(rule, cues, outcomes, **features)[0], expected, **CLOSE)


def test_a_rate_per_feature_is_that_feature_s_rate():
    cues, outcomes = np.ones((1, 2)), np.ones((1, 1))
    _, memory = learn(rules.rescorla_wagner, cues, outcomes, beta=np.array([[0.1, 0.3]]))
    assert_allclose(memory[:, 0], [0.1, 0.3], **CLOSE)
    _, memory = learn(rules.hebbian, cues, outcomes, state=np.ones((2, 1)), beta=0.0,
                      decay=np.array([[0.5, 0.25]]))
    assert_allclose(memory[:, 0], [0.5, 0.25], **CLOSE)


def test_more_settings_than_groups_broadcast():
    rates = np.array([[0.1], [0.2], [0.3]])
    predictions, memory = learn(rules.rescorla_wagner, np.ones((1, 4, 1)), np.ones((1, 4, 1)),
                                beta=rates)
    expected = conditioning.acquisition_strength(alpha=1.0, beta=rates, n=np.arange(4))
    assert_allclose(predictions[..., 0], expected, **CLOSE)
    assert memory.shape == (3, 1, 1)


def test_omitted_outcomes_are_learned_toward_zero_each_with_its_rate():
    outcomes = np.array([[1.0, 0.0], [0.0, 2.0]])
    _, memory = learn(rules.rescorla_wagner, np.ones((2, 1)), outcomes, beta=0.5,
                      beta_omitted=0.25, state=np.array([[0.0, 4.0]]))
    assert_allclose(memory, [[0.5 * 0.75, 3 - 0.5 * 1]], **CLOSE)


@EVERY_RULE
def test_absent_cues_and_no_trials_leave_the_state(name):
    rule, parameters = rules.RULES[name], PARAMETERS[name] | (
        {"decay": 1.0} if "decay" in PARAMETERS[name] else {})
    parameters |= {"drift": 0.0} if name == "kalman" else {}
    _, cues, outcomes, _ = layer(T=5)
    _, state = learn(rule, cues, 0.5 * outcomes, **parameters)
    predictions, none = learn(rule, cues[:0], outcomes[:0], state=state, **parameters)
    assert predictions.shape == (0, 2)
    if name != "stimulus_trace":  # whose trace outlasts the cue
        _, empty = learn(rule, 0 * cues[:1], 0 * outcomes[:1], state=state, **parameters)
        for a, b, c in zip(*map(arrays_of, (state, none, empty)), strict=True):
            assert_array_equal(a, b)
            assert_array_equal(a, c)


def test_associability_outside_the_bounds_is_kept_by_absent_features():
    state = AssociabilityState(np.zeros((2, 1)), np.array([3.0, 3.0]))
    after = rules.pearce_hall(state, np.array([1.0, 0.0]), np.array([1.0]), beta=0.1, eta=0.1)
    assert_array_equal(after.associability, [1.0, 3.0])


def test_recall_of_one_cue_and_of_many():
    memory = np.arange(12.0).reshape(2, 3, 2)
    cues = np.arange(24.0).reshape(2, 4, 3)
    many, one = rules.recall(memory, cues), rules.recall(memory, cues[:, 0])
    assert_allclose(many, np.einsum("btk,bkd->btd", cues, memory), **CLOSE)
    assert_allclose(one, many[:, 0], **CLOSE)


def test_huge_and_tiny_outcomes():
    for size in (1e-200, 1e200):
        cues, outcomes = np.ones((3, 1)), np.full((3, 2), size)
        state = initial_state(rules.pearce_hall, cues, outcomes)
        _, after = learn(rules.pearce_hall, cues, outcomes, state=state, beta=0.5, eta=0.5)
        assert np.all(np.isfinite(after.memory)) and np.all(np.isfinite(after.associability))


def test_oja_is_bounded_inverts_the_gain_and_does_not_extinguish():
    cues, outcomes = np.ones((200, 1)), np.full((200, 1), 2.0)
    _, memory = learn(rules.oja, cues, outcomes, beta=0.2)
    assert_allclose(memory, [[0.5]], **CLOSE)
    assert_array_equal(learn(rules.oja, cues, 0 * outcomes, state=memory, beta=0.2)[1], memory)


def test_a_rule_of_one_s_own_brings_its_start_along():
    cues, outcomes = np.ones((6, 1)), np.ones((6, 1))
    predictions, state = learn(experiments.preconditioned, cues, outcomes, beta=0.5, scale=1.0)
    strength, expected = 0.0, []
    for t in range(6):
        expected.append(strength)
        strength += 0.5 / (1 + t) * (1 - strength)
    assert_allclose(predictions[:, 0], expected, **CLOSE)
    assert_allclose(state.usage, [6.0], **CLOSE)


BAD_RULE_CALLS = [
    (lambda: learn(rules.hebbian, np.ones((3, 2)), np.ones((4, 1)), beta=1), "same number of tri"),
    (lambda: learn(rules.hebbian, np.ones(3), np.ones((3, 1)), beta=1), r"cues must be"),
    (lambda: learn(rules.hebbian, np.ones((3, 2)), np.ones((3, 1)), bta=1), "no parameter bta.*be"),
    (lambda: learn(rules.hebbian, np.ones((3, 2)), np.ones((3, 1))), "needs the parameter beta"),
    (lambda: learn(rules.hebbian, np.ones((3, 2)), np.ones((3, 1)), beta=np.ones((1, 1, 1))),
     r"beta must be a number or have 1 axes"),
    (lambda: rules.hebbian(np.ones((2, 1)), np.ones(3), np.ones(1), beta=1), "cue must be"),
    (lambda: rules.hebbian(np.ones((2, 1)), np.ones(2), np.ones(2), beta=1), "outcome must be"),
    (lambda: rules.recall(np.ones((2, 1)), np.ones((5, 3))), "do not match"),
    (lambda: initial_state(rules.hebbian, np.ones((3, 2)), np.ones((3, 1)), prior=1),
     "hebbian has no start value prior; allowed: none"),
    (lambda: initial_state(rules.kalman, np.ones((3, 2)), np.ones((3, 1)), associability=1),
     "allowed: prior"),
    (lambda: learn(rules.hebbian, np.ones((3, 2)) * 1j, np.ones((3, 1)), beta=1), "cues must be r"),
    (lambda: learn(rules.hebbian, np.array([["a"]]), np.ones((1, 1)), beta=1), "cues must be real"),
    (lambda: rules.array_module("text"), "expected an array or a number"),
    (lambda: rules.array_module({}), "expected an array or a number"),
]


@pytest.mark.parametrize("call, message", BAD_RULE_CALLS)
def test_bad_rule_calls_say_what_is_allowed(call, message):
    with pytest.raises((ValueError, TypeError), match=message):
        call()


@EVERY_RULE
def test_cues_in_another_order_are_the_same_cues_to_every_rule(name):
    rule, parameters, order = rules.RULES[name], PARAMETERS[name], [2, 0, 3, 1]
    _, cues, outcomes, _ = layer(3, T=8)
    predictions, state = learn(rule, cues, outcomes, **parameters)
    same, turned = learn(rule, cues[..., order], outcomes, **parameters)
    assert_allclose(same, predictions, **CLOSE)
    assert_allclose(memory_of(turned), memory_of(state)[:, order], **CLOSE)


@pytest.mark.parametrize("name", ["hebbian", "stimulus_trace", "bush_mosteller", "rescorla_wagner",
                                  "kalman"])
def test_larger_outcomes_give_larger_predictions_in_linear_rules(name):
    rule, parameters = rules.RULES[name], PARAMETERS[name]
    _, cues, outcomes, _ = layer(3, T=8)
    predictions, state = learn(rule, cues, outcomes, **parameters)
    for size in (-3.0, 1e-200, 1e200):
        found, last = learn(rule, cues, size * outcomes, **parameters)
        assert_allclose(found / size, predictions, **CLOSE)
        assert_allclose(memory_of(last) / size, memory_of(state), **CLOSE)


@EVERY_RULE
def test_any_order_in_memory_gives_the_same_and_the_memory_keeps_it(name):
    rule, parameters = rules.RULES[name], PARAMETERS[name]
    _, cues, outcomes, _ = layer(3, T=8)
    predictions, state = learn(rule, cues, outcomes, **parameters)
    last = [np.moveaxis(np.moveaxis(a, 0, -1).copy(), -1, 0) for a in (cues, outcomes)]
    for array in last:
        array.flags.writeable = False
    found, after = learn(rule, *last, **parameters)
    assert_allclose(found, predictions, **CLOSE)
    assert_allclose(memory_of(after), memory_of(state), **CLOSE)
    if name != "kalman":  # whose memory follows its covariance
        assert memory_of(after).strides[0] == memory_of(after).itemsize


# ------------------------------------------------------------------------------- attention forms


@pytest.mark.parametrize("batch", [(), (3,), (2, 3)])
@pytest.mark.parametrize("T", [0, 1, 2, 7, 33])
def test_three_forms_of_attention_and_the_rule_agree(batch, T):
    rng = np.random.default_rng(T)
    queries, keys, values, start = layer(*batch, T=T, K=5, D=3)
    rates = [0.7, rng.uniform(0, 2, batch + (T,)), rng.uniform(0, 1, batch + (T, 5))]
    decays = [1.0, 0.0, *(rng.integers(0, 3, batch + axes) / 2 for axes in ((T,), (T, 5)))]
    for beta, decay, correcting in itertools.product(rates, decays, (False, True)):
        options = {"beta": beta, "decay": decay, "error_correcting": correcting, "state": start}
        rule = rules.rescorla_wagner if correcting else rules.hebbian
        expected, memory = experiments.rule_outputs(rule, queries, keys, values, state=start,
                                                    beta=beta, decay=decay)
        found = [attention(queries, keys, values, form="recurrent", **options),
                 attention(queries, keys, values, form="parallel", **options)]
        found += [attention(queries, keys, values, chunk=chunk, **options)
                  for chunk in (1, 2, 5, 16, 32, 33, 64)]
        for outputs, state in found:
            assert outputs.shape == batch + (T, 3)
            assert_allclose(outputs, expected, **CLOSE)
            assert_allclose(state, memory, **CLOSE)


@pytest.mark.parametrize("beta", [0.3, 0.6, 1.0, 1.9])
@pytest.mark.parametrize("text", ["64A+", "32A+ | 32AB+", "32A+/32AB-"])
def test_a_cue_repeated_64_times(beta, text):
    scale = 1.0 if "B" not in text else 0.5
    cues, outcomes, _ = design_arrays(text, cues="AB", saliences={"A": scale, "B": scale})
    expected, memory = learn(rules.rescorla_wagner, cues, outcomes, beta=beta)
    for form in ("recurrent", "parallel", "chunkwise"):
        _, state = attention(cues, cues, outcomes, beta=beta, error_correcting=True, form=form,
                             chunk=64)
        assert_allclose(state, memory, rtol=1e-12, atol=1e-12)
    errors = conditioning.prediction_errors(cues, outcomes, beta=beta)
    assert_allclose(errors, outcomes - expected, rtol=1e-12, atol=1e-12)


def test_decay_comes_first_then_the_error_on_what_is_left():
    # Gated DeltaNet twice on one key, decay and rate .5: .5, then .25 + .5 * .75 = .625
    ones = np.ones((2, 1))
    for form in ("recurrent", "parallel", "chunkwise"):
        outputs, _ = conditioning.gated_deltanet(ones, ones, ones, beta=0.5, decay=0.5, form=form)
        assert_allclose(outputs[:, 0], [0.5, 0.625], **CLOSE)


def test_corners_are_what_their_names_say():
    queries, keys, values, start = layer(2, T=7)
    decay = np.full((2, 7), 0.8)
    for corner, options, expected in [
            (conditioning.linear_attention, {"beta": 0.3}, (0.3, 1.0, False)),
            (conditioning.retention, {"decay": decay}, (1.0, 0.8, False)),
            (conditioning.deltanet, {"beta": 0.3}, (0.3, 1.0, True)),
            (conditioning.gated_deltanet, {"beta": 0.3, "decay": decay}, (0.3, 0.8, True))]:
        beta, kept, correcting = expected
        memory, outputs = start, []
        for t in range(7):
            memory = kept * memory
            error = values[:, t] - correcting * np.einsum("bkd,bk->bd", memory, keys[:, t])
            memory = memory + beta * np.einsum("bk,bd->bkd", keys[:, t], error)
            outputs.append(np.einsum("bkd,bk->bd", memory, queries[:, t]))
        found, state = corner(queries, keys, values, state=start, **options)
        assert_allclose(found, np.stack(outputs, axis=1), **CLOSE)
        assert_allclose(state, memory, **CLOSE)


@pytest.mark.parametrize("batch", [(), (3,), (2, 3)])
@pytest.mark.parametrize("T", [0, 1, 2, 7, 33])
def test_two_forms_of_ph_attention_and_the_rule_agree(batch, T):
    rng = np.random.default_rng(T)
    queries, keys, values, start = layer(*batch, T=T, K=5, D=3)
    keys[..., ::2, 0] = 0.0
    state = AssociabilityState(start, rng.uniform(0, 1, batch + (5,)))
    for beta, eta in ((0.7, 0.3), (rng.uniform(0, 1, batch + (T,)), 0.9),
                      (rng.uniform(0, 1, batch + (T, 5)), rng.uniform(0, 1, batch + (T,)))):
        expected, last = experiments.rule_outputs(rules.pearce_hall, queries, keys, values,
                                                  state=state, beta=beta, eta=eta)
        for form in ("recurrent", "parallel"):
            outputs, after = ph_attention(queries, keys, values, beta=beta, eta=eta, state=state,
                                          form=form)
            assert_allclose(outputs, expected, **CLOSE)
            assert_allclose(after.memory, last.memory, **CLOSE)
            assert_allclose(after.associability, last.associability, **CLOSE)


def test_ph_attention_starts_at_the_associability_given():
    queries, keys, values, _ = layer(2, T=6)
    start = initial_state(rules.pearce_hall, keys, values, associability=0.4)
    _, last = learn(rules.pearce_hall, keys, values, state=start, beta=0.5, eta=0.2,
                    bounds=(0.3, 0.6))
    for form in ("recurrent", "parallel"):
        _, after = ph_attention(queries, keys, values, beta=0.5, eta=0.2, associability=0.4,
                                bounds=(0.3, 0.6), form=form)
        assert_allclose(after.associability, last.associability, **CLOSE)
    assert last.associability.min() >= 0.3 and last.associability.max() <= 0.6


@pytest.mark.parametrize("ridge, noise, prior", [(1.0, 1.0, 1.0), (0.5, 1.0, 2.0), (2.0, 1.0, 0.5)])
def test_mesa_attention_is_the_kalman_filter_without_drift(ridge, noise, prior):
    queries, keys, values, _ = layer(2, T=12)
    start = initial_state(rules.kalman, keys, values, prior=prior)
    expected, _ = experiments.rule_outputs(rules.kalman, queries, keys, values, state=start,
                                           noise=noise)
    found = conditioning.mesa_attention(queries, keys, values, ridge=ridge)
    assert_allclose(found, expected, rtol=1e-10, atol=1e-10)


def test_softmax_attention_is_a_causal_weighted_mean():
    queries, keys, values, _ = layer(2, T=5)
    found = conditioning.softmax_attention(queries, keys, values, scale=0.5)
    for b, t in itertools.product(range(2), range(5)):
        weights = np.exp([0.5 * queries[b, t] @ keys[b, s] for s in range(t + 1)])
        assert_allclose(found[b, t], weights @ values[b, :t + 1] / weights.sum(), **CLOSE)
    huge = conditioning.softmax_attention(1e4 * queries, keys, values, scale=1.0)
    assert np.all(np.isfinite(huge))


def test_filtered_keys_are_the_stimulus_trace():
    assert max(experiments.relative_errors(np.random.default_rng(0), np, (2,), 20)) < 1e-12


def test_prediction_errors_from_a_start():
    _, keys, values, start = layer(2, 3, T=20)
    decay = np.random.default_rng(0).uniform(0, 1, (2, 3, 20))
    predictions, _ = learn(rules.rescorla_wagner, keys, values, state=start, beta=0.4, decay=decay)
    errors = conditioning.prediction_errors(keys, values, state=start, beta=0.4, decay=decay)
    assert_allclose(values - errors, predictions, **CLOSE)


def test_rates_at_their_limits():
    queries, keys, values, start = layer(T=6)
    for correcting in (False, True):
        _, state = attention(queries, keys, values, beta=0.0, state=start,
                             error_correcting=correcting)
        assert_array_equal(state, start)
    one = np.ones((3, 1))
    outputs, _ = conditioning.deltanet(one, one, np.array([[1.0], [5], [-2]]), beta=1.0)
    assert_allclose(outputs[:, 0], [1, 5, -2], **CLOSE)  # rate 1, unit key: the last value wins
    outputs, _ = conditioning.deltanet(one, one, one, beta=2.0)
    assert_allclose(outputs[:, 0], [2, 0, 2], **CLOSE)  # rate 2: swings and does not settle
    outputs, _ = conditioning.retention(one, one, one, decay=0.0)
    assert_allclose(outputs[:, 0], [1, 1, 1], **CLOSE)
    zero, values = np.array([[0.0, 0], [1, 0], [0, 0]]), np.array([[9.0], [1], [9]])
    outputs, state = conditioning.deltanet(zero, zero, values, beta=0.5)
    assert_allclose(outputs[:, 0], [0, 0.5, 0], **CLOSE)
    assert_allclose(state[:, 0], [0.5, 0], **CLOSE)


@pytest.mark.parametrize("form", ["recurrent", "parallel", "chunkwise"])
def test_attention_keeps_dtype_and_arguments(form):
    arrays = layer(2, T=20, dtype=np.float32)
    copies = [array.copy() for array in arrays]
    for array in arrays:
        array.flags.writeable = False
    for beta in (np.float64(0.5), np.full((2, 20), 0.5)):
        outputs, state = attention(*arrays[:3], state=arrays[3], beta=beta, decay=np.float64(0.9),
                                   error_correcting=True, form=form)
        assert outputs.dtype == state.dtype == np.float32
        expected, _ = attention(*(array.astype(float) for array in arrays[:3]), beta=0.5, decay=0.9,
                                state=arrays[3].astype(float), error_correcting=True, form=form)
        assert_allclose(outputs, expected, **SINGLE)
    for array, copy in zip(arrays, copies, strict=True):
        assert_array_equal(array, copy)
    outputs, state = attention(np.eye(2, dtype=int), np.eye(2, dtype=int), np.eye(2, dtype=int))
    assert outputs.dtype == state.dtype == np.float64


Q, K_, V = np.ones((4, 2)), np.ones((4, 2)), np.ones((4, 3))
BAD_ATTENTION_CALLS = [
    (lambda: attention(Q, K_, V, form="parallell"), "form must be recurrent, parallel or chunkw"),
    (lambda: attention(Q, K_, V, chunk=0), "chunk must be a whole number.*got 0"),
    (lambda: attention(Q, K_, V, chunk=1.5), "chunk must be a whole number"),
    (lambda: attention(Q, K_, V, chunk=True), "chunk must be a whole number"),
    (lambda: attention(Q[:3], K_, V), "queries and keys must both be"),
    (lambda: attention(Q, K_, V[:3]), "values must be"),
    (lambda: attention(Q, K_, V, state=np.ones((3, 2))), r"state must be .* = \(..., 2, 3\)"),
    (lambda: attention(Q, K_, V, beta=np.ones(())[None, None, None]), "beta must be a number or"),
    (lambda: attention(Q, K_, V, decay=np.ones((1, 1, 4))), "decay must be a number or have 1"),
    (lambda: attention(Q + 1j, K_, V), "queries must be real"),
    (lambda: ph_attention(Q, K_, V, beta=1, eta=1, form="chunkwise"), "form must be recurrent or"),
]


@pytest.mark.parametrize("call, message", BAD_ATTENTION_CALLS)
def test_bad_attention_calls_say_what_is_allowed(call, message):
    with pytest.raises((ValueError, TypeError), match=message):
        call()


# Naive operators of flash-linear-attention (commit bc3b101) on cases small enough to read, its
# hidden scale K^-1/2 taken off the queries: (case, key features, values, queries, options, outputs,
# last state). One feature a token is written as a list of numbers.
FLASH_LINEAR_ATTENTION = [
    ("the last value wins at beta 1", [[1, 0]] * 3, [1, 5, -2], [[1, 0]] * 3, {"beta": 1.0},
     [1, 5, -2], [-2, 0]),
    ("acquisition", [1] * 5, [1] * 5, [1] * 5, {"beta": 0.3},
     [0.3, 0.51, 0.657, 0.7599, 0.83193], [0.83193]),
    ("blocking, compound of length 1", [[1, 0]] * 4 + [[0.5**0.5] * 2] * 4, [1] * 8, [[0, 1]] * 8,
     {"beta": 0.25}, [0] * 4 + [0.0913274765466369, 0.15982308395661457, 0.21119478951409784,
                                0.24972356868221027], [0.9333173186822102, 0.2497235686822102]),
    ("a key of zeros", [[0, 0], [1, 0], [0, 0]], [9, 1, 9], [[0, 0], [1, 0], [0, 0]],
     {"beta": 0.5}, [0, 0.5, 0], [0.5, 0]),
    ("beyond the limit of stability", [1] * 6, [1] * 6, [1] * 6, {"beta": 2.2},
     [2.2, -0.44, 2.728, -1.0736, 3.48832, -1.985984], [-1.985984]),
    ("keys of length 2", [2] * 4, [1] * 4, [2] * 4, {"beta": 1.0}, [4, -8, 28, -80], [-40]),
    ("one token", [[0.6, 0.8]], [2], [[0.6, 0.8]], {"beta": 0.5}, [1], [0.6, 0.8]),
    ("orthonormal keys: Hebb", np.eye(3).tolist(), [1, 2, 3], [[1, 1, 1]] * 3, {"beta": 1.0},
     [1, 3, 6], [1, 2, 3]),
    ("gated, toward beta / (1 - decay (1 - beta))", [1] * 6, [1] * 6, [1] * 6,
     {"beta": 0.5, "decay": 0.9},
     [0.5, 0.725, 0.82625, 0.8718125, 0.892315625, 0.90154203125], [0.90154203125]),
    ("retention", [1, 0, 0, 0], [1, 0, 0, 0], [1] * 4,
     {"decay": 0.5, "error_correcting": False}, [1, 0.5, 0.25, 0.125], [0.125]),
    ("linear attention counts", [1] * 5, [1] * 5, [1] * 5, {"error_correcting": False},
     [1, 2, 3, 4, 5], [5]),
]


@pytest.mark.parametrize("form", ["recurrent", "parallel", "chunkwise"])
@pytest.mark.parametrize("case, keys, values, queries, options, outputs, last",
                         FLASH_LINEAR_ATTENTION, ids=[row[0] for row in FLASH_LINEAR_ATTENTION])
def test_numbers_of_flash_linear_attention(case, keys, values, queries, options, outputs, last,
                                           form):
    T = len(values)
    arrays = (np.reshape(np.array(a, dtype=float), (T, -1)) for a in (queries, keys, values))
    found, state = attention(*arrays, form=form, **{"error_correcting": True} | options)
    assert_allclose(found[:, 0], outputs, **CLOSE)
    assert_allclose(state[:, 0], last, **CLOSE)


def corner(name, *batch, T, K=4, seed=0):
    """Options of a corner of `attention`, rates and decays drawn for every token."""
    rng = np.random.default_rng([seed, T])
    beta, feature_beta = rng.uniform(0, 1.9, batch + (T,)), rng.uniform(0, 1, batch + (T, K))
    decay, feature_decay = rng.uniform(0.5, 1, batch + (T,)), rng.uniform(0, 1, batch + (T, K))
    decay[..., 2::5] = 0.0
    return {"linear": {}, "retention": {"decay": decay}, "GLA": {"decay": feature_decay},
            "deltanet": {"beta": beta, "error_correcting": True},
            "gated": {"beta": beta, "decay": decay, "error_correcting": True},
            "beta per feature": {"beta": feature_beta, "decay": decay, "error_correcting": True},
            "KDA": {"beta": beta, "decay": feature_decay, "error_correcting": True}}[name]


EVERY_CORNER = pytest.mark.parametrize(
    "name", ["linear", "retention", "GLA", "deltanet", "gated", "beta per feature", "KDA"])
EVERY_FORM = pytest.mark.parametrize("form", [
    {"form": "recurrent"}, {"form": "parallel"}, {"chunk": 3}, {"chunk": 16}],
    ids=["recurrent", "parallel", "chunk3", "chunk16"])


@EVERY_CORNER
def test_every_chunk_size(name):
    queries, keys, values, start = layer(2, T=37)
    options = corner(name, 2, T=37) | {"state": start}
    expected = attention(queries, keys, values, form="recurrent", **options)
    for chunk in range(1, 40):
        for found, wanted in zip(attention(queries, keys, values, chunk=chunk, **options), expected,
                                 strict=True):
            assert_allclose(found, wanted, **CLOSE)


@EVERY_FORM
@EVERY_CORNER
def test_batch_axes_never_change_a_result(name, form):
    queries, keys, values, start = layer(2, 3, T=9)
    options = corner(name, 2, 3, T=9) | form
    outputs, state = attention(queries, keys, values, state=start, **options)
    for i, j in itertools.product(range(2), range(3)):
        one = {key: value[i, j] if isinstance(value, np.ndarray) else value
               for key, value in options.items()}
        alone, last = attention(queries[i, j], keys[i, j], values[i, j], state=start[i, j], **one)
        assert_allclose(outputs[i, j], alone, **CLOSE)
        assert_allclose(state[i, j], last, **CLOSE)


@EVERY_FORM
@EVERY_CORNER
def test_arguments_that_share_batch_axes_broadcast(name, form):
    queries, keys, values, start = (a[0] for a in layer(1, T=9))
    whole = attention(queries, keys, values, state=start, **corner(name, T=9), **form)

    def repeated(array, times, axis):
        return np.repeat(array[None, None, None], times, axis)
    options = {key: repeated(value, 2, 2) if isinstance(value, np.ndarray) else value
               for key, value in corner(name, T=9).items()}
    found = attention(repeated(queries, 2, 0), repeated(keys, 1, 0), repeated(values, 3, 1),
                      state=start, **options, **form)
    batch = (2, 3, 1 if name == "linear" else 2)
    for several, one in zip(found, whole, strict=True):
        assert_allclose(several, np.broadcast_to(one, batch + one.shape), **CLOSE)


@EVERY_FORM
@EVERY_CORNER
def test_cues_in_another_order_are_the_same_cues(name, form):
    queries, keys, values, start = layer(2, T=9)
    options, order = corner(name, 2, T=9), [2, 0, 3, 1]
    outputs, state = attention(queries, keys, values, state=start, **options, **form)
    moved = {key: value[..., order] if np.ndim(value) == 3 else value
             for key, value in options.items()}
    same, turned = attention(queries[..., order], keys[..., order], values,
                             state=start[:, order], **moved, **form)
    assert_allclose(same, outputs, **CLOSE)
    assert_allclose(turned, state[:, order], **CLOSE)


@EVERY_FORM
@EVERY_CORNER
def test_a_sequence_cut_anywhere_is_the_same(name, form):
    arrays, options = layer(2, T=9), corner(name, 2, T=9)
    start, arrays = arrays[3], arrays[:3]
    outputs, state = attention(*arrays, state=start, **options, **form)
    for cut in range(10):
        parts, last = [], start
        for part in (slice(cut), slice(cut, None)):
            now = {key: value[:, part] if isinstance(value, np.ndarray) else value
                   for key, value in options.items()}
            found, last = attention(*(a[:, part] for a in arrays), state=last, **now, **form)
            parts.append(found)
        assert_allclose(np.concatenate(parts, axis=1), outputs, **CLOSE)
        assert_allclose(last, state, **CLOSE)


@EVERY_FORM
@EVERY_CORNER
def test_larger_outcomes_give_larger_predictions(name, form):
    queries, keys, values, start = layer(2, T=9)
    options = corner(name, 2, T=9) | form
    outputs, state = attention(queries, keys, values, state=start, **options)
    for size in (-3.0, 1e-200, 1e200):
        found, last = attention(queries, keys, size * values, state=size * start, **options)
        assert_allclose(found / size, outputs, **CLOSE)
        assert_allclose(last / size, state, **CLOSE)


@EVERY_FORM
@pytest.mark.parametrize("size", [1e-70, 1e70])
def test_larger_cues_at_a_smaller_rate_learn_the_same(size, form):
    queries, keys, values, _ = layer(2, T=9)
    options = corner("gated", 2, T=9) | form
    outputs, state = attention(queries, keys, values, **options)
    found, last = attention(size * queries, size * keys, values,
                            **options | {"beta": options["beta"] / size**2})
    assert_allclose(found, outputs, **CLOSE)
    assert_allclose(last * size, state, **CLOSE)


@EVERY_FORM
@EVERY_CORNER
def test_single_precision_within_its_bound(name, form):
    queries, keys, values, start = layer(2, T=200)
    options = corner(name, 2, T=200)
    outputs, _ = attention(queries, keys, values, state=start, **options, **form)
    low = {key: value.astype(np.float32) if isinstance(value, np.ndarray) else value
           for key, value in options.items()}
    found, _ = attention(*(a.astype(np.float32) for a in (queries, keys, values)),
                         state=start.astype(np.float32), **low, **form)
    assert found.dtype == np.float32
    assert np.max(abs(found - outputs)) < 3e-6 * np.max(abs(outputs))


@EVERY_FORM
@EVERY_CORNER
def test_any_order_in_memory_and_read_only_arrays(name, form):
    def scattered(array):
        """The same numbers as a read-only view that is contiguous along no axis."""
        wide = np.full(array.shape[::-1] + (2,), np.nan)
        wide[..., 1] = array.T
        view = wide[::-1, ..., 1].T[..., ::-1]
        view.flags.writeable = False
        return view
    arrays, options = layer(2, T=9), corner(name, 2, T=9)
    expected = attention(*arrays[:3], state=arrays[3], **options, **form)
    views = [scattered(array) for array in arrays]
    strange = {key: scattered(value) if isinstance(value, np.ndarray) else value
               for key, value in options.items()}
    for found, wanted in zip(attention(*views[:3], state=views[3], **strange, **form), expected,
                             strict=True):
        assert_allclose(found, wanted, **CLOSE)


@EVERY_FORM
def test_axes_of_length_0(form):
    for batch, T, K, D in (((0,), 5, 3, 2), ((2,), 0, 3, 2), ((2,), 5, 0, 2), ((2,), 5, 3, 0)):
        outputs, state = attention(np.ones(batch + (T, K)), np.ones(batch + (T, K)),
                                   np.ones(batch + (T, D)), beta=0.1, decay=0.5,
                                   error_correcting=True, **form)
        assert outputs.shape == batch + (T, D) and state.shape == batch + (K, D)
        assert np.all(outputs == 0) or K > 0


# ------------------------------------------------------------------------- designs, closed forms


def test_a_design_is_read_as_it_is_written():
    design = parse_design(" 10A+/10AB- | 5 B++ | _ | 20A+50% | AB? ")
    assert design.cues == ("A", "B")
    assert [[(t.count, t.cues, t.outcome) for t in phase] for phase in design.phases] == [
        [(10, "A", "+"), (10, "AB", "-")], [(5, "B", "++")], [(1, "", "-")],
        [(10, "A", "+"), (10, "A", "-")], [(1, "AB", "?")]]
    assert parse_design("A\u2212") == parse_design("A-")._replace(text="A\u2212")
    assert [str(t) for phase in design.phases for t in phase][:4] == ["A+", "AB-", "B++", "_"]


@pytest.mark.parametrize("text, character, expected", [
    ("", 1, "expected a trial"), ("10a+", 3, "expected a trial"), ("10A", 4, "expected a trial"),
    ("A+ | | B+", 6, "expected a trial"), ("A+/", 4, "expected a trial"),
    ("A+x", 3, "expected / or |"), ("A+ B+", 4, "expected / or |"), ("AA+", 1, "once"),
    ("3B-|0A+", 5, "at least once"), ("10A+33%", 5, "percentage"), ("10A-50%", 5, "percentage"),
    ("10A+200%", 5, "percentage"), ("10", 3, "expected a trial"), ("_+", 2, "expected / or |"),
    ("A+++", 4, "expected / or |")])
def test_a_malformed_design_is_an_error_that_shows_the_place(text, character, expected):
    with pytest.raises(ValueError, match=re.escape(expected)) as error:
        parse_design(text)
    assert f"character {character}:" in str(error.value)
    assert "\n" not in str(error.value)


def test_designs_become_arrays():
    cues, outcomes, test = design_arrays("2A+/4B- | 2_ | AB++ | A?", us=(1.0, 3.0))
    A, B, none = [1, 0], [0, 1], [0, 0]
    assert cues.tolist() == [B, A, B, B, A, B, none, none, [1, 1], A]  # spread evenly
    assert outcomes[:, 0].tolist() == [0, 1, 0, 0, 1, 0, 0, 0, 3, 0]
    assert test.tolist() == [False] * 9 + [True]
    wider = design_arrays("B+", cues="ABC").cues
    assert wider.tolist() == [[0, 1, 0]]
    salient = design_arrays("A+ | AB+", saliences={"A": 0.25}).cues
    assert salient.tolist() == [[0.5, 0], [0.5, 1]]
    similar = design_arrays("A+ | B+", similarity={"AB": 0.6}, saliences={"B": 0.25}).cues
    assert_allclose(similar @ similar.T, [[1, 0.3], [0.3, 0.25]], **CLOSE)
    unit = design_arrays("A+ | AB+ | _", compound="normalised", saliences={"A": 0.25}).cues
    assert_allclose(np.sum(unit**2, axis=-1), [1, 1, 0], **CLOSE)
    assert_allclose(unit[1, 1] / unit[1, 0], 2, **CLOSE)


def test_random_orders_are_seeded_and_mirrored_orders_exchange_outcomes():
    text = "6A+/6A- | 4B+"
    cues, outcomes, test = design_arrays(text, order="random", orders=5, seed=3)
    assert cues.shape == (5, 16, 2) and outcomes.shape == (5, 16, 1) and test.shape == (5, 16)
    assert_array_equal(outcomes[:, :12].sum(axis=1), np.full((5, 1), 6))
    assert len({order.tobytes() for order in outcomes}) == 5
    assert_array_equal(design_arrays(text, order="random", orders=2, seed=3).outcomes, outcomes[:2])
    assert not np.array_equal(
        design_arrays(text, order="random", orders=5, seed=4).outcomes, outcomes)
    pairs = design_arrays(text, order="mirrored", orders=5, seed=3)
    assert pairs.cues.shape == (5, 2, 16, 2)
    assert_array_equal(pairs.outcomes[:, 0], outcomes)
    assert_array_equal(pairs.cues[:, 0], pairs.cues[:, 1])
    assert_array_equal(pairs.outcomes[:, :, :12].sum(axis=1), np.ones((5, 12, 1)))
    assert_array_equal(pairs.outcomes[:, :, 12:], np.ones((5, 2, 4, 1)))


@pytest.mark.parametrize("options, message", [
    ({"order": "shuffled"}, "order must be"), ({"compound": "product"}, "compound sum or norm"),
    ({"cues": "AC"}, "must contain the design's cues"), ({"saliences": {"Z": 1}}, "must name the"),
    ({"saliences": {"A": -1}}, "above 0"), ({"saliences": {"A": np.nan}}, "above 0"),
    ({"similarity": {"AB": 1.0}}, "linearly independent"), ({"similarity": {"A": 0.5}}, "two of"),
    ({"order": "mirrored"}, "has a mirror only")])
def test_bad_design_options_say_what_is_allowed(options, message):
    with pytest.raises(ValueError, match=message):
        design_arrays("A+/2B-", **options)


def test_designs_go_to_learn_and_to_attention_alike():
    arrays = design_arrays("10A+/10AB- | 3_ | A? | 5B+ | B?", saliences={"B": 0.5})
    parameters = {"beta": 0.2, "decay": 0.97}
    predictions, _ = learn(rules.rescorla_wagner, arrays.cues, arrays.outcomes, test=arrays.test,
                           **parameters)
    outputs, _ = conditioning.gated_deltanet(arrays.cues, arrays.cues, arrays.outcomes,
                                             **conditioning.frozen(arrays.test, **parameters))
    assert_allclose(outputs[arrays.test], predictions[arrays.test], **CLOSE)
    features = {key: np.full(arrays.cues.shape, value) for key, value in parameters.items()}
    held = conditioning.frozen(arrays.test, **features)
    assert held["beta"].shape == arrays.cues.shape
    assert_allclose(conditioning.prediction_errors(arrays.cues, arrays.outcomes, **held),
                    arrays.outcomes - predictions, **CLOSE)


def simulated(text, beta, cue, **options):
    """Rescorla-Wagner's response to a cue after each trial of a one-phase design's last phase."""
    arrays = design_arrays(text + f" | {cue}?", **options)
    return learn(rules.rescorla_wagner, arrays.cues, arrays.outcomes, test=arrays.test,
                 beta=beta)[0][-1, 0]


@pytest.mark.parametrize("beta", [0.05, 0.3, 1.0])
def test_closed_forms_against_simulation(beta):
    n = np.array([1, 5, 20])
    runs = [f"{k}A+" for k in n]
    size = {"saliences": {"A": 0.5}}
    acquired = conditioning.acquisition_strength(alpha=0.5, beta=beta, n=n)
    assert_allclose(acquired, [simulated(run, beta, "A", **size) for run in runs], **CLOSE)
    assert_allclose(conditioning.extinction_strength(V_0=acquired[1], alpha=0.5, beta=beta, n=n),
                    [simulated(f"5A+ | {k}A-", beta, "A", **size) for k in n], **CLOSE)
    both = {"saliences": {"A": 0.5, "X": 0.25}}
    compound = conditioning.compound_strength(alphas=[0.5, 0.25], beta=beta, n=n)
    for column, cue in enumerate("AX"):
        assert_allclose(compound[:, column],
                        [simulated(f"{k}AX+", beta, cue, **both) for k in n], **CLOSE)
    over = conditioning.compound_strength(alphas=[0.5, 0.25], beta=beta, n=n, V_0=[
        conditioning.acquisition_strength(alpha=alpha, beta=beta, n=9) for alpha in (0.5, 0.25)])
    for column, cue in enumerate("AX"):
        assert_allclose(over[:, column], [simulated(f"9A+/9X+ | {k}AX+", beta, cue, **both)
                                          for k in n], **CLOSE)
    a, x = np.sqrt([0.5, 0.0]), np.sqrt([0.0, 0.25])
    assert_allclose(conditioning.blocking_strength(a=a, c=a + x, x=x, beta=beta, m=4, n=n),
                    [simulated(f"4A+ | {k}AX+", beta, "X", **both) for k in n], **CLOSE)


def test_equilibria_of_partial_reinforcement_contingency_and_inhibition():
    def resting(text, **options):
        cues, outcomes, _ = design_arrays(text, **options)
        return conditioning.equilibrium_strength(cues, outcomes)[:, 0]
    assert_allclose(resting("1A+/3A-"), [0.25], **CLOSE)
    assert_allclose(resting("A+/AB-"), [1, -1], **CLOSE)
    assert_allclose(resting("2AX+/2BX-"), [2 / 3, -1 / 3, 1 / 3], **CLOSE)  # relative validity
    assert_allclose(resting("AX+/BX+/AX-/BX-"), [1 / 6, 1 / 6, 1 / 3], **CLOSE)
    for absent in (0, 1, 2, 3):
        text = "2AK+/2AK-/" + "/".join([f"{absent}K+"] * bool(absent) + [f"{4 - absent}K-"])
        assert_allclose(resting(text)[0], conditioning.contingency_strength(
            p_cue=0.5, p_no_cue=absent / 4), **CLOSE)
    cues, outcomes, _ = design_arrays("20AX+/20BX-", order="random", orders=300, seed=1)
    _, memory = learn(rules.rescorla_wagner, cues.reshape(-1, 3), outcomes.reshape(-1, 1),
                      beta=0.002)
    assert_allclose(memory[:, 0], [2 / 3, -1 / 3, 1 / 3], rtol=0, atol=0.01)


# --------------------------------------------------------------------------- experiments of core


CORE = {"equivalence": {"lengths": (1, 7, 20), "batches": ((), (2,))}, "minibatch": {},
        "blocking": {"cases": 20}, "competition": {"orders": 8}, "recovery": {"sequences": 100},
        "associability": {"orders": 8}}


@pytest.mark.parametrize("name", CORE)
def test_core_experiments_hold_and_draw(name):
    result = experiments.EXPERIMENTS[name].function(**CORE[name])
    assert [row.claim for row in result.claims if not row.holds] == []
    for figure in plots.FIGURES[name]:
        assert figure(result.arrays, result.claims).axes


# A mutant must break a claim: each experiment really looks at the code it is about.
def without_shared_error(state, cue, outcome, *, beta, beta_omitted=None, decay=1.0):
    return rules.bush_mosteller(decay * state, cue, outcome, beta=beta)


def test_claims_fail_when_the_model_is_another_one(monkeypatch):
    right = conditioning._parallel
    monkeypatch.setattr(conditioning, "_parallel", lambda *arrays: right(
        *arrays[:5], False, arrays[6]))
    result = experiments.equivalence(lengths=(7,), batches=((),))
    failed = {row.claim.split(" =")[0] for row in result.claims if not row.holds}
    assert {"DeltaNet", "Gated DeltaNet", "KDA"} <= failed and "RetNet" not in failed


def test_claims_of_blocking_fail_without_a_shared_error(monkeypatch):
    monkeypatch.setattr(rules, "rescorla_wagner", without_shared_error)
    assert not all(row.holds for row in experiments.blocking(cases=5).claims)


def test_a_claim_is_judged_by_its_bound_and_all_of_its_interval():
    claim = experiments.claim
    assert claim("c", "A1", 1.0, below=2).holds and not claim("c", "A1", 2.0, below=2).holds
    assert claim("c", "A1", 3.0, above=2).holds and not claim("c", "A1", 2.0, above=2).holds
    assert not claim("c", "A1", 1.0, below=2, interval=(0, 2.5)).holds
    assert not claim("c", "A1", 3.0, above=2, interval=(1.5, 4)).holds
    assert not claim("c", "A1", 1.0, within=(0, 2), interval=(-1, 1)).holds
    assert claim("c", "A1", 1.0, contains=0, interval=(-1, 3)).holds
    assert not claim("c", "A1", 1.0, contains=0, interval=(0.5, 3)).holds
    assert not any(claim("c", "A1", np.nan, **{bound: value}).holds for bound, value in (
        ("below", 1), ("above", 1), ("within", (0, 1))))


# ----------------------------------------------------------------------------- a device stand-in


class Device(types.ModuleType):
    """A namespace whose arrays refuse what CuPy's refuse: implicit conversion, mixing with NumPy,
    names that CuPy does not have. It counts launches, and transfers that wait for the device.
    """

    # What NumPy has and CuPy 14.2 does not, of the names one might reach for.
    missing = {"random", "block", "einsum_path", "errstate", "geomspace", "vecdot", "unstack",
               "matvec", "vecmat", "linalg.vector_norm", "linalg.matrix_norm", "linalg.vecdot",
               "linalg.outer", "linalg.multi_dot", "linalg.trace", "linalg.diagonal",
               "linalg.svdvals", "linalg.tensordot"}

    def __init__(self, name="device", source=np, prefix=""):
        super().__init__(name)
        self._source, self._prefix = source, prefix

    launches = 0
    waits = 0

    def __getattr__(self, name):
        if self._prefix + name in Device.missing:
            raise AttributeError(f"CuPy has no {self._prefix + name}")
        found = getattr(self._source, name)
        if isinstance(found, type) or not callable(found):
            return DEVICE_LINALG if name == "linalg" else found
        return launched(found, self._prefix + name)


class DeviceArray:
    """An array that lies on the stand-in device."""

    __array_ufunc__ = None

    def __init__(self, data):
        self._data = data

    def __array_namespace__(self, api_version=None):
        return DEVICE

    def __array__(self, dtype=None, copy=None):
        raise TypeError("implicit conversion of a device array")

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        found = getattr(self._data, name)
        return launched(found, name) if callable(found) else lifted(found)

    def __getitem__(self, key):
        if any(isinstance(part, DeviceArray) and part.dtype == bool
               for part in (key if isinstance(key, tuple) else (key,))):
            Device.waits += 1  # the size of the result is data
        return lifted(self._data[lowered(key)])

    def __setitem__(self, key, value):
        Device.launches += 1
        self._data[lowered(key)] = lowered(value)

    def get(self):
        Device.waits += 1
        return self._data.copy()

    def _waiting(self):
        Device.waits += 1
        return self._data

    def __len__(self):
        return len(self._data)

    def __bool__(self):
        return bool(self._waiting())

    def __float__(self):
        return float(self._waiting())

    def __int__(self):
        return int(self._waiting())

    def item(self):
        return self._waiting().item()

    def tolist(self):
        return self._waiting().tolist()


def lifted(value):
    """NumPy results as device arrays."""
    return DeviceArray(np.asarray(value)) if isinstance(value, (np.ndarray, np.generic)) else value


def lowered(value):
    """Device arrays as NumPy arrays; a NumPy array in their place is refused, as by CuPy."""
    if isinstance(value, DeviceArray):
        return value._data
    if isinstance(value, np.ndarray) and value.ndim:
        raise TypeError("a NumPy array in a device operation")
    return type(value)(map(lowered, value)) if isinstance(value, (list, tuple)) else value


def launched(function, name):
    """A function that runs on the device."""
    def call(*arguments, **options):
        Device.launches += 1
        if "device" in options or ("where" in options and not isinstance(function, np.ufunc)):
            raise TypeError(f"CuPy's {name} lacks a keyword of {sorted(options)}")
        Device.waits += name in ("nonzero", "unique", "allclose", "array_equal", "argwhere")
        if name in ("asarray", "array") and arguments and isinstance(arguments[0], np.ndarray):
            return DeviceArray(np.array(arguments[0], **options))
        if name == "linalg.solve" and arguments[0].shape[:-2] != arguments[1].shape[:-2]:
            raise ValueError("CuPy's solve does not broadcast the batch")
        return lifted(function(*map(lowered, arguments),
                               **{key: lowered(value) for key, value in options.items()}))
    return call


def _device_operator(name):
    def apply(self, other=None):
        Device.launches += 1
        if isinstance(other, np.ndarray) and other.ndim:
            raise TypeError("a NumPy array in a device operation")
        arguments = (lowered(other),) if other is not None else ()
        return lifted(getattr(self._data, name)(*arguments))
    return apply


for _name in ("add", "sub", "mul", "truediv", "pow", "matmul", "and", "or"):
    for _side in ("", "r"):
        setattr(DeviceArray, f"__{_side}{_name}__", _device_operator(f"__{_side}{_name}__"))
for _name in ("lt", "le", "gt", "ge", "eq", "ne", "neg", "abs", "invert"):
    setattr(DeviceArray, f"__{_name}__", _device_operator(f"__{_name}__"))
DeviceArray.__hash__ = None
DEVICE = Device()
DEVICE_LINALG = Device("device.linalg", np.linalg, "linalg.")


def on_device(call, arrays):
    """(result, launches, waits) of a call with its arrays on the stand-in device."""
    moved = [DeviceArray(array.copy()) for array in arrays]
    Device.launches = Device.waits = 0
    result = call(*moved)
    launches, waits = Device.launches, Device.waits
    for array, before in zip(moved, arrays, strict=True):
        assert_array_equal(array._data, before)
    return result, launches, waits


def device_calls():
    """Every rule and form as a call of queries, keys and values, by name."""
    def rule_call(rule, parameters):
        return lambda q, k, v: learn(
            rule, k, v, test=rules.array_module(k).arange(k.shape[-2]) > 6, **parameters)

    def form_call(form, error_correcting, axes):
        rate = {"number": lambda k: 0.1, "token": lambda k: 0 * k[..., 0] + 0.1,
                "feature": lambda k: 0 * k + 0.1}[axes]
        return lambda q, k, v: attention(q, k, v, form=form, chunk=4, beta=rate(k), decay=0.5,
                                         error_correcting=error_correcting)
    calls = {name: rule_call(rule, PARAMETERS[name]) for name, rule in rules.RULES.items()}
    for form, correcting, axes in itertools.product(
            ("recurrent", "parallel", "chunkwise"), (False, True), ("number", "token", "feature")):
        calls[f"{form}, {correcting}, {axes}"] = form_call(form, correcting, axes)
    return calls | {
        "decay per feature": lambda q, k, v: attention(q, k, v, decay=0 * k + 0.5,
                                                       error_correcting=True),
        "ph recurrent": lambda q, k, v: ph_attention(q, k, v, beta=0.3, eta=0.2),
        "ph parallel": lambda q, k, v: ph_attention(q, k, v, beta=0.3, eta=0.2, form="parallel"),
        "mesa": lambda q, k, v: (conditioning.mesa_attention(q, k, v, ridge=1.0),),
        "softmax": lambda q, k, v: (conditioning.softmax_attention(q, k, v, scale=0.5),),
        "circuit": lambda q, k, v: (conditioning.conditioning_circuit(q, k, v),),
        "errors": lambda q, k, v: (conditioning.prediction_errors(k, v, beta=0.2, decay=0.9),)}


DEVICE_CALLS = device_calls()


@pytest.mark.parametrize("name", DEVICE_CALLS)
def test_rules_and_forms_stay_on_the_device(name):
    counted = []
    for batch in ((2,), (5, 3)):
        arrays = layer(*batch, T=9, dtype=np.float32)[:3]
        result, launches, waits = on_device(DEVICE_CALLS[name], arrays)
        expected = DEVICE_CALLS[name](*arrays)
        assert waits == 0
        counted.append(launches)
        for found, wanted in zip(*(sum(map(arrays_of, r), []) for r in (result, expected)),
                                 strict=True):
            assert isinstance(found, DeviceArray) and found.dtype == np.float32
            assert_allclose(found._data, wanted, **SINGLE)
    assert counted[0] == counted[1]


def test_the_stand_in_refuses_what_cupy_refuses():
    array = DeviceArray(np.ones(3))
    for wrong in (lambda: np.asarray(array), lambda: array + np.ones(3), lambda: np.exp(array),
                  lambda: np.ones(3) + array, lambda: DEVICE.linalg.vector_norm(array)):
        with pytest.raises((TypeError, AttributeError)):
            wrong()
    with pytest.raises(TypeError, match="device and numpy are mixed|numpy and device|mixed"):
        learn(rules.hebbian, DeviceArray(np.ones((3, 2))), np.ones((3, 1)), beta=0.1)
    with pytest.raises(TypeError, match="mixed"):
        attention(DeviceArray(np.ones((3, 2))), np.ones((3, 2)), np.ones((3, 1)))


# The names of the array module that rules.py and conditioning.py use; all of them are in CuPy 14.2.
IN_CUPY = set("""
    abs arange array asarray broadcast_to clip concatenate cumprod cumsum empty empty_like exp
    eye inf
    linalg.norm linalg.solve max maximum minimum moveaxis ones ones_like result_type sqrt stack sum
    swapaxes tril where zeros zeros_like
""".split())


def test_only_names_that_cupy_has_are_used():
    used = set()
    for module in ("rules.py", "conditioning.py"):
        for node in ast.walk(ast.parse((HERE / module).read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute):
                owner = node.value
                if isinstance(owner, ast.Name) and owner.id == "xp":
                    used.add(node.attr)
                elif (isinstance(owner, ast.Attribute) and isinstance(owner.value, ast.Name)
                      and owner.value.id == "xp"):
                    used.add(f"{owner.attr}.{node.attr}")
                elif (isinstance(owner, ast.Call) and isinstance(owner.func, ast.Name)
                      and owner.func.id == "array_module"):
                    used.add(node.attr)
    assert used - {"linalg"} == IN_CUPY, used ^ IN_CUPY
    assert not used & Device.missing
    cupy = pytest.importorskip("cupy", exc_type=ImportError)
    for name in IN_CUPY:
        owner = cupy.linalg if name.startswith("linalg.") else cupy
        assert hasattr(owner, name.rpartition(".")[2]), name


@pytest.mark.gpu
@pytest.mark.parametrize("name", CORE)
def test_a_gpu_gives_the_same_numbers(name):
    try:
        experiments.device_module("gpu")
    except experiments.CommandError as reason:
        pytest.skip(str(reason))
    function = experiments.EXPERIMENTS[name].function
    results = [function(device=device, **CORE[name]) for device in ("cpu", "gpu")]
    for key, array in results[0].arrays.items():
        if array.dtype.kind == "f" and "error" not in key:
            assert_allclose(results[1].arrays[key], array, rtol=1e-9, atol=1e-9)


# ------------------------------------------------------------------------------------- the atlas


# -------------------------------------------------------------------------- quantitative results


# --------------------------------------------------------------------------------- trained models


# ------------------------------------------------------------------------------------- benchmark


def test_the_fast_form_launches_less_than_the_loop_whatever_the_batch():
    def counted(T, *batch, **form):
        arrays = layer(*batch, T=T)[:3]
        return on_device(lambda *moved: attention(*moved, beta=0.5, decay=0.9,
                                                  error_correcting=True, **form), arrays)[1]
    for T in (64, 100, 256):
        assert counted(T, 2) == counted(T, 5, 3) < counted(T, 2, form="recurrent")


def test_gradients_of_the_loop_are_those_of_the_parallel_form():
    queries, keys, values, d_outputs = (a for a in layer(2, T=7, K=4, D=4))
    d_outputs = np.random.default_rng(1).normal(size=values.shape)
    beta = np.random.default_rng(2).uniform(0, 1, (2, 7))
    loop = experiments.loop_gradients(queries, keys, values, d_outputs, beta=beta)
    found = conditioning.attention_gradients(queries, keys, values, d_outputs, beta=beta,
                                             error_correcting=True)
    for one, name in zip(loop, ("queries", "keys", "values", "beta"), strict=True):
        assert_allclose(one, getattr(found, name), **CLOSE)


def test_slope_and_knee_of_a_known_cost():
    sizes = np.array([1, 2, 4, 8, 16, 32, 64])
    assert experiments.upper_slope(sizes, 3.0 * sizes**1.5) == pytest.approx(1.5, abs=1e-12)
    assert experiments.knee(sizes, np.maximum(10.0, sizes)) == 32
    assert experiments.knee(sizes, np.full(7, 1.0)) == 64


def test_best_seconds_takes_turns_and_leaves_the_first_out(monkeypatch):
    clock, order, costs = [0.0], [], {"a": [9.0, 3.0, 2.0], "b": [0.5, 4.0, 5.0]}

    def call(name):
        order.append(name)
        clock[0] += costs[name][order.count(name) - 1]
    monkeypatch.setattr(experiments.time, "process_time", lambda: clock[0])
    found = experiments.best_seconds(np, {"a": lambda: call("a"), "b": lambda: call("b")}, 2)
    assert found == {"a": 2.0, "b": 4.0} and order == ["a", "b"] * 3


def test_one_thread_for_the_benchmark_alone(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    assert experiments.in_one_thread(os.getenv, key="OMP_NUM_THREADS") == "1"
    assert os.environ["OMP_NUM_THREADS"] == "2" and "MKL_NUM_THREADS" not in os.environ


def test_benchmark_measures_and_draws(monkeypatch):
    monkeypatch.setattr(experiments, "in_one_thread", lambda function, **given: function(**given))
    quick = experiments.EXPERIMENTS["benchmark"].quick
    assert experiments.EXPERIMENTS["benchmark"].only_by_name
    result = experiments.EXPERIMENTS["benchmark"].function(**quick | {
        "heads": 1, "T": 64, "batches": (8, 16), "trials": 5, "events": 64, "longest": 256,
        "sizes": {axis: (8, 16) for axis in ("batch", "T", "K", "D")}})
    assert all(np.isfinite(row.measured) for row in result.claims)
    assert all(array.dtype.kind in "fiU" for array in result.arrays.values())
    for figure in plots.FIGURES["benchmark"]:
        assert figure(result.arrays, result.claims).axes


# ---------------------------------------------------------------------------------- command line


def run(*arguments):
    """(exit status, standard output, standard error) of the command line, as a process."""
    done = subprocess.run([sys.executable, "experiments.py", *map(str, arguments)], cwd=HERE,
                          capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout, done.stderr


def test_the_command_line_runs_saves_and_keeps_what_it_did_not_run(tmp_path):
    out = tmp_path / "new" / "results"
    status, printed, _ = run("minibatch", "--out", out, "--seed", 7)
    assert status == 0 and "claims hold" in printed and "[0." in printed
    saved = json.loads((out / "claims.json").read_text())
    assert saved["seed"] == 7 and saved["device"] == "cpu" and "numpy" in saved["versions"]
    assert set(saved["claims"][0]) == {"experiment", "claim", "source", "paper", "measured",
                                       "interval", "bound", "holds"}
    assert saved["parameters"]["minibatch"]["m"] == 32
    first = {path.name: path.read_bytes() for path in out.iterdir()}
    assert {"minibatch.npz", "minibatch.png", "claims.json"} <= set(first)
    assert run("run", "blocking", "--quick", "--out", out)[0] == 0
    after = {path.name: path.read_bytes() for path in out.iterdir()}
    assert after["minibatch.npz"] == first["minibatch.npz"]
    names = [row["experiment"] for row in json.loads(after["claims.json"])["claims"]]
    assert set(names) == {"minibatch", "blocking"}
    assert experiments.main(["minibatch", "--out", str(out)]) == 0
    assert (out / "minibatch.png").read_bytes() == first["minibatch.png"]
    assert not [path for path in out.iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize("arguments, message", [
    (["blokking"], "no experiment 'blokking'; there are: equivalence"),
    (["--seed", "-1"], "must be a whole number from 0 on"), (["--seed", "x"], "whole number"),
    (["--device", "tpu"], "invalid choice"), (["--quik"], "unrecognized arguments: --quik"),
    (["minibatch", "--out"], "expected one argument"), (["--device", "gpu"], "is not available: "),
    (["minibatch", "--out", "README.md"], "cannot write to --out README.md"),
    (["minibatch", "--out", "README.md/below"], "cannot write to --out")])
def test_wrong_commands_get_one_line_and_status_2(arguments, message, capsys):
    if "gpu" in arguments:
        try:
            experiments.device_module("gpu")
            pytest.skip("this machine has a GPU")
        except experiments.CommandError:
            pass
    assert experiments.main(arguments) == 2
    printed = capsys.readouterr()
    assert message in printed.err and printed.err.count("\n") == 1
    assert printed.err.startswith("experiments.py: ")


def test_the_list_names_every_experiment(capsys):
    assert experiments.main(["--list"]) == 0
    listed = capsys.readouterr().out
    assert all(re.search(f"^{name} ", listed, re.MULTILINE) for name in experiments.EXPERIMENTS)


@pytest.fixture
def small(monkeypatch):
    """Two experiments that take no time, `first` and `second`, whose arrays are their seed."""
    for name in ("first", "second"):
        def function(*, seed=0, device="cpu"):
            """Takes no time."""
            return experiments.Result({"seed": np.array(seed)}, [
                experiments.claim("zero is below one", "P1", 0, below=1)])
        monkeypatch.setitem(experiments.EXPERIMENTS, name,
                            experiments.Experiment(function, {}, True))


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("failure, status", [
    (KeyboardInterrupt(), 130), (OSError(28, "No space left on device"), 2)])
@pytest.mark.parametrize("moment", ["run", "save"])
def test_a_run_that_breaks_off_leaves_earlier_results(tmp_path, monkeypatch, capsys, failure,
                                                      status, moment, small):
    out = str(tmp_path)
    assert experiments.main(["first", "second", "--out", out]) == 0
    before = contents(tmp_path)

    def broken(*_, **__):
        raise failure
    if moment == "run":
        broken.__doc__ = "Breaks off."
        monkeypatch.setitem(experiments.EXPERIMENTS, "second",
                            experiments.Experiment(broken, {}, True))
    else:
        monkeypatch.setattr(experiments.json, "dumps", broken)
    assert experiments.main(["first", "second", "--seed", "5", "--out", out]) == status
    assert contents(tmp_path) == before
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize("blocked", ["first.npz", "second.npz", "claims.json"])
def test_results_are_replaced_all_or_none(tmp_path, monkeypatch, blocked, small):
    out = str(tmp_path)
    assert experiments.main(["second", "--out", out]) == 0
    before, replace = contents(tmp_path), os.replace

    def refusing(source, target):
        if Path(target).name == blocked and "earlier" not in Path(source).parts:
            raise OSError(5, "Input/output error")
        replace(source, target)
    monkeypatch.setattr(experiments.os, "replace", refusing)
    assert experiments.main(["first", "second", "--seed", "5", "--out", out]) == 2
    assert contents(tmp_path) == before


def test_results_that_are_not_ours_are_not_overwritten(tmp_path, capsys):
    for content in ("not json", "[]", '{"claims": 1, "parameters": {}}'):
        (tmp_path / "claims.json").write_text(content)
        assert experiments.main(["minibatch", "--out", str(tmp_path)]) == 2
        assert "is not a results file" in capsys.readouterr().err
        assert (tmp_path / "claims.json").read_text() == content


def test_the_exit_status_is_1_when_a_claim_fails(tmp_path, monkeypatch, capsys):
    def failing(*, seed=0, device="cpu"):
        """Claims what is not so."""
        return experiments.Result({}, [experiments.claim("one is below zero", "P1", 1, below=0)])
    monkeypatch.setitem(experiments.EXPERIMENTS, "failing", experiments.Experiment(
        failing, {}, True))
    assert experiments.main(["failing", "--out", str(tmp_path)]) == 1
    assert "FAILS" in capsys.readouterr().out
    assert json.loads((tmp_path / "claims.json").read_text())["claims"][0]["holds"] is False


def readme_blocks(language):
    """The fenced blocks of a language in the README, in order."""
    text = (HERE / "README.md").read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def test_the_readme_s_example_prints_what_it_says(capsys):
    example = readme_blocks("python")[0]
    exec(compile(example, "README.md", "exec"), {})
    assert capsys.readouterr().out.strip() == readme_blocks("text")[0].strip()


def test_the_readme_shows_figures_that_exist():
    shown = re.findall(r"\]\((figures/[^)]+)\)", (HERE / "README.md").read_text(encoding="utf-8"))
    assert shown and all((HERE / path).exists() for path in shown)
    drawn = {f"{figure.__name__}.png" for figures in plots.FIGURES.values() for figure in figures}
    assert {Path(path).name for path in shown} <= drawn


def test_the_mathematics_imports_nothing_but_numpy():
    for module, allowed in (("rules.py", {"numpy"}), ("conditioning.py", {"numpy", "rules"})):
        tree = ast.parse((HERE / module).read_text(encoding="utf-8"))
        imported = {name.name.partition(".")[0] for node in ast.walk(tree)
                    if isinstance(node, ast.Import) for name in node.names}
        imported |= {node.module.partition(".")[0] for node in ast.walk(tree)
                     if isinstance(node, ast.ImportFrom)}
        assert imported - set(sys.stdlib_module_names) <= allowed
    assert os.path.exists(HERE / "requirements.txt")
