"""Learning theory: the classical rules of associative learning, one equation a function.

A rule is `rule(state, cue, outcome, *, rates) -> state`: one trial. The cue is a column, the
outcome a row, so that each line reads as it is printed in the source. Two ways to use a rule:

    cues = np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])      # trials of A, AB and B
    outcomes = np.array([[1.0], [1.0], [0.0]])                 # the US; 0 where it is omitted
    predictions, memory = learn(rescorla_wagner, cues, outcomes, beta=0.5)

    memory = np.zeros((2, 1))                                  # by hand, for one's own loop
    for cue, outcome in zip(cues, outcomes):
        memory = rescorla_wagner(memory, cue[:, None], outcome[None], beta=0.5)

A rule checks nothing and can be copied alone, with the named tuple of its state and
`array_module` if it names them; it runs on NumPy, CuPy, JAX and PyTorch. `learn` checks all.

Glossary (one name for one thing, in every file)
    ...            any leading batch axes (seeds, groups, settings, heads)
    T, K, D        trials; cues (features of a cue); outcomes (features of an outcome)
    cues x         (..., T, K)  what is presented, the conditioned stimuli (CS); in a rule a
                   column (..., K, 1)
    outcomes v     (..., T, D)  what follows, the unconditioned stimuli (US); 0 where omitted; in
                   a rule a row (..., 1, D)
    memory W       (..., K, D)  W[i, j] is the strength V of cue i for outcome j; x_i W[i, j] where
                   the salience of the cue is not 1
    prediction     W^T x, the response to the trial's cue just before it is learned
    error e        v - (decay W)^T x: what the rule corrects. `learn` returns W^T x, not decayed
    beta           learning rate
    decay          what is kept of the memory from one trial to the next, 0 to 1
    associability  alpha, a column (..., K, 1) in the states: a rate that the rule itself maintains
    eta, theta     speed at which the associability moves
    lambda         the asymptote that the US supports: here the outcome itself

Rates are numbers or columns in a rule. In `learn` they are numbers, or arrays with one axis fewer
than the cues, (..., T), one value a trial, or with as many, (..., T, K), one a trial and feature.
Size 1 stands for all: (H, 1) is one rate a head, (1, K) one a feature of unbatched cues.

Salience: the delta rule's step is |x|^2, so a cue of salience alpha is a feature of size
sqrt(alpha). (There, and in the closed forms, alpha is Rescorla & Wagner's: a salience. In the rules
alpha is the associability.) A compound AB is the sum of the features of A and B.

Stability: error correction converges for 0 < beta |x|^2 < 2; associability multiplies beta.
"""

import inspect
import sys
from functools import partial
from typing import Any, NamedTuple

import numpy as np


def array_module(array):
    """The namespace that owns the array: numpy, cupy, or another that does what they do."""
    if hasattr(array, "__array_namespace__"):
        return array.__array_namespace__()
    return sys.modules[type(array).__module__.partition(".")[0]]


# ------------------------------------------------------------------------------------------ states


class TraceState(NamedTuple):
    """memory (..., K, D) and the trace of the cues (..., K, 1). A default is a start value."""

    memory: Any
    trace: Any = 0.0


class AssociabilityState(NamedTuple):
    """memory (..., K, D) and associability (..., K, 1)."""

    memory: Any
    associability: Any = 1.0


class ExcitationInhibitionState(NamedTuple):
    """excitation and inhibition (..., K, D), associability (..., K, 1); memory is the net."""

    excitation: Any
    inhibition: Any
    associability: Any

    @property
    def memory(self):
        """Net strength, excitation less inhibition."""
        return self.excitation - self.inhibition


class KalmanState(NamedTuple):
    """memory (..., K, D) and the covariance of the strengths (..., K, K)."""

    memory: Any
    covariance: Any


class TemporalDifferenceState(NamedTuple):
    """memory (..., K, D), the trace of the cues and the last step's cue (..., K, 1)."""

    memory: Any
    trace: Any = 0.0
    cue: Any = 0.0


def memory_of(state):
    """The association matrix (..., K, D) of any rule's state."""
    return getattr(state, "memory", state)


# ------------------------------------------------------------------------------------------- rules
#
# Shapes in every rule: cue (..., K, 1), outcome (..., 1, D), memory (..., K, D), rates numbers or
# columns (..., K, 1) or (..., 1, 1). (cue * memory).sum(-2, keepdims=True) is W^T x as a row.


def hebbian(state, cue, outcome, *, beta, decay=1.0):
    """Contiguity: W <- decay W + beta x v^T (Hebb 1949; with decay < 1 associations fade).

    With decay 1 the memory grows without bound and nothing is unlearned. The decay is that of the
    association, as in RetNet (Sun et al. 2023, sec. 2.1), not that of the stimulus.
    """
    return decay * state + beta * cue * outcome


def stimulus_trace(state, cue, outcome, *, beta, trace):
    """Contiguity with a cue that outlasts itself: m <- trace m + x, W <- W + beta m v^T.

    The stimulus trace of Hull (1943); trace is 0 to 1. Departure from Sutton & Barto (1981): the
    cue enters the trace on its own step, not on the next one.
    """
    traced = trace * state.trace + cue
    return TraceState(state.memory + beta * traced * outcome, traced)


def bush_mosteller(state, cue, outcome, *, beta):
    """Each cue corrects an error of its own: dW_i = beta x_i (v - x_i W_i) (Bush & Mosteller 1951).

    Error correction without a shared prediction, hence without competition between cues.
    Departure: strengths instead of response probabilities.
    """
    return state + beta * cue * (outcome - cue * state)


def rescorla_wagner(state, cue, outcome, *, beta, beta_omitted=None, decay=1.0, floor=None):
    """All cues present share one error: W <- decay W + beta x e^T, e = v - (decay W)^T x.

    Rescorla & Wagner (1972): dV_i = alpha_i beta (lambda - sum V), x_i = sqrt(alpha_i).
    beta_omitted is the rate where the outcome is 0 (None: beta). Departures: a decay below 1, which
    comes before the error (the order of gated delta networks); a floor under the prediction in the
    error: with floor 0 an inhibitor presented alone keeps its inhibition.
    """
    memory = decay * state
    prediction = (cue * memory).sum(-2, keepdims=True)
    if floor is not None:
        prediction = prediction.clip(floor)
    step = cue * (outcome - prediction)
    if beta_omitted is None:
        return memory + beta * step
    return memory + array_module(cue).where(outcome == 0, beta_omitted * step, beta * step)


def oja(state, cue, outcome, *, beta):
    """Hebb with a bound: dW = beta (x v^T - W diag(v^2)) (Oja 1982, eq. 3), the US clamping v.

    It predicts x from v: the response to a trained cue tends to |x|^2 / v, and an omitted outcome
    changes nothing. |W_j| <= max |x| / |v_j| for beta v^2 <= 1; unstable above beta v^2 = 2.
    Departure: v is the outcome, where Oja's unit adds its own response W^T x.
    """
    return state + beta * (cue * outcome - state * outcome**2)


def mackintosh(state, cue, outcome, *, beta, theta, fall=0.0, bounds=(0.1, 1.0)):
    """Attention goes to the best predictor (Mackintosh 1975, linear form of Le Pelley et al. 2016).

    dW_i = alpha_i beta x_i (v - x_i W_i), alpha and W from before the trial; with the same W
    dalpha_i = theta x_i^2 (|v - sum_{k != i} x_k W_k| - |v - x_i W_i|), alpha within bounds.
    In 1975 alpha also falls where the others predict at least as well as cue i: there
    `fall` > 0 takes theta x_i^2 fall from it (the source leaves the size open; its theta is beta
    here). |.| is the length over all outcomes. Start alpha below the upper bound, or it can only
    fall at first.
    """
    def length(vector):  # without overflow, and with a gradient of 0 at 0
        size = abs(vector).sum(-1, keepdims=True)
        squares = ((vector / (size + (size == 0))) ** 2).sum(-1, keepdims=True)
        return size * (squares + (size == 0)) ** 0.5

    where, alpha, own = array_module(cue).where, state.associability, cue * state.memory
    own_error = outcome - own
    others_error = outcome - own.sum(-2, keepdims=True) + own
    advantage = length(others_error) - length(own_error)
    speed = theta * cue**2
    moved = (alpha + speed * where(advantage > 0, advantage, advantage - fall)).clip(*bounds)
    return AssociabilityState(state.memory + alpha * beta * cue * own_error,
                              where(speed != 0, moved, alpha))


def pearce_hall(state, cue, outcome, *, beta, eta, bounds=(0.0, 1.0)):
    """The hybrid: a delta step at the associability of Pearce & Hall (1980), as in Li et al. 2011.

    W <- W + beta (alpha * x) e^T, e = v - W^T x; then, for the features present,
    alpha_i <- alpha_i + eta x_i^2 (|e| - alpha_i), within bounds. The alpha used on a trial is the
    one from before it; absent features keep theirs. eta 1: |e| of the last trial (1980); below: a
    running average (Pearce, Kaye & Hall 1982). Departures from 1980: there dV = S alpha lambda,
    without the error, and inhibition apart. |e| is the length over all outcomes; above the upper
    bound it counts as the bound.
    Stable for beta sum alpha_i x_i^2 < 2 and eta x_i^2 <= 1.
    """
    alpha = state.associability
    error = outcome - (cue * state.memory).sum(-2, keepdims=True)
    size = abs(error).sum(-1, keepdims=True)
    squares = ((error / (size + (size == 0))) ** 2).sum(-1, keepdims=True)
    surprise = size * (squares + (size == 0)) ** 0.5  # |e|, no overflow
    speed = eta * cue**2
    moved = (alpha + speed * (surprise - alpha)).clip(*bounds)
    return AssociabilityState(state.memory + beta * alpha * cue * error,
                              array_module(cue).where(speed != 0, moved, alpha))


def pearce_kaye_hall(state, cue, outcome, *, beta_excitatory, beta_inhibitory, eta, salience=1.0,
                     bounds=(0.0, 1.0)):
    """Excitation and inhibition apart (Pearce, Kaye & Hall 1982): e = v - sum x (E - I).

    e > 0: dE_i = x_i S beta_excitatory alpha_i v; e < 0: dI_i = x_i S beta_inhibitory alpha_i |e|;
    then alpha_i <- (1 - eta) alpha_i + eta |e| for the cues present, within bounds; the old alpha
    is used first. Outcomes are 0 or more. A cue's salience is given as x or as `salience` S, not as
    both. Departure: each outcome has its own sign, and alpha the
    length |e| over all.
    """
    alpha = state.associability
    error = outcome - (cue * state.memory).sum(-2, keepdims=True)
    size = abs(error).sum(-1, keepdims=True)
    squares = ((error / (size + (size == 0))) ** 2).sum(-1, keepdims=True)
    surprise = size * (squares + (size == 0)) ** 0.5  # |e|, no overflow
    step, moved = salience * alpha * cue, (alpha + eta * (surprise - alpha)).clip(*bounds)
    return ExcitationInhibitionState(
        state.excitation + beta_excitatory * step * outcome * (error > 0),
        state.inhibition - beta_inhibitory * step * error * (error < 0),
        array_module(cue).where(eta * cue != 0, moved, alpha))


def kalman(state, cue, outcome, *, noise=1.0, drift=0.0):
    """Learning as inference: the Kalman filter of the strengths (Dayan & Kakade 2001).

    C <- C + drift I, g = C x / (x^T C x + noise), W <- W + g e^T, C <- C - g x^T C (Gershman
    2015). noise > 0 is the variance of an outcome, drift >= 0 what a strength's variance gains a
    trial. Without drift it is ridge regression with ridge noise / prior. C - g x^T C cancels:
    `learn` runs this rule in float64 whatever the cues are.
    """
    row = cue.swapaxes(-1, -2)
    xp = array_module(cue)
    identity = xp.tril(xp.triu(xp.ones_like(state.covariance)))
    covariance = state.covariance + drift * identity
    spread = covariance @ cue
    gain = spread / (row @ spread + noise)
    return KalmanState(state.memory + gain * (outcome - row @ state.memory),
                       covariance - gain * spread.swapaxes(-1, -2))


def temporal_difference(state, cue, outcome, *, beta, trace, discount=1.0, floor=None):
    """TD(lambda): e = v + discount W^T x - W^T x', W <- W + beta m e^T, m <- discount trace m + x.

    Sutton & Barto (2018, eq. 12.5-12.7); x' and m are those before the step, trace is their lambda,
    discount their gamma. One call is one time step. A trial is several: its cues in turn, then an
    empty step with the outcome; trace 0 on its last step parts it from the next trial
    (`conditioning.time_steps`, `trial_trace`). With two steps a trial it is Rescorla-Wagner.
    floor 0: both predictions are max(0, W^T x), as in Sutton & Barto (1990), whose trace moves by
    delta (x - trace) instead.
    """
    now, before = ((each * state.memory).sum(-2, keepdims=True) for each in (cue, state.cue))
    if floor is not None:
        now, before = now.clip(floor), before.clip(floor)
    error = outcome + discount * now - before
    return TemporalDifferenceState(state.memory + beta * state.trace * error,
                                   discount * trace * state.trace + cue, cue)


def exemplar_responses(probes, cues, outcomes, *, scale, stored):
    """Mean of the stored outcomes weighted by similarity: responses (..., Q, D) to probes.

    sum_s s_qs v_s / sum_s s_qs, s_qs = exp(-scale |probe_q - cue_s|^2 / 2): an exemplar model with
    Gaussian generalisation (Medin & Schaffer 1978; Nosofsky 1986). probes (..., Q, K), cues
    (..., T, K), outcomes (..., T, D), stored (..., Q, T): which trials a probe finds, 0 if none.
    An empty trial is no exemplar: leave it out of `stored`.
    """
    xp = array_module(cues)
    distance = ((probes[..., None, :] - cues[..., None, :, :]) ** 2).sum(-1)
    match = xp.where(stored, -scale * distance / 2, -xp.inf)
    similarity = xp.exp(match - xp.amax(match, -1, keepdims=True).clip(-1e30))
    total = similarity.sum(-1, keepdims=True)
    return (similarity / (total + (total == 0))) @ outcomes


# ---------------------------------------------------------------------------- checks of arguments

LARGEST = np.finfo(float).max  # of float64, in which all is compared: float32 rounds 1e-50 to 0
RANGES = {name: limit for names, limit in (
    ("decay trace discount", (0.0, 1.0, "from 0 to 1")),
    ("noise prior ridge", (1 / LARGEST, LARGEST, "above 0 and finite")),
    ("eta theta fall drift salience associability", (0.0, LARGEST, "at least 0 and finite")),
) for name in names.split()}
ONE_FOR_ALL_FEATURES = ("noise", "discount", "floor")


def owner_of(*arrays):
    """The one namespace that owns the arrays; numbers, lists and None go along with any owner."""
    owners = {array_module(array) for array in arrays
              if hasattr(array, "dtype") and not np.isscalar(array)} or {np}
    if len(owners) > 1:
        raise TypeError("arrays of NumPy and of a device are mixed: move all of them to one")
    return owners.pop()


def real_array(name, value):
    """The value as an array; TypeError if it is not a plain one of real numbers."""
    try:
        array = owner_of(value).asarray(value)
    except ValueError:  # a list of lists of different lengths
        array = np.array(None)
    if array.dtype.kind not in "fiub" or isinstance(value, np.ma.MaskedArray):
        raise TypeError(f"{name} must be a plain array of real numbers, got {type(value).__name__} "
                        f"of dtype {array.dtype}")
    return array


def array_like(name, value, like):
    """The value as an array of the owner and dtype of `like`, there in its range (`RANGES`).

    Values of an array on a device are not checked, since that would wait for it.
    """
    xp, array = owner_of(value, like), real_array(name, value).astype(like.dtype, copy=False)
    if owner_of(value) is np:
        low, high, allowed = RANGES.get(name, (-LARGEST, LARGEST, "finite"))
        if not np.all((array >= low) & (array <= high)):
            raise ValueError(f"{name} must be {allowed}, got {' '.join(str(value).split())[:60]} "
                             f"in {like.dtype}")
    return xp.asarray(array)


def sequence_arrays(**arrays):
    """(xp, dtype, arrays): named sequences (..., T, features) in the dtype of the computation.

    dtype is the widest floating dtype, float64 if all are integers; half precision is computed in
    float32. ValueError if one has fewer than two axes or not the T of the others.
    """
    xp = owner_of(*arrays.values())
    real = [xp.asarray(real_array(*named)) for named in arrays.items()]
    dtype = xp.result_type(*[rows.dtype for rows in real if rows.dtype.kind not in "iub"]
                           or [float])
    try:
        [_] = {rows.shape[-2] for rows in real}
    except (IndexError, ValueError):
        raise ValueError("each must be (..., T, features) with one T, got shapes "
                         f"{ {name: np.shape(value) for name, value in arrays.items()} }") from None
    return xp, dtype, [rows.astype(xp.result_type(dtype, np.float32), copy=False) for rows in real]


def batch_shape(**arrays):
    """The batch axes, all but the last two, that the named arrays broadcast to."""
    try:
        return np.broadcast_shapes(*(np.shape(each)[:-2] for each in arrays.values()))
    except ValueError:
        raise ValueError("batch axes do not broadcast, got shapes "
                         f"{ {name: getattr(x, 'shape', type(x)) for name, x in arrays.items()} }"
                         ) from None


def rate(name, value, like):
    """A rate for `like` (..., T, K): a number, or an array (..., T, 1 or K) in its dtype.

    Given as a number, or with one value a trial (one axis fewer than `like`), or one a trial and
    feature (as many axes). ValueError for another shape or a value out of its range.
    """
    array, (*batch, T, K) = array_like(name, value, like), like.shape
    if not array.ndim:  # an array stays one: a rate that is learned keeps its gradient
        return float(value) if np.isscalar(value) else array
    full = array if array.ndim == like.ndim else array[..., None]
    width = 1 if name in ONE_FOR_ALL_FEATURES else K
    if full.ndim != like.ndim or full.shape[-2] not in (1, T) or full.shape[-1] not in (1, width):
        raise ValueError(f"{name} must be a number, one value a trial {(*batch, T)}, one a batch "
                         f"entry {(*batch, 1)} or one a trial and feature {(*batch, T, width)}, "
                         f"got shape {array.shape}")
    return array_module(like).broadcast_to(full, full.shape[:-2] + (T, full.shape[-1]))


def marks(name, value, like):
    """Marks (..., T) of trials as truth values (..., T, 1); None stays None."""
    if value is None:
        return None
    array = array_like(name, value, like)
    if array.shape[-1:] != like.shape[-2:-1]:
        raise ValueError(f"{name} must mark each of the {like.shape[-2]} trials, got shape "
                         f"{array.shape}")
    return array[..., None] != 0


def limits(bounds):
    """The bounds [low, high]; ValueError if they are not two numbers in order."""
    array = real_array("bounds", bounds)
    if array.shape != (2,) or not array[0] <= array[1]:
        raise ValueError("bounds must be two numbers, low and high, got "
                         f"{' '.join(str(bounds).split())[:60]}")
    return array.tolist()


def feature_column(name, value, memory):
    """A start value as a column (..., K, 1) for a memory (..., K, D).

    A number, one value a feature (K,) or (..., K), or a column as a state has it.
    """
    array = array_like(name, value, memory)
    column = array if array.ndim in (0, memory.ndim) else array[..., None]
    try:
        return array_module(memory).broadcast_to(column, memory.shape[:-1] + (1,))
    except ValueError:
        raise ValueError(f"{name} must be a number or (..., K) = {memory.shape[:-1]}, got shape "
                         f"{array.shape}") from None


# -------------------------------------------------------------------------------- the first state
#
# A rule that needs more than a memory of 0 has an attribute `start`: the type of its state, whose
# fields beside the memory have a default, or a function (memory, **columns) -> state.


def _start_excitation_inhibition(memory, associability=1.0):
    return ExcitationInhibitionState(memory, memory, associability)


def _start_kalman(memory, prior=1.0):
    # in float64 whatever the cues are: C - g x^T C cancels
    return KalmanState(memory, prior * array_module(memory).eye(prior.shape[-2]))


stimulus_trace.start, temporal_difference.start = TraceState, TemporalDifferenceState
mackintosh.start = pearce_hall.start = AssociabilityState
pearce_kaye_hall.start, kalman.start = _start_excitation_inhibition, _start_kalman


def _start(rule):
    """(function, {name: default}): of a rule's first state, and its columns beside the memory."""
    begin = getattr(getattr(rule, "func", rule), "start", lambda memory: memory)
    _, *columns = inspect.signature(begin).parameters.values()
    return begin, {each.name: each.default for each in columns}


def initial_state(rule, cues, outcomes, **start):
    """State of a rule before the first trial of cues (..., T, K) and outcomes (..., T, D).

    Arrays, whose batch axes broadcast. The memory is 0; `associability=1` or `prior=1` where the
    rule has one: a number, or one value a feature, (K,) or (..., K). A rule of one's own brings an
    attribute `start`, (memory, **columns) -> state. TypeError for a start value that it lacks.
    """
    zeros_like = array_module(cues).zeros_like
    # Made from the cues it has their order in memory: cues that are batch-last learn much faster.
    memory = 1.0 * (zeros_like(cues[..., :1, :, None])
                    * zeros_like(outcomes[..., :1, None, :])).sum(-3)
    begin, columns = _start(rule)
    return begin(memory, **{name: feature_column(name, value, memory)
                            for name, value in (columns | start).items()})


def _parameters(rule, given):
    """(rates, start values) among the parameters; TypeError names the unknown or the missing."""
    signature, columns = inspect.signature(rule), _start(rule)[1]
    own = signature.parameters
    start = {name: given.pop(name) for name in columns if name in given and name not in own}
    rates = {name: value for name, value in given.items() if value is not None}
    try:
        signature.bind("state", "cue", "outcome", **rates)
    except TypeError as error:
        raise TypeError(f"{error}; the rule's parameters are "
                        f"{', '.join([*{**own, **columns}][3:])}") from None
    return rates, start


# ------------------------------------------------------------------------------------- all trials


class Path(NamedTuple):
    """After each trial: memory (..., T, K, D), and associability (..., T, K) or None."""

    memory: Any
    associability: Any


def learn(rule, cues, outcomes, *, state=None, test=None, reset=None, path=False, **parameters):
    """A rule over all trials: (predictions (..., T, D), state after the last trial).

    cues (..., T, K), outcomes (..., T, D); batch axes broadcast. predictions are W^T x with the
    memory from before the trial. parameters are the rule's rates and the start values of a new
    state (`associability=`, `prior=`), which is also where a reset starts. `state` is what an
    earlier call returned.
    test (..., T) marks trials that are answered and change nothing: no learning, decay, drift or
    associability. reset (..., T) marks trials before which the state starts anew.
    path=True returns a third value, `Path`: memory and associability after every trial.
    Half precision is computed in float32. Results have the dtype of cues and outcomes; the Kalman
    filter's covariance is float64 where that is not half, a `Path` is in the precision of the
    computation. TypeError for unknown or missing
    parameters and for what is not an array of real numbers, ValueError for shapes and ranges; each
    names the argument.
    """
    rates, start = _parameters(rule, parameters)
    xp, dtype, (cues, outcomes) = sequence_arrays(cues=cues, outcomes=outcomes)
    rates = {name: limits(value) if name == "bounds" else rate(name, value, cues)
             for name, value in rates.items()}
    test, reset = marks("test", test, cues), marks("reset", reset, cues)
    batch = batch_shape(cues=cues, outcomes=outcomes, test=test, reset=reset, **rates,
                        state=memory_of(state))
    fresh = initial_state(rule, cues, outcomes, **start)
    now = fresh if state is None else state_like(fresh, state)
    states, predictions = [now], [xp.zeros(batch + outcomes.shape[-1:], dtype=cues.dtype)]
    for t in range(cues.shape[-2]):
        if reset is not None:
            now = _map_state(partial(xp.where, reset[..., t, :, None]), fresh, now)
        cue, outcome = cues[..., t, :, None], outcomes[..., t, None, :]
        predictions.append((cue * memory_of(now)).sum(-2))
        learned = rule(now, cue, outcome, **{
            name: value[..., t, :, None] if getattr(value, "ndim", 0) else value
            for name, value in rates.items()})
        now = learned if test is None else _map_state(
            partial(xp.where, test[..., t, :, None]), now, learned)
        if path:
            states.append(now)
    predictions = xp.stack(xp.broadcast_arrays(*predictions), -2)[..., 1:, :].astype(dtype)
    last = _map_state(lambda leaf, like: leaf.astype(
        like.dtype if dtype == cues.dtype else dtype), now, fresh)
    if not path:
        return predictions, last
    after = _map_state(lambda *leaves: xp.stack(xp.broadcast_arrays(*leaves), -3)[..., 1:, :, :],
                       *states)
    alpha = getattr(after, "associability", None)
    return predictions, last, Path(memory_of(after), alpha if alpha is None else alpha[..., 0])


def state_like(fresh, state):
    """The state in the dtypes of a fresh one; an error if its parts or last two axes differ."""
    def form(each):
        parts = getattr(each, "_asdict", lambda: {"memory": each})()
        return {name: real_array("state", leaf).shape[-2:] for name, leaf in parts.items()}
    if form(state) != form(fresh):
        wrong = ValueError if type(state) is type(fresh) else TypeError
        raise wrong(f"state must be {type(fresh).__name__} with (..., K, D) = {form(fresh)}, got "
                    f"{type(state).__name__} with {form(state)}")
    return _map_state(lambda like, leaf: 1 * array_like("state", leaf, like), fresh, state)


def _map_state(function, *states):
    """The function of corresponding leaves of states."""
    if isinstance(states[0], tuple):
        return type(states[0])(*map(function, *states))
    return function(*states)
