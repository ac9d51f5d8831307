"""The one way in which a command says no."""

from __future__ import annotations


class UserError(Exception):
    """Something that the user can put right: shown as one line, exit code 2.

    `where` is the file, address or option at fault, `what` is what is wrong with it,
    `remedy` is what to do.
    """

    def __init__(self, where: str, what: str, remedy: str = "") -> None:
        self.where, self.what, self.remedy = where, what, remedy
        line = f"{where}: {what}" + (f"; {remedy}" if remedy else "")
        super().__init__(" ".join(line.split()))
