"""What a contract is: a function that says something of the core's own functions, for any numbers.

CrossHair runs it with symbolic arguments, path by path. Its docstring says what is said, then
`pre:`, when it is, and `post: _`, that the function answers true.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

CONFIRMED_S: Final = 10.0  # in which CrossHair has all paths; most take it a tenth of a second
SEARCHED_S: Final = (
    2.0  # where it cannot have them all: numbers become text, which it tries one by one
)

Said: TypeAlias = Callable[..., bool]


@dataclass(frozen=True, slots=True)
class Contract:
    """A contract."""

    said: Said
    rules: tuple[str, ...]  # that it is evidence for
    seconds: float  # for CrossHair

    @property
    def name(self) -> str:
        """Written like a theorem's."""
        return self.said.__name__.replace("_", "-")

    @property
    def statement(self) -> str:
        """What it says, in words."""
        return " ".join((self.said.__doc__ or "").split("\n\n")[0].split())

    @property
    def is_searched(self) -> bool:
        """Whether all that is asked is that no counterexample is found."""
        return self.seconds == SEARCHED_S


CONTRACTS: Final[list[Contract]] = []


def contract(*rules: str, seconds: float = CONFIRMED_S) -> Callable[[Said], Said]:
    """List a function among the contracts, as evidence for some rules."""

    def listed(said: Said) -> Said:
        CONTRACTS.append(Contract(said, rules, seconds))
        return said

    return listed
