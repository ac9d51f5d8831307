"""`serve_wrong.py NAME STORE`: a wrong broker in a process of its own, which ends with its input.

The oracle is the same core: in one process it would be as wrong as the broker.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1]))
from patched import reference
from wrong_brokers import BROKERS

RIGHT = "right"  # the reference as it is


def main() -> None:
    name, store = sys.argv[1:]
    with pytest.MonkeyPatch.context() as monkey:
        if name != RIGHT:
            BROKERS[name].apply(monkey)
        with reference(Path(store)) as address:
            print(address, flush=True)
            sys.stdin.read()


if __name__ == "__main__":
    main()
