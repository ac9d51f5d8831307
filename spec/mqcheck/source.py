"""The text of modules and configurations: what of it is comment, and its names in Python."""

from __future__ import annotations

import re

COMMENT = re.compile(r"\(\*.*?\*\)|\\\*[^\n]*", re.DOTALL)
_WORD_BEGINS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def blank_comments(text: str) -> str:
    """Spaces for comments, so that all else keeps its place."""
    return COMMENT.sub(lambda comment: re.sub(r"[^\n]", " ", comment[0]), text)


def snake_case(name: str) -> str:
    """The Python twin's name: UpdateConsumerOffset is update_consumer_offset."""
    return _WORD_BEGINS.sub("_", name).lower()
