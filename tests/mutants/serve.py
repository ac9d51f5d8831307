"""`serve.py STORE`: the reference's servers, which end with the process's input."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "mqconform"))
from patched import reference


def main() -> None:
    with reference(Path(sys.argv[1])) as address:
        print(address, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
