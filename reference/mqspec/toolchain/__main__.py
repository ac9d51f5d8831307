"""`python -m mqspec.toolchain [SET ...]`: fetch the jars; `--resolve` prints them anew."""

from __future__ import annotations

import argparse
import sys

from mqrules import UserError
from mqspec.toolchain import fetch, jar_sets, resolve


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m mqspec.toolchain", description=__doc__)
    parser.add_argument("sets", nargs="*", default=jar_sets(), help="default: all")
    parser.add_argument("--resolve", action="store_true", help="print lines for jars.toml")
    args = parser.parse_args()
    try:
        for jar_set in args.sets:
            if args.resolve:
                for coordinate, digest in sorted(resolve(jar_set)):
                    print(f'"{coordinate}" = "{digest}"')
            else:
                fetch(jar_set, lambda line: print(line, flush=True))
    except UserError as error:
        print(f"mqspec: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
