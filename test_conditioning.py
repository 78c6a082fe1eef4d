"""All tests: python -m pytest -q

Tolerances are written in full. float64 forms of one thing agree to 1e-12, closed forms to 1e-12,
float32 to 1e-5. Numbers of other people's programs are given with their source.
"""

import numpy as np
import pytest

import conditioning
import experiments
import plots
import rules

# -------------------------------------------------------------------------------------- the rules


# ------------------------------------------------------------------------------- attention forms


# ------------------------------------------------------------------------- designs, closed forms


# --------------------------------------------------------------------------- experiments of core


# ------------------------------------------------------------------------------------- the atlas


# -------------------------------------------------------------------------- quantitative results


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


def test_retention_probes_see_recovery_where_there_is_some():
    sets = experiments.random_cue_sets([np.random.default_rng(8), np.random.default_rng(9)],
                                       sets=3)
    rule = experiments.TRAINED_RULES["DeltaNet"]
    weights = experiments.hand_set_parameters(rule, beta=0.5, dtype="float64")
    flat = experiments.recovery(experiments.retention_responses(rule, weights, sets))
    risen = experiments.recovery(experiments.retention_responses(
        None, None, sets, experiments.slow_fast_responses))
    np.testing.assert_allclose(flat, 0, rtol=0, atol=1e-10)
    assert np.all(risen[:, 1:] > 0.1)


def test_trained_experiments_run_and_draw(capsys):
    """From training to figures, at the smallest size: finite numbers, small files, all figures."""
    small = {"seeds": 2, "sequences": 2, "steps": 2, "sets": 2, "test_sequences": 2, "quick": True}
    for function, more in ((experiments.trained, {"ph_steps": 2, "once_steps": 2}),
                           (experiments.trained_two_layers, {})):
        arrays, claims = function(**small, **more)
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


# ---------------------------------------------------------------------------------- command line
