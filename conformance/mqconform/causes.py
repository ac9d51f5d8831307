"""Causes: many failures of a broker have one reason, which a reader wants to see once.

Failures are grouped by the first exchange that departs: the request, and what of its answer was
not as expected. One in preparation, in a step that a case takes only to get where its rules begin,
is named as such; it fails no rule of something else, and its cases are blocked by it.
"""

from __future__ import annotations

import ast
import linecache
import re
import textwrap
import traceback
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from mqconform import requests
from mqconform.frame import FrameError, parse_frame
from mqconform.transcript import Exchange, Transcript
from mqrules import Strength, rules, strength

_WHERE: Final = re.compile(r"\n +\+ +where (.*?) = Frame\(.*\)\.(\w+)")
_SAYS_NOTHING: Final = ("assert False", "assert not True")
_VARIES: Final = (
    (re.compile(r"mq\w*-\d+-[A-Z]\w*\d+|[\w.]+-\d+-[A-Z]+\d+"), "NAME"),
    (re.compile(r"\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?"), "ADDRESS"),
    (re.compile(r"\b[0-9A-F]{16,}\b"), "ID"),
    (re.compile(r"\b\d{5,}\b"), "NUMBER"),
    (re.compile(r"Frame\(.*?\)(?=\.|\n|$)"), "the answer"),
)
_WIDTH: Final = 160


class UnexpectedError(AssertionError):
    """An answer that is not as expected."""

    def __init__(self, what: str, raw: bytes) -> None:
        super().__init__(what)
        self.raw = raw  # the answer's frame


@dataclass(frozen=True, slots=True)
class Step:
    """A step of preparation: its name, and the areas of rules whose cases it may fail."""

    name: str
    areas: tuple[str, ...]

    def fails(self, rule_ids: Iterable[str]) -> bool:
        """Whether a case of these rules is about this step."""
        return any(rule.split("-")[0] in self.areas for rule in rule_ids)


@dataclass(frozen=True, slots=True)
class Departure:
    """Where one case departed from what was expected."""

    request: int | None  # the code of the request, if a request was sent at all
    what: str  # what was seen and what was expected, without names and numbers of the run
    step: str = ""  # the step of preparation, if it was one
    strength: Strength = Strength.APACHE
    exchanges: tuple[Exchange, ...] = ()  # the request and its answer
    rules: tuple[str, ...] = ()
    is_detail: bool = False  # a lesser expectation beside the rules': what the case is for works

    @property
    def key(self) -> tuple[object, ...]:
        return self.request, self.what, self.step

    @property
    def asked(self) -> str:
        """The request by its name and code."""
        if self.request is None:
            return "no request"
        return requests.name_of(self.request)


@dataclass(slots=True)
class Cause:
    """What stands behind some failures."""

    first: Departure
    cases: list[str] = field(default_factory=list)  # that failed at it
    blocks: list[str] = field(default_factory=list)  # that could not be judged for it
    rules: set[str] = field(default_factory=set)  # of the cases that failed
    strengths: set[Strength] = field(default_factory=set)  # of the expectations that failed

    @property
    def title(self) -> str:
        where = f"in preparation, {self.first.step}: " if self.first.step else ""
        return f"{where}{self.first.asked}: {self.first.what}"

    @property
    def strength(self) -> Strength:
        """That of the strongest expectation that fails for it."""
        return next((one for one in Strength if one in self.strengths), self.first.strength)

    @property
    def weight(self) -> int:
        return len(self.cases) + len(self.blocks)


def departure(
    error: BaseException,
    transcript: Transcript,
    step: Step | None,
    rule_ids: Sequence[str],
    *,
    judged: Strength | None = None,
) -> Departure:
    """Where a case that ended with `error` departed: at the exchange that came last.

    `judged` is the strength of the expectation that failed, where it is not that of its rules.
    """
    raw = error.raw if isinstance(error, UnexpectedError) else None
    exchanges = transcript.last_call(raw)
    code = _code(exchanges)
    return Departure(
        code,
        _what(error, exchanges),
        step.name if step else "",
        judged or strongest(rule_ids),
        tuple(exchanges),
        tuple(rule_ids),
        is_detail=judged is not None,
    )


def strongest(rule_ids: Iterable[str]) -> Strength:
    """Relied on where one of the rules is."""
    found = {strength(rule) for rule in rule_ids if rule in rules()}
    return Strength.RELIED_ON if Strength.RELIED_ON in found else Strength.APACHE


def causes(
    departures: Iterable[tuple[str, Departure, bool]], after: Iterable[tuple[str, str]] = ()
) -> list[Cause]:
    """The causes of failures, those of most cases first.

    Each departure comes with its case and whether it failed it or blocked it; `after` has, of the
    cases that never began, the one by which each is blocked.
    """
    found: dict[tuple[object, ...], Cause] = {}
    of_case: dict[str, Cause] = {}
    for name, departed, failed in departures:
        cause = of_case[name] = found.setdefault(departed.key, Cause(departed))
        (cause.cases if failed else cause.blocks).append(name)
        if failed:
            cause.rules |= set(departed.rules)
            cause.strengths.add(departed.strength)
    waiting = dict(after)
    for name in waiting:
        seen, first = {name}, waiting[name]
        while first in waiting and first not in of_case and first not in seen:
            seen.add(first)
            first = waiting[first]
        if first in of_case:
            of_case[first].blocks.append(name)
    return sorted(found.values(), key=lambda cause: (-cause.weight, cause.title))


def _code(exchanges: Sequence[Exchange]) -> int | None:
    for exchange in exchanges:
        if exchange.sent:
            try:
                return parse_frame(exchange.raw).code
            except FrameError:
                return None
    return None


def _statement(error: BaseException) -> str:
    """The assertion that failed as it is written: what two cases expect in vain is two causes."""
    frames = traceback.extract_tb(error.__traceback__)
    if not frames:
        return ""
    first, last = frames[-1].lineno or 0, frames[-1].end_lineno or 0
    lines = [linecache.getline(frames[-1].filename, n) for n in range(first, last + 1)]
    try:
        return ast.unparse(ast.parse(textwrap.dedent("".join(lines))))
    except SyntaxError:
        return ""


def _what(error: BaseException, exchanges: Sequence[Exchange]) -> str:
    """One line that is the same of all failures of one cause."""
    text = str(error) or type(error).__name__
    if isinstance(error, KeyError):
        text = f"no {error} in the answer"
    elif not isinstance(error, AssertionError):
        text = f"{type(error).__name__}: {text}"
    elif found := _WHERE.search(text):
        text = f"{found[2]} {text.splitlines()[0].removeprefix('assert ')}"
    text = text.strip().splitlines()[0] if text.strip() else type(error).__name__
    if text in _SAYS_NOTHING:
        text = _statement(error) or text
    for pattern, word in _VARIES:
        text = pattern.sub(word, text)
    return text if len(text) <= _WIDTH else f"{text[:_WIDTH]}..."
