"""What the walks' judge says of formulas and steps is what TLC says of them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from concrete import Concrete, NoMeaningError, Sought

from mqcheck.values import ModelValue
from mqprove.tla_module import read
from mqspec import toolchain

TRUE = (
    r"\A x \in S : \E y \in S : x + y = 4",
    r"{x \in S : x > 1} = {2, 3} /\ {x * x : x \in S} = {1, 4, 9}",
    r"Cardinality(SUBSET S) = 8 /\ {1, 3} \in SUBSET S /\ {4} \notin SUBSET S",
    r"[x \in S |-> x + 1] = <<2, 3, 4>>",
    r"[f EXCEPT !.a = @ + 1, !.b[2] = 9] = [a |-> 2, b |-> <<5, 9>>]",
    r"DOMAIN f = {'a', 'b'} /\ f.b[1] = 5".replace("'", '"'),
    r"(CHOOSE x \in S : x > 1) \in {2, 3}",
    r"Sum[3] = 6 /\ Sum[0] = 0",
    r"CASE 1 > 2 -> FALSE [] 2 > 1 -> TRUE [] OTHER -> FALSE",
    r"LET twice(x) == 2 * x IN twice(3) = 6",
    r"UNION {{1}, {2, 3}} = S /\ S \ {1} = {2, 3} /\ S \cap {1, 9} = {1}",
    r"SelectSeq(<<1, 2, 3>>, LAMBDA x : x % 2 = 1) = <<1, 3>>",
    r"Append(<<1>>, 2) \o <<3>> = <<1, 2, 3>> /\ Tail(<<1, 2>>) = <<2>> /\ Len(<<>>) = 0",
    r"SubSeq(<<1, 2, 3>>, 2, 3) = <<2, 3>> /\ Head(<<7>>) = 7",
    r"<<1, 'x'>> \in S \X {'x'} /\ \A <<a, b>> \in {<<1, 2>>} : a < b".replace("'", '"'),
    r"[a |-> 1] \in [a : Nat] /\ [x \in S |-> 1] \in [S -> {1}] /\ <<1, 2>> \in Seq(Nat)",
    r"2 ^ 3 = 8 /\ -3 \in Int /\ -3 \notin Nat /\ 7 \div 2 = 3 /\ -7 % 3 = 2",
    r"IF none \in {none, 1} THEN none # 1 ELSE FALSE",
    r"(TRUE => FALSE) \equiv FALSE",
)
FALSE = (
    r"\A x \in S : x > 1",
    r"\E x \in S : x > 3",
    r"none = 1",
    r"[a |-> 1, b |-> 2] \in [a : Nat]",
    r"[x \in S |-> 0] \in [S -> {1}]",
    r"Sum[3] = 7",
    r"<<1, 2>> = <<2, 1>>",
    r"{1, 2} \subseteq {2, 3}",
    r"f.a = 2",
)
MODULE = """---- MODULE Formulas ----
EXTENDS Integers, Sequences, FiniteSets
CONSTANT none
VARIABLES count, by
S == {1, 2, 3}
f == [a |-> 1, b |-> <<5, 6>>]
Sum[n \\in 0 .. 3] == IF n = 0 THEN 0 ELSE n + Sum[n - 1]
%s
Init == count = 0 /\\ by \\in {1, 2}
Add == count < 4 /\\ count' = count + by /\\ UNCHANGED by
Swap == \\E z \\in {1, 2} : z # by /\\ by' = z /\\ count' = IF z = 1 THEN count ELSE 0
Next == Add \\/ Swap
Spec == Init /\\ [][Next]_<<count, by>>
====
"""
NONE = ModelValue("none")


@pytest.fixture(scope="module")
def formulas(tmp_path_factory: pytest.TempPathFactory) -> Path:
    said = [*(f"T{n} == {text}" for n, text in enumerate(TRUE))]
    said += [f"F{n} == {text}" for n, text in enumerate(FALSE)]
    path = tmp_path_factory.mktemp("formulas") / "Formulas.tla"
    path.write_text(MODULE % "\n".join(said))
    return path


@pytest.fixture(scope="module")
def judge(formulas: Path) -> Concrete:
    return Concrete(read(formulas), {"none": NONE}, {"Formulas"})


@pytest.mark.parametrize("number", range(len(TRUE)), ids=TRUE)
def test_what_is_true(judge: Concrete, number: int) -> None:
    assert judge.holds(f"T{number}", {})


@pytest.mark.parametrize("number", range(len(FALSE)), ids=FALSE)
def test_what_is_false(judge: Concrete, number: int) -> None:
    assert not judge.holds(f"F{number}", {})


def test_tlc_says_the_same(formulas: Path) -> None:
    told = [f"T{n}" for n in range(len(TRUE))] + [f"NotF{n}" for n in range(len(FALSE))]
    negated = "\n".join(f"NotF{n} == ~F{n}" for n in range(len(FALSE)))
    path = formulas.with_name("Told.tla")
    path.write_text(f"---- MODULE Told ----\nEXTENDS Formulas\n{negated}\n====\n")
    config = f"SPECIFICATION Spec\nCONSTANT none = none\nINVARIANTS {' '.join(told)}\n"
    path.with_suffix(".cfg").write_text(config)
    java = [str(toolchain.java()), "-XX:+UseSerialGC", "-cp", str(toolchain.tlc_jar()), "tlc2.TLC"]
    done = subprocess.run(
        [*java, "-deadlock", path.name], cwd=path.parent, capture_output=True, text=True, timeout=60
    )
    assert "No error has been found" in done.stdout, done.stdout[-800:]


def test_steps_lead_where_the_module_says(judge: Concrete) -> None:
    beginning, following = judge.named("Init").body, judge.named("Next").body
    assert [*judge.initial(beginning, {"by": 2})] == [{"count": 0, "by": 2}]
    assert [*judge.initial(beginning, {"count": 1})] == []
    before = {"count": 2, "by": 2}
    assert [*judge.following(following, before, Sought({}))] == [
        {"count": 4, "by": 2},
        {"count": 2, "by": 1},
    ]
    assert [*judge.following(following, before, Sought({"count": 2}))] == [{"count": 2, "by": 1}]
    assert [*judge.following(following, before, Sought({"count": 3}))] == []
    by_no_swap = judge.following(following, {"count": 4, "by": 2}, Sought({}, but={"Swap"}))
    assert [*by_no_swap] == []


def test_what_is_not_read_is_named(judge: Concrete) -> None:
    with pytest.raises(NoMeaningError, match="Nothing"):
        judge.holds("Nothing", {})
    with pytest.raises(NoMeaningError, match="no formula"):
        judge.holds("S", {})
