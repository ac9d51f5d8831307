"""A plan of a sweep, as its TOML file says it: which cases are computed, and by which figures."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias

import msgspec

from mqrules import UserError
from mqspec.commands.plan import MEMBERS_MAX, QUEUES_MAX, Asked, strategy_of
from mqspec.core.allocation import VIRTUAL_NODES

CASES_MAX: Final = 100_000

Number: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=QUEUES_MAX)]
Members: TypeAlias = Annotated[int, msgspec.Meta(ge=2, le=MEMBERS_MAX)]
Amount: TypeAlias = Annotated[float, msgspec.Meta(ge=0, le=1e9)]
How: TypeAlias = Literal["restart", "replace", "surge"]
By: TypeAlias = Literal["unowned_s", "repeats", "moved", "spike"]


class Wanted(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The keys of a plan. Each list is one side of the product that the cases are."""

    strategies: Annotated[tuple[str, ...], msgspec.Meta(min_length=2)]
    members: Annotated[tuple[Members, ...], msgspec.Meta(min_length=1)]
    queues: Annotated[tuple[Number, ...], msgspec.Meta(min_length=1)]  # of a topic on each broker
    topics: Annotated[tuple[Number, ...], msgspec.Meta(min_length=1)] = (1,)
    # How a release goes: a member stops, and is back with its id; or another one comes instead,
    # as of a container that has another address; or that comes first.
    releases: Annotated[tuple[How, ...], msgspec.Meta(min_length=1)] = ("restart",)
    at_once: Annotated[tuple[Number, ...], msgspec.Meta(min_length=1)] = (1,)  # members in a step

    brokers: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 1
    rooms: tuple[str, ...] = ()  # over which brokers and members are spread in turn
    virtual_nodes: Annotated[int, msgspec.Meta(ge=0, le=10_000)] = VIRTUAL_NODES

    stop: Literal["clean", "killed"] = "clean"  # how a member goes
    step_s: Amount = 30.0  # from one step of a release to the next
    handover_s: Amount = 20.0  # a moved queue has no owner: a wait without a notice, at most
    commit_s: Amount = 5.0  # from one commit to the next
    process_s: Amount = 0.01  # how long a listener takes for a message
    rate: Amount = 100.0  # messages a second, of a queue
    rank_by: By = "unowned_s"


@dataclass(frozen=True, slots=True)
class Case:
    """One group, and one release of it. `queues` are those of a topic on each broker."""

    strategy: str
    members: int
    queues: int
    topics: int
    release: How
    at_once: int


def read(file: Path) -> Wanted:
    """The plan in a file. Raises UserError, which names the line or the key at fault."""
    try:
        with file.open("rb") as stream:
            data = tomllib.load(stream)
    except OSError as error:
        raise UserError(str(file), f"cannot be read: {error.strerror}", "name a file") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(str(file), f"not TOML: {error}", "correct it") from None

    _known(file, data)
    for name, value in data.items():
        # Alone, so that the error has its name: what else is needed is there.
        _convert(f"{file}: {name}", {**_SMALLEST, name: value})
    wanted = _convert(str(file), data)
    _check(file, wanted)
    return wanted


_SMALLEST: Final[Mapping[str, Any]] = {"strategies": ["", ""], "members": [2], "queues": [1]}


def _known(file: Path, data: Mapping[str, Any]) -> None:
    for name in data:
        if name not in Wanted.__struct_fields__:
            known = ", ".join(Wanted.__struct_fields__)
            raise UserError(f"{file}: {name}", "no such key", f"there are {known}")
    for name in _SMALLEST:
        if name not in data:
            raise UserError(str(file), f"it has no {name}", f"add {name} = [...]")


def _convert(where: str, data: Mapping[str, Any]) -> Wanted:
    try:
        return msgspec.convert(data, Wanted)
    except msgspec.ValidationError as error:
        raise UserError(where, str(error), "correct it") from None


def _check(file: Path, wanted: Wanted) -> None:
    """What only the keys together tell."""
    for name in ("strategies", "members", "queues", "topics", "releases", "at_once"):
        values = getattr(wanted, name)
        if len({*values}) < len(values):
            raise UserError(f"{file}: {name}", "a value comes twice", "leave one out")

    for number, name in enumerate(wanted.strategies):
        where = f"{file}: strategies[{number}]"
        if name == "CONFIG":
            raise UserError(where, "CONFIG's lists are your own", "see --config, without a sweep")
        if "MACHINE_ROOM" in name and not wanted.rooms:
            raise UserError(where, f"{name} needs rooms", 'add rooms = ["a", "b"]')
        try:
            strategy_of(name, asked(wanted))
        except UserError as error:
            raise UserError(where, error.what, error.remedy) from None

    if any(not room or {"@", ","} & {*room} for room in wanted.rooms):
        raise UserError(f"{file}: rooms", "a room is empty, or has @ or a comma", "rename it")

    if max(wanted.at_once) >= min(wanted.members):
        what = f"{max(wanted.at_once)} of {min(wanted.members)} members: nobody is left"
        raise UserError(f"{file}: at_once", what, "make it smaller than each of members")

    if (most := max(wanted.queues) * max(wanted.topics) * wanted.brokers) > QUEUES_MAX:
        what = f"with topics and brokers {most} queues of a group, more than {QUEUES_MAX}"
        raise UserError(f"{file}: queues", what, "make one of them smaller")

    if (number := sum(1 for _ in cases(wanted))) > CASES_MAX:
        raise UserError(str(file), f"{number} cases, more than {CASES_MAX}", "shorten a list")


def cases(wanted: Wanted) -> Iterator[Case]:
    """All that a plan wants to be computed, those of one group and release together."""
    for members, queues, topics, release, at_once, strategy in product(
        wanted.members, wanted.queues, wanted.topics, wanted.releases, wanted.at_once,
        wanted.strategies,
    ):  # fmt: skip
        yield Case(strategy, members, queues, topics, release, at_once)


def asked(wanted: Wanted, case: Case | None = None) -> Asked:
    """The same as options of `mqspec allocate`."""
    brokers = [placed(wanted, number, f"broker-{number}") for number in range(wanted.brokers)]
    topics = [f"T{n}:{case.queues}" for n in range(case.topics)] if case else None
    return Asked(
        topic=topics,
        brokers=",".join(brokers),
        virtual_nodes=str(wanted.virtual_nodes),
        rooms=",".join(wanted.rooms) or None,
    )


def placed(wanted: Wanted, number: int, name: str) -> str:
    """A name with its room, where there are rooms."""
    rooms = wanted.rooms
    return f"{rooms[number % len(rooms)]}@{name}" if rooms else name
