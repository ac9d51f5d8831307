"""The TLA+ lexer and the reading of modules, on all of ours and on what is rare in them."""

from __future__ import annotations

from pathlib import Path

import pytest
from pygments.token import Comment, Error, Keyword, Name, Number, Operator, Punctuation, String

from mqcheck.manifest import MODELS, TLA
from mqcheck.source import snake_case
from mqcheck.twins import cores
from mqdocs.lexer import TLAPlusLexer
from mqdocs.tla import parse
from mqdocs.twin import CORE, module_names, traced, twins, unframed

MODULES = sorted([*TLA.glob("*.tla"), *MODELS.glob("*/*.tla")])


def tokens(text: str) -> list[tuple[object, str]]:
    return [(kind, value) for kind, value in TLAPlusLexer().get_tokens(text) if value.strip()]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_every_module_is_read_without_an_error(path: Path) -> None:
    found = list(TLAPlusLexer().get_tokens(path.read_text()))
    assert [value for kind, value in found if kind is Error] == []
    assert "".join(value for _, value in found).strip() == path.read_text().strip()
    names = {value for kind, value in found if kind is Name.Function}
    assert parse(path.read_text()).operators.keys() <= names


def test_what_is_not_tla_is_an_error() -> None:
    assert (Error, "§") in tokens("---- MODULE M ----\nA == §\n====")


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("(* a (* nested *) comment *)", Comment.Multiline, "(* a (* nested *) comment *)"),
        ("\\* to the end", Comment.Single, "\\* to the end"),
        ('A == "a \\" b"', String, '"a \\" b"'),
        ("A == \\hFF", Number, "\\hFF"),
        ("A == 1..N", Number, "1"),
        ("A == x2y", Name, "x2y"),
        ("A == \\E x \\in S : x", Operator.Word, "\\in"),
        ("F(x, y) == x", Name.Function, "F"),
        ("A == WF_vars(Next)", Keyword, "WF_"),
        ("A == <<1, 2>>", Punctuation, "<<"),
        ("A == x == y", Name.Function, "A"),
    ],
)
def test_tokens(text: str, kind: object, value: str) -> None:
    joined: list[tuple[object, str]] = []
    for found, part in TLAPlusLexer().get_tokens(f"---- MODULE M ----\n{text}\n===="):
        if joined and joined[-1][0] is found is Comment.Multiline:
            joined[-1] = (found, joined[-1][1] + part)
        else:
            joined.append((found, part))
    assert (kind, value) in joined


def test_text_around_a_module_is_text() -> None:
    kinds = {kind for kind, _ in tokens("about\n---- MODULE M ----\nA == 1\n====\nA is one\n")}
    found = tokens("about\n---- MODULE M ----\nA == 1\n====\nA is one\n")
    assert Comment in kinds
    assert found[0] == (Comment, "about\n")
    assert found[-1] == (Comment, "A is one\n")


def test_a_definition_keeps_the_prose_before_it() -> None:
    text = (
        "---- MODULE M ----\nEXTENDS Naturals\n\n(* One. *)\nA ==\n  1\n\n\\* Two.\nB(x) == x\n===="
    )
    module = parse(text)
    assert module.name == "M"
    assert module.operators["A"].source == "(* One. *)\nA ==\n  1"
    assert module.operators["B"].source == "\\* Two.\nB(x) == x"
    assert module.operators["B"].line == 8


def test_no_module_is_refused() -> None:
    with pytest.raises(ValueError, match="MODULE"):
        parse("A == 1")


@pytest.mark.parametrize(
    ("name", "twin"),
    [
        ("UpdateConsumerOffset", "update_consumer_offset"),
        ("Load", "load"),
        ("OffsetCommit", "offset_commit"),
        ("SendPOPMessage", "send_pop_message"),
    ],
)
def test_names_in_python_spelling(name: str, twin: str) -> None:
    assert snake_case(name) == twin


@pytest.mark.parametrize("name", module_names())
def test_every_module_has_a_page_with_its_twins(name: str) -> None:
    text = (TLA / f"{name}.tla").read_text()
    for core in cores(name, text):
        pairs = twins(parse(text), CORE / f"{core}.py")
        assert pairs, f"no action of {name} has a twin in {core}"
    assert (
        Path(__file__).parents[2] / f"docs/specs/{snake_case(name).replace('_', '-')}.md"
    ).exists()


def test_a_comment_beside_its_twin_is_without_its_frame() -> None:
    framed = "(*******)\n(* One thing, *)\n(* another.   *)\n(*******)\nNext == a * b"
    assert unframed(framed) == "(* One thing, *)\n(* another. *)\nNext == a * b"


def test_which_actions_traces_have_is_told() -> None:
    assert {"TryLockBatch", "UnlockBatch"} <= traced("Lock")
    assert "Tick" not in traced("Lock")  # time stands in its comment alone
    assert traced("RaftLog") == set()
