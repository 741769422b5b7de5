"""Integer linear programs whose rows belong to named groups, solved by HiGHS."""

from __future__ import annotations

import importlib
import math
import os
import re
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .errors import PlaceError

MIP_FEASIBILITY = 1e-7
"""By how much a row may be violated and a value differ from a whole number. Smaller than the tolerance of delay bounds."""

STRUCTURE = ("5.6", "5.8", "5.16", "5.17", "5.24", "5.25", "5.28", "5.29", "order")
"""Groups that say what a placement is. The others say what is allowed."""


@dataclass(frozen=True)
class Solution:
    """What the solver found."""

    status: str
    """``optimal``, ``infeasible``, ``time limit``, or another word of HiGHS."""
    values: Sequence[float]
    """Of each column; empty without a solution."""
    objective: float
    bound: float
    """No solution has a smaller objective."""
    seconds: float


@dataclass(frozen=True)
class Conflict:
    """Why a model has no solution."""

    groups: list[str]
    """Groups of rows that, with those of :data:`STRUCTURE`, have no common solution; without any one of them there is one. Of STRUCTURE itself
    if that has no solution."""
    is_minimal: bool
    """False if the time was over before every group had been tried."""
    remedies: dict[str, list[tuple[str, float]]]
    """For each of these groups whose rows alone could give way: which rows would have to, and by how much. The sum, each row relative to its
    bound, is the least possible. Groups for which the time did not suffice are missing."""


@dataclass
class Model:
    """A model to minimise. Columns and rows are added in any order."""

    names: list[str] = field(default_factory=list)
    costs: list[float] = field(default_factory=list)
    lows: list[float] = field(default_factory=list)
    highs: list[float] = field(default_factory=list)
    integers: list[bool] = field(default_factory=list)
    offset: float = 0.0
    """Added to the objective."""
    row_names: list[str] = field(default_factory=list)
    row_groups: list[str] = field(default_factory=list)
    row_lows: list[float] = field(default_factory=list)
    row_highs: list[float] = field(default_factory=list)
    starts: list[int] = field(default_factory=lambda: [0])
    columns: list[int] = field(default_factory=list)
    factors: list[float] = field(default_factory=list)

    def add(self, name: str, *, cost: float = 0.0, low: float = 0.0, high: float = 1.0, is_integer: bool = True) -> int:
        """Adds a column, by default a binary one, and returns its number."""
        self.names.append(name)
        self.costs.append(cost)
        self.lows.append(low)
        self.highs.append(high)
        self.integers.append(is_integer)
        return len(self.names) - 1

    def row(self, group: str, name: str, terms: Iterable[tuple[int, float]], *, low: float = -math.inf, high: float = math.inf) -> None:
        """Adds a row: low ≤ Σ factor·column ≤ high. A column may occur in several terms."""
        sums: dict[int, float] = {}
        for column, factor in terms:
            sums[column] = sums.get(column, 0.0) + factor
        self.row_names.append(name)
        self.row_groups.append(group)
        self.row_lows.append(low)
        self.row_highs.append(high)
        for column, factor in sums.items():
            if factor:
                self.columns.append(column)
                self.factors.append(factor)
        self.starts.append(len(self.columns))

    def solve(self, *, seconds: float, gap: float = 0.0) -> Solution:
        """Solves the model. Raises :class:`PlaceError` if HiGHS is missing or refuses the model."""
        begin = time.perf_counter()
        highs = self._highs()
        highs.setOptionValue("time_limit", float(seconds))
        highs.setOptionValue("mip_rel_gap", float(gap))
        highs.setOptionValue("mip_abs_gap", 1e-6)
        highs.setOptionValue("mip_feasibility_tolerance", MIP_FEASIBILITY)
        highs.setOptionValue("threads", 1)
        highs.run()
        status = highs.modelStatusToString(highs.getModelStatus()).lower()
        status = {"time limit reached": "time limit", "primal infeasible or unbounded": "infeasible"}.get(status, status)
        info = highs.getInfo()
        # 2: there is a feasible solution.
        values = list(highs.getSolution().col_value) if info.primal_solution_status == 2 else []
        objective = info.objective_function_value if values else math.inf
        bound = info.mip_dual_bound if any(self.integers) else objective
        return Solution(status, values, objective, bound, time.perf_counter() - begin)

    def write(self, path: str | os.PathLike[str]) -> None:
        """Writes the model in the format of its suffix, ``.lp`` or ``.mps``."""
        target = Path(path)
        if target.suffix not in (".lp", ".mps"):
            raise PlaceError(f"{target}: found format {target.suffix or '(none)'!r}, expected .lp or .mps")
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text("")
        except OSError as error:
            raise PlaceError(f"{target}: {error.strerror}") from error
        self._highs(are_named=True).writeModel(str(target))

    def conflict(self, *, seconds: float) -> Conflict:
        """Explains why the model has no solution.

        Groups of rows are removed as long as the rest has no solution. Then the rows of each group that is left are made elastic, those of the
        others not. The groups of :data:`STRUCTURE` always stay. Raises :class:`PlaceError` if the model has a solution.
        """
        until = time.perf_counter() + seconds
        groups = [group for group in dict.fromkeys(self.row_groups) if group not in STRUCTURE]
        if self._only(self.row_groups).solve(seconds=seconds / 2).status == "optimal":
            raise PlaceError("conflict: found a solution, expected a model without one")
        needed = list(groups)
        is_minimal = True
        for group in groups:
            left = until - time.perf_counter()
            if left <= 0:
                is_minimal = False
                break
            rest = [other for other in needed if other != group]
            status = self._only([*rest, *STRUCTURE]).solve(seconds=left).status
            if status == "infeasible":
                needed = rest
            elif status != "optimal":
                is_minimal = False
        remedies = {}
        for group in needed:
            left = until - time.perf_counter()
            found = self._elastic(group, left) if left > 0 else None
            if found:
                remedies[group] = found
        return Conflict(needed or [group for group in dict.fromkeys(self.row_groups) if group in STRUCTURE], is_minimal, remedies)

    def _elastic(self, group: str, seconds: float) -> list[tuple[str, float]] | None:
        """Returns the rows of a group that have to give way, by how much; ``None`` if that does not help."""
        model = self._only(self.row_groups)
        slacks: list[tuple[int, int]] = []
        starts, columns, factors = [0], list[int](), list[float]()
        for row in range(len(self.row_names)):
            begin, end = self.starts[row], self.starts[row + 1]
            columns += self.columns[begin:end]
            factors += self.factors[begin:end]
            low, high = self.row_lows[row], self.row_highs[row]
            scale = max([1.0, *(abs(side) for side in (low, high) if math.isfinite(side))])
            for side, sign in ((high, -1.0), (low, 1.0)):
                if math.isfinite(side) and self.row_groups[row] == group:
                    slack = model.add(f"slack{len(slacks)}", cost=1 / scale, high=math.inf, is_integer=False)
                    slacks.append((slack, row))
                    columns.append(slack)
                    factors.append(sign)
            starts.append(len(columns))
        model.starts, model.columns, model.factors = starts, columns, factors
        solution = model.solve(seconds=seconds)
        if solution.status != "optimal":
            return None
        return [(self.row_names[row], solution.values[slack]) for slack, row in slacks if solution.values[slack] > 1e-6]

    def _only(self, groups: Iterable[str]) -> Model:
        """Returns the model with the rows of some groups, without an objective."""
        kept = set(groups)
        model = Model(list(self.names), [0.0] * len(self.names), list(self.lows), list(self.highs), list(self.integers))
        for row, group in enumerate(self.row_groups):
            if group in kept:
                begin, end = self.starts[row], self.starts[row + 1]
                model.row(
                    group, self.row_names[row], zip(self.columns[begin:end], self.factors[begin:end]),
                    low=self.row_lows[row], high=self.row_highs[row],
                )  # fmt: skip
        return model

    def _highs(self, *, are_named: bool = False) -> Any:
        try:
            # highspy has types for some of its functions only.
            highspy: Any = importlib.import_module("highspy")
            import numpy
        except ImportError as error:
            raise PlaceError(f"integer programs need highspy and numpy ({error}): pip install 'p4jet[place]'") from error
        lp = highspy.HighsLp()
        lp.num_col_, lp.num_row_ = len(self.names), len(self.row_names)
        lp.offset_ = self.offset
        lp.col_cost_ = numpy.array(self.costs, dtype=float)
        lp.col_lower_ = numpy.array(self.lows, dtype=float)
        lp.col_upper_ = numpy.array(self.highs, dtype=float)
        lp.row_lower_ = numpy.array(self.row_lows, dtype=float)
        lp.row_upper_ = numpy.array(self.row_highs, dtype=float)
        lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        lp.a_matrix_.start_ = numpy.array(self.starts, dtype=numpy.int32)
        lp.a_matrix_.index_ = numpy.array(self.columns, dtype=numpy.int32)
        lp.a_matrix_.value_ = numpy.array(self.factors, dtype=float)
        lp.integrality_ = [highspy.HighsVarType.kInteger if i else highspy.HighsVarType.kContinuous for i in self.integers]
        if are_named:
            # The LP format knows no brackets or spaces, and no name that begins like a number.
            lp.col_names_ = _plain(self.names)
            lp.row_names_ = _plain(self.row_names)
        # The class from which highspy.Highs is made: that one prints a banner.
        highs: Any = highspy.Highs.__base__()
        highs.setOptionValue("output_flag", False)
        if highs.passModel(lp) == highspy.HighsStatus.kError:
            raise PlaceError(f"HiGHS refuses a model of {len(self.names)} columns and {len(self.row_names)} rows")
        return highs


def _plain(names: Sequence[str]) -> list[str]:
    found: dict[str, None] = {}
    for name in names:
        text = unique = re.sub(r"[^A-Za-z0-9_.]", "_", name)
        number = 2
        while unique in found:
            unique, number = f"{text}.{number}", number + 1
        found[unique] = None
    return list(found)
