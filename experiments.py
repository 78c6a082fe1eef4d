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
from collections.abc import Callable
from pathlib import Path
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
