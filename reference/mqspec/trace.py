"""A trace: what each process changes, one line of JSON a step, in an order that causes explain.

A line is written before anything that the step sends, with one write at the end of a file
that all processes of a host share. So no line stands before one that it is an effect of, and
no clock is needed. What a process wrote before it was killed is there.

Its fields:

- `writer`, `seq`: who wrote it, and its number among that one's lines, so that a lost line is
  noticed;
- `process`: a broker's name, or a member as group/client id;
- `module`: whose variables these are: a module of the core, named as its TLA+ twin;
- `event`: what the action was given, where the shell says it;
- `reads`: `[variable, key, value]`, what was told of a variable to another process, or what a
  member knows when it rebalances, and was told by others;
- `changes`: `[variable, key, value]`; without a value the key is removed, with the key null it
  is all of the variable;
- `sends`: what is sent to other processes.

The names are those of the core; `mqcheck.traces.trace` reads the lines.
"""

from __future__ import annotations

import itertools
import os
import socket
from collections.abc import Hashable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import msgspec

from mqrules import UserError
from mqspec.core.step import REMOVED, Change, Step


class Trace:
    """The end of a trace file, which is made if it is not there. Raises UserError."""

    def __init__(self, path: Path) -> None:
        try:
            self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        except OSError as error:
            raise UserError(
                str(path), f"cannot be written: {error.strerror}", "name a file"
            ) from None
        self._writer = f"{socket.gethostname()}/{os.getpid()}/{os.urandom(4).hex()}"
        self._seq = itertools.count()

    def step(self, process: str, module: str, step: Step, event: object = None) -> None:
        """What an action does, before it is done, and what it was given, if that is to be told.
        One that does nothing is not written."""
        if step.changes or step.sends:
            changes = [_change(change) for change in step.changes]
            told = {} if event is None else {"event": plain(event)}
            self._write(process, module, **told, changes=changes, sends=plain(step.sends))

    def read(
        self, process: str, module: str, variable: str, key: Hashable | None, value: object
    ) -> None:
        """What is about to be told of a variable."""
        self._write(process, module, reads=[[variable, plain(key), plain(value)]])

    def _write(self, process: str, module: str, **what: object) -> None:
        line = {
            "writer": self._writer,
            "seq": next(self._seq),
            "process": process,
            "module": module,
            **what,
        }
        os.write(self._file, msgspec.json.encode(line) + b"\n")


def _change(change: Change) -> list[object]:
    value = () if change.value is REMOVED else (plain(change.value),)
    return [change.variable, plain(change.key), *value]


def plain(value: object) -> Any:
    """A value of the core as JSON has it: records as objects, a mapping whose keys are no text
    as a list of pairs, a connection as the address of its other end."""
    match value:
        case Enum():
            return plain(value.value)
        case None | bool() | int() | float() | str():
            return value
        case Mapping() if all(isinstance(key, str) for key in value):
            return {key: plain(item) for key, item in value.items()}
        case Mapping():
            return [[plain(key), plain(item)] for key, item in value.items()]
        case tuple() if hasattr(value, "_asdict"):
            return {name: plain(item) for name, item in value._asdict().items()}
        case tuple() | list() | set() | frozenset():
            return [plain(item) for item in value]
        case msgspec.Struct():
            return {name: plain(getattr(value, name)) for name in value.__struct_fields__}
        case _ if is_dataclass(value):
            return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
        case bytes():
            return value.hex()
        case _:
            return str(getattr(value, "peer", value))
