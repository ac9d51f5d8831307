"""A TLA+ module as TLA+'s own parser reads it: names, definitions, expressions.

SANY resolves names, nests conjunction lists by their columns, and tells constants, states and
actions apart; nothing of that is done here again.
"""

from __future__ import annotations

import subprocess
import xml.etree.ElementTree as Xml
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from mqcheck.cache import Cache, key_of
from mqcheck.manifest import library
from mqprove.symbolic import NotUnderstoodError
from mqspec import toolchain

SECONDS_MAX = 60
KEPT = Path(".mqspec/sany")  # what SANY said
STATE, ACTION = 1, 2  # the levels of TLA+: 0 is a constant, 3 a behaviour
_CONSTANT, _VARIABLE = "2", "3"


@dataclass(frozen=True, slots=True)
class Expression:
    """What an expression is: a number, a text, a name with operands, or definitions and a body."""

    kind: str  # number, text, builtin, operator, parameter, name, at, other, argument, with
    name: str = ""
    operands: tuple[Expression, ...] = ()
    bounds: tuple[Bound, ...] = ()
    level: int = 0
    number: int = 0
    line: int = 0


@dataclass(frozen=True, slots=True)
class Bound:
    """Names that range over a set; of `with`, a name and what stands for it."""

    names: tuple[str, ...]
    is_tuple: bool
    over: Expression


def one_by_one(bounds: Sequence[Bound]) -> Iterator[Bound]:
    """The bounds, each of one name, or of one tuple."""
    for bound in bounds:
        each = [bound.names] if bound.is_tuple else [(name,) for name in bound.names]
        yield from (replace(bound, names=names) for names in each)


@dataclass(frozen=True, slots=True)
class Definition:
    """An operator of the module. `key` is its own, `name` what it is called."""

    name: str
    parameters: tuple[str, ...]
    body: Expression
    module: str


@dataclass
class Module:
    """A module with those that it extends."""

    name: str
    constants: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
    definitions: dict[str, Definition] = field(default_factory=dict)  # by key
    parameters: dict[str, str] = field(default_factory=dict)  # their names, by key

    def variables_of(self, expression: Expression) -> set[str]:
        """The variables that an expression looks at, also by what it calls."""
        found: set[str] = set()
        seen: set[str] = set()
        pending = [expression]
        while pending:
            one = pending.pop()
            pending += [*one.operands, *(bound.over for bound in one.bounds)]
            if one.kind == "name" and one.name in self.variables:
                found.add(one.name)
            if one.kind in ("operator", "argument") and one.name not in seen:
                seen.add(one.name)
                pending += [self.definitions[one.name].body] if one.name in self.definitions else []
        return found

    def named(self, name: str) -> Definition:
        """The definition of this name. Raises NotUnderstoodError where there is none."""
        found = [each for each in self.definitions.values() if each.name == name]
        if len(found) != 1:
            raise NotUnderstoodError(f"{self.name} defines {name} {len(found)} times")
        return found[0]


def read(path: Path, first: Path | None = None) -> Module:
    """The module of a file. Modules that it extends are looked for in the folder `first`, then
    beside it and in the project. What SANY says of the project's own is kept, by the content of all
    that it reads."""
    if first:
        return _module(path, _said([first, path.parent, *library()], path))
    kept, key = Cache(KEPT), key_of(path, "", library(), ("SANY",))
    if (found := kept.get(key)) is None:
        found = 0, _said([path.parent, *library()], path)
        kept.keep(key, *found)
    return _module(path, found[1])


def _module(path: Path, said: str) -> Module:
    return _Reader(Xml.fromstring(said)).module(path.stem)


def _said(folders: Sequence[Path], path: Path) -> str:
    """What SANY says of the module of a file, as XML."""
    libraries = [word for each in folders for word in ("-I", str(each.resolve()))]
    # SANY unpacks the modules of TLA+ there and deletes them: two at once would take each other's.
    with TemporaryDirectory() as unpacked:
        options = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", f"-Djava.io.tmpdir={unpacked}")
        told = subprocess.run(
            [
                *(str(toolchain.java()), *options, "-cp", str(toolchain.tlc_jar())),
                *("tla2sany.xml.XMLExporter", "-o", *libraries, str(path.resolve())),
            ],
            cwd=unpacked,  # where it looks first
            capture_output=True,
            timeout=SECONDS_MAX,
            check=False,
        )
    begin = told.stdout.find(b"<?xml")
    if told.returncode or begin < 0:
        said = (told.stdout + told.stderr).decode("utf-8", "replace")
        raise NotUnderstoodError(f"SANY does not read {path.name}: {said[-300:]}")
    return told.stdout[begin:].decode("utf-8")


class _Reader:
    def __init__(self, root: Xml.Element) -> None:
        self._context = {_text(entry, "UID"): entry[1] for entry in root.iterfind("context/entry")}

    def module(self, name: str) -> Module:
        found = Module(name)
        for key, node in self._context.items():
            if node.tag == "OpDeclNode":
                names = {_CONSTANT: "constants", _VARIABLE: "variables"}[_text(node, "kind")]
                setattr(found, names, (*getattr(found, names), _text(node, "uniquename")))
            elif node.tag == "FormalParamNode":
                found.parameters[key] = _text(node, "uniquename")
            elif node.tag == "UserDefinedOpKind":
                found.definitions[key] = self._definition(node)
        return found

    def _definition(self, node: Xml.Element) -> Definition:
        parameters = tuple(
            _text(each, "UID") for each in node.iterfind("params/leibnizparam/FormalParamNodeRef")
        )
        (body,) = node.iterfind("body/*")
        module = _text(node, "location/filename")
        return Definition(_text(node, "uniquename"), parameters, self._expression(body), module)

    def _expression(self, node: Xml.Element) -> Expression:
        level, line = (int(node.findtext(path) or 0) for path in ("level", "location/line/begin"))
        match node.tag:
            case "NumeralNode":
                return Expression("number", number=int(_text(node, "IntValue")), line=line)
            case "StringNode" if node.find("StringValue") is None:
                return Expression("other", line=line)  # of a CASE
            case "StringNode":
                return Expression("text", _text(node, "StringValue"), line=line)
            case "AtNode":
                return Expression("at", level=level, line=line)
            case "LetInNode":
                (body,) = node.iterfind("body/*")
                return self._expression(body)  # its definitions are found by their keys
            case "OpApplNode":
                (reference,) = node.iterfind("operator/*")
                kind, name = self._operator(reference)
                operands = tuple(map(self._expression, node.iterfind("operands/*")))
                bounds = tuple(self._bounds(node))
                return Expression(kind, name, operands, bounds, level, line=line)
            case "OpArgNode":
                (reference,) = node.iterfind("argument/*")
                _, name = self._operator(reference)
                return Expression("argument", name, level=level, line=line)  # an operator itself
            case "SubstInNode":  # of an INSTANCE: its names, by what stands for them here
                (body,) = node.iterfind("body/*")
                put = tuple(self._substituted(each) for each in node.iterfind("substs/Subst"))
                inside = self._expression(body)
                return Expression("with", "", (inside,), put, inside.level, line=line)
            case other:
                raise NotUnderstoodError(f"line {line}: a {other}")

    def _substituted(self, node: Xml.Element) -> Bound:
        declared, value = node
        _, name = self._operator(declared)
        return Bound((name,), False, self._expression(value))

    def _operator(self, reference: Xml.Element) -> tuple[str, str]:
        key = _text(reference, "UID")
        name = _text(self._context[key], "uniquename")
        match reference.tag:
            case "BuiltInKindRef":
                return "builtin", name
            case "UserDefinedOpKindRef":
                return "operator", key
            case "FormalParamNodeRef":
                return "parameter", key
            case "OpDeclNodeRef":
                return "name", name
            case other:
                raise NotUnderstoodError(f"a {other}")

    def _bounds(self, node: Xml.Element) -> Iterator[Bound]:
        for itself in node.iterfind("boundSymbols/unbound/FormalParamNodeRef"):
            # Of f[x \in S] == ..., which speaks of f.
            yield Bound((_text(itself, "UID"),), False, Expression("other"))
        for bound in node.iterfind("boundSymbols/bound"):
            names = tuple(_text(each, "UID") for each in bound.iterfind("FormalParamNodeRef"))
            (over,) = (each for each in bound if each.tag not in ("FormalParamNodeRef", "tuple"))
            yield Bound(names, bound.find("tuple") is not None, self._expression(over))


def _text(node: Xml.Element, path: str) -> str:
    found = node.findtext(path)
    if found is None:
        raise NotUnderstoodError(f"SANY says no {path} of a {node.tag}")
    return found
