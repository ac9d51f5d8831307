"""Whether the fast path of sends equals the plain one, by random requests.

  mqspec paths                    six rounds, some seconds
  mqspec paths --seed 7 --rounds 60

Each round goes to a new broker with the fast path, and to one without. Answers, the files of log,
queues and index, and what is counted are compared byte by byte. Exit code 1 where any differ.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from mqrules import Evidence, EvidenceKind, UserError, Verdict, write_evidence

HELP = "compare the fast path of sends with the plain one, by random requests"
RULE: Final = "SEND-039"
SUBJECT: Final = "the fast path equals the plain path"
_SHOWN: Final = 10  # differences of a round


def configure(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--seed", type=int, default=0, help="of the first round; default: 0")
    parser.add_argument(
        "--rounds", type=int, default=6, help="default: 6, in which every kind of option is drawn"
    )
    parser.add_argument("--evidence", type=Path, metavar="FILE", help="write an evidence record")


def run(args: argparse.Namespace) -> int:
    from mqspec.paths.compare import Compared, compare  # what it needs takes a while to import

    if args.rounds < 1:
        raise UserError("--rounds", f"{args.rounds} rounds", "ask for one or more")
    rounds: list[Compared] = []
    problem = ""
    for seed in range(args.seed, args.seed + args.rounds):
        rounds.append(compare(seed))
        differences = list(rounds[-1].differences())
        problem = problem or next(iter(differences), "")
        _show(differences)

    requests = sum(each.plain.asked for each in rounds)
    messages = sum(each.messages_in_runs for each in rounds)
    files = sum(len(each.plain.files) for each in rounds)
    if not messages:
        problem = problem or "no message went the fast way"
    told = f"{args.rounds} rounds, {requests} requests, {messages} messages the fast way"
    print(f"FAILED {problem}" if problem else f"ok {SUBJECT}: {told}")
    if args.evidence:
        detail: dict[str, str | int] = {
            "seed": args.seed,
            "rounds": args.rounds,
            "requests": requests,
            "messages the fast way": messages,
            "files": files,
        }
        if problem:
            detail["problem"] = problem
        verdict = Verdict.VIOLATED if problem else Verdict.HELD
        record = Evidence(RULE, EvidenceKind.SAMPLED, SUBJECT, verdict, detail=detail)
        write_evidence(args.evidence, [record])
    return 1 if problem else 0


def _show(differences: Iterable[str]) -> None:
    for number, line in enumerate(differences):
        if number == _SHOWN:
            print("and more")
            return
        print(line)
