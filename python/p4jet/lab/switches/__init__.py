"""The types of switches.

A type is a class in a file of this folder: a subclass of :class:`SwitchType` with a `name`. Nothing else has to know it.
"""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from .base import SwitchType

__all__ = ["SwitchType", "types"]


@cache
def types() -> dict[str, type[SwitchType]]:
    """Returns all types by name."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    return {kind.name: kind for kind in sorted(_subclasses(SwitchType), key=lambda kind: kind.order) if kind.name}


def _subclasses(kind: type[SwitchType]) -> list[type[SwitchType]]:
    return [found for child in kind.__subclasses__() for found in (child, *_subclasses(child))]
