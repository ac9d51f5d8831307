"""Many questions in one run of TLC: which invariants are violated, and each by which behaviour.

TLC stops at the first violation, and with `-continue` it reports every violating state, but
of one invariant only. So the model is extended by an invariant that is false in a state
exactly where one of the watched is violated for the first time; it prints which. With one
worker TLC goes breadth first: the behaviour that it then prints is a shortest one for each of
them, as it would be in a run of each alone.
"""

from __future__ import annotations

from collections.abc import Sequence

MODULE = "MqcheckWatch"
INVARIANT = "MqcheckFirstViolations"
LIMIT = "MqcheckLimit"
MARK = "mqcheck violated"
OPTIONS = ("-continue",)

_FIRST_REGISTER = 1000  # of TLCSet; a model may use those below
# All names are its own: the module may have defined any other.
_TEXT = """\
---- MODULE {module} ----
EXTENDS {extends}, TLC
MqcheckRegister(mqcheckI) == {register} + mqcheckI
MqcheckViolated(mqcheckI) == CASE {cases}
ASSUME \\A mqcheckI \\in 1..{count} : TLCSet(MqcheckRegister(mqcheckI), FALSE)
MqcheckIsNew(mqcheckI) == ~TLCGet(MqcheckRegister(mqcheckI)) /\\ MqcheckViolated(mqcheckI)
{invariant} ==
    LET mqcheckNew == {{mqcheckI \\in 1..{count} : MqcheckIsNew(mqcheckI)}}
    IN  \\/ mqcheckNew = {{}}
        \\/ /\\ PrintT(<<"{mark}", mqcheckNew>>)
           /\\ \\A mqcheckI \\in mqcheckNew : TLCSet(MqcheckRegister(mqcheckI), TRUE)
           /\\ FALSE
{limit}====
"""
_LIMIT = """\
MqcheckAll == \\A mqcheckI \\in 1..{count} : TLCGet(MqcheckRegister(mqcheckI))
{limit} == TLCGet("distinct") > {most} \\/ MqcheckAll => TLCSet("exit", TRUE)
"""


_BOUND = """\
---- MODULE {module} ----
EXTENDS {extends}, TLC
{limit} == TLCGet("distinct") <= {most}
====
"""


def bound_module(extends: str, most: int) -> str:
    """The text of a module that extends another by LIMIT: no more states than so many."""
    return _BOUND.format(module=MODULE, extends=extends, limit=LIMIT, most=most)


def watch_module(extends: str, invariants: Sequence[str], most: int = 0) -> str:
    """The text of a module that extends another and watches some of its invariants.

    What it prints names them by their places, from 1. Where `most` is given, it also has the
    invariant LIMIT, which ends the run once all were violated, or after so many states.
    """
    count = len(invariants)
    limit = _LIMIT.format(count=count, most=most, limit=LIMIT) if most else ""
    cases = " [] ".join(f"mqcheckI = {i} -> ~{name}" for i, name in enumerate(invariants, start=1))
    return _TEXT.format(
        module=MODULE,
        extends=extends,
        register=_FIRST_REGISTER,
        cases=cases,
        count=count,
        limit=limit,
        invariant=INVARIANT,
        mark=MARK,
    )
