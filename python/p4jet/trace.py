"""Traces of packets."""

from __future__ import annotations

import html
import json
from typing import Any


class Trace:
    """The steps of one packet and its copies through a program, as the interpreter executes them.

    ``print(trace)`` shows them as text, as ``p4jet trace`` does; a notebook shows them as a table.
    """

    steps: list[dict[str, Any]]
    """Each step with its kind in ``step``, such as ``extract``, ``apply``, ``set`` or ``dropped``; docs/trace.md describes them."""

    def __init__(self, steps: str, text: str) -> None:
        self.steps = json.loads(steps)
        self._text = text

    def __str__(self) -> str:
        return self._text.rstrip("\n")

    def __repr__(self) -> str:
        return f"<trace of {len(self.steps)} steps>"

    def tables(self) -> list[tuple[str, bool]]:
        """Returns the tables that were looked up, in order, and whether an entry matched."""
        return [(step["table"], step["hit"]) for step in self.steps if step["step"] == "apply"]

    def actions(self) -> list[str]:
        """Returns the actions that ran, in order."""
        return [step["name"] for step in self.steps if step["step"] == "action"]

    def why_dropped(self) -> list[str]:
        """Returns the reason of each drop."""
        return [step["reason"] for step in self.steps if step["step"] == "dropped"]

    def _repr_html_(self) -> str:
        rows = []
        for step in self.steps:
            details = ", ".join(
                f"{html.escape(str(name))}: {html.escape(_short(value))}"
                for name, value in step.items()
                if name not in ("step", "at") and value not in (None, [], {})
            )
            rows.append(
                f"<tr><td><b>{html.escape(step['step'])}</b></td><td style='text-align:left'>{details}</td>"
                f"<td>{html.escape(step.get('at') or '')}</td></tr>"
            )
        head = "<tr><th>step</th><th style='text-align:left'>details</th><th>source</th></tr>"
        return f"<table><thead>{head}</thead><tbody>{''.join(rows)}</tbody></table>"


def _short(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
