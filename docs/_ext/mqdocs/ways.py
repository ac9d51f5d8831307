"""`{way} REQUEST`: the way of a request through the modules of the broker, read from the code.

It begins at the function that the broker's table has for the request's code. What a function
names is followed: functions of other modules, methods of the store and of the broker's parts, and
of a conversation's questions who carries them out. Each stands once, below whoever comes to it
first; those of one module are one room.
"""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from types import FunctionType, ModuleType
from typing import Any

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.util.docutils import SphinxDirective

from mqspec.broker import conversing
from mqspec.broker.processor.table import PROCESSORS
from mqspec.core.conversation import Ask
from mqspec.wire.codes import RequestCode

# What decides, stores and carries. How a field is read, what time it is and what a record is made
# of is in the hands of all.
ROOMS = ("mqspec.broker", "mqspec.core", "mqspec.fast", "mqspec.store")
NO_ROOMS = ("mqspec.core.java", "mqspec.core.record", "mqspec.core.response", "mqspec.core.step")
DEEPEST = 6
# A method that a list or a table has as well is one of ours where it is asked of these.
_PARTS = ("store", "sends")
_PLAIN = {name for kind in (dict, list, set, str, bytes) for name in dir(kind)}

Function = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Stop:
    """A function on the way, and what it comes to in other modules."""

    function: Function
    onward: Sequence[Stop]


class WayDirective(SphinxDirective):
    """Nested lists: a room a level, with the function that is entered and what it is for."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        name = self.arguments[0]
        if name not in RequestCode.__members__ or RequestCode[name] not in PROCESSORS:
            raise self.error(f"no processor for {name}")
        return [nodes.bullet_list("", self._item(way(PROCESSORS[RequestCode[name]])))]

    def _item(self, stop: Stop) -> nodes.list_item:
        function = stop.function
        full = f"{function.__module__}.{function.__qualname__}"
        name: nodes.Node = nodes.literal("", full.removeprefix("mqspec."))
        if not function.__name__.startswith("_"):  # others have no place in the reference
            name = pending_xref(
                "", name, refdomain="py", reftype="obj", reftarget=full, refwarn=True
            )
        about = (inspect.getdoc(function) or "").partition("\n\n")[0].replace("\n", " ")
        text = nodes.Text(f": {about}" if about else "")
        item = nodes.list_item("", nodes.paragraph("", "", name, text))
        if stop.onward:
            item += nodes.bullet_list("", *(self._item(each) for each in stop.onward))
        return item


def way(function: Function) -> Stop:
    """All that a function comes to, each once: what is nearest keeps what several come to."""
    seen = {function}
    onward: dict[Function, list[Function]] = {}
    level = [function]
    for _ in range(DEEPEST):
        following: list[Function] = []
        for each in level:
            onward[each] = [other for other in _leaving(each) if other not in seen]
            seen.update(onward[each])
            following += onward[each]
        level = following

    def stop(each: Function) -> Stop:
        return Stop(each, [stop(other) for other in onward.get(each, ())])

    return stop(function)


def _leaving(function: Function) -> Iterator[Function]:
    """What a function names of other modules, itself or through helpers of its own module."""
    waiting, seen = [function], {function}
    found: dict[Function, None] = {}
    while waiting:
        for other in _named(waiting.pop(0)):
            if other.__module__ != function.__module__:
                found[other] = None
            elif other not in seen:
                seen.add(other)
                waiting.append(other)
    return iter(found)


@cache
def _named(function: Function) -> tuple[Function, ...]:
    """The functions of our rooms that a function's text names, in the order of the text."""
    code = inspect.unwrap(function)
    if not isinstance(code, FunctionType) or code.__name__ == "<lambda>":
        return ()
    tree = ast.parse(textwrap.dedent(inspect.getsource(code)))
    names = [n for n in ast.walk(tree) if isinstance(n, ast.Name | ast.Attribute)]
    names.sort(key=lambda node: (node.lineno, node.col_offset))
    found: dict[Function, None] = {}
    for node in names:
        for other in _meant(node, code):
            in_room = other.__module__.startswith(ROOMS) and other.__module__ not in NO_ROOMS
            if in_room and other is not function:
                found[other] = None
    return tuple(found)


def _meant(node: ast.Name | ast.Attribute, inside: FunctionType) -> Iterator[Function]:
    """What a name stands for, where that can be told from the text."""
    known = inside.__globals__
    value: Any
    if isinstance(node, ast.Name):
        value = known.get(node.id)
    elif isinstance(node.value, ast.Name) and isinstance(known.get(node.value.id), ModuleType):
        value = getattr(known[node.value.id], node.attr, None)
    elif isinstance(node.value, ast.Name) and node.value.id == "self":
        value = getattr(known.get(inside.__qualname__.partition(".")[0]), node.attr, None)
    else:
        # The core calls no method of ours; what it asks for comes by a conversation's questions.
        is_core = inside.__module__.startswith("mqspec.core")
        of_part = isinstance(node.value, ast.Attribute) and node.value.attr in _PARTS
        if not is_core and (of_part or node.attr not in _PLAIN):
            yield from _methods().get(node.attr, ())
        return
    if isinstance(value, type) and issubclass(value, Ask):
        value = {**conversing._AT_ONCE, **conversing._IN_TIME}.get(value)
    if getattr(value, "__name__", "") == "<lambda>":  # of a table: what it calls is what is meant
        for name in value.__code__.co_names:
            yield from _methods().get(name, ())
    elif inspect.isfunction(inspect.unwrap(value) if callable(value) else value):
        yield value


@cache
def _methods() -> dict[str, tuple[Function, ...]]:
    """Methods by name, of those classes of the store and of the broker that alone have them. What
    else has been imported, such as a client, makes no difference."""
    kept = ("mqspec.store.message_store", "mqspec.broker.")
    found: dict[str, set[Function]] = {}
    for module in [m for name, m in sys.modules.items() if name.startswith(kept)]:
        for value in vars(module).values():
            if isinstance(value, type) and value.__module__ == module.__name__:
                for name, method in vars(value).items():
                    if inspect.isfunction(method) and not name.startswith("_"):
                        found.setdefault(name, set()).add(method)
    return {name: tuple(methods) for name, methods in found.items() if len(methods) == 1}
