"""A translated page lacks no sentence in Chinese, and what is stale is told, by the build."""

from __future__ import annotations

from pathlib import Path

import pytest
from built import DOCS, Book, build

from mqdocs.languages import is_translated, twin, words

CONF = f"""
import sys
sys.path.insert(0, {str(DOCS / "_ext")!r})
extensions = ["myst_parser", "mqdocs"]
suppress_warnings = ["ref"]
html_theme = "basic"
locale_dirs = ["locale"]
gettext_compact = False
mqspec_translated = ["index", "told"]
"""
PAGE = """# A queue

It has *one* owner.

```{toctree}
:caption: Read

told
untold
```
"""
CATALOGUE = """
msgid "A queue"
msgstr "一个队列"

msgid "Read"
msgstr "阅读"

msgid "It has *one* owner."
msgstr "它只有*一个*消费者。"
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A small book, all of it translated that is declared to be."""
    folder = tmp_path / "source"
    catalogues = folder / "locale" / "zh_CN" / "LC_MESSAGES"
    catalogues.mkdir(parents=True)
    (folder / "conf.py").write_text(CONF)
    (folder / "index.md").write_text(PAGE)
    (folder / "told.md").write_text("# Told\n")
    (folder / "untold.md").write_text("# Untold\n\nIn English.\n")
    (catalogues / "index.po").write_text(CATALOGUE)
    (catalogues / "told.po").write_text('msgid "Told"\nmsgstr "已译"\n')
    return folder


def said_of(source: Path) -> list[str]:
    """What a build in Chinese says of catalogues."""
    lines = build(source, source.parent / "target", "zh_CN").splitlines()
    return [line.partition("WARNING: ")[2] for line in lines if ".po " in line]


def test_a_book_with_all_translations_builds(source: Path) -> None:
    assert said_of(source) == []
    page = (source.parent / "target" / "index.html").read_text(encoding="utf-8")
    assert "它只有<em>一个</em>消费者。" in page
    assert "In English." in (source.parent / "target" / "untold.html").read_text(encoding="utf-8")


def test_the_chinese_book_says_which_pages_are_in_english(book: Book) -> None:
    pages = book.pages()
    assert "本页只有英文" in pages["zh/rules/pop.html"]
    assert "本页只有英文" not in pages["zh/faq.html"] + pages["rules/pop.html"]
    assert all(words in pages["zh/faq.html"] for words in ("上一页", "本页内容", "回到顶部"))


def test_a_changed_sentence_is_missing_and_its_old_one_stale(source: Path) -> None:
    (source / "index.md").write_text(PAGE.replace("*one* owner", "two owners"))
    assert said_of(source) == [
        "index.po lacks a translation of: It has two owners.",
        "index.po has what no page says: It has *one* owner.",
    ]


def test_what_is_marked_as_fuzzy_or_empty_is_missing(source: Path) -> None:
    path = source / "locale" / "zh_CN" / "LC_MESSAGES" / "index.po"
    fuzzy = CATALOGUE.replace('msgid "A', '#, fuzzy\nmsgid "A')
    path.write_text(fuzzy.replace("它只有*一个*消费者。", ""))
    assert said_of(source) == [
        "index.po lacks a translation of: A queue",
        "index.po lacks a translation of: It has *one* owner.",
    ]


def test_a_translation_that_cannot_be_put_in_place_is_told(source: Path) -> None:
    (source / "index.md").write_text(PAGE.replace("# A queue", "# 1. A queue"))
    path = source / "locale" / "zh_CN" / "LC_MESSAGES" / "index.po"
    numbered = CATALOGUE.replace("A queue", "1. A queue").replace("一个队列", "1. 一个队列")
    path.write_text(numbered)
    assert said_of(source) == [
        "index.po has a translation that is no plain sentence, of: 1. A queue"
    ]
    path.write_text(numbered.replace('"1. 一', '"1\\\\. 一'))
    assert said_of(source) == []


def test_a_declared_page_without_a_catalogue_is_told(source: Path) -> None:
    (source / "locale" / "zh_CN" / "LC_MESSAGES" / "told.po").unlink()
    assert said_of(source) == ["told.po lacks a translation of: Told"]


def test_what_directives_make_of_tables_is_told_too(source: Path) -> None:
    (source / "told.md").write_text("# Told\n\n## Lines\n\n```{log-lines}\n```\n")
    lacking = said_of(source)
    assert "told.po lacks a translation of: Written by the broker" in lacking
    assert sum(" lacks a translation of: **Act?** " in line for line in lacking) > 50


def test_no_other_page_is_asked_for(source: Path) -> None:
    assert is_translated(["index", "incidents/*"], "incidents/pop")
    assert not is_translated(["index", "incidents/*"], "rules/pop")
    assert build(source, source.parent / "english", "en").count(".po ") == 0


def test_catalogues_are_made_for_the_declared_pages_alone(source: Path) -> None:
    build(source, source.parent / "pot", "en", "gettext")
    made = sorted(path.name for path in (source.parent / "pot").glob("*.pot"))
    assert made == ["index.pot", "told.pot"]


def test_a_page_knows_the_way_to_its_twin() -> None:
    assert twin("index", "en") == "zh/index.html"
    assert twin("incidents/pop", "en") == "../zh/incidents/pop.html"
    assert twin("index", "zh_CN") == "../index.html"
    assert twin("incidents/pop", "zh_CN") == "../../incidents/pop.html"


def test_chinese_is_searched_by_pairs_of_characters() -> None:
    assert list(words("消息堆积 of %RETRY%")) == [
        "消",
        "息",
        "堆",
        "积",
        "消息",
        "息堆",
        "堆积",
        "of",
        "RETRY",
    ]
