"""Docstrings name rules and TLA+ actions in plain words; the pages make links of them."""

from __future__ import annotations

import re

from sphinx.application import Sphinx

from mqdocs.twin import module_names

_RULE = re.compile(r"(?<![\w`-])[A-Z]+-\d{3}\b(?!`)")
_ACTION = re.compile(r"(?<![\w`])([A-Z]\w+)!([A-Z]\w+)")


def link(app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    """Make links of the ids in a docstring, in place. One that is not there fails the build."""
    modules = set(module_names())

    def action(match: re.Match[str]) -> str:
        return f":tla:`{match[0]}`" if match[1] in modules else match[0]

    lines[:] = [_ACTION.sub(action, _RULE.sub(r":rule:`\g<0>`", line)) for line in lines]


def tidy_signature(
    app: Sphinx,
    what: str,
    name: str,
    obj: object,
    options: object,
    signature: str | None,
    returns: str | None,
) -> tuple[str | None, str | None]:
    """A default that a factory makes is no Python as it is printed, and would not be parsed."""
    return signature and signature.replace("<factory>", "..."), returns
