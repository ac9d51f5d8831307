"""The text of modules and configurations, and what of it is comment."""

from __future__ import annotations

import re

COMMENT = re.compile(r"\(\*.*?\*\)|\\\*[^\n]*", re.DOTALL)


def blank_comments(text: str) -> str:
    """Spaces for comments, so that all else keeps its place."""
    return COMMENT.sub(lambda comment: re.sub(r"[^\n]", " ", comment[0]), text)
