"""The catalogue of defects: real incidents made switchable, one entry each."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from mqrules.schema import decode


@dataclass(frozen=True, slots=True)
class Defect:
    """One incident or public issue, and how it is switched on."""

    id: str
    title: str  # what its users see
    breaks: tuple[str, ...]  # the rules that it must break, and no others
    incident: str = ""  # the letter of the seed scenario, or where it was seen
    issues: tuple[str, ...] = ()  # the public reports of it, as OWNER/REPOSITORY#NUMBER
    excerpts: tuple[str, ...] = ()  # those of `issues` whose thread could be read in part only
    unread: tuple[str, ...] = ()  # those whose thread could not be had: known by what others say
    mechanism: str = ""  # how it comes about, and how the model has it
    fixed: str = ""  # the first release without it, or why there is none
    model: str | None = None  # MC_NAME__DEFECT; of what was never promised, a model as it is
    patch: str | None = None  # the patch on the reference, applied from outside
    case: str | None = None  # the conformance case or audit check that detects it


@cache
def defects() -> dict[str, Defect]:
    """All defects by id. Raises UserError where the catalogue is wrong."""
    path = files("mqrules").joinpath("defects.toml")
    table = tomllib.loads(path.read_text(encoding="utf-8"))
    entries = table.get("defect", [])
    found = [decode(Defect, entry, f"defects.toml[{i}]") for i, entry in enumerate(entries)]
    return {defect.id: defect for defect in found}
