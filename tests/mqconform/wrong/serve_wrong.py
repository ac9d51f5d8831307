"""`serve_wrong.py NAME STORE`: a wrong broker in a process of its own, which ends with its input;
`serve_wrong.py NAME serve WORD...`: the same as `mqspec serve` does it, to be stopped and killed.

The oracle is the same core: in one process it would be as wrong as the broker.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1]))
from patched import reference
from wrong_brokers import BROKERS

from mqspec import cli

RIGHT = "right"  # the reference as it is


def main() -> None:
    name, *words = sys.argv[1:]
    with pytest.MonkeyPatch.context() as monkey:
        if name != RIGHT:
            BROKERS[name].apply(monkey)
        if words[0] == "serve":
            sys.exit(cli.main(words))
        with reference(Path(*words)) as address:
            print(address, flush=True)
            sys.stdin.read()


if __name__ == "__main__":
    main()
