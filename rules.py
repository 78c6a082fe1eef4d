"""Learning theory: the classical rules of associative learning, trial by trial.

Every rule is `rule(state, cue, outcome, *, parameters) -> state` and does one trial. `learn` runs
a rule over all trials. Nothing here knows about attention: `conditioning.py` writes the same
models a second time, as attention, and the tests hold the two against each other.

Glossary (one name for one thing, in every file)
    ...            any leading batch axes (seeds, groups, settings, heads); no function depends on
                   how many there are
    T, K, D        trials; cues (features of a cue); outcomes (features of an outcome)
    cues           (..., T, K)  what is presented, the conditioned stimuli (CS); one trial: `cue`
    outcomes       (..., T, D)  what follows, the unconditioned stimuli (US); 0 where it is omitted
    memory, W      (..., K, D)  association matrix; x_i W[i, j] is the associative strength V of
                   cue i for outcome j: W[i, j] itself where the salience of the cue is 1
    prediction     (..., D)     what the memory answers to the cue before the trial is learned
    error          (..., D)     outcome - prediction
    beta           learning rate: Rescorla & Wagner's beta (their alpha is the salience, below),
                   DeltaNet's beta
    decay          fraction of the memory that is kept from one trial to the next, 0 to 1
    associability  (..., K)     learning rate of each feature that the rule itself maintains
    eta, theta     speed at which the associability moves
    lambda         asymptote that the US supports: here simply the outcome

Rates and decays are numbers, or arrays with one axis fewer than the cues (one value a trial), or
with as many axes as the cues (one value a trial and feature; an axis of length 1 is shared). The
number of axes decides, never the sizes.

Salience: the delta rule's step is the squared length of the cue, so a cue of salience alpha is a
feature of size sqrt(alpha). A compound AB is the sum of the features of A and B.

Stability: error correction converges for 0 < beta |cue|^2 < 2 (a compound counts with its own
length; associability multiplies beta). Rules do not check it: a check would wait for the device.
"""

import inspect
import sys
from typing import Any, NamedTuple

import numpy as np

# ------------------------------------------------------------------ arrays, on whatever device


def array_module(*arrays):
    """The namespace that owns the arrays, numpy or cupy (or another that does what they do).

    Python and NumPy numbers, and lists of numbers, belong to no one and go along with any owner.
    TypeError if the arrays have two owners, or if something is not an array at all.
    """
    owners = {}
    for array in arrays:
        if array is None or isinstance(array, (bool, int, float, list, tuple, np.generic)):
            continue
        if hasattr(array, "__array_namespace__"):
            owner = array.__array_namespace__()
        else:
            owner = sys.modules[type(array).__module__.partition(".")[0]]
            if not hasattr(owner, "asarray"):
                raise TypeError(f"expected an array or a number, got {type(array).__name__}")
        owners[owner.__name__] = owner
    if len(owners) > 1:
        raise TypeError(f"arrays of {' and '.join(sorted(owners))} are mixed: move them to one "
                        "device first")
    return next(iter(owners.values()), np)


def common_arrays(**arrays):
    """(xp, arrays...): the named arguments as arrays of one floating dtype, in the given order.

    The dtype is the widest floating dtype among them, float64 if all are integers. A number or a
    list does not widen it. TypeError for complex numbers, text or objects, and for two owners.
    """
    xp = array_module(*arrays.values())
    values = [xp.asarray(array) for array in arrays.values()]
    for name, value in zip(arrays, values, strict=True):
        if value.dtype.kind not in "fiub":
            raise TypeError(f"{name} must be real numbers, got dtype {value.dtype}")
    typed = [value.dtype for value, given in zip(values, arrays.values(), strict=True)
             if hasattr(given, "dtype") and value.dtype.kind == "f"]
    dtype = xp.result_type(*typed) if typed else np.dtype(float)
    return xp, *(value.astype(dtype, copy=False) for value in values)


def like(name, value, array):
    """A value as an array of the owner and dtype of `array`; TypeError if it is not real."""
    value = array_module(array, value).asarray(value)
    if value.dtype.kind not in "fiub":
        raise TypeError(f"{name} must be real numbers, got dtype {value.dtype}")
    return value.astype(array.dtype, copy=False)


def per_feature(name, parameter, cues):
    """A rate or decay that multiplies cues (..., K): a number, or an array (..., 1) or (..., K).

    An array with one axis fewer than the cues has one value a trial, one with as many axes has
    one value a feature. ValueError for any other shape, TypeError for what is not a real number.
    """
    if isinstance(parameter, (bool, int, float, np.floating, np.integer)):
        return float(parameter)
    parameter = like(name, parameter, cues)
    if parameter.ndim == 0:
        parameter = parameter.reshape((1,) * cues.ndim)
    elif parameter.ndim == cues.ndim - 1:
        parameter = parameter[..., None]
    elif parameter.ndim != cues.ndim or parameter.shape[-1] not in (1, cues.shape[-1]):
        raise ValueError(f"{name} must be a number or have {cues.ndim - 1} axes (one value a trial)"
                         f" or {cues.ndim} (one a feature) for cues of shape {cues.shape}, "
                         f"got shape {parameter.shape}")
    return parameter


def per_trial(name, parameter, cues):
    """`per_feature` for cues (..., T, K), as an array (..., 1, 1) to (..., T, K).

    ValueError also if it has neither one value for all trials nor T.
    """
    xp, T = array_module(cues), cues.shape[-2]
    rate = per_feature(name, parameter, cues)
    if isinstance(rate, float):
        return xp.full((1, 1), rate, dtype=cues.dtype)
    if rate.shape[-2] not in (1, T):
        raise ValueError(f"{name} must have one value or one for each of the {T} trials for cues "
                         f"of shape {cues.shape}, got shape {np.shape(parameter)}")
    return rate


def batch_shape(core=2, **arrays):
    """The batch axes that named arrays broadcast to, all but the last `core` axes of each."""
    shapes = {name: array.shape[:-core] for name, array in arrays.items()}
    try:
        return np.broadcast_shapes(*shapes.values())
    except ValueError:
        raise ValueError("batch axes do not broadcast: " + ", ".join(
            f"{name} {shape}" for name, shape in shapes.items())) from None


def limits(bounds):
    """(low, high) as two floats; ValueError if bounds are not two numbers in order."""
    try:
        low, high = map(float, bounds)
    except (TypeError, ValueError):
        low, high = 1.0, 0.0
    if not low <= high:
        raise ValueError(f"bounds must be two numbers, low and high, got {bounds!r}")
    return low, high


def outer(cue, outcome):
    """Outer product x v^T: (..., K), (..., D) -> (..., K, D)."""
    return cue[..., :, None] * outcome[..., None, :]


def recall(memory, cues):
    """What the memory answers to cues, W^T x.

    memory (..., K, D) with one cue (..., K) gives (..., D); with cues (..., T, K) it gives
    (..., T, D). The number of axes decides: one axis fewer than the memory is one cue.
    ValueError if the cues do not have the memory's K features.
    """
    xp, memory, cues = common_arrays(memory=memory, cues=cues)
    if memory.ndim < 2 or cues.ndim < 1 or cues.shape[-1] != memory.shape[-2]:
        raise ValueError(f"memory (..., K, D) and cues (..., K) do not match: got shapes "
                         f"{memory.shape} and {cues.shape}")
    return _prediction(memory, cues) if cues.ndim < memory.ndim else cues @ memory


def _prediction(memory, cue):
    """W^T x for one cue a memory: (..., K, D), (..., K) -> (..., D)."""
    return array_module(cue).sum(cue[..., :, None] * memory, axis=-2)


def _trial(memory, cue, outcome, **rates):
    """memory, cue, outcome and rates of one trial, in one dtype, with their shapes checked."""
    _, memory, cue, outcome = common_arrays(memory=memory, cue=cue, outcome=outcome)
    if memory.ndim < 2 or cue.shape[-1:] != memory.shape[-2:-1]:
        raise ValueError(f"cue must be (..., K) for a memory (..., K, D): got shapes {cue.shape} "
                         f"and {memory.shape}")
    if outcome.shape[-1:] != memory.shape[-1:]:
        raise ValueError(f"outcome must be (..., D) for a memory (..., K, D): got shapes "
                         f"{outcome.shape} and {memory.shape}")
    rates = [per_feature(name, rate, cue) for name, rate in rates.items()]
    return memory, cue, outcome, *rates


def _decayed(memory, decay):
    """decay * memory; the memory as it is where decay is the number 1 (saves a pass over it)."""
    return memory if isinstance(decay, float) and decay == 1 else _column(decay) * memory


def _column(rate):
    """A rate for features (..., K) as a rate for the rows of a memory (..., K, D)."""
    return rate if isinstance(rate, float) else rate[..., None]


def _size(vector):
    """Euclidean length over the last axis, without overflow: (..., D) -> (...)."""
    xp = array_module(vector)
    scale = xp.sum(xp.abs(vector), axis=-1)
    unit = vector / xp.where(scale > 0, scale, 1)[..., None]
    return scale * xp.sqrt(xp.sum(unit * unit, axis=-1))


def _associability(old, speed, pull, bounds):
    """old + speed * pull within the bounds, and old where the speed is 0: absent features."""
    moved = array_module(speed).clip(old + speed * pull, *limits(bounds))
    return array_module(speed).where(speed != 0, moved, old)


def _shared(name, rate):
    """A rate that is one for all features; ValueError if it is given for each."""
    if not isinstance(rate, float) and rate.shape[-1] != 1:
        raise ValueError(f"{name} is one value for all features, got {rate.shape[-1]}")
    return rate


# --------------------------------------------------------------------------------------- states


class TraceState(NamedTuple):
    """State of `stimulus_trace`: memory (..., K, D), trace of the cues (..., K)."""

    memory: Any
    trace: Any


class AssociabilityState(NamedTuple):
    """State of `mackintosh` and `pearce_hall`: memory (..., K, D), associability (..., K)."""

    memory: Any
    associability: Any


class ExcitationInhibitionState(NamedTuple):
    """State of `pearce_kaye_hall`: excitation, inhibition (..., K, D), associability (..., K)."""

    excitation: Any
    inhibition: Any
    associability: Any

    @property
    def memory(self):
        """Net associative strength, excitation less inhibition."""
        return self.excitation - self.inhibition


class KalmanState(NamedTuple):
    """State of `kalman`: memory (..., K, D), covariance of the strengths (..., K, K)."""

    memory: Any
    covariance: Any


class TemporalDifferenceState(NamedTuple):
    """State of `temporal_difference`: memory (..., K, D), trace and the last cue (..., K)."""

    memory: Any
    trace: Any
    cue: Any


def memory_of(state):
    """The association matrix of any rule's state."""
    return getattr(state, "memory", state)


def initial_state(rule, cues, outcomes, **start):
    """State of a rule before the first trial of cues (..., T, K) and outcomes (..., T, D).

    The memory is 0. A rule that needs more says so in its attribute `start`, a function
    (memory, **start) -> state; `associability=1` or `prior=1`, a number or an array (..., K), are
    then set here. TypeError for a start value that the rule does not have.
    """
    xp, cues, outcomes = common_arrays(cues=cues, outcomes=outcomes)
    _trials(cues, outcomes)
    batch_shape(cues=cues, outcomes=outcomes)
    cue, outcome = xp.zeros_like(cues[..., :1, :]), xp.zeros_like(outcomes[..., :1, :])
    # Made from the cues, the memory has their order in memory: batch-last cues learn much faster.
    memory = xp.sum(outer(cue, outcome), axis=-3)
    return _started(rule, memory, start)


def _started(rule, memory, start):
    if not callable(rule):
        raise TypeError(f"rule must be a function, such as {', '.join(RULES)}; got {rule!r}")
    make = getattr(getattr(rule, "func", rule), "start", lambda memory: memory)
    allowed = list(inspect.signature(make).parameters)[1:]
    unknown = sorted(set(start) - set(allowed))
    if unknown:
        raise TypeError(f"{_name(rule)} has no start value {', '.join(unknown)}; "
                        f"allowed: {', '.join(allowed) or 'none'}")
    return make(memory, **start)


def _name(rule):
    """The name of a rule, also of one whose parameters are partly set."""
    return getattr(getattr(rule, "func", rule), "__name__", repr(rule))


def _each_cue(name, value, memory):
    """A start value of each cue (..., K): a number, or an array whose last axis is K or 1."""
    zero, value = memory.sum(axis=-1), like(name, value, memory)
    if value.ndim and value.shape[-1] not in (1, memory.shape[-2]):
        raise ValueError(f"{name} must be a number or an array (..., K) with K = "
                         f"{memory.shape[-2]}, got shape {value.shape}")
    return zero + value


def _start_trace(memory):
    return TraceState(memory, memory.sum(axis=-1))


def _start_temporal_difference(memory):
    return TemporalDifferenceState(memory, memory.sum(axis=-1), memory.sum(axis=-1))


def _start_associability(memory, associability=1.0):
    return AssociabilityState(memory, _each_cue("associability", associability, memory))


def _start_excitation_inhibition(memory, associability=1.0):
    value = _each_cue("associability", associability, memory)
    return ExcitationInhibitionState(memory, array_module(memory).zeros_like(memory), value)


def _start_kalman(memory, prior=1.0):
    identity = array_module(memory).eye(memory.shape[-2], dtype=memory.dtype)
    return KalmanState(memory, _each_cue("prior", prior, memory)[..., None] * identity)


# ---------------------------------------------------------------------------------------- rules


def hebbian(state, cue, outcome, *, beta, decay=1.0):
    """Contiguity: W <- decay W + beta x v^T (Hebb 1949; with decay < 1 the association fades).

    The association decays with the time since the pairing, as in retention (Sun et al. 2023,
    sec. 2.1). With decay 1 the memory grows without bound and nothing is ever unlearned.
    state: memory (..., K, D); cue (..., K); outcome (..., D).
    """
    memory, cue, outcome, beta, decay = _trial(state, cue, outcome, beta=beta, decay=decay)
    return _decayed(memory, decay) + outer(beta * cue, outcome)


def stimulus_trace(state, cue, outcome, *, beta, trace):
    """Hebbian learning on a stimulus trace: m <- trace m + x, W <- W + beta m v^T.

    The eligibility trace of a cue outlasts it (Hull 1943; Sutton & Barto 1981), so that a
    cue can be paired with an outcome of a later trial. Departure: the trace is not scaled by
    (1 - trace). state: TraceState; cue (..., K); outcome (..., D); trace 0 to 1.
    """
    memory, cue, outcome, beta, trace = _trial(state.memory, cue, outcome, beta=beta, trace=trace)
    traced = trace * state.trace + cue
    return TraceState(memory + outer(beta * traced, outcome), traced)


def bush_mosteller(state, cue, outcome, *, beta):
    """Each cue corrects its own error: dW_i = beta x_i (v - x_i W_i) (Bush & Mosteller 1951).

    Error correction without a shared prediction, hence without competition between cues.
    Departure: strengths, not response probabilities. state: memory (..., K, D); cue (..., K);
    outcome (..., D).
    """
    memory, cue, outcome, beta = _trial(state, cue, outcome, beta=beta)
    own_error = outcome[..., None, :] - cue[..., None] * memory
    return memory + (beta * cue)[..., None] * own_error


def rescorla_wagner(state, cue, outcome, *, beta, beta_omitted=None, decay=1.0):
    """All present cues share one error: W <- decay W + beta x e^T, e = v - (decay W)^T x.

    Rescorla & Wagner (1972): dV_i = alpha_i beta (lambda - sum V), with x_i =
    sqrt(alpha_i). beta_omitted is the rate for each outcome that is 0 on the trial (None: the
    same rate). Departure: decay (first the decay, then the error on what is left) is not in the
    source; 1 is the source's rule. state: memory (..., K, D); cue (..., K); outcome (..., D).
    """
    memory, cue, outcome, beta, decay = _trial(state, cue, outcome, beta=beta, decay=decay)
    memory = _decayed(memory, decay)
    error = outcome - _prediction(memory, cue)
    change = outer(beta * cue, error)
    if beta_omitted is not None:
        omitted = outer(per_feature("beta_omitted", beta_omitted, cue) * cue, error)
        change = array_module(cue).where(outcome[..., None, :] == 0, omitted, change)
    return memory + change


def oja(state, cue, outcome, *, beta):
    """Hebb with a bound: dW = beta (x v^T - W diag(v^2)) (Oja 1982), the US clamping v.

    It predicts the cue from the outcome: the response to a trained cue tends to |x|^2 / v, and an
    omitted outcome changes nothing, so nothing is extinguished. Bounded by max |x| / |v| for
    beta v^2 <= 1, unstable above beta v^2 = 2. Departure: v is the outcome, not the unit's own
    output. state: memory (..., K, D); cue (..., K); outcome (..., D).
    """
    memory, cue, outcome, beta = _trial(state, cue, outcome, beta=beta)
    target = outcome[..., None, :]
    return memory + _column(beta) * (cue[..., None] * target - memory * target**2)


def mackintosh(state, cue, outcome, *, beta, theta, bounds=(0.1, 1.0)):
    """Attention goes to the best predictor (Mackintosh 1975; linear form, Le Pelley et al. 2016).

    dW_i = alpha_i beta x_i (v - x_i W_i), and alpha_i rises when cue i predicts better than the
    others: dalpha_i = theta x_i^2 (|v - sum_{k != i} x_k W_k| - |v - x_i W_i|), W from before the
    trial, alpha clipped to `bounds`. theta is the speed of alpha (Mackintosh's theta is the
    learning rate, here beta). Departures: a cue that predicts as well as the others keeps its alpha
    (in 1975 it loses some, which gives latent inhibition); |.| is the length over all outcomes.
    state: AssociabilityState; cue (..., K); outcome (..., D).
    """
    memory, cue, outcome, beta, theta = _trial(state.memory, cue, outcome, beta=beta, theta=theta)
    alpha = state.associability
    own = cue[..., None] * memory
    others = _prediction(memory, cue)[..., None, :] - own
    own_error, others_error = outcome[..., None, :] - own, outcome[..., None, :] - others
    advantage = _size(others_error) - _size(own_error)
    return AssociabilityState(memory + (alpha * beta * cue)[..., None] * own_error,
                              _associability(alpha, theta * cue**2, advantage, bounds))


def pearce_hall(state, cue, outcome, *, beta, eta, bounds=(0.0, 1.0)):
    """Surprise opens learning: a delta step whose rate is an associability that follows |error|.

    W <- W + beta (alpha * x) e^T, e = v - W^T x, then for the features present
    alpha_i <- alpha_i + eta x_i^2 (|e| - alpha_i), clipped to `bounds`: the associability of
    Pearce & Hall (1980, eta = 1: |e| of the last trial) and Pearce, Kaye & Hall (1982, eta < 1: a
    running average) with a signed error (the hybrid of Li et al. 2011). The associability used on a
    trial is the one from before it; absent features keep theirs. Departures: Pearce & Hall learn by
    alpha lambda without the error's sign; x_i^2 is the salience; |.| is the length over all
    outcomes; the clip keeps the rate from running away when |e| > 1.
    Stable for beta sum alpha_i x_i^2 < 2 and eta x_i^2 <= 1.
    state: AssociabilityState; cue (..., K); outcome (..., D).
    """
    memory, cue, outcome, beta, eta = _trial(state.memory, cue, outcome, beta=beta, eta=eta)
    alpha = state.associability
    error = outcome - _prediction(memory, cue)
    surprise = _size(error)[..., None] - alpha
    return AssociabilityState(memory + outer(beta * alpha * cue, error),
                              _associability(alpha, eta * cue**2, surprise, bounds))


def pearce_kaye_hall(state, cue, outcome, *, beta_excitatory, beta_inhibitory, eta, salience=1.0,
                     bounds=(0.0, 1.0)):
    """Excitation and inhibition apart (Pearce, Kaye & Hall 1982).

    e = v - sum x (E - I). Where e > 0: dE_i = x_i S beta_excitatory alpha_i v; where e < 0:
    dI_i = x_i S beta_inhibitory alpha_i |e|; then alpha_i <- (1 - eta) alpha_i + eta |e| for the
    cues present, clipped to `bounds`; the old alpha is used first. Outcomes are 0 or more.
    Departure: each outcome has its own sign, alpha the length over all.
    state: ExcitationInhibitionState; cue (..., K); outcome (..., D).
    """
    memory, cue, outcome, excitatory, inhibitory, eta, salience = _trial(
        state.memory, cue, outcome, beta_excitatory=beta_excitatory,
        beta_inhibitory=beta_inhibitory, eta=eta, salience=salience)
    alpha = state.associability
    error = outcome - _prediction(memory, cue)
    intensity = salience * alpha * cue
    speed = eta * array_module(cue).abs(array_module(cue).sign(cue))
    return ExcitationInhibitionState(
        state.excitation + outer(excitatory * intensity, outcome * (error > 0)),
        state.inhibition + outer(inhibitory * intensity, -error * (error < 0)),
        _associability(alpha, speed, _size(error)[..., None] - alpha, bounds))


def kalman(state, cue, outcome, *, noise=1.0, drift=0.0):
    """Learning as inference: the Kalman filter of the strengths (Dayan & Kakade 2001).

    C <- C + drift I, g = C x / (x^T C x + noise), W <- W + g e^T, C <- C - g x^T C (Gershman
    2015). Without drift it is batch ridge regression with ridge noise / prior.
    noise > 0: variance of an outcome, one value for all features; drift >= 0: variance that a
    strength gains a trial.
    state: KalmanState; cue (..., K); outcome (..., D).
    """
    memory, cue, outcome, noise, drift = _trial(state.memory, cue, outcome, noise=noise,
                                                drift=drift)
    identity = array_module(cue).eye(cue.shape[-1], dtype=cue.dtype)
    covariance = state.covariance + _column(drift) * identity
    spread = _prediction(covariance, cue)
    gain = spread / (_prediction(spread[..., None], cue) + _shared("noise", noise))
    return KalmanState(memory + outer(gain, outcome - _prediction(memory, cue)),
                       covariance - outer(gain, spread))


def temporal_difference(state, cue, outcome, *, beta, trace, discount=1.0):
    """The error is the surprise from one time step to the next, and cues keep a trace.

    e = v + discount W^T x - W^T x', W <- W + beta m e^T, m <- discount trace m + x, with x' and m
    from before the step: TD(lambda) (Sutton & Barto 1990; 2018, eq. 12.5-12.7), trace = lambda,
    discount = gamma. One call is one time step: a trial is several, its cues in turn and then an
    empty step with the outcome, and trace 0 on the trial's last step parts it from the next
    (`conditioning.time_steps`, `trial_trace`). The prediction of a step is W^T x, of the
    discounted outcomes to come. With two steps a trial it is Rescorla-Wagner.
    state: TemporalDifferenceState; cue (..., K); outcome (..., D); trace and discount 0 to 1, the
    discount one value for all features.
    """
    memory, cue, outcome, beta, trace, discount = _trial(
        state.memory, cue, outcome, beta=beta, trace=trace, discount=discount)
    discounted = _shared("discount", discount) * _prediction(memory, cue)
    error = outcome + discounted - _prediction(memory, state.cue)
    return TemporalDifferenceState(memory + outer(beta * state.trace, error),
                                   discount * trace * state.trace + cue, cue)


def exemplar_responses(probes, cues, outcomes, *, scale, stored):
    """Mean of the stored outcomes, weighted by similarity: responses (..., Q, D) to probes.

    sum_s s_qs v_s / sum_s s_qs, s_qs = exp(scale probe_q . cue_s): an exemplar model (Medin &
    Schaffer 1978; Nosofsky 1986). Departure: similarity falls with the inner product, not the
    distance; for cues of equal length it is the Gaussian one. probes (..., Q, K), cues (..., T, K),
    outcomes (..., T, D), stored (..., Q, T): which trials a probe finds; the answer is 0 if none.
    """
    xp, probes, cues, outcomes = common_arrays(probes=probes, cues=cues, outcomes=outcomes)
    match = xp.where(stored, scale * (probes @ xp.swapaxes(cues, -1, -2)), -xp.inf)
    closest = xp.max(match, axis=-1, keepdims=True)
    similarity = xp.exp(match - xp.where(closest > -xp.inf, closest, 0))
    total = xp.sum(similarity, axis=-1, keepdims=True)
    return (similarity / xp.where(total > 0, total, 1)) @ outcomes


stimulus_trace.start = _start_trace
mackintosh.start = _start_associability
pearce_hall.start = _start_associability
pearce_kaye_hall.start = _start_excitation_inhibition
kalman.start = _start_kalman
temporal_difference.start = _start_temporal_difference

RULES = {rule.__name__: rule for rule in (
    hebbian, stimulus_trace, bush_mosteller, rescorla_wagner, oja, mackintosh, pearce_hall,
    pearce_kaye_hall, kalman, temporal_difference)}


# ---------------------------------------------------------------------------------- all trials


def learn(rule, cues, outcomes, *, state=None, test=None, **parameters):
    """Run a rule over all trials: (predictions (..., T, D), state after the last trial).

    cues (..., T, K), outcomes (..., T, D). `state` starts it (None: `initial_state`) and is what
    the call returns, so that phases chain. `test` (..., T) marks trials on which nothing at all
    changes: no learning, no decay, no drift, no associability. Parameters are the rule's own, as
    numbers or one value a trial or a trial and feature; axes of the batch broadcast.

    predictions are (decay W)^T x with W from before the trial (no decay on a test trial), so that
    outcomes - predictions is the error that an error-correcting rule uses.
    ValueError for shapes that do not match, TypeError for parameters that the rule does not have.
    """
    state = initial_state(rule, cues, outcomes) if state is None else state
    parameters = _all_parameters(rule, parameters)
    xp, cues, outcomes, memory = common_arrays(cues=cues, outcomes=outcomes,
                                               memory=memory_of(state))
    T = _trials(cues, outcomes)
    fixed = {name: value for name, value in parameters.items()
             if name == "bounds" or isinstance(value, (type(None), int, float, np.generic))}
    rates = {name: per_trial(name, value, cues) for name, value in parameters.items()
             if name not in fixed}
    held = array_module(cues, test).asarray(False if test is None else test)
    if held.ndim and held.shape[-1] not in (1, T):
        raise ValueError(f"test must mark each of the {T} trials, got shape {held.shape}")
    held = held.reshape(held.shape or (1,))[..., None]
    batch = batch_shape(cues=cues, outcomes=outcomes, state=memory, test=held, **rates)
    zeros = xp.zeros((cues.shape[-1], outcomes.shape[-1]), dtype=cues.dtype)
    state = _full_state(rule, state, zeros, batch, cues)
    cues, outcomes, held = (xp.broadcast_to(a, batch + (T, a.shape[-1]))
                            for a in (cues, outcomes, held))
    rates = {name: xp.broadcast_to(rate, batch + (T, rate.shape[-1]))
             for name, rate in rates.items()}
    predictions = xp.empty((T,) + batch + outcomes.shape[-1:], dtype=cues.dtype)
    for t in range(T):
        cue, outcome, before = cues[..., t, :], outcomes[..., t, :], memory_of(state)
        now = fixed | {name: rate[..., t, :] for name, rate in rates.items()}
        decayed = _decayed(before, per_feature("decay", now.get("decay", 1.0), cue))
        learned = rule(state, cue, outcome, **now)
        if test is not None:
            decayed = xp.where(held[..., t, :, None], before, decayed)
            learned = _unchanged_where(held[..., t, :], state, learned)
        predictions[t], state = _prediction(decayed, cue), learned
    return xp.moveaxis(predictions, 0, -2), state


def _trials(cues, outcomes):
    """T, the number of trials that cues and outcomes must share."""
    if cues.ndim < 2 or outcomes.ndim < 2 or cues.shape[-2] != outcomes.shape[-2]:
        raise ValueError(f"cues must be (..., T, K) and outcomes (..., T, D) with the same number "
                         f"of trials T, got shapes {cues.shape} and {outcomes.shape}")
    return cues.shape[-2]


def _all_parameters(rule, given):
    """The rule's parameters, defaults filled in; TypeError names the unknown and the missing."""
    parameters = list(inspect.signature(rule).parameters.values())[3:]
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return given
    known = {parameter.name: parameter.default for parameter in parameters}
    unknown = [name for name in given if name not in known]
    missing = [name for name, default in known.items()
               if default is inspect.Parameter.empty and name not in given]
    if unknown or missing:
        problem = f"has no {unknown[0]}" if unknown else f"needs {missing[0]}"
        raise TypeError(f"{_name(rule)} {problem}; its parameters: {', '.join(known) or 'none'}")
    return known | given


def _full_state(rule, state, memory, batch, cues):
    """A copy of the state with full batch axes and the cues' dtype; an error if it is another kind.

    memory: zeros (K, D), for which the rule starts a state of the right kind and shapes.
    """
    xp, expected = array_module(cues), _started(rule, memory, {})

    def full(name, field, example):
        field = like(name, field, cues)
        core = example.shape
        try:
            if field.shape[max(field.ndim - len(core), 0):] == core:
                return xp.array(xp.broadcast_to(field, batch + core))
        except ValueError:
            pass  # its batch axes do not fit
        raise ValueError(f"{name} must be (..., {', '.join(map(str, core))}), broadcast to batch "
                         f"axes {batch}, for cues of shape {cues.shape}; got shape {field.shape}")
    if not isinstance(expected, tuple):
        if isinstance(state, tuple):
            raise TypeError(f"state of {_name(rule)} must be an array (..., K, D), got "
                            f"{type(state).__name__}")
        return full("state", state, expected)
    if not isinstance(state, type(expected)):
        raise TypeError(f"state of {_name(rule)} must be {type(expected).__name__}"
                        f"{expected._fields}, got {type(state).__name__}")
    return type(expected)(*map(full, expected._fields, state, expected))


def _unchanged_where(held, before, after):
    """State after a trial, but as before it where held (..., 1) is true."""
    if isinstance(after, tuple):
        return type(after)(*(_unchanged_where(held, *pair)
                             for pair in zip(before, after, strict=True)))
    held = held.reshape(held.shape[:-1] + (1,) * (after.ndim - held.ndim + 1))
    return array_module(after).where(held, before, after)
