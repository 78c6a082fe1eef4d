"""Attention as conditioning: the attention forms of the learning rules, designs, closed forms.

One equation holds the attention family and the classical learning theory together:

    W_t = decay_t W_{t-1} + w_t E_t^T     w_t = beta_t * k_t     o_t = W_t^T q_t
    E_t = v_t - c (decay_t W_{t-1})^T k_t     c = 0: contiguity, c = 1: error correction

    c   decay        machine learning                      learning theory
    0   1            linear attention                      Hebbian contiguity
    0   a number     retention (RetNet), Mamba-2           contiguity that fades
    0   per feature  gated linear attention (GLA)          ... at a rate of each feature
    1   1            DeltaNet                              Rescorla-Wagner
    1   a number     Gated DeltaNet                        Rescorla-Wagner with forgetting
    1   per feature  KDA                                   ... at a rate of each feature
    beta_t an associability that follows |error|:          Pearce-Hall (hybrid)
                     PH-attention

Glossary, beyond that of `rules.py`: keys = cues (CS), values = outcomes (US), queries (..., T, K)
= test stimuli; outputs (..., T, D) are read after the token has been written. Nothing here scales,
masks, maps or normalises unless an argument says so. The recurrent form is the trial-by-trial
process, the parallel form one triangular solve, the chunkwise form the parallel one inside chunks.
These are written independently of `rules.py`, from which only array helpers are taken.
"""

import itertools
import re
from typing import Any, NamedTuple

import numpy as np

from rules import AssociabilityState, array_module, common_arrays, per_feature

# ---------------------------------------------------------------------------- attention, 3 forms


def attention(queries, keys, values, *, beta=1.0, decay=1.0, error_correcting=False, state=None,
              form="chunkwise", chunk=16):
    """The equation above over all tokens: (outputs (..., T, D), state (..., K, D)).

    queries, keys (..., T, K); values (..., T, D); state (..., K, D) to start from, None for 0.
    beta and decay: numbers, or one value a token (one axis fewer than the keys), or one a token
    and feature (as many axes). form: "recurrent" (the loop over tokens), "parallel" (all tokens in
    one triangular solve, time and memory T^2), "chunkwise" (parallel within `chunk` tokens,
    recurrent between chunks: linear in T). All three agree.
    Sources: Katharopoulos et al. 2020; Sun et al. 2023; Yang et al. 2023 (GLA); Schlag et al. 2021
    and Yang et al. 2024 (DeltaNet); Yang et al. 2025 (Gated DeltaNet: first the decay, then the
    error). Departure: no scale on the queries (many libraries hide K^-1/2).
    ValueError for shapes that do not match, an unknown form or a chunk below 1.
    """
    if form not in ("recurrent", "parallel", "chunkwise"):
        raise ValueError(f"form must be recurrent, parallel or chunkwise, got {form!r}")
    if isinstance(chunk, bool) or not isinstance(chunk, int) or chunk < 1:
        raise ValueError(f"chunk must be a whole number of tokens, at least 1, got {chunk!r}")
    xp, queries, keys, values, state = _tokens(queries, keys, values, state)
    fades = not (isinstance(decay, int | float) and decay == 1)
    beta, decay = per_feature("beta", beta, keys), _decay_array(decay, keys)
    batch = np.broadcast_shapes(*(getattr(array, "shape", ())[:-2] for array in (
        queries, keys, values, state, beta, decay)))
    state = xp.broadcast_to(state, batch + state.shape[-2:])
    if form == "chunkwise" and decay.shape[-1] == 1:
        return _chunkwise(queries, keys, values, beta, decay if fades else None, error_correcting,
                          state, chunk)
    # "chunkwise" with one decay a feature: the plain form on one chunk after another
    T, arrays = keys.shape[-2], (queries, keys, values, beta * keys, decay)
    step = chunk if form == "chunkwise" else max(T, 1)
    one_chunk = _recurrent if form == "recurrent" else _parallel
    outputs = [xp.zeros(batch + (0, values.shape[-1]), dtype=keys.dtype)]
    for start in range(0, T, step):
        part = [array[..., start:start + step, :] for array in arrays]
        output, state = one_chunk(*part, error_correcting, state)
        outputs.append(output)
    return xp.concatenate(outputs, axis=-2), state


def _tokens(queries, keys, values, state):
    """xp and the arrays of an attention layer in one dtype, their shapes checked."""
    xp, queries, keys, values = common_arrays(queries=queries, keys=keys, values=values)
    if keys.ndim < 2 or queries.shape[-2:] != keys.shape[-2:]:
        raise ValueError(f"queries and keys must both be (..., T, K), got shapes {queries.shape} "
                         f"and {keys.shape}")
    if values.ndim < 2 or values.shape[-2] != keys.shape[-2]:
        raise ValueError(f"values must be (..., T, D) with the T of the keys, got shapes "
                         f"{values.shape} and {keys.shape}")
    if state is None:
        state = xp.zeros((keys.shape[-1], values.shape[-1]), dtype=keys.dtype)
    xp, queries, keys, values, state = common_arrays(queries=queries, keys=keys, values=values,
                                                     state=state)
    if state.shape[-2:] != (keys.shape[-1], values.shape[-1]):
        raise ValueError(f"state must be (..., K, D) = (..., {keys.shape[-1]}, "
                         f"{values.shape[-1]}), got shape {state.shape}")
    return xp, queries, keys, values, state


def _decay_array(decay, keys):
    """decay as an array (..., T, 1) or (..., T, K)."""
    ones = array_module(keys).ones(keys.shape[-2:-1] + (1,), dtype=keys.dtype)
    return per_feature("decay", decay, keys) * ones


def _recurrent(queries, keys, values, writes, decay, error_correcting, state):
    """Token by token, as a network with fast weights: S <- decay S + w (v - c S^T k)^T."""
    xp, outputs = array_module(keys), []
    for t in range(keys.shape[-2]):
        state = decay[..., t, :, None] * state
        target = values[..., t, None, :]
        if error_correcting:
            target = target - keys[..., t, None, :] @ state
        state = state + writes[..., t, :, None] @ target
        outputs.append(queries[..., t, None, :] @ state)
    return xp.concatenate(outputs, axis=-2), state


def _parallel(queries, keys, values, writes, decay, error_correcting, state):
    """All tokens at once. With G_t the product of the decays up to t, A_ts = sum_k x_tk w_sk times
    the product of the decays after s up to t, for s <= t and x the keys or the queries:

    E = (I + c stril A)^-1 (V - c (G K) W_0),  O = (G Q) W_0 + (tril A) E,
    W_T = G_T W_0 + (w times the decays after it)^T E

    E is the sequence of prediction errors: DeltaNet is linear attention whose values are the
    prediction errors (the UT transform of Yang et al. 2024, written with errors).
    """
    xp = array_module(keys)
    since_start, since_write = xp.cumprod(decay, axis=-2), decay_between(decay)
    targets = values
    if error_correcting:
        targets = values - (since_start * keys) @ state
        targets = unit_lower_solve(xp.tril(_scores(keys, writes, since_write), -1), targets)
    outputs = (since_start * queries) @ state + _scores(queries, writes, since_write) @ targets
    remaining = writes * since_write[..., -1, :, :]
    state = since_start[..., -1, :, None] * state + xp.swapaxes(remaining, -1, -2) @ targets
    return outputs, state


def decay_between(decay):
    """Product of the decays after token s up to token t: (..., T, 1|K) -> (..., T, T, 1|K).

    1 where s = t, 0 where s > t. A masked cumulative product: exact where a decay is 0 (sums of
    logarithms give NaN there) and without overflow (ratios of products divide by tiny numbers).
    """
    xp = array_module(decay)
    t = xp.arange(decay.shape[-2])[:, None, None]
    s = xp.arange(decay.shape[-2])[None, :, None]
    product = xp.cumprod(xp.where(t > s, decay[..., :, None, :], 1), axis=-3)
    return xp.where(t >= s, product, 0)


def _scores(rows, writes, since_write):
    """A_ts = sum_k rows_tk writes_sk since_write_tsk, (..., T, T), 0 above the diagonal."""
    xp = array_module(rows)
    if since_write.shape[-1] == 1:
        return (rows @ xp.swapaxes(writes, -1, -2)) * since_write[..., 0]
    return xp.sum(rows[..., :, None, :] * writes[..., None, :, :] * since_write, axis=-1)


def unit_lower_solve(strict, right):
    """(I + N)^-1 R by forward substitution: N (..., T, T) strictly lower, R (..., T, D).

    Powers of N vanish in the end too, but not before they overflow where a cue repeats, as it
    does in every conditioning design: 64 trials of one cue reach 1e17.
    """
    solution = array_module(strict).array(right)
    for t in range(1, right.shape[-2]):
        solution[..., t:t + 1, :] -= strict[..., t:t + 1, :t] @ solution[..., :t, :]
    return solution


def prediction_errors(cues, outcomes, *, beta, decay=1.0, state=None):
    """Errors (..., T, D) of a whole Rescorla-Wagner experiment in one triangular solve.

    E = (I + stril A)^-1 (V - (G X) W_0), as in `_parallel`; cues (..., T, K), outcomes
    (..., T, D). The predictions are outcomes - errors. beta 0 and decay 1 on test trials: `frozen`.
    """
    xp, cues, _, outcomes, state = _tokens(cues, cues, outcomes, state)
    writes, decay = per_feature("beta", beta, cues) * cues, _decay_array(decay, cues)
    targets = outcomes - (xp.cumprod(decay, axis=-2) * cues) @ state
    strict = xp.tril(_scores(cues, writes, decay_between(decay)), -1)
    batch = np.broadcast_shapes(strict.shape[:-2], targets.shape[:-2])
    return unit_lower_solve(strict, xp.broadcast_to(targets, batch + targets.shape[-2:]))


def frozen(test, *, beta, decay=1.0):
    """{"beta", "decay"} for attention in which the test trials (..., T) change nothing.

    A token with beta 0 and decay 1 is only read: its output is the response to a test stimulus.
    Both come back with the axes of `test`, or one more where one value a feature was given.
    """
    xp = array_module(test)

    def hold(value, at_test):
        per_cue = getattr(value, "ndim", 0) == test.ndim + 1
        return xp.where(test[..., None] if per_cue else test, at_test, value)
    return {"beta": hold(beta, 0.0), "decay": hold(decay, 1.0)}


# --------------------------------------------------------------- the chunkwise form, made fast

SEGMENT = 256  # tokens whose matrices are made together: worth a call, yet few for the cache


def _chunkwise(queries, keys, values, beta, decay, error_correcting, state, chunk):
    """`_parallel` inside each chunk and the recurrence between chunks, in few dense products.

    S is the memory that enters a chunk of C tokens, g_t the product of its decays up to t, B_ts of
    those after s up to t (0 for s > t). With one beta a token, `_parallel` says of the chunk

        A = (K K^T * B) diag(beta),   A' = (Q K^T * B) diag(beta),   T = (I + stril A)^-1,
        E = T (V - g*K S),   O = g*Q S + A' E,   S_next = g_C S + (beta*B_C*K)^T E.

    What does not wait for S is made for SEGMENT tokens at once: [K; Q] K^T in one product, T by
    `unit_lower_inverse`, and M = [diag(beta*B_C) T; A' T]. Then come, chunk after chunk,

        P = g*[K; Q] S,  Y = M (V - P_top),  O = P_bottom + Y_bottom,  S_next = g_C S + K^T Y_top.

    Without error correction T = I, and P_top is left out. One beta a feature moves into the keys of
    the writes. decay (..., T, 1), or None where nothing decays. Tokens left over at the end are a
    chunk of their own. Time and memory are linear in T.
    """
    xp, T, writes = array_module(keys), keys.shape[-2], keys
    if not isinstance(beta, float) and beta.shape[-1] > 1:
        writes, beta = beta * keys, 1.0
    shape = np.broadcast_shapes(queries.shape, keys.shape)
    queries, keys = xp.broadcast_to(queries, shape), xp.broadcast_to(keys, shape)
    state = xp.array(state, order="C")  # a copy, changed in place from here on
    outputs = xp.empty(state.shape[:-2] + (T, values.shape[-1]), dtype=keys.dtype)
    whole, step = T - T % chunk, chunk * max(1, SEGMENT // chunk)
    segments = [(start, min(start + step, whole), chunk) for start in range(0, whole, step)]
    for start, stop, C in segments + [(whole, T, T - whole)] * (whole < T):
        K, Q, V, W = (_in_chunks(a, start, stop, C) for a in (keys, queries, values, writes))
        rows, W_T = xp.concatenate([K, Q], axis=-2), xp.swapaxes(W, -1, -2)
        scores, identity = rows @ W_T, xp.eye(C, dtype=keys.dtype)
        weights = xp.tril(xp.ones((C, C), dtype=keys.dtype))
        if decay is not None:
            kept = _in_chunks(decay, start, stop, C)
            weights = xp.zeros(kept.shape[:-1] + (C,), dtype=keys.dtype) + identity
            for t in range(1, C):  # `decay_between`, row by row: in less than half its time
                weights[..., t, :t] = kept[..., t, :] * weights[..., t - 1, :t]
            g = xp.cumprod(kept, axis=-2)
            rows = rows * xp.concatenate([g, g], axis=-2)
        weights = weights * (beta if isinstance(beta, float) else
                             xp.swapaxes(_in_chunks(beta, start, stop, C), -1, -2))
        A, A_read = scores[..., :C, :] * weights, scores[..., C:, :] * weights
        solved = unit_lower_inverse(A) if error_correcting else xp.zeros_like(A) + identity
        M = xp.concatenate([weights[..., -1, :, None] * solved, A_read @ solved], axis=-2)
        for i in range((stop - start) // C):
            P = rows[..., i, 0 if error_correcting else C:, :] @ state
            errors = V[..., i, :, :] - P[..., :C, :] if error_correcting else V[..., i, :, :]
            Y = M[..., i, :, :] @ errors
            outputs[..., start + i * C:start + (i + 1) * C, :] = P[..., -C:, :] + Y[..., C:, :]
            if decay is not None:
                state *= g[..., i, -1:, :]
            state += W_T[..., i, :, :] @ Y[..., :C, :]
    return outputs, state


def _in_chunks(array, start, stop, chunk):
    """Tokens start to stop of (..., T, F) in chunks: (..., chunks, chunk, F)."""
    part = array[..., start:stop, :]
    return part.reshape(part.shape[:-2] + ((stop - start) // chunk, chunk, part.shape[-1]))


# ------------------------------------------------------------------------ attention, its corners


def linear_attention(queries, keys, values, *, beta=1.0, **options):
    """Unnormalised linear attention = Hebbian contiguity (Katharopoulos et al. 2020, sec. 3.4).

    W <- W + beta k v^T. Departures: no feature map, no normaliser. Shapes and options (state,
    form, chunk) as in `attention`, which it is at decay 1 without error correction.
    """
    return attention(queries, keys, values, beta=beta, **options)


def retention(queries, keys, values, *, decay, beta=1.0, **options):
    """RetNet, and Mamba-2's recurrence = contiguity that fades (Sun et al. 2023, sec. 2.1).

    W <- decay W + beta k v^T. With one decay a token and feature it is GLA (Yang et al. 2023).
    Departures: no rotation of the keys, no group norm. Shapes and options as in `attention`.
    """
    return attention(queries, keys, values, beta=beta, decay=decay, **options)


def deltanet(queries, keys, values, *, beta, **options):
    """DeltaNet = Rescorla-Wagner (Schlag et al. 2021, sec. 4.2; Yang et al. 2024).

    W <- W + beta k (v - W^T k)^T; keys of length 1 and beta in (0, 2) are stable. Departure: keys
    are not normalised here. Shapes and options as in `attention`.
    """
    return attention(queries, keys, values, beta=beta, error_correcting=True, **options)


def gated_deltanet(queries, keys, values, *, beta, decay, **options):
    """Gated DeltaNet = Rescorla-Wagner with forgetting (Yang et al. 2025, sec. 3).

    W' = decay W, W <- W' + beta k (v - W'^T k)^T. With one decay a token and feature it is KDA
    (Kimi team 2025). Shapes and options as in `attention`.
    """
    return attention(queries, keys, values, beta=beta, decay=decay, error_correcting=True,
                     **options)


def ph_attention(queries, keys, values, *, beta, eta, associability=1.0, bounds=(0.0, 1.0),
                 state=None, form="recurrent"):
    """PH-attention = the Pearce-Hall hybrid: a write rate that follows past errors, per feature.

    w_t = beta alpha_t * k_t, E_t = v_t - W^T k_t, W <- W + w_t E_t^T, o_t = W^T q_t, and where k_t
    is not 0: alpha <- clip(alpha + eta k_t^2 (|E_t| - alpha), bounds) (arXiv 2508.08289, third
    version; associability of Pearce & Hall 1980). Unlike a gate computed from the token, alpha
    depends on the errors that the feature has met. Returns (outputs (..., T, D),
    AssociabilityState). `associability` starts it where `state` (an AssociabilityState) is None.
    form: "recurrent", or "parallel": row by row through the triangular system of the errors,
    without a state matrix. ValueError for shapes that do not match or an unknown form.
    """
    if form not in ("recurrent", "parallel"):
        raise ValueError(f"form must be recurrent or parallel, got {form!r}")
    run = _ph_recurrent if form == "recurrent" else _ph_rows
    return run(*_ph_tokens(queries, keys, values, beta, eta, associability, state), bounds)


def _ph_tokens(queries, keys, values, beta, eta, associability, state):
    """queries, keys, values, beta, eta, memory, associability, all with the whole batch shape."""
    memory = None if state is None else state.memory
    xp, queries, keys, values, memory = _tokens(queries, keys, values, memory)
    alpha = associability if state is None else state.associability
    ones = xp.ones(keys.shape[-2:-1] + (1,), dtype=keys.dtype)
    beta, eta = (per_feature(name, rate, keys) * ones
                 for name, rate in (("beta", beta), ("eta", eta)))
    alpha = xp.asarray(alpha, dtype=keys.dtype)
    batch = np.broadcast_shapes(*(a.shape[:-2] for a in (queries, keys, values, memory, beta, eta)),
                                alpha.shape[:-1])
    return *(xp.broadcast_to(a, batch + a.shape[-2:])
             for a in (queries, keys, values, beta, eta, memory)), \
        xp.broadcast_to(alpha, batch + keys.shape[-1:])


def _next_associability(alpha, key, eta, error, bounds):
    xp = array_module(key)
    size = xp.linalg.norm(error, axis=-1)[..., None]
    moved = (1 - eta * key**2) * alpha + eta * key**2 * size
    return xp.where(key == 0, alpha, xp.minimum(xp.maximum(moved, bounds[0]), bounds[1]))


def _ph_recurrent(queries, keys, values, beta, eta, memory, alpha, bounds):
    """S <- (I - w k^T) S + w v^T with w = beta alpha * k, and alpha after it."""
    xp = array_module(keys)
    outputs = xp.empty(values.shape, dtype=values.dtype)
    for t in range(keys.shape[-2]):
        key, value = keys[..., t, :], values[..., t, :]
        write = (beta[..., t, :] * alpha * key)[..., None]
        error = value - (key[..., None, :] @ memory)[..., 0, :]
        memory = memory - write @ (key[..., None, :] @ memory) + write @ value[..., None, :]
        alpha = _next_associability(alpha, key, eta[..., t, :], error, bounds)
        outputs[..., t, :] = (queries[..., t, None, :] @ memory)[..., 0, :]
    return outputs, AssociabilityState(memory, alpha)


def _ph_rows(queries, keys, values, beta, eta, memory, alpha, bounds):
    """All tokens at once, given the errors and the associabilities of each token."""
    xp = array_module(keys)
    errors, alphas = _ph_errors(keys, values, beta, eta, memory, alpha, bounds)
    writes = beta * alphas[..., :-1, :] * keys
    scores = xp.tril(queries @ xp.swapaxes(writes, -1, -2))
    memory_after = memory + xp.swapaxes(writes, -1, -2) @ errors
    return queries @ memory + scores @ errors, AssociabilityState(memory_after, alphas[..., -1, :])


def _ph_errors(keys, values, beta, eta, memory, alpha, bounds):
    """Errors (..., T, D) and the associability before each token and after the last (..., T+1, K).

    The errors' triangular system row by row: row t needs the alpha that rows < t have left.
    """
    xp = array_module(keys)
    writes, errors = xp.zeros(keys.shape, dtype=keys.dtype), values - keys @ memory
    alphas = [alpha]
    for t in range(keys.shape[-2]):
        row = keys[..., t:t + 1, :] @ xp.swapaxes(writes[..., :t, :], -1, -2)
        errors[..., t:t + 1, :] -= row @ errors[..., :t, :]
        writes[..., t, :] = beta[..., t, :] * alpha * keys[..., t, :]
        alpha = _next_associability(alpha, keys[..., t, :], eta[..., t, :], errors[..., t, :],
                                    bounds)
        alphas.append(alpha)
    return errors, xp.stack(alphas, axis=-2)


def mesa_attention(queries, keys, values, *, ridge):
    """MesaNet = the Kalman filter without drift: outputs (..., T, D) of ridge regression so far.

    o_t = (sum_{s<=t} v_s k_s^T) (sum_{s<=t} k_s k_s^T + ridge I)^-1 q_t (von Oswald et al. 2023
    and 2025), ridge = noise / prior > 0. Departures: solved exactly, no gates. Causal; time K^3 T.
    """
    xp, queries, keys, values, _ = _tokens(queries, keys, values, None)
    batch = np.broadcast_shapes(queries.shape, keys.shape)
    queries, keys = xp.broadcast_to(queries, batch), xp.broadcast_to(keys, batch)
    seen = xp.cumsum(keys[..., :, None] * keys[..., None, :], axis=-3)
    seen = seen + ridge * xp.eye(keys.shape[-1], dtype=keys.dtype)
    read = xp.linalg.solve(seen, queries[..., None])[..., 0]
    return xp.tril(read @ xp.swapaxes(keys, -1, -2)) @ values


def softmax_attention(queries, keys, values, *, scale):
    """Causal softmax attention = an exemplar model with exponential generalisation.

    o_t = sum_{s<=t} softmax_s(scale q_t k_s) v_s (Vaswani et al. 2017, eq. 1, there scale =
    K^-1/2; Nadaraya 1964): outputs (..., T, D). Time and memory T^2.
    """
    xp, queries, keys, values, _ = _tokens(queries, keys, values, None)
    scores = scale * (queries @ xp.swapaxes(keys, -1, -2))
    token = xp.arange(keys.shape[-2])
    scores = xp.where(token[:, None] >= token, scores, -xp.inf)
    weights = xp.exp(scores - xp.max(scores, axis=-1, keepdims=True))
    return (weights / xp.sum(weights, axis=-1, keepdims=True)) @ values


def conditioning_circuit(queries, keys, values, *, cue_activation=None, outcome_activation=None,
                         test_activation=None):
    """Pavlov's circuit: CS, US and test neurons with activations; responses (..., T, D).

    W <- W + f(k_t) g(v_t)^T, response_t = h(q_t)^T W (arXiv 2508.08289, first version), f, g, h =
    cue_, outcome_ and test_activation, functions of an array (None: the identity; for the test:
    the same as the cue's). It is linear attention if g is the identity and f = h is linear; with
    another f = h it is linear attention over the features f(k), f(q); with a g that is not linear
    it is not linear in the values, and no linear attention over them equals it.
    """
    xp, queries, keys, values, _ = _tokens(queries, keys, values, None)
    f = cue_activation or (lambda cue: cue)
    g, h = outcome_activation or (lambda outcome: outcome), test_activation or f
    cs, us, test = f(keys), g(values), h(queries)
    association, responses = 0, xp.empty(us.shape, dtype=us.dtype)
    for t in range(keys.shape[-2]):
        association = association + cs[..., t, :, None] * us[..., t, None, :]
        responses[..., t, :] = xp.sum(test[..., t, :, None] * association, axis=-2)
    return responses


# -------------------------------------------------------------------------------------- designs


class TrialType(NamedTuple):
    """`count` trials of the compound `cues` ("": an empty trial); outcome "+", "++", "-" or "?"."""

    count: int
    cues: str
    outcome: str

    def __str__(self):
        return f"{self.cues or '_'}{self.outcome if self.cues else ''}"


class Design(NamedTuple):
    """A conditioning design: its text, its cue names, and its phases of trial types."""

    text: str
    cues: tuple
    phases: tuple


class TrialArrays(NamedTuple):
    """cues (..., T, K), outcomes (..., T, 1), test (..., T), ready for `learn` and `attention`."""

    cues: np.ndarray
    outcomes: np.ndarray
    test: np.ndarray


_TRIAL = re.compile(r"\s*(?P<count>\d*)\s*(?:(?P<empty>_)|(?P<cues>[A-Z](?:\s*[A-Z])*)\s*"
                    r"(?P<outcome>\+\+|[+\-\u2212?])\s*(?:(?P<percent>\d+)\s*%)?)\s*")
_TRIAL_START = re.compile(r"\s*\d*\s*(?:[A-Z]\s*)*")


def parse_design(text):
    """Design of a text such as "10A+/10AB- | 5B+ | AB?", the notation of conditioning simulators.

    "|" separates phases, "/" the trial types that a phase mixes; a number repeats a trial; capital
    letters are cues, several are a compound; "+" the outcome occurs ("++" the larger one), "-" it
    is omitted, "?" a test without learning; "20_" 20 empty trials; "20A+50%" reinforces half of
    the 20, the rest are omissions. ValueError shows the place of anything else.
    """
    phases, place = [], 0
    for phase in text.split("|"):
        trials, end = [], place + len(phase)
        while True:
            match = _TRIAL.match(text, place, end)
            if not match:
                understood = _TRIAL_START.match(text, place, end).end()
                raise _design_error(text, understood, "expected a trial such as 10AB+, A-, B?, 20_")
            trials += _trial_types(match, text)
            if match.end() == end:
                break
            if text[match.end()] != "/":
                raise _design_error(text, match.end(), "expected / or | or the end after a trial")
            place = match.end() + 1
        phases.append(tuple(trials))
        place = end + 1
    names = sorted({cue for phase in phases for trial in phase for cue in trial.cues})
    return Design(text, tuple(names), tuple(phases))


def _design_error(text, place, expected):
    place += len(text[place:]) - len(text[place:].lstrip())
    return ValueError(f"design {text!r}, character {place + 1}: {expected}; "
                      f"here: {text[:place]}>>>{text[place:]}")


def _trial_types(match, text):
    count = int(match["count"] or 1)
    cues = re.sub(r"\s", "", match["cues"] or "")
    outcome = (match["outcome"] or "-").replace("\u2212", "-")
    reinforced = count * int(match["percent"] or 100)
    if count < 1:
        raise _design_error(text, match.start(), "a trial must occur at least once")
    if len(set(cues)) < len(cues):
        raise _design_error(text, match.start("cues"), "a cue occurs once in a compound")
    if reinforced % 100 or reinforced > 100 * count or (match["percent"] and "+" not in outcome):
        raise _design_error(text, match.start("percent"),
                            "a percentage must make a whole number of reinforced trials")
    split = (TrialType(reinforced // 100, cues, outcome),
             TrialType(count - reinforced // 100, cues, "-"))
    return [trial for trial in split if trial.count]


def trial_sequence(design, *, rng=None):
    """The trials of a design one by one, as a list of phases of `TrialType`.

    Mixed types of a phase alternate, unequal counts spread evenly; with a numpy Generator they
    are shuffled within the phase.
    """
    sequence = []
    for phase in design.phases:
        places = [((i + 0.5) / trial.count, kind, trial._replace(count=1))
                  for kind, trial in enumerate(phase) for i in range(trial.count)]
        order = np.arange(len(places)) if rng is None else rng.permutation(len(places))
        sequence.append([sorted(places)[i][-1] for i in order])
    return sequence


def cue_features(cues, *, saliences=None, similarity=None):
    """Feature vectors of cues (K, K), one a row: length sqrt(salience), given cosines between them.

    saliences {"A": 0.5} (default 1 each), similarity {"AB": 0.3} (default 0: one-hot rows).
    ValueError for unknown cues, saliences that are not positive, cosines that no vectors have.
    """
    saliences, similarity = saliences or {}, similarity or {}
    unknown = sorted(set("".join([*saliences, *similarity])) - set(cues))
    if unknown or any(len(set(pair)) != 2 for pair in similarity):
        raise ValueError(f"saliences and similarity must name the design's cues {''.join(cues)} "
                         f"(similarity: two of them), got {[*saliences, *similarity]}")
    if any(not salience > 0 for salience in saliences.values()):
        raise ValueError(f"saliences must be above 0, got {saliences}")
    cosines, place = np.eye(len(cues)), {cue: i for i, cue in enumerate(cues)}
    for (first, second), cosine in similarity.items():
        cosines[place[first], place[second]] = cosines[place[second], place[first]] = cosine
    try:
        directions = np.linalg.cholesky(cosines)
    except np.linalg.LinAlgError:
        raise ValueError(f"similarity must be cosines of linearly independent vectors, got "
                         f"{similarity}") from None
    return directions * np.sqrt([saliences.get(cue, 1.0) for cue in cues])[:, None]


def design_arrays(design, *, cues=None, us=(1.0, 2.0), saliences=None, similarity=None,
                  compound="sum", order="alternate", orders=1, seed=0):
    """TrialArrays of a design (a text or a `Design`).

    cues: the names in the order of their features (None: the design's own, sorted), so that two
    groups share one coding. us: sizes of "+" and "++". saliences, similarity: see `cue_features`.
    compound: "sum" of the elements' features, or "normalised", every stimulus scaled to length 1 as
    by an attention layer with normalised keys, which takes the salience off a single cue.
    order: "alternate": arrays (T, .); "random": `orders` seeded orders, (orders, T, .); "mirrored":
    each random order and its mirror, in which "+" and "-" change places in the mixed phases,
    (orders, 2, T, .): for designs that mirroring leaves the same, such as A+/A-.
    ValueError for any other choice, or for a design that has no mirror.
    """
    design = parse_design(design) if isinstance(design, str) else design
    names = design.cues if cues is None else tuple(cues)
    if order not in ("alternate", "random", "mirrored") or compound not in ("sum", "normalised"):
        raise ValueError(f"order must be alternate, random or mirrored and compound sum or "
                         f"normalised, got {order!r} and {compound!r}")
    if set(design.cues) - set(names):
        raise ValueError(f"cues {names} must contain the design's cues {design.cues}")
    rows = cue_features(names, saliences=saliences, similarity=similarity)
    if order == "alternate":
        return _sequence_arrays(trial_sequence(design), names, rows, us, compound)
    drawn = [trial_sequence(design, rng=np.random.default_rng([seed, i])) for i in range(orders)]
    arrays = [[_sequence_arrays(version, names, rows, us, compound)
               for version in ([sequence] if order == "random" else [sequence, _mirror(sequence)])]
              for sequence in drawn]
    stacked = [np.array([[getattr(version, field) for version in versions] for versions in arrays])
               for field in TrialArrays._fields]
    return TrialArrays(*(field[:, 0] if order == "random" else field for field in stacked))


def _mirror(sequence):
    """The sequence with "+" and "-" exchanged in the phases that mix them."""
    mirrored = []
    for phase in sequence:
        kinds = [trial.outcome for trial in phase if trial.cues]
        if len(set(phase)) > 1 and (kinds.count("+") != kinds.count("-") or set(kinds) - {*"+-"}):
            raise ValueError("a mixed phase has a mirror only with as many + as - trials and no "
                             "other outcome")
        swap = {"+": "-", "-": "+"} if len(set(phase)) > 1 else {}
        mirrored.append([trial._replace(outcome=swap.get(trial.outcome, trial.outcome))
                         if trial.cues else trial for trial in phase])
    return mirrored


def _sequence_arrays(sequence, names, rows, us, compound):
    trials = list(itertools.chain(*sequence))
    present = np.array([[name in trial.cues for name in names] for trial in trials], dtype=float)
    cues = present.reshape(len(trials), len(names)) @ rows
    if compound == "normalised":
        length = np.sqrt(np.sum(cues**2, axis=-1, keepdims=True))
        cues = cues / np.where(length > 0, length, 1)
    size = {"+": us[0], "++": us[1], "-": 0.0, "?": 0.0}
    outcomes = np.array([[size[trial.outcome]] for trial in trials], dtype=float)
    return TrialArrays(cues, outcomes, np.array([trial.outcome == "?" for trial in trials]))


# --------------------------------------------------------------------------------- closed forms
#
# Strengths under Rescorla-Wagner from 0, after n trials (n may be an array); lam is lambda, the
# asymptote; alpha a salience, so that alpha beta is the rate of a single cue.


def acquisition_strength(*, alpha, beta, n, lam=1.0):
    """lam [1 - (1 - alpha beta)^n] (Bush & Mosteller 1951; Rescorla & Wagner 1972, one cue)."""
    return lam * (1 - (1 - alpha * beta) ** np.asarray(n))


def extinction_strength(*, V_0, alpha, beta, n):
    """V_0 (1 - alpha beta)^n: strength V_0 after n omissions."""
    return V_0 * (1 - alpha * beta) ** np.asarray(n)


def compound_strength(*, alphas, beta, n, V_0=0.0, lam=1.0):
    """Strengths (..., K) of K cues after n trials of their compound, from strengths V_0.

    V_i + alpha_i / sum alpha (lam - sum V) [1 - (1 - sum alpha beta)^n]: overshadowing from V_0 =
    0, blocking where one cue is trained, overexpectation where sum V > lam (the loss is shared in
    proportion to the saliences). alphas (K,); n (...); sum alpha beta in (0, 2).
    """
    alphas, n = np.asarray(alphas, dtype=float), np.asarray(n)[..., None]
    total, V_0 = np.sum(alphas), V_0 + np.zeros(alphas.shape)
    return V_0 + alphas / total * (lam - np.sum(V_0)) * (1 - (1 - total * beta) ** n)


def blocking_strength(*, a, c, x, beta, m, n, lam=1.0):
    """Response to x after m trials of cue a, then n of compound c (Kamin 1968), vectors (..., K).

    V_A = lam [1 - (1 - beta a.a)^m], and
    V_X = (x.a / a.a) V_A + (x.c / c.c) (lam - (c.a / a.a) V_A) [1 - (1 - beta c.c)^n]:
    any salience, similarity and scaling of the compound. One-hot cues: compound_strength.
    """
    aa, ca, cc, xa, xc = (np.sum(np.multiply(*pair), axis=-1)
                          for pair in ((a, a), (c, a), (c, c), (x, a), (x, c)))
    V_A = acquisition_strength(alpha=aa, beta=beta, n=m, lam=lam)
    learned = acquisition_strength(alpha=cc, beta=beta, n=n, lam=lam - ca / aa * V_A)
    return xa / aa * V_A + xc / cc * learned


def equilibrium_strength(cues, outcomes):
    """Strengths (K, D) at which Rescorla-Wagner rests on average: E[x x^T] V = E[x lambda].

    cues (T, K), outcomes (T, D): the trials of one cycle. Partial reinforcement, contingency
    (delta P with a context cue), conditioned inhibition. Where it is singular, the solution of
    least norm, which is where learning from 0 ends.
    """
    return np.linalg.pinv(cues.T @ cues) @ (cues.T @ outcomes)


def contingency_strength(*, p_cue, p_no_cue, lam=1.0):
    """lam (P(US | cue) - P(US | no cue)), delta P: asymptote beside a context (Rescorla 1968)."""
    return lam * (p_cue - p_no_cue)


def retained_response(response, decay):
    """Response to a cue after retention trials orthogonal to it: response times each trial's decay.

    With a scalar decay in [0, 1] (..., T) and a scalar rate it cannot grow: no spontaneous
    recovery. A rate or a decay per feature is not covered.
    """
    return response * np.prod(decay, axis=-1)


def minibatch_blocking(*, beta, m, batch_size):
    """Blocked / control at the error frozen for B trials, rate beta / B: (1 - beta)^(m / B).

    m trials of A+ (m a multiple of B) before AX+; B = 1 is Rescorla-Wagner, B = m and more Hebb.
    """
    return (1 - beta) ** (m / batch_size)


# ------------------------------------------------------------------------------------- gradients
#
# Of any loss L of the outputs and the last state, given d_outputs = dL/d outputs. d_x is dL/dx and
# has the shape of x. Checked against finite differences; a framework's backward pass can be too.


class AttentionGradients(NamedTuple):
    """dL/d argument for each argument of `attention`, in that argument's own shape."""

    queries: Any
    keys: Any
    values: Any
    beta: Any
    decay: Any
    state: Any


class PHAttentionGradients(NamedTuple):
    """dL/d argument for each argument of `ph_attention`; `state` is that of the memory's start."""

    queries: Any
    keys: Any
    values: Any
    beta: Any
    eta: Any
    associability: Any
    state: Any


def unit_lower_inverse(strict):
    """(I + N)^-1 for N (..., T, T) strictly lower, by forward substitution as `unit_lower_solve`.

    Row t of the inverse is row t of I - N (I + N)^-1, and only the columns before t are not 0.
    """
    xp = array_module(strict)
    inverse = xp.zeros_like(strict) + xp.eye(strict.shape[-1], dtype=strict.dtype)
    for t in range(1, strict.shape[-1]):
        inverse[..., t:t + 1, :t] = -strict[..., t:t + 1, :t] @ inverse[..., :t, :t]
    return inverse


def attention_gradients(queries, keys, values, d_outputs, *, beta=1.0, decay=1.0,
                        error_correcting=False, state=None, d_state=None):
    """Gradients of a loss through `attention`, in parallel over the tokens: AttentionGradients.

    Forward (`_parallel`), with rows of queries Q, keys K, writes Y = beta K, values V, start W_0;
    D_ts = the product of the decays after token s up to t (0 for s > t), G_t that of all up to t;
    c = 1 for error correction, else 0:
        N = c stril(D * K Y^T),  R = V - c (G K) W_0,  E = (I + N)^-1 R,  B = D * Q Y^T,
        O = (G Q) W_0 + B E,     W_T = G_T W_0 + (D_T * Y)^T E.
    Backward, given dO = d_outputs and dW_T = d_state (None: 0); * is elementwise, M the mask
    t > s, and D_T (the last row of D), G and beta scale rows:
        dE = B^T dO + (D_T Y) dW_T        dR = (I + N)^-T dE        dB = dO E^T
        dA = -c M * (dR E^T)              (dN = D * dA: A is K Y^T)
        dV = dR                           dQ = (D * dB) Y + G (dO W_0^T)
        dY = (D * dB)^T Q + (D * dA)^T K + D_T (E dW_T^T)
        dK = (D * dA) Y - c G (dR W_0^T) + beta dY              dbeta_s = dY_s . K_s
        dW_0 = (G Q)^T dO - c (G K)^T dR + G_T dW_T
        dD = dB * Q Y^T + dA * K Y^T,     its last row also + Y_s . (E_s dW_T^T)
        dG_t = Q_t . (dO_t W_0^T) - c K_t . (dR_t W_0^T),       dG_T also + sum(dW_T * W_0)
        ddecay_r = sum_{t >= r > s} D_tr dD_ts D_{r-1,s} + sum_{t >= r} D_tr dG_t G_{r-1}
    (G_{-1} = 1). The last line splits each product at r instead of dividing by the decay, so it
    is exact where a decay is 0. Derived from the equations above; no source prints them. The UT
    transform that they differentiate is that of Yang et al. 2024, sec. 3.2.

    queries, keys (..., T, K); values, d_outputs (..., T, D); state, d_state (..., K, D); beta a
    number, one a token or one a token and feature; decay a number or one a token. A plain number
    is a constant, its gradient None. An argument that is broadcast gets the sum over the places
    it went to; a state of None is one of (K, D). Time and memory T^2 (T^3 for the decay), T > 0.
    ValueError for a decay per feature.
    """
    xp, queries, keys, values, state = _tokens(queries, keys, values, state)
    if getattr(decay, "ndim", 0) == keys.ndim:
        raise ValueError(f"decay must be a number or one a token (..., T) for these gradients, "
                         f"got shape {decay.shape} for keys {keys.shape}")
    shapes = [getattr(a, "shape", None) for a in (queries, keys, values, beta, decay, state)]
    rate, per_token = per_feature("beta", beta, keys), _decay_array(decay, keys)
    writes, G, D = rate * keys, xp.cumprod(per_token, axis=-2), decay_between(per_token)[..., 0]
    D_below, to_end = xp.tril(D, -1), D[..., -1, :, None]
    key_write, query_write = (rows @ _transposed(writes) for rows in (keys, queries))
    d_state = xp.zeros_like(state) if d_state is None else d_state
    errors = values
    if error_correcting:
        inverse = unit_lower_inverse(D_below * key_write)
        errors = inverse @ (values - (G * keys) @ state)
    d_errors = _transposed(D * query_write) @ d_outputs + (to_end * writes) @ d_state
    d_values = _transposed(inverse) @ d_errors if error_correcting else d_errors
    d_predictions = -error_correcting * d_values

    d_query_scores, d_key_scores = (d @ _transposed(errors) for d in (d_outputs, d_predictions))
    d_query_write, d_key_write = D * d_query_scores, D_below * d_key_scores
    d_query_start, d_key_start = (d @ _transposed(state) for d in (d_outputs, d_predictions))
    d_write_end = errors @ _transposed(d_state)
    d_queries = d_query_write @ writes + G * d_query_start
    d_writes = (_transposed(d_query_write) @ queries + _transposed(d_key_write) @ keys
                + to_end * d_write_end)
    d_keys = d_key_write @ writes + G * d_key_start + rate * d_writes
    d_start = (_transposed(G * queries) @ d_outputs + _transposed(G * keys) @ d_predictions
               + G[..., -1:, :] * d_state)
    d_beta = d_decay = None
    if shapes[3] is not None:
        d_beta = keys * d_writes
        d_beta = xp.sum(d_beta, axis=-1) if beta.ndim == keys.ndim - 1 else d_beta
    if shapes[4] is not None:
        d_D = d_query_scores * query_write + d_key_scores * key_write
        d_D[..., -1, :] += xp.sum(writes * d_write_end, axis=-1)
        d_G = xp.sum(queries * d_query_start + keys * d_key_start, axis=-1)
        d_G[..., -1] += xp.sum(d_state * state, axis=(-2, -1))
        D_before = xp.concatenate([xp.zeros_like(D[..., :1, :]), D[..., :-1, :]], axis=-2)
        G_before = xp.concatenate([xp.ones_like(G[..., :1, :]), G[..., :-1, :]], axis=-2)
        d_decay = xp.sum((_transposed(D) @ d_D) * D_before, axis=-1)
        d_decay = d_decay + (_transposed(D) @ d_G[..., None] * G_before)[..., 0]
    found = (d_queries, d_keys, d_values, d_beta, d_decay, d_start)
    return AttentionGradients(*map(_summed_to, found, shapes))


def ph_attention_gradients(queries, keys, values, d_outputs, *, beta, eta, associability=1.0,
                           bounds=(0.0, 1.0), state=None):
    """Gradients of a loss of the outputs through `ph_attention`: PHAttentionGradients.

    Forward (`_ph_rows`), with rows of queries Q, keys K, values V, start W_0, alpha_t before token
    t, Y = beta alpha K elementwise, E = V - K W_0 - stril(K Y^T) E, O = Q W_0 + tril(Q Y^T) E.
    Backward, given dO = d_outputs, for the tokens s from the last to the first; da is the gradient
    of the associability after token s (0 after the last), da' is da where the clip did not act
    and where k_s is 0 (alpha is kept there), else 0:
        dR_s = (tril(Q Y^T)^T dO)_s - sum_{t>s} (k_t . Y_s) dR_t + (eta k_s^2 . da') E_s / |E_s|
        dY_s = (tril(dO E^T)^T Q)_s - sum_{t>s} (dR_t . E_s) k_t
        da <- beta k_s * dY_s + (1 - eta k_s^2) * da'
    then for all tokens at once, * elementwise:
        dV = dR            dQ = tril(dO E^T) Y + dO W_0^T           dW_0 = Q^T dO - K^T dR
        dK = beta alpha * dY - stril(dR E^T) Y - dR W_0^T + 2 eta K (|E| - alpha) * da'
        dbeta = alpha K * dY                                 deta = K^2 (|E| - alpha) * da'
    |E| has a kink at 0, where the subgradient used is 0 (E / |E| is 0 there); the clip's kinks
    count as clipped. Arguments and shapes as in `ph_attention`, gradients as in
    `attention_gradients`; where `state` is given, `associability` is the one in it.
    """
    xp, queries, keys, values, memory = _tokens(
        queries, keys, values, None if state is None else state.memory)
    associability = associability if state is None else state.associability
    shapes = [getattr(a, "shape", None)
              for a in (queries, keys, values, beta, eta, associability, memory)]
    given_beta, given_eta, tokens_axes = beta, eta, keys.ndim - 1
    queries, keys, values, beta, eta, memory, alpha = _ph_tokens(
        queries, keys, values, beta, eta, associability, state)
    errors, alphas = _ph_errors(keys, values, beta, eta, memory, alpha, bounds)
    alphas, rise = alphas[..., :-1, :], eta * keys**2
    sizes = xp.linalg.norm(errors, axis=-1)[..., None]
    moved = (1 - rise) * alphas + rise * sizes
    free = (keys == 0) | ((moved > bounds[0]) & (moved < bounds[1]))
    directions, writes = errors / xp.where(sizes > 0, sizes, 1), beta * alphas * keys

    d_query_write = xp.tril(d_outputs @ _transposed(errors))
    d_errors = _transposed(xp.tril(queries @ _transposed(writes))) @ d_outputs
    d_writes, key_write = _transposed(d_query_write) @ queries, keys @ _transposed(writes)
    d_moved, d_alpha = xp.empty_like(keys), xp.zeros_like(keys[..., :1, :])
    for s in reversed(range(keys.shape[-2])):
        row, later = (..., slice(s, s + 1), slice(None)), (..., slice(s + 1, None), slice(None))
        d_moved[row] = d_alpha * free[row]
        d_errors[row] += (xp.sum(rise[row] * d_moved[row], axis=-1, keepdims=True) * directions[row]
                          - _transposed(key_write[..., s + 1:, s:s + 1]) @ d_errors[later])
        d_writes[row] -= errors[row] @ _transposed(d_errors[later]) @ keys[later]
        d_alpha = beta[row] * keys[row] * d_writes[row] + (1 - rise[row]) * d_moved[row]

    surprise = (sizes - alphas) * d_moved
    d_queries = d_query_write @ writes + d_outputs @ _transposed(memory)
    d_keys = (beta * alphas * d_writes + 2 * eta * keys * surprise
              - xp.tril(d_errors @ _transposed(errors), -1) @ writes
              - d_errors @ _transposed(memory))
    d_memory = _transposed(queries) @ d_outputs - _transposed(keys) @ d_errors
    d_rates = [xp.sum(d, axis=-1) if getattr(rate, "ndim", 0) == tokens_axes else d
               for rate, d in ((given_beta, alphas * keys * d_writes),
                               (given_eta, keys**2 * surprise))]
    found = (d_queries, d_keys, d_errors, *d_rates, d_alpha[..., 0, :], d_memory)
    return PHAttentionGradients(*map(_summed_to, found, shapes))


def _transposed(matrix):
    return array_module(matrix).swapaxes(matrix, -1, -2)


def _summed_to(gradient, shape):
    """The gradient of an argument of this shape that was broadcast; None for a plain number."""
    if shape is None:
        return None
    extra = gradient.ndim - len(shape)
    axes = tuple(range(extra)) + tuple(extra + i for i, size in enumerate(shape) if size == 1)
    return array_module(gradient).sum(gradient, axis=axes, keepdims=True).reshape(shape)
