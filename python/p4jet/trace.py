"""Traces of packets."""

from __future__ import annotations

import html
import json
from typing import Any

BECAUSE = "because "
"""Begins a line of the text that explains a drop or a port."""


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

    def _causes(self) -> list[list[str]]:
        """Returns for each step the lines that begin with "because", as the text has them."""
        printed = [line.strip() for line in self._text.splitlines() if line.lstrip().startswith(BECAUSE)]
        if len(printed) != sum(len(step.get("because") or ()) for step in self.steps):
            # The text of a long trace is shortened.
            return [[_because(cause) for cause in step.get("because") or ()] for step in self.steps]
        lines = iter(printed)
        return [[next(lines) for _ in step.get("because") or ()] for step in self.steps]

    def _repr_html_(self) -> str:
        rows = []
        for step, causes in zip(self.steps, self._causes()):
            details = ", ".join(
                f"{html.escape(str(name))}: {html.escape(_short(value))}"
                for name, value in step.items()
                if name not in ("step", "at", "because") and value not in (None, [], {})
            )
            details += "".join(f"<br>{html.escape(cause)}" for cause in causes)
            rows.append(
                f"<tr><td><b>{html.escape(step['step'])}</b></td><td style='text-align:left'>{details}</td>"
                f"<td>{html.escape(step.get('at') or '')}</td></tr>"
            )
        head = "<tr><th>step</th><th style='text-align:left'>details</th><th>source</th></tr>"
        return f"<table><thead>{head}</thead><tbody>{''.join(rows)}</tbody></table>"


def _because(cause: dict[str, Any]) -> str:
    """Returns a cause in the words of the text."""
    if not cause["written"]:
        who = "which was not written"
    elif cause["action"] is None:
        who = "written here"
    else:
        who = f"written by action {cause['action']} of table {cause['table']}"
    place = f"  [{cause['at']}]" if cause["at"] else ""
    return f"{BECAUSE}{cause['field']} = {cause['value']}, {who}{place}"


def _short(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
