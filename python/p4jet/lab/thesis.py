"""Published figures that the experiments show beside their own, and the values that follow from them.

`data/thesis.json` names the source of each. The figures come from other machines: compare shapes and orders, not values.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

FRAMING = 24
"""Bytes that a frame occupies on a wire in addition to its own: preamble 8, gap 12, frame check sequence 4."""


@cache
def published() -> dict[str, Any]:
    """Returns the content of `data/thesis.json`: ``mac_mirror``, ``flow_scalability``, ``rule_updates`` and ``gateway``."""
    text = (Path(__file__).parent / "data" / "thesis.json").read_text(encoding="utf-8")
    data: dict[str, Any] = json.loads(text)
    return data


@dataclass(frozen=True)
class Mirror:
    """A row of Tables 5 to 8: one switch with one network card and one frame size."""

    table: int
    switch: str
    card: str
    size: int
    """Bytes of a frame."""
    loss: float
    """Share of the frames that were lost, 0 to 1."""
    throughput: float
    """Received bits per second, framing included (§4.5 of the summary: an inference, the thesis does not say)."""

    @property
    def offered(self) -> float:
        """Bits per second that the generator sent: throughput / (1 - loss)."""
        return self.throughput / (1 - self.loss)

    @property
    def received_pps(self) -> float:
        """Frames per second that came back."""
        return self.throughput / (8 * (self.size + FRAMING))

    @property
    def offered_pps(self) -> float:
        """Frames per second that the generator sent."""
        return self.offered / (8 * (self.size + FRAMING))


@cache
def mirrors() -> tuple[Mirror, ...]:
    """Returns all rows of Tables 5 to 8, in their order."""
    data = published()["mac_mirror"]
    return tuple(
        Mirror(table["table"], table["switch"], card, size, loss / 100, throughput * 1e9)
        for table in data["tables"]
        for card in ("CX5", "SN1000")
        for size, loss, throughput in zip(
            data["sizes"], table["loss_percent"][card], table["throughput_gbit_s"][card], strict=True
        )
    )
