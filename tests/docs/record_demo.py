"""Record the README's demonstration: real runs in a terminal of 80 columns, as a picture.

    python tests/docs/record_demo.py

A line that gives a time is left as it was in that run; all else is tested to be what the commands
still say.
"""

from __future__ import annotations

import io
import os
import pty
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.terminal_theme import SVG_EXPORT_THEME
from rich.text import Text

COLUMNS: Final = 80
FILE: Final = Path(__file__).parents[2] / "docs" / "_static" / "demo.svg"
COMMANDS: Final = (
    "mqspec allocate --queues 12 --members 4 --duplicate-id 3",
    "mqspec prove --theorem averagely-disjoint",
    "mqspec prove --theorem averagely-disjoint-whatever-the-ids",
    "mqspec check MC_Allocation --fresh",
    "mqspec conform reference -k a_lock_fences_nobody_off",
)
_FONT: Final = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)  # from elsewhere, which nobody needs


def shown(command: str) -> str:
    """What a command writes to a terminal, with its colours."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ |= {"COLUMNS": str(COLUMNS), "LINES": "50", "TERM": "xterm-256color"}
        words = shlex.split(command)
        os.execv(sys.executable, [sys.executable, "-m", "mqspec.cli", *words[1:]])
    output = b"".join(_read(terminal))
    os.waitpid(pid, 0)
    return output.decode().replace("\r\n", "\n")


def _read(terminal: int) -> Iterator[bytes]:
    while True:
        try:
            data = os.read(terminal, 1 << 16)
        except OSError:  # so a terminal ends on Linux
            return
        if not data:
            return
        yield data


def recorded() -> str:
    """The picture."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO())
    for command in COMMANDS:
        console.print(Text.assemble(("$ ", "bold green"), (command, "bold")))
        console.print(Text.from_ansi(shown(command).rstrip(), overflow="fold"))
        console.print()
    picture = console.export_svg(title="mqspec", theme=SVG_EXPORT_THEME, unique_id="demo")
    return _FONT.sub("", picture)


if __name__ == "__main__":
    FILE.write_text(recorded(), encoding="utf-8")
