"""Reports: the same content as Markdown and as one HTML page that needs no other file."""

from __future__ import annotations

import base64
import html
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from .errors import LabError

_TYPES = {".svg": "image/svg+xml", ".png": "image/png"}

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #1a1a1a; background: #fff; max-width: 68rem; margin: 2rem auto; padding: 0 1rem; }
h1, h2, h3 { line-height: 1.2; margin: 2rem 0 .6rem; }
table { border-collapse: collapse; margin: 1rem 0; display: block; overflow-x: auto; font-variant-numeric: tabular-nums; }
th, td { border-bottom: 1px solid #d0d0d0; padding: .25rem .7rem; text-align: left; vertical-align: top; }
th { border-bottom: 2px solid #808080; }
td.number, th.number { text-align: right; white-space: nowrap; }
figure { margin: 1.5rem 0; } img { max-width: 100%; height: auto; } figcaption { color: #555; font-size: .9rem; }
code { background: #f2f2f2; padding: 0 .2rem; }
"""


@dataclass(frozen=True)
class _Heading:
    level: int
    text: str


@dataclass(frozen=True)
class _Text:
    text: str


@dataclass(frozen=True)
class _Table:
    headers: Sequence[str]
    rows: Sequence[Sequence[str]]
    numeric: Sequence[bool]
    """Which columns have numbers, which are aligned to the right."""


@dataclass(frozen=True)
class _Figure:
    path: Path
    caption: str


class Report:
    """A report, composed from top to bottom.

    report = Report("Frame sizes")
    report.heading("Results")
    report.text("Mean of **6** runs.")
    report.table(["size (B)", "rate (Mpps)"], [[64, 61.2], [1500, 20.4]])
    report.figure("out/plots/rate.svg", "Rate by frame size")
    report.write("out")
    """

    def __init__(self, title: str) -> None:
        self.title = title
        self._parts: list[_Heading | _Text | _Table | _Figure] = []

    def heading(self, text: str, *, level: int = 2) -> None:
        """Adds a heading of level 2 to 6; 1 is the title."""
        if not 2 <= level <= 6:
            raise LabError(f"heading {text!r}: found level {level}, expected 2 to 6")
        self._parts.append(_Heading(level, text))

    def text(self, markdown: str) -> None:
        """Adds paragraphs and lists (lines that begin with ``* ``), with ``**bold**`` and `` `code` ``."""
        self._parts.append(_Text(markdown.strip()))

    def table(self, headers: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        """Adds a table. Numbers are shown with four significant digits, ``None`` as an empty cell; format them as text for more."""
        for row in rows:
            if len(row) != len(headers):
                raise LabError(f"table {', '.join(headers)}: found a row with {len(row)} cells, expected {len(headers)}: {list(row)}")
        texts = [[cell_text(cell) for cell in row] for row in rows]
        numeric = [
            any(row[column] for row in texts) and all(re.match(r"$|[-+±]?[0-9]", row[column]) for row in texts)
            for column in range(len(headers))
        ]
        self._parts.append(_Table(list(headers), texts, numeric))

    def mapping(self, values: Mapping[str, object]) -> None:
        """Adds a table of names and values; a value may itself be a mapping."""
        rows: list[list[object]] = []
        for name, value in values.items():
            if isinstance(value, Mapping):
                rows += [[f"{name}: {inner}", str(of)] for inner, of in value.items()]
            else:
                rows.append([name, str(value)])
        self.table(["what", "value"], rows)

    def figure(self, path: str | os.PathLike[str], caption: str) -> None:
        """Adds an SVG or PNG file. Raises :class:`LabError` if there is no such file."""
        file = Path(path)
        if file.suffix not in _TYPES:
            raise LabError(f"{file}: found format {file.suffix or '(none)'!r}; expected {' or '.join(_TYPES)}")
        if not file.is_file():
            raise LabError(f"{file}: there is no such file")
        self._parts.append(_Figure(file, caption))

    def write(self, folder: str | os.PathLike[str]) -> tuple[Path, Path]:
        """Writes report.md and report.html, and returns their paths. Markdown refers to copies of the figures in `folder`/plots."""
        target = Path(folder)
        markdown, page = target / "report.md", target / "report.html"
        try:
            target.mkdir(parents=True, exist_ok=True)
            markdown.write_text(self._markdown(target), encoding="utf-8")
            page.write_text(self._html(), encoding="utf-8")
        except OSError as error:
            raise LabError(f"{error.filename or target}: {error.strerror}") from error
        return markdown, page

    def _markdown(self, folder: Path) -> str:
        blocks = [f"# {self.title}"]
        for part in self._parts:
            if isinstance(part, _Heading):
                blocks.append(f"{'#' * part.level} {part.text}")
            elif isinstance(part, _Text):
                blocks.append(part.text)
            elif isinstance(part, _Table):
                cells = [[cell.replace("|", "\\|").replace("\n", " ") for cell in row] for row in [part.headers, *part.rows]]
                marks = ["---:" if is_number else "---" for is_number in part.numeric]
                blocks.append("\n".join(f"| {' | '.join(row)} |" for row in [cells[0], marks, *cells[1:]]))
            else:
                inside = folder / "plots" / part.path.name
                if part.path.resolve() != inside.resolve():
                    inside.parent.mkdir(exist_ok=True)
                    shutil.copyfile(part.path, inside)
                blocks.append(f"![{part.caption}](plots/{part.path.name})\n\n{part.caption}")
        return "\n\n".join(blocks) + "\n"

    def _html(self) -> str:
        blocks = [f"<h1>{html.escape(self.title)}</h1>"]
        for part in self._parts:
            if isinstance(part, _Heading):
                blocks.append(f"<h{part.level}>{_inline(part.text)}</h{part.level}>")
            elif isinstance(part, _Text):
                blocks += _paragraphs(part.text)
            elif isinstance(part, _Table):
                lines = []
                for tag, row in [("th", part.headers), *(("td", row) for row in part.rows)]:
                    marks = [' class="number"' if is_number else "" for is_number in part.numeric]
                    lines.append("<tr>" + "".join(f"<{tag}{mark}>{_inline(cell)}</{tag}>" for mark, cell in zip(marks, row)) + "</tr>")
                blocks.append(f"<table>\n<thead>{lines[0]}</thead>\n<tbody>\n" + "\n".join(lines[1:]) + "\n</tbody>\n</table>")
            else:
                data = base64.b64encode(part.path.read_bytes()).decode("ascii")
                caption = html.escape(part.caption)
                image = f'<img alt="{caption}" src="data:{_TYPES[part.path.suffix]};base64,{data}">'
                blocks.append(f"<figure>{image}<figcaption>{caption}</figcaption></figure>")
        return (
            f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<title>{html.escape(self.title)}</title>\n'
            f"<style>{_STYLE}</style>\n</head>\n<body>\n" + "\n".join(blocks) + "\n</body>\n</html>\n"
        )


def cell_text(value: object) -> str:
    """Returns the text of a cell: numbers with four significant digits, ``None`` as nothing."""
    if value is None:
        return ""
    if isinstance(value, float):
        text = f"{value:.4g}"
        return f"{value:.0f}" if "e" in text and 1e4 <= abs(value) < 1e15 else text
    return str(value)


def one_line(message: str) -> str:
    """Returns the first line of a message and, if there are more, the last, in which a program says what was wrong."""
    lines = [line.strip() for line in message.splitlines() if line.strip()] or [""]
    first = lines[0].removesuffix("; its last output:")
    return first if len(lines) == 1 else f"{first} … {lines[-1]}"


def _paragraphs(text: str) -> list[str]:
    blocks = []
    for block in re.split(r"\n\s*\n", text):
        lines = block.strip().splitlines()
        if lines and all(line.startswith(("* ", "  ")) for line in lines):
            items = re.split(r"^\* ", block.strip(), flags=re.MULTILINE)[1:]
            blocks.append("<ul>\n" + "\n".join(f"<li>{_inline(' '.join(item.split()))}</li>" for item in items) + "\n</ul>")
        elif lines:
            blocks.append(f"<p>{_inline(' '.join(lines))}</p>")
    return blocks


def _inline(text: str) -> str:
    """Returns HTML of a line with ``**bold**``, `` `code` `` and escapes such as ``\\*``.

    Links become their text: the page refers to nothing else.
    """
    parts = re.split(r"(?<!\\)(`[^`]+`)", text)
    for number, part in enumerate(parts):
        if number % 2:
            parts[number] = f"<code>{html.escape(part[1:-1])}</code>"
        else:
            plain = html.escape(re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", part))
            bold = re.sub(r"(?<!\\)\*\*(.+?)(?<!\\)\*\*", r"<strong>\1</strong>", plain)
            parts[number] = re.sub(r"\\([*_`#|\[\]\\])", r"\1", bold)
    return "".join(parts)
