"""A heuristic with a bound on its time: the exact method, ended early.

Step 1 of :mod:`p4jet.place.exact`, which looks at classes of devices, always ends; it takes time in proportion to the number of classes. If there
is no device for the whole chain, or only one that must be switched on, labels are tried, at most `labels_max` and for at most `seconds`.
What has been found by then is the answer.
"""

from __future__ import annotations

from .exact import Answer, embed
from .model import Chain
from .state import State

LABELS = 300
SECONDS = 0.003
"""Less than the 10 ms that a chain may take: the rest is for step 1, and for the extension that is under way when the time is over."""


def embed_quickly(state: State, chain: Chain, *, labels_max: int = LABELS, seconds: float = SECONDS) -> Answer:
    """Returns an embedding of a chain, without placing it. It may miss one that exists, or one with less power."""
    return embed(state, chain, labels_max=labels_max, seconds=seconds)
