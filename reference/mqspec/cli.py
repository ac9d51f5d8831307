"""The `mqspec` command: finds its subcommands by entry points.

A subcommand is a module with HELP (one line), `configure(parser)` and `run(args) -> int`,
registered in the entry point group `mqspec.commands`, with the extra that it needs.
"""

from __future__ import annotations

import argparse
import os
import sys
from importlib.metadata import EntryPoint, distribution
from types import ModuleType

import shtab

from mqrules import UserError

GROUP = "mqspec.commands"


def main(argv: list[str] | None = None) -> int:
    """Run one subcommand. Exit codes: 0 well, 1 a rule or check failed, 2 bad input."""
    argv = sys.argv[1:] if argv is None else argv
    ours = distribution("mqspec")  # to look through all that is installed takes long
    available = {entry.name: entry for entry in ours.entry_points.select(group=GROUP)}
    parser = argparse.ArgumentParser(
        prog="mqspec",
        description="The executable, model-checked, proved specification of RocketMQ.",
    )
    parser.add_argument("--version", action="version", version=f"mqspec {ours.version}")
    shtab.add_argument_to(parser, "--print-completion", help="write a script for a shell")
    subparsers = parser.add_subparsers(metavar="COMMAND", required=True)
    # Only the command that is asked for is imported: the others may lack their extras.
    wanted = next((word for word in argv if not word.startswith("-")), None)
    try:
        for name in available if wanted not in available else (wanted,):
            _add(subparsers, available[name], strict=name == wanted)
        args = parser.parse_args(argv)
        status: int = args.run(args)
        return status
    except UserError as error:
        print(f"mqspec: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        # The reader of our output left (`mqspec ... | head`): not an error of ours.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        # A file that is named in no check of ours: one to write to, say. What names none is
        # no input, and a defect.
        if error.filename is None:
            raise
        print(f"mqspec: {error.filename}: {error.strerror}; name another file", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


def _add(
    subparsers: argparse._SubParsersAction[argparse.ArgumentParser],
    entry: EntryPoint,
    strict: bool,
) -> None:
    try:
        command: ModuleType = entry.load()
    except ModuleNotFoundError as error:
        extra = entry.extras[0] if entry.extras else "all"
        if strict:
            raise UserError(
                entry.name,
                f"the package {error.name} is not installed",
                f"run: pip install 'mqspec[{extra}]'",
            ) from None
        subparsers.add_parser(entry.name, help=f"(needs the extra '{extra}')")
        return
    child = subparsers.add_parser(entry.name, help=command.HELP, description=command.__doc__)
    command.configure(child)
    child.set_defaults(run=command.run)


if __name__ == "__main__":
    sys.exit(main())
