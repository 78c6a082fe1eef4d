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

from rules import (
    AssociabilityState,
    array_module,
    batch_shape,
    common_arrays,
    like,
    limits,
    per_feature,
    per_trial,
)

# ---------------------------------------------------------------------------- attention, 3 forms


def attention(queries, keys, values, *, beta=1.0, decay=1.0, error_correcting=False, state=None,
              form="chunkwise", chunk=16):
    """The equation above over all tokens: (outputs (..., T, D), state (..., K, D)).

    queries, keys (..., T, K); values (..., T, D); state (..., K, D) to start from, None for 0.
    beta and decay: numbers, or one value a token (one axis fewer than the keys), or one a token
    and feature (as many axes). form: "recurrent" (the loop over tokens), "parallel" (all tokens in
    one triangular solve, time and memory T^2), "chunkwise" (parallel within `chunk` tokens,
    recurrent between chunks: linear in T). All three agree for finite numbers (the matrix forms
    multiply later tokens by 0, so that a NaN or an infinity there reaches earlier outputs).
    Sources: Katharopoulos et al. 2020; Sun et al. 2023; Yang et al. 2023 (GLA); Schlag et al. 2021
    and Yang et al. 2024 (DeltaNet); Yang et al. 2025 (Gated DeltaNet: first the decay, then the
    error). Departure: no scale on the queries (many libraries hide K^-1/2).
    ValueError for shapes that do not match, an unknown form or a chunk below 1.
    """
    if form not in ("recurrent", "parallel", "chunkwise"):
        raise ValueError(f"form must be recurrent, parallel or chunkwise, got {form!r}")
    if isinstance(chunk, bool) or not hasattr(chunk, "__index__") or chunk < 1:
        raise ValueError(f"chunk must be a whole number of tokens, at least 1, got {chunk!r}")
    xp, queries, keys, values, state = _tokens(queries, keys, values, state)
    fades = not (isinstance(decay, int | float) and decay == 1)
    beta, decay = per_trial("beta", beta, keys), _decay_array(decay, keys)
    batch = batch_shape(queries=queries, keys=keys, values=values, state=state, beta=beta,
                        decay=decay)
    state = xp.array(xp.broadcast_to(state, batch + state.shape[-2:]), order="C")
    if form == "chunkwise" and decay.shape[-1] == 1:
        return _chunkwise(queries, keys, values, beta, decay if fades else None, error_correcting,
                          state, int(chunk))
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
    return per_trial("decay", decay, keys) * ones


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
    beta, decay = per_trial("beta", beta, cues), _decay_array(decay, cues)
    batch = batch_shape(cues=cues, outcomes=outcomes, state=state, beta=beta, decay=decay)
    targets = outcomes - (xp.cumprod(decay, axis=-2) * cues) @ state
    strict = xp.tril(_scores(cues, beta * cues, decay_between(decay)), -1)
    return unit_lower_solve(strict, xp.broadcast_to(targets, batch + targets.shape[-2:]))


def frozen(test, **rates):
    """The rates of an attention layer in which the test trials (..., T) change nothing.

    A token with beta 0, eta 0 and decay 1 is only read: its output is the response to a test
    stimulus. rates: any of beta, eta, decay, as numbers, one value a trial (as many axes as test)
    or one a trial and feature (one more); the same names come back as arrays. `test` has all the
    batch axes of the keys. TypeError for another name, ValueError for another number of axes.
    """
    xp = array_module(test, *rates.values())
    test, held = xp.asarray(test), {}
    for name, rate in rates.items():
        rate = xp.asarray(rate)
        if name not in ("beta", "eta", "decay"):
            raise TypeError(f"frozen takes beta, eta and decay, got {name}")
        if rate.ndim and rate.ndim - test.ndim not in (0, 1):
            raise ValueError(f"{name} must be a number or have {test.ndim} or {test.ndim + 1} axes "
                             f"for test of shape {test.shape}, got shape {rate.shape}")
        mask = test[..., None] if rate.ndim > test.ndim else test
        held[name] = xp.where(mask, 1.0 if name == "decay" else 0.0, rate)
    return held


# --------------------------------------------------------------- the chunkwise form, made fast

SEGMENT = 256  # tokens whose matrices are made together: worth a call, yet few for the cache


def _chunkwise(queries, keys, values, beta, decay, error_correcting, state, chunk):
    """`_parallel` inside each chunk and the recurrence between chunks, in few dense products.

    S is the memory that enters a chunk of C tokens, g_t the product of its decays up to t, B_ts of
    those after s up to t (0 for s > t). With one beta a token, `_parallel` says of the chunk

        A = (K K^T * B) diag(beta),   A' = (Q K^T * B) diag(beta),   U = (I + stril A)^-1,
        E = U (V - g*K S),   O = g*Q S + A' E,   S_next = g_C S + (beta*B_C*K)^T E.

    What does not wait for S is made for SEGMENT tokens at once: [K; Q] K^T in one product, U by
    `unit_lower_inverse`, and M = [diag(beta*B_C) U; A' U]. Then come, chunk after chunk,

        P = g*[K; Q] S,  Y = M (V - P_top),  O = P_bottom + Y_bottom,  S_next = g_C S + K^T Y_top.

    Without error correction U = I, and P_top is left out. One beta a feature moves into the keys of
    the writes. decay (..., T, 1), or None where nothing decays; state (..., K, D) is the caller's
    copy and changed in place. Tokens left over at the end are a chunk of their own. Time and memory
    are linear in T.
    """
    xp, T, writes = array_module(keys), keys.shape[-2], keys
    if beta.shape[-1] > 1:
        writes, beta = beta * keys, xp.ones((1, 1), dtype=keys.dtype)
    shape = np.broadcast_shapes(queries.shape, keys.shape)
    queries, keys = xp.broadcast_to(queries, shape), xp.broadcast_to(keys, shape)
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
        weights = weights * (beta[..., None, :, :] if beta.shape[-2] == 1 else
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
    version; associability of Pearce & Hall 1980, a running average as in Pearce, Kaye & Hall 1982).
    Unlike a gate computed from the token, alpha depends on the errors that the feature has met.
    Returns (outputs (..., T, D),
    AssociabilityState). `associability` starts it where `state` (an AssociabilityState) is None.
    form: "recurrent", or "parallel": row by row through the triangular system of the errors,
    without a state matrix. ValueError for shapes that do not match or an unknown form.
    """
    if form not in ("recurrent", "parallel"):
        raise ValueError(f"form must be recurrent or parallel, got {form!r}")
    run = _ph_recurrent if form == "recurrent" else _ph_rows
    return run(*_ph_tokens(queries, keys, values, beta, eta, associability, state), limits(bounds))


def _ph_tokens(queries, keys, values, beta, eta, associability, state):
    """queries, keys, values, beta, eta, memory, associability, all with the whole batch shape."""
    if state is not None and not isinstance(state, AssociabilityState):
        raise TypeError(f"state must be an AssociabilityState, got {type(state).__name__}")
    memory = None if state is None else state.memory
    xp, queries, keys, values, memory = _tokens(queries, keys, values, memory)
    alpha = associability if state is None else state.associability
    alpha = like("associability", alpha, keys)
    alpha = alpha if alpha.ndim else alpha.reshape((1,))
    if alpha.shape[-1] not in (1, keys.shape[-1]):
        raise ValueError(f"associability must be a number or an array (..., K) for keys of shape "
                         f"{keys.shape}, got shape {alpha.shape}")
    beta, eta = (per_trial(name, rate, keys) for name, rate in (("beta", beta), ("eta", eta)))
    batch = batch_shape(queries=queries, keys=keys, values=values, state=memory, beta=beta, eta=eta,
                        associability=alpha[..., None])
    queries, keys, values, beta, eta = (
        xp.broadcast_to(a, batch + (keys.shape[-2], a.shape[-1]))
        for a in (queries, keys, values, beta, eta))
    memory = xp.array(xp.broadcast_to(memory, batch + memory.shape[-2:]))
    alpha = xp.array(xp.broadcast_to(alpha, batch + keys.shape[-1:]))
    return queries, keys, values, beta, eta, memory, alpha


def _next_associability(alpha, key, eta, error, bounds):
    """(1 - eta k^2) alpha + eta k^2 |E| within the bounds, where eta k^2 is not 0."""
    xp, speed = array_module(key), eta * key**2
    moved = (1 - speed) * alpha + speed * xp.linalg.norm(error, axis=-1)[..., None]
    return xp.where(speed == 0, alpha, xp.minimum(xp.maximum(moved, bounds[0]), bounds[1]))


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
    and 2025), ridge = noise / prior, a number above 0. Departures: solved exactly, no gates.
    Causal; time K^3 T. ValueError for shapes that do not match or a ridge that is an array.
    """
    xp, queries, keys, values, _ = _tokens(queries, keys, values, None)
    batch = batch_shape(queries=queries, keys=keys, values=values) + keys.shape[-2:]
    queries, keys = xp.broadcast_to(queries, batch), xp.broadcast_to(keys, batch)
    ridge = like("ridge", ridge, keys)
    if ridge.ndim:
        raise ValueError(f"ridge must be one number, got shape {ridge.shape}")
    seen = xp.cumsum(keys[..., :, None] * keys[..., None, :], axis=-3)
    seen = seen + ridge * xp.eye(keys.shape[-1], dtype=keys.dtype)
    read = xp.linalg.solve(seen, queries[..., None])[..., 0]
    return xp.tril(read @ xp.swapaxes(keys, -1, -2)) @ values


def softmax_attention(queries, keys, values, *, scale):
    """Causal softmax attention = an exemplar model (Gaussian generalisation for unit keys).

    o_t = sum_{s<=t} softmax_s(scale q_t k_s) v_s (Vaswani et al. 2017, eq. 1, there scale =
    K^-1/2; Nadaraya 1964): outputs (..., T, D). Time and memory T^2.
    """
    xp, queries, keys, values, _ = _tokens(queries, keys, values, None)
    batch_shape(queries=queries, keys=keys, values=values)
    if keys.shape[-2] == 0:
        return queries @ xp.swapaxes(keys, -1, -2) @ values
    scores = like("scale", scale, keys) * (queries @ xp.swapaxes(keys, -1, -2))
    token = xp.arange(keys.shape[-2])
    scores = xp.where(token[:, None] >= token, scores, -xp.inf)
    weights = xp.exp(scores - xp.max(scores, axis=-1, keepdims=True))
    return (weights / xp.sum(weights, axis=-1, keepdims=True)) @ values


def conditioning_circuit(queries, keys, values, *, cue_activation=None, outcome_activation=None,
                         test_activation=None):
    """The conditioning circuit: CS, US and test neurons with activations; responses (..., T, D).

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
    batch = batch_shape(queries=test, keys=cs, values=us)
    association, responses = 0, [xp.zeros(batch + (0, us.shape[-1]), dtype=values.dtype)]
    for t in range(keys.shape[-2]):
        association = association + cs[..., t, :, None] * us[..., t, None, :]
        responses.append(xp.sum(test[..., t, :, None] * association, axis=-2)[..., None, :])
    return xp.concatenate(responses, axis=-2)


# -------------------------------------------------------------------------------------- designs


class TrialType(NamedTuple):
    """`count` trials of the compound `cues` ("": an empty trial); outcome "+", "++", "-" or "?".

    ">" in the cues separates the steps of a serial compound, "_" is an empty step (see
    `time_steps`).
    """

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


MOST_TRIALS = 10**6  # of one type in a phase: more is a slip of the finger
_COMPOUND = r"[A-Z](?:\s*[A-Z])*"
_TRIAL = re.compile(r"\s*(?P<count>\d{0,9})\s*(?:(?P<empty>_)|"
                    rf"(?P<cues>{_COMPOUND}(?:\s*>\s*(?:_|{_COMPOUND}))*)\s*"
                    r"(?P<outcome>\+\+|[+\-\u2212\u2013?])\s*(?:(?P<percent>\d+)\s*%)?)\s*")
_TRIAL_START = re.compile(rf"\s*\d*\s*(?:{_COMPOUND}(?:\s*>\s*(?:_|{_COMPOUND}))*\s*>?)?\s*")


def parse_design(text):
    """Design of a text such as "10A+/10AB- | 5B+ | AB?", the notation of conditioning simulators.

    "|" separates phases, "/" the trial types that a phase mixes; a number repeats a trial; capital
    letters are cues, several are a compound; "+" the outcome occurs ("++" the larger one), "-" it
    is omitted, "?" a test without learning; "20_" 20 empty trials; "20A+50%" reinforces half of
    the 20, the rest are omissions; "B>A-" is a serial compound, B and then A, "A>_>_+" A and an
    empty gap before the outcome. ValueError shows the place of anything else.
    """
    if not isinstance(text, str):
        raise TypeError(f"a design must be a text, got {type(text).__name__}")
    phases, place = [], 0
    for phase in text.split("|"):
        trials, end = [], place + len(phase)
        while True:
            match = _TRIAL.match(text, place, end)
            if not match:
                understood = _TRIAL_START.match(text, place, end).end()
                hint = " (a US alone: give the context a letter, 20K+)" if text[understood:] \
                    .startswith("+") else ""
                raise _design_error(text, understood,
                                    "expected a trial such as 10AB+, A-, B?, 20_" + hint)
            trials += _trial_types(match, text)
            if match.end() == end:
                break
            if text[match.end()] != "/":
                raise _design_error(text, match.end(), "expected / or | or the end after a trial")
            place = match.end() + 1
        phases.append(tuple(trials))
        place = end + 1
    names = sorted({cue for phase in phases for trial in phase for cue in trial.cues
                    if cue.isalpha()})
    return Design(text, tuple(names), tuple(phases))


def _design_error(text, place, expected):
    place += len(text[place:]) - len(text[place:].lstrip())
    return ValueError(f"design {text!r}, character {place + 1}: {expected}; "
                      f"here: {text[:place]}>>>{text[place:]}")


def _trial_types(match, text):
    count = int(match["count"] or 1)
    cues = re.sub(r"\s", "", match["cues"] or "")
    outcome = re.sub("[\u2212\u2013]", "-", match["outcome"] or "-")
    reinforced = count * int(match["percent"] or 100)
    if not 1 <= count <= MOST_TRIALS:
        raise _design_error(text, match.start(), f"a trial must occur 1 to {MOST_TRIALS} times")
    if any(len(set(step)) < len(step) for step in cues.split(">")):
        raise _design_error(text, match.start("cues"), "a cue occurs once in a compound")
    if match["percent"] and "+" not in outcome:
        raise _design_error(text, match.start("percent"), "a percentage goes with + or ++ only")
    if reinforced % 100 or reinforced > 100 * count:
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
        places = sorted(((i + 0.5) / trial.count, kind)
                        for kind, trial in enumerate(phase) for i in range(trial.count))
        order = np.arange(len(places)) if rng is None else rng.permutation(len(places))
        single = [trial._replace(count=1) for trial in phase]
        sequence.append([single[places[i][1]] for i in order])
    return sequence


def cue_features(cues, *, saliences=None, similarity=None):
    """Feature vectors of cues (K, K), one a row: length sqrt(salience), given cosines between them.

    saliences {"A": 0.5} (default 1 each), similarity {"AB": 0.3} (default 0: one-hot rows).
    ValueError for unknown cues, saliences that are not positive, cosines that no vectors have.
    """
    saliences, similarity = dict(saliences or {}), dict(similarity or {})
    pairs = [frozenset(pair) for pair in similarity]
    if set(saliences) - set(cues) or len(set(pairs)) < len(pairs) or not all(
            len(name) == len(pair) == 2 and pair <= set(cues)
            for name, pair in zip(similarity, pairs, strict=True)):
        raise ValueError(f"saliences must name cues of {''.join(cues)} and similarity pairs of "
                         f"them, each once, got {[*saliences, *similarity]}")
    if not all(0 < salience < np.inf for salience in saliences.values()):
        raise ValueError(f"saliences must be finite and above 0, got {saliences}")
    if not all(-1 < cosine < 1 for cosine in similarity.values()):
        raise ValueError(f"similarity must be cosines between -1 and 1, got {similarity}")
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
    ValueError for any other choice, or for a design that has no mirror.
    """
    design = design if isinstance(design, Design) else parse_design(design)
    names = design.cues if cues is None else tuple(cues)
    if order not in ORDERS or compound not in ("sum", "normalised"):
        raise ValueError(f"order must be {', '.join(ORDERS)} and compound sum or normalised, got "
                         f"{order!r} and {compound!r}")
    if set(design.cues) - set(names) or len(set(names)) < len(names):
        raise ValueError(f"cues must be distinct and contain the design's cues {design.cues}, got "
                         f"{names}")
    if np.shape(us) != (2,) or not np.all(np.isfinite(us)):
        raise ValueError(f"us must be two numbers, the sizes of + and ++, got {us!r}")
    if min(orders - 1, seed, steps) < 0:
        raise ValueError(f"orders must be at least 1, seed and steps at least 0, got {orders}, "
                         f"{seed} and {steps}")
    rows = cue_features(names, saliences=saliences, similarity=similarity)
    stacked = _stacked([[_sequence_arrays(version, names, rows, us, compound, steps)
                         for version in versions]
                        for versions in _orders(design, order, orders, seed)])
    pick = {"alternate": np.s_[0, 0], "random": np.s_[:, 0]}.get(order, np.s_[:, :])
    return TrialArrays(*(field[pick] for field in stacked))


ORDERS = ("alternate", "random", "mirrored", "reversed")


def _orders(design, order, orders, seed):
    """The design's sequences, a list of orders; an order is a list of one version, or of a pair."""
    if order == "alternate":
        return [[trial_sequence(design)]]
    drawn = [trial_sequence(design, rng=np.random.default_rng([seed, i])) for i in range(orders)]
    partner = {"random": lambda sequence: [], "mirrored": lambda sequence: [_mirror(sequence)],
               "reversed": lambda sequence: [[phase[::-1] for phase in sequence]]}[order]
    return [[sequence, *partner(sequence)] for sequence in drawn]


def _stacked(nested):
    """TrialArrays with leading axes from equally long nested lists of TrialArrays."""
    if isinstance(nested, TrialArrays):
        return nested
    return TrialArrays(*map(np.stack, zip(*map(_stacked, nested), strict=True)))


def time_steps(trial, steps):
    """The trial as `steps` time steps: its cues in turn, then the outcome with no cue, then empty
    steps. For `rules.temporal_difference`. ValueError if the trial does not fit.
    """
    quiet = "?" if trial.outcome == "?" else "-"
    shown = [TrialType(1, cues, quiet) for cues in trial.cues.replace("_", "").split(">")]
    if steps <= len(shown):
        raise ValueError(f"steps must be at least {len(shown) + 1} for a trial {trial}, got "
                         f"{steps}")
    rest = [TrialType(1, "", quiet)] * (steps - len(shown) - 1)
    return [*shown, TrialType(1, "", trial.outcome), *rest]


def trial_trace(trace, T, steps):
    """trace (..., T) for T time steps of trials of `steps` (...) each: 0 on a trial's last step."""
    return np.where(np.arange(T)[::-1] % np.asarray(steps)[..., None] == 0, 0.0, trace)


def _mirror(sequence):
    """The sequence with "+" and "-" exchanged in the phases that mix them."""
    mirrored = []
    for phase in sequence:
        kinds = [trial.outcome for trial in phase if trial.cues]
        mixed = len(set(phase)) > 1 and len(set(kinds)) > 1
        if mixed and (kinds.count("+") != kinds.count("-") or set(kinds) - {*"+-"}):
            raise ValueError("a mixed phase has a mirror only with as many + as - trials and no "
                             "other outcome")
        swap = {"+": "-", "-": "+"} if mixed else {}
        mirrored.append([trial._replace(outcome=swap.get(trial.outcome, trial.outcome))
                         if trial.cues else trial for trial in phase])
    return mirrored


def _sequence_arrays(sequence, names, rows, us, compound, steps):
    trials = list(itertools.chain(*sequence))
    kinds = {trial: place for place, trial in enumerate(dict.fromkeys(trials))}
    shown = [step for trial in kinds for step in (time_steps(trial, steps) if steps else [trial])]
    present = np.array([[name in step.cues for name in names] for step in shown], dtype=float)
    cues = present.reshape(len(shown), len(names)) @ rows
    if compound == "normalised":
        length = np.sqrt(np.sum(cues**2, axis=-1, keepdims=True))
        cues = cues / np.where(length > 0, length, 1)
    size = {"+": us[0], "++": us[1], "-": 0.0, "?": 0.0}
    outcomes = np.array([[size[step.outcome]] for step in shown], dtype=float)
    test = np.array([step.outcome == "?" for step in shown])
    places = np.array([kinds[trial] for trial in trials], dtype=int)[:, None] * max(steps, 1)
    places = (places + np.arange(max(steps, 1))).ravel()
    return TrialArrays(cues[places], outcomes[places], test[places])


# --------------------------------------------------------------------------------- closed forms
#
# Strengths under Rescorla-Wagner from 0, after n trials (n may be an array); lam is lambda, the
# asymptote; alpha a salience, so that alpha beta is the rate of a single cue.


def acquisition_strength(*, alpha, beta, n, lam=1.0):
    """lam [1 - (1 - alpha beta)^n] (Bush & Mosteller 1951; Rescorla & Wagner 1972, one cue)."""
    return np.asarray(lam) * (1 - (1 - np.multiply(alpha, beta)) ** np.asarray(n))


def extinction_strength(*, V_0, alpha, beta, n):
    """V_0 (1 - alpha beta)^n: strength V_0 after n omissions."""
    return np.asarray(V_0) * (1 - np.multiply(alpha, beta)) ** np.asarray(n)


def compound_strength(*, alphas, beta, n, V_0=0.0, lam=1.0):
    """Strengths (..., K) of K cues after n trials of their compound, from strengths V_0.

    V_i + alpha_i / sum alpha (lam - sum V) [1 - (1 - sum alpha beta)^n]: overshadowing from V_0 =
    0, blocking where one cue is trained, overexpectation where sum V > lam (the loss is shared in
    proportion to the saliences). alphas, V_0 (..., K); beta, n, lam (...); sum alpha beta in
    (0, 2).
    """
    alphas, V_0 = np.broadcast_arrays(np.asarray(alphas, dtype=float), V_0)
    beta, n, lam = (np.asarray(value)[..., None] for value in (beta, n, lam))
    total, gap = np.sum(alphas, axis=-1, keepdims=True), lam - np.sum(V_0, axis=-1, keepdims=True)
    return V_0 + alphas / total * gap * (1 - (1 - total * beta) ** n)


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
    """The memory (K, D) at which Rescorla-Wagner rests on average: E[x x^T] W = E[x lambda].

    cues (T, K), outcomes (T, D): the trials of one cycle. Partial reinforcement, contingency
    (delta P with a context cue), conditioned inhibition. Where it is singular, the solution of
    least norm, which is where learning from 0 ends.
    """
    cues, outcomes = np.asarray(cues), np.asarray(outcomes)
    return np.linalg.pinv(cues.T @ cues) @ (cues.T @ outcomes)


def contingency_strength(*, p_cue, p_no_cue, lam=1.0):
    """lam (P(US | cue) - P(US | no cue)), delta P: Rescorla-Wagner's asymptote beside a context.

    Chapman & Robbins (1990), equal rates; the experiment is Rescorla's (1968).
    """
    return lam * np.subtract(p_cue, p_no_cue)


def retained_response(response, decay):
    """Response (..., D) to a cue after retention trials orthogonal to it, times each one's decay.

    With a scalar decay in [0, 1] (..., T) and a scalar rate it cannot grow: no spontaneous
    recovery. A rate or a decay per feature is not covered.
    """
    return np.asarray(response) * np.prod(decay, axis=-1)[..., None]


def minibatch_blocking(*, beta, m, batch_size):
    """Blocked / control at the error frozen for B trials, rate beta / B: (1 - beta)^(m / B).

    m trials of A+ before AX+, m a multiple of B (else a mini-batch mixes the phases, and the
    formula does not hold; one that holds all trials is Hebb, without blocking). B = 1 is
    Rescorla-Wagner.
    """
    return (1 - beta) ** (m / batch_size)


# ---------------------------------------- capacity, heads, depth, drift, unlearning: closed forms
#
# n random unit pairs (keys and values uniform on the sphere), d = K = D features. Under Hebb the
# response to key i is v_i + sum_{j != i} c_j v_j with c_j = k_i.k_j: v_i plus interference, an
# isotropic vector, of which the length r and the cosine z with v_i say all that matters.


def sphere_component(d, nodes):
    """(t, weights): quadrature over one component of a random unit vector in d >= 2 dimensions.

    Density ~ (1 - t^2)^((d-3)/2), as midpoints in the angle, at most 10 standard deviations out;
    t (nodes,) falls from its largest value.
    """
    reach = min(np.pi / 2, 10 / np.sqrt(d))
    angle = np.pi / 2 + reach * ((np.arange(nodes) + 0.5) * 2 / nodes - 1)
    weights = np.exp((d - 2) * np.log(np.sin(angle)))
    return np.cos(angle), weights / np.sum(weights)


def interference_length(m, d, nodes):
    """(r, weights): quadrature over |sum_j c_j v_j|, j = 1..m, c_j a component, v_j unit vectors.

    r^2 is taken as gamma with the true mean m/d and the true variance; exact for m = 0 and 1.
    """
    if m == 0:
        return np.zeros(1), np.ones(1)
    if m == 1:
        t, weights = sphere_component(d, nodes)
        return np.abs(t), weights
    variance = 2 * m * (d - 1) / (d**2 * (d + 2)) + 2 * m * (m - 1) / d**3
    scale = variance * d / m
    centre, spread = np.sqrt(m / d), np.sqrt(scale / 2)
    low, high = max(0.0, centre - 7 * spread), centre + 7 * spread
    r = low + (high - low) * (np.arange(nodes) + 0.5) / nodes
    logarithm = (2 * m / d / scale - 1) * np.log(r) - r**2 / scale
    weights = np.exp(logarithm - np.max(logarithm))
    return r, weights / np.sum(weights)


def faithful_probability(n, d, *, tau, nodes=400):
    """P(cosine of response and v_i >= tau) in a Hebbian store of n pairs; n an array, n >= 2.

    The response v + r u has an angle below arccos(tau) unless z lies between the roots of
    z = [-(1 - tau^2) +- tau sqrt(r^2 - (1 - tau^2))] / r; where r > 1, only above the upper one.
    """
    t, weights = sphere_component(d, 4 * nodes)
    above = np.cumsum(weights) - weights / 2
    probability = []
    for m in np.atleast_1d(n) - 1:
        r, share = interference_length(m, d, nodes)
        r = np.maximum(r, 1e-9)
        root = tau * np.sqrt(np.maximum(r**2 - (1 - tau**2), 0))
        upper, lower = ((side * root - (1 - tau**2)) / r for side in (1, -1))
        success = np.interp(-upper, -t, above) + (r < 1) * (1 - np.interp(-lower, -t, above))
        probability.append(np.sum(share * np.where(r**2 > 1 - tau**2, success, 1)))
    return np.reshape(probability, np.shape(n))


def identification_probability(n, d, *, nodes=40):
    """P(v_i is the nearest of the n stored values to the response), Hebbian; n an array, n >= 1.

    Item i beats item l iff (1 - c) + r z > r sqrt(1 - z^2) u, u = y sqrt((1 + x) / (1 - x)), with
    c = k_i.k_l, x = v_i.v_l, y a component in d - 1 dimensions and r the length of the other n - 2
    pairs' interference; P = E over r, z of P(win)^(n-1). The competitors count as independent.
    """
    y, y_weights = sphere_component(d - 1, 100 * nodes)
    x, x_weights = sphere_component(d, nodes)
    c, c_weights = sphere_component(d, nodes // 2)
    angle = np.linspace(-1, 1, 50 * nodes) * min(np.pi / 2 - 1e-9, 12 / np.sqrt(d))
    y_limit = np.tan(angle)[:, None] * np.sqrt((1 - x) / (1 + x))
    above = np.cumsum(y_weights) - y_weights / 2
    lost = np.interp(-y_limit, -y, above, left=0, right=1) @ x_weights
    z, z_weights = sphere_component(d, nodes)
    probability = []
    for n_now in np.atleast_1d(n):
        if n_now == 1:
            probability.append(1.0)
            continue
        r, r_weights = interference_length(n_now - 2, d, nodes)
        along, across = 1 + r[:, None] * z, r[:, None] * np.sqrt(1 - z**2)
        limit = np.arctan2(along[..., None] - c, across[..., None])
        loss = np.minimum(np.interp(limit, angle, lost, left=1, right=0) @ c_weights, 1 - 1e-12)
        probability.append(r_weights @ np.exp((n_now - 1) * np.log1p(-loss)) @ z_weights)
    return np.reshape(probability, np.shape(n))


def least_squares_error(n, d):
    """Mean squared error max(0, 1 - d/n) of n random unit values in a least-squares store.

    Its responses are P V, P the projection on the min(n, d) directions that the keys span. The
    repeated delta rule ends there if n <= d, and for beta -> 0 if n > d (Widrow & Hoff 1960).
    """
    return np.maximum(0, 1 - d / np.asarray(n))


def averaged_head_error(n, H, d_h, M=np.inf):
    """Mean squared error (n - 1) [1 / (H d_h) + (1 - 1/H) / M] of H averaged heads, n unit pairs.

    Each head stores all pairs under its own keys of d_h features: independent (M infinite), or
    random orthonormal projections of shared keys of M >= d_h features, scaled to length 1, which
    then share 1/M of their noise. (Gaussian projections distort too: 1/M instead of (1 - 1/H)/M.)
    """
    return (n - 1) * (1 / (H * d_h) + (1 - 1 / H) / M)


def chained_error(r, L):
    """Share of wrong items after L hops, 1 - (1 - r)^L, where each is cleaned up to an item."""
    return 1 - (1 - r) ** np.asarray(L)


def chained_interference(n, d, L):
    """Mean squared error (1 + (n - 1)/d)^L - 1 after L Hebbian hops of n pairs without clean-up."""
    return (1 + (n - 1) / d) ** np.asarray(L) - 1


# Drift: outcomes v = A_t^T x + noise of variance s2, random cues of length 1 (E x x^T = I/K). Each
# strength in A_t is AR(1) with correlation rho and variance sigma2, so that it moves by q =
# sigma2 (1 - rho^2) a trial; a random walk is the limit rho -> 1 at that q. Errors are E of
# ((W_{t-1} - A_t)^T x_t)^2 an outcome, noise left out.


def delta_tracking_error(*, beta, K, rho, sigma2, s2):
    """Excess error of the delta rule that tracks A_t, with beta in (0, 2).

    [beta s2 + 2 (1 - rho) sigma2 / (1 - rho + rho beta/K)] / (2 - beta), exact; for rho -> 1 it is
    (K q + beta^2 s2) / (2 beta - beta^2), the law of the least-mean-squares filter that tracks a
    random walk (Widrow, McCool, Larimore & Johnson 1976).
    """
    moved = 2 * (1 - rho) * sigma2 / (1 - rho + rho * beta / K)
    return (beta * s2 + moved) / (2 - beta)


def hebbian_tracking_error(*, decay, K, rho, sigma2, s2):
    """Excess error of Hebb with decay g and rate K (1 - g), which makes its gain 1; g in [0, 1).

    sigma2 [1 - 2 (1-g) rho / (1 - g rho) + h (1 + g rho) / (1 - g rho)] + h [K (sigma2 + s2) -
    sigma2], h = (1-g) / (1+g): the lag of the exponential mean behind A_t, then the interference
    of other cues and the noise of outcomes. Exact; derived here, as the second moment of the
    response K (1-g) sum_j g^j (x_{t-1-j} . x_t) v_{t-1-j} less A_t^T x_t; E (x_i . x_j)^2 = 1/K.
    """
    g, share = decay, (1 - decay) / (1 + decay)
    bias = 1 - 2 * (1 - g) * rho / (1 - g * rho) + share * (1 + g * rho) / (1 - g * rho)
    return sigma2 * bias + share * (K * (sigma2 + s2) - sigma2)


def best_beta(*, K, q, s2):
    """Best rate [-a + sqrt(a^2 + 4 a b)] / (2 b) of the delta rule, a = K q, b = s2, rho -> 1."""
    a, b = K * np.asarray(q), s2
    return (np.sqrt(a**2 + 4 * a * b) - a) / (2 * b)


def oja_bound(W_0, cue_length, outcome):
    """Bound of |W_j| under `oja` with beta v^2 <= 1: max(|W_j(0)|, max |x| / min |v_j|)."""
    return np.maximum(W_0, np.max(cue_length) / np.min(np.abs(outcome)))


def unlearning_change(n, d):
    """Mean |change|^2 of another response when one of n Hebbian pairs is unlearned at beta 1.

    (1/d)(1 + (n-2)/d) + 3/(d (d+2)): c^2 |o_1|^2, c the keys' cosine and o_1 the response that the
    omitted outcome takes away. In a delta store that holds all, |o_1| = 1 and it is 1/d.
    """
    return (1 + (n - 2) / d) / d + 3 / (d * (d + 2))


def unlearned_error(n, d):
    """Mean squared error of the other n - 1 Hebbian pairs after that: before it, (n - 1)/d.

    (n-2)(1/d - 1/d^2) + 3/(d (d+2)): an interferer is removed, so that it falls.
    """
    return (n - 2) * (1 / d - 1 / d**2) + 3 / (d * (d + 2))


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
    transform that they differentiate is that of Yang et al. 2024.

    queries, keys (..., T, K); values, d_outputs (..., T, D); state, d_state (..., K, D); beta a
    number, one a token or one a token and feature; decay a number or one a token. A plain number
    is a constant, its gradient None. An argument that is broadcast gets the sum over the places
    it went to; a state of None is one of (K, D). Time and memory T^2 (T^3 for the decay), T > 0.
    ValueError for a decay per feature.
    """
    xp, queries, keys, values, state = _tokens(queries, keys, values, state)
    beta, decay = (xp.asarray(rate) if isinstance(rate, (list, tuple)) else rate
                   for rate in (beta, decay))
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
    d_predictions = -d_values if error_correcting else 0 * d_values

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
    and where eta k_s^2 is 0 (alpha is kept there), else 0:
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
    low, high = limits(bounds)
    errors, alphas = _ph_errors(keys, values, beta, eta, memory, alpha, (low, high))
    alphas, rise = alphas[..., :-1, :], eta * keys**2
    sizes = xp.linalg.norm(errors, axis=-1)[..., None]
    moved = (1 - rise) * alphas + rise * sizes
    free = (rise == 0) | ((moved > low) & (moved < high))
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


# ------------------------------------------------------------------------------------ phenomena


class Phenomenon(NamedTuple):
    """A classical phenomenon: two groups, what is compared at the test, what animals do.

    experimental, control: designs with as many trials in each phase (control None: the same
    animals, another contrast). finding: what animals do, -1 if the experimental group's response
    is the lower one, 1 if it is the higher one, 0 if it is the same. The response of a group is
    the sum of its test trials ("?"), weighted by contrast (control_contrast: of the control group,
    None: the same); or, with proportion, its last test trial over its first. us, saliences: as in
    `design_arrays`.
    needs: phenomena that a rule must show for this one to be askable of it, or TIME_STEPS, a rule
    to which a trial is more than one step.
    order: of mixed phases, "alternate" where nothing is mixed; "mirrored" only where exchanging +
    and - leaves the design the same, else "reversed".
    """

    name: str
    group: str
    source: str
    experimental: str
    control: str | None
    finding: int
    contrast: tuple = (1.0,)
    control_contrast: tuple | None = None
    us: tuple = (1.0, 2.0)
    saliences: dict | None = None
    order: str = "alternate"
    needs: tuple = ()
    proportion: bool = False


TIME_STEPS = "time steps"
GROUPS = ("acquisition and extinction", "cue competition", "inhibition", "pre-exposure",
          "retrospective revaluation", "patterning", "recovery")
_ACQUISITION, _COMPETITION, _INHIBITION, _EXPOSURE, _REVALUATION, _PATTERNING, _RECOVERY = GROUPS
_CONTEXTS = {"P": 0.2, "Q": 0.2}
_FIRST_SECOND = (1.0, 0.0), (0.0, 1.0)  # the first test trial against the second

PHENOMENA = (
    # Negatively accelerated: the second half of training adds less than the first.
    Phenomenon("acquisition", _ACQUISITION, "Pavlov 1927; Hull 1943",
               "20A+ | A? | 20A+ | A?", None, -1, contrast=(-1.0, 1.0),
               control_contrast=(1.0, 0.0)),
    Phenomenon("extinction", _ACQUISITION, "Pavlov 1927",
               "20A+ | 20A- | A?", "20A+ | 20_ | A?", -1),
    # Persistence: the share of the response at the end of training that extinction leaves.
    Phenomenon("partial reinforcement extinction", _ACQUISITION,
               "Humphreys 1939; Capaldi 1967; Haselgrove et al. 2004",
               "40A+50% | A? | 10A- | A?", "40A+ | A? | 10A- | A?", 1, order="mirrored",
               proportion=True),
    Phenomenon("second-order conditioning", _ACQUISITION, "Rizley & Rescorla 1972",
               "40A+ | 5B>A- | B?", "40_ | 5B>A- | B?", 1),
    Phenomenon("sensory preconditioning", _ACQUISITION, "Brogden 1939",
               "20AB-/20_ | 20A+ | B?", "20A-/20B- | 20A+ | B?", 1, order="reversed"),
    Phenomenon("trace conditioning", _ACQUISITION, "Pavlov 1927; Smith, Coleman & Gormezano 1969",
               "20A>_>_>_>_+ | A?", "20A+ | A?", -1, needs=(TIME_STEPS,)),

    Phenomenon("blocking", _COMPETITION, "Kamin 1968, 1969; but see Maes et al. 2016",
               "40A+ | 40AX+ | X?", "40_ | 40AX+ | X?", -1),
    # The control is Kamin's; a rule that learns by the size of the US, not by surprise, passes too,
    # if it blocks.
    Phenomenon("unblocking by a larger US", _COMPETITION,
               "Kamin 1969; Dickinson, Hall & Mackintosh 1976",
               "40A+ | 40AX++ | X?", "40A+ | 40AX+ | X?", 1, needs=("blocking",)),
    Phenomenon("unblocking by a smaller US", _COMPETITION,
               "Dickinson, Hall & Mackintosh 1976; Holland 1984",
               "40A++ | 40AX+ | X?", "40A+ | 40AX+ | X?", 1, needs=("blocking",)),
    Phenomenon("overshadowing", _COMPETITION, "Pavlov 1927; Mackintosh 1976",
               "20AX+ | X?", "20X+ | X?", -1),
    Phenomenon("one-trial overshadowing", _COMPETITION,
               "Mackintosh & Reese 1979; James & Wagner 1980",
               "AX+ | X?", "X+ | X?", -1),
    Phenomenon("overexpectation", _COMPETITION, "Rescorla 1970; Kremer 1978",
               "40A+/40X+ | 40AX+ | X?", "40A+/40X+ | 40_ | X?", -1, order="reversed"),
    Phenomenon("relative validity", _COMPETITION, "Wagner, Logan, Haberlandt & Price 1968",
               "40AX+/40BX- | X?", "20AX+/20BX+/20AX-/20BX- | X?", -1, order="mirrored"),
    Phenomenon("zero contingency", _COMPETITION, "Rescorla 1968",
               "80KA+50%/80K+50% | A?", "80KA+50%/80K- | A?", -1, order="reversed"),
    # X is redundant beside A (blocking), Y uninformative beside B and C. Both are paired with the
    # outcome 48 times, X always, Y half of the time.
    Phenomenon("redundancy effect", _COMPETITION,
               "Pearce et al. 2012; Uengoer, Lotz & Pearce 2013",
               "48A+/48AX+/48BY+/48CY- | X? | Y?", None, 1, *_FIRST_SECOND, order="reversed"),

    # Rescorla 1969a: "Pavlovian conditioned inhibition", Psychological Bulletin 72; 1969b:
    # "Conditioned inhibition of fear resulting from negative CS-US contingencies", JCPP 67.
    Phenomenon("conditioned inhibition: summation", _INHIBITION, "Pavlov 1927; Rescorla 1969a",
               "60A+/60AX- | 20B+ | BX? | B?", None, -1, *_FIRST_SECOND, order="reversed"),
    # The control has been exposed to X as often, so that latent inhibition alone does not pass.
    Phenomenon("conditioned inhibition: retardation", _INHIBITION, "Rescorla 1969a",
               "60A+/60AX- | 10X+ | X?", "60A+/60X- | 10X+ | X?", -1, order="reversed"),
    Phenomenon("negative contingency inhibits", _INHIBITION, "Rescorla 1969b",
               "80KA+50%/80K+75% | A? | N?", None, -1, *_FIRST_SECOND, order="reversed"),
    # Not lost: more than half of it is left, against a group without X-.
    Phenomenon("inhibitor alone keeps inhibition", _INHIBITION, "Zimmer-Hart & Rescorla 1974",
               "60A+/60AX- | 40X- | X?", "60A+/60AX- | 40_ | X?", -1,
               control_contrast=(0.5,), order="reversed",
               needs=("conditioned inhibition: summation",)),
    Phenomenon("novel cue with inhibitor is neutral", _INHIBITION, "Baker 1974",
               "60A+/60AX- | 40DX- | D?", "60A+/60AX- | 40D- | D?", 0, order="reversed",
               needs=("conditioned inhibition: summation",)),
    Phenomenon("protection from extinction", _INHIBITION, "Chorazyna 1962; Rescorla 2003",
               "60A+/60AX- | 40C+ | 20CX- | C?", "60A+/60AX- | 40C+ | 20C- | C?", 1,
               order="reversed"),
    Phenomenon("superconditioning", _INHIBITION,
               "Rescorla 1971; Wagner 1971; Williams & McDevitt 2002",
               "60A+/60AX- | 20XY+ | Y?", "60A+/60AX- | 20DY+ | Y?", 1, order="reversed"),

    Phenomenon("latent inhibition", _EXPOSURE, "Lubow & Moore 1959",
               "40A- | 10A+ | A?", "40_ | 10A+ | A?", -1),
    # The first phase pairs the target, or another cue, with a weak US.
    Phenomenon("Hall-Pearce negative transfer", _EXPOSURE, "Hall & Pearce 1979",
               "66T+ | 6T++ | T?", "66L+ | 6T++ | T?", -1, us=(0.25, 1.0)),
    Phenomenon("US pre-exposure", _EXPOSURE, "Randich & LoLordo 1979",
               "20K+ | 20KA+/20K- | A?", "20K- | 20KA+/20K- | A?", -1, order="reversed"),
    # Learned irrelevance proper asks for more retardation than both exposures alone add up to.
    Phenomenon("uncorrelated CS and US, against CS alone", _EXPOSURE,
               "Mackintosh 1973; Baker & Mackintosh 1977",
               "20KA+50%/20K+50% | 10KA+ | A?", "20KA-/20K- | 10KA+ | A?", -1, order="reversed"),
    Phenomenon("uncorrelated CS and US, against US alone", _EXPOSURE,
               "Mackintosh 1973; Baker & Mackintosh 1977",
               "20KA+50%/20K+50% | 10KA+ | A?", "40K+50% | 10KA+ | A?", -1, order="reversed"),

    Phenomenon("backward blocking", _REVALUATION, "Shanks 1985; Miller & Matute 1996",
               "20AX+ | 20A+ | X?", "20AX+ | 20_ | X?", -1),
    Phenomenon("recovery from overshadowing", _REVALUATION,
               "Kaufman & Bolles 1981; Matzel et al. 1985",
               "20AX+ | 20A- | X?", "20AX+ | 20_ | X?", 1),

    Phenomenon("feature-positive discrimination", _PATTERNING, "Jenkins & Sainsbury 1969",
               "60AB+/60A- | B? | A?", None, 1, *_FIRST_SECOND, order="reversed"),
    # Trained as conditioned inhibition is, but tested on the compound that was trained.
    Phenomenon("feature-negative discrimination", _PATTERNING,
               "Pavlov 1927; Holland & Lamarre 1984",
               "60A+/60AB- | AB? | A?", None, -1, *_FIRST_SECOND, order="reversed"),
    Phenomenon("negative patterning", _PATTERNING, "Woodbury 1943; Rescorla 1972",
               "40A+/40B+/40AB- | A? | AB?", None, 1, *_FIRST_SECOND, order="reversed"),
    # U is the cue that is unique to the compound.
    Phenomenon("negative patterning, unique cue", _PATTERNING,
               "Wagner & Rescorla 1972; Whitlow & Wagner 1972",
               "80A+/80B+/80ABU- | A? | ABU?", None, 1, *_FIRST_SECOND, order="reversed"),

    Phenomenon("spontaneous recovery", _RECOVERY, "Pavlov 1927; Rescorla 2004",
               "20A+ | 20A- | 20_ | A?", "20_ | 20A+ | 20A- | A?", 1, needs=("extinction",)),
    Phenomenon("rapid reacquisition", _RECOVERY, "Napier, Macrae & Kehoe 1992",
               "20A+ | 200A- | 5A+ | A?", "20_ | 200_ | 5A+ | A?", 1, needs=("extinction",)),
    # P and Q are contexts; A+ in P, A- in Q, test in P against test in Q.
    Phenomenon("ABA renewal", _RECOVERY, "Bouton & Bolles 1979; Bouton & King 1983",
               "20AP+ | 20AQ- | AP? | AQ?", None, 1, *_FIRST_SECOND, saliences=_CONTEXTS,
               needs=("extinction",)),
    # US alone, against context alone, before a test in the context.
    Phenomenon("reinstatement", _RECOVERY, "Rescorla & Heth 1975; Bouton 1984",
               "20AK+ | 20AK- | 4K+ | AK?", "20AK+ | 20AK- | 4K- | AK?", 1,
               needs=("extinction",)),
)

# Findings that belong to these phenomena but need a mechanism no rule here has.
LEFT_OUT = (
    ("latent inhibition is lost in another context", "associations between context and cue"),
    ("occasion setting by a serial feature (Holland 1983)", "cues that modulate associations"),
    ("renewal without strength of the contexts", "contexts that retrieve associations"),
    ("slow reacquisition after few trials (Ricker & Bouton 1996)", "memory of trial sequences"),
)


def scaled_design(design, factor):
    """The design with every count above 1 times factor, rounded, tests and single trials as is."""
    def scaled(trial):
        times = 1 if trial.count == 1 or trial.outcome == "?" else factor
        return trial._replace(count=max(1, round(trial.count * times)))
    return design._replace(phases=tuple(tuple(map(scaled, phase)) for phase in design.phases))


class Comparison(NamedTuple):
    """Arrays of a phenomenon: trials (numbers, groups, orders, pair, T, ...), one group if both are
    the same animals; whether a cue is tested (K,); the places of the test trials and their weights
    (2 groups, 1, 1, tests), that broadcast with responses; rows a trial: 1, or its time steps;
    whether the last test over the first is taken instead of the weighted sum.
    """

    trials: TrialArrays
    tested: np.ndarray
    tests: np.ndarray
    weights: np.ndarray
    steps: int
    proportion: bool


def phenomenon_arrays(phenomenon, *, trials=(None,), orders=1, seed=0, in_time=False):
    """Comparison of both groups, at each of the numbers of trials.

    trials: how many of the experimental group's first trial type (None: as the design says); the
    other counts change in proportion.
    Phases are filled up to their longest version with empty test trials, on which nothing
    changes. Mixed phases take `orders` random pairs of orders (`Phenomenon.order`), the same for
    both groups; other designs have one order. in_time: each trial as time steps, for
    `temporal_difference`.
    """
    groups = [parse_design(text) for text in (phenomenon.experimental, phenomenon.control) if text]
    stated = groups[0].phases[0][0].count
    names = sorted({cue for design in groups for cue in design.cues})
    rows = cue_features(names, saliences=phenomenon.saliences)
    steps = in_time * (2 + max(trial.cues.count(">") for design in groups
                               for phase in design.phases for trial in phase))
    sequences = [[_orders(scaled_design(design, (n or stated) / stated), phenomenon.order, orders,
                          seed) for design in groups] for n in trials]
    longest = [max(map(len, phases)) for phases in zip(
        *(version for group in itertools.chain(*sequences) for pair in group for version in pair),
        strict=True)]

    def arrays(version):
        filled = [[TrialType(1, "", "?")] * (length - len(phase)) + phase
                  for phase, length in zip(version, longest, strict=True)]
        return _sequence_arrays(filled, names, rows, phenomenon.us, "sum", steps)
    stacked = _stacked([[[[arrays(version) for version in pair] for pair in group]
                        for group in number] for number in sequences])
    tests = np.array([end - 1 for end, phase in zip(np.cumsum(longest), groups[0].phases,
                                                    strict=True) if phase[-1].outcome == "?"])
    tested = "".join(phase[-1].cues for design in groups for phase in design.phases
                     if phase[-1].outcome == "?")
    weights = [phenomenon.contrast, phenomenon.control_contrast or phenomenon.contrast]
    return Comparison(stacked, np.array([name in tested for name in names]), tests * max(steps, 1),
                      np.array(weights)[:, None, None, :], max(steps, 1), phenomenon.proportion)
