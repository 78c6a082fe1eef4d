"""All tests: python -m pytest -q

Tolerances are written in full. float64 forms of one thing agree to 1e-12, closed forms to 1e-12,
float32 to 1e-5. Numbers of other people's programs are given with their source.
"""

import csv
import io
import json
import re

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


# Verdicts of the columns of experiments.COLUMNS, expected failures included: + shows the animals'
# finding, - the opposite, . no effect.
ATLAS = {
    "acquisition": ".++++++++++++",
    "extinction": "..+++++++++++",
    "partial reinforcement extinction": "-------------",
    "second-order conditioning": "..-------..++",
    "sensory preconditioning": "......--.....",
    "trace conditioning": "............+",
    "blocking": "..++++++++..+",
    "unblocking by a larger US": "+++++++++++++",
    "unblocking by a smaller US": "..-------+..-",
    "overshadowing": "..++++++++..+",
    "one-trial overshadowing": "......++.....",
    "overexpectation": "--+-+++++...+",
    "relative validity": ".....+..++...",
    "zero contingency": "..+++++++-..+",
    "redundancy effect": "..---.---+++-",
    "conditioned inhibition: summation": "..+++++++..++",
    "conditioned inhibition: retardation": "..+++++++-.++",
    "negative contingency inhibits": "--+++++++--++",
    "inhibitor alone keeps inhibition": "..------+...-",
    "novel cue with inhibitor is neutral": "++------++++-",
    "protection from extinction": "..+++++++...+",
    "superconditioning": "..+++++++-..+",
    "latent inhibition": ".....++++..+.",
    "Hall-Pearce negative transfer": "-----++++--+-",
    "US pre-exposure": "..++++++++..+",
    "learned irrelevance, over CS alone": "--+++++++---+",
    "learned irrelevance, over US alone": "------++---+-",
    "backward blocking": "......++.....",
    "recovery from overshadowing": "......++.....",
    "feature-positive discrimination": "..+++++++++++",
    "feature-negative discrimination": "..+++++++..++",
    "negative patterning": "-----------+-",
    "negative patterning, unique cue": "--+++++++--++",
    "spontaneous recovery": ".-.-+........",
    "rapid reacquisition": "+....-----.-.",
    "ABA renewal": "+++++++++++++",
    "reinstatement": "++++++.++++.+",
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
    "US pre-exposure": "-+++++", "learned irrelevance, over CS alone": "---~+-",
    "learned irrelevance, over US alone": "---~+-", "backward blocking": "----+-",
    "recovery from overshadowing": "----+-", "feature-positive discrimination": "-++~++",
    "feature-negative discrimination": "-+-+++", "negative patterning": "------",
    "negative patterning, unique cue": "-+-+++", "spontaneous recovery": "------",
    "rapid reacquisition": "+-----", "ABA renewal": "~~~~~~", "reinstatement": "-~~~~~",
}
DIFFERENT = {
    ("negative contingency inhibits", "Pearce-Kaye-Hall"):
        "the order decides: +.04 when trials alternate, as in the table; -.04 in random orders, "
        "and the verdict holds in fewer than half of the settings",
    ("learned irrelevance, over CS alone", "Rescorla-Wagner"):
        "the table asks for less than both controls; US pre-exposure alone beats it here too, in "
        "the row below",
    ("learned irrelevance, over CS alone", "temporal difference"): "as Rescorla-Wagner",
    ("reinstatement", "Hebb"):
        "nothing was extinguished, so nothing is reinstated; the rise is the strength of the "
        "context, which is tested with the cue (the ~ of the other rules)",
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
    found = {str(name): "".join(".+-"[verdict] for verdict in row) for name, row in
             zip(atlas.arrays["names"], atlas.arrays["verdict"], strict=True)}
    assert found == ATLAS


def test_atlas_agrees_with_the_reference_table_but_for_stated_reasons(atlas):
    columns = [[c.rule for c in experiments.COLUMNS].index(rule) for rule in REFERENCE_RULES]
    different = set()
    for name, row in zip(atlas.arrays["names"], atlas.arrays["verdict"], strict=True):
        for rule, column, expected in zip(REFERENCE_RULES, columns, REFERENCE[str(name)],
                                          strict=True):
            if expected != "~" and (row[column] == 1) != (expected == "+"):
                different.add((str(name), rule))
    assert different == set(DIFFERENT)


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
    words = {1: "shows", 0: "no effect", -1: "opposite"}
    expected = [words[int(v)] for v in atlas.arrays["verdict"].ravel()]
    assert [row["verdict"] for row in rows] == [cell["verdict"] for cell in cells] == expected
    np.testing.assert_allclose([float(row["effect"]) for row in rows],
                               atlas.arrays["effect"].ravel(), rtol=0, atol=1e-12)
    table = atlas.report.splitlines()
    assert max(map(len, table)) <= 120
    assert sum(line[:36].strip() in ATLAS for line in table) == len(ATLAS)


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
        assert re.search(r"\b(19|20)\d\d\b", phenomenon.source)
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


# --------------------------------------------------------------------------------- trained models


# ------------------------------------------------------------------------------------- benchmark


# ---------------------------------------------------------------------------------- command line


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

