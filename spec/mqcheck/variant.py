"""Variants of a model: with other constants, or of modules that stand in another folder."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path

from mqcheck.config import Config
from mqcheck.manifest import Model
from mqrules import UserError


@dataclass(frozen=True, slots=True)
class Variant(Model):
    """A model with some of its numbers and words replaced, or with its module elsewhere."""

    constants: Mapping[str, int | str] = field(default_factory=dict)
    folder: Path | None = None  # of the module; None: where the model has it

    @property
    def module(self) -> Path:
        """The module that TLC is given."""
        original: Path = Model.module.fget(self)  # type: ignore[attr-defined]
        return self.folder / original.name if self.folder else original

    @property
    def config(self) -> Config:
        """The model's configuration with these constants. Raises UserError where it has others."""
        found: Config = Model.config.fget(self)  # type: ignore[attr-defined]
        rest = found.rest
        for name, value in self.constants.items():
            rest, count = re.subn(rf'\b{name} = "?\w+"?', f"{name} = {value}", rest)
            if count != 1:
                raise UserError(self.name, f"it has no constant {name}", "name one that it has")
        return replace(found, rest=rest)


def variant_of(
    model: Model, constants: Mapping[str, int | str] | None = None, folder: Path | None = None
) -> Variant:
    """This model with these constants, and its module in this folder."""
    given = {each.name: getattr(model, each.name) for each in fields(Model)}
    return Variant(**given, constants=constants or {}, folder=folder)
