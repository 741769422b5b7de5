"""What a machine is made of, as far as it matters to a measurement."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from pathlib import Path

_SECONDS = 20
"""Time limit of each program that is asked for its version."""

_OPTIONS = (
    "isolcpus", "nohz_full", "rcu_nocbs", "irqaffinity", "mitigations", "nosmt", "idle=", "intel_idle", "processor.max_cstate",
    "intel_pstate", "amd_pstate", "default_hugepagesz", "hugepages", "transparent_hugepage", "iommu", "intel_iommu", "amd_iommu",
)  # fmt: skip
"""Options of the kernel that change measurements."""


def machine() -> dict[str, object]:
    """Returns the processor, memory, kernel, network cards, switches, git commit and load of this machine.

    What cannot be found out is ``"unknown"``. The values are strings, numbers, and dictionaries of these.
    """
    return {
        "host": platform.node(),
        "processor": _processor(),
        "processors": len(os.sched_getaffinity(0)),
        "threads per core": _lscpu("Thread(s) per core"),
        "memory (GiB)": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "virtualisation": _virtualisation(),
        "governor": _read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "kernel": platform.release(),
        "kernel options": " ".join(option for option in _read("/proc/cmdline").split() if option.startswith(_OPTIONS)) or "none",
        "system": _system(),
        "python": platform.python_version(),
        "network cards": _network_cards(),
        "switches": _switches(),
        "commit": git_commit(),
        "load (1 min)": round(os.getloadavg()[0], 2),
    }


def git_commit() -> str:
    """Returns the git commit of the checkout that p4jet runs from, else that of the current folder, else ``"unknown"``.

    The commit ends with ``-dirty`` if tracked files differ from it.
    """
    here = Path(__file__).resolve()
    # The package may be installed inside a checkout of something else, which does not track it.
    is_tracked = _output("git", "-C", str(here.parent), "ls-files", "--error-unmatch", here.name) is not None
    folder = str(here.parent if is_tracked else Path.cwd())
    commit = _output("git", "-C", folder, "rev-parse", "HEAD")
    if commit is None:
        return "unknown"
    changed = _output("git", "-C", folder, "status", "--porcelain", "--untracked-files=no")
    return commit + ("-dirty" if changed else "")


def _output(*command: str) -> str | None:
    """Returns what a program prints, or ``None`` if it is missing, fails or takes too long."""
    if shutil.which(command[0]) is None:
        return None
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=_SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").strip() or "unknown"
    except OSError:
        return "unknown"


def _processor() -> str:
    for line in _read("/proc/cpuinfo").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _lscpu(field: str) -> str:
    for line in (_output("lscpu") or "").splitlines():
        name, _, value = line.partition(":")
        if name.strip() == field:
            return value.strip()
    return "unknown"


def _virtualisation() -> str:
    # systemd-detect-virt prints "none" and fails on a machine that is not virtual.
    found = _output("systemd-detect-virt")
    if found:
        return found
    is_guest = any(line.startswith("flags") and " hypervisor" in line for line in _read("/proc/cpuinfo").splitlines())
    return "a hypervisor of unknown type" if is_guest else "none found"


def _system() -> str:
    for line in _read("/etc/os-release").splitlines():
        if line.startswith("PRETTY_NAME="):
            return line.partition("=")[2].strip('"')
    return platform.system()


def _network_cards() -> dict[str, str]:
    """Returns driver and speed of each interface that has a device. Virtual interfaces have none."""
    cards = {}
    for interface in sorted(Path("/sys/class/net").glob("*")):
        driver = interface / "device" / "driver"
        if driver.exists():
            speed = _read(str(interface / "speed"))
            cards[interface.name] = driver.resolve().name + (f", {speed} Mbit/s" if speed.isdigit() else "")
    return cards


def _switches() -> dict[str, str]:
    """Returns the version of each switch type that can run here, and why the others cannot."""
    from .switches import types

    found = {}
    for name, switch in types().items():
        why = switch.missing()
        found[name] = switch.version() if why is None else f"missing: {why}"
    return found
