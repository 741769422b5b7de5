"""The performance-agnostic baseline (§3.18): embeds without a delay model, measures, and tries again.

"Measured" is here the delay of the model: Eq. 5.19 for the embedding that was tried. In reality each trial also takes the time of a
deployment and a measurement.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from .exact import Answer, embed
from .model import DELAY_TOLERANCE_US, Chain, Embedding
from .sfc import Program
from .state import State

TRIALS_MAX = 200
NO_BOUND_US = 1e12

Solver = Callable[[State, Chain, "set[tuple[str, ...]]"], "tuple[Embedding | None, float]"]
"""Embeds a chain without a delay bound and without some combinations of device types; returns the additional power too."""


@dataclass(frozen=True)
class Trials:
    """What the baseline did for a chain."""

    embedding: Embedding | None
    power_w: float
    trials: int
    """Embeddings that were tried; 1 if the first one met the bound."""
    solving_s: float
    """Processor time of this process."""
    is_complete: bool
    """False if there were as many trials as allowed, and none met the bound."""


def by_labels(state: State, chain: Chain, excluded: set[tuple[str, ...]]) -> tuple[Embedding | None, float]:
    """Solves with the exact method."""
    answer: Answer = embed(state, replace(chain, delay_us=NO_BOUND_US), excluded=excluded)
    return answer.embedding, answer.power_w


def by_program(seconds: float) -> Solver:
    """Returns a solver with the integer program, each time for at most some seconds."""

    def solver(state: State, chain: Chain, excluded: set[tuple[str, ...]]) -> tuple[Embedding | None, float]:
        program = Program(state, [chain], excluded={chain.name: excluded}, has_delay=False)
        result = program.solve(seconds=seconds)
        return result.embeddings.get(chain.name), result.power_w

    return solver


def embed_by_trials(state: State, chain: Chain, solver: Solver = by_labels, *, trials_max: int = TRIALS_MAX) -> Trials:
    """Returns the embedding that meets the bound after trials, without placing it."""
    begin = time.process_time()
    excluded: set[tuple[str, ...]] = set()
    for trial in range(1, trials_max + 1):
        embedding, power = solver(state, chain, excluded)
        if embedding is None:
            return Trials(None, math.inf, trial, time.process_time() - begin, True)
        if state.delay_us(chain, embedding) <= chain.delay_us + DELAY_TOLERANCE_US:
            return Trials(embedding, power, trial, time.process_time() - begin, True)
        excluded.add(tuple(state.cloud.devices[device].type for device in embedding.devices))
    return Trials(None, math.inf, trials_max, time.process_time() - begin, False)
