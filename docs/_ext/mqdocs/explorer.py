"""`{explorer}`: a form whose answers the core computes in the reader's browser.

Brython, a Python in JavaScript, runs the modules of the core as they are: their sources are written
beside the pages, with Brython's own files from its package. A page loads them when somebody touches
the form, and shows the first answer, computed when the book is built, until then.
"""

from __future__ import annotations

import ast
import json
import shutil
from collections.abc import Iterator, Mapping
from importlib.resources import as_file, files
from importlib.util import find_spec
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from mqdocs.explored import EVENTS, answered

# What the browser imports, and the packages that these are in, which are empty there.
MODULES = (
    "mqrules.errors",
    "mqspec.core.types",
    "mqspec.core.allocation",
    "mqspec.commands.plan",
    "mqdocs.explored",
    "mqdocs.in_page",
)
RUNTIME = ("brython.js", "brython_stdlib.js")
SOURCES = "mqspec.brython.js"

# Name, label, first value; or, of a choice, the values.
FIELDS: tuple[tuple[str, str, str | tuple[str, ...]], ...] = (
    (
        "strategy",
        "Strategy",
        (
            "AVG",
            "AVG_BY_CIRCLE",
            "CONSISTENT_HASH",
            "MACHINE_ROOM",
            "MACHINE_ROOM_NEARBY-AVG",
            "MACHINE_ROOM_NEARBY-CONSISTENT_HASH",
        ),
    ),
    ("queues", "Queues on each broker", "24"),
    ("topics", "or topics, as T:8 U:6", ""),
    ("brokers", "Brokers, or ROOM@NAME", "broker-a"),
    ("members", "Members: how many, or ids", "4"),
    ("event", "What happens", tuple(EVENTS)),
    ("who", "to whom: 2, or an id", "2"),
    ("rooms", "Rooms of MACHINE_ROOM", ""),
)
FIRST = {"strategy": "AVG", "queues": "24", "members": "4", "event": "a member leaves", "who": "2"}


class ExplorerDirective(SphinxDirective):
    """The form, and its first answer."""

    def run(self) -> list[nodes.Node]:
        form = "".join(_fields())
        html = (
            f'<form class="explorer" hidden data-sources="{SOURCES}">{form}'
            '<p role="status"></p></form>'
            f'<div class="explored">{answered(FIRST)}</div>'
        )
        return [nodes.raw("", html, format="html")]


def _fields() -> Iterator[str]:
    for name, label, values in FIELDS:
        first = FIRST.get(name, "" if isinstance(values, tuple) else values)
        if isinstance(values, tuple):
            options = "".join(
                f"<option{' selected' if value == first else ''}>{value}</option>"
                for value in values
            )
            field = f'<select name="{name}">{options}</select>'
        else:
            field = f'<input name="{name}" value="{first}" spellcheck="false">'
        yield f"<label>{label} {field}</label>"


def write_runtime(app: Sphinx, error: Exception | None) -> None:
    """Put what the browser runs beside the pages."""
    if error is not None or app.builder.format != "html":
        return
    static = Path(app.outdir) / "_static"
    static.mkdir(parents=True, exist_ok=True)
    for name in RUNTIME:
        with as_file(files("brython").joinpath("data", name)) as source:
            shutil.copyfile(source, static / name)
    (static / SOURCES).write_text(
        f"__BRYTHON__.update_VFS({json.dumps(sources())})\n", encoding="utf-8"
    )


def sources() -> Mapping[str, object]:
    """The modules as Brython takes them: suffix, source, what it imports, whether a package."""
    texts = {name: _source(name) for name in MODULES}
    packages = {name.rpartition(".")[0] for name in MODULES}
    packages |= {name.split(".")[0] for name in MODULES}
    return {
        "$timestamp": 0,
        **{name: [".py", "", [], True] for name in sorted(packages)},
        **{name: [".py", text, sorted(_imported(text)), False] for name, text in texts.items()},
    }


def _source(name: str) -> str:
    found = find_spec(name)
    assert found is not None  # it is installed, or stands beside this module
    assert found.origin is not None
    return Path(found.origin).read_text(encoding="utf-8")


def _imported(text: str) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
    return names - {"__future__"}
