"""Modelled devices: the delay of each packet is drawn from a profile, in virtual time, so nothing is measured.

    device = ModelledDevice.load("agilio-cx")
    means = expected([device], Path("benchmark.p4"), Path("benchmark.cmd"), 1500)
    device.delays_us(means[device.name], 1000, seed=1)

The mean is the estimate of `p4jet predict` (equation 4.6 of Harkous, with the rules of the profile) for the paths of the program
on which packets leave. The noise has the standard deviation of the profile, for all programs the same.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .errors import LabError
from .tester import p4jet_binary

PREDICT_SECONDS = 60.0
NOISES = ("gamma", "normal")
"""Distributions of the delay."""


@dataclass(frozen=True)
class ModelledDevice:
    """A device that follows its profile."""

    name: str
    """That of the profile."""
    profile: str
    """A profile that p4jet ships, or the path of a file."""
    kind: str
    """``cpu``, ``npu``, ``fpga`` or ``asic``."""
    deviation_us: float
    """Standard deviation of the delays; 0 if the profile has none."""

    @staticmethod
    def load(profile: str) -> ModelledDevice:
        """Reads a profile. Raises :class:`LabError` for a wrong one."""
        (found,) = predict(["--show", "--profile", profile])
        return ModelledDevice(found["name"], profile, found["kind"], found.get("deviation_us", {"value": 0.0})["value"])

    def delays_us(self, mean_us: float, packets: int, seed: int, noise: str = NOISES[0]) -> list[float]:
        """Returns the delays of packets in µs. Equal seeds give equal delays.

        Raises :class:`LabError` for a mean that is not positive, as profiles with negative costs can have it.
        """
        if mean_us <= 0:
            raise LabError(f"{self.name}: the profile predicts {mean_us:g} µs, which no packet can take")
        chance = np.random.default_rng(seed)
        if self.deviation_us == 0:
            return [mean_us] * packets
        if noise == "normal":
            # Without delays of 0 and less.
            return [abs(float(delay)) for delay in chance.normal(mean_us, self.deviation_us, packets)]
        found = chance.gamma((mean_us / self.deviation_us) ** 2, self.deviation_us**2 / mean_us, packets)
        return [float(delay) for delay in found]


def expected(devices: Sequence[ModelledDevice], program: Path, commands: Path, frame_bytes: int) -> dict[str, float]:
    """Returns the mean delay in µs of a program on each device, by name.

    All paths on which packets leave the program must have the same; raises :class:`LabError` otherwise.
    """
    profiles = [word for device in devices for word in ("--profile", device.profile)]
    reports = predict([str(program), "--commands", str(commands), "--frame-bytes", str(frame_bytes), *profiles])
    means = {}
    for device, report in zip(devices, reports):
        found = {path["estimate"]["us"] for path in report["paths"] if path["sent"]}
        if len(found) != 1:
            raise LabError(f"{program}: packets leave it on paths with {len(found)} different delays; a modelled device needs one")
        means[device.name] = float(*found)
    return means


def predict(arguments: Sequence[str]) -> list[dict[str, Any]]:
    """Returns the report of `p4jet predict`. Raises :class:`LabError` with its message if it fails."""
    argv = [p4jet_binary(), "predict", "--json", *arguments]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=PREDICT_SECONDS)
    except subprocess.TimeoutExpired:
        raise LabError(f"{' '.join(argv)}: no answer within {PREDICT_SECONDS:g} s") from None
    if done.returncode != 0:
        raise LabError(done.stderr.strip().removeprefix("error: "))
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found
