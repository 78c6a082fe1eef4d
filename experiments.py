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
import tracemalloc
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import NormalDist
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


def random_units(rng, *shape, dtype=float):
    """Vectors (..., T, K) drawn uniformly from the unit sphere."""
    vectors = rng.standard_normal(shape, dtype=dtype)
    return vectors / np.sqrt(np.sum(vectors**2, axis=-1, keepdims=True))


def squared(vectors):
    """Squared length over the last axis."""
    return (vectors**2).sum(axis=-1)


def pair_store(keys, values, store="hebb"):
    """Association matrix (..., K, D) of n pairs, keys (..., n, K) and values (..., n, D).

    "hebb": the state of linear attention, in one product; "delta, one pass": the state of DeltaNet
    at beta 1; "delta, converged": where its repetition ends, the solution of least norm.
    """
    xp = rules.array_module(keys)
    if store == "delta, one pass":
        return conditioning.deltanet(keys, keys, values, beta=1.0)[1]
    return (xp.swapaxes(keys, -1, -2) if store == "hebb" else xp.linalg.pinv(keys)) @ values


def nearest_item(responses, values):
    """Index of the value that is nearest to each response: (..., m, D), (..., n, D) -> (..., m).

    For values of one length, so that the nearest is the one with the largest product. Products are
    held for a few batches at a time.
    """
    xp, n = rules.array_module(responses), values.shape[-2]
    batch = np.broadcast_shapes(responses.shape[:-2], values.shape[:-2])
    rows, items = (xp.broadcast_to(a, batch + a.shape[-2:]).reshape((-1,) + a.shape[-2:])
                   for a in (responses, values))
    slab = max(1, 2**22 // (n * rows.shape[-2]))
    nearest = [(rows[i:i + slab] @ xp.swapaxes(items[i:i + slab], -1, -2)).argmax(axis=-1)
               for i in range(0, len(rows), slab)]
    return xp.concatenate(nearest).reshape(batch + rows.shape[-2:-1])


CAPACITY_TAUS = (0.5, 0.7)
CAPACITY_CRITERIA = tuple((kind, p) for kind in (*CAPACITY_TAUS, "identification")
                          for p in (0.5, 0.9, 0.95, 0.99))


def retrieval_success(n, d, *, replicates, rng, xp, store="hebb"):
    """Share of n pairs in a d x d store that pass, a row a replicate: (replicates, 3).

    Columns: cosine of response and value >= each of CAPACITY_TAUS; the value is the nearest.
    """
    keys, values = (xp.asarray(random_units(rng, replicates, n, d, dtype=np.float32))
                    for _ in range(2))
    responses = keys @ pair_store(keys, values, store)
    cosines = (responses * values).sum(axis=-1) / xp.sqrt(squared(responses))
    passed = [cosines >= tau for tau in CAPACITY_TAUS]
    passed.append(nearest_item(responses, values) == xp.arange(n))
    return host(xp.stack([one.mean(axis=-1) for one in passed], axis=-1))


def crossing(n, success, p):
    """The n at which success (..., N), made to fall with n (N,), crosses p, by interpolation.

    It falls as the mean of its running minimum and its running maximum from behind, of which one
    would be too low and the other too high. NaN where it is below p from the first n on, or
    nowhere.
    """
    behind = np.maximum.accumulate(success[..., ::-1], axis=-1)[..., ::-1]
    success = (np.minimum.accumulate(success, axis=-1) + behind) / 2
    above = np.sum(success >= p, axis=-1)
    i = np.clip(above - 1, 0, len(n) - 2)
    high, low = (np.take_along_axis(success, j[..., None], -1)[..., 0] for j in (i, i + 1))
    share = (high - p) / np.where(high > low, high - low, 1)
    return np.where((above > 0) & (above < len(n)), n[i] + share * (n[i + 1] - n[i]), np.nan)


def bisected_success(criteria, measure):
    """{n: success (replicates, columns)} for all n that bisection visits, criteria (column, p).

    The bracket is widened from what is known, then halved to neighbours or to 15 per cent. One
    larger n is added, so that resampled curves cross too.
    """
    known = {2: measure(2)}

    def passes(n, column, p):
        if n not in known:
            known[n] = measure(n)
        return np.mean(known[n][:, column]) >= p

    for column, p in criteria:
        low = max((n for n in known if passes(n, column, p)), default=2)
        high = min((n for n in known if n > low and not passes(n, column, p)), default=0)
        while not high:
            step = low + max(1, low // 3)
            low, high = (step, 0) if passes(step, column, p) else (low, step)
        while high - low > max(1, 0.15 * low):
            middle = (low + high) // 2
            low, high = (middle, high) if passes(middle, column, p) else (low, middle)
    passes(max(known) + max(1, max(known) // 8), column, p)
    return dict(sorted(known.items()))


def slope(x, y):
    """Slope of log y over log x by least squares along the last axis, x (N,), y (..., N)."""
    x, y = np.log(x), np.log(y)
    x = x - np.mean(x)
    return np.sum(x * y, axis=-1) / np.sum(x**2)


def longest_safe_prefix(d, threshold, *, replicates, rng):
    """Number of pairs that stay error-free whatever the signs of the interference: (replicates,).

    The largest n for which sum_{j != i} |k_i.k_j| < threshold for every i of the first n random
    unit keys. Their Gram matrix is drawn as L L^T with normalised rows, L lower triangular normal
    with chi on the diagonal (Bartlett 1933), so that no key of d features is needed.
    """
    n = int(min(d, 8 + 1.5 * threshold * np.sqrt(np.pi * d / 2)))
    prefixes = []
    for _ in range(replicates):
        lower = np.tril(rng.standard_normal((n, n)), -1)
        lower[np.arange(n), np.arange(n)] = np.sqrt(rng.chisquare(d - np.arange(n)))
        lower /= np.sqrt(np.sum(lower**2, axis=-1, keepdims=True))
        interference = np.cumsum(np.abs(lower @ lower.T), axis=-1) - 1
        worst = np.max(np.triu(interference), axis=-2)
        prefixes.append(np.sum(worst < threshold))
    return np.array(prefixes)


def resampled_means(success, resamples, rng):
    """Mean success (1 + resamples, N, columns) at every n: first of all replicates, then bootstrap.

    success {n: (replicates, columns)}; replicates are drawn with replacement.
    """
    means = []
    for rows in success.values():
        count = len(rows)
        weights = rng.multinomial(count, np.full(count, 1 / count), size=resamples) / count
        means.append(np.concatenate([np.mean(rows, axis=0, keepdims=True), weights @ rows]))
    return np.stack(means, axis=1)


def theoretical_success(n, d):
    """The columns of `retrieval_success` as the closed forms have them: (N, 3) for n (N,)."""
    columns = [conditioning.faithful_probability(n, d, tau=tau) for tau in CAPACITY_TAUS]
    return np.stack([*columns, conditioning.identification_probability(n, d)], axis=-1)


def theoretical_capacity(probability, d, p, high):
    """The real n >= 2 at which probability(n, d) crosses p, by a grid that zooms in three times."""
    low = 2.0
    for _ in range(3):
        n = np.geomspace(low, high, 12)
        above = int(np.sum(probability(n, d) >= p))
        low, high = n[max(above - 1, 0)], n[min(above, 11)]
    n = np.geomspace(low, high, 12)
    return float(crossing(n, probability(n, d), p))


CAPACITY_RANGES = ((8, 64), (32, 256), (8, 256))


def capacity_slopes(capacities, dimensions, large_enough):
    """Slopes (..., criteria, ranges) of log capacity (..., criteria, N) over log d (N,).

    Fitted where large_enough (criteria, N); NaN where fewer than 3 dimensions are left.
    """
    slopes = np.full(capacities.shape[:-1] + (len(CAPACITY_RANGES),), np.nan)
    for j, (low, high) in enumerate(CAPACITY_RANGES):
        for i in range(capacities.shape[-2]):
            fitted = (dimensions >= low) & (dimensions <= high) & large_enough[i]
            if np.sum(fitted) >= 3:
                slopes[:, i, j] = slope(dimensions[fitted], capacities[:, i, fitted])
    return slopes


@experiment(quick={"dimensions": (8, 16, 32, 64), "items": 2000, "delta_dimensions": (8, 16),
                   "worst_dimensions": (8, 32, 128, 1024, 4096, 16384), "largest": 12})
def capacity(*, seed=0, device="cpu", dimensions=(8, 16, 32, 64, 128, 256), items=4000,
             delta_dimensions=(8, 16, 32, 64), resamples=300, largest=20,
             worst_dimensions=(8, 16, 32, 64, 128, 256, 1024, 16384, 131072, 1000000)):
    """Pairs that one d x d memory holds: worst case, faithful retrieval, identification."""
    xp, dimensions = device_module(device), np.array(dimensions)
    criteria = [(CAPACITY_TAUS.index(kind) if kind in CAPACITY_TAUS else 2, p)
                for kind, p in CAPACITY_CRITERIA]
    faithful, identification = (CAPACITY_CRITERIA.index((kind, 0.95))
                                for kind in (0.7, "identification"))

    def bisected(d, wanted, store="hebb"):
        """n (N,), success {n: rows}, bootstrapped means; the stores see the same pairs."""
        success = bisected_success(wanted, lambda n: retrieval_success(
            n, d, replicates=max(8, min(items // n, 10**6 // n**2)),
            rng=np.random.default_rng([seed, d, n]), xp=xp, store=store))
        means = resampled_means(success, resamples, np.random.default_rng([seed, d]))
        return np.array(list(success)), success, means

    points, simulated, theory = [], [], []
    for d in dimensions:
        # Identification at 50 per cent needs n of 4600 at d 256: left out for its time.
        n, success, means = bisected(d, [(column, p) for column, p in criteria
                                         if column < 2 or p > 0.5 or d <= 128])
        closed = theoretical_success(n, d)
        simulated.append([crossing(n, means[..., column], p) for column, p in criteria])
        theory.append([crossing(n, closed[None, :, column], p) for column, p in criteria])
        # Few replicates may agree by chance: no standard error below that of independent pairs.
        points += [[np.full(3, d), np.full(3, n[i]), means[0, i],
                    np.sqrt(np.maximum(np.var(rows, axis=0, ddof=1),
                                       closed[i] * (1 - closed[i]) / n[i]) / len(rows)), closed[i]]
                   for i, rows in enumerate(success.values())]
    simulated, theory = (np.transpose(a, (2, 1, 0)) for a in (simulated, theory))
    dimension, n, success, error, closed = np.moveaxis(np.array(points), 1, 0)
    # Every (n, d) is compared, so the interval is simultaneous (Bonferroni) over all of them.
    simultaneous = NormalDist().inv_cdf(1 - 0.025 / success.size) * error
    misfit = np.max(np.abs(closed - success) / np.maximum(simultaneous, 0.015))

    fitted = simulated[0] >= 4
    slopes, theory_slopes = (capacity_slopes(a, dimensions, fitted) for a in (simulated, theory))
    low, high = np.quantile(slopes[1:], [0.025, 0.975], axis=0)
    count = np.sum(np.isfinite(slopes[0]))
    all_slopes = NormalDist().inv_cdf(1 - 0.025 / count) * np.std(slopes[1:], axis=0)
    slope_misfit = max(0, np.nanmax(np.abs(theory_slopes[0] - slopes[0]) - all_slopes))

    large = 2.0 ** np.arange(3, largest + 1)
    limits = np.array([[
        theoretical_capacity(probability, d, 0.95, n_most) for probability, n_most in (
            (partial(conditioning.faithful_probability, tau=0.7), 8 * d),
            (conditioning.identification_probability, d**2))] for d in large]).T
    local = np.diff(np.log2(limits), axis=-1)

    worst_dimensions = np.array(worst_dimensions)
    prefixes = {d: longest_safe_prefix(d, 0.5, replicates=256 if d <= 1024 else 32,
                                       rng=np.random.default_rng([seed, 1, d]))[:, None]
                for d in worst_dimensions}
    prefixes = resampled_means(prefixes, resamples, np.random.default_rng([seed, 1]))[..., 0]
    worst = {name: slope(worst_dimensions[part], prefixes[:, part])
             for name, part in (("small", worst_dimensions <= 128),
                                ("large", worst_dimensions >= 1024))}

    delta = np.array([[[crossing(n, means[..., column], 0.95) for column in (1, 2)]
                       for n, _, means in (bisected(d, [(1, 0.95), (2, 0.95)], store)
                                           for d in delta_dimensions)]
                      for store in ("hebb", "delta, one pass", "delta, converged")])
    hebb, one_pass, converged = delta[:, -1]
    loads, d = np.array([0.5, 1, 1.5, 2, 4]), delta_dimensions[-1]
    left = []
    for load in loads:
        rng = np.random.default_rng([seed, 3, int(load * d)])
        keys, values = (xp.asarray(random_units(rng, 16, int(load * d), d)) for _ in range(2))
        responses = keys @ pair_store(keys, values, "delta, converged")
        left.append(host(squared(responses - values).mean(axis=-1)))
    left = mean_interval(left)
    left_theory = conditioning.converged_delta_error(loads * d, d)

    def interval(samples):
        return np.quantile(samples[1:], [0.025, 0.975])

    spread = {name: [np.nanmin(slopes[0, rows]), np.nanmax(slopes[0, rows])]
              for name, rows in (("faithful", slice(0, 8)), ("identification", slice(8, 12)))}
    d_range = f"d {dimensions[0]}-{dimensions[-1]}"
    return Result({
        "d": dimension[:, 0], "n": n[:, 0], "success": success, "simultaneous": simultaneous,
        "theory": closed, "dimensions": dimensions,
        "criteria": np.array([f"{kind}, {p}" for kind, p in CAPACITY_CRITERIA]),
        "capacity": simulated[0], "capacity_theory": theory[0],
        "capacity_interval": np.quantile(simulated[1:], [0.025, 0.975], axis=0),
        "ranges": np.array(CAPACITY_RANGES), "slope": slopes[0], "slope_low": low,
        "slope_high": high, "slope_theory": theory_slopes[0], "large": large, "limits": limits,
        "local_slope": local, "worst_d": worst_dimensions, "worst": prefixes[0],
        "worst_interval": np.quantile(prefixes[1:], [0.025, 0.975], axis=0),
        "delta_d": np.array(delta_dimensions), "delta": delta[..., 0],
        "converged_load": loads, "converged_error": np.array(left),
        "converged_theory": left_theory}, [
        claim(f"faithful retrieval (cosine >= .7 for 95 % of the pairs): slope of log n over log "
              f"d, {d_range}; with cosine .5 or .7, 50-99 % and the range of d it runs from "
              f"{spread['faithful'][0]:.2f} to {spread['faithful'][1]:.2f}: no law",
              "A6", slopes[0, faithful, -1], interval=interval(slopes[:, faithful, -1]),
              within=(1.05, 1.4), paper=1.22),
        claim(f"identification (the nearest of n, 95 %): slope, {d_range}; with 50-99 % and the "
              f"range of d it runs from {spread['identification'][0]:.2f} to "
              f"{spread['identification'][1]:.2f}", "A6", slopes[0, identification, -1],
              interval=interval(slopes[:, identification, -1]), within=(1.65, 1.95), paper=1.89),
        claim(f"theory: faithful capacity is linear in the end, local slope at d {large[-1]:.0f} "
              "(95 %, cosine .7)", "P2", local[0, -1], within=(0.98, 1.05), paper="O(d)"),
        claim(f"theory: identification is d^2 / log d, local slope at d {large[-1]:.0f} (95 %)",
              "A6", local[1, -1], within=(1.85, 2.0), paper="near 2"),
        claim(f"worst case (sum of |interference| < 1/2 for every pair): slope for d from 1024 to "
              f"{worst_dimensions[-1]}; for d 8-128 it is {worst['small'][0]:.2f}", "P2",
              worst["large"][0], interval=interval(worst["large"]), within=(0.45, 0.6),
              paper="O(sqrt d)"),
        claim(f"theory against simulation, success probability at {len(points)} (n, d), 3 "
              "criteria: largest difference over max(simultaneous 95% interval, .015)", "beyond",
              misfit, below=1),
        claim(f"theory against simulation, {count} slopes: largest distance of the theory from the "
              "simultaneous 95% interval", "beyond", slope_misfit, below=0.01),
        claim(f"delta rule, one pass at beta 1, holds fewer than Hebb: ratio of capacities "
              f"(identification 95 %, d {d})", "beyond", one_pass[1, 0] / hebb[1, 0],
              interval=interval(one_pass[1] / hebb[1]), below=0.8),
        claim(f"delta rule, converged: mean squared error is max(0, 1 - d/n): largest distance of "
              f"the 95% interval from it, n/d .5-4, d {d}", "beyond",
              np.max(np.maximum(left[1] - left_theory, left_theory - left[2])), below=0.01),
        claim(f"delta rule, converged: faithful retrieval (cosine .7, 95 %) stops at a multiple "
              f"of d below 1/.7^2: capacity / d, d {d}", "beyond", converged[0, 0] / d,
              interval=interval(converged[0] / d), within=(1, 1 / 0.7**2)),
        claim(f"delta rule, converged: identification does not stop there: capacity over Hebb's "
              f"(95 %, d {d})", "beyond", converged[1, 0] / hebb[1, 0],
              interval=interval(converged[1] / hebb[1]), above=1.1)])


def head_keys(rng, replicates, heads, n, d_h, shared=None):
    """Unit keys of every head (replicates, heads, n, d_h), float32.

    Independent, or random orthonormal projections of shared unit keys of `shared` features; 16 sets
    of projections take turns where there are more replicates.
    """
    if shared is None:
        return random_units(rng, replicates, heads, n, d_h, dtype=np.float32)
    common = random_units(rng, replicates, 1, n, shared, dtype=np.float32)
    drawn = min(replicates, 16)
    projections = np.linalg.qr(rng.standard_normal((drawn, heads, shared, d_h)))[0]
    keys = common @ projections.astype(np.float32)[np.arange(replicates) % drawn]
    return keys / np.sqrt(squared(keys))[..., None]


def head_grid_error(rng, xp, heads, d_h, *, n, D, replicates, sliced=False, shared=None):
    """Mean squared error of n pairs (replicates,), heads averaged or each with D/heads outcomes."""
    keys = xp.asarray(head_keys(rng, replicates, heads, n, d_h, shared))
    values = xp.asarray(random_units(rng, replicates, n, D, dtype=np.float32))
    parts = values[:, None]
    if sliced:
        parts = xp.swapaxes(values.reshape(replicates, n, heads, D // heads), 1, 2)
    error = keys @ pair_store(keys, parts) - parts
    error = squared(error).sum(axis=1) if sliced else squared(error.mean(axis=1))
    return host(error.mean(axis=-1))


def head_failures(rng, xp, n, d_h, heads, *, replicates, shared=None, own_values=False):
    """Share of n pairs that read-outs of `heads` heads miss (replicates, heads + 3).

    Columns: all of the first 1, 2, ... heads are wrong; the heads' vote is wrong; the most
    confident head (largest cosine with an item) is wrong; the averaged response is wrong.
    """
    keys = xp.asarray(head_keys(rng, replicates, heads, n, d_h, shared))
    values = xp.asarray(random_units(rng, replicates, heads if own_values else 1, n, d_h,
                                     dtype=np.float32))
    responses = keys @ pair_store(keys, values)
    picked, item = nearest_item(responses, values), xp.arange(n)
    wrong = xp.cumprod((picked != item).astype(float), axis=1)
    supporters = (picked[:, :, None] == picked[:, None]).sum(axis=2)
    best = xp.take_along_axis(xp.broadcast_to(values, responses.shape), picked[..., None], axis=2)
    confidence = (responses * best).sum(axis=-1) / xp.sqrt(squared(responses))
    chosen = [xp.take_along_axis(picked, score.argmax(axis=1)[:, None], axis=1)[:, 0]
              for score in (supporters, confidence)]
    chosen.append(nearest_item(responses.mean(axis=1), values[:, 0]))
    misses = xp.concatenate([wrong, xp.stack([one != item for one in chosen], axis=1)], axis=1)
    return host(misses.mean(axis=-1))


@experiment(quick={"heads": (1, 4, 16), "d_h": (4, 16, 64), "loads": (64, 128), "items": 20000})
def heads(*, seed=0, device="cpu", heads=(1, 2, 4, 8, 16), d_h=(4, 8, 16, 32, 64), n=32, D=32,
          shared=(64, 256), replicates=16, loads=(40, 52, 68, 104), items=60000):
    """Heads: is it the total state that counts (A7), or the number of redundant heads (P3)?"""
    xp = device_module(device)
    state = np.outer(heads, d_h)
    arms = {"independent": {}, "sliced": {"sliced": True}} | {
        f"projected from {M}": {"shared": M} for M in shared}
    errors = np.array([[[head_grid_error(
        np.random.default_rng([seed, i, H, K]), xp, H, K, n=n, D=D, replicates=replicates, **arm)
        for K in d_h] for H in heads] for i, arm in enumerate(arms.values())])
    # A slice of D/H outcomes leaves H heads with a state of d_h D in all, not H d_h D.
    entries = np.array([np.broadcast_to(d_h, state.shape) if name == "sliced" else state
                        for name in arms]) * D
    theory = np.array([conditioning.averaged_head_error(n, np.array(heads)[:, None], d_h, M)
                       for M in (np.inf, np.inf, *shared)])
    theory[1] = (n - 1) / np.broadcast_to(d_h, state.shape)
    coefficients = []
    for error, size in zip(errors, entries, strict=True):
        design = np.stack([np.ones(state.size), np.log(size).ravel(),
                           np.log(np.repeat(heads, len(d_h)))], axis=-1)
        coefficients.append(np.linalg.lstsq(design, np.log(error).reshape(state.size, -1))[0][1:])
    coefficients = np.array(mean_interval(np.array(coefficients)))
    mean_error = np.array(mean_interval(errors))
    misfit = np.max(np.abs(np.mean(errors, axis=-1) / theory - 1), axis=(1, 2))

    most, width = 4, 32
    stores = {"own keys and values": {"own_values": True}, "own keys, shared values": {},
              "projected keys, shared values": {"shared": 64}}
    failures = np.array([resampled_means(
        {load: head_failures(np.random.default_rng([seed, 9, load, i]), xp, load, width, most,
                             replicates=items // load, **store) for load in loads},
        300, np.random.default_rng([seed, 9])) for i, store in enumerate(stores.values())])
    p = failures[..., 0]
    ratio = failures[..., most - 1] / p**most
    exponent = np.log(failures[0, :, -1, most - 1]) / np.log(p[0, :, -1])
    load_slope = [slope(np.array(loads), failures[0, ..., column]) for column in (0, 1)]
    low, high = np.quantile(failures[:, 1:], [0.025, 0.975], axis=1)

    def interval(samples):
        return np.quantile(samples[1:], [0.025, 0.975])

    def coefficient(text, source, arm, which, **bound):
        mean, *ends = coefficients[:, arm, which]
        return claim(text, source, mean, interval=ends, **bound)

    return Result({
        "heads": np.array(heads), "d_h": np.array(d_h), "entries": entries,
        "arms": np.array(list(arms)), "error": mean_error, "theory": theory,
        "coefficients": coefficients, "loads": np.array(loads), "stores": np.array(list(stores)),
        "failure": failures[:, 0], "failure_low": low, "failure_high": high,
        "width": np.array(width)}, [
        coefficient("independent keys a head, averaged: exponent of the squared error in the "
                    f"total state, grid H {heads[0]}-{heads[-1]} x d_h {d_h[0]}-{d_h[-1]}", "A7",
                    0, 0, within=(-1.05, -0.95), paper="state"),
        coefficient("... its exponent in the number of heads at equal state", "A7", 0, 1,
                    within=(-0.05, 0.05), paper="none"),
        coefficient("each head stores a slice of the outcome: exponent in the number of heads at "
                    "equal state", "A7", 1, 1, within=(-0.05, 0.05), paper="none"),
        coefficient(f"heads as projections of shared keys of {shared[0]} features: exponent in "
                    "the total state; the claim holds only if heads have keys of their own", "A7",
                    2, 0, within=(-0.8, -0.3), paper="state"),
        claim("averaged heads: squared error is (n-1)[1/(H d_h) + (1-1/H)/M]: largest relative "
              "difference on the grid, all arms", "beyond", np.max(misfit), below=0.15),
        claim(f"'at least one of {most} heads is right', own keys and values a head: failures "
              f"over p^{most} (d_h {width}, n {loads[-1]})", "P3", ratio[0, 0, -1],
              interval=interval(ratio[0, :, -1]), within=(0.9, 1.1), paper="p^H"),
        claim(f"... log of failures over log p is the number of heads, {most}", "P3", exponent[0],
              interval=interval(exponent), within=(most - 0.2, most + 0.2), paper="H"),
        claim("... with projections of shared keys: failures over p^H; P3 holds only if heads err "
              "independently", "P3", ratio[2, 0, -1], interval=interval(ratio[2, :, -1]),
              above=1.1, paper="p^H"),
        claim("... P3 has the error of one head proportional to n/d; measured exponent in n "
              f"(n {loads[0]}-{loads[-1]}, p {p[0, 0, 0]:.2f}-{p[0, 0, -1]:.2f}): far from 1",
              "P3", load_slope[0][0], interval=interval(load_slope[0]), above=1.3, paper=1),
        claim("... its exponent with 2 heads over that with 1: doubled, as P3 says", "P3",
              (load_slope[1] / load_slope[0])[0], interval=interval(load_slope[1] / load_slope[0]),
              within=(1.7, 2.3), paper=2),
        claim("no read-out knows which head is right: errors of a vote over those of 'at least "
              f"one right' (n {loads[-1]}, shared values)", "beyond",
              failures[1, 0, -1, most] / failures[1, 0, -1, most - 1],
              interval=interval(failures[1, :, -1, most] / failures[1, :, -1, most - 1]), above=3),
        claim("averaging the same heads is better than even 'at least one right': ratio of errors",
              "beyond", failures[1, 0, -1, -1] / failures[1, 0, -1, most - 1],
              interval=interval(failures[1, :, -1, -1] / failures[1, :, -1, most - 1]),
              below=0.7)])


def uncleaned(items, memories):
    """Responses (R, L, n, D) after 1..L hops from items (R, L + 1, n, D), each fed on as it is."""
    responses = [items[:, 0] @ memories[:, 0]]
    for hop in range(1, memories.shape[1]):
        responses.append(responses[-1] @ memories[:, hop])
    return rules.array_module(items).stack(responses, axis=1)


WIDE_AND_DEEP = ("layers, level known", "one memory, level known", "averaged heads, level known",
                 "layers, all items", "one memory, all items", "averaged heads, all items",
                 "first to last stored, read once", "layers, no clean-up",
                 "one memory, no clean-up")


def wide_and_deep_errors(rng, xp, d, n, hops, replicates):
    """Share of n chains of `hops` associations with a wrong hop, in hops d^2 weights: (R, 9).

    All the associations are stored: in `hops` layers d x d, a level each; in one square memory of
    sqrt(hops) d features, read `hops` times; or in `hops` averaged heads d x d with own keys, read
    `hops` times. A response is cleaned up to the nearest of the next level's n items, or of the
    items of all levels. Then the square memory with first-to-last associations alone, and two
    without clean-up. Columns as in WIDE_AND_DEEP.
    """
    root, item = round(hops**0.5), xp.arange(n)
    small, large = (xp.asarray(random_units(rng, replicates, hops + 1, n, size, dtype=np.float32))
                    for size in (d, root * d))
    keys = xp.asarray(random_units(rng, replicates, hops, hops, n, d, dtype=np.float32))
    layers = pair_store(small[:, :-1], small[:, 1:])
    whole = pair_store(large[:, :-1], large[:, 1:]).sum(axis=1, keepdims=True)
    head = pair_store(keys, small[:, None, 1:]).sum(axis=2, keepdims=True)
    reads = ((small[:, :-1] @ layers, small), (large[:, :-1] @ whole, large),
             ((keys @ head).mean(axis=1), small))
    right = [nearest_item(responses, items[:, 1:]) == item for responses, items in reads]
    level = n * xp.arange(1, hops + 1)[:, None]
    right += [nearest_item(responses, items.reshape(replicates, 1, -1, items.shape[-1]))
              == level + item for responses, items in reads]
    direct = large[:, 0] @ pair_store(large[:, 0], large[:, -1])
    wide = xp.broadcast_to(whole, (replicates, hops) + whole.shape[-2:])
    last = [nearest_item(responses, items[:, -1]) == item for responses, items in (
        (direct, large), (uncleaned(small, layers)[:, -1], small),
        (uncleaned(large, wide)[:, -1], large))]
    chains = [one.all(axis=-2) for one in right] + last
    return host(xp.stack([1 - one.mean(axis=-1) for one in chains], axis=-1))


@experiment(quick={"items": 2000, "settings": ((32, 32, 4), (24, 24, 9))})
def depth(*, seed=0, device="cpu", d=32, loads=(24, 40), layers=16, items=8000,
          settings=((32, 32, 4), (32, 48, 4), (24, 24, 9))):
    """Depth: errors of stacked memories, and whether wide and shallow beats deep (P3)."""
    xp, L = device_module(device), np.arange(1, layers + 1)
    single, cleaned, raw, growth = [], [], [], []
    for n in loads:
        rng, replicates = np.random.default_rng([seed, n]), max(8, items // n)
        chain = xp.asarray(random_units(rng, replicates, layers + 1, n, d, dtype=np.float32))
        memories, item = pair_store(chain[:, :-1], chain[:, 1:]), xp.arange(n)
        right = nearest_item(chain[:, :-1] @ memories, chain[:, 1:]) == item
        responses = uncleaned(chain, memories)
        single.append(1 - np.mean(host(right)))
        cleaned.append(1 - host(xp.cumprod(right.astype(int), axis=-2).mean(axis=-1)))
        raw.append(host((nearest_item(responses, chain[:, 1:]) != item).mean(axis=-1)))
        growth.append(host(squared(responses - chain[:, 1:]).mean(axis=-1)))
    # (mean, low, high), loads, L
    cleaned, raw, growth = (np.stack([mean_interval(one, axis=0) for one in arm], axis=1)
                            for arm in (cleaned, raw, growth))
    formula = conditioning.chained_error(np.array(single)[:, None], L)
    growth_theory = conditioning.chained_interference(np.array(loads)[:, None], d, L)
    rows = [wide_and_deep_errors(np.random.default_rng([seed, *setting]), xp, *setting,
                                 max(8, items // setting[1])) for setting in settings]
    arms = np.stack([mean_interval(one, axis=0) for one in rows], axis=1)
    # Differences of arms of one replicate: the other column less that of the layers.
    known, searched, mixed, direct = (
        np.stack([mean_interval(one[:, other] - one[:, layer]) for one in rows], axis=-1)
        for layer, other in ((0, 1), (3, 4), (0, 4), (0, 6)))

    def listed(differences):
        return ", ".join(f"{value:.3f}" for value in differences[0])

    def judged(differences, which):
        measured, *ends = differences[:, which(differences[0])]
        return {"measured": measured, "interval": ends}

    named = "; ".join(f"d {d}, n {n}, {hops} hops" for d, n, hops in settings)
    linear = cleaned[:, -1, -1] / (layers * single[-1])
    fourth = growth[:, 0, 3] / growth_theory[0, 3]
    explosive = raw[:, 0, 7] / (8 * single[0])
    return Result({
        "L": L, "loads": np.array(loads), "single": np.array(single), "cleaned": cleaned,
        "formula": formula, "raw": raw, "growth": growth, "growth_theory": growth_theory,
        "settings": np.array(settings), "arm_names": np.array(WIDE_AND_DEEP), "arms": arms}, [
        claim(f"stack with clean-up after each hop: errors are 1 - (1-r)^L: largest difference, "
              f"d {d}, n {loads[0]} and {loads[1]}, L 1-{layers}", "P3",
              np.max(np.abs(cleaned[0] - formula)), below=0.02, paper="L r"),
        claim(f"... over L r at L {layers}, n {loads[-1]} (r {single[-1]:.3f}): P3's 'linear in "
              "depth' holds only if L r is small", "P3", linear[0], interval=linear[1:],
              below=0.9, paper=1),
        claim(f"stack without clean-up: interference is (1+(n-1)/d)^L - 1: measured over theory, "
              f"L 4, n {loads[0]}", "beyond", fourth[0], interval=fourth[1:], within=(0.8, 1.2)),
        claim(f"... its errors over L r at L 8, n {loads[0]} (r {single[0]:.4f}): P3's 'linear' "
              "holds only if responses are cleaned up between layers", "P3", explosive[0],
              interval=explosive[1:], above=3, paper=1),
        claim(f"wide less deep, errors at equal state, every hop stored, both cleaned up to the "
              f"next level's items ({named}: {listed(known)}): largest; wide wins", "P3",
              **judged(known, np.argmax), below=0, paper="wide wins"),
        claim(f"... both cleaned up to the items of all levels ({listed(searched)}): the best for "
              "wide; it gains less or nothing", "P3", **judged(searched, np.argmin), below=0,
              paper="wide wins"),
        claim(f"... the layers know their level, the wide memory must search all items "
              f"({listed(mixed)}): largest; deep wins, so P3 holds only if the clean-up is the "
              "same", "P3", **judged(mixed, np.argmax), above=0, paper="wide wins"),
        claim(f"... only first-to-last associations in the wide memory, one hop ({listed(direct)})"
              ": largest; the number of hops is what P3's formula rewards", "P3",
              **judged(direct, np.argmax), below=0, paper="wide wins")])


def reversal(rng, xp, *, K, n, trials, replicates, block, c=1.0):
    """n cues with outcomes +-c, all reversed at half time: what each rule answers, and its norm.

    Returns {rule: (squared error (R, trials), signed response (R, trials), norms (R, blocks))}: the
    response is the mean over outcomes of prediction times the outcome now true, over c^2.
    """
    D = 4
    cues = random_units(rng, replicates, n, K)
    signs = c * rng.choice([-1.0, 1.0], size=(replicates, n, D))
    order = rng.integers(n, size=(replicates, trials, 1))
    sign = np.where(np.arange(trials) < trials // 2, 1, -1)[:, None]
    cues, outcomes = (xp.asarray(a) for a in (np.take_along_axis(cues, order, axis=1),
                                              np.take_along_axis(signs, order, axis=1) * sign))
    measured = {}
    for name, (rule, rates) in {
            "Hebb": (rules.hebbian, {"beta": 0.2}),
            "Hebb with decay": (rules.hebbian, {"beta": 0.2 * n, "decay": 0.8}),
            "delta": (rules.rescorla_wagner, {"beta": 0.8}),
            "Oja": (rules.oja, {"beta": 0.2}),
            "Kalman": (rules.kalman, {"noise": 0.1, "drift": 0.01})}.items():
        state, predictions, norms = None, [], []
        for start in range(0, trials, block):
            part = slice(start, start + block)
            answers, state = learn(rule, cues[:, part], outcomes[:, part], state=state, **rates)
            predictions.append(answers)
            norms.append(xp.sqrt((rules.memory_of(state)**2).sum(axis=-2)).max(axis=-1))
        predictions = xp.concatenate(predictions, axis=1)
        measured[name] = tuple(host(one) for one in (
            ((predictions - outcomes)**2).mean(axis=-1),
            (predictions * outcomes).mean(axis=-1) / c**2, xp.stack(norms, axis=-1)))
    return measured


def tracking(rng, xp, *, K, rhos, betas, decays, s2, trials, burn_in, replicates):
    """Excess error a replicate of tracking AR(1) strengths of variance 1, by rule.

    Returns delta (rhos, betas, R), Hebb with decay (rhos, decays, R), Kalman (rhos, 1, R). The
    Kalman filter is told the drift and the noise.
    """
    D, innovation = 4, np.sqrt(1 - rhos**2)[:, None, None, None]
    strengths = np.empty((trials, len(rhos), replicates, K, D))
    strengths[0] = rng.standard_normal((replicates, K, D))
    for t in range(1, trials):
        strengths[t] = (rhos[:, None, None, None] * strengths[t - 1]
                        + innovation * rng.standard_normal((replicates, K, D)))
    cues = random_units(rng, replicates, trials, K)
    true = np.einsum("trpkd,ptk->rptd", strengths, cues, optimize=True)
    outcomes = true + np.sqrt(s2) * rng.standard_normal((replicates, trials, D))
    cues, true, outcomes = (xp.asarray(a) for a in (cues[None, None], true[:, None],
                                                    outcomes[:, None]))

    def rate(values):
        """One value a setting, as many axes as the cues (rhos, settings, R, T, K)."""
        return xp.asarray(np.reshape(values, (-1, 1, 1, 1)))[None]

    runs = ((rules.rescorla_wagner, {"beta": rate(betas)}, 1.0),
            (rules.hebbian, {"beta": rate(K * (1 - decays)), "decay": rate(decays)}, rate(decays)),
            (rules.kalman, {"noise": s2, "drift": xp.asarray(
                np.reshape(1 - rhos**2, (-1, 1, 1, 1, 1)))}, 1.0))
    errors = []
    for rule, rates, decayed in runs:
        # `learn` predicts with the decayed memory: undone, so that every rule is asked for W.
        predictions, _ = learn(rule, cues, outcomes, **rates)
        error = ((predictions / decayed - true)**2)[..., burn_in:, :].mean(axis=(-1, -2))
        errors.append(host(error))
    return errors


def best_setting(settings, errors):
    """Settings (S,) at which the mean errors (..., S) are least, by a parabola in the logarithm."""
    i = np.clip(np.argmin(errors, axis=-1), 1, len(settings) - 2)[..., None]
    x = np.log(settings)[i + np.array([-1, 0, 1])]
    y = np.take_along_axis(errors, i + np.array([-1, 0, 1]), axis=-1)
    left, right = ((y[..., 1] - y[..., j]) / (x[..., 1] - x[..., j]) for j in (0, 2))
    curvature = (right - left) / (x[..., 2] - x[..., 0])
    return np.exp((x[..., 0] + x[..., 1]) / 2 - left / (2 * curvature))


@experiment(quick={"replicates": 8, "trials": 1000, "burn_in": 500, "innovations": (3e-3, 3e-2)})
def drift(*, seed=0, device="cpu", K=16, innovations=(1e-3, 3e-3, 1e-2, 3e-2), s2=0.1,
          trials=2000, burn_in=1000, replicates=16, reversal_trials=600, block=10):
    """Concept drift: reversal and steady drift under Hebb, decay, Delta, Oja and Kalman (P4)."""
    xp, c, half = device_module(device), 0.7, reversal_trials // 2
    rng = np.random.default_rng([seed, 0])
    sudden = reversal(rng, xp, K=K, n=8, trials=reversal_trials, replicates=replicates,
                      block=block, c=c)
    errors, responses, norms = (dict(zip(sudden, one, strict=True))
                                for one in zip(*sudden.values(), strict=True))
    at = (np.arange(reversal_trials // block) + 1) * block
    growth = slope(at[5:half // block], norms["Hebb"][:, 5:half // block])
    late = {name: mean_interval(np.mean(errors[name][:, -50:], axis=-1)) for name in errors}
    middle = slice(half + half // 3, half + half // 2)
    still = {name: mean_interval(np.mean(responses[name][:, middle], axis=-1))
             for name in responses}
    bound = conditioning.oja_bound(0.0, 1.0, c)

    # Oja against Hebb with decay, on outcomes +-c and on others; then omission.
    cues = xp.asarray(random_units(rng, 100, K))
    signs, normal = rng.choice([-c, c], size=(100, 1)), rng.standard_normal((100, 1))
    gaps, beta = [], 0.2
    for outcomes in (signs, normal):
        _, oja = learn(rules.oja, cues, xp.asarray(outcomes), beta=beta)
        _, hebb = learn(rules.hebbian, cues, xp.asarray(outcomes), beta=beta,
                        decay=1 - beta * c**2)
        gaps.append(np.max(np.abs(host(oja - hebb))))
    kept = {}
    for rule in (rules.oja, rules.rescorla_wagner):
        _, state = learn(rule, cues[:1], xp.ones((1, 1)), beta=beta)
        answers, _ = learn(rule, xp.repeat(cues[:1], 21, axis=0), xp.zeros((21, 1)), state=state,
                           beta=beta)
        kept[rule.__name__] = float(answers[-1, 0] / answers[0, 0])

    q = np.array(innovations)
    rhos, betas, decays = np.sqrt(1 - q), np.geomspace(0.1, 1.3, 11), 1 - np.geomspace(4e-3, 0.2, 9)
    delta, hebb, kalman = tracking(np.random.default_rng([seed, 1]), xp, K=K, rhos=rhos,
                                   betas=betas, decays=decays, s2=s2, trials=trials,
                                   burn_in=burn_in, replicates=replicates)
    world = {"K": K, "rho": rhos[:, None], "sigma2": 1.0, "s2": s2}
    fine_betas, fine_decays = np.geomspace(0.05, 1.5, 200), 1 - np.geomspace(2e-3, 0.3, 200)
    delta_theory = conditioning.delta_tracking_error(beta=betas, **world)
    hebb_theory = conditioning.hebbian_tracking_error(decay=decays, **world)
    delta_fine = conditioning.delta_tracking_error(beta=fine_betas, **world)
    hebb_fine = conditioning.hebbian_tracking_error(decay=fine_decays, **world)
    exact_beta = fine_betas[np.argmin(delta_fine, axis=-1)]
    exact_rate = 1 - fine_decays[np.argmin(hebb_fine, axis=-1)]
    picks = np.random.default_rng([seed, 2]).integers(replicates, size=(300, replicates))
    found_beta, found_rate = (
        np.concatenate([best_setting(grid, np.mean(rows, axis=-1))[None],
                        best_setting(grid, np.moveaxis(np.mean(rows[..., picks], axis=-1), -1, 0))])
        for grid, rows in ((betas, delta), (1 - decays, hebb)))
    beta_interval, rate_interval = (np.quantile(found[1:], [0.025, 0.975], axis=0)
                                    for found in (found_beta, found_rate))
    random_walk = conditioning.best_beta(K=K, q=q, s2=s2)
    delta, hebb, kalman = (np.array(mean_interval(rows)) for rows in (delta, hebb, kalman))
    misfit = max(0, *(np.max(np.maximum(low / theory, theory / high)) - 1
                      for (_, low, high), theory in ((delta, delta_theory), (hebb, hebb_theory))))
    beta_misfit, rate_misfit = (
        max(0, np.max(np.maximum(low / exact, exact / high)) - 1)
        for (low, high), exact in ((beta_interval, exact_beta), (rate_interval, exact_rate)))
    ratio = np.min(hebb[0], axis=-1) / np.min(delta[0], axis=-1)
    names = list(sudden)
    return Result({
        "names": np.array(names), "block": np.array(block), "c": np.array(c),
        "bound": np.array(bound),
        "error": np.array([mean_interval(errors[name], axis=0) for name in names]),
        "response": np.array([mean_interval(responses[name], axis=0) for name in names]),
        "norm": np.array([mean_interval(norms[name], axis=0) for name in names]),
        "q": q, "betas": betas, "decays": decays, "delta": delta, "hebb": hebb, "kalman": kalman,
        "fine_betas": fine_betas, "fine_decays": fine_decays, "delta_fine": delta_fine,
        "hebb_fine": hebb_fine, "found_beta": found_beta[0], "beta_interval": beta_interval,
        "exact_beta": exact_beta, "random_walk_beta": random_walk, "found_rate": found_rate[0],
        "rate_interval": rate_interval, "exact_rate": exact_rate}, [
        claim("Hebb's norm grows without bound: slope of its log over log trials before the "
              "reversal", "P4", np.mean(growth), interval=mean_interval(growth)[1:],
              within=(0.8, 1.1), paper="grows"),
        claim("Hebb cannot unlearn: response (true outcome = 1) after a third to a half as many "
              "reversed trials as it had learned", "P4", still["Hebb"][0],
              interval=still["Hebb"][1:], below=0, paper="cannot"),
        claim("Delta unlearns: its response on the same trials", "P4", still["delta"][0],
              interval=still["delta"][1:], above=0.8, paper="re-learns"),
        claim("Delta: squared error an outcome on the last 50 reversed trials, outcomes +-"
              f"{c}", "P4", late["delta"][0], interval=late["delta"][1:], below=0.02),
        claim("Oja is bounded: largest norm over its closed bound max |x| / |v|", "P4",
              np.max(norms["Oja"]) / bound, below=1, paper="bounded"),
        claim(f"Oja on outcomes +-c is Hebb with decay 1 - beta c^2: largest difference of the "
              f"memories (on normal outcomes {gaps[1]:.2g})", "P4", gaps[0], below=1e-12),
        claim("control: on normal outcomes they differ", "P4", gaps[1], above=0.01),
        claim("Oja does not extinguish: response left after 20 omissions (delta: "
              f"{kept['rescorla_wagner']:.3f}); P4's bound is no unlearning", "P4", kept["oja"],
              within=(1, 1)),
        claim("steady drift: closed forms of the error of Delta and of Hebb with decay, every "
              "rate: largest relative distance from the 95% interval", "beyond", misfit,
              below=0.05),
        claim("... the best beta measured over the closed form's: largest distance of the 95% "
              "interval from 1", "beyond", beta_misfit, below=0.1),
        claim(f"... over the random-walk law's [-a + sqrt(a^2 + 4ab)]/(2b), at the slowest drift, "
              f"q {q[0]:g}; at the fastest {found_beta[0, -1] / random_walk[-1]:.2f}", "beyond",
              found_beta[0, 0] / random_walk[0], interval=beta_interval[:, 0] / random_walk[0],
              within=(0.85, 1.15)),
        claim("... the best 1 - decay measured over the closed form's: largest distance of the 95% "
              "interval from 1", "beyond", rate_misfit, below=0.1),
        claim("Hebb with decay, at its best, against Delta at its best: error ratio, slowest "
              f"drift; at the fastest {ratio[-1]:.2f}", "P4", ratio[0], above=1.5,
              paper="Delta")])


UNLEARNING = ("error correction", "subtraction", "decay")


def unlearned(memory, key, value, how, kept):
    """The memory after one trial against the pair (key, value): UNLEARNING, each a rule's step.

    The key with the outcome omitted, at beta 1; Hebbian learning of the opposite value; or decay
    of everything to `kept`, with nothing learned.
    """
    if how == "error correction":
        return rules.rescorla_wagner(memory, key, 0 * value, beta=1.0)
    beta, decay = (1.0, 1.0) if how == "subtraction" else (0.0, kept)
    return rules.hebbian(memory, key, -value, beta=beta, decay=decay)


@experiment(quick={"loads": (4, 16, 28)})
def unlearning(*, seed=0, device="cpu", d=32, loads=(4, 8, 16, 24, 28), replicates=200, kept=0.3,
               overlaps=(0.0, 0.2, 0.4, 0.6, 0.8), beta=0.3, presentations=12):
    """Unlearning one of n associations: what is left of it, and what the others pay (P5)."""
    xp, stores = device_module(device), ("hebb", "delta, converged")
    measured = np.zeros((len(stores), len(UNLEARNING), len(loads), 4, replicates))
    repeated, first = [], {}
    for j, n in enumerate(loads):
        rng = np.random.default_rng([seed, n])
        keys, values = (xp.asarray(random_units(rng, replicates, n, d)) for _ in range(2))
        for i, store in enumerate(stores):
            memory = pair_store(keys, values, store)
            before, first[store] = keys @ memory, memory
            for k, how in enumerate(UNLEARNING):
                after = keys @ unlearned(memory, keys[:, 0], values[:, 0], how, kept)
                # left of the target; change of the others; their error before and after
                for m, size in enumerate((squared(after)[:, 0], squared(after - before)[:, 1:],
                                          squared(before - values)[:, 1:],
                                          squared(after - values)[:, 1:])):
                    measured[i, k, j, m] = host(size if m == 0 else size.mean(axis=-1))
    for memory in first.values():
        cues = xp.repeat(keys[:, :1], presentations, axis=1)
        answers, _ = learn(rules.rescorla_wagner, cues, xp.zeros(cues.shape[:-1] + (d,)),
                           state=memory, beta=beta)
        repeated.append(host(xp.sqrt(squared(answers) / squared(answers[:, :1]))))
    rehearsed = keys @ pair_store(keys, xp.concatenate([0 * values[:, :1], values[:, 1:]], axis=1),
                                  "delta, converged")
    rehearsed = host(squared(rehearsed - values)[:, 1:].mean(axis=-1))

    overlap = []
    rng, n = np.random.default_rng([seed, 1]), loads[len(loads) // 2]
    keys, values = (random_units(rng, replicates, n, d) for _ in range(2))
    aside = keys[:, 1] - np.sum(keys[:, 1] * keys[:, 0], axis=-1, keepdims=True) * keys[:, 0]
    aside /= np.sqrt(squared(aside))[:, None]
    for rho in overlaps:
        keys[:, 1] = rho * keys[:, 0] + np.sqrt(1 - rho**2) * aside
        moved = xp.asarray(keys)
        memories = [pair_store(moved, xp.asarray(values), store) for store in stores]
        overlap.append([host(squared(moved[:, 1:2] @ (memory - unlearned(
            memory, moved[:, 0], xp.asarray(values[:, 0]), "error correction", kept))))[:, 0]
            for memory in memories])
    fall = mean_interval(measured[0, 0, len(loads) // 2, 3] - measured[0, 0, len(loads) // 2, 2])
    measured = np.array(mean_interval(measured))
    overlap = np.array(mean_interval(np.moveaxis(overlap, 0, 1)))
    rehearsed = mean_interval(rehearsed)

    loads, rho = np.array(loads), np.array(overlaps)
    change = np.array([conditioning.unlearning_change(loads, d), np.full(len(loads), 1 / d)])
    error = np.array([[(loads - 1) / d, conditioning.unlearned_error(loads, d)],
                      [0.0 * loads, np.full(len(loads), 1 / d)]])
    # rho^2 |o_1|^2, where the store has answered to the target with |o_1|^2 on average
    overlap_theory = np.array([rho**2 * (1 + rho**2 + (n - 2) / d), rho**2])
    powers = (1 - beta) ** np.arange(presentations)

    def distance(arrays, theory):
        """Largest distance of theory from the 95% interval over the theory, 0 if inside."""
        return max(0, np.max(np.maximum(arrays[1] - theory, theory - arrays[2]) / theory))

    corrected, middle = measured[:, :, 0], len(loads) // 2
    left = measured[:, 0, 1, middle, 0] * d / (loads[middle] - 1)
    return Result({
        "d": np.array(d), "loads": loads, "stores": np.array(stores), "ways": np.array(UNLEARNING),
        "kept": np.array(kept), "measured": measured, "change": change, "error": error,
        "overlaps": rho, "overlap": overlap, "overlap_theory": overlap_theory,
        "repeated": np.array([np.mean(one, axis=0) for one in repeated]), "powers": powers}, [
        claim("error correction takes away the chosen response, in both stores and at every n/d: "
              "largest |response|^2 left", "P5", np.max(corrected[0, :, :, 0]), below=1e-12,
              paper="unlearned"),
        claim("... (1 - beta)^m of it is left after m presentations at beta "
              f"{beta:g}: largest difference", "P5",
              np.max(np.abs(np.array(repeated) - powers)), below=1e-12),
        claim(f"subtracting the pair from a Hebbian store leaves (n-1)/d of it: measured over "
              f"that, n/d {loads[middle] / d:g}", "beyond", left[0], interval=left[1:],
              within=(0.8, 1.2)),
        claim("the others pay, Hebbian store: |change|^2 of their responses is (1/d)(1+(n-2)/d) + "
              "3/(d(d+2)): largest relative distance of the 95% interval", "P5",
              distance(corrected[:, 0, :, 1], change[0]), below=0.05),
        claim("the others pay, converged delta store: |change|^2 is 1/d: largest relative distance "
              "of the 95% interval", "P5", distance(corrected[:, 1, :, 1], change[1]), below=0.05),
        claim("their squared error in the Hebbian store falls, an interferer is gone: change, n/d "
              f"{loads[middle] / d:g}", "beyond", fall[0], interval=fall[1:], below=0),
        claim("... to (n-2)(1/d - 1/d^2) + 3/(d(d+2)): largest relative distance of the 95% "
              "interval", "beyond", distance(corrected[:, 0, :, 3], error[0, 1]), below=0.05),
        claim("their squared error in the delta store rises from 0 to 1/d: largest relative "
              "distance of the 95% interval; P5 holds only up to this", "P5",
              distance(corrected[:, 1, :, 3], error[1, 1]), below=0.05),
        claim(f"decay to {kept:g} harms all: |change|^2 of the others over error correction's, "
              f"delta store, n/d {loads[middle] / d:g}", "P5",
              measured[0, 1, 2, middle, 1] / corrected[0, 1, middle, 1],
              interval=measured[0, 1, 2, middle, 1] / corrected[:0:-1, 1, middle, 1], above=5),
        claim("an item whose key has overlap rho with the target's changes by rho^2 |o_1|^2: "
              "largest relative distance of the 95% interval, rho > 0, both stores", "beyond",
              distance(overlap[..., 1:], overlap_theory[:, 1:]), below=0.05),
        claim("rehearsing the others while the US is omitted, to convergence: their error; so "
              "the damage is the price of a single step", "beyond", rehearsed[0],
              interval=rehearsed[1:], below=1e-12)])


@experiment(quick={"linear": (500, 1000, 2000)})
def cost(*, seed=0, device="cpu", d=64, repeats=12, quadratic=(100, 200, 400, 800),
         linear=(500, 1000, 2000, 4000, 8000)):
    """Time and memory of softmax and linear attention against the number of tokens (P6)."""
    xp, rng = device_module(device), np.random.default_rng(seed)
    # CPU seconds of this thread: time taken by other programs does not count.
    clock = time.thread_time if device == "cpu" else time.perf_counter
    # No powers of 2: rows that far apart share cache lines and are slow. Where scores T x T are
    # held, as many sequences are timed together as fill the same memory at every T; otherwise the
    # slope is that of the caches.
    lengths = {"softmax": quadratic, "parallel": quadratic, "recurrent": linear,
               "chunkwise": linear}
    arrays, claims = {"names": np.array(list(lengths)), "d": np.array(d)}, []
    picks = np.random.default_rng(seed).integers(repeats, size=(300, repeats))
    for name, T in lengths.items():
        law, T = (2, np.array(T)) if T is quadratic else (1, np.array(T))
        seconds, peaks, calls = np.empty((repeats, len(T))), np.empty(len(T)), []
        together = (T[-1] // T) ** 2 if law == 2 else np.ones_like(T)
        for j, (tokens, sequences) in enumerate(zip(T, together, strict=True)):
            part = [xp.asarray(random_units(rng, sequences, tokens, d, dtype=np.float32))
                    for _ in range(3)]
            if name == "softmax":
                form = partial(conditioning.softmax_attention, scale=d**-0.5)
            else:
                form = partial(conditioning.linear_attention, form=name, chunk=64)
                if law == 2:  # a decay a sequence, so that its share grows with the sequences
                    form = partial(form, decay=xp.ones((sequences, tokens), dtype=np.float32))
            calls.append(partial(form, *part))
            tracemalloc.start()
            calls[-1]()
            peaks[j] = tracemalloc.get_traced_memory()[1] / sequences
            tracemalloc.stop()
        for repeat in range(repeats):
            for j, call in enumerate(calls):
                started = clock()
                outputs = call()
                host(outputs if name == "softmax" else outputs[1])
                seconds[repeat, j] = (clock() - started) / together[j]
        arrays |= {f"{name} T": T, f"{name} seconds": seconds, f"{name} bytes": peaks}
        # The fastest of the repeats: what disturbs a measurement only adds to it. The interval is
        # told, not judged: on a busy machine it says more about the machine's other users.
        upper = slice(-3, None)
        slopes = slope(T[upper], np.concatenate([np.min(seconds, axis=0)[None],
                                                 np.min(seconds[picks], axis=1)])[:, upper])
        low, high = np.quantile(slopes[1:], [0.025, 0.975])
        claims.append(claim(
            f"{name}{'' if name == 'softmax' else ' linear attention'}: slope of log time over log "
            f"T, T {T[upper][0]}-{T[-1]} (95% over {repeats} repeats: {low:.2f} to {high:.2f})",
            "P6", slopes[0], within=(law - 0.25, law + 0.25),
            paper={"softmax": 2, "parallel": None}.get(name, 1)))
        if device == "cpu":
            claims.append(claim("... and of its largest memory at any time", "P6",
                                slope(T[upper], peaks[upper]), within=(law - 0.25, law + 0.25)))
    return Result(arrays, claims)


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
