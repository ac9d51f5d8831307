"""Mutate what decides, one place at a time, and see whether anything notices.

  run.py mutants --seed 1 --number 40
  run.py mutants --seed 1 --number 40 reference/mqspec/core/pull.py
  run.py mutants --suite --seed 1 --number 10

Each mutant is tried on the tests, the replays of models and the cases that run its line, in a copy
of the tree. Who runs which line is recorded first, in some minutes, and kept for as long as the
reference and the checks stay the same. The same seed, number and tree make the same mutants. What
--keep has written down is not judged again while they stay: a run that was cut off goes on.

With --suite it is asked what anybody's broker is asked: the suite's cases that run the line, and
then exploration of the areas that do, of what can be seen from outside. Lines that no case runs are
no part of that.

Exit code 1 where a mutant survives that equivalent.toml, or with --suite unseen.toml, does not
explain; 2 for bad arguments.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack
from functools import cache
from itertools import islice
from pathlib import Path
from queue import SimpleQueue
from textwrap import indent

from contexts import AREAS, OF_SUITE, PATHS, Recording, reached, recorded, state
from mutation import Mutant, sample
from trial import Copy, Fate, copy_of

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".mqspec" / "mutants"
DECIDES = tuple(f"reference/mqspec/{name}" for name in ("core", "broker", "nameserver", "client"))
SERVES = tuple(f"reference/mqspec/{name}" for name in ("core", "broker", "nameserver"))
EXPLAINED = Path(__file__).parent / "equivalent.toml"
UNSEEN = Path(__file__).parent / "unseen.toml"

Edit = tuple[str, str, str]  # a file, the lines that are gone, and those in their place


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        "run.py mutants", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="default: 1")
    parser.add_argument("--number", type=int, default=40, metavar="N", help="default: 40")
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="tried at once"
    )
    parser.add_argument(
        "--suite", action="store_true", help="by the suite's cases and by exploration alone"
    )
    parser.add_argument(
        "--seconds", type=float, default=120, metavar="N", help="of exploration; default: 120"
    )
    parser.add_argument(
        "--keep", type=Path, metavar="FILE", help="write what killed each, as JSON, and go on there"
    )
    parser.add_argument(
        "paths", nargs="*", metavar="PATH", help="what to mutate; default: all that decides"
    )
    args = parser.parse_args(arguments)
    for name in ("number", "jobs"):
        if getattr(args, name) < 1:
            parser.error(f"--{name} is at least 1, not {getattr(args, name)}")
    try:
        paths = list(_files(args.paths or (SERVES if args.suite else DECIDES)))
    except FileNotFoundError as error:
        parser.error(f"{error} is no Python file or folder of this tree")

    kinds = OF_SUITE if args.suite else tuple(kind for kind in PATHS if kind != AREAS)
    recordings = [recorded(ROOT, kind, CACHE) for kind in kinds]
    drawn = sample(ROOT, paths, args.seed, sys.maxsize if args.suite else args.number)
    if args.suite:
        drawn = (mutant for mutant in drawn if is_seen(mutant, recordings[0]))
    mutants = list(islice(drawn, args.number))
    known = explained(EXPLAINED, UNSEEN) if args.suite else explained(EXPLAINED)
    of_tree = state(ROOT, *kinds)
    fates = judged_before(args.keep, of_tree, mutants, args.seconds) if args.keep else []
    done = {fate.mutant for fate in fates}
    print(f"{len(fates)} of {len(mutants)} were judged before", flush=True)
    with ExitStack() as stack:
        pool = ThreadPoolExecutor(args.jobs)
        copies: SimpleQueue[Copy] = SimpleQueue()
        for _ in range(args.jobs):
            copies.put(stack.enter_context(copy_of(ROOT)))

        def judge(mutant: Mutant) -> Fate:
            copy = copies.get()
            try:
                if args.suite:
                    return copy.judge_by_suite(mutant, recordings, ROOT, args.seconds, args.seed)
                return copy.judge(mutant, recordings, ROOT)
            finally:
                copies.put(copy)

        stack.callback(pool.shutdown, cancel_futures=True)  # an interrupt ends what goes on alone
        waiting = [pool.submit(judge, each) for each in mutants if each not in done]
        for judged in as_completed(waiting):
            fates.append(fate := judged.result())
            print(f"{len(fates)}/{len(mutants)} {_told(fate, known)}", flush=True)
            if args.keep:  # after each: a run that is cut off has said something
                keep(args.keep, _kept(args, of_tree, fates, known))
    return summary(fates, known)


def is_seen(mutant: Mutant, cases: Recording) -> bool:
    """Whether a case runs the mutant's line: what no request reaches nobody sees from outside."""
    return cases.runs(ROOT / mutant.path, reached(mutant.source, mutant.line))


def _files(names: Sequence[str]) -> Iterator[str]:
    """The Python files at these paths, below the root. Raises FileNotFoundError."""
    for name in names:
        at = (ROOT / name).resolve()
        files = sorted(at.rglob("*.py")) if at.is_dir() else [at]
        if not at.is_relative_to(ROOT) or not all(f.is_file() and f.suffix == ".py" for f in files):
            raise FileNotFoundError(name)
        yield from (str(file.relative_to(ROOT)) for file in files)


@cache
def explained(*files: Path) -> Mapping[Edit, str]:
    """Edits that nothing can notice, or nobody from outside, and why, as these files have them."""
    texts = (file.read_text(encoding="utf-8") for file in files)
    entries = [each for text in texts for each in tomllib.loads(text).get("mutant", [])]
    return {(each["path"], each["line"], each["becomes"]): each["why"] for each in entries}


def _why(mutant: Mutant, known: Mapping[Edit, str]) -> str:
    return known.get((mutant.path, *mutant.edit), "")


def _told(fate: Fate, known: Mapping[Edit, str]) -> str:
    """A mutant's fate on one line; of a survivor its change on two more."""
    if fate.killed_by:
        return f"killed {fate.mutant} by {fate.killed_by}, {fate.seconds:.0f} s"
    if why := _why(fate.mutant, known):
        return f"equivalent {fate.mutant}: {why}"
    gone, come = (indent(text, sign) for text, sign in zip(fate.mutant.edit, "-+", strict=True))
    tried = f"{fate.tried} checks meet it" if fate.tried else "nothing meets it"
    return f"SURVIVED {fate.mutant}: {tried}, {fate.seconds:.0f} s\n{gone}\n{come}"


def _kept(
    args: argparse.Namespace, of_tree: str, fates: Sequence[Fate], known: Mapping[Edit, str]
) -> dict[str, object]:
    """What became of each mutant, for the book and for the next run."""
    found = [
        {
            "path": fate.mutant.path,
            "line": fate.mutant.line,
            "was": fate.mutant.edit[0],
            "becomes": fate.mutant.edit[1],
            "killed_by": fate.killed_by,
            "why": _why(fate.mutant, known),
            "took_s": round(fate.seconds),
            "tried": fate.tried,
        }
        for fate in fates
    ]
    return {"seed": args.seed, "seconds": args.seconds, "state": of_tree, "mutants": found}


def keep(file: Path, found: Mapping[str, object]) -> None:
    """All of it or what was there before, wherever the run is cut off."""
    part = file.with_name(f"{file.name}.part")
    part.write_text(json.dumps(found, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    part.replace(file)


def judged_before(
    file: Path, of_tree: str, mutants: Iterable[Mutant], seconds: float
) -> list[Fate]:
    """What a file has of these mutants; nothing where it is of another tree, and no survivor where
    it is of a shorter exploration."""
    kept = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    if kept.get("state") != of_tree:
        return []
    fates = {(of["path"], of["line"], of["was"], of["becomes"]): of for of in kept["mutants"]}
    found = []
    for mutant in mutants:
        of = fates.get((mutant.path, mutant.line, *mutant.edit))
        if of and (of["killed_by"] or kept["seconds"] >= seconds):
            found.append(Fate(mutant, of["killed_by"], of["took_s"], of["tried"]))
    return found


def summary(fates: Sequence[Fate], known: Mapping[Edit, str]) -> int:
    """What to repeat where something survived; the exit code."""
    left = [fate for fate in fates if not fate.killed_by]
    survived = [fate for fate in left if not _why(fate.mutant, known)]
    for fate in survived:
        print(f"survived: {_told(fate, known)}")
    killed = len(fates) - len(left)
    equivalent = len(left) - len(survived)
    print(f"{killed} of {len(fates)} killed, {equivalent} equivalent, {len(survived)} survived")
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main())
