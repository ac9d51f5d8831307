"""The book in two languages: links between them, what lacks a translation, and a search in Chinese.

Pages are written in English. Those that `mqspec_translated` names in conf.py have a catalogue in
docs/locale, and every sentence of theirs is in it; others stay English in both books.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from babel.messages.pofile import read_po
from sphinx.addnodes import translatable
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.search.zh import SearchChinese
from sphinx.transforms import SphinxTransform
from sphinx.util import logging
from sphinx.util.nodes import extract_messages

CHINESE = "zh_CN"
_IN_ENGLISH = "本页只有英文。"
FOLDER = "zh"  # where the Chinese book stands, within the English one

_HAN = r"[\u3400-\u9fff]"
_SEARCHED = re.compile(rf"{_HAN}+|[a-zA-Z0-9_]+")
_log = logging.getLogger(__name__)


def twin(page: str, language: str) -> str:
    """The way from a page, by its name, to the same one in the other language."""
    up = "../" * page.count("/")
    return f"{up}../{page}.html" if language == CHINESE else f"{up}{FOLDER}/{page}.html"


def link_twin(app: Sphinx, page: str, _: str, context: dict[str, Any], __: object) -> None:
    """Give the template of a page what it links to its twin with."""
    chinese = app.config.language == CHINESE
    context["twin"] = {
        "href": twin(page, app.config.language),
        "name": "English" if chinese else "中文",
        "language": "en" if chinese else "zh-CN",
    }


def tell_english(app: Sphinx, page: str, _: str, context: dict[str, Any], __: object) -> None:
    """Say on a page of the Chinese book that it is in English, where it is."""
    if app.config.language != CHINESE or is_translated(app.config.mqspec_translated, page):
        return
    if "body" in context:
        context["body"] = f'<p class="untranslated">{_IN_ENGLISH}</p>{context["body"]}'


def is_translated(patterns: list[str], page: str) -> bool:
    """Whether a page is among those that are translated."""
    return any(fnmatch(page, pattern) for pattern in patterns)


def only_translated(app: Sphinx, error: Exception | None) -> None:
    """Of what was taken out for translators, leave the pages that are translated."""
    if error is not None or app.builder.name != "gettext":
        return
    for path in Path(app.outdir).rglob("*.pot"):
        page = path.relative_to(app.outdir).with_suffix("").as_posix()
        if not is_translated(app.config.mqspec_translated, page):
            path.unlink()


class _Checked(SphinxTransform):
    """A look at a translated page, and at its catalogue, while the book is built in Chinese."""

    def apply(self, **_: object) -> None:
        page = self.env.docname
        if self.config.language != CHINESE:
            return
        if is_translated(self.config.mqspec_translated, page):
            name = page.rpartition("/")[2]
            for wrong in self.find(translations_of(self.env, page)):
                _log.warning("%s.po %s", name, wrong, location=page)

    def find(self, done: Mapping[str, str]) -> Iterator[str]:
        """What is wrong with what the catalogue has."""
        raise NotImplementedError


class Untranslated(_Checked):
    """Warns of each sentence that the catalogue lacks, or has without need.

    A sentence that was changed is both: the new one is missing, and the old one is stale.
    """

    default_priority = 19  # Sphinx translates at 20

    def find(self, done: Mapping[str, str]) -> Iterator[str]:
        said = dict.fromkeys(message for _, message in extract_messages(self.document))
        yield from (f"lacks a translation of: {each}" for each in said if each not in done)
        yield from (f"has what no page says: {each}" for each in done if each not in said)


class Unplaced(_Checked):
    """Warns of each translation that Sphinx leaves out, as one that begins with `1.`, a list."""

    default_priority = 21

    def find(self, done: Mapping[str, str]) -> Iterator[str]:
        for node, message in extract_messages(self.document):
            if isinstance(node, translatable):  # a caption, which takes any words
                continue
            if node.get("translated") is False and message in done:
                yield f"has a translation that is no plain sentence, of: {message}"


def translations_of(env: BuildEnvironment, page: str) -> dict[str, str]:
    """What a page's catalogue has for each sentence, but what is marked as fuzzy; of an English
    book nothing."""
    path = Path(env.srcdir, "locale", env.config.language, "LC_MESSAGES", f"{page}.po")
    if not path.exists():
        return {}
    with path.open("rb") as file:
        catalogue = read_po(file, locale=CHINESE)
    return {str(m.id): str(m.string) for m in catalogue if m.id and m.string and not m.fuzzy}


class SearchByPairs(SearchChinese):
    """A search in which each character, and each two neighbours, are a word.

    Chinese is written without spaces. By pairs, the index and what is asked are cut alike without
    a dictionary, and whatever stands in a page is found.
    """

    # Of the stemmer, which is for what is not Chinese: Sphinx 9 looks for one of this name.
    language_name = "English"
    js_splitter_code = f"""
function splitQuery(query) {{
  const pairs = (run) => run.length < 2 ? [run] : [...run].slice(1).map((next, i) => run[i] + next);
  const runs = query.match(/{_HAN}+|[a-zA-Z0-9_]+/g) ?? [];
  return runs.flatMap((run) => (/{_HAN}/.test(run) ? pairs(run) : [run]));
}}
"""

    def split(self, input: str) -> list[str]:  # noqa: A002  (Sphinx's own name)
        return list(words(input))

    def word_filter(self, stemmed_word: str) -> bool:
        return super().word_filter(stemmed_word) or bool(re.match(_HAN, stemmed_word))


def words(text: str) -> Iterator[str]:
    """What a text is found by: characters, pairs of them, and words in Latin letters."""
    for run in _SEARCHED.findall(text):
        if re.match(_HAN, run):
            yield from run
            yield from (run[at : at + 2] for at in range(len(run) - 1))
        else:
            yield run
