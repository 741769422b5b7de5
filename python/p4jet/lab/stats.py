"""Statistics of repeated runs: mean, spread, 95 % confidence intervals, and the comparison of two sets of runs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

_T_975 = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
"""Student's t for a two-sided interval of 95 %, for 1 to 30 degrees of freedom."""


def t_quantile(freedom: float) -> float:
    """Returns Student's t for a two-sided interval of 95 %.

    A fraction of a degree of freedom is ignored, which makes the interval a little wider. Raises :class:`ValueError` below 1.
    """
    if not freedom >= 1:
        raise ValueError(f"found {freedom} degrees of freedom, expected at least 1")
    if freedom < len(_T_975) + 1:
        return _T_975[int(freedom) - 1]
    # Cornish-Fisher expansion (Abramowitz and Stegun 26.7.5), exact to 0.001 from 30 degrees of freedom on.
    z = 1.959964
    return z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)


def mean(values: Sequence[float]) -> float:
    """Returns the arithmetic mean. Raises :class:`ValueError` without values."""
    _some(values)
    return math.fsum(values) / len(values)


def sd(values: Sequence[float]) -> float:
    """Returns the standard deviation of the sample (division by n - 1); 0 for a single value."""
    middle = mean(values)
    if len(values) == 1:
        return 0.0
    return math.sqrt(math.fsum((value - middle) ** 2 for value in values) / (len(values) - 1))


def percentile(values: Sequence[float], percent: float) -> float:
    """Returns a percentile, 0 to 100, with linear interpolation between the two nearest values, as NumPy does."""
    _some(values)
    if not 0 <= percent <= 100:
        raise ValueError(f"found percentile {percent}, expected 0 to 100")
    ordered = sorted(values)
    place = percent / 100 * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def median(values: Sequence[float]) -> float:
    """Returns the median."""
    return percentile(values, 50)


def confidence_interval(values: Sequence[float]) -> tuple[float, float] | None:
    """Returns the 95 % confidence interval of the mean by Student's t; ``None`` for fewer than two values."""
    if len(values) < 2:
        return None
    middle = mean(values)
    half = t_quantile(len(values) - 1) * sd(values) / math.sqrt(len(values))
    return middle - half, middle + half


@dataclass(frozen=True)
class Difference:
    """How much `b` differs from `a`: an estimate with its 95 % confidence interval."""

    kind: str
    """``"ratio"``: geometric mean of b divided by that of a. ``"difference"``: mean of b minus mean of a."""
    value: float
    low: float | None
    """Lower end of the interval; ``None`` if either side has fewer than two values."""
    high: float | None

    @property
    def is_shown(self) -> bool:
        """Whether the interval excludes equality: 1 for a ratio, 0 for a difference."""
        if self.low is None or self.high is None:
            return False
        equal = 1.0 if self.kind == "ratio" else 0.0
        return not self.low <= equal <= self.high

    @property
    def verdict(self) -> str:
        """``"higher"``, ``"lower"``, ``"no difference shown"`` or ``"too few runs"``."""
        if self.low is None:
            return "too few runs"
        if not self.is_shown:
            return "no difference shown"
        return "higher" if self.value > (1.0 if self.kind == "ratio" else 0.0) else "lower"


def difference(a: Sequence[float], b: Sequence[float]) -> Difference:
    """Compares two sets of runs.

    With positive values, this is the ratio of geometric means with Welch's t-interval on the logarithms. Rates and times vary by
    factors, so that their logarithms are nearer to a normal distribution than the values, and the interval of a ratio follows
    directly. A t-interval, not a bootstrap: resamples of six values spread too little, and such intervals are too narrow.
    If a value is 0 or negative (a loss can be 0), it is the difference of arithmetic means with Welch's t-interval.
    """
    _some(a)
    _some(b)
    if min(*a, *b) > 0:
        value, half = _welch([math.log(x) for x in a], [math.log(x) for x in b])
        ends = (None, None) if half is None else (math.exp(value - half), math.exp(value + half))
        return Difference("ratio", math.exp(value), *ends)
    value, half = _welch(a, b)
    return Difference("difference", value, *((None, None) if half is None else (value - half, value + half)))


def _welch(a: Sequence[float], b: Sequence[float]) -> tuple[float, float | None]:
    """Returns mean of b minus mean of a, and half of its 95 % interval, without the assumption of equal variances."""
    value = mean(b) - mean(a)
    if len(a) < 2 or len(b) < 2:
        return value, None
    parts = sd(a) ** 2 / len(a), sd(b) ** 2 / len(b)
    total = sum(parts)
    if total == 0:
        return value, 0.0
    freedom = total**2 / (parts[0] ** 2 / (len(a) - 1) + parts[1] ** 2 / (len(b) - 1))
    # Rounding can leave 0.999... where the formula's lower limit, the smaller sample's degrees of freedom, is 1.
    return value, t_quantile(max(freedom, 1.0)) * math.sqrt(total)


def _some(values: Sequence[float]) -> None:
    if len(values) == 0:
        raise ValueError("found no values, expected at least one")
