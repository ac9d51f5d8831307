"""The shell decides nothing: its sources name no response code and write no remark.

What a request is answered is a value of the core, which `mqspec.service` hands on. The one table
that a source of the shell may look an answer up in is the core's own.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import mqspec

ROOT = Path(mqspec.__file__).parent
SOURCES = sorted(path for part in ("broker", "nameserver") for path in (ROOT / part).rglob("*.py"))

NAMES = {"ResponseCode", "NOT_SET", "SEE_FAQ"}
VALUES = {"Answer", "Refusal", "Thrown"}  # of the core, which makes them
TABLES = {"PUT_CODES"}  # of the core: from how a put ended to the code


def decisions(source: str) -> list[str]:
    """The lines of a source that choose a response code, or write a remark."""
    nodes = [node for node in ast.walk(ast.parse(source)) if _decides(node)]
    found = {node.lineno for node in nodes if isinstance(node, ast.expr | ast.alias | ast.keyword)}
    lines = source.splitlines()
    return [lines[number - 1].strip() for number in sorted(found)]


def _decides(node: ast.AST) -> bool:
    match node:
        case ast.alias(name=name) | ast.Name(id=name) | ast.Attribute(attr=name) if name in NAMES:
            return True
        case ast.keyword(arg="remark") | ast.Name(id="remark", ctx=ast.Store()):
            return True
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if name in VALUES:
            return True
        case ast.Call(func=ast.Attribute(attr="response"), args=args, keywords=keywords):
            return any(not _is_looked_up(value) for value in _codes_and_remarks(args, keywords))
        case _:
            return False


def _codes_and_remarks(args: list[ast.expr], keywords: list[ast.keyword]) -> Iterator[ast.expr]:
    yield from args
    yield from (keyword.value for keyword in keywords if keyword.arg in ("code", "remark", None))


def _is_looked_up(value: ast.expr) -> bool:
    match value:
        case ast.Subscript(value=ast.Name(id=name)):
            return name in TABLES
        case _:
            return False


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_source_of_the_shell_decides_what_is_answered(path: Path) -> None:
    assert decisions(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "line",
    [
        "from mqspec.core.response import ResponseCode",
        "from mqspec.core import response; code = response.ResponseCode.SUCCESS",
        "from mqspec.core.response import NOT_SET as not_set",
        "remark = f'topic {name} not exist'",
        "remark: str = 'no'",
        "for remark in remarks: pass",
        "answer = request.response(1)",
        "answer = request.response(code=17)",
        "answer = request.response(remark='')",
        "answer = request.response(**fields)",
        "answer = request.response(codes[status])",
        "answer = request.response(*refused)",
        "answer = Refusal(1, 'no')",
        "answer = response.Answer(1)",
        "answer = replace(answer, remark='no')",
    ],
)
def test_one_that_decides_is_found(line: str) -> None:
    assert decisions(f"def serve():\n    {line}\n") == [line]


def test_one_that_hands_on_is_not() -> None:
    assert decisions("request.response(PUT_CODES[status], ext_fields=fields)") == []
    assert decisions("request.response(body=dumps(body))") == []
    assert decisions("answered(request, query.by_key(records, fields))") == []
    assert decisions("error(f'the nameserver answers {response.code}: {response.remark}')") == []
