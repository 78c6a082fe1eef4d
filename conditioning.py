"""Attention as conditioning: the attention forms of the learning rules, designs, closed forms.

One equation holds the attention family and classical learning theory together:

    W_t = decay_t W_{t-1} + w_t E_t^T         w_t = beta_t * k_t         o_t = W_t^T q_t
    E_t = v_t - c (decay_t W_{t-1})^T k_t     c = 0: contiguity, c = 1: error correction

    c   decay        machine learning                      learning theory
    0   1            linear attention                      Hebbian contiguity
    0   a number     retention (RetNet), Mamba-2           contiguity that fades
    0   per feature  gated linear attention (GLA)          ... at a rate of each feature
    1   1            DeltaNet                              Rescorla-Wagner
    1   a number     Gated DeltaNet                        Rescorla-Wagner with forgetting
    1   per feature  KDA                                   ... at a rate of each feature
    beta_t an associability that follows |error|:          Pearce-Hall (the hybrid)
                     PH-attention

The decay comes first, then the error on what is left; an output is read after its token was
written. Nothing scales, masks, maps or normalises unless an argument says so.

Glossary, beyond that of `rules.py`: keys = cues (CS), values = outcomes (US), queries (..., T, K) =
test stimuli, a token = a trial. Kernels are written independently of the rules. Like these they
check nothing and can be copied alone, with `rules.array_module`; `attention` and the layers by name
check all.
"""

import inspect
import math
import re
from typing import Any, NamedTuple

import numpy as np

from rules import (
    AssociabilityState,
    array_module,
    batch_shape,
    feature_column,
    learn,
    limits,
    marks,
    rate,
    real_array,
    sequence_arrays,
    state_like,
    temporal_difference,
)

# ---------------------------------------------------------------- kernels: attention in three forms
#
# Shapes in every kernel: queries, keys (..., T, K), values (..., T, D), state (..., K, D); beta and
# decay numbers or arrays (..., T, 1) or (..., T, K); error_correcting c is 0 or 1, or an array that
# broadcasts with the state. Each returns outputs (..., T, D) and the last state.


def recurrent(queries, keys, values, beta, decay, error_correcting, state):
    """Token by token: S <- decay S + beta k (v - c (decay S)^T k)^T, o = S^T q."""
    xp = array_module(keys)
    writes, decay = beta * keys, decay * xp.ones_like(keys)
    outputs = []
    for t in range(keys.shape[-2]):
        query, key, value = (rows[..., t:t + 1, :] for rows in (queries, keys, values))
        state = decay[..., t, :, None] * state
        error = value - (error_correcting * key) @ state
        state = state + writes[..., t, :, None] * error
        outputs.append(query @ state)
    return xp.concatenate(outputs, -2), state


def parallel(queries, keys, values, beta, decay, error_correcting, state):
    """All tokens at once: E = (I + c stril A)^-1 (V - c (G K) S), O = (G Q) S + tril(A') E.

    S is the start; tril, stril are the lower triangle with and without its diagonal.
    G_t is the product of the decays up to t, D_ts that of the decays after s up to t;
    A_ts = sum_i k_ti w_si D_tsi, A' the same with q for k, w = beta k; S_T = G_T S + (w D_T)^T E.
    E are the prediction errors: DeltaNet is linear attention whose values are the prediction errors
    (the UT transform of Yang et al. 2024, written with errors). Time and memory T^2.
    A NaN or an infinity in a later token is multiplied by 0, and so reaches earlier outputs.
    """
    xp = array_module(keys)
    decay, writes = decay * xp.ones_like(keys[..., :1]), (beta * keys).swapaxes(-1, -2)
    G, decays = decay.cumprod(-2), decay.swapaxes(-1, -2)
    later = xp.tril(xp.ones_like(decay @ decays), -1) > 0
    # D (..., 1 or K, T, T) as a masked product: exact at decay 0, where sums of logarithms give NaN
    kept = xp.where(later[..., None, :, :], decays[..., None], 1.0)
    D = xp.tril(kept.cumprod(-2))

    def scores(rows):
        if D.shape[-3] == 1:
            return (rows @ writes) * D[..., 0, :, :]
        return (rows.swapaxes(-1, -2)[..., None] * writes[..., None, :] * D).sum(-3)

    errors, rest = [], values - (error_correcting * G * keys) @ state
    A = scores(error_correcting * keys)
    for t in range(keys.shape[-2]):  # forward substitution: powers of A overflow where cues repeat
        errors.append(rest[..., :1, :])
        rest = rest[..., 1:, :] - A[..., t + 1:, t:t + 1] * errors[-1]
    errors = xp.concatenate(errors, -2)
    outputs = (G * queries) @ state + scores(queries) @ errors
    return outputs, G[..., -1, :, None] * state + (writes * D[..., -1, :]) @ errors


def chunkwise(queries, keys, values, beta, decay, error_correcting, state, chunk):
    """`parallel` within each chunk, the recurrence between chunks: time and memory linear in T.

    Copy `parallel` along. The specification of `fast_chunkwise`. A NaN in a later token reaches
    earlier outputs of its chunk.
    """
    xp = array_module(keys)
    beta, decay = (rate * xp.ones_like(keys[..., :1]) for rate in (beta, decay))
    outputs = []
    for start in range(0, keys.shape[-2], chunk):
        part = (rows[..., start:start + chunk, :] for rows in (queries, keys, values, beta, decay))
        output, state = parallel(*part, error_correcting, state)
        outputs.append(output)
    return xp.concatenate(outputs, -2), state


def ph_errors(keys, values, beta, eta, fresh, bounds, start, memory, associability):
    """PH-attention as the triangular system of its errors, row by row, without a state matrix.

    E_t = v_t - S^T k_t - sum_{s<t} (k_t . w_s) E_s with w_s = beta alpha_s * k_s, and where
    eta k_t^2 is not 0 alpha <- clip(alpha + eta k_t^2 (|E_t| - alpha), bounds). fresh (..., T, 1)
    is 1 where the memory starts anew at 0 and alpha at `start`, else 0; associability, start
    (..., K, 1). Returns w (..., T, K), E (..., T, D) and the last associability: PH-attention is
    linear attention with keys w and values E. Time T^2. A NaN in a later token reaches no earlier
    error, but earlier outputs of `parallel`.
    """
    xp, writes, errors = array_module(keys), [], []
    beta, speeds = beta * xp.ones_like(keys), eta * keys**2
    start, alpha = (column.swapaxes(-1, -2) for column in (start, associability))
    rest = values - keys @ memory
    for t in range(keys.shape[-2]):
        key, rate, speed, new = (rows[..., t:t + 1, :] for rows in (keys, beta, speeds, fresh))
        rest = xp.where(new > 0, values[..., t:, :], rest)
        alpha = xp.where(new > 0, start, alpha)
        error, write = rest[..., :1, :], rate * alpha * key
        rest = rest[..., 1:, :] - (keys[..., t + 1:, :] @ write.swapaxes(-1, -2)) * error
        total = abs(error).sum(-1, keepdims=True)
        share = error / (total + (total == 0))
        size = total * ((share**2).sum(-1, keepdims=True) + (total == 0)) ** 0.5  # no overflow
        alpha = xp.where(speed == 0, alpha, (alpha + speed * (size - alpha)).clip(*bounds))
        errors.append(error)
        writes.append(write)
    return xp.concatenate(writes, -2), xp.concatenate(errors, -2), alpha.swapaxes(-1, -2)


def mesa(queries, keys, values, seen, ridge):
    """MesaNet, exactly: o_t = sum_s seen_ts (k_s . p_t) v_s, p_t = (H_t + ridge I)^-1 q_t.

    H_t = sum_s seen_ts k_s k_s^T (von Oswald et al. 2023, 2025; there by conjugate gradients and
    with gates). seen (..., T, T) tells which tokens s can be found at t. A NaN in a later token
    reaches earlier outputs. Outputs alone; time and memory T^2.
    """
    xp, columns, probes = array_module(keys), keys.swapaxes(-1, -2), []
    identity = xp.tril(xp.triu(xp.ones_like(columns @ keys)))
    for t in range(keys.shape[-2]):
        H = xp.where(seen[..., t:t + 1, :], columns, 0.0) @ keys
        probes.append(xp.linalg.solve(H + ridge * identity, queries[..., t, :, None]))
    scores = xp.concatenate(probes, -1).swapaxes(-1, -2) @ columns
    return xp.where(seen, scores, 0.0) @ values


def softmax(queries, keys, values, seen, scale):
    """o_t = sum_s softmax_s(scale q_t . k_s) v_s over the tokens s seen (Vaswani et al. 2017).

    0 where nothing is seen yet; seen (..., T, T) as in `mesa`. A NaN in a later token reaches
    earlier outputs, as in `parallel`. Outputs alone; time and memory T^2.
    """
    xp = array_module(keys)
    match = xp.where(seen, scale * (queries @ keys.swapaxes(-1, -2)), -xp.inf)
    closest = xp.amax(match, -1, keepdims=True)
    weights = xp.exp(match - xp.where(closest > -xp.inf, closest, 0.0))
    total = weights.sum(-1, keepdims=True)
    return (weights / (total + (total == 0))) @ values


def circuit(queries, keys, values, seen, f, g, h):
    """CS, US and test neurons: sum over the tokens seen of (h(q_t) . f(k_s)) g(v_s).

    It is the response h(q)^T W to W <- W + f(k) g(v)^T. seen as in `mesa`. A NaN in a later token
    reaches earlier responses. Outputs alone; time and memory T^2.
    """
    scores = h(queries) @ f(keys).swapaxes(-1, -2)
    return array_module(keys).where(seen, scores, 0.0) @ g(values)


# --------------------------------------------------------------------- the one fast form, optimised


def fast_chunkwise(queries, keys, values, beta, decay, error_correcting, state, chunk, segment=512):
    """`chunkwise`, its specification, for one decay a token, in few dense products.

    All that does not need the incoming state S is computed first, `segment` tokens at a time. With
    w = beta k, D and G the decays of a chunk as in `parallel`, * elementwise, chunk after chunk:
        U = (I + c stril(K w^T * D))^-1,  E = v - c G * (K S),
        O = G * (Q S) + ((Q w^T * D) U) E,  S <- G_last S + (w^T diag(D_last) U) E.
    It assigns to arrays, so that it runs on NumPy and CuPy alone.
    A NaN in a later token reaches earlier outputs of its chunk.
    """
    xp, T, outputs, start = array_module(keys), keys.shape[-2], [], 0
    fades, state = not (isinstance(decay, float) and decay == 1), 1 * state
    writes, decay = beta * keys, decay * xp.ones_like(keys[..., :1])
    while start < T:
        C = min(chunk, T - start)  # the last chunk may be shorter
        end = start + C * max(min(segment, T - start) // C, 1)
        Q, K, V, W, kept = (rows[..., start:end, :].reshape(
            rows.shape[:-2] + (-1, C, rows.shape[-1]))
            for rows in (queries, keys, values, writes, decay))
        G, W = kept.cumprod(-2), W.swapaxes(-1, -2)
        K = error_correcting * K  # what the error asks: nothing without error correction
        later = xp.tril(xp.ones((C, C)), -1) > 0
        D = xp.tril(xp.where(later, kept, 1.0).cumprod(-2))
        A = K @ W * D
        U = xp.tril(xp.triu(xp.ones_like(A)))  # (I + A)^-1, row by row
        for t in range(1, C):
            U[..., t:t + 1, :t] = -A[..., t:t + 1, :t] @ U[..., :t, :t]
        chunks = Q, K, V, G, ((Q @ W) * D) @ U, W @ (D[..., -1, :, None] * U)
        for i in range(U.shape[-3]):
            q, k, v, g, read, write = (rows[..., i, :, :] for rows in chunks)
            error = v - g * (k @ state)
            outputs.append(g * (q @ state) + read @ error)
            if fades:
                state *= g[..., -1:, :]
            state += write @ error
        start = end
    return xp.concatenate(outputs, -2), state


# -------------------------------------------------------------------------- the layers by name


class _Tokens(NamedTuple):
    """What a door has checked: a test token's key and value are 0, the memory has all batch axes.

    stored and fresh (..., T, 1): 1 where a token is written, 1 where the sequence starts anew. The
    rate `decay` is 1 at a test, 0 at a reset.
    """

    xp: Any
    dtype: Any
    queries: Any
    keys: Any
    values: Any
    stored: Any
    fresh: Any
    memory: Any
    rates: dict

    def answered(self, kernel, *arguments, states=()):
        """The kernel's results in the dtype given; without a token or feature zeros, the states."""
        if self.keys.size * self.memory.size:
            results = kernel(*arguments)
        else:
            shape = self.memory.shape[:-2] + self.values.shape[-2:]
            results = self.xp.zeros(shape), *(1 * each for each in states)
        return tuple(result.astype(self.dtype, copy=False) for result in results)


def _tokens(queries, keys, values, test, reset, state=None, **rates):
    xp, dtype, (queries, keys, values) = sequence_arrays(queries=queries, keys=keys, values=values)
    core = (keys.shape[-1], values.shape[-1])
    if queries.shape[-1] != core[0]:
        raise ValueError(f"queries and keys must have the same K features, got shapes "
                         f"{queries.shape} and {keys.shape}")
    memory = xp.zeros(core, dtype=keys.dtype)
    if state is not None:
        memory = state_like(memory, state)
    rates = {name: rate(name, value, keys) for name, value in rates.items()}
    test, reset = marks("test", test, keys), marks("reset", reset, keys)
    batch = batch_shape(queries=queries, keys=keys, values=values, state=memory, test=test,
                        reset=reset, **rates)
    tested, fresh = (xp.zeros(keys.shape[-2:-1] + (1,), dtype=keys.dtype) if mark is None
                     else mark.astype(keys.dtype) for mark in (test, reset))
    if test is not None:  # where, not a product: padding may hold anything
        keys, values = (xp.where(test, 0.0, rows) for rows in (keys, values))
    if "decay" in rates and not (test is None and reset is None):
        rates["decay"] = (1 - fresh) * (tested + (1 - tested) * rates["decay"])
    # in C order: a copy of a broadcast array has its batch innermost, which slows every product
    memory = xp.broadcast_to(memory, batch + core).astype(keys.dtype, order="C")
    return _Tokens(xp, dtype, queries, keys, values, 1 - tested, fresh, memory, rates)


def attention(queries, keys, values, *, beta=1.0, decay=1.0, error_correcting=False, state=None,
              test=None, reset=None, form="chunkwise", chunk=16):
    """W' = decay W, W = W' + beta k (v - c W'^T k)^T, o = W^T q for all tokens: (outputs, state).

    outputs (..., T, D), state (..., K, D); c is 1 with error correction, else 0.
    queries, keys (..., T, K); values (..., T, D); batch axes broadcast; state (..., K, D) to start
    from, None for 0. beta, decay: numbers, one value a token, or one a token and feature. test
    (..., T) marks tokens that are read and change nothing (padding too), reset (..., T) tokens
    before which the state starts anew at 0. In the equation a test has key 0 and decay 1, a reset
    decay 0; a token may be both. A NaN or an infinity passes a reset (0 * NaN); `rules.learn` stops
    it there.
    form: "recurrent" (token by token), "parallel" (all at once, T^2) or "chunkwise" (parallel in
    `chunk` tokens; `fast_chunkwise` where there is one decay a token). Error correction is stable
    for 0 < beta |k|^2 < 2. Half precision is computed in float32. A NaN reaches no earlier output
    in the recurrent form, those of its chunk in the chunkwise form, all in the parallel form.
    Sources: Katharopoulos et al. 2020; Sun et al. 2023; Yang et al. 2023 (GLA); Schlag et al. 2021
    and Yang et al. 2024 (DeltaNet); Yang et al. 2025 (Gated DeltaNet). Departure: no scale on the
    queries (many libraries hide K^-1/2), no feature map, no normalisation.
    ValueError for shapes, ranges, an unknown form or a chunk below 1; TypeError for other types.
    """
    if form not in ("recurrent", "parallel", "chunkwise"):
        raise ValueError(f"form must be recurrent, parallel or chunkwise, got {form!r:.60}")
    if error_correcting not in (False, True):
        raise ValueError(f"error_correcting must be True or False, got {error_correcting!r:.60}")
    tokens = _tokens(queries, keys, values, test, reset, state, beta=beta, decay=decay)
    kernel, sizes = {"recurrent": recurrent, "parallel": parallel}.get(form), []
    if form == "chunkwise":
        one_decay = np.shape(tokens.rates["decay"])[-1:] in ((), (1,))
        kernel, sizes = fast_chunkwise if one_decay else chunkwise, [_whole(chunk)]
    return tokens.answered(kernel, *tokens[2:5], *tokens.rates.values(),
                           float(error_correcting), tokens.memory, *sizes,
                           states=(tokens.memory,))


def _whole(chunk):
    if not isinstance(chunk, (int, np.integer)) or chunk < 1:
        raise ValueError(f"chunk must be a whole number of tokens, at least 1, got "
                         f"{chunk!r:.60}")
    return int(chunk)


def linear_attention(queries, keys, values, *, beta=1.0, **options):
    """Linear attention = Hebbian contiguity: W <- W + beta k v^T (Katharopoulos et al. 2020).

    Departures: no feature map, no normaliser. Shapes and options (state, test, reset, form, chunk)
    as in `attention`.
    """
    return attention(queries, keys, values, beta=beta, decay=1.0, error_correcting=False, **options)


def retention(queries, keys, values, *, decay, beta=1.0, **options):
    """RetNet, Mamba-2 = contiguity that fades: W <- decay W + beta k v^T (Sun et al. 2023, 2.1).

    With one decay a token and feature it is GLA (Yang et al. 2023). Departures: no rotation of the
    keys, no group norm. Shapes and options as in `attention`.
    """
    return attention(queries, keys, values, beta=beta, decay=decay, error_correcting=False,
                     **options)


def deltanet(queries, keys, values, *, beta, **options):
    """DeltaNet = Rescorla-Wagner: W <- W + beta k (v - W^T k)^T (Schlag et al. 2021, sec. 4.2).

    Departure: keys are not normalised here. Shapes and options as in `attention`.
    """
    return attention(queries, keys, values, beta=beta, decay=1.0, error_correcting=True, **options)


def gated_deltanet(queries, keys, values, *, beta, decay, **options):
    """Gated DeltaNet = Rescorla-Wagner with forgetting (Yang et al. 2025, sec. 3).

    W' = decay W, W <- W' + beta k (v - W'^T k)^T. With one decay a token and feature it is KDA
    (Kimi team 2025). Shapes and options as in `attention`.
    """
    return attention(queries, keys, values, beta=beta, decay=decay, error_correcting=True,
                     **options)


def ph_attention(queries, keys, values, *, beta, eta, associability=1.0, bounds=(0.0, 1.0),
                 state=None, test=None, reset=None, chunk=16):
    """PH-attention = the Pearce-Hall hybrid: a write rate that follows past errors, per feature.

    w_t = beta alpha_t * k_t, E_t = v_t - W^T k_t, W <- W + w_t E_t^T, o_t = W^T q_t, and where k_t
    is not 0: alpha <- clip(alpha + eta k_t^2 (|E_t| - alpha), bounds) (arXiv 2508.08289, third
    version). Unlike a gate computed from the token, alpha depends on the errors that a feature has
    met. Returns outputs and an `AssociabilityState`; pass that as `state` to go on. Without
    `state`, and after a reset, alpha starts at `associability`. `chunk` tokens are solved at a time
    (1: one by one). eta has the shapes of beta; the rest, exceptions too, as in `attention`.
    """
    tokens = _tokens(queries, keys, values, test, reset, getattr(state, "memory", None), beta=beta,
                     eta=eta)
    start = feature_column("associability", associability, tokens.memory)
    alpha, bounds, chunk = start, limits(bounds), _whole(chunk)
    if state is not None:
        given = state_like(AssociabilityState(tokens.memory, start), state).associability
        alpha = given + 0 * start
        tokens = tokens._replace(memory=tokens.memory + 0 * alpha)  # alpha may have more batch

    def in_chunks():
        beta, eta = (rate * tokens.xp.ones_like(tokens.fresh) for rate in tokens.rates.values())
        memory, last, outputs = tokens.memory, alpha, []
        for first in range(0, tokens.keys.shape[-2], chunk):
            query, *rows, fresh = (rows[..., first:first + chunk, :] for rows in (
                *tokens[2:5], beta, eta, tokens.fresh))
            writes, errors, last = ph_errors(*rows, fresh, bounds, start, memory, last)
            output, memory = parallel(query, writes, errors, 1.0, 1 - fresh, 0.0, memory)
            outputs.append(output)
        return tokens.xp.concatenate(outputs, -2), memory, last

    outputs, *state = tokens.answered(in_chunks, states=(tokens.memory, alpha))
    return outputs, AssociabilityState(*state)


def _without_state(kernel, queries, keys, values, test, reset, *functions, **number):
    """Outputs of a kernel in which a token sees the stored ones up to it since the last reset."""
    for name, value in number.items():
        if np.ndim(value):
            raise ValueError(f"{name} must be one number, got shape {np.shape(value)}")
    tokens = _tokens(queries, keys, values, test, reset, **number)
    xp, batch = tokens.xp, tokens.memory.shape[:-2]
    precision = np.float64 if kernel is mesa else tokens.keys.dtype

    def outputs():
        piece = tokens.fresh.cumsum(-2)
        seen = xp.tril(piece == piece.swapaxes(-1, -2)) & (tokens.stored.swapaxes(-1, -2) > 0)
        rows = (xp.broadcast_to(rows, batch + rows.shape[-2:]).astype(precision, copy=False)
                for rows in tokens[2:5])
        return (kernel(*rows, seen, *functions, *tokens.rates.values()),)
    return tokens.answered(outputs)[0]


def mesa_attention(queries, keys, values, *, ridge, test=None, reset=None):
    """MesaNet = the Kalman filter without drift: outputs (..., T, D) of ridge regression so far.

    o_t = (sum_{s<=t} v_s k_s^T) (sum_{s<=t} k_s k_s^T + ridge I)^-1 q_t, ridge = noise / prior > 0,
    one number. Computed in float64 whatever the dtype, since a small ridge drowns in float32;
    ValueError where it drowns in float64 (a GPU answers NaN or infinity). Time and the mask of what
    a token sees grow with T^2. A NaN in a later token reaches earlier outputs.
    """
    try:
        return _without_state(mesa, queries, keys, values, test, reset, ridge=ridge)
    except np.linalg.LinAlgError:
        raise ValueError(f"ridge must be larger for these keys, got {ridge}") from None


def softmax_attention(queries, keys, values, *, scale, test=None, reset=None):
    """Causal softmax attention = an exemplar model (Gaussian generalisation for unit keys).

    o_t = sum_{s<=t} softmax_s(scale q_t . k_s) v_s: (..., T, D) (Vaswani et al. 2017, eq. 1, there
    scale = K^-1/2). For unit keys scale q . k = scale - scale |q - k|^2 / 2: the exemplar
    model with Gaussian similarity (`rules.exemplar_responses`). 0 where nothing is stored yet. A
    token with key 0 is found too, with score 0: mark an empty trial as a test.
    """
    return _without_state(softmax, queries, keys, values, test, reset, scale=scale)


def _identity(array):
    return array


def conditioning_circuit(queries, keys, values, *, cue_activation=_identity,
                         outcome_activation=_identity, test_activation=None, test=None, reset=None):
    """The conditioning circuit: CS, US and test neurons with activations; responses (..., T, D).

    W <- W + f(k_t) g(v_t)^T, response h(q_t)^T W (arXiv 2508.08289, first version); f, g, h are
    cue_, outcome_ and test_activation, functions of an array (for the test None: the cue's). It is
    linear attention if g is the identity and f = h is linear; with another f = h it is linear
    attention over the features f(k), f(q); with a g that is not linear, none equals it.
    Time and memory T^2. A NaN in a later token reaches earlier responses.
    """
    return _without_state(circuit, queries, keys, values, test, reset, cue_activation,
                          outcome_activation, test_activation or cue_activation)


def prediction_errors(cues, outcomes, *, beta, decay=1.0, state=None, test=None):
    """Errors (..., T, D) of a whole Rescorla-Wagner experiment in one triangular solve.

    E_t = v_t - (decay_t W_{t-1})^T x_t, E of `parallel`; cues (..., T, K), outcomes (..., T, D).
    A query that comes one token early, decay_t x_t at t - 1, reads the prediction before it is
    learned. beta, decay, state, test as in `attention`; NaN as in its parallel form.
    """
    tokens = _tokens(cues, cues, outcomes, test, None, state, beta=beta, decay=decay)
    asked = tokens.rates["decay"] * tokens.queries
    later = tokens.answered(parallel, tokens.xp.roll(asked, -1, -2), *tokens[3:5],
                            *tokens.rates.values(), 1.0, tokens.memory)[0]
    predicted = tokens.xp.concatenate([asked[..., :1, :] @ tokens.memory, later[..., :-1, :]], -2)
    errors = sequence_arrays(outcomes=outcomes)[2][0] - predicted
    return errors.astype(tokens.dtype)


# ------------------------------------------------------------------------------------- one gradient


class Gradients(NamedTuple):
    """dL / d argument of `recurrence`, each in the full shape of its rows or of its state."""

    queries: Any
    keys: Any
    values: Any
    beta: Any
    decay: Any
    eta: Any
    memory: Any
    associability: Any


def recurrence(queries, keys, values, beta, decay, error_correcting, eta, bounds, memory,
               associability):
    """Forward and pullback of the recurrence of all layers here, the start state included:
    (outputs, (memory, associability), pullback).

    S' = decay S, e = v - c S'^T k, w = beta alpha * k, S <- S' + w e^T, o = S^T q, and where
    eta k^2 is not 0: alpha <- clip(alpha + eta k^2 (|e| - alpha), bounds). With eta 0 and
    associability 1 it is `recurrent`, else `ph_errors`. Rows (..., T, features) with all batch
    axes; beta, decay, eta arrays (..., T, 1) or (..., T, K); associability (..., K, 1) or, one for
    all features, (..., 1, 1).
    pullback(d_outputs, d_memory=0, d_associability=0) -> Gradients of a loss, given its gradients
    by the results. A rate that was shared gets its sum by summing over the shared axes. At |e| = 0
    and at the bounds, where |.| and clip have a kink, the subgradient is 0. Derived from the
    equations and checked against finite differences.
    """
    xp, state, alpha, c = array_module(keys), memory, associability, error_correcting
    outputs, steps = [values[..., :0, :]], []

    def over(axis, product):
        return product.sum(axis, keepdims=True)

    for t in range(keys.shape[-2]):
        query, key, rate, left, pace = (rows[..., t, :, None]
                                        for rows in (queries, keys, beta, decay, eta))
        kept, speed = left * state, pace * key**2
        error = values[..., t, None, :] - over(-2, c * key * kept)
        total = over(-1, abs(error))
        size = total * over(-1, (error / (total + (total == 0))) ** 2) ** 0.5
        moved, after = alpha + speed * (size - alpha), kept + rate * alpha * key * error
        free = (moved > bounds[0]) & (moved < bounds[1])
        steps.append((query, key, rate, left, pace, state, kept, speed, error, size, alpha, free,
                      after))
        state, alpha = after, xp.where(speed == 0, alpha, moved.clip(*bounds))
        outputs.append(over(-2, query * state))

    def pullback(d_outputs, d_memory=0, d_associability=0):
        d_state = d_memory + xp.zeros_like(memory)
        d_alpha = d_associability + xp.zeros_like(associability)
        found = [[rows.swapaxes(-1, -2)[..., :0] for rows in (queries, keys, values, *3 * [keys])]]
        for t in reversed(range(len(steps))):
            (query, key, rate, left, pace, state, kept, speed, error, size, alpha, free,
             after) = steps[t]
            d_output = d_outputs[..., t, None, :]
            d_state = d_state + query * d_output
            d_moved = xp.where(free, d_alpha, 0.0)
            d_write, d_speed = over(-1, d_state * error), d_moved * (size - alpha)
            d_error = (over(-2, rate * alpha * key * d_state)
                       + over(-2, d_moved * speed) * error / (size + (size == 0)))
            d_kept = d_state - c * key * d_error
            d_key = d_write * rate * alpha + 2 * d_speed * pace * key - c * over(-1, kept * d_error)
            found.append((over(-1, after * d_output), d_key, d_error.swapaxes(-1, -2),
                          d_write * alpha * key, over(-1, d_kept * state), d_speed * key**2))
            d_alpha = xp.where(speed == 0, d_alpha, d_moved * (1 - speed)) + d_write * rate * key
            d_state = left * d_kept
        rows = (xp.concatenate(each[::-1], -1) for each in zip(*found, strict=True))
        return Gradients(*(each.swapaxes(-1, -2) for each in rows), d_state, d_alpha)

    return xp.concatenate(outputs, -2), (state, alpha), pullback


# -------------------------------------------------------------------------------------- designs


class TrialType(NamedTuple):
    """`count` trials of the compound `cues`; outcome "+", "++", "-" or "?". Empty: both are "".

    ">" in the cues separates the steps of a serial compound, "_" is an empty step (`time_steps`).
    """

    count: int
    cues: str
    outcome: str

    def __str__(self):
        return f"{self.cues}{self.outcome}" or "_"


class Design(NamedTuple):
    """A conditioning design: its text, its cue names, and its phases of trial types."""

    text: str
    cues: tuple
    phases: tuple

    @property
    def steps(self):
        """Time steps that its longest trial takes: one a step of the compound, then the outcome."""
        return 2 + max(trial.cues.count(">") for phase in self.phases for trial in phase)


class TrialArrays(NamedTuple):
    """cues (..., T, K), outcomes (..., T, 1), test (..., T), ready for `learn` and `attention`."""

    cues: np.ndarray
    outcomes: np.ndarray
    test: np.ndarray


_TRIAL = re.compile(  # count, then "_", or cues (each once in a compound), outcome and percentage
    r"(?!.*([A-Z])[A-Z]*\1)([1-9]\d{0,5})?"
    r"(?:_|([A-Z]+(?:>(?:_|[A-Z]+))*)(\+\+?|[-?])(?:(?<=\+)(100|\d\d?)%)?)", re.ASCII)
_ADVICE = {  # what an entry that is no trial looks like, also in other programs' notations
    "^$": "a trial stands on both sides of /",
    "^0|^[0-9]{7}": "a trial occurs 1 to 999999 times",
    "%": "a percentage, 0 to 100, goes with + or ++ and reinforces a whole number of the trials",
    "[(]": "the US is written +, as in 10A+",
    "[!#]": "a random order is an option, not part of the text; a test is written A?",
    ",": "trial types are separated by /, phases by |",
    "[a-z]": "a cue is one capital letter",
    "^[0-9]*[+]": "a US alone needs the context as its cue, as in 20K+",
    "[-+?_][0-9A-Z]": "between two trials stands / or |",
    r"([A-Z])[A-Z]*\1": "a cue occurs once in a compound",
    "[A-Z]$": "a trial ends with its outcome: A+ with the US, A- without it, A? is a test",
    "": "see the notation"}


def parse_design(text):
    """Design of a text such as "10A+/10AB- | 5B+ | AB?", the notation of conditioning simulators.

    "|" separates phases, "/" the trial types that a phase mixes, a phase may be empty; a number
    repeats a trial; capital letters are cues, several are a compound; "+" the outcome occurs ("++"
    the larger one), "-" it is omitted, "?" a test without learning; "20_" 20 empty trials;
    "20A+50%" reinforces half of the 20; "B>A-" is a serial compound, B and then A, "A>_>_+" A and
    an empty gap before the outcome. Spaces are free. ValueError shows the phase and the entry that
    is none of these. A Design is returned as it is.
    """
    if isinstance(text, Design):
        return text
    if not isinstance(text, str):
        raise TypeError(f"a design must be a text or a Design, got {type(text).__name__}")
    packed = "".join(text.split()).translate({0x2212: "-", 0x2013: "-"})
    phases = tuple(tuple(trial for entry in (phase.split("/") if phase else ())
                         for trial in _trial_types(entry, place))
                   for place, phase in enumerate(packed.split("|"), 1))
    if not any(phases):
        raise ValueError(f"a design must have a trial, such as 10A+, got {text!r:.40}")
    return Design(text, tuple(sorted(filter(str.isalpha, set(packed)))), phases)


def _trial_types(entry, phase):
    """The trial types of one entry: one, or two where a percentage is reinforced."""
    if match := _TRIAL.fullmatch(entry):
        _, count, cues, outcome, percent = match.groups("")
        count = int(count or 1)
        reinforced, part = divmod(count * int(percent or 100), 100)
        if not part:
            split = (reinforced, outcome), (count - reinforced, "-")
            return [TrialType(number, cues, sign) for number, sign in split if number]
    advice = next(text for pattern, text in _ADVICE.items() if re.search(pattern, entry))
    raise ValueError(f"a trial of a design must be such as 10AB+, A-, B? or 20_, got {entry!r:.40} "
                     f"in phase {phase}: {advice}")


def scaled_design(design, factor):
    """The design with every count above 1 times factor, rounded, at least 1."""
    return design._replace(phases=tuple(tuple(
        trial._replace(count=max(1, round(trial.count * factor))) if trial.count > 1 else trial
        for trial in phase) for phase in design.phases))


def trial_sequence(design, *, rng=None):
    """The trials of a design one by one: a list of phases, each a list of its trials' types.

    Mixed types of a phase alternate, unequal counts spread evenly; with a numpy Generator they are
    shuffled within the phase, where the tests stay in the same order among themselves.
    """
    phases = []
    for phase in design.phases:
        even = [trial for *_, trial in sorted(
            ((i + 0.5) / trial.count, kind, trial) for kind, trial in enumerate(phase)
            for i in range(trial.count))]
        drawn = even if rng is None else [even[i] for i in rng.permutation(len(even))]
        phases.append(_tests_in_turn(even, drawn))
    return phases


def _tests_in_turn(phase, order):
    """The order, in which the n-th test is the n-th of the phase, so that answers are compared."""
    tests = iter([trial for trial in phase if trial.outcome == "?"])
    return [next(tests) if trial.outcome == "?" else trial for trial in order]


def _backwards(phase):
    """The phase's trials from last to first."""
    return _tests_in_turn(phase, phase[::-1])


def _mirrored(phase):
    """The phase's trials with "+" and "-" exchanged if it mixes them."""
    swap = {"+": "-", "-": "+"}
    if not swap.keys() <= {trial.outcome for trial in phase}:
        return phase
    return [trial._replace(outcome=swap.get(trial.outcome, trial.outcome)) for trial in phase]


ORDERS = {"alternate": None, "random": None, "mirrored": _mirrored, "reversed": _backwards}


def cue_features(cues, *, saliences=None, similarity=None):
    """Feature vectors of cues (K, K), one a row: length sqrt(salience), given cosines between them.

    saliences {"A": 0.5} (default 1 each), similarity {"AB": 0.3} (default 0: one-hot rows).
    AB and BA are one pair: AB holds. TypeError for what is not numbers by name, ValueError
    for unknown cues, saliences that are not positive, cosines that no vectors have.
    """
    saliences, similarity = saliences or {}, similarity or {}
    if not (isinstance(saliences, dict) and isinstance(similarity, dict)):
        raise TypeError(f"saliences and similarity must be numbers by name, got {saliences!r:.60} "
                        f"and {similarity!r:.60}")
    pairs = {first + second for first in cues for second in cues if first != second}
    if not (saliences.keys() <= set(cues) and similarity.keys() <= pairs):
        raise ValueError(f"saliences must name cues of {''.join(cues)} and similarity pairs of "
                         f"them, got {[*saliences, *similarity]}")
    sizes = real_array("saliences", [saliences.get(cue, 1.0) for cue in cues])
    cosines = real_array("similarity", [[similarity.get(
        first + second, similarity.get(second + first, float(first == second)))
        for first in cues] for second in cues])
    if not np.all((sizes > 0) & (sizes < np.inf) & (np.linalg.eigvalsh(cosines) > 1e-12)):
        raise ValueError("saliences must be finite and above 0, similarity cosines between -1 and "
                         f"1 of independent vectors, got {saliences} and {similarity}")
    return np.sqrt(sizes)[:, None] * np.linalg.cholesky(cosines)


def design_arrays(design, *, cues=None, us=(1.0, 2.0), saliences=None, similarity=None,
                  compound="sum", order="alternate", orders=1, seed=0, steps=0):
    """TrialArrays of a design (a text or a `Design`).

    cues: the names in the order of their features (None: the design's own, sorted), so that two
    groups share one coding. us: sizes of "+" and "++". saliences, similarity: see `cue_features`.
    compound: "sum" of the elements' features, or "normalised", every stimulus scaled to length 1 as
    by an attention layer with normalised keys, which takes the salience off a single cue.
    order: "alternate": arrays (T, .); "random": `orders` seeded orders, (orders, T, .); "mirrored":
    each random order and its mirror, in which "+" and "-" change places in the mixed phases,
    (orders, 2, T, .): for designs that mirroring leaves the same up to the names of cues, such as
    A+/A- or AX+/BX-; "reversed": each random order and the same order backwards within each phase,
    (orders, 2, T, .).
    steps: 0, a trial is one row (the cues of a serial compound together, as for a rule without
    time); or the number of rows that a trial takes, see `time_steps`.
    ValueError for any other choice.
    """
    design = parse_design(design)
    names = tuple(cues or design.cues)
    if order not in ORDERS:
        raise ValueError(f"order must be alternate, random, mirrored or reversed, got {order!r}")
    if compound not in ("sum", "normalised"):
        raise ValueError(f"compound must be sum or normalised, got {compound!r}")
    if not names or set(design.cues) - set(names) or len(set(names)) < len(names):
        raise ValueError("cues must be at least one, distinct, and contain the design's "
                         f"{''.join(design.cues)}, got {names}")
    if np.shape(us) != (2,) or not np.all(np.isfinite(us)):
        raise ValueError(f"us must be two finite numbers, the sizes of + and ++, got {us!r}")
    if not all(isinstance(n, (int, np.integer)) for n in (orders, seed)) or orders < 1 or seed < 0:
        raise ValueError(f"orders must be at least 1 and seed at least 0, got {orders} and {seed}")
    features = cue_features(names, saliences=saliences, similarity=similarity)
    rngs = [None] if order == "alternate" else [
        np.random.default_rng([seed, i]) for i in range(orders)]
    turn = ORDERS[order]
    places, index = [], {}
    for rng in rngs:
        drawn = trial_sequence(design, rng=rng)
        for phases in [drawn, [turn(phase) for phase in drawn]] if turn else [drawn]:
            places.append([index.setdefault(trial, len(index)) for phase in phases
                           for trial in phase])
    shown = [step for trial in index for step in (time_steps(trial, steps) if steps else [trial])]
    stimuli = np.array([[float(name in step.cues) for name in names] for step in shown]) @ features
    if compound == "normalised":
        length = np.linalg.norm(stimuli, axis=-1, keepdims=True)
        stimuli = stimuli / (length + (length == 0))
    sizes = {"+": us[0], "++": us[1]}
    outcomes = np.array([[sizes.get(step.outcome, 0)] for step in shown], float)
    test = np.array([step.outcome == "?" for step in shown])
    rows = np.arange(max(steps, 1))
    places = np.reshape(np.array(places)[..., None] * len(rows) + rows,
                        {"alternate": (-1,), "random": (orders, -1)}.get(order, (orders, 2, -1)))
    return TrialArrays(stimuli[places], outcomes[places], test[places])


def group_arrays(designs, **options):
    """TrialArrays (groups, ...) of designs that are compared, with one coding of all their cues.

    options: those of `design_arrays`. ValueError if the designs differ in their numbers of trials.
    """
    designs = [parse_design(design) for design in designs]
    names = sorted({cue for design in designs for cue in design.cues})
    groups = [design_arrays(design, cues=names, **options) for design in designs]
    trials = [group.test.shape[-1] for group in groups]
    if len(set(trials)) != 1:
        raise ValueError(f"designs must have the same number of trials (20_ are 20 empty ones), "
                         f"got {trials}")
    return TrialArrays(*map(np.stack, zip(*groups, strict=True)))


def time_steps(trial, steps):
    """The trial as `steps` time steps: its cues in turn, then the outcome with no cue, then empty
    steps. For `rules.temporal_difference`. ValueError if the trial does not fit.
    """
    shown = trial.cues.replace("_", "").split(">")
    if steps <= len(shown):
        raise ValueError(f"steps must be at least {len(shown) + 1} for a trial {trial}, got "
                         f"{steps}")
    return [TrialType(1, cues, trial.outcome if step == len(shown) or trial.outcome == "?" else "-")
            for step, cues in enumerate(shown + [""] * (steps - len(shown)))]


def trial_trace(trace, test, steps):
    """The trace at each time step (as test, (..., T)) of trials of `steps` each: 0 on the last."""
    last = np.arange(test.shape[-1])[::-1] % steps == 0
    return array_module(test).asarray(np.where(last, 0.0, trace)) + 0 * test


def learner_arrays(learner, design, parameters, **options):
    """(TrialArrays, parameters) of a design as a learner takes it; options: of `design_arrays`.

    For `rules.temporal_difference` a trial is several time steps, with which its trace ends.
    """
    design = parse_design(design)
    steps = design.steps * (getattr(learner, "func", learner) is temporal_difference)
    arrays = design_arrays(design, steps=steps, **options)
    if steps and "trace" in parameters:
        parameters = parameters | {"trace": trial_trace(parameters["trace"], arrays.test, steps)}
    return arrays, parameters


def responses(learner, design, **parameters):
    """What a learner answers at a design's test trials: (..., number of "?", D), in their order.

    learner: a rule (its first argument is `state`), a layer (its first argument is `queries`) or
    any function (cues, outcomes, test) -> predictions (..., T, D), or a tuple that begins with
    them; a `functools.partial` of one is one. design: a text or a `Design` (a serial test has one
    answer a step for `rules.temporal_difference`), or TrialArrays. Tests without a cue are not
    asked.
    Where the batch's entries (orders, groups) differ in the places of their tests, each is asked at
    its own; ValueError if they differ in the number of them.
    """
    if not isinstance(design, TrialArrays):
        design, parameters = learner_arrays(
            learner, design, getattr(learner, "keywords", {}) | parameters)
    cues, outcomes, test = design
    first = next(iter(inspect.signature(learner).parameters))
    if first == "state":
        answers = learn(learner, cues, outcomes, test=test, **parameters)
    elif first == "queries":
        answers = learner(cues, cues, outcomes, test=test, **parameters)
    else:
        answers = learner(cues, outcomes, test, **parameters)
    answers = answers[0] if isinstance(answers, tuple) else answers
    asked = test & (cues != 0).any(-1)
    if len({*asked.sum(-1).ravel().tolist()}) > 1:
        raise ValueError("the batch's entries have different numbers of tests: ask each by itself")
    *batch, T, D = answers.shape
    asked = array_module(answers).broadcast_to(asked, (*batch, T))
    return answers[asked].reshape(*batch, -1, D)


# ------------------------------------------------ closed forms: strengths, blocking and recovery
#
# Strengths under Rescorla-Wagner that start at 0, after n trials; numbers or arrays that broadcast.
# alpha is a salience, so that alpha beta is the rate of a single cue; lam is lambda, the asymptote.


def acquisition_strength(*, alpha, beta, n, lam=1.0):
    """lam [1 - (1 - alpha beta)^n], one cue (Bush & Mosteller 1951; Rescorla & Wagner 1972)."""
    return lam * (1 - (1 - alpha * beta) ** n)


def extinction_strength(*, V_0, alpha, beta, n):
    """V_0 (1 - alpha beta)^n: what n omissions leave of V_0."""
    return V_0 * (1 - alpha * beta) ** n


def compound_strength(*, alphas, beta, n, V_0=0.0, lam=1.0):
    """Strengths (..., K) of K cues after n trials of their compound, from strengths V_0.

    V_i + alpha_i / sum alpha (lam - sum V) [1 - (1 - sum alpha beta)^n]: overshadowing from V_0 =
    0, blocking where one cue is trained, overexpectation where sum V > lam (the loss is shared in
    proportion to the saliences). alphas, V_0 (..., K); beta, n, lam (...).
    """
    alphas = np.asarray(alphas)
    V_0, total = V_0 + 0 * alphas, alphas.sum(-1)
    learned = acquisition_strength(alpha=total, beta=beta, n=n, lam=lam - V_0.sum(-1))
    return V_0 + alphas * (learned / total)[..., None]


def blocking_strength(*, a, c, x, beta, m, n, lam=1.0):
    """Response to x after m trials of cue a, then n of compound c (Kamin 1968), vectors (..., K).

    V_A = lam [1 - (1 - beta a.a)^m], and
    V_X = (x.a / a.a) V_A + (x.c / c.c) (lam - (c.a / a.a) V_A) [1 - (1 - beta c.c)^n]:
    any salience, similarity and scaling of the compound. Where a compound is scaled to length 1 the
    index 1 - blocked / control is V_A / (lam sqrt 2) for large n, not V_A / lam. Where cues are
    similar it leaves 0 to 1: 1.5 at cosine -.5 (beta .3, m = n = 20).
    """
    dot = np.vecdot
    V_A = acquisition_strength(alpha=dot(a, a), beta=beta, n=m, lam=lam)
    lacking = lam - dot(c, a) / dot(a, a) * V_A
    learned = acquisition_strength(alpha=dot(c, c), beta=beta, n=n, lam=lacking)
    return dot(x, a) / dot(a, a) * V_A + dot(x, c) / dot(c, c) * learned


def minibatch_blocking(*, rate, m, batch_size):
    """Blocked / control where the error is frozen for B trials: (1 - B rate)^(m / B), B | m.

    m trials of A+ before AX+. At rate beta / B it is (1 - beta)^(m / B): from Rescorla-Wagner, B =
    1, to Hebb, one batch for all. At a fixed rate it falls with B and turns negative.
    """
    return (1 - batch_size * rate) ** (m / batch_size)


def equilibrium_strength(cues, outcomes):
    """The memory (K, D) at which Rescorla-Wagner rests on average: E[x x^T] W = E[x lambda].

    cues (T, K), outcomes (T, D): the trials of one cycle. Where it is singular, the solution of
    least norm, which is where learning from 0 ends.
    """
    return np.linalg.pinv(cues.T @ cues) @ (cues.T @ outcomes)


def contingency_strength(*, p_cue, p_no_cue, lam=1.0):
    """lam (P(US | cue) - P(US | no cue)), the cue's equilibrium beside a context (equal rates).

    Delta P: Rescorla (1968), Chapman & Robbins (1990).
    """
    return lam * (p_cue - p_no_cue)


def relative_validity(*, beta, beta_omitted, lam=1.0):
    """X after AX+/BX- less X after AX+/BX+/AX-/BX-, at equilibrium; 0 at equal rates.

    lam [1/3 - 2/3 beta / (beta + beta_omitted)]; the design is that of Wagner, Logan, Haberlandt &
    Price (1968).
    """
    return lam * (1 / 3 - 2 / 3 * beta / (beta + beta_omitted))


def retained_response(*, response, decay):
    """Responses (..., T, D) to a cue a after each of T retention trials: response times the decays.

    response (..., D), decay (..., T). The update is W <- (I - P k k^T) D W + P k v^T, P the rates
    and D the decays on the diagonal. It holds for any state and outcomes iff a^T P k = 0 for every
    key k and D a = decay a: keys orthogonal to the cue under a scalar rate and decay, for instance.
    With decay from 0 to 1 the response cannot grow: no spontaneous recovery.
    """
    return response[..., None, :] * np.cumprod(decay, axis=-1)[..., None]


def recovery_peak(*, slow, fast, w_slow, w_fast):
    """Trials until the response w_slow slow^t + w_fast fast^t is largest, w_fast < 0 < w_slow.

    ln(-w_fast ln fast / (w_slow ln slow)) / ln(slow / fast), or 0: slow and fast are decays, w the
    parts that slow and fast features have in the response after extinction (KDA).
    """
    ratio = -w_fast * np.log(fast) / (w_slow * np.log(slow))
    return np.maximum(np.log(ratio) / np.log(slow / fast), 0)


# --------------------------------------------------------- closed forms: capacity, heads and depth
#
# n random unit pairs (keys and values uniform on the sphere) of d features each. Under Hebb the
# response to key i is v_i + sum_{j != i} c_j v_j with c_j = k_i.k_j: v_i plus interference, an
# isotropic vector, of which the length r and the angle to v_i say all that matters.


def sphere_angle(d, nodes):
    """(angle, weights): quadrature over a component sin(angle) of a random unit vector, d >= 2.

    Density of the angle ~ cos^(d-2), midpoints out to 10 standard deviations at most, ascending.
    """
    end = min(np.pi / 2, 10 / np.sqrt(d))
    angle = np.linspace(-end, end, 2 * nodes + 1)[1::2]
    weights = np.cos(angle) ** (d - 2)
    return angle, weights / np.sum(weights)


def interference_length(m, d, nodes):
    """(r, weights): quadrature over r = |sum_j c_j v_j| of m >= 1 pairs, midpoints, ascending.

    r^2 is taken as gamma with its true mean m/d and its true variance, scale times the mean.
    """
    scale = 2 * (d - 1) / (d * (d + 2)) + 2 * (m - 1) / d**2
    centre, reach = np.sqrt(m / d), 5 * np.sqrt(scale)
    r = np.linspace(max(0, centre - reach), centre + reach, 2 * nodes + 1)[1::2]
    logarithm = (2 * m / d / scale - 1) * np.log(r) - r**2 / scale
    weights = np.exp(logarithm - np.max(logarithm))
    return r, weights / np.sum(weights)


@np.vectorize
def faithful_probability(n, d, *, tau=0.7, nodes=400):
    """P(cosine of the response and v_i >= tau) in a Hebbian store; n >= 2, d >= 2, also arrays.

    The response v_i + r u makes an angle of at most theta = arccos(tau) with v_i where
    r cos(phi + theta) <= sin(theta), sin(phi) = u.v_i: P = E_phi P(r <= sin / cos).
    """
    theta = np.arccos(tau)
    phi, share = sphere_angle(d, nodes)
    limit = np.sin(theta) / np.maximum(np.cos(phi + theta), 1e-9)
    r, r_share = interference_length(n - 1, d, nodes)
    return np.interp(limit, r, np.cumsum(r_share) - r_share / 2) @ share


@np.vectorize
def identification_failure(n, d, *, nodes=40):
    """P(v_i is not the nearest of the n stored values to the response), Hebbian; n >= 3, d >= 2.

    n and d are numbers or arrays. Item l beats item i iff r cos(phi) u > 1 - c + r sin(phi),
    u = y sqrt((1 + x) / (1 - x)), with c = k_i.k_l, x = v_i.v_l, y a component in d - 1 dimensions,
    r the length of the other n - 2 pairs' interference and phi its angle. u is the tangent of a
    `sphere_angle`: v_l seen in the stereographic projection from v_i, Student's t over sqrt(d - 1).
    P = 1 - E_{r,phi}[(1 - P(l beats i))^(n-1)]: the competitors count as independent.
    """
    (phi, phi_share), (c, c_share) = sphere_angle(d, nodes), sphere_angle(d, nodes // 2)
    angle, share = sphere_angle(d, 100 * nodes)
    r, r_share = interference_length(n - 2, d, nodes)
    along, across = (r[:, None, None] * part(phi)[:, None] for part in (np.sin, np.cos))
    limit = np.arctan2(1 - np.sin(c) + along, across)
    above = np.interp(-limit, angle, np.cumsum(share) - share / 2)  # by symmetry, P(angle > limit)
    beaten = np.minimum(above @ c_share, 1 - 1e-12)
    return -r_share @ np.expm1((n - 1) * np.log1p(-beaten)) @ phi_share


def identification_probability(n, d):
    """P(v_i is the nearest of the n stored values to the response), Hebbian; as its failure."""
    return 1 - identification_failure(n, d)


def capacity_limit(probability, d, p):
    """The n from 3 to d^2 at which probability(n, d) falls to p, within 1e-4: log n is halved."""
    low, high = 3.0, d**2
    while high > 1.0001 * low:
        n = np.sqrt(low * high)
        low, high = (n, high) if probability(n, d) >= p else (low, n)
    return low


def worst_case_pairs(d):
    """Pairs that a d x d Hebbian store holds whatever the signs of the interference.

    The n at which the largest of n sums of n - 1 lengths |k_i.k_j| comes to 1/2: their mean
    (n-1) sqrt(2/(pi d)) and sqrt(2 ln n) standard deviations sqrt((n-1) (1-2/pi) / d) on top. Only
    for d -> infinity is n = sqrt(pi d / 8); d 256 to 10^6 give .45 to .56 sqrt d, not .63.
    """
    n = np.geomspace(2, 4 + np.sqrt(d), 10_000)
    mean, variance = np.sqrt(2 / np.pi / d), (1 - 2 / np.pi) / d
    largest = (n - 1) * mean + np.sqrt(2 * np.log(n) * (n - 1) * variance)
    return np.interp(0.5, largest, n)


def least_squares_error(n, d):
    """Mean squared error max(0, 1 - d/n) of n random unit values in a least-squares store.

    Its responses are P V, P the projection on the min(n, d) directions that the keys span. The
    repeated delta rule ends there if n <= d, and for beta -> 0 if n > d (Widrow & Hoff 1960).
    """
    return np.maximum(0, 1 - d / n)


def shared_direction(d_h, M):
    """g: how much of k_i.k_j is left in the cosine of their projections, 2 <= d_h <= M, M >= 8.

    g = E[(|A| / |B|) (1 - cos^2(A, B))], A = P k and B = P u for orthogonal unit vectors k, u of
    M features and a random orthonormal projection P to d_h: the slope of cos(A, x A + B) at x = 0.
    With a = d_h/2, m = M/2 and the gamma function G it is
    (m-1)/(m-1/2) [G(a+1/2) / G(a)]^2 / a 3F2(1/2, 3/2, a+1/2; a+1, m+1/2; 1), to 4e-6 at M = 8.
    """
    a, m, k = d_h / 2, M / 2, np.arange(1, 100)
    ratios = (k**2 - 0.25) * (k + a - 0.5) / (k * (k + a) * (k + m - 0.5))
    first = (m - 1) / (m - 0.5) * math.exp(2 * math.lgamma(a + 0.5) - 2 * math.lgamma(a)) / a
    return first * (1 + np.sum(np.cumprod(ratios)))


def averaged_head_error(n, H, d_h, M=None):
    """Mean squared error (n-1) [1/(H d_h) + (1-1/H) g^2/M] of H averaged heads, n unit pairs.

    Each head stores all pairs under its own keys of d_h features. M None: independent keys, or the
    H slices of one rotation of shared keys of H d_h features, which are independent too; no second
    term. Else random orthonormal projections of shared keys of M features, scaled to length 1.
    """
    shared = 0 if M is None else (1 - 1 / H) * shared_direction(d_h, M) ** 2 / M
    return (n - 1) * (1 / (H * d_h) + shared)


def chained_error(r, L):
    """Share of wrong items after L hops, 1 - (1 - r)^L, where each is cleaned up to an item."""
    return 1 - (1 - r) ** L


# --------------------------------------------------- closed forms: drift, unlearning and lag
#
# Drift: outcomes v = A_t^T x + noise of variance s2, random cues of length 1 (E x x^T = I/K). Each
# strength in A_t has mean 0, variance 1 and autocorrelation rho^k, so that it moves by q =
# 1 - rho^2 a trial; a random walk is the limit rho -> 1. Errors: E((W_{t-1} - A_t)^T x_t)^2.


def delta_tracking_error(*, beta, K, rho, s2):
    """Excess error an outcome of the delta rule that tracks A_t, beta in (0, 2); exact.

    [beta s2 + 2 (1 - rho) / (1 - rho + rho beta/K)] / (2 - beta); for rho -> 1 it is
    (K q + beta^2 s2) / (2 beta - beta^2), the law of the least-mean-squares filter that tracks a
    random walk (Widrow, McCool, Larimore & Johnson 1976).
    """
    moved = 2 * (1 - rho) / (1 - rho + rho * beta / K)
    return (beta * s2 + moved) / (2 - beta)


def hebbian_tracking_error(*, decay, K, rho, s2):
    """Excess error of Hebb with decay g in [0, 1) and rate K (1 - g), of gain 1; exact.

    1 - 2 h rho / (1 - g rho) + h K (1 + s2), h = (1-g) / (1+g): what the exponential mean has of
    A_t, then the interference of other cues and the noise of outcomes. From E (x_s . x_t)^2 = 1/K.
    """
    share = (1 - decay) / (1 + decay)
    return 1 - 2 * share * rho / (1 - decay * rho) + share * K * (1 + s2)


def random_walk_beta(*, K, q, s2):
    """Best rate [-a + sqrt(a^2 + 4 a b)] / (2 b) of the delta rule, a = K q, b = s2, rho -> 1."""
    a = K * q
    return (np.sqrt(a**2 + 4 * a * s2) - a) / (2 * s2)


# Unlearning: one of n random unit pairs of d features meets its key with the outcome omitted, at
# beta 1; c is the cosine of its key with another key, o its response.


def unlearning_change(n, d):
    """Mean |change|^2 of another response in a Hebbian store: (1/d)(1 + (n-2)/d) + 3/(d (d+2)).

    It is c^2 |o|^2. In a delta store that holds all pairs |o| = 1, and it is 1/d.
    """
    return (1 + (n - 2) / d) / d + 3 / (d * (d + 2))


def unlearned_error(n, d):
    """Mean squared error of the other Hebbian pairs after that; before it, (n - 1)/d.

    (n-2)(1/d - 1/d^2) + 3/(d (d+2)): an interferer is removed, so that it falls.
    """
    return (n - 2) * (1 / d - 1 / d**2) + 3 / (d * (d + 2))


# Lag: a stream of random unit pairs, each shown once; r is the response to an item `lag` tokens
# after it was written, v its value.


def lag_moments(lags, *, before=np.inf, d, beta, decay=1.0, error_correcting=False):
    """E r.v and E |r|^2 at lags 0, 1, ... lags - 1 of an item that `before` tokens precede.

    Keys of d features; c is 1 for Delta, 0 for Hebb; g the decay; |W|^2 starts at 0. When it is
    written, r.v = beta and |r|^2 = beta^2 + (1 - c beta)^2 g^2 |W|^2/d; then, a token,
    r.v <- g (1 - c beta/d) r.v
    |r|^2 <- g^2 [(1 - 2 c beta/d) |r|^2 + c beta^2 (|W|^2 + 2 |r|^2) / (d (d+2))] + beta^2/d
    |W|^2 <- kept |W|^2 + beta^2, kept = g^2 [1 - c (2 beta - beta^2)/d].
    All but the lags are numbers or arrays that broadcast; the lags come first.
    """
    c, g2 = error_correcting, decay**2
    kept = g2 * (1 - c * (2 * beta - beta**2) / d)
    W2 = beta**2 * np.where(kept < 1, (1 - kept**before) / np.maximum(1 - kept, 1e-300), before)
    size = beta**2 + (1 - c * beta) ** 2 * g2 * W2 / d
    match, moments = np.broadcast_to(beta, size.shape), []
    for _ in range(lags):
        moments.append((match, size))
        W2 = kept * W2 + beta**2
        match = decay * (1 - c * beta / d) * match
        size = beta**2 / d + g2 * ((1 - 2 * c * beta / d) * size
                                   + c * beta**2 * (W2 + 2 * size) / (d * (d + 2)))
    return np.swapaxes(moments, 0, 1)


# ------------------------------------------------------------------------------------ phenomena


class Phenomenon(NamedTuple):
    """A classical phenomenon: two groups, what is compared at the test, what animals do.

    comparison: "experimental design  <  control design", with two spaces around what animals do: <
    if the experimental group responds less, > if it responds more, = if the same; a factor of the
    control's response may follow, one of `FACTORS`. Both designs have as many trials in each phase.
    A control that is one test alone is another test of the experimental animals: "9A+ | B?  <  A?".
    The response is that at the test; with two tests, the last as a share of the first.
    species: of the studies that are named. caveat: what a reader must know beside the finding.
    needs: a prerequisite, otherwise the row is not applicable to a rule: a phenomenon that it must
    show, or TIME_STEPS, a trial of more than one step.
    us, saliences: as in `design_arrays`. order: of mixed phases, "mirrored" only where exchanging +
    and - leaves the design the same, else "reversed".
    """

    name: str
    source: str
    species: str
    comparison: str
    caveat: str = ""
    needs: str = ""
    us: tuple = (1.0, 2.0)
    saliences: dict = {}
    order: str = "reversed"
    group: str = ""

    @property
    def finding(self):
        """What animals do: -1 the experimental group responds less, 1 more, 0 the same."""
        return "<=>".index(self.comparison.split("  ")[1][0]) - 1


FACTORS = {"half of": 0.5, "twice": 2.0}
TIME_STEPS = "time steps"


def _group(name, *phenomena):
    return [each._replace(group=name) for each in phenomena]


PHENOMENA = (
    *_group("acquisition and extinction",
    # Negatively accelerated: the second half of training adds less than the first.
    Phenomenon("acquisition slows down", "Pavlov 1927; Hull 1943", "dog",
               "20A+ | 20A+ | A?  < twice  20_ | 20A+ | A?"),
    Phenomenon("extinction", "Pavlov 1927", "dog",
               "20A+ | 20A- | A?  <  20A+ | 20_ | A?"),
    # Persistence: the share of the response at the end of training that extinction leaves.
    Phenomenon("partial reinforcement extinction",
               "Humphreys 1939; Capaldi 1967; Haselgrove et al. 2004", "human, rat",
               "40A+50% | A? | 10A- | A?  >  40A+ | A? | 10A- | A?", order="mirrored",
               caveat="the share of the first response that is left: slower decline in proportion "
               "only; no rule responds more in extinction, which is the finding"),
    # Unpaired control (required by Lee 2021): A and B as often, but apart. B has a neutral cue
    # beside it, so that both groups are tested on B after compounds: alone, B- would be nearer to
    # the test, and an exemplar model would pass.
    Phenomenon("second-order conditioning", "Rizley & Rescorla 1972", "rat",
               "40A+ | 5B>A-/5C- | B?  >  40A+ | 5B>C-/5A- | B?",
               "few trials: with many, B becomes an inhibitor"),
    Phenomenon("sensory preconditioning", "Brogden 1939", "dog",
               "20AB-/20C- | 20A+ | B?  >  20CB-/20A- | 20A+ | B?"),
    # The control's A fills the interval: A's onset is as far from the US, only the gap differs.
    Phenomenon("trace conditioning",
               "Pavlov 1927; Smith, Coleman & Gormezano 1969", "dog, rabbit",
               "20A>_>_>_+ | A?  <  20A>A>A>A+ | A?", "both are asked at the onset of A, as far "
               "from the US", needs=TIME_STEPS)),

    *_group("cue competition",
    Phenomenon("blocking", "Kamin 1968, 1969; Maes et al. 2016", "rat",
               "40A+ | 40AX+ | X?  <  40_ | 40AX+ | X?",
               "15 failures to replicate (Maes et al. 2016); its bounds are disputed (Soto 2018)"),
    # The control is Kamin's; a rule that learns by the size of the US, not by surprise, passes too,
    # if it blocks.
    Phenomenon("unblocking by a larger US",
               "Kamin 1969; Dickinson, Hall & Mackintosh 1976", "rat",
               "40A+ | 40AX++ | X?  >  40A+ | 40AX+ | X?", needs="blocking"),
    Phenomenon("unblocking by a smaller US",
               "Dickinson, Hall & Mackintosh 1976; Holland 1984", "rat",
               "40A++ | 40AX+ | X?  >  40A+ | 40AX+ | X?",
               "in animals a second US, seconds later, is omitted (Dickinson 1976)", "blocking"),
    Phenomenon("overshadowing", "Pavlov 1927; Mackintosh 1976", "dog, rat",
               "20AX+ | X?  <  20X+ | X?"),
    Phenomenon("one-trial overshadowing",
               "Mackintosh & Reese 1979; James & Wagner 1980", "rat", "AX+ | X?  <  X+ | X?"),
    Phenomenon("overexpectation", "Rescorla 1970; Kremer 1978", "rat",
               "40A+/40X+ | 40AX+ | X?  <  40A+/40X+ | 40_ | X?"),
    Phenomenon("relative validity", "Wagner, Logan, Haberlandt & Price 1968",
               "rat, rabbit", "40AX+/40BX- | X?  <  20AX+/20BX+/20AX-/20BX- | X?",
               "Rescorla-Wagner predicts it where omissions are learned more slowly, as its "
               "authors assumed; at one rate it ties", order="mirrored"),
    Phenomenon("zero contingency", "Rescorla 1968", "rat",
               "80KA+50%/80K+50% | A?  <  80KA+50%/80K- | A?"),
    # X is redundant beside A (blocking), Y uninformative beside B and C. Both are paired with the
    # outcome 48 times, X always, Y half of the time.
    Phenomenon("redundancy effect", "Uengoer, Lotz & Pearce 2013", "human",
               "48A+/48AX+/48BY+/48CY- | X?  >  Y?"),
    # B, an inhibitor, and A, an excitor, are reinforced together. Each is tested beside a cue of
    # the other kind, so that equal changes tie: an error of its own moves the inhibitor more.
    Phenomenon("inhibitor gains more than excitor", "Rescorla 2000", "rat",
               "30A+/30C+/30X+/30XB-/30XD- | 8AB+ | BC?  >  AD?")),

    *_group("inhibition",
    # Rescorla 1969a: "Pavlovian conditioned inhibition", Psychological Bulletin 72; 1969b:
    # "Conditioned inhibition of fear resulting from negative CS-US contingencies", JCPP 67.
    # N has been without the US as often as X, but never beside A: a cue that is merely strange
    # beside B, or known without the US, does not pass.
    Phenomenon("conditioned inhibition: summation", "Pavlov 1927; Rescorla 1969a",
               "dog, rat", "60A+/60AX-/60N- | 20B+ | BX?  <  BN?"),
    # The control has been exposed to X as often, so that latent inhibition alone does not pass.
    Phenomenon("conditioned inhibition: retardation", "Rescorla 1969a", "rat",
               "60A+/60AX- | 10X+ | X?  <  60A+/60X- | 10X+ | X?"),
    Phenomenon("negative contingency inhibits", "Rescorla 1969b", "rat",
               "80KA+50%/80K+75% | A?  <  N?"),
    # Not lost: more than half of it is left, against a group without X-.
    Phenomenon("inhibitor alone keeps inhibition", "Zimmer-Hart & Rescorla 1974",
               "rat", "60A+/60AX- | 40X- | X?  < half of  60A+/60AX- | 40_ | X?",
               "X must keep more than half of its inhibition", "conditioned inhibition: summation"),
    Phenomenon("novel cue with inhibitor is neutral", "Baker 1974", "rat",
               "60A+/60AX- | 40DX- | D?  =  60A+/60AX- | 40D- | D?",
               needs="conditioned inhibition: summation"),
    # The control's C has a novel cue beside it, since any cue beside C shares the error.
    Phenomenon("protection from extinction", "Chorazyna 1962; Rescorla 2003",
               "dog, rat, pigeon",
               "60A+/60AX- | 40C+ | 20CX- | C?  >  60A+/60AX- | 40C+ | 20CD- | C?"),
    Phenomenon("superconditioning",
               "Rescorla 1971; Wagner 1971; Williams & McDevitt 2002", "rat, rabbit",
               "60A+/60AX- | 20XY+ | Y?  >  60A+/60AX- | 20DY+ | Y?")),

    *_group("pre-exposure",
    Phenomenon("latent inhibition", "Lubow & Moore 1959", "sheep, goat",
               "40A- | 10A+ | A?  <  40_ | 10A+ | A?",
               "lost in another context (Lovibond et al. 1984), which no rule here shows"),
    # The first phase pairs the target, or another cue, with a weak US.
    Phenomenon("Hall-Pearce negative transfer", "Hall & Pearce 1979", "rat",
               "66T+ | 6T++ | T?  <  66L+ | 6T++ | T?", us=(0.25, 1.0)),
    Phenomenon("US pre-exposure", "Randich & LoLordo 1979", "rat",
               "20K+ | 20KA+/20K- | A?  <  20K- | 20KA+/20K- | A?"),
    # Learned irrelevance proper asks for more retardation than both exposures alone add up to.
    Phenomenon("uncorrelated CS and US, against CS alone",
               "Mackintosh 1973; Baker & Mackintosh 1977", "rat",
               "20KA+50%/20K+50% | 10KA+ | A?  <  20KA-/20K- | 10KA+ | A?"),
    Phenomenon("uncorrelated CS and US, against US alone",
               "Mackintosh 1973; Baker & Mackintosh 1977", "rat",
               "20KA+50%/20K+50% | 10KA+ | A?  <  40K+50% | 10KA+ | A?",
               "learned irrelevance; that it exceeds both exposures together is disputed")),

    *_group("retrospective revaluation",
    Phenomenon("backward blocking", "Shanks 1985; Miller & Matute 1996",
               "human, rat", "20AX+ | 20A+ | X?  <  20AX+ | 20_ | X?",
               "in rats only where X is of low biological significance"),
    Phenomenon("recovery from overshadowing",
               "Kaufman & Bolles 1981; Matzel et al. 1985; Holland 1999", "rat",
               "20AX+ | 20A- | X?  >  20AX+ | 20_ | X?", "none in 7 experiments of Holland 1999")),

    *_group("patterns",
    Phenomenon("feature-positive discrimination", "Jenkins & Sainsbury 1969", "pigeon",
               "60AB+/60A- | B?  >  A?",
               "simultaneous; a serial feature sets the occasion (Holland 1983)"),
    # Trained as conditioned inhibition is, but tested on the compound that was trained.
    Phenomenon("feature-negative discrimination",
               "Pavlov 1927; Holland & Lamarre 1984", "dog, rat", "60A+/60AB- | AB?  <  A?"),
    Phenomenon("negative patterning", "Woodbury 1943; Rescorla 1972", "dog, rat",
               "40A+/40B+/40AB- | A?  >  AB?"),
    Phenomenon("negative patterning, unique cue",
               "Wagner & Rescorla 1972; Whitlow & Wagner 1972", "rabbit",
               "80A+/80B+/80ABU- | A?  >  ABU?",
               "the same animals; U is a cue that the compound adds"),
    # In a context K that also occurs alone: an exemplar model answers with a mean of outcomes,
    # which nothing can lower where all outcomes were the same.
    Phenomenon("external inhibition: a cue is added", "Pavlov 1927", "dog",
               "20KA+/20K- | KAN?  <  KA?"),
    Phenomenon("generalisation decrement: a cue is removed",
               "Pearce 1987; Brandon, Vogel & Wagner 2000", "rabbit",
               "20KAN+/20K- | KA?  <  KAN?", "elements lose what the removed cue held")),

    *_group("recovery",
    Phenomenon("spontaneous recovery", "Pavlov 1927; Rescorla 2004", "dog, rat",
               "20A+ | 20A- | 20_ | A?  >  20_ | 20A+ | 20A- | A?", needs="extinction"),
    Phenomenon("rapid reacquisition", "Napier, Macrae & Kehoe 1992", "rabbit",
               "20A+ | 200A- | 5A+ | A?  >  20_ | 200_ | 5A+ | A?",
               "slow after few conditioning trials (Ricker & Bouton 1996, rat)", "extinction"),
    # P and Q are contexts; A+ in P, A- in Q, test in P against test in Q.
    Phenomenon("ABA renewal", "Bouton & Bolles 1979; Bouton & King 1983", "rat",
               "20AP+ | 20AQ- | AP?  >  AQ?", "here by the strength of the contexts, which Bouton "
               "& King 1983 did not find", "extinction", saliences={"P": 0.2, "Q": 0.2}),
    # US alone, against context alone, before a test in the context.
    Phenomenon("reinstatement", "Rescorla & Heth 1975; Bouton 1984", "rat",
               "20AK+ | 20AK- | 4K+ | AK?  >  20AK+ | 20AK- | 4K- | AK?", "here by summation with "
               "the context; in animals it needs an extinguished cue (Bouton 1984)", "extinction")),
)


def compared_designs(phenomenon):
    """The two Designs of a phenomenon."""
    experimental, _, control = phenomenon.comparison.split("  ")
    if "|" not in control:  # another test of the same animals
        control = f"{experimental.rpartition('|')[0]}|{control}"
    return parse_design(experimental), parse_design(control)


def trial_steps(phenomenon):
    """Time steps that a phenomenon's longest trial takes."""
    return max(design.steps for design in compared_designs(phenomenon))


def contrast_text(phenomenon):
    """What is compared, in the notation without counts: "X: A+ | AX+  <  _ | AX+".

    < and > say what animals do, = that they do not differ.
    """
    experimental, relation, control = re.sub(
        r"\d+(?![\d%])|\?(?=  |$)", "", phenomenon.comparison).split("  ")
    trained, _, test = experimental.rpartition(" | ")
    other, _, last = control.rpartition(" | ")
    if other:
        return f"{test}: {trained}  {relation}  {other}"
    return f"{trained}: {test}  {relation}  {last}"


def phenomenon_arrays(phenomenon, *, trials=None, salience=(1.0, 1.0), in_time=False, **options):
    """TrialArrays (2 groups, orders, pair, T, ...) of a phenomenon.

    trials: how many of the experimental group's first trial type (None: as the design says); the
    other counts change in proportion. salience: a factor for the cues that are tested, and one for
    the others. in_time: each trial as time steps, for `temporal_difference`. options (orders, seed,
    compound): as in `design_arrays`; both groups have the same orders.
    """
    designs = compared_designs(phenomenon)
    if trials:
        designs = [scaled_design(design, trials / designs[0].phases[0][0].count)
                   for design in designs]
    phases = [phase for design in designs for phase in design.phases]
    tested = {cue for phase in phases for trial in phase for cue in trial.cues
              if trial.outcome == "?"}
    saliences = {cue: phenomenon.saliences.get(cue, 1.0) * salience[cue not in tested]
                 for design in designs for cue in design.cues}
    order = phenomenon.order if max(map(len, phases)) > 1 else "alternate"
    arrays = group_arrays(designs, us=phenomenon.us, saliences=saliences, order=order,
                          steps=in_time * trial_steps(phenomenon), **options)
    if order == "alternate":
        arrays = TrialArrays(*(rows[:, None, None] for rows in arrays))
    return arrays


def group_responses(phenomenon, answers):
    """(experimental, control) response to compare, from answers (..., 2, orders, pair, tests, D).

    Each is (..., orders, pair), of the first outcome.
    """
    first, last = answers[..., 0, 0], answers[..., -1, 0]
    response = last / first if answers.shape[-2] > 1 else last
    factor = FACTORS.get(phenomenon.comparison.split("  ")[1][2:], 1.0)
    return response[..., 0, :, :], factor * response[..., 1, :, :]
