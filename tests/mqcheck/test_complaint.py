"""A broken module of a user's own: file, line and operator in one line."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.console import Console

from mqcheck import command
from mqrules import UserError

MODULE = """\
---- MODULE Counter ----
EXTENDS Naturals
CONSTANTS Limit, Names
VARIABLES count, last
Init == count = 0 /\\ last \\in Names
(* Where == is in comments:
Nowhere == 1 *)
Increment(name) == count < Limit /\\ count' = count + 1 /\\ last' = name
Next == \\E name \\in Names : Increment(name)
Spec == Init /\\ [][Next]_<<count, last>> /\\ WF_<<count, last>>(Next)
TypeOK == count \\in 0..Limit
Full == <>(count = Limit)
Never == []<>(count = 0)
====
"""
CONFIG = "CONSTANTS\nLimit = 4\nNames = {n1, n2}\nSPECIFICATION Spec\nINVARIANTS TypeOK\n"


def check(folder: Path, module: str, config: str) -> tuple[int, str]:
    (folder / "Counter.tla").write_text(module)
    (folder / "Counter.cfg").write_text(config)
    console = Console(record=True, width=100)
    code = command._run_file(folder / "Counter.cfg", console)
    return code, console.export_text()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("Init ==", "Init = =", 'Counter.tla:5:1: Was expecting "==== or more Module body"'),
        (": Incr", ": ) Incr", 'Counter.tla:9:29, in Next: Unexpected ")"'),
        ("< Limit", "< Lmit", "Counter.tla:8:28, in Increment: Unknown operator: `Lmit'"),
        ("Naturals", "Natural", "Counter.tla: Cannot find source file for module Natural"),
        ("t(name)\nSpec", "t(name, 2)\nSpec", "Counter.tla:9:38, in Next: The operator Increment"),
        ("Full ==", "TypeOK ==", "Counter.tla:12:1, in TypeOK: Operator TypeOK already defined"),
        ("OK == count", "OK == count'", "Counter.tla:11, in TypeOK: The invariant TypeOK is not a"),
        ("Full ==", "ASSUME count = 1\nFull ==", "Counter.tla:12:1, in ASSUME: Level error"),
        ("count < L", "<<1, 2>>[count] < L", "Counter.tla:8:20, in Increment: Attempted to apply"),
        (
            "0..Limit",
            '0..Limit /\\ count # "x"',
            "Counter.tla:11:33, in TypeOK: Attempted to check",
        ),
        ("count < Limit", "count", "Counter.tla:8:20, in Increment: In computing next states"),
        (" /\\ last' = name", "", "Counter.tla:8, in Increment: Successor state is not completely"),
        ("Limit = 4\n", "", "Counter.cfg: The constant parameter Limit is not assigned a value"),
        ("TypeOK ==", "TypesOK ==", "Counter.cfg: The invariant TypeOK specified"),
        ("ION Spec", "ION Speck", "Counter.cfg: The name Speck specified in the configuration"),
    ],
)
def test_what_is_wrong_and_where(tmp_path: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(UserError) as caught:
        check(tmp_path, MODULE.replace(old, new, 1), CONFIG.replace(old, new, 1))
    assert message in str(caught.value)
    assert str(caught.value).startswith("Counter.cfg: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("more", "code", "said"),
    [
        ("", 0, "Counter.cfg: holds, 10 distinct states"),
        ("CHECK_DEADLOCK TRUE\n", 1, "Counter.cfg: Deadlock reached, 10 distinct states"),
        ("PROPERTIES Full Never\n", 1, "Counter.cfg: Never is violated, 10 distinct states"),
    ],
)
def test_what_tlc_says_of_a_model_of_ones_own(
    tmp_path: Path, more: str, code: int, said: str
) -> None:
    ended, shown = check(tmp_path, MODULE, CONFIG + more)
    assert (ended, shown.splitlines()[-1]) == (code, said)
    assert code == 0 or "5     ●      Increment" in shown


def test_an_invariant_is_named(tmp_path: Path) -> None:
    code, shown = check(tmp_path, MODULE.replace("0..Limit", "0..2"), CONFIG)
    assert code == 1
    assert "Counter.cfg: Invariant TypeOK is violated" in shown
    assert "count: 2 -> 3" in shown
