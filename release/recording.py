"""Records a terminal while real commands run, and draws the recording as one SVG: ``make recording``.

``docs/figures/terminal.cast`` is the recording (asciicast, version 2), with every byte at the time at which it came;
``docs/figures/terminal.svg`` is drawn from it alone. The picture has no script and loads nothing; it moves by CSS, and
stands still for readers who want that. Nothing is cut, sped up or added: only the keys are pressed by this program.
"""

import json
import os
import pty
import re
import select
import shutil
import socket
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, sleep
from typing import Final

FIGURES: Final = Path(__file__).parents[1] / "docs" / "figures"
CAST: Final = FIGURES / "terminal.cast"
SVG: Final = FIGURES / "terminal.svg"
COLUMNS: Final = 100
PROMPT: Final = "$ "
KEY_S: Final = 0.02
READING_S: Final = 0.9
END_S: Final = 2.0
STEP_S: Final = 0.1
"""Keys that are pressed within this time are drawn together."""
PATIENCE_S: Final = 30.0
BROKER: Final = "kpybroker start 2> broker.log"
COMMANDS: Final = (
    "# in another terminal",
    "kpybroker topics create hello --partitions 3",
    'echo "ada:hello world" | kpybroker produce hello -K: -H source=readme',
    "kpybroker consume hello -c 1 -f '%t[%p]@%o %k=%v %h\\n'",
    "kpybroker consume hello --group team -c 1",
    "curl -s http://127.0.0.1:9404/api/cluster | grep -o '\"health\":{[^}]*}'",
)
PORTS: Final = (9092, 9404)

ESCAPES: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")

Event = tuple[float, str]
"""The time since the beginning in seconds, and what the terminal showed then."""


# Recording


class Terminal:
    """A shell behind a terminal, whose output is noted with its time."""

    def __init__(self, directory: Path, events: list[Event], began_s: float) -> None:
        self._events = events
        self._began_s = began_s
        self._shown = ""
        ours, theirs = pty.openpty()
        self._ours = ours
        environment = {
            "HOME": str(directory),
            "LANG": "C.UTF-8",
            "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
            "PS1": PROMPT,
            "TERM": "dumb",
        }
        bash = shutil.which("bash") or "/bin/bash"
        self._shell = subprocess.Popen(
            [bash, "--norc", "--noprofile", "--noediting", "-i"],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            cwd=directory,
            env=environment,
            start_new_session=True,
        )
        os.close(theirs)
        self.wait_for(PROMPT)

    def _read(self, patience_s: float) -> None:
        if select.select([self._ours], [], [], patience_s)[0]:
            data = os.read(self._ours, 65536).decode("utf-8", "replace")
            self._events.append((round(monotonic() - self._began_s, 3), data))
            self._shown += data

    def rest(self, for_s: float) -> None:
        """Show what comes for some time."""
        until_s = monotonic() + for_s
        while (left_s := until_s - monotonic()) > 0:
            self._read(left_s)

    def wait_for(self, words: str) -> None:
        """Show what comes until the terminal ends with, or has said, these words."""
        until_s = monotonic() + PATIENCE_S
        while not (self._shown.endswith(words) if words == PROMPT else words in self._shown):
            if monotonic() > until_s:
                raise SystemExit(f"the terminal did not say {words!r}:\n{self._shown}")
            self._read(0.1)
        self._shown = ""

    def type(self, command: str) -> None:
        """Press the keys of a command, and return."""
        for key in command:
            os.write(self._ours, key.encode())
            self.rest(KEY_S)
        self._shown = ""
        os.write(self._ours, b"\n")

    def interrupt(self) -> None:
        """Press Ctrl-C, unseen."""
        os.write(self._ours, b"\x03")

    def close(self) -> None:
        """End the shell."""
        os.close(self._ours)
        self._shell.terminate()
        self._shell.wait(30)


def record() -> list[Event]:
    """Run the commands. What the terminals show, in the order of time."""
    for port in PORTS:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                raise SystemExit(f"port {port} is taken: the recording shows the usual ports")
    events: list[Event] = []
    with TemporaryDirectory() as directory:
        began_s = monotonic()
        broker = Terminal(Path(directory), events, began_s)
        broker.type(BROKER)
        broker.wait_for("First time here?")
        broker.rest(READING_S)
        events.append((round(monotonic() - began_s, 3), "\r\n"))
        other = Terminal(Path(directory), events, began_s)
        for command in COMMANDS:
            other.type(command)
            other.wait_for(PROMPT)
            other.rest(READING_S if not command.startswith("#") else KEY_S)
        ended_s = monotonic() - began_s
        shown = list(events)
        other.close()
        broker.interrupt()
        sleep(1)
        broker.close()
    shown.append((round(ended_s + END_S, 3), ""))
    return shown


def cast_of(events: Sequence[Event]) -> str:
    """The recording as asciicast, version 2."""
    header = {"version": 2, "width": COLUMNS, "height": len(rows_of(events)), "env": {"TERM": "dumb"}}
    lines = [json.dumps(header), *(json.dumps([at_s, "o", text]) for at_s, text in events)]
    return "\n".join(lines) + "\n"


def events_in(cast: str) -> list[Event]:
    """The events of a recording."""
    _, *lines = cast.splitlines()
    return [(float(at_s), str(text)) for at_s, kind, text in map(json.loads, lines) if kind == "o"]


# Drawing

WIDTH: Final = 8.43
HEIGHT: Final = 19
MARGIN: Final = 16
BAR: Final = 30
STYLE: Final = """\
text { font: 14px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; fill: #d7dee5; white-space: pre; }
.command { fill: #8ee39f; } .remark { fill: #94a3b0; }"""


@dataclass
class Piece:
    """Text that comes at one time, at a place of the screen, and goes if its line is written again."""

    at_s: float
    row: int
    column: int
    text: str
    kind: str = "output"
    until_s: float | None = None


def rows_of(events: Sequence[Event]) -> list[list[Piece]]:
    """The pieces of each row of the screen. A row grows to the right, and the screen downwards."""
    rows: list[list[Piece]] = [[]]
    for at_s, text in events:
        for part in re.split(r"(\r?\n|\r)", ESCAPES.sub("", text)):
            if part == "\r":
                for piece in _shown(rows[-1]):
                    piece.until_s = at_s
            elif part.endswith("\n"):
                rows.append([])
            elif part:
                _put(rows, at_s, part)
    while rows and not rows[-1]:
        rows.pop()
    return rows


def _shown(row: list[Piece]) -> list[Piece]:
    return [piece for piece in row if piece.until_s is None]


def _put(rows: list[list[Piece]], at_s: float, text: str) -> None:
    while text:
        row = _shown(rows[-1])
        column = row[-1].column + len(row[-1].text) if row else 0
        room = COLUMNS - column
        if room <= 0:
            rows.append([])
            continue
        kind, last = _kind(row, text), row[-1] if row else None
        if last is not None and last.kind == kind and at_s - last.at_s < STEP_S:
            last.text += text[:room]
        else:
            rows[-1].append(Piece(at_s, len(rows) - 1, column, text[:room], kind))
        text = text[room:]


def _kind(row: list[Piece], text: str) -> str:
    """``command`` or ``remark`` for what was typed behind a prompt."""
    if not row or row[0].text != PROMPT:
        return "output"
    typed = row[1].text if len(row) > 1 else text
    return "remark" if typed.startswith("#") else "command"


def svg_of(events: Sequence[Event]) -> str:
    """The recording as a picture that plays again and again."""
    rows = rows_of(events)
    whole_s = events[-1][0]
    width, height = round(COLUMNS * WIDTH + 2 * MARGIN), len(rows) * HEIGHT + 2 * MARGIN + BAR
    spans = sorted({(piece.at_s, piece.until_s or whole_s) for row in rows for piece in row})
    names = {span: f"t{number}" for number, span in enumerate(spans)}
    moves = [_move(names[span], span, whole_s) for span in spans]
    texts = [
        _text(piece, names[piece.at_s, piece.until_s or whole_s])
        for row in rows
        for piece in row
        if piece.text.strip() and (piece.until_s or whole_s) > piece.at_s
    ]
    dots = "".join(f'<circle cx="{18 + 18 * number}" cy="15" r="5" fill="#4a5661"/>' for number in range(3))
    about = "A recording of a terminal: a broker starts and is used"
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{about}">',
            f"<style>\n{STYLE}",
            "@media (prefers-reduced-motion: no-preference) {",
            *moves,
            "}</style>",
            f'<rect width="{width}" height="{height}" rx="10" fill="#12171c"/>{dots}',
            *texts,
            "</svg>",
        ]
    )


def _text(piece: Piece, name: str) -> str:
    """A piece. One that goes is not seen where nothing moves."""
    x, y = MARGIN + piece.column * WIDTH, BAR + MARGIN + piece.row * HEIGHT + 13
    gone = "" if piece.until_s is None else ' opacity="0"'
    return (
        f'<text class="{piece.kind} {name}" x="{x:.1f}" y="{y}" textLength="{len(piece.text) * WIDTH:.1f}"{gone}>'
        f"{escape(piece.text)}</text>"
    )


def _move(name: str, span: tuple[float, float], whole_s: float) -> str:
    """The animation of a piece: it is seen from one time to another."""
    begin, end = (100 * at_s / whole_s for at_s in span)
    hidden = "" if span[1] >= whole_s else f" {end:.2f}%, 100% {{ opacity: 0; }}"
    return (
        f"@keyframes {name} {{ 0% {{ opacity: 0; }} {begin:.2f}% {{ opacity: 1; }}{hidden} }} "
        f".{name} {{ animation: {name} {whole_s:.1f}s step-end infinite; }}"
    )


def main() -> None:
    """Record, or with ``--draw`` only draw the last recording again."""
    if "--draw" not in sys.argv[1:]:
        CAST.write_text(cast_of(record()), encoding="utf-8")
    SVG.write_text(svg_of(events_in(CAST.read_text(encoding="utf-8"))) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
