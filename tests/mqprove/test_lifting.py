"""What is read of Python is what Python does; what cannot be read is refused, with its line."""

from __future__ import annotations

import inspect
from dataclasses import replace
from types import ModuleType
from typing import Any, Final

import pytest
import z3
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mqprove.any_group import AnyGroup
from mqprove.lists import first_at, id_at, is_listed
from mqprove.mutants import mutate
from mqprove.prover import prove
from mqprove.symbolic import NotUnderstoodError
from mqprove.theorems import AVG, THEOREMS
from mqspec.core import allocation
from mqspec.core.types import MessageQueue

WHOLE = inspect.getsource(allocation.averagely)
HEAD = WHOLE[: WHOLE.index("    index = ")]
SIZES = [(queues, members) for queues in range(1, 6) for members in range(1, 4)]


def with_body(*lines: str) -> ModuleType:
    """The module of allocation, its `averagely` with another body."""
    body = "".join(f"    {line}\n" for line in lines)
    return mutate("by hand", allocation, WHOLE, HEAD + body).module


# Programs: numbers of the group's sizes, and lists made of the queues by them.

NUMBERS = st.recursive(
    st.sampled_from(["n", "c", "index", "0", "1", "2", "3"]),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from("+-*"), inner).map(lambda p: f"({' '.join(p)})"),
        st.tuples(inner, st.sampled_from(["//", "%"]), st.sampled_from(["c", "n", "2", "3"])).map(
            lambda p: f"({' '.join(p)})"
        ),
        st.tuples(inner, inner).map(lambda p: f"min({p[0]}, {p[1]})"),
    ),
    max_leaves=4,
)
SIMPLE = st.sampled_from(["n", "c", "index", "n // c", "n % c", "index + 1", "n - index", "2"])
TESTS = st.tuples(
    st.sampled_from(["at", "at % c", "at + index", "at // 2"]),
    st.sampled_from(["<", "<=", "==", "!=", ">"]),
    SIMPLE,
).map(" ".join)
WHILES = st.one_of(
    st.tuples(st.sampled_from(["<", "<="]), SIMPLE).map(lambda p: f"at {' '.join(p)}"),
    st.tuples(SIMPLE, st.sampled_from([">", ">="])).map(lambda p: f"{' '.join(p)} at"),
    st.tuples(SIMPLE, SIMPLE).map(lambda p: f"at < {p[0]} and at <= {p[1]}"),
)
STEPS = st.sampled_from(["+= 1", "+= 2", "+= c", "= at + 1", "+= index + 1"])
FIRST = st.one_of(
    st.tuples(SIMPLE, SIMPLE, TESTS).map(lambda p: f"at for at in range({p[0]}, {p[1]}) if {p[2]}"),
    st.tuples(SIMPLE, TESTS).map(lambda p: f"at + {p[0]} for at, _ in enumerate(mq_all) if {p[1]}"),
    st.sampled_from(["==", "!="]).map(
        lambda how: f"at for at, cid in enumerate(cid_all) if cid {how} current_cid"
    ),
    st.just("at for at in range(c) if cid_all[at] == current_cid"),
)
LEFT = st.sampled_from(
    ["rest", "len(rest)", "len(rest) > 1", "len(rest) >= 2", "index < len(rest)", "len(rest) > c"]
)
TAKEN_OFF = st.sampled_from(
    [
        ["taken.append(rest[0])", "rest = rest[{step}:]"],
        ["taken += rest[:1]", "rest = rest[{step}:]"],
        ["rest = rest[{step}:]", "taken += rest[:1]"],
        ["mq, *rest = rest", "taken = taken + [mq]"],
        ["mq, rest = rest[0], rest[{step}:]", "taken = [*taken, mq]"],
        ["taken.append(rest.pop(0))"],
        ["mq = rest.pop(0)", "if len(rest) > {step}:", "    taken += [mq]"],
        ["rest.pop(0)", "rest = rest[{step}:]"],
    ]
)
MORE = st.sampled_from(
    [
        "taken = taken + [mq_all[at]]",
        "taken = [*taken, mq_all[at]]",
        "taken = taken + [mq_all[at]] if {test} else taken",
        "taken = taken if {test} else [*taken, mq_all[at]]",
        "taken = taken + [mq_all[at]] + mq_all[at + 1 : at + 2]",
        "taken = taken + mq_all[at : at + 1]",
        "taken = [mq_all[at]] + taken",
    ]
)
KINDS: Final[tuple[st.SearchStrategy[list[str]], ...]] = (
    st.tuples(NUMBERS, NUMBERS).map(lambda p: [f"return mq_all[{p[0]}:{p[1]}]"]),
    st.tuples(NUMBERS, SIMPLE).map(lambda p: [f"return mq_all[{p[0]} :: max(1, {p[1]})]"]),
    st.tuples(SIMPLE, SIMPLE).map(lambda p: [f"return mq_all[{p[0]}:][:{p[1]}]"]),
    st.tuples(SIMPLE, SIMPLE).map(lambda p: [f"return mq_all[:{p[0]}] + mq_all[{p[1]}:]"]),
    st.tuples(SIMPLE, SIMPLE).map(lambda p: [f"return [*mq_all[:{p[0]}], mq_all[{p[1]}]]"]),
    TESTS.map(lambda test: [f"return [mq for at, mq in enumerate(mq_all) if {test}]"]),
    st.tuples(SIMPLE, SIMPLE, TESTS).map(
        lambda p: [f"return [mq_all[at] for at in range({p[0]}, {p[1]}) if {p[2]}]"]
    ),
    st.tuples(SIMPLE, SIMPLE, TESTS).map(
        lambda p: [
            "taken = mq_all[:0]",
            f"for at in range({p[0]}, {p[1]}):",
            f"    if {p[2]}:",
            "        taken.append(mq_all[at])",
            "return taken",
        ]
    ),
    st.tuples(TESTS).map(
        lambda p: [
            "taken = []",
            "for at, mq in enumerate(mq_all):",
            f"    if {p[0]}:",
            "        continue",
            "    taken += [mq]",
            "return list(taken)",
        ]
    ),
    st.tuples(SIMPLE, SIMPLE, NUMBERS).map(
        lambda p: [
            "share, rest = divmod(n, c)",
            f"if {p[0]} < {p[1]}:",
            "    return mq_all[index * share : (index + 1) * share]",
            f"return mq_all[{p[2]} : rest]",
        ]
    ),
    # A while, what comes first, tuples, filters and maps
    st.tuples(SIMPLE, WHILES, STEPS, TESTS, st.sampled_from(["taken", "taken + mq_all[at:]"])).map(
        lambda p: [
            "taken = mq_all[:0]",
            f"at = {p[0]}",
            f"while {p[1]}:",
            f"    if {p[3]}:",
            "        taken.append(mq_all[at])",
            f"    at {p[2]}",
            f"return {p[4]}",
        ]
    ),
    st.tuples(FIRST, st.sampled_from(["", ", 0", ", n", ", index"])).map(
        lambda p: [
            f"at = next(({p[0]}){p[1]})" if p[1] else f"at = next({p[0]})",
            "return mq_all[at::2]",
        ]
    ),
    st.tuples(TESTS, st.sampled_from(["", ", mq_all[0]"])).map(
        lambda p: [f"return [next((mq for at, mq in enumerate(mq_all) if {p[0]}){p[1]})]"]
    ),
    st.tuples(SIMPLE, SIMPLE).map(
        lambda p: [
            f"return list(tuple(mq_all)[{p[0]}:])[: tuple(cid_all).index(current_cid) + {p[1]}]"
        ]
    ),
    st.tuples(SIMPLE, SIMPLE, TESTS, TESTS).map(
        lambda p: [
            f"picked = [mq_all[at] for at in filter(lambda at: {p[2]}, range({p[0]}, {p[1]}))]",
            "for at in filter(lambda at: {3}, range(n)):".format(*p),
            "    picked += [mq_all[at]]",
            "return picked",
        ]
    ),
    st.tuples(SIMPLE, SIMPLE, NUMBERS).map(
        lambda p: [f"return tuple(map(lambda at: mq_all[at + {p[2]}], range({p[0]}, {p[1]})))"]
    ),
    # Backwards, iterators, sums, truths that are numbers, match
    st.tuples(SIMPLE, SIMPLE, st.sampled_from(["-1", "-2", "-c"])).map(
        lambda p: [f"return mq_all[{p[0]} : {p[1]} : {p[2]}]"]
    ),
    st.tuples(
        NUMBERS, st.sampled_from(["-1", "-2"]), SIMPLE, st.sampled_from(["1", "2", "-1"])
    ).map(lambda p: [f"return mq_all[{p[0]} :: {p[1]}][{p[2]} :: {p[3]}]"]),
    st.tuples(SIMPLE, SIMPLE).map(lambda p: [f"return mq_all[-({p[0]}) : -({p[1]})]"]),
    st.tuples(SIMPLE, SIMPLE, st.sampled_from(["-1", "-2", "-c"]), TESTS).map(
        lambda p: [f"return [mq_all[at] for at in range({p[0]}, {p[1]}, {p[2]}) if {p[3]}]"]
    ),
    st.tuples(SIMPLE, SIMPLE, TESTS, st.sampled_from(["mq_all[at]", "mq_all[at - 1]"])).map(
        lambda p: [
            "taken = mq_all[:0]",
            f"for at in reversed(range({p[0]}, {p[1]})):",
            f"    if {p[2]}:",
            f"        taken.append({p[3]})",
            "return taken",
        ]
    ),
    st.tuples(SIMPLE, SIMPLE, TESTS).map(
        lambda p: [
            f"return [mq for mq, at in zip(reversed(mq_all[{p[0]}:]), range({p[1]}, n)) if {p[2]}]"
        ]
    ),
    st.tuples(SIMPLE, st.sampled_from(["==", "<", "!="]), SIMPLE).map(
        lambda p: [
            f"turns = zip(mq_all, cycle(range({p[0]})))",
            f"return [mq for mq, turn in turns if turn {p[1]} {p[2]}]",
        ]
    ),
    st.tuples(SIMPLE, TESTS, TESTS).map(
        lambda p: [
            f"numbered = enumerate(mq_all, {p[0]})",
            f"first = [mq for at, mq in numbered if {p[1]}]",
            f"return first + [mq for at, mq in numbered if {p[2]}]",
        ]
    ),
    st.tuples(SIMPLE, SIMPLE, st.sampled_from(["", ", 1", ", 2", ", c", ", index"])).map(
        lambda p: [f"return [*islice(chain(mq_all, mq_all[:0]), {p[0]}, {p[1]}{p[2]})]"]
    ),
    st.tuples(SIMPLE, TESTS, SIMPLE, st.sampled_from(["", ", 1", ", index"])).map(
        lambda p: [
            f"start = sum(({p[2]} for at in range({p[0]}) if {p[1]}){p[3]})",
            f"return mq_all[start:][: sum({p[1]} for at in range(c))]",
        ]
    ),
    st.tuples(
        st.sampled_from(["any", "all"]),
        st.sampled_from(["at <", "at !=", "index <= at and at >", "at % c =="]),
        st.sampled_from(["index", "c", "2", "n - 1"]),
        st.sampled_from(["n", "c", "index", "n - index"]),
    ).map(
        lambda p: [
            f"is_there = {p[0]}({p[1]} {p[2]} for at in range({p[3]}))",
            f"return mq_all[{p[2]}:] if is_there else mq_all[:1]",
        ]
    ),
    st.tuples(st.sampled_from(["any", "all"]), st.sampled_from(["==", "!="]), SIMPLE).map(
        lambda p: [
            f"is_there = {p[0]}(cid {p[1]} current_cid for cid in cid_all)",
            f"return mq_all[{p[2]}:] if is_there else mq_all[:1]",
        ]
    ),
    st.tuples(SIMPLE, st.sampled_from(["<", "==", ">="]), SIMPLE, SIMPLE).map(
        lambda p: [
            f"more = {p[0]} {p[1]} {p[2]}",
            f"return mq_all[more * {p[3]} + int(index < c) :][: 1 + more]",
        ]
    ),
    st.tuples(SIMPLE, SIMPLE, SIMPLE).map(
        lambda p: [
            "match divmod(n, c):",
            f"    case share, 0 if {p[0]} < share:",
            f"        return mq_all[{p[1]}:]",
            "    case 1 | 2 as share, rest:",
            "        return mq_all[share:rest]",
            "    case _, rest:",
            f"        return mq_all[rest : {p[2]}]",
        ]
    ),
    # Lists that are used up, or put together anew; what a loop looks for
    st.tuples(SIMPLE, LEFT, st.sampled_from(["1", "2", "c"]), SIMPLE, TAKEN_OFF).map(
        lambda p: [
            "taken = mq_all[:0]",
            f"rest = mq_all[{p[0]}:]",
            f"while {p[1]}:",
            *(f"    {line.format(step=p[2])}" for line in p[4]),
            f"return taken + rest[{p[3]}:]",
        ]
    ),
    st.tuples(SIMPLE, SIMPLE, TESTS, MORE, st.sampled_from(["mq_all", "mq_all[:1]", "[]"])).map(
        lambda p: [
            f"before = taken = {p[4]}",
            f"for at in range({p[0]}, {p[1]}):",
            f"    {p[3]}".format(test=p[2]),
            "return taken if n > c else before",
        ]
    ),
    st.tuples(SIMPLE, SIMPLE, TESTS, st.sampled_from(["", "at = index", "return mq_all[:1]"])).map(
        lambda p: [
            f"for at in range({p[0]}, {p[1]}):",
            f"    if {p[2]}:",
            "        break",
            *(["else:", f"    {p[3]}"] if p[3] else []),
            "return mq_all[at::c]",
        ]
    ),
    st.tuples(TESTS, SIMPLE).map(
        lambda p: [
            "for at, mq in enumerate(mq_all):",
            f"    if {p[0]}:",
            f"        return [mq, *mq_all[at + {p[1]} :: c]]",
            f"return mq_all[{p[1]}:]",
        ]
    ),
    st.tuples(SIMPLE, SIMPLE).map(
        lambda p: [
            f"match {p[0]} < {p[1]}:",
            "    case True:",
            "        return mq_all[:1] * (cid_all[:].count(current_cid) > 0)",
            "return mq_all[1:] if cid_all.count(current_cid) else []",
        ]
    ),
)
PARTS = 2  # of the kinds, to be tried side by side
SETUP = (
    "from itertools import chain, cycle, islice",
    "index = cid_all.index(current_cid)",
    "n, c = len(mq_all), len(cid_all)",
)


def taken_by_python(module: ModuleType, queues: int, members: int, index: int) -> set[int] | None:
    """The queues that a member takes; None where it raises."""
    mq_all = [MessageQueue("t", "b", number) for number in range(queues)]
    cid_all = [f"id{number}" for number in range(members)]
    try:
        taken = module.allocate(module.AVG, "g", cid_all[index], mq_all, cid_all)
    except Exception:
        return None
    return {mq.queue_id for mq in taken}


class Read:
    """What was read of a module's `averagely`, to be asked of groups of given sizes."""

    def __init__(self, module: ModuleType) -> None:
        self.group = AnyGroup(module, AVG)
        self.member = self.group.member("i")
        self.takes = self.member.takes(z3.Int("k"))

    def _at(self, term: Any, queues: int, members: int, index: int, queue: int = 0) -> bool:
        position = z3.Int("i")
        term = z3.substitute(
            term,
            (first_at(id_at(position)), position),
            (is_listed(id_at(position)), z3.BoolVal(True)),
        )
        sizes = {"n": queues, "c": members, "i": index, "k": queue}
        pairs = [(z3.Int(name), z3.IntVal(size)) for name, size in sizes.items()]
        found = z3.simplify(z3.substitute(term, *pairs))
        return bool(z3.is_true(found)) or (not z3.is_false(found) and self._follows(found, pairs))

    def _follows(self, term: Any, pairs: list[tuple[Any, Any]]) -> bool:
        """Of what is known by its meaning only, as the first that passes: whether it follows."""
        solver = z3.Solver()
        for known in (z3.substitute(each, *pairs) for each in self.group.hypotheses):
            turns = range(12) if z3.is_quantifier(known) else ()  # no list is longer
            solver.add(*(z3.substitute_vars(known.body(), z3.IntVal(turn)) for turn in turns))
            solver.add(*(() if turns else (known,)))
        solver.add(*(name == size for name, size in pairs))
        for place in range(pairs[1][1].as_long()):  # the ids are as many, and in order
            solver.add(id_at(place) == place, first_at(place) == place)
        return bool(solver.check(z3.Not(term)) == z3.unsat)

    def taken(self, queues: int, members: int, index: int) -> set[int]:
        found = {k for k in range(queues) if self._at(self.takes, queues, members, index, k)}
        left = [z3.Not(self.takes)] if len(found) < queues else []
        sizes = (queues, members, index)
        assert all(self._at(n, *sizes, k) for n in left for k in range(queues) if k not in found)
        return found

    def may_raise(self, queues: int, members: int, index: int) -> bool:
        """Whether something has to be shown that is not so here. A turn of a loop is any."""
        goals = [o.goal for o in self.group.obligations if o.what.startswith("never raises")]
        return any(not self._at(goal, queues, members, index) for goal in goals)


@pytest.mark.parametrize("part", range(PARTS))
def test_what_is_read_is_what_python_does(pytestconfig: pytest.Config, part: int) -> None:
    programs = pytestconfig.getoption("--programs") // PARTS
    none_is_unhealthy = list(HealthCheck)
    tried = settings(max_examples=programs, deadline=None, suppress_health_check=none_is_unhealthy)
    tried(given(st.one_of(KINDS[part::PARTS]))(read_as_python_does))()


def read_as_python_does(lines: list[str]) -> None:
    """A program is refused, or what is read of it is what Python does with it."""
    module = with_body(*SETUP, *lines)
    try:
        read = Read(module)
    except NotUnderstoodError:
        return  # refused: nothing is claimed of it
    if read.group.not_understood:
        return
    for queues, members in SIZES:
        for index in range(members):
            expected = taken_by_python(module, queues, members, index)
            if expected is None:
                assert read.may_raise(queues, members, index), (lines, queues, members, index)
            else:
                found = read.taken(queues, members, index)
                assert found == expected, (lines, queues, members, index)


REFUSED = {
    "a while that counts down": ["at = n", "while at > c:", "    at -= 1", "return mq_all[at:]"],
    "a while up to what it changes": [
        "at, taken = 0, mq_all[:1]",
        "while at < len(taken):",
        "    taken += [mq_all[at]]",
        "    at += 1",
        "return taken[:0]",
    ],
    "a while that is left": [
        "at = 0",
        "while at < n:",
        "    if at == index:",
        "        break",
        "    at += 1",
        "return mq_all[at::c]",
    ],
    "a filter that is kept": [
        "kept = filter(lambda at: at < index, range(n))",
        "return [mq_all[at] for at in kept]",
    ],
    "a filter by something else": ["return list(filter(mq_all.__contains__, mq_all))"],
    "a map of two": ["return list(map(lambda a, b: a, mq_all, mq_all))"],
    "next of something else": ["return [next(iter(mq_all))]"],
    "a name given in a comprehension": ["return [mq for mq in mq_all if (x := index) == 0]"],
    "what a loop's name holds after it": ["for at in range(n):", "    pass", "return mq_all[at:]"],
    "a tuple changed": ["taken = tuple(mq_all)", "taken.append(mq_all[0])", "return taken"],
    "a tuple added to a list": ["return mq_all[:1] + tuple(mq_all[1:])"],
    "a count in a loop": ["at = 0", "for mq in mq_all:", "    at += 1", "return mq_all[at:]"],
    "a break": [
        "taken = []",
        "for mq in mq_all:",
        "    taken.append(mq)",
        "    break",
        "return taken",
    ],
    "a return in a loop": ["for mq in mq_all:", "    return [mq]", "return []"],
    "what is carried": ["x = 0", "for mq in mq_all:", "    x = x + 1", "return mq_all[x:]"],
    "another order": ["return sorted(mq_all)"],
    "an iterator that is used again": [
        "pairs = enumerate(mq_all)",
        "for at, mq in pairs:",
        "    pass",
        "return [mq for at, mq in pairs if at % c == index]",
    ],
    "an iterator in a loop": [
        "taken, rest = [], reversed(mq_all)",
        "for mq in mq_all:",
        "    taken += [x for x in rest]",
        "return taken",
    ],
    "a sum of what is not the same": ["return mq_all[sum(at for at in range(index)) :]"],
    "the name of a queue": ["return [mq for mq in mq_all if mq.queue_id == index]"],
    "letters of an id": ["return mq_all if current_cid.startswith('a') else []"],
    "letters of the group": ["return mq_all if group.startswith('a') else []"],
    "a float": ["return mq_all[: int(n / c)]"],
    "a set": ["return [mq for mq in set(mq_all)]"],
    "places of what was put together": ["return (mq_all[:1] + mq_all[2:])[0:1]"],
    "squares": ["return [mq_all[at * at] for at in range(n // 4)]"],
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_read_is_refused(name: str) -> None:
    disjoint = next(t for t in THEOREMS if t.name == "averagely-disjoint")
    proof = prove(disjoint, with_body(*SETUP, *REFUSED[name]))
    assert not proof.proved
    assert proof.not_understood or proof.counterexample


def test_a_while_that_may_have_no_end_is_refused_with_its_line() -> None:
    """Python would not come back from it: so it is read only."""
    lines = ["at = 0", "while at < n:", "    taken = at", "    at += index", "return mq_all[at:]"]
    assert "a while that may have no end" in Read(with_body(*SETUP, *lines)).group.not_understood


def test_a_condition_that_knows_the_member_is_not_the_same_for_all() -> None:
    """A filter that is not read stands for one that is the same for all members: this is not."""
    lines = [
        "limits = {'mine': index}",
        "return [mq for mq in mq_all if mq.queue_id % c == limits['mine']]",
    ]
    disjoint = next(t for t in THEOREMS if t.name == "averagely-disjoint")
    assert not prove(disjoint, with_body(*SETUP, *lines)).proved


def test_a_group_whose_name_matters_is_refuted_by_that_name() -> None:
    disjoint = next(t for t in THEOREMS if t.name == "averagely-disjoint")
    named = ["if group == 'payments':", "    return list(mq_all)", *WHOLE_BODY]
    found = prove(disjoint, with_body(*named)).counterexample
    assert found is not None
    assert "group='payments'" in found
    weaker = replace(disjoint, unique=False, holds=False)
    assert prove(weaker, allocation).counterexample


WHOLE_BODY = [line[4:] for line in WHOLE[WHOLE.index("    index = ") :].splitlines()]
