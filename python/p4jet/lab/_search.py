"""Finds regular expressions in the output of a script: a program of its own, because some expressions take for ever, and can then be killed.

    python -I _search.py LOG EXPRESSION...

It prints a JSON list with the first group of the last match of each expression, `null` where there is none. It needs only the standard
library.
"""

import json
import re
import sys
from pathlib import Path


def main() -> None:
    text = Path(sys.argv[1]).read_text(encoding="utf-8", errors="replace")
    found = []
    for expression in sys.argv[2:]:
        last = None
        for last in re.finditer(expression, text, re.MULTILINE):
            pass
        found.append(None if last is None else last[1] or "")
    print(json.dumps(found))


if __name__ == "__main__":
    main()
