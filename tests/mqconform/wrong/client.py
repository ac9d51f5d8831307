"""`client.py NAMESERVER TOPIC GROUP MODE ID NAME`: the own client, wrong in one thing."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1]))
from wrong_clients import CLIENTS

from mqspec.client import program


def main() -> None:
    with pytest.MonkeyPatch.context() as monkey:
        CLIENTS[sys.argv.pop()].apply(monkey)
        program.main()


if __name__ == "__main__":
    main()
