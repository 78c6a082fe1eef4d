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


# ------------------------------------------------------------------------------------- benchmark


# ---------------------------------------------------------------------------------- command line
