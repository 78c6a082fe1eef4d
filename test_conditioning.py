"""All tests: python -m pytest -q

Tolerances are written in full: CLOSE for two float64 forms of one thing, SINGLE for float32.
Numbers of other people's programs stand here with their source.
"""

import ast
import csv
import functools
import io
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
    "temporal_difference": {"beta": 0.1, "trace": 0.6, "discount": 0.9},
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
    ("mackintosh", {"beta": 0.1, "theta": 0.05}, {"associability": 0.5},
     [0.5 + 0.05 * 2.5, -0.25 + 0.1 * 3.5], [0.55, 0.3]),
    ("mackintosh", {"beta": 0.1, "theta": 0.2}, {"associability": 0.9},
     [0.5 + 0.09 * 2.5, -0.25 + 0.18 * 3.5], [1.0, 0.1]),
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
    parameters = {"beta_excitatory": 0.1, "beta_inhibitory": 0.2, "eta": 0.1, "salience": 0.5}
    state = rules.ExcitationInhibitionState(np.array([[0.5], [0.0]]), np.array([[0.0], [0.25]]),
                                            np.array([0.5, 0.5]))
    up = rule(state, cue, np.array([3.0]), **parameters)  # error 3
    assert_allclose(up.excitation[:, 0], [0.5 + 0.1 * 0.25 * 3, 0.1 * 0.5 * 3], **CLOSE)
    assert_allclose(up.inhibition, state.inhibition, **CLOSE)
    assert_allclose(up.associability, [0.75, 0.75], **CLOSE)  # .9 * .5 + .1 * 3, for any cue
    down = rule(state, cue, np.array([-0.5]), **parameters)  # error -0.5
    assert_allclose(down.excitation, state.excitation, **CLOSE)
    assert_allclose(down.inhibition[:, 0], [0.2 * 0.25 * 0.5, 0.25 + 0.2 * 0.5 * 0.5], **CLOSE)
    assert_allclose(down.associability, [0.5, 0.5], **CLOSE)


def test_a_predicted_outcome_teaches_pearce_kaye_hall_nothing():
    state = rules.ExcitationInhibitionState(np.ones((1, 1)), np.zeros((1, 1)), np.ones(1))
    after = rules.pearce_kaye_hall(state, np.ones(1), np.ones(1), beta_excitatory=0.5,
                                   beta_inhibitory=0.5, eta=0.25)
    assert_array_equal(after.excitation, state.excitation)
    assert_array_equal(after.inhibition, state.inhibition)
    assert_array_equal(after.associability, [0.75])


def test_rules_start_at_one_unless_told_otherwise():
    cues, outcomes = np.ones((1, 2)), np.ones((1, 1))
    for name in ("mackintosh", "pearce_hall", "pearce_kaye_hall"):
        state = initial_state(rules.RULES[name], cues, outcomes)
        assert_array_equal(state.associability, [1.0, 1.0])
        assert_array_equal(memory_of(state), np.zeros((2, 1)))
    assert_array_equal(initial_state(rules.kalman, cues, outcomes).covariance, np.eye(2))
    scaled = initial_state(rules.kalman, cues, outcomes, prior=np.array([2.0, 3.0]))
    assert_array_equal(scaled.covariance, np.diag([2.0, 3.0]))
    _, after = learn(rules.kalman, cues[:, :1], outcomes)  # gain 1 / (1 + noise), noise 1
    assert_allclose(after.memory, [[0.5]], **CLOSE)


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
    features = {key: np.full((2, 5, 1 if key in ("noise", "discount") else 4), value)
                for key, value in parameters.items()}
    assert_allclose(learn(rule, cues, outcomes, **features)[0], expected, **CLOSE)


def test_a_rate_per_feature_is_that_feature_s_rate():
    cues, outcomes = np.ones((1, 2)), np.ones((1, 1))
    _, memory = learn(rules.rescorla_wagner, cues, outcomes, beta=np.array([[0.1, 0.3]]))
    assert_allclose(memory[:, 0], [0.1, 0.3], **CLOSE)
    _, memory = learn(rules.hebbian, cues, outcomes, state=np.ones((2, 1)), beta=0.0,
                      decay=np.array([[0.5, 0.25]]))
    assert_allclose(memory[:, 0], [0.5, 0.25], **CLOSE)


def test_rates_may_be_lists_numpy_numbers_and_zero_dimensional_arrays():
    cues, outcomes = np.ones((2, 2, 2)), np.ones((2, 2, 1))
    for beta in (0.1, np.float32(0.1), np.array(0.1), [[0.1]], [[0.1, 0.1]]):
        _, memory = learn(rules.hebbian, cues, outcomes, beta=beta)
        _, state = attention(cues, cues, outcomes, beta=beta)
        assert_allclose(memory, np.full((2, 2, 1), 0.2), rtol=1e-7, atol=0)
        assert_allclose(state, memory, **CLOSE)
    _, memory = learn(rules.hebbian, cues[0], outcomes[0], beta=[0.1, 0.5])  # one value a trial
    _, state = attention(cues[0], cues[0], outcomes[0], beta=[0.1, 0.5])
    assert_allclose(memory[:, 0], [0.6, 0.6], **CLOSE)
    assert_allclose(state, memory, **CLOSE)


@pytest.mark.parametrize("K", [2, 3])
def test_one_associability_a_cue_is_shared_by_the_groups(K):
    _, cues, outcomes, _ = layer(3, T=5, K=K)  # as many groups as cues, or not
    associability = np.linspace(0.2, 0.9, K)
    start = initial_state(rules.pearce_hall, cues, outcomes, associability=associability)
    _, last = learn(rules.pearce_hall, cues, outcomes, state=start, beta=0.2, eta=0.1)
    bare = AssociabilityState(np.zeros((K, 2)), associability)
    _, same = learn(rules.pearce_hall, cues, outcomes, state=bare, beta=0.2, eta=0.1)
    _, attended = ph_attention(cues, cues, outcomes, beta=0.2, eta=0.1, associability=associability)
    for b in range(3):
        single = initial_state(rules.pearce_hall, cues[b], outcomes[b],
                               associability=associability)
        _, alone = learn(rules.pearce_hall, cues[b], outcomes[b], state=single, beta=0.2, eta=0.1)
        for state in (last, same, attended):
            assert_allclose(state.memory[b], alone.memory, **CLOSE)
            assert_allclose(state.associability[b], alone.associability, **CLOSE)


def test_a_held_token_keeps_its_gradient():
    """Where eta is 0 the associability passes through, also on or outside its bounds."""
    queries, keys, values, _ = layer(T=4, K=3)
    d_outputs = np.random.default_rng(1).normal(size=values.shape)
    start = np.array([1.5, 1.2, 1.0])

    def loss(associability):
        outputs, _ = ph_attention(queries, keys, values, beta=0.5, eta=0.0,
                                  associability=associability)
        return np.sum(outputs * d_outputs)
    found = conditioning.ph_attention_gradients(queries, keys, values, d_outputs, beta=0.5, eta=0.0,
                                                associability=start).associability
    numeric = [(loss(start + step) - loss(start - step)) / 2e-5 for step in 1e-5 * np.eye(3)]
    assert_allclose(found, numeric, rtol=1e-7, atol=1e-8)


def test_a_rule_with_some_parameters_set_is_still_that_rule():
    cues, outcomes = np.ones((4, 1)), np.ones((4, 1))
    rule = functools.partial(rules.pearce_hall, eta=0.3)
    expected, _ = learn(rules.pearce_hall, cues, outcomes, beta=0.5, eta=0.3)
    assert_array_equal(learn(rule, cues, outcomes, beta=0.5)[0], expected)


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
    if name not in ("stimulus_trace", "temporal_difference"):  # whose traces outlast the cue
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


X3, V3, A3 = np.ones((3, 2)), np.ones((3, 1)), np.ones((4, 3, 2))
BAD_RULE_CALLS = [
    (lambda: learn("hebbian", X3, V3, beta=1), "rule must be a function, such as hebbian"),
    (lambda: learn(rules.hebbian, X3, V3, beta=None), "beta must be real numbers, got dtype obj"),
    (lambda: learn(rules.hebbian, X3, V3, beta=np.complex64(1j)), "beta must be real numbers"),
    (lambda: learn(rules.hebbian, X3, V3, beta=np.ones((3, 4))), "beta must be a number or have"),
    (lambda: learn(rules.hebbian, X3, V3, beta=np.ones(5)), "beta must have one value or one for"),
    (lambda: learn(rules.hebbian, A3, np.ones((5, 3, 1)), beta=1), r"batch.*cues \(4,\), outcomes"),
    (lambda: learn(rules.hebbian, A3, V3, beta=np.ones((5, 3))), r"do not broadcast.*beta \(5,\)"),
    (lambda: learn(rules.hebbian, X3, V3, beta=1, test=np.ones(4)), "test must mark each of the 3"),
    (lambda: learn(rules.hebbian, X3, V3, beta=1, state=np.ones((3, 1))), "state must be .*2, 1"),
    (lambda: learn(rules.hebbian, X3[:0], V3[:0], beta=1, state=np.ones((7, 5))), "state must be"),
    (lambda: learn(rules.pearce_hall, X3, V3, beta=1, eta=1, state=np.ones((2, 1))),
     "state of pearce_hall must be AssociabilityState.*got ndarray"),
    (lambda: learn(rules.hebbian, X3, V3, beta=1,
                   state=AssociabilityState(np.ones((2, 1)), np.ones(2))), "state of hebbian must"),
    (lambda: learn(rules.pearce_hall, X3, V3, beta=1, eta=1,
                   state=AssociabilityState(np.ones((2, 1)), np.ones(1))), "associability must be"),
    (lambda: learn(rules.pearce_hall, X3, V3, beta=1, eta=1, bounds=(1, 0)), "bounds must be two"),
    (lambda: learn(rules.pearce_hall, X3, V3, beta=1, eta=1, bounds=None), "bounds must be two"),
    (lambda: initial_state(rules.pearce_hall, X3, V3, associability=np.ones(3)), "associability m"),
    (lambda: initial_state(rules.kalman, X3, V3, prior=None), "prior must be real numbers"),
    (lambda: learn(rules.kalman, X3, V3, noise=np.ones((3, 2))), "noise is one value for all fea"),
    (lambda: learn(rules.temporal_difference, X3, V3, beta=1, trace=0, discount=np.ones((3, 2))),
     "discount is one value"),
    (lambda: learn(rules.hebbian, np.ones((3, 2)), np.ones((4, 1)), beta=1), "same number of tri"),
    (lambda: learn(rules.hebbian, np.ones(3), np.ones((3, 1)), beta=1), r"cues must be"),
    (lambda: learn(rules.hebbian, np.ones((3, 2)), np.ones((3, 1)), bta=1), "has no bta; its para"),
    (lambda: learn(rules.hebbian, np.ones((3, 2)), np.ones((3, 1))), "needs beta; its par"),
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


def test_each_form_is_the_one_that_was_asked_for(monkeypatch):
    """They agree, so only a look at what runs tells them apart: form and tokens of each call."""
    calls = []

    def recorded(name, right):
        def call(queries, *rest):
            calls.append((name, queries.shape[-2]))
            return right(queries, *rest)
        return call
    for name in ("_recurrent", "_parallel", "_chunkwise"):
        monkeypatch.setattr(conditioning, name, recorded(name, getattr(conditioning, name)))
    queries, keys, values, _ = layer(T=20)
    for form, decay, expected in (
            ("recurrent", 0.9, [("_recurrent", 20)]), ("parallel", 0.9, [("_parallel", 20)]),
            ("chunkwise", 0.9, [("_chunkwise", 20)]),
            ("chunkwise", np.full((20, 4), 0.9), [("_parallel", n) for n in (8, 8, 4)])):
        calls.clear()
        attention(queries, keys, values, decay=decay, form=form, chunk=8)
        assert calls == expected


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


def test_ph_attention_is_pearce_hall_where_nothing_moves_and_at_the_bounds():
    cues, outcomes = np.array([[1.0, 0], [1, 0]]), np.array([[2.0], [2.0]])
    for eta in (0.0, 0.5, np.array([0.0, 0.5])):
        start = initial_state(rules.pearce_hall, cues, outcomes, associability=2.0)
        _, last = learn(rules.pearce_hall, cues, outcomes, state=start, beta=0.1, eta=eta)
        for form in ("recurrent", "parallel"):
            _, after = ph_attention(cues, cues, outcomes, beta=0.1, eta=eta, state=start, form=form)
            assert_allclose(after.associability, last.associability, **CLOSE)
        assert last.associability[1] == 2 and last.associability[0] == (1 if np.any(eta) else 2)


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


def test_batch_axes_of_one_argument_alone():
    rng = np.random.default_rng(0)
    sizes = {"queries": (5, 2), "keys": (5, 2), "values": (5, 3)}
    options = {"beta": 0.3}
    for wide in sizes:
        arrays = [rng.normal(size=(4,) * (name == wide) + size) for name, size in sizes.items()]
        for call in (lambda *a: conditioning.deltanet(*a, **options)[0],
                     lambda *a: ph_attention(*a, eta=0.1, **options)[0],
                     lambda *a: conditioning.mesa_attention(*a, ridge=1.0),
                     lambda *a: conditioning.softmax_attention(*a, scale=1.0),
                     conditioning.conditioning_circuit):
            whole = call(*arrays)
            assert whole.shape == (4, 5, 3)
            for b in range(4):
                part = call(*(array[b] if array.ndim == 3 else array for array in arrays))
                assert_allclose(whole[b], part, **CLOSE)


def test_numpy_numbers_do_not_widen_single_precision():
    queries, keys, values, _ = layer(T=5, dtype=np.float32)
    one = np.float64(1)
    found = [conditioning.mesa_attention(queries, keys, values, ridge=one),
             conditioning.softmax_attention(queries, keys, values, scale=one),
             *ph_attention(queries, keys, values, beta=one, eta=one, bounds=(0 * one, one))[1],
             *learn(rules.pearce_hall, keys, values, beta=one, eta=one, bounds=(0 * one, one))[1]]
    assert {array.dtype for array in found} == {np.dtype(np.float32)}


def test_frozen_rates_keep_their_axes():
    test, rates = np.array([False, True, False]), np.array([0.1, 0.2, 0.3])
    held = conditioning.frozen(test, beta=rates, eta=0.5, decay=np.full((3, 2), 0.9))
    assert_array_equal(held["beta"], [0.1, 0, 0.3])
    assert_array_equal(held["eta"], [0.5, 0, 0.5])
    assert_array_equal(held["decay"], [[0.9, 0.9], [1, 1], [0.9, 0.9]])


def test_no_tokens_give_no_outputs():
    queries, keys, values, _ = layer(3, T=0)
    for outputs in (conditioning.softmax_attention(queries, keys, values, scale=1.0),
                    conditioning.mesa_attention(queries, keys, values, ridge=1.0),
                    conditioning.conditioning_circuit(queries, keys, values)):
        assert outputs.shape == (3, 0, 2)


def test_a_state_comes_back_as_a_copy():
    start = np.ones((2, 1))
    for state in (learn(rules.hebbian, X3[:0], V3[:0], state=start, beta=1)[1],
                  conditioning.deltanet(X3[:0], X3[:0], V3[:0], state=start, beta=1)[1]):
        state[...] = 5
        assert_array_equal(start, np.ones((2, 1)))


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
    (lambda: attention(Q, K_, V, beta=np.ones(5)), "beta must have one value or one for each of"),
    (lambda: attention(Q[:1], K_[:1], V[:1], beta=np.ones(5)), "beta must have one value or"),
    (lambda: attention(Q, K_, V, beta=None), "beta must be real numbers"),
    (lambda: attention(np.ones((2, 4, 2)), np.ones((3, 4, 2)), V), r"queries \(2,\), keys \(3,\)"),
    (lambda: conditioning.prediction_errors(K_, V, beta=np.ones(3)), "beta must have one value or"),
    (lambda: ph_attention(Q, K_, V, beta=1, eta=1, associability=np.ones(3)), "associability must"),
    (lambda: ph_attention(Q, K_, V, beta=1, eta=1, state=np.ones((2, 3))), "AssociabilityState"),
    (lambda: ph_attention(Q, K_, V, beta=1, eta=1, bounds=(2, 1)), "bounds must be two numbers"),
    (lambda: conditioning.mesa_attention(Q, K_, V, ridge=np.ones(2)), "ridge must be one number"),
    (lambda: conditioning.frozen(np.ones(4, bool), gamma=1), "frozen takes beta, eta and decay"),
    (lambda: conditioning.frozen(np.ones(4, bool), beta=np.ones((1, 1, 4))), "beta must be a numb"),
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
    ("3B-|0A+", 5, "1 to 1000000 times"), ("10A+33%", 5, "percent"), ("10A-50%", 5, "goes with +"),
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
    ({"cues": "AC"}, "contain the design's cues"), ({"saliences": {"Z": 1}}, "must name cues"),
    ({"cues": "AAB"}, "cues must be distinct"), ({"saliences": {"AB": 1}}, "must name cues"),
    ({"saliences": {"A": -1}}, "above 0"), ({"saliences": {"A": np.nan}}, "above 0"),
    ({"saliences": {"A": np.inf}}, "finite"), ({"similarity": {"AB": np.nan}}, "cosines between"),
    ({"similarity": {"AB": 1.0}}, "between -1"), ({"similarity": {"A": 0.5}}, "pairs of"),
    ({"similarity": {"AB": 0.1, "BA": 0.2}}, "each once"), ({"us": (1.0,)}, "us must be two"),
    ({"similarity": {"AB": 0.9, "BC": 0.9, "AC": -0.9}, "cues": "ABC"}, "linearly independent"),
    ({"order": "random", "orders": 0}, "orders must be at"), ({"seed": -1}, "seed and step"),
    ({"order": "mirrored"}, "has a mirror only")])
def test_bad_design_options_say_what_is_allowed(options, message):
    with pytest.raises(ValueError, match=message):
        design_arrays("A+/2B-", **options)


def test_designs_go_to_learn_and_to_attention_alike():
    arrays = design_arrays("10A+/10AB- | 3_ | A? | 3A? | 5B+ | 2A+ | B? | A?", saliences={"B": 0.5})
    parameters = {"beta": 0.2, "decay": 0.97}
    predictions, _ = learn(rules.rescorla_wagner, arrays.cues, arrays.outcomes, test=arrays.test,
                           **parameters)
    outputs, _ = conditioning.gated_deltanet(arrays.cues, arrays.cues, arrays.outcomes,
                                             **conditioning.frozen(arrays.test, **parameters))
    assert_allclose(outputs[arrays.test], predictions[arrays.test], **CLOSE)
    state = initial_state(rules.pearce_hall, arrays.cues, arrays.outcomes, associability=0.8)
    predictions_ph, _ = learn(rules.pearce_hall, arrays.cues, arrays.outcomes, test=arrays.test,
                              state=state, beta=0.3, eta=0.4)
    outputs, _ = ph_attention(arrays.cues, arrays.cues, arrays.outcomes, state=state,
                              **conditioning.frozen(arrays.test, beta=0.3, eta=0.4))
    assert_allclose(outputs[arrays.test], predictions_ph[arrays.test], **CLOSE)
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


DEVICE_SIZES = {"equivalence": {"lengths": (7,), "batches": ((2,),)}}


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


def test_intervals_are_student_s():
    for freedom, quantile in ((1, 12.706), (2, 4.303), (4, 2.776), (9, 2.262), (29, 2.045),
                              (120, 1.980)):
        assert_allclose(plots.student_quantile(freedom), quantile, rtol=0, atol=5e-4)
    mean, low, high = experiments.mean_interval([[1.0, 2, 3], [4, 4, 4]])
    assert_allclose(mean, [2, 4], **CLOSE)
    assert_allclose(high - mean, [4.302653 / np.sqrt(3), 0], rtol=1e-6, atol=0)
    assert_allclose(mean - low, high - mean, **CLOSE)


def test_a_claim_is_judged_by_its_bound_and_all_of_its_interval():
    claim = experiments.claim
    assert claim("c", "A1", 1.0, below=2).holds and not claim("c", "A1", 2.0, below=2).holds
    assert claim("c", "A1", 3.0, above=2).holds and not claim("c", "A1", 2.0, above=2).holds
    assert not claim("c", "A1", 1.0, below=2, interval=(0, 2.5)).holds
    assert not claim("c", "A1", 3.0, above=2, interval=(1.5, 4)).holds
    assert not claim("c", "A1", 1.0, within=(0, 2), interval=(-1, 1)).holds
    assert not any(claim("c", "A1", np.nan, **{bound: value}).holds for bound, value in (
        ("below", 1), ("above", 1), ("within", (0, 1))))


@pytest.mark.parametrize(("freedom", "quantile"), [(1, 12.706), (2, 4.303), (3, 3.182), (4, 2.776),
                                                   (9, 2.262), (29, 2.045), (120, 1.980),
                                                   (100_000, 1.960)])
def test_quantiles_of_student_s_t(freedom, quantile):
    assert plots.student_quantile(freedom) == pytest.approx(quantile, abs=6e-4)


def test_interval_of_a_mean_by_hand():
    """Of 1, 2, 6: mean 3, variance 14/2, two degrees of freedom."""
    mean, low, high = experiments.mean_interval([1.0, 2.0, 6.0])
    half = 4.302653 * np.sqrt(7 / 3)
    np.testing.assert_allclose([mean, low, high], [3, 3 - half, 3 + half], rtol=1e-6, atol=0)


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


for _name in ("add", "sub", "mul", "truediv", "mod", "pow", "matmul", "and", "or"):
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
        "errors": lambda q, k, v: (conditioning.prediction_errors(k, v, beta=0.2, decay=0.9),),
        "exemplars": lambda q, k, v: (rules.exemplar_responses(q, k, v, scale=0.5,
                                                               stored=q @ k.swapaxes(-1, -2) > 0),),
        "gradients": lambda q, k, v: conditioning.attention_gradients(
            q, k, v, v, beta=0 * k[..., 0] + 0.3, decay=0 * k[..., 0] + 0.9,
            error_correcting=True),
        "ph gradients": lambda q, k, v: conditioning.ph_attention_gradients(
            q, k, v, v, beta=0 * k[..., 0] + 0.3, eta=0 * k[..., 0] + 0.2,
            associability=0 * k[..., 0, :] + 0.8)}


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
    here, there = np.ones((3, 2)), DeviceArray(np.ones((3, 2)))
    outcomes, host_state = DeviceArray(np.ones((3, 1))), np.ones((2, 1))
    for mixed in (
            lambda: attention(there, here, outcomes),
            lambda: attention(there, there, outcomes, beta=np.ones(3)),
            lambda: attention(there, there, outcomes, state=host_state),
            lambda: learn(rules.hebbian, there, outcomes, beta=0.1, test=np.ones(3, bool)),
            lambda: learn(rules.hebbian, there, outcomes, beta=0.1, state=host_state),
            lambda: initial_state(rules.pearce_hall, there, outcomes, associability=np.ones(2)),
            lambda: ph_attention(there, there, outcomes, beta=1, eta=1, associability=np.ones(2)),
            lambda: conditioning.mesa_attention(there, there, outcomes, ridge=np.ones(())),
            lambda: conditioning.softmax_attention(there, there, outcomes, scale=np.ones(()))):
        with pytest.raises(TypeError, match="mixed"):
            mixed()


@pytest.mark.parametrize("name", CORE)
def test_core_experiments_run_on_a_device(name, monkeypatch):
    monkeypatch.setattr(experiments, "device_module", lambda device: DEVICE)
    result = experiments.EXPERIMENTS[name].function(**CORE[name] | DEVICE_SIZES.get(name, {}))
    assert all(row.holds for row in result.claims)
    assert not any(isinstance(array, DeviceArray) for array in result.arrays.values())


# The names of the array module that rules.py and conditioning.py use; all of them are in CuPy 14.2.
IN_CUPY = set("""
    abs arange array asarray broadcast_to clip concatenate cumprod cumsum empty empty_like exp
    eye full inf linalg.norm linalg.solve max maximum minimum moveaxis ones ones_like
    result_type sign sqrt stack sum swapaxes tril where zeros zeros_like
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


# Verdicts of the columns of experiments.COLUMNS, expected failures included: + shows the animals'
# finding, - the opposite, . no effect, n not applicable: the column lacks what the row needs.
ATLAS = {
    "acquisition": ".++++++++++++",
    "extinction": "..+++++++++++",
    "partial reinforcement extinction": ".....+..-+...",
    "second-order conditioning": "..-------..++",
    "sensory preconditioning": "......--.....",
    "trace conditioning": "nnnnnnnnnnnn+",
    "blocking": "..++++++++..+",
    "unblocking by a larger US": "nn++++++++nn+",
    "unblocking by a smaller US": "nn-------+nn-",
    "overshadowing": "..++++++++..+",
    "one-trial overshadowing": "......++.....",
    "overexpectation": "--+-+++++...+",
    "relative validity": ".....+..++...",
    "zero contingency": "..+++++++-..+",
    "redundancy effect": "..---.---+++-",
    "conditioned inhibition: summation": "..+++++++..++",
    "conditioned inhibition: retardation": "..+++++++-..+",
    "negative contingency inhibits": "--+++++++--++",
    "inhibitor alone keeps inhibition": "nn------+nn.-",
    "novel cue with inhibitor is neutral": "nn------+nn+-",
    "protection from extinction": "..+++++++...+",
    "superconditioning": "..+++++++-..+",
    "latent inhibition": ".....++++..+.",
    "Hall-Pearce negative transfer": "-----++++--+-",
    "US pre-exposure": "..++++++++..+",
    "uncorrelated CS and US, against CS alone": "--+++++++---+",
    "uncorrelated CS and US, against US alone": "------++---+-",
    "backward blocking": "......++.....",
    "recovery from overshadowing": "......++.....",
    "feature-positive discrimination": "..+++++++++++",
    "feature-negative discrimination": "..+++++++..++",
    "negative patterning": "-----------+-",
    "negative patterning, unique cue": "--+++++++--++",
    "spontaneous recovery": "nn.-+........",
    "rapid reacquisition": "nn...-----.-.",
    "ABA renewal": "nn+++++++++++",
    "reinstatement": "nn++++.++++.+",
}

# What a table drawn up from other programs (calmr, PALMS, pyndl, catlearn, KTD, and plain loops)
# says for Hebb, Rescorla-Wagner, Mackintosh, Pearce-Kaye-Hall, Kalman with drift, temporal
# difference: + shows it, ~ partly, - not (no effect or the opposite).
REFERENCE_RULES = ("Hebb", "Rescorla-Wagner", "Mackintosh", "Pearce-Kaye-Hall", "Kalman, drift",
                   "temporal difference")
REFERENCE = {
    "acquisition": "-++~++", "extinction": "-+++++",
    "partial reinforcement extinction": "------", "second-order conditioning": "-----+",
    "sensory preconditioning": "------", "trace conditioning": "-----+",
    "blocking": "-+++++", "unblocking by a larger US": "~+++++",
    "unblocking by a smaller US": "--+---", "overshadowing": "-+~+++",
    "one-trial overshadowing": "----+-", "overexpectation": "-+-+++",
    "relative validity": "--++--", "zero contingency": "-+-+++", "redundancy effect": "--+---",
    "conditioned inhibition: summation": "-+-+++",
    "conditioned inhibition: retardation": "-+-+++", "negative contingency inhibits": "-+--++",
    "inhibitor alone keeps inhibition": "---+--", "novel cue with inhibitor is neutral": "+-++--",
    "protection from extinction": "-+-+++", "superconditioning": "-+-+++",
    "latent inhibition": "---++-", "Hall-Pearce negative transfer": "---++-",
    "US pre-exposure": "-+++++", "uncorrelated CS and US, against CS alone": "---~+-",
    "uncorrelated CS and US, against US alone": "---~+-", "backward blocking": "----+-",
    "recovery from overshadowing": "----+-", "feature-positive discrimination": "-++~++",
    "feature-negative discrimination": "-+-+++", "negative patterning": "------",
    "negative patterning, unique cue": "-+-+++", "spontaneous recovery": "------",
    "rapid reacquisition": "+-----", "ABA renewal": "~~~~~~", "reinstatement": "-~~~~~",
}
DIFFERENT = {
    ("negative contingency inhibits", "Pearce-Kaye-Hall"):
        "the order decides: +.04 when trials alternate, as in the table; -.04 in random orders, "
        "and the verdict holds in fewer than half of the settings",
    ("uncorrelated CS and US, against CS alone", "Rescorla-Wagner"):
        "the table asks for less than both controls; US pre-exposure alone beats it here too, in "
        "the row below",
    ("uncorrelated CS and US, against CS alone", "temporal difference"): "as Rescorla-Wagner",
    ("partial reinforcement extinction", "Mackintosh"):
        "the table compares the level after extinction, here the share that is left of the "
        "response before it; the level is lower in every rule here too (test below)",
}
# Cells that the table credits and the atlas does not ask: the finding is there without its cause.
NOT_ASKED = {
    ("novel cue with inhibitor is neutral", "Hebb"): "no inhibitor: X is neutral, and so is D",
    ("novel cue with inhibitor is neutral", "Mackintosh"): "the same",
    ("rapid reacquisition", "Hebb"): "nothing was extinguished: the cue has kept its strength",
}

# Strengths from the same table, trials alternating: experimental and control group (None: not in
# the table).
REFERENCE_NUMBERS = [
    ("blocking", "Hebb", 2.0, 2.0), ("blocking", "Rescorla-Wagner", 0.007, 0.500),
    ("blocking", "Mackintosh", 0.609, 0.985), ("blocking", "Pearce-Kaye-Hall", 0.0, 0.519),
    ("blocking", "Kalman, drift", 0.003, 0.500),
    ("unblocking by a larger US", "Rescorla-Wagner", 0.507, 0.007),
    ("unblocking by a larger US", "Kalman, drift", 0.899, None),
    ("unblocking by a smaller US", "Rescorla-Wagner", -0.485, 0.007),
    ("unblocking by a smaller US", "Mackintosh", 0.735, 0.609),
    ("unblocking by a smaller US", "Kalman, drift", -0.890, 0.003),
    ("overshadowing", "Rescorla-Wagner", 0.494, 0.878),
    ("overshadowing", "Mackintosh", 0.878, 0.977),
    ("one-trial overshadowing", "Rescorla-Wagner", 0.100, 0.100),
    ("overexpectation", "Hebb", 4.0, 2.0), ("overexpectation", "Rescorla-Wagner", 0.500, 0.985),
    ("overexpectation", "Pearce-Kaye-Hall", 0.589, None),
    ("overexpectation", "Kalman, drift", 0.513, None),
    ("superconditioning", "Rescorla-Wagner", 0.940, 0.494),
    ("latent inhibition", "Rescorla-Wagner", 0.651, 0.651),
    ("latent inhibition", "Pearce-Kaye-Hall", 0.503, 0.768),
    ("latent inhibition", "Kalman, drift", 0.632, 0.945),
    ("Hall-Pearce negative transfer", "Rescorla-Wagner", 0.601, 0.469),
    ("Hall-Pearce negative transfer", "Mackintosh", 0.803, 0.512),
    ("negative patterning", "Rescorla-Wagner", 0.286, 0.571),
    ("rapid reacquisition", "Rescorla-Wagner", 0.4095, 0.4095),
    ("rapid reacquisition", "Pearce-Kaye-Hall", 0.263, 0.418),
]


@pytest.fixture(scope="module")
def atlas():
    return experiments.phenomena(pairs=20, layer_pairs=1, sweep_pairs=1, rates=(0.1, 0.3),
                                 trials=(6,), saliences=((1, 1), (0.5, 1)))


def cell_responses(name, column, **options):
    """Responses (rates, numbers, saliences, 2 groups, orders, pair) of one cell of the atlas."""
    phenomenon = next(p for p in conditioning.PHENOMENA if p.name == name)
    column = next(c for c in experiments.COLUMNS if c.rule == column)
    order = options.pop("order", phenomenon.order)
    return next(experiments.atlas_responses([phenomenon._replace(order=order)], [column], np,
                                            **options))[2]


def test_every_verdict_of_the_atlas_is_the_expected_one(atlas):
    found = {str(name): "".join(".+n-"[verdict] for verdict in row) for name, row in
             zip(atlas.arrays["names"], atlas.arrays["verdict"], strict=True)}
    assert found == ATLAS


def test_atlas_agrees_with_the_reference_table_but_for_stated_reasons(atlas):
    columns = [[c.rule for c in experiments.COLUMNS].index(rule) for rule in REFERENCE_RULES]
    different, not_asked = set(), set()
    for name, row in zip(atlas.arrays["names"], atlas.arrays["verdict"], strict=True):
        for rule, column, expected in zip(REFERENCE_RULES, columns, REFERENCE[str(name)],
                                          strict=True):
            if row[column] == 2:
                not_asked |= {(str(name), rule)} if expected == "+" else set()
            elif expected != "~" and (row[column] == 1) != (expected == "+"):
                different.add((str(name), rule))
    assert different == set(DIFFERENT) and not_asked == set(NOT_ASKED)


def test_rows_are_not_asked_of_columns_that_lack_what_they_need(atlas):
    """n/a exactly where a need is not shown, and in no share twice."""
    verdicts = dict(zip(map(str, atlas.arrays["names"]), atlas.arrays["verdict"], strict=True))
    shown = {name: row == 1 for name, row in verdicts.items()}
    shown["time steps"] = np.array([c.rule == "temporal difference" for c in experiments.COLUMNS])
    for entry in conditioning.PHENOMENA:
        asked = np.all([shown[need] for need in entry.needs], axis=0)
        assert_array_equal(verdicts[entry.name] == 2, np.broadcast_to(~asked, 13))
    np.testing.assert_allclose(atlas.arrays["shares"].sum(axis=-1), 1, rtol=0, atol=1e-12)


def test_partial_reinforcement_leaves_a_larger_share_though_a_lower_level():
    """What the reference table measures, the level after extinction, is lower in every rule, for
    acquisition ends lower; the share that is left shows persistence in two."""
    entry = next(p for p in conditioning.PHENOMENA if p.proportion)
    options = {"orders": 20}
    level, share = ({experiments.COLUMNS[column].rule: np.mean(cell[0, 0, 0], axis=(-2, -1))
                     for column, _, cell, *_ in experiments.atlas_responses(
                         [variant], experiments.COLUMNS, np, **options)}
                    for variant in (entry._replace(proportion=False, contrast=(0.0, 1.0)), entry))
    assert max(partial - full for partial, full in level.values()) < 0
    higher = {rule for rule, (partial, full) in share.items() if partial - full > 0.02}
    assert higher == {"Pearce-Hall (hybrid)", "Mackintosh"}


@pytest.mark.parametrize("novel, expected", [("40_", {"Kalman", "Kalman, drift"}), ("40K-", set())])
def test_learned_irrelevance_proper_turns_on_its_control(novel, expected):
    """Uncorrelated exposure retards more than CS and US alone add up to only under Kalman, and
    only against a group that is new to the context."""
    texts = ("20KA+50%/20K+50%", "20KA-/20K-", "40K+50%")
    rows = [conditioning.Phenomenon("", "", "", f"{novel} | 10KA+ | A?", text + " | 10KA+ | A?", 0,
                                    order="reversed") for text in texts]
    loss = np.zeros((3, len(experiments.COLUMNS)))
    for column, row, cell, *_ in experiments.atlas_responses(rows, experiments.COLUMNS, np,
                                                             orders=20):
        loss[row, column] = np.mean(cell[0, 0, 0, 0] - cell[0, 0, 0, 1])
    proper = loss[0] - loss[1:].sum(axis=0) > 0.02
    assert {entry.rule for entry, exceeds in zip(experiments.COLUMNS, proper, strict=True)
            if exceeds} == expected


@pytest.mark.parametrize("name, rule, experimental, control", REFERENCE_NUMBERS)
def test_atlas_reproduces_the_strengths_of_other_programs(name, rule, experimental, control):
    groups = cell_responses(name, rule, order="alternate")[0, 0, 0, :, 0, 0]
    control = groups[1] if control is None else control
    np.testing.assert_allclose(groups, [experimental, control], rtol=0, atol=6e-4)


def test_negative_contingency_in_pearce_kaye_hall_depends_on_the_order():
    name, rule = "negative contingency inhibits", "Pearce-Kaye-Hall"
    assert 0.02 < cell_responses(name, rule, order="alternate")[0, 0, 0, 0, 0, 0] < 0.05
    assert -0.06 < np.mean(cell_responses(name, rule, orders=20)[0, 0, 0, 0]) < -0.02


def test_elapsed_time_slows_nothing_but_the_kalman_control_of_reacquisition():
    """Five A+ from the start give .843; drift over 220 empty trials makes the same five .944."""
    now = conditioning.design_arrays("5A+ | A?")
    predictions, _ = rules.learn(rules.kalman, *now[:2], test=now.test, drift=0.01)
    waited = cell_responses("rapid reacquisition", "Kalman, drift")[0, 0, 0, 1, 0, 0]
    np.testing.assert_allclose([predictions[-1, 0], waited], [0.843, 0.944], rtol=0, atol=6e-4)


def test_claims_of_the_atlas_hold(atlas):
    assert [row.claim for row in atlas.claims if not row.holds] == []


def test_atlas_files_and_table_say_what_the_arrays_say(atlas):
    rows = list(csv.DictReader(io.StringIO(atlas.files["phenomena.csv"])))
    cells = json.loads(atlas.files["phenomena.json"])["cells"]
    words = {1: "shows", 0: "no effect", -1: "opposite", 2: "n/a"}
    expected = [words[int(v)] for v in atlas.arrays["verdict"].ravel()]
    assert [row["verdict"] for row in rows] == [cell["verdict"] for cell in cells] == expected
    np.testing.assert_allclose([float(row["effect"]) for row in rows],
                               atlas.arrays["effect"].ravel(), rtol=0, atol=1e-12)
    table = atlas.report.splitlines()
    assert max(map(len, table)) <= 120
    assert sum(line[:41].strip() in ATLAS for line in table) == len(ATLAS)


def test_figures_of_the_atlas_are_drawn_from_saved_arrays(atlas, tmp_path):
    np.savez(tmp_path / "phenomena.npz", **atlas.arrays)
    with np.load(tmp_path / "phenomena.npz") as saved:
        arrays = dict(saved)
    for figure in plots.FIGURES["phenomena"]:
        figure(arrays, []).savefig(tmp_path / "figure.png")
        assert (tmp_path / "figure.png").stat().st_size > 10_000


def test_groups_have_as_many_trials_in_every_phase():
    for phenomenon in conditioning.PHENOMENA:
        texts = [text for text in phenomenon[3:5] if text]
        for n in (None, 6, 10, 20, 30, 50):
            groups = [conditioning.parse_design(text) for text in texts]
            stated = groups[0].phases[0][0].count
            scaled = [conditioning.scaled_design(group, (n or stated) / stated)
                      for group in groups]
            lengths = [[sum(trial.count for trial in phase) for phase in group.phases]
                       for group in scaled]
            assert all(length == lengths[0] for length in lengths), phenomenon.name


def test_phenomena_are_named_once_grouped_and_sourced():
    names = [phenomenon.name for phenomenon in conditioning.PHENOMENA]
    assert len(set(names)) == len(names) and set(names) == set(REFERENCE) == set(ATLAS)
    groups = [phenomenon.group for phenomenon in conditioning.PHENOMENA]
    assert list(dict.fromkeys(groups)) == list(conditioning.GROUPS)
    for phenomenon in conditioning.PHENOMENA:
        assert re.search(r"\b(19|20)\d\d[ab]?\b", phenomenon.source)
        assert set(phenomenon.needs) <= {*names, conditioning.TIME_STEPS}
        mixed = any(len(phase) > 1 for text in phenomenon[3:5] if text
                    for phase in conditioning.parse_design(text).phases)
        assert mixed == (phenomenon.order != "alternate"), phenomenon.name


def test_a_new_phenomenon_is_one_entry():
    entry = conditioning.Phenomenon("counterconditioning to nothing", "recovery", "none 2000",
                                    "8A+ | 4AB- | A?", "8A+ | 4_ | A?", -1)
    cells = {column: (responses, difference) for column, _, responses, difference, _ in
             experiments.atlas_responses([entry], experiments.COLUMNS, np, layer_pairs=1)}
    assert len(cells) == len(experiments.COLUMNS)
    responses, difference = cells[2]
    np.testing.assert_allclose(responses[0, 0, 0, :, 0, 0],
                               [(1 - 0.9**8) * (1 + 0.8**4) / 2, 1 - 0.9**8], rtol=0, atol=1e-12)
    assert difference < 1e-12


@pytest.mark.parametrize("column, rule, start, parameters", [
    ("Pearce-Hall (hybrid)", rules.pearce_hall, {"associability": 0.8}, {"eta": 0.2}),
    ("Rescorla-Wagner, decay", rules.rescorla_wagner, {}, {"decay": 0.98})])
def test_a_cell_of_the_sweep_is_the_experiment_run_alone(column, rule, start, parameters):
    """Padding, batching, saliences and learning rates change nothing."""
    swept = cell_responses("overexpectation", column, rates=(0.1, 0.4), trials=(6, 20),
                           saliences=((1, 1), (0.5, 1)), orders=2, seed=3)
    for number, n in enumerate((6, 20)):
        for group, text in enumerate((f"{n}A+/{n}X+ | {n}AX+ | X?", f"{n}A+/{n}X+ | {n}_ | X?")):
            cues, outcomes, test = conditioning.design_arrays(
                text, cues="AX", saliences={"X": 0.5}, order="reversed", orders=2, seed=3)
            state = rules.initial_state(rule, cues, outcomes, **start)
            predictions, _ = rules.learn(rule, cues, outcomes, test=test, state=state, beta=0.4,
                                         **parameters)
            np.testing.assert_allclose(swept[1, number, 1, group], predictions[..., -1, 0],
                                       rtol=0, atol=1e-12)


@pytest.mark.parametrize("function, start, parameters", [
    (rules.hebbian, {}, {"beta": 0.3, "decay": 0.9}),
    (rules.rescorla_wagner, {}, {"beta": 0.3, "decay": np.array([[0.99, 0.7, 0.9]])}),
    (rules.rescorla_wagner, {}, {"beta": 0.3, "beta_omitted": 0.1}),
    (rules.pearce_hall, {"associability": 0.7}, {"beta": 0.3, "eta": 0.4}),
    (rules.kalman, {"prior": 2.0}, {"noise": 0.5}),
])
def test_layer_asked_ahead_predicts_every_trial_as_the_rule_does(function, start, parameters):
    trials = conditioning.design_arrays("5A+/5AB- | AB?/B? | 4C+ | 3ABC++ | C?")
    state = rules.initial_state(function, *trials[:2], **start)
    expected, _ = rules.learn(function, *trials[:2], test=trials.test, state=state, **parameters)
    found = experiments.layer_predictions(function, trials, start=start, **parameters)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


def test_kalman_with_drift_has_no_layer():
    trials = conditioning.design_arrays("5A+ | A?")
    assert experiments.layer_predictions(rules.kalman, trials, noise=1.0, drift=0.01) is None


@pytest.mark.parametrize("effect, low, high, finding, expected", [
    (0.3, 0.2, 0.4, 1, 1), (0.3, 0.2, 0.4, -1, -1), (-0.3, -0.4, -0.2, -1, 1),
    (0.3, -0.1, 0.7, 1, 0), (0.019, 0.018, 0.02, 1, 0), (0.0, 0.0, 0.0, 0, 1),
    (0.3, 0.3, 0.3, 0, -1), (-0.3, -0.3, -0.3, 0, -1)])
def test_verdict(effect, low, high, finding, expected):
    assert experiments.verdict(effect, low, high, finding, 0.02) == expected


def onset_strength(gap, trace):
    """Response to A after 26 trials of A, a gap of empty steps, and the outcome."""
    cues, outcomes, test = conditioning.design_arrays(f"26A{'>_' * gap}+ | A?", steps=gap + 2)
    traces = conditioning.trial_trace(trace, len(test), gap + 2)
    predictions, _ = rules.learn(rules.temporal_difference, cues, outcomes, test=test, beta=0.1,
                                 trace=traces, discount=0.98)
    return predictions[-gap - 2, 0]


def test_temporal_difference_declines_with_the_gap():
    """An independent simulator's strengths at lambda .9, gaps of 0, 2, 4 and 8 steps."""
    strengths = [onset_strength(gap, 0.9) for gap in (0, 2, 4, 8)]
    np.testing.assert_allclose(strengths, [0.935, 0.728, 0.566, 0.343], rtol=0, atol=6e-4)
    closed = (1 - 0.9**26) * (0.98 * 0.9) ** np.array([0, 2, 4, 8])
    np.testing.assert_allclose(strengths, closed, rtol=0, atol=1e-12)
    assert onset_strength(2, 0.0) == 0


def test_temporal_difference_of_two_steps_is_rescorla_wagner():
    text = "6A+/6AB- | 4BC+ | 2_ | A?/B?/ABC?"
    in_time = conditioning.design_arrays(text, steps=2)
    trace = conditioning.trial_trace(0.9, len(in_time.test), 2)
    found, _ = rules.learn(rules.temporal_difference, *in_time[:2], test=in_time.test, beta=0.2,
                           trace=trace, discount=0.7)
    trials = conditioning.design_arrays(text)
    expected, _ = rules.learn(rules.rescorla_wagner, *trials[:2], test=trials.test, beta=0.2)
    np.testing.assert_allclose(found[::2], expected, rtol=0, atol=1e-12)


def test_temporal_difference_bootstraps_a_serial_cue():
    """B before a trained A gains beta gamma V(A), and loses the part that its trace keeps."""
    cues, outcomes, test = conditioning.design_arrays("9A+ | B>A- | B?", steps=3)
    trace = conditioning.trial_trace(0.5, len(test), 3)
    predictions, _ = rules.learn(rules.temporal_difference, cues, outcomes, test=test, beta=0.1,
                                 trace=trace, discount=0.98)
    V_A = 1 - 0.9**9
    np.testing.assert_allclose(predictions[-3, 0], 0.1 * 0.98 * V_A * (1 - 0.5), rtol=0,
                               atol=1e-12)


def test_exemplar_responses_are_weighted_means():
    rng = np.random.default_rng(0)
    probes, cues, outcomes = (rng.normal(size=(2, n, 3)) for n in (4, 5, 5))
    stored = rng.random((2, 4, 5)) < 0.6
    stored[0, 0] = False
    found = rules.exemplar_responses(probes, cues, outcomes, scale=0.7, stored=stored)
    for b in range(2):
        for q in range(4):
            weights = [np.exp(0.7 * probes[b, q] @ cues[b, t]) * stored[b, q, t] for t in range(5)]
            expected = sum(w * v for w, v in zip(weights, outcomes[b], strict=True))
            expected = expected / sum(weights) if any(stored[b, q]) else expected
            np.testing.assert_allclose(found[b, q], expected, rtol=0, atol=1e-12)


def test_serial_compounds_are_one_trial_or_several_steps():
    design = conditioning.parse_design("2AB > _ > C+ | A?")
    assert design.cues == ("A", "B", "C")
    assert design.phases[0] == (conditioning.TrialType(2, "AB>_>C", "+"),)
    together = conditioning.design_arrays(design)
    np.testing.assert_array_equal(together.cues, [[1, 1, 1], [1, 1, 1], [1, 0, 0]])
    in_time = conditioning.design_arrays(design, steps=5)
    np.testing.assert_array_equal(in_time.cues[:5], [[1, 1, 0], [0, 0, 0], [0, 0, 1], [0, 0, 0],
                                                     [0, 0, 0]])
    np.testing.assert_array_equal(in_time.outcomes[:, 0], [0, 0, 0, 1, 0] * 2 + [0] * 5)
    np.testing.assert_array_equal(in_time.test, [False] * 10 + [True] * 5)
    np.testing.assert_array_equal(conditioning.trial_trace(0.5, 6, 3), [0.5, 0.5, 0] * 2)
    with pytest.raises(ValueError, match="steps must be at least 4"):
        conditioning.design_arrays(design, steps=3)


@pytest.mark.parametrize("text, place", [("A>+", 3), ("A>>B+", 3), (">A+", 1), ("AB>BB+", 1)])
def test_malformed_serial_compounds_show_the_place(text, place):
    with pytest.raises(ValueError, match=f"character {place}"):
        conditioning.parse_design(text)


def test_reversed_pairs_run_each_phase_backwards():
    cues, outcomes, _ = conditioning.design_arrays("3A+/3B- | 2C+/2A-", order="reversed", orders=4)
    assert cues.shape == (4, 2, 10, 3)
    for start, end in ((0, 6), (6, 10)):
        np.testing.assert_array_equal(cues[:, 1, start:end], cues[:, 0, start:end][:, ::-1])
        np.testing.assert_array_equal(outcomes[:, 1, start:end], outcomes[:, 0, start:end][:, ::-1])



# -------------------------------------------------------------------------- quantitative results


def simulated_pairs(seed, replicates, n, d):
    keys, values = (experiments.random_units(np.random.default_rng([seed, i]), replicates, n, d)
                    for i in range(2))
    return keys, values, keys @ experiments.pair_store(keys, values)


@pytest.mark.parametrize("d", [4, 16, 1000])
def test_component_and_length_have_the_moments_of_random_unit_vectors(d):
    t, weights = conditioning.sphere_component(d, 2000)
    assert np.sum(weights) == pytest.approx(1, abs=1e-12)
    assert weights @ t**2 == pytest.approx(1 / d, rel=1e-5)
    assert weights @ t**4 == pytest.approx(3 / (d * (d + 2)), rel=1e-5)
    for m in (1, 2, 30):
        r, weights = conditioning.interference_length(m, d, 2000)
        assert weights @ r**2 == pytest.approx(m / d, rel=2e-3)
    r, weights = conditioning.interference_length(30, d, 2000)
    variance = 2 * 30 * (d - 1) / (d**2 * (d + 2)) + 2 * 30 * 29 / d**3
    assert weights @ r**4 - (weights @ r**2) ** 2 == pytest.approx(variance, rel=2e-2)


@pytest.mark.parametrize("n", [4, 12, 30])
def test_capacity_theory_agrees_with_simulation(n):
    d = 16
    _, values, responses = simulated_pairs(n, 24000 // n, n, d)
    cosine = np.sum(responses * values, axis=-1) / np.sqrt(experiments.squared(responses))
    for tau in (0.5, 0.7, 0.9):
        assert conditioning.faithful_probability(n, d, tau=tau) == pytest.approx(
            np.mean(cosine >= tau), abs=0.015)
    right = experiments.nearest_item(responses, values) == np.arange(n)
    assert conditioning.identification_probability(n, d) == pytest.approx(np.mean(right),
                                                                          abs=0.015)


def test_capacity_theory_has_the_known_limits():
    tau, d = 0.7, 2.0**14
    n = np.array([0.97, 1.0, 1.03]) * d * (1 - tau**2) / tau**2
    below, at, above = conditioning.faithful_probability(n, d, tau=tau)
    assert below > 0.85 and above < 0.15 and at == pytest.approx(0.5, abs=0.02)
    assert conditioning.identification_probability(1, 8) == 1
    assert conditioning.identification_probability(2, 8) == pytest.approx(1, abs=1e-4)
    falling = conditioning.identification_probability(np.array([2, 3, 5, 9, 40]), 8)
    assert np.all(np.diff(falling) < 0)
    one, two = (conditioning.identification_probability(2188, 256, nodes=nodes)
                for nodes in (40, 80))
    assert one == pytest.approx(two, abs=1e-4)


def test_identification_of_few_features_needs_the_component_of_one_less():
    n, d = 3, 4
    _, values, responses = simulated_pairs(20, 100_000, n, d)
    right = experiments.nearest_item(responses, values) == np.arange(n)
    assert conditioning.identification_probability(n, d) == pytest.approx(np.mean(right),
                                                                          abs=0.004)


def test_few_capacities_are_not_fitted_and_fewer_than_three_have_no_slope():
    d = np.array([8, 16, 32, 64])
    capacities = np.array([[[9.0, 4.0, 8.0, 16.0], [1.0, 2.0, 3.0, 64.0]]])
    slopes = experiments.capacity_slopes(capacities, d, capacities[0])
    assert slopes[0, 0, 0] == pytest.approx(experiments.slope(d, capacities[0, 0]), abs=1e-12)
    assert np.isnan(slopes[0, 1]).all()


def test_the_repeated_delta_rule_ends_at_least_squares_only_for_small_rates():
    keys, values, _ = simulated_pairs(21, 4, 16, 8)
    exact, slow, fast = (np.mean(experiments.squared(keys @ store - values)) for store in (
        experiments.pair_store(keys, values, "least squares"),
        experiments.repeated_delta(keys, values, beta=0.05, passes=400),
        experiments.repeated_delta(keys, values, beta=1.0, passes=400)))
    assert 1 < slow / exact < 1.01 and fast / exact > 1.5


def test_store_is_the_state_of_attention():
    keys, values = (experiments.random_units(np.random.default_rng(i), 3, 6, 16)
                    for i in range(2))
    _, linear = conditioning.linear_attention(keys, keys, values)
    np.testing.assert_allclose(experiments.pair_store(keys, values), linear, atol=1e-12)
    _, rule = rules.learn(rules.rescorla_wagner, keys, values, beta=1.0)
    np.testing.assert_allclose(experiments.pair_store(keys, values, "delta, one pass"), rule,
                               atol=1e-12)
    _, long = rules.learn(rules.rescorla_wagner, np.tile(keys, (1, 200, 1)),
                          np.tile(values, (1, 200, 1)), beta=1.0)
    np.testing.assert_allclose(experiments.pair_store(keys, values, "least squares"), long,
                               atol=1e-9)


def test_nearest_item_and_its_broadcasting():
    rng = np.random.default_rng(0)
    responses, values = rng.normal(size=(2, 3, 5, 4)), experiments.random_units(rng, 2, 1, 7, 4)
    distance = experiments.squared(responses[..., :, None, :] - values[..., None, :, :])
    np.testing.assert_array_equal(experiments.nearest_item(responses, values),
                                  np.argmin(distance, axis=-1))


def test_crossing_and_bisection_find_a_known_capacity():
    n = np.array([2, 4, 8, 16])
    success = np.array([[1.0, 0.9, 0.5, 0.1], [1.0, 1.0, 1.0, 0.9], [0.4, 0.3, 0.2, 0.1]])
    np.testing.assert_allclose(experiments.crossing(n, success, 0.7), [6, np.nan, np.nan])
    rows = experiments.bisected_success([(0, 0.5)], lambda n: np.full((8, 1), float(n <= 37)))
    visited = np.array(list(rows))
    passing, failing = np.max(visited[visited <= 37]), np.min(visited[visited > 37])
    assert failing - passing <= 0.15 * passing and len(rows) < 20 and np.sum(visited > 37) > 1
    assert experiments.slope(np.array([2.0, 4.0, 8.0]), np.array([3.0, 12.0, 48.0])) \
        == pytest.approx(2, abs=1e-12)


def test_safe_prefix_from_the_triangular_draw_is_that_of_random_keys():
    d, threshold, replicates = 40, 1.0, 400
    drawn = experiments.longest_safe_prefix(d, threshold, replicates=replicates,
                                            rng=np.random.default_rng(1))
    keys = experiments.random_units(np.random.default_rng(2), replicates, d, d)
    gram = np.abs(keys @ np.swapaxes(keys, -1, -2))
    counted = [max(n for n in range(1, d + 1)
                   if np.max(np.sum(one[:n, :n], axis=-1) - 1) < threshold) for one in gram]
    half = 1.96 * np.sqrt((np.var(drawn) + np.var(counted)) / replicates)
    assert np.mean(drawn) == pytest.approx(np.mean(counted), abs=1.5 * half)
    assert np.mean(drawn) > 5


@pytest.mark.parametrize(("options", "M"), [({}, np.inf), ({"shared": 32}, 32)])
def test_heads_share_the_noise_of_projected_keys(options, M):
    error = experiments.head_grid_error(np.random.default_rng(3), np, 4, 16, n=24, D=8,
                                        replicates=60, **options)
    assert np.mean(error) == pytest.approx(
        conditioning.averaged_head_error(24, 4, 16, M), rel=0.08)


def test_chains_and_least_squares_store_follow_their_closed_forms():
    rng, n, d, L = np.random.default_rng(4), 20, 32, 4
    items = experiments.random_units(rng, 200, L + 1, n, d)
    responses = experiments.uncleaned(items, experiments.pair_store(items[:, :-1], items[:, 1:]))
    error = np.mean(experiments.squared(responses - items[:, 1:]), axis=(0, 2))
    np.testing.assert_allclose(error, conditioning.chained_interference(n, d, np.arange(1, L + 1)),
                               rtol=0.1)
    assert conditioning.chained_error(0.1, 2) == pytest.approx(0.19, abs=1e-12)
    for load in (16, 64):
        keys, values, _ = simulated_pairs(load, 40, load, d)
        left = keys @ experiments.pair_store(keys, values, "least squares") - values
        assert np.mean(experiments.squared(left)) == pytest.approx(
            conditioning.least_squares_error(load, d), abs=0.02)


def test_tracking_errors_in_closed_form():
    world = {"K": 8, "rho": 0.99, "sigma2": 1.0, "s2": 0.2}
    betas, decays = np.array([0.3, 0.9]), np.array([0.9, 0.97])
    delta, hebb, kalman = experiments.tracking(
        np.random.default_rng(5), np, K=8, rhos=np.array([0.99]), betas=betas, decays=decays,
        s2=0.2, trials=1200, burn_in=400, replicates=24)
    np.testing.assert_allclose(np.mean(delta, axis=-1)[0],
                               conditioning.delta_tracking_error(beta=betas, **world), rtol=0.06)
    np.testing.assert_allclose(np.mean(hebb, axis=-1)[0],
                               conditioning.hebbian_tracking_error(decay=decays, **world),
                               rtol=0.06)
    assert np.mean(kalman) < np.min(np.mean(delta, axis=-1))
    # Sums over past trials instead of the closed form: second moments of the response's parts.
    K, rho, sigma2, s2, g = 6, 0.8, 1.5, 0.3, 0.7
    past = np.arange(200)
    weight = (1 - g) * g**past
    between = sigma2 * rho ** np.abs(past[:, None] - past)
    own = weight**2 @ np.full(200, K * (sigma2 + s2) - sigma2)
    expected = weight @ between @ weight + own - 2 * sigma2 * weight @ rho ** (past + 1) + sigma2
    assert conditioning.hebbian_tracking_error(decay=g, K=K, rho=rho, sigma2=sigma2, s2=s2) \
        == pytest.approx(expected, rel=1e-12)
    q, rho, beta = 1e-3, 1 - 1e-9, np.linspace(0.05, 1.5, 2901)
    walk = conditioning.delta_tracking_error(beta=beta, K=8, rho=rho, sigma2=q / (1 - rho**2),
                                             s2=0.2)
    np.testing.assert_allclose(walk, (8 * q + beta**2 * 0.2) / (2 * beta - beta**2), rtol=1e-4)
    assert conditioning.best_beta(K=8, q=q, s2=0.2) == pytest.approx(beta[np.argmin(walk)],
                                                                     abs=1e-3)
    parabola = (np.log(betas_grid := np.geomspace(0.1, 1, 9)) - np.log(0.4)) ** 2
    assert experiments.best_setting(betas_grid, parabola) == pytest.approx(0.4, abs=1e-12)


def test_oja_is_bounded_hebb_with_decay_and_does_not_extinguish():
    rng, c, beta = np.random.default_rng(6), 0.7, 0.5
    cues, outcomes = experiments.random_units(rng, 60, 8), rng.choice([-c, c], size=(60, 1))
    _, oja = rules.learn(rules.oja, cues, outcomes, beta=beta)
    _, hebb = rules.learn(rules.hebbian, cues, outcomes, beta=beta, decay=1 - beta * c**2)
    np.testing.assert_allclose(oja, hebb, atol=1e-12)
    _, one = rules.learn(rules.oja, np.tile(cues[:1], (200, 1)), np.full((200, 1), c), beta=beta)
    assert np.linalg.norm(one) == pytest.approx(conditioning.oja_bound(0, 1, c), abs=1e-12)
    _, after = rules.learn(rules.oja, cues, np.zeros((60, 1)), state=one, beta=beta)
    np.testing.assert_array_equal(after, one)


def test_unlearning_in_closed_form():
    n, d = 10, 24
    keys, values, before = simulated_pairs(7, 4000, n, d)
    memory = experiments.pair_store(keys, values)
    after = keys @ experiments.unlearned(memory, keys[:, 0], values[:, 0], "error correction", 0)
    assert np.max(np.abs(after[:, 0])) < 1e-12
    change = experiments.squared(after - before)[:, 1:]
    assert np.mean(change) == pytest.approx(conditioning.unlearning_change(n, d), rel=0.04)
    error = experiments.squared(after - values)[:, 1:]
    assert np.mean(error) == pytest.approx(conditioning.unlearned_error(n, d), rel=0.04)
    assert np.mean(error) < (n - 1) / d
    decayed = experiments.unlearned(memory, keys[:, 0], values[:, 0], "decay", 0.25)
    np.testing.assert_array_equal(decayed, 0.25 * memory)
    keys, values, before = simulated_pairs(8, 200_000, 3, 4)     # where 3/d^2 would be seen
    after = before - keys @ keys[:, 0, :, None] * before[:, :1]
    change, error = (np.mean(experiments.squared(after - other)[:, 1:])
                     for other in (before, values))
    assert change == pytest.approx(conditioning.unlearning_change(3, 4), rel=0.01)
    assert error == pytest.approx(conditioning.unlearned_error(3, 4), rel=0.02)


@pytest.mark.parametrize("name", ["capacity", "heads", "depth", "drift", "unlearning"])
def test_quantitative_claims_hold_at_small_sizes_and_are_drawn(name):
    function, quick, _ = experiments.EXPERIMENTS[name]
    result = function(seed=0, **quick)
    assert [row.claim for row in result.claims if not row.holds] == []
    for figure in plots.FIGURES[name]:
        assert figure(result.arrays, result.claims).axes


def test_cost_measures_memory_and_is_drawn(monkeypatch):
    monkeypatch.setattr(conditioning, "SEGMENT", 1)  # small beside the few tokens of a quick test
    result = experiments.cost(repeats=2, linear=(500, 1000, 2000))
    memory = [row for row in result.claims if "memory" in row.claim]
    assert len(memory) == 4 and all(row.holds for row in memory)
    assert plots.cost(result.arrays, result.claims).axes


# --------------------------------------------------------------------------------- trained models


def largest_gradient_error(losses, arguments, gradients, h=1e-5):
    """Largest error of a gradient relative to the largest entry of that argument's gradient.

    Central differences, all entries of an argument at once: losses(arguments) gets every argument
    with one leading axis more, along which the moved copies of one of them lie.
    """
    errors, held = [], {name: value[None] for name, value in arguments.items()}
    for name, value in arguments.items():
        moves = h * np.eye(value.size).reshape(-1, *value.shape)
        up, down = (losses(held | {name: value + sign * moves}) for sign in (1, -1))
        expected = ((up - down) / (2 * h)).reshape(value.shape)
        assert gradients[name].shape == value.shape
        errors.append(np.max(abs(gradients[name] - expected)) / np.max(abs(expected)))
    return max(errors)


def memory_arguments(rng, T=6, K=4, D=3):
    return {"queries": rng.normal(size=(2, 1, T, K)), "keys": 0.5 * rng.normal(size=(1, 3, T, K)),
            "values": rng.normal(size=(2, 3, T, D)), "state": rng.normal(size=(1, 3, K, D))}


@pytest.mark.parametrize("error_correcting", [False, True])
@pytest.mark.parametrize(("beta_shape", "decay_shape"), [((2, 1, 6), (2, 1, 1)),
                                                         ((1, 3, 6, 4), (1, 3, 6))])
def test_attention_gradients(error_correcting, beta_shape, decay_shape):
    rng = np.random.default_rng(1)
    arguments = memory_arguments(rng) | {"beta": rng.uniform(0.2, 1, size=beta_shape),
                                         "decay": rng.uniform(0.3, 1, size=decay_shape)}
    arguments["decay"][..., decay_shape[-1] // 2] = 0      # products there are not divisible
    arguments["decay"] = np.where(decay_shape[-1] == 1, 0.7, arguments["decay"])
    options = {"error_correcting": error_correcting}
    d_outputs, d_state = rng.normal(size=(2, 3, 6, 3)), rng.normal(size=(2, 3, 4, 3))

    def losses(arguments):
        outputs, state = conditioning.attention(**arguments, **options)
        return np.sum(outputs * d_outputs, (1, 2, 3, 4)) + np.sum(state * d_state, (1, 2, 3, 4))
    gradients = conditioning.attention_gradients(**arguments, **options, d_outputs=d_outputs,
                                                 d_state=d_state)._asdict()
    assert largest_gradient_error(losses, arguments, gradients) < 1e-7


@pytest.mark.parametrize("bounds", [(0.0, 5.0), (0.3, 0.9)])
def test_ph_attention_gradients(bounds):
    rng = np.random.default_rng(2)
    arguments = memory_arguments(rng) | {
        "beta": rng.uniform(0.2, 1, size=(2, 1, 6)),
        "eta": rng.uniform(0.2, 0.9, size=(1, 3, 6, 4)),
        "associability": rng.uniform(0.3, 1.2, size=(2, 1, 4))}
    d_outputs = rng.normal(size=(2, 3, 6, 3))

    def of_state(function, arguments, **more):
        rest = dict(arguments)
        state = rules.AssociabilityState(rest.pop("state"), rest.pop("associability"))
        return function(**rest, **more, state=state, bounds=bounds)

    def losses(arguments):
        outputs, _ = of_state(conditioning.ph_attention, arguments)
        return np.sum(outputs * d_outputs, axis=(1, 2, 3, 4))
    gradients = of_state(conditioning.ph_attention_gradients, arguments, d_outputs=d_outputs)
    assert largest_gradient_error(losses, arguments, gradients._asdict()) < 1e-7


def test_associability_of_an_absent_feature_keeps_its_gradient():
    """Outside the bounds too: only features that are presented are clipped."""
    keys, values = np.array([[1.0, 0.0], [1.0, 1.0]]), np.ones((2, 1))
    start = {"associability": np.array([0.5, 2.0])}

    def outputs(associability):
        return conditioning.ph_attention(keys, keys, values, beta=0.1, eta=0.1,
                                         associability=associability)[0].sum()
    gradients = conditioning.ph_attention_gradients(keys, keys, values, np.ones((2, 1)), beta=0.1,
                                                    eta=0.1, **start)
    expected = [(outputs(start["associability"] + move) - outputs(start["associability"] - move))
                / 2e-5 for move in 1e-5 * np.eye(2)]
    np.testing.assert_allclose(gradients.associability, expected, rtol=0, atol=1e-9)
    assert expected[1] > 0.05


def test_gradients_where_nothing_is_presented():
    """A zero key and a zero error: the subgradient 0, no NaN; constants have no gradient."""
    keys, values = np.zeros((3, 4)), np.zeros((3, 2))
    d_outputs = np.ones((3, 2))
    hybrid = conditioning.ph_attention_gradients(keys, keys, values, d_outputs, beta=0.5, eta=0.5)
    delta = conditioning.attention_gradients(keys, keys, values, d_outputs, beta=0.5)
    assert delta.beta is delta.decay is hybrid.beta is hybrid.associability is None
    for gradients in (delta, hybrid):
        for gradient in gradients:
            assert gradient is None or np.all(gradient == 0)
    with pytest.raises(ValueError, match="decay must be a number or one a token"):
        conditioning.attention_gradients(keys, keys, values, d_outputs, decay=np.ones((3, 4)))


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("name", list(experiments.TRAINED_RULES))
def test_model_gradients(name, layers):
    """Every parameter of every variant, within 1e-6 of that parameter's largest gradient."""
    rule, sizes = experiments.TRAINED_RULES[name], {"cues": 4, "outcomes": 3, "tokens": 7}
    rng = np.random.default_rng(4)
    parameters = experiments.initial_parameters(rule, [rng], layers=layers, dtype="float64",
                                                **sizes)
    parameters = {key: value + 0.3 * rng.normal(size=value.shape) for key, value in
                  parameters.items()}
    for layer in range(1, layers + 1):      # a decay of .9975 hardly has a gradient
        if rule.decay != "none":
            parameters[f"decay_{layer}_bias"] -= 5
    sequences = experiments.association_task([rng], sequences=3, pairs=3, dtype="float64", **sizes)

    def losses(parameters):
        answers, _ = experiments.model_answers(rule, parameters, sequences.tokens)
        return experiments.squared_error(answers, sequences)[0]
    answers, layers = experiments.model_answers(rule, parameters, sequences.tokens)
    gradients = experiments.model_gradients(rule, parameters, layers,
                                            experiments.squared_error(answers, sequences)[1])
    assert set(gradients) == set(parameters)
    assert largest_gradient_error(losses, {key: value[0] for key, value in parameters.items()},
                                  {key: value[0] for key, value in gradients.items()}) < 1e-6


def test_adam_by_hand():
    """The first step has the size of the rate whatever the gradient's; the second by algebra."""
    gradients = {"w": np.array([3.0, -0.01])}
    first, moments = experiments.adam_step({"w": np.zeros(2)}, gradients, {}, 1, 0.1)
    np.testing.assert_allclose(first["w"], [-0.1, 0.1], rtol=0, atol=1e-6)
    second, _ = experiments.adam_step(first, {"w": np.zeros(2)}, moments, 2, 0.1)
    step = 0.1 * (0.09 / (1 - 0.9**2)) / np.sqrt(0.000999 / (1 - 0.999**2))
    np.testing.assert_allclose(second["w"], [-0.1 - step, 0.1 + step], rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", ["DeltaNet", "PH-attention"])
def test_a_tiny_model_learns(name, capsys):
    """Two models at once come well below 1, the loss of no answer; again with the same numbers."""
    rule, sizes = experiments.TRAINED_RULES[name], {"cues": 6, "outcomes": 3, "tokens": 8}

    def run(steps):
        generators = [np.random.default_rng([5, i]) for i in range(2)]
        start = experiments.initial_parameters(rule, generators, dtype="float64", **sizes)
        kept = {key: value.copy() for key, value in start.items()}
        trained = experiments.train(rule, start, lambda: experiments.association_task(
            generators, sequences=16, pairs=2, dtype="float64", **sizes), steps=steps, rate=0.08)
        assert all(np.all(start[key] == kept[key]) for key in start)
        return trained
    parameters, losses = run(150)
    assert losses.shape == (150, 2) and np.all(losses[-10:].mean(axis=0) < 0.6)
    assert "step 150/150, loss" in capsys.readouterr().err
    for first, second in zip(run(3)[0].items(), run(3)[0].items(), strict=True):
        np.testing.assert_array_equal(first[1], second[1])


def test_the_task_has_no_conditioning_design():
    """Outcomes are shown with every cue that is not asked for; a query follows its pair."""
    generators = [np.random.default_rng([6, i]) for i in range(2)]
    task = experiments.association_task(generators, sequences=50, pairs=8, dtype="float64")
    once = experiments.association_task(generators[:1], sequences=50, pairs=8, once=True)
    cues, outcomes, asked = (task.tokens[..., :16], task.tokens[..., 16:-1], task.asked > 0)
    np.testing.assert_allclose(np.sum(cues**2, axis=-1), 1, rtol=0, atol=1e-12)
    np.testing.assert_allclose(np.sum(outcomes**2, axis=-1), ~asked, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(task.tokens[..., -1], asked)
    same = np.all(cues[..., :, None, :] == cues[..., None, :, :], axis=-1)
    shown_before = np.any(np.tril(same, -1) & ~asked[..., None, :], axis=-1)
    assert np.all(shown_before[asked])
    assert once.tokens.shape == (1, 50, 16, 25)
    np.testing.assert_array_equal(once.asked.sum(axis=-1), 8)


def test_probes_on_hand_set_weights_are_the_closed_forms():
    sets = experiments.random_cue_sets([np.random.default_rng(7)], sets=2)
    for name, beta in (("DeltaNet", 0.7), ("DeltaNet", 0.2), ("linear attention", 0.5),
                       ("RetNet", 0.5)):
        rule = experiments.TRAINED_RULES[name]
        weights = experiments.hand_set_parameters(rule, beta=beta, gain=1.3, decay=0.9,
                                                  dtype="float64")
        indices, responses = experiments.probe_indices(rule, weights, sets)
        expected = experiments.closed_form_indices(rule, beta)
        equilibrium = list(experiments.PROBES).index("conditioned inhibition")
        simple = [i for i in range(len(expected))
                  if i != equilibrium and not np.isnan(expected[i])]
        assert len(simple) >= 4
        np.testing.assert_allclose(indices[0, simple], expected[simple], rtol=0, atol=1e-10)
        if rule.error_correcting:      # A+/AB- ends there; six trials are on the way
            trials = conditioning.design_arrays("6A+/6AB-", compound="normalised")
            _, memory = rules.learn(rules.rescorla_wagner, trials.cues, trials.outcomes, beta=beta)
            np.testing.assert_allclose(responses[0, equilibrium, 0], 1.3 * memory[1, 0], rtol=0,
                                       atol=1e-10)


def test_recovery_is_the_rise_less_that_of_a_cue_never_shown():
    responses = np.array([[[0.1, 0.4, 0.2], [0.0, 0.1, 0.3]]])
    np.testing.assert_allclose(experiments.recovery_rise(responses), [[0, 0.2, -0.2]], rtol=0,
                               atol=1e-12)


def test_schedule_and_start_of_training():
    steps = np.arange(1, 301)
    rates = [experiments.learning_rate(step, 300, 2.0) for step in steps]
    assert rates[0] == pytest.approx(2 / 60, rel=1e-3) and rates[-1] == pytest.approx(0, abs=1e-12)
    assert 55 <= np.argmax(rates) + 1 <= 65 and rates[149] == pytest.approx(1, rel=1e-12)
    start = experiments.initial_parameters(experiments.TRAINED_RULES["RetNet"],
                                           [np.random.default_rng(0)])
    size = np.sqrt(np.mean(start["positions"]**2)) * np.sqrt(experiments.TOKENS)
    assert size == pytest.approx(0.1, rel=0.1)
    assert np.std(start["keys_1"]) == pytest.approx(25**-0.5, rel=0.1)


@pytest.mark.parametrize("share", [0.0, 0.8])
def test_a_repeated_pair_is_asked_for_with_the_query_share(share):
    task = experiments.association_task([np.random.default_rng(11)], sequences=400, pairs=4,
                                        query_share=share)
    cues = task.tokens[..., :16]
    same = np.all(cues[..., :, None, :] == cues[..., None, :, :], axis=-1)
    repeated = np.any(np.tril(same, -1), axis=-1)
    assert np.mean(task.asked[repeated]) == pytest.approx(share, abs=0.02)


def test_rates_by_history_and_what_is_made_of_them():
    """Hand-set PH-attention: beta times the associability of the cue shown, as the rule has it."""
    rule, sets = experiments.TRAINED_RULES["PH-attention"], experiments.random_cue_sets(
        [np.random.default_rng(12)], sets=3)
    weights = experiments.hand_set_parameters(rule, beta=0.3, eta=0.7, associability=3.0,
                                              dtype="float64")
    found = experiments.rates_after(rule, weights, sets, 1)[0]
    for i, history in enumerate(experiments.HISTORIES):
        prompt = experiments.design_prompt(history, sets)[0]
        A = sets.cues[0, :, 0]
        keys = prompt[..., :16] / np.sqrt(np.sum(prompt[..., :16]**2, axis=-1, keepdims=True))
        start = AssociabilityState(np.zeros((3, 16, 8)), np.full((3, 16), 3.0))
        _, state = learn(rules.pearce_hall, keys, prompt[..., 16:-1], state=start, beta=0.3,
                         eta=0.7, bounds=experiments.ASSOCIABILITY_BOUNDS)
        expected = 0.3 * np.mean(np.sum(state.associability * A**2, axis=-1))
        assert found[i] == pytest.approx(expected, rel=1e-10)
    rates = np.array([[1.0, 2.0, 3.0, 2.0, 2.0, 4.0, 4.0, 4.0, 1.0, 2.0]])
    assert experiments.spread_of_rates(rates)[0] == pytest.approx(1, abs=1e-12)
    assert experiments.rate_of_novelty(rates)[0] == pytest.approx(0.8, abs=1e-12)


def test_retention_probes_see_recovery_where_there_is_some():
    sets = experiments.random_cue_sets([np.random.default_rng(8), np.random.default_rng(9)],
                                       sets=3)
    rule = experiments.TRAINED_RULES["DeltaNet"]
    weights = experiments.hand_set_parameters(rule, beta=0.5, dtype="float64")
    flat = experiments.recovery_rise(experiments.responses_after_retention(rule, weights, sets))
    risen = experiments.recovery_rise(experiments.responses_after_retention(
        None, None, sets, experiments.slow_fast_responses))
    np.testing.assert_allclose(flat, 0, rtol=0, atol=1e-10)
    assert np.all(risen[:, 1:] > 0.1)


def test_trained_experiments_run_and_draw(capsys):
    """From training to figures, at the smallest size: finite numbers, small files, all figures."""
    small = {"seeds": 2, "sequences": 2, "steps": 2, "sets": 2, "test_sequences": 2, "quick": True}
    for function, more in ((experiments.trained, {"compared_steps": 2, "once_steps": 2}),
                           (experiments.trained_two_layers, {})):
        arrays, claims, *_ = function(**small, **more)
        assert all(np.isfinite(row.measured) and "quick" in row.claim for row in claims)
        assert sum(array.nbytes for array in arrays.values()) < 1e6
        for figure in plots.FIGURES[function.__name__]:
            assert figure(arrays, claims).axes
    assert "6 of 6" in capsys.readouterr().err


def test_saved_weights_answer_as_the_trained_model():
    rule = experiments.TRAINED_RULES["PH-attention"]
    weights = experiments.hand_set_parameters(rule, beta=0.3, eta=0.7, associability=3.0)
    saved = {f"ph_attention_weights_{name}": value for name, value in weights.items()}
    found = experiments.saved_weights(saved | {"deltanet_weights_keys_1": 0}, "PH-attention")
    assert found.keys() == weights.keys()
    sets = experiments.random_cue_sets([np.random.default_rng(10)], sets=2)
    strength = dict(zip(experiments.RATE_PROBES, experiments.rate_probes(rule, found, sets)[0],
                        strict=True))
    assert strength["omitted"] < strength["omitted, another cue"] - 0.1
    assert strength["half of the time"] > strength["constant half"] + 0.1


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


def test_output_that_cannot_be_written_is_one_line(tmp_path):
    with open("/dev/full", "w") as full:
        done = subprocess.run([sys.executable, "experiments.py", "--list"], cwd=HERE, stdout=full,
                              stderr=subprocess.PIPE, text=True, timeout=120)
    assert done.returncode == 2
    assert done.stderr == "experiments.py: [Errno 28] No space left on device\n"


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


@pytest.mark.parametrize("step", ["copy2", "replace"])
@pytest.mark.parametrize("blocked", ["first.npz", "second.npz", "claims.json"])
def test_results_are_replaced_all_or_none(tmp_path, monkeypatch, blocked, step, small):
    out = str(tmp_path)
    assert experiments.main(["second", "--out", out]) == 0
    before, owner = contents(tmp_path), experiments.os if step == "replace" else experiments.shutil
    right = getattr(owner, step)

    def failing(source, target):
        if Path(target).name == blocked and "earlier" not in Path(source).parts:
            Path(target).write_bytes(b"torn") if step == "copy2" else None
            raise OSError(5, "Input/output error")
        right(source, target)
    monkeypatch.setattr(owner, step, failing)
    status = experiments.main(["first", "second", "--seed", "5", "--out", out])
    if step == "copy2" and blocked == "first.npz":
        assert status == 0  # there was none to copy
    else:
        assert status == 2 and contents(tmp_path) == before


def test_results_that_are_not_ours_are_not_overwritten(tmp_path, capsys):
    for content in ("not json", "[]", '{"claims": 1, "parameters": {}}',
                    '{"claims": [{}], "parameters": {}}', '{"claims": [1], "parameters": {}}'):
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


BLOCK = r"((?:(?!```).)*)```"
README_EXAMPLES = re.findall(rf"```python\n{BLOCK}\s+```text\n{BLOCK}",
                             (HERE / "README.md").read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize("example, printed", README_EXAMPLES)
def test_the_readme_s_examples_print_what_it_says(example, printed, capsys, monkeypatch):
    monkeypatch.chdir(HERE)
    exec(compile(example, "README.md", "exec"), {})
    assert capsys.readouterr().out.strip() == printed.strip()


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


def run_design(*arguments):
    return experiments.main(["design", *map(str, arguments)])


def test_design_command_prints_and_saves_the_responses(tmp_path, capsys):
    assert run_design("10A+ | 10AB+ | B?", "--rules", "rescorla_wagner", "hebbian", "--beta", 0.2,
                      "--control", "10_ | 10AB+ | B?", "--out", tmp_path) == 0
    printed = capsys.readouterr().out
    blocked = 0.5 * 0.8**10 * (1 - 0.6**10)
    overshadowed = 0.5 * (1 - 0.6**10)
    assert (f"effect, B? against B?, rescorla_wagner: {blocked:.6f} - {overshadowed:.6f} = "
            f"{blocked - overshadowed:.6f}") in printed
    assert "rescorla_wagner = DeltaNet: largest difference" in printed
    with open(tmp_path / "design.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 42 and rows[20]["stimulus"] == "B?" and rows[20]["phase"] == "3"
    np.testing.assert_allclose([float(rows[20][name]) for name in
                                ("rescorla_wagner", "DeltaNet", "hebbian", "linear attention")],
                               [blocked, blocked, 2.0, 2.0], rtol=0, atol=1e-12)
    assert (tmp_path / "design.png").stat().st_size > 10_000
    assert sorted(path.name for path in tmp_path.iterdir()) == ["design.csv", "design.png"]


def test_design_command_runs_every_rule(tmp_path, capsys):
    assert run_design("4A+/4AX- | 2B>A- | X?/B?", "--rules", *rules.RULES, "--order", "random",
                      "--seed", 3, "--salience", "A=0.5", "--similarity", "AX=0.3",
                      "--decay", 0.9, "--out", tmp_path) == 0
    printed = capsys.readouterr().out
    for name in ("RetNet", "Gated DeltaNet", "PH-attention", "MesaNet"):
        difference = re.search(rf"= {name}: largest difference (\S+)", printed)
        assert float(difference[1]) < 1e-10
    with open(tmp_path / "design.csv", newline="", encoding="utf-8") as file:
        shown = [row["stimulus"] for row in csv.DictReader(file)]
    sequence = conditioning.trial_sequence(conditioning.parse_design("4A+/4AX- | 2B>A- | X?/B?"),
                                           rng=np.random.default_rng([3, 0]))
    assert shown == [str(trial) for phase in sequence for trial in phase]


@pytest.mark.parametrize("arguments, message", [
    (["10A+ | B!"], "character 9"),
    ([""], "character 1"),
    (["10A+", "--rules", "skinner"], "no rule 'skinner'"),
    (["10A+", "--eta", "0.2"], "--eta is a parameter of none"),
    (["10A+", "--beta", "-1"], "number from 0 on"),
    (["10A+", "--decay", "1.5"], "--decay must be 0 to 1"),
    (["10A+", "--rules", "kalman", "--noise", "0"], "--noise must be above 0"),
    (["10AB+", "--beta", "1"], "unstable"),
    (["10AB+", "--rules", "temporal_difference", "--beta", "1.5"], "unstable"),
    (["10A++", "--rules", "oja", "--beta", "0.5"], "unstable"),
    (["10AB+", "--rules", "pearce_kaye_hall", "--beta-inhibitory", "1"], "unstable"),
    (["10A+", "--rules", "pearce_kaye_hall", "--eta", "1.1"], "eta 1.1 times salience 1 must"),
    (["10A+", "--rules", "ph_attention", "--eta", "0.6", "--salience", "A=2"], "unstable"),
    (["20+ | A?"], "(a US alone: give the context a letter, 20K+)"),
    (["10A+", "--orders", "0"], "orders must be at least 1"),
    (["10A+", "--salience", "Q=1"], "saliences"),
    (["10A+", "--salience", "A"], "must be such as A=0.5"),
    (["10AB+", "--similarity", "AB=2"], "similarity"),
    (["10A+ | A?", "--control", "10B+"], "as many test trials"),
    (["900000A+"], "100,000"),
    (["500A+", "--rules", "hebbian", "--beta", "1e308"], "largest number"),
])
def test_design_command_refuses_in_one_line(arguments, message, tmp_path, capsys):
    kept = tmp_path / "design.csv"
    kept.write_text("earlier", encoding="utf-8")
    assert run_design(*arguments, "--out", tmp_path) == 2
    printed = capsys.readouterr()
    assert message in printed.err and printed.err.count("\n") == 1 and not printed.out
    assert kept.read_text(encoding="utf-8") == "earlier" and list(tmp_path.iterdir()) == [kept]


def test_design_command_gives_the_effect_over_orders(tmp_path, capsys):
    arguments = ["6A+/6AX\u2013 | X?", "--control", "6A+/6X- | X?", "--rules", "deltanet",
                 "temporal_difference", "--out", tmp_path]
    assert run_design(*arguments) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("cues: A, X; rates: rescorla_wagner beta 0.1; temporal_difference ")
    assert "note: one order of mixed trials" in printed
    assert run_design(*arguments, "--orders", 20, "--seed", 5) == 0
    printed = capsys.readouterr().out
    arrays = design_arrays("6A+/6AX- | X?", order="random", orders=20, seed=5)
    predictions, _ = rules.learn(rules.rescorla_wagner, *arrays[:2], test=arrays.test, beta=0.1)
    mean, low, high = experiments.mean_interval(predictions[:, -1, 0])
    assert "one order" not in printed and low < mean < high
    for rule in ("rescorla_wagner", "temporal_difference"):
        assert (f"{rule}: {mean:.6f} - 0.000000 = {mean:.6f}, 95% interval {low:.6f} to {high:.6f} "
                "over 20 orders") in printed


def test_design_command_knows_layers_by_name_and_minds_the_bound(tmp_path, capsys):
    arguments = ["66T+ | 6T++ | T?", "--control", "66L+ | 6T++ | T?", "--out", tmp_path, "--rules"]
    assert run_design(*arguments, *experiments.ALIASES) == 0
    printed = capsys.readouterr().out
    assert "hebbian, decay beta 0.05, decay 0.98" in printed and "exceeds 1" in printed
    assert run_design(*arguments, "ph_attention", "--us", 0.25, 1) == 0
    printed = capsys.readouterr().out
    effect = next(cell[0, 0, 0] for _, _, cell, *_ in experiments.atlas_responses(
        [p for p in conditioning.PHENOMENA if p.name == "Hall-Pearce negative transfer"],
        [c for c in experiments.COLUMNS if c.layer == "PH-attention"], np))
    assert "exceeds 1" not in printed
    assert f"pearce_hall: {effect[0, 0, 0]:.6f} - {effect[1, 0, 0]:.6f} = " in printed


def test_unstable_bound_is_the_squared_length_of_the_largest_stimulus(tmp_path, capsys):
    own_error = ["--rules", "bush_mosteller", "mackintosh"]
    assert run_design("4AB+", "--beta", 1.9, *own_error, "--out", tmp_path) == 0
    assert run_design("4AB+", "--beta", 1.9, "--compound", "normalised", "--out", tmp_path) == 0
    assert run_design("4AB+", "--beta", 0.99, "--out", tmp_path) == 0
    assert "unstable" not in capsys.readouterr().err


def test_design_command_keeps_earlier_files_when_saving_fails(tmp_path, capsys, monkeypatch):
    assert run_design("3A+ | A?", "--out", tmp_path) == 0
    before = (tmp_path / "design.csv").read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")
    monkeypatch.setattr(experiments, "save_design", full)
    assert run_design("9A+ | A?", "--out", tmp_path) == 2
    assert "No space left" in capsys.readouterr().err
    assert (tmp_path / "design.csv").read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["design.csv", "design.png"]


def test_groups_of_unequal_length_are_noted(tmp_path, capsys):
    assert run_design("4A+ | 4AX+ | X?", "--control", "4AX+ | X?", "--out", tmp_path) == 0
    assert "note: 8 trials before the test against 4" in capsys.readouterr().out

