"""The page 'Send and consume with the reference's clients', done as it says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "client.md"

_BLOCK = re.compile(r"^```\{code-block\} \w+\n:caption: (\w+)\n\n(.*?)^```$", re.M | re.S)


def test_what_the_page_says_comes_out() -> None:
    blocks = dict(_BLOCK.findall(PAGE.read_text(encoding="utf-8")))
    done = subprocess.run(
        [sys.executable, "-c", blocks["run"]], capture_output=True, text=True, timeout=60
    )
    assert done.stdout == blocks["prints"], done.stderr
