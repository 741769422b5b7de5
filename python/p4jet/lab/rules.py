"""The rules of the experiments scale and update: routes by IPv4 destination, from 64.0.0.0 on.

A frame to a rule's address leaves through the rule's port, from the switch's MAC address to the tester's.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .errors import LabError

SWITCH_MAC, TESTER_MAC = "02:00:00:00:00:02", "02:00:00:00:00:01"
KINDS = ("exact", "lpm", "ternary", "register")
"""How a rule matches: a whole address; a prefix of 24 bits; a mask of 24 bits with a priority. ``register``: every frame, to the
port in a register (one rule)."""
COUNT_MAX = 1 << 20
FIRST = 0x40000000


@dataclass(frozen=True)
class Rules:
    """A number of rules of one kind."""

    kind: str
    count: int

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise LabError(f"kind of rules: found {self.kind}, expected one of {', '.join(KINDS)}")
        most = 1 if self.kind == "register" else COUNT_MAX
        if not 1 <= self.count <= most:
            raise LabError(f"{self.kind} rules: found {self.count}, expected 1 to {most}")

    @property
    def length(self) -> int:
        """Bits of an address that a rule matches."""
        return 32 if self.kind in ("exact", "register") else 24

    def addresses(self) -> npt.NDArray[np.uint32]:
        """Returns an address for each rule, which only this rule matches."""
        return (FIRST + np.arange(self.count, dtype=np.uint32) * (1 << (32 - self.length))).astype(np.uint32)

    @property
    def mask(self) -> str:
        """The mask of `length` bits as text."""
        return "255.255.255.255" if self.length == 32 else "255.255.255.0"

    def address(self, number: int) -> str:
        """Returns the first address of a rule as text."""
        value = FIRST + (number << (32 - self.length))
        return ".".join(str(value >> shift & 255) for shift in (24, 16, 8, 0))
