"""The error function and its complement on numpy arrays, which numpy lacks: Cephes' ndtr.c (S. Moshier), in float64."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tensorgrad.dialects.tg.base import NumpyArray

ERF_NUMERATOR = (
    9.60497373987051638749,
    9.00260197203842689217e1,
    2.23200534594684319226e3,
    7.00332514112805075473e3,
    5.55923013010394962768e4,
)
ERF_DENOMINATOR = (
    1.0,
    3.35617141647503099647e1,
    5.21357949780152679795e2,
    4.59432382970980127987e3,
    2.26290000613890934246e4,
    4.92673942608635921086e4,
)
ERFC_NUMERATOR = (
    2.46196981473530512524e-10,
    5.64189564831068821977e-1,
    7.46321056442269912687,
    4.86371970985681366614e1,
    1.96520832956077098242e2,
    5.26445194995477358631e2,
    9.34528527171957607540e2,
    1.02755188689515710272e3,
    5.57535335369399327526e2,
)
ERFC_DENOMINATOR = (
    1.0,
    1.32281951154744992508e1,
    8.67072140885989742329e1,
    3.54937778887819891062e2,
    9.75708501743205489753e2,
    1.82390916687909736289e3,
    2.24633760818710981792e3,
    1.65666309194161350182e3,
    5.57535340817727675546e2,
)
"""For 1 <= x < 8, `erfc(x) exp(x * x)` is the ratio of these polynomials; highest power first, here and below."""
ERFC_TAIL_NUMERATOR = (
    5.64189583547755073984e-1,
    1.27536670759978104416,
    5.01905042251180477414,
    6.16021097993053585195,
    7.40974269950448939160,
    2.97886665372100240670,
)
ERFC_TAIL_DENOMINATOR = (
    1.0,
    2.26052863220117276590,
    9.39603524938001434673,
    1.20489539808096656605e1,
    1.70814450747565897222e1,
    9.60896809063285878198,
    3.36907645100081516050,
)
"""The same from 8 on."""


def _ratio(x: NumpyArray, numerator: Sequence[float], denominator: Sequence[float]) -> NumpyArray:
    return np.polyval(numerator, x) / np.polyval(denominator, x)


def _erfc_from_one(size: NumpyArray) -> NumpyArray:
    """Erfc of numbers from 1 on. The square's rounding error, which exp would amplify, is split off."""
    z = np.minimum(size, 28.0)
    coarse = np.floor(z * 16) / 16
    power = np.exp(-coarse * coarse) * np.exp((coarse - z) * (coarse + z))
    near = _ratio(z, ERFC_NUMERATOR, ERFC_DENOMINATOR)
    return power * np.where(z < 8, near, _ratio(z, ERFC_TAIL_NUMERATOR, ERFC_TAIL_DENOMINATOR))


def _erf_to_one(x: NumpyArray) -> NumpyArray:
    return x * _ratio(x * x, ERF_NUMERATOR, ERF_DENOMINATOR)


def erf(x: NumpyArray) -> NumpyArray:
    """The error function within 2 ulp of float64."""
    wide = np.asarray(x, np.float64)
    size = np.abs(wide)
    large = np.copysign(1 - _erfc_from_one(size), wide)
    return np.asarray(np.where(size > 1, large, _erf_to_one(np.clip(wide, -1, 1))))


def erfc(x: NumpyArray) -> NumpyArray:
    """One minus the error function, within 8 ulp of float64 in its tail too."""
    wide = np.asarray(x, np.float64)
    tail = _erfc_from_one(np.abs(wide))
    return np.asarray(np.where(wide > 1, tail, np.where(wide < -1, 2 - tail, 1 - _erf_to_one(np.clip(wide, -1, 1)))))
