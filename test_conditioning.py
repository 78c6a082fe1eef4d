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
    assert conditioning.identification_probability(2, 8) == pytest.approx(1, abs=1e-4)
    falling = conditioning.identification_probability(np.array([2, 3, 5, 9, 40]), 8)
    assert np.all(np.diff(falling) < 0)
    one, two = (conditioning.identification_probability(2188, 256, nodes=nodes)
                for nodes in (40, 80))
    assert one == pytest.approx(two, abs=1e-4)


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
    np.testing.assert_allclose(experiments.pair_store(keys, values, "delta, converged"), long,
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


def test_chains_and_converged_store_follow_their_closed_forms():
    rng, n, d, L = np.random.default_rng(4), 20, 32, 4
    items = experiments.random_units(rng, 200, L + 1, n, d)
    responses = experiments.uncleaned(items, experiments.pair_store(items[:, :-1], items[:, 1:]))
    error = np.mean(experiments.squared(responses - items[:, 1:]), axis=(0, 2))
    np.testing.assert_allclose(error, conditioning.chained_interference(n, d, np.arange(1, L + 1)),
                               rtol=0.1)
    assert conditioning.chained_error(0.1, 2) == pytest.approx(0.19, abs=1e-12)
    for load in (16, 64):
        keys, values, _ = simulated_pairs(load, 40, load, d)
        left = keys @ experiments.pair_store(keys, values, "delta, converged") - values
        assert np.mean(experiments.squared(left)) == pytest.approx(
            conditioning.converged_delta_error(load, d), abs=0.02)


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


@pytest.mark.parametrize("name", ["capacity", "heads", "depth", "drift", "unlearning"])
def test_quantitative_claims_hold_at_small_sizes_and_are_drawn(name):
    function, quick, _ = experiments.EXPERIMENTS[name]
    result = function(seed=0, **quick)
    assert [row.claim for row in result.claims if not row.holds] == []
    for figure in plots.FIGURES[name]:
        assert figure(result.arrays, result.claims).axes


def test_cost_measures_memory_and_is_drawn():
    result = experiments.cost(repeats=2, linear=(500, 1000, 2000))
    memory = [row for row in result.claims if "memory" in row.claim]
    assert len(memory) == 4 and all(row.holds for row in memory)
    assert plots.cost(result.arrays, result.claims).axes


# --------------------------------------------------------------------------------- trained models


# ------------------------------------------------------------------------------------- benchmark


# ---------------------------------------------------------------------------------- command line
