"""What a contract is: a function that says something of the core's own functions, for any numbers.

CrossHair runs it with symbolic arguments, path by path. Its docstring says what is said, then
`pre:`, when it is, and `post: _`, that the function answers true.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

Said: TypeAlias = Callable[..., bool]


@dataclass(frozen=True, slots=True)
class Contract:
    """A contract."""

    said: Said
    rules: tuple[str, ...]  # that it is evidence for
    is_searched: bool = False
    """Not all of its paths can be had, as numbers become text, which CrossHair tries one by one:
    all that is asked then is that no counterexample is found."""

    @property
    def name(self) -> str:
        """Written like a theorem's."""
        return self.said.__name__.replace("_", "-")

    @property
    def statement(self) -> str:
        """What it says, in words."""
        return " ".join((self.said.__doc__ or "").split("\n\n")[0].split())


CONTRACTS: Final[list[Contract]] = []


def contract(*rules: str, is_searched: bool = False) -> Callable[[Said], Said]:
    """List a function among the contracts, as evidence for some rules."""

    def listed(said: Said) -> Said:
        CONTRACTS.append(Contract(said, rules, is_searched))
        return said

    return listed
