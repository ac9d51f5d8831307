"""`{run} ARGUMENTS`: a command of ours and what it prints, run when the page is built.

So no page shows output that the code does not give any more. It is for commands that take no
second; what TLC or a broker does is shown by what was recorded of it.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

QUICK = ("allocate", "explain")
_TIMEOUT_S = 60


class RunDirective(SphinxDirective):
    """The command as one would type it, and its output."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        self.env.note_reread()  # made by code that no page depends on
        line = " ".join(self.arguments[0].split())
        words = shlex.split(line)
        if words[0] not in QUICK:
            raise self.error(f"{words[0]} is not run at a build: only {', '.join(QUICK)} are")
        done = subprocess.run(
            [sys.executable, "-m", "mqspec.cli", *words],
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            env=os.environ | {"COLUMNS": "80"},
        )
        if done.returncode:
            raise self.error(f"mqspec {line} ended with {done.returncode}: {done.stderr.strip()}")
        lines = (said.rstrip() for said in done.stdout.splitlines())
        shown = "\n".join((f"$ mqspec {line}", *lines))
        return [nodes.literal_block(shown, shown, language="console")]
