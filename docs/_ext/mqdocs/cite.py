"""How to cite a rule, and which versions there are: at the end of each page, in its language."""

from __future__ import annotations

from html import escape
from typing import Any, Final

from sphinx.application import Sphinx

WORDS: Final = {
    "zh_CN": ("引用一条规则时，写明它的编号和本书的版本：", "所有版本"),  # noqa: RUF001
    "en": ("To cite a rule, give its id and the version of this book:", "All versions"),
}


def add(app: Sphinx, page: str, _: str, context: dict[str, Any], __: object) -> None:
    """Add the line to a page that has a text."""
    if "body" not in context or page in ("genindex", "search"):
        return
    words, versions = WORDS.get(app.config.language, WORDS["en"])
    example = f"{app.config.project} {app.config.release}, ALLOC-001"
    link = f'<a href="{context["pathto"]("versions")}">{versions}</a>'
    context["body"] += f'<p class="cite">{words} <code>{escape(example)}</code>. {link}</p>'
