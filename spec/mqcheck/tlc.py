"""Running TLC once, and reading what it says: counts, verdict and counterexample.

TLC 2.18 is run with `-tool`, which frames every message with its code, so that nothing
here depends on the wording of a message.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from pathlib import Path

from mqcheck.cache import Cache, key_of
from mqcheck.complaint import complaint
from mqcheck.jvm import QUICK, THOROUGH, run_tlc_in_jvm
from mqcheck.values import parse_state
from mqcheck.watch import INVARIANT, LIMIT, MARK, OPTIONS, bound_module, watch_module
from mqrules import UserError
from mqrules.scenario import Step

_MESSAGE = re.compile(r"@!@!@STARTMSG (\d+):(\d) @!@!@\n(.*?)@!@!@ENDMSG \1 @!@!@", re.DOTALL)
_FIRST_VIOLATIONS = re.compile(rf'<<\s*"{MARK}",\s*\{{(?P<places>[\d,\s]*)\}}\s*>>')
_STATE = re.compile(r"(?P<number>\d+): <(?P<action>\w+)[^>]*>\s*\n(?P<state>.*)", re.DOTALL)
_BACK = re.compile(r"(\d+)")
_COUNTS = re.compile(r"(\d+) states generated, (\d+) distinct states found")
_ACTION_TAKEN = re.compile(r"<(?P<action>\w+) .*: \d+:(?P<times>\d+)$")
_DEPTH = re.compile(r"search is (\d+)")

# Message codes of TLC, see tlc2.output.EC.
_STATE_PRINTED, _STUTTERING, _BACK_TO_STATE, _VIOLATED_AT_FIRST = 2217, 2218, 2122, 2107
_STATISTICS, _SEARCH_DEPTH, _ACTION_COVERAGE = 2199, 2194, 2772
_SEVERITY_ERROR = 1
_UNREADABLE = (150, 151)  # exit codes: the module, the configuration
_COVERAGE = ("-coverage", "60")  # at the end, and each hour before


class Exit(IntEnum):
    """Exit codes of TLC that are verdicts; any other is a failure of the run."""

    HOLDS = 0
    ASSUMPTION = 10
    DEADLOCK = 11
    SAFETY = 12
    LIVENESS = 13


@dataclass(frozen=True, slots=True)
class Counterexample:
    """A behaviour that violates properties: its steps, and for liveness how it ends."""

    steps: tuple[Step, ...]  # the first is the initial state, action `Init`
    loop: int | None = None  # index of the step to which a lasso goes back
    stutters: bool = False


@dataclass(frozen=True, slots=True)
class TlcRun:
    """What one run of TLC said."""

    exit: Exit
    generated: int
    distinct: int
    depth: int
    counterexample: Counterexample | None
    told: str = ""  # TLC's own words on what is wrong
    violated: Mapping[str, Counterexample] = field(default_factory=dict)  # of those watched
    taken: Mapping[str, int] = field(default_factory=dict)  # how often, of each action: coverage
    cached: bool = False  # said by an earlier run of the same


def run_tlc(
    module: Path,
    config: str,
    name: str,
    library: Sequence[Path],
    *,
    watch: Sequence[str] = (),
    thorough: bool = False,
    coverage: bool = False,
    cache: Cache | None = None,
) -> TlcRun:
    """Run TLC on `module` with the text of a configuration, called `name` in errors.

    `library` holds the folders of other modules; `watch` names invariants that do not stand in
    the configuration, each of which may be violated without ending the run; `thorough` is for
    large models; `coverage` also tells how often each action is taken; what an earlier run of
    the same said is taken from the cache. Raises UserError where TLC itself fails: a syntax
    error, an unknown property.
    """
    options: tuple[str, ...] = _COVERAGE if coverage else ()
    extension = ""
    if watch:
        extension = watch_module(module.stem, watch)
        config += f"INVARIANT {INVARIANT}\n"
        options += OPTIONS
    key = key_of(module, config + extension, library, options) if cache else ""
    if cache and (kept := cache.get(key)):
        return replace(parse_output(kept[1], kept[0], watch), cached=True)
    java_options = THOROUGH if thorough else QUICK
    code, output = run_tlc_in_jvm(module, extension, config, library, options, java_options)
    refuse_failure(output, code, name, module, library)
    run = parse_output(output, code, watch)
    if cache:
        cache.keep(key, code, output)
    return run


def violations(
    module: Path,
    config: str,
    name: str,
    library: Sequence[Path],
    *,
    watch: Sequence[str],
    most: int,
    cache: Cache | None = None,
) -> list[str]:
    """Those of the watched invariants that are violated within so many states, TLC failing or not.

    Raises UserError where it cannot read the module.
    """
    extension = watch_module(module.stem, watch, most)
    config += f"INVARIANT {INVARIANT}\nINVARIANT {LIMIT}\n"
    _, output = _run_changed(module, extension, config, name, library, OPTIONS, cache)
    marks = _FIRST_VIOLATIONS.finditer(output)
    return [watch[int(place) - 1] for mark in marks for place in mark["places"].split(",")]


def is_refuted(
    module: Path,
    config: str,
    name: str,
    library: Sequence[Path],
    *,
    most: int,
    cache: Cache | None = None,
) -> bool:
    """Whether the configuration's temporal property is violated, there being at most so many
    states.

    Raises UserError where TLC cannot read the module.
    """
    code, _ = first_failure(module, config, name, library, most=most, cache=cache)
    return code == Exit.LIVENESS


def first_failure(
    module: Path,
    config: str,
    name: str,
    library: Sequence[Path],
    *,
    most: int,
    cache: Cache | None = None,
) -> tuple[int, TlcRun]:
    """The exit code of TLC, and what it tells: what is wrong first, be it LIMIT where there are
    more states than `most`, and how many states there were.

    Raises UserError where TLC cannot read the module.
    """
    extension = bound_module(module.stem, most)
    config += f"INVARIANT {LIMIT}\n"
    code, output = _run_changed(module, extension, config, name, library, (), cache)
    return code, parse_output(output, Exit.HOLDS)


def _run_changed(
    module: Path,
    extension: str,
    config: str,
    name: str,
    library: Sequence[Path],
    options: tuple[str, ...],
    cache: Cache | None,
) -> tuple[int, str]:
    """What TLC says of a module that was changed, failing or not, if it can read it."""
    key = key_of(module, config + extension, library, options) if cache else ""
    kept = cache.get(key) if cache else None
    code, output = kept or run_tlc_in_jvm(module, extension, config, library, options, QUICK)
    if code in _UNREADABLE:
        refuse_failure(output, code, name, module, library)
    if cache and not kept:
        cache.keep(key, code, output)
    return code, output


def refuse_failure(
    output: str, code: int, name: str, module: Path, library: Sequence[Path]
) -> None:
    """Raise UserError where TLC ended with no verdict: what is wrong, and where."""
    if code not in list(Exit):
        said = complaint(output, code, module, library)
        where = f"{name}: {said.where}" if said.where else name
        raise UserError(where, said.what, "correct it")


def parse_output(output: str, code: int, watch: Sequence[str] = ()) -> TlcRun:
    """Read the output of `tlc2.TLC -tool` that ended with a verdict; `watch` was watched."""
    messages = [(int(m[1]), m[3].strip()) for m in _MESSAGE.finditer(output)]
    errors = (m[3] for m in _MESSAGE.finditer(output) if int(m[2]) == _SEVERITY_ERROR)
    told = next(errors, "").partition("\n")[0].rstrip(".: ")
    behaviours: list[list[Step]] = []
    loop, stutters, generated, distinct, depth = None, False, 0, 0, 0
    taken: dict[str, int] = {}
    for message, text in messages:
        match message:
            case _ if message == _VIOLATED_AT_FIRST:
                behaviours.append([Step("Init", state=parse_state(text.partition("\n")[2]))])
            case _ if message == _STATE_PRINTED and (found := _STATE.match(text)):
                first = int(found["number"]) == 1
                behaviours += [[]] if first else []
                # TLC calls the action of the first state `<Initial predicate>`.
                action = "Init" if first else found["action"]
                behaviours[-1].append(Step(action, state=parse_state(found["state"])))
            case _ if message == _STUTTERING:
                stutters = True
            case _ if message == _BACK_TO_STATE and (back := _BACK.match(text)):
                loop = int(back[1]) - 1
            case _ if message == _STATISTICS and (counts := _COUNTS.search(text)):
                generated, distinct = int(counts[1]), int(counts[2])
            case _ if message == _ACTION_COVERAGE and (of := _ACTION_TAKEN.match(text)):
                taken[of["action"]] = taken.get(of["action"], 0) + int(of["times"])
            case _ if message == _SEARCH_DEPTH and (reached := _DEPTH.search(text)):
                depth = int(reached[1])
    marks = [m["places"].split(",") for m in _FIRST_VIOLATIONS.finditer(output)]
    violated = {
        watch[int(place) - 1]: Counterexample(tuple(steps))
        for places, steps in zip(marks, behaviours, strict=False)
        for place in places
    }
    rest = behaviours[len(marks) :]
    counterexample = Counterexample(tuple(rest[0]), loop, stutters) if rest else None
    return TlcRun(Exit(code), generated, distinct, depth, counterexample, told, violated, taken)
