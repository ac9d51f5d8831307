"""The book builds without a warning in both languages, and what is wrong in it fails the build."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from posixpath import dirname, join, normpath

from built import DOCS, URL, Book, build, twins

from mqcheck.manifest import manifests
from mqdocs.links import broken
from mqdocs.twin import module_names
from mqrules import incidents, rules

# A page that has all that the extensions offer, without the cost of autodoc.
CONF = f"""
import sys
sys.path.insert(0, {str(DOCS / "_ext")!r})
extensions = ["myst_parser", "mqdocs"]
nitpicky = True
html_theme = "basic"
mqspec_report = "report.json"
"""


def public_modules() -> list[str]:
    """Every module of the packages that are installed, but the cases: pytest collects those."""
    top = DOCS.parent
    project = tomllib.loads((top / "pyproject.toml").read_text(encoding="utf-8"))
    packages = project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    files = [(top / p, file) for p in packages for file in sorted((top / p).rglob("*.py"))]
    names = {
        ".".join(file.relative_to(package.parent).with_suffix("").parts).removesuffix(".__init__")
        for package, file in files
    }
    return sorted(n for n in names if not n.endswith("__main__") and ".cases." not in n)


def test_the_book_builds_without_a_warning(book: Book) -> None:
    assert book.said == {"en": "", "zh_CN": ""}
    pages = book.pages()
    for folder in ("", "zh/"):
        assert '<svg class="sequence"' in pages[f"{folder}incidents/progress-lost.html"]
        assert 'id="rule-ALLOC-001"' in pages[f"{folder}rules/allocation.html"]
        assert 'id="tla-OffsetCommit-PersistAll"' in pages[f"{folder}specs/offset-commit.html"]
        assert "TopicTest" in pages[f"{folder}tour.html"]  # what a command prints
        assert "core.publish.check_send" in pages[f"{folder}reference/architecture.html"]
    documented = "".join(page for name, page in pages.items() if name.startswith("reference/"))
    assert [m for m in public_modules() if f'id="module-{m}"' not in documented] == []
    from_elsewhere = [
        name
        for name, page in pages.items()
        if 'src="http' in page or 'rel="stylesheet" href="http' in page
    ]
    assert from_elsewhere == []


def test_each_page_says_how_to_cite_a_rule_and_stands_in_the_map(book: Book) -> None:
    pages = book.pages()
    texts = {name for name in pages if Path(name).name not in ("genindex.html", "search.html")}
    uncited = [name for name in texts if pages[name].count('<p class="cite">') != 1]
    assert [name for name in uncited if not name.endswith("py-modindex.html")] == []
    for folder in ("", "zh/"):
        written = (book.folder / folder / "sitemap.xml").read_text(encoding="utf-8")
        listed = set(re.findall("<loc>(.*?)</loc>", written))
        own = {name for name in texts if name.startswith("zh/") == bool(folder)}
        assert {f"{URL}{name}" for name in own if "modindex" not in name} <= listed


def test_every_link_and_anchor_is_there(book: Book) -> None:
    assert list(broken(book.folder)) == []


def test_each_page_links_to_itself_in_the_other_language(book: Book) -> None:
    pages = book.pages()
    linked = {name: normpath(join(dirname(name), target)) for name, target in twins(pages).items()}
    english = {name for name in pages if not name.startswith("zh/")}
    expected = {name: f"zh/{name}" for name in english}
    assert linked == expected | {twin: name for name, twin in expected.items()}


WRONG = {
    "{rule}`ALLOC-999`": "'rule' reference target not found: ALLOC-999",
    "{defect}`NoSuchDefect`": "'defect' reference target not found: NoSuchDefect",
    "{figure}`MC_Release.Nothing`": "no figure MC_Release.Nothing",
    "{model}`MC_None`": "'model' reference target not found: MC_None",
    "{theorem}`no-such-theorem`": "'theorem' reference target not found: no-such-theorem",
    "{tla}`Log!NoSuchAction`": "'tla' reference target not found: Log!NoSuchAction",
    "```{rules} NONE\n```": "no rules of the area NONE",
    "```{tla-module} None\n```": "no module None",
    "```{models} None\n```": "module None has no manifest",
    "```{sequence} none.toml\n```": "none.toml",
    "```{evidence-matrix}\n```": "not a report",
    "```{run} verify\n```": "verify is not run at a build",
    "```{run} allocate --queues 0\n```": "mqspec allocate --queues 0 ended with 2",
    "a page without the rules": "rule ALLOC-001 stands on no page",
}


def test_what_is_wrong_fails_the_build(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "conf.py").write_text(CONF)
    (source / "report.json").write_text("{}")
    (source / "index.md").write_text("# Page\n\n" + "\n\n".join(WRONG) + "\n")
    said = build(source, tmp_path / "target", "en")
    assert [why for why in WRONG.values() if why not in said] == []


def test_the_same_page_without_what_is_wrong_builds(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    areas = " ".join(dict.fromkeys(rule.partition("-")[0] for rule in rules()))
    names = "\n".join(f"```{{models}} {name}\n```" for name in manifests())
    modules = "\n".join(f"```{{tla-module}} {name}\n```" for name in module_names())
    others = "\n\n".join(f"```{{{name}}}\n```" for name in ("defects", "theorems", "invariances"))
    right = (
        f"{{rule}}`ALLOC-001`\n\n```{{rules}} {areas}\n```\n\n{names}\n\n{modules}\n\n{others}\n"
    )
    (source / "conf.py").write_text(CONF)
    (source / "index.md").write_text(f"# Page\n\n## Part\n\n{right}")
    for page in ("how-to/trace", *(f"incidents/{one.page}" for one in incidents().values())):
        (source / page).parent.mkdir(exist_ok=True)
        (source / f"{page}.md").write_text(f"---\norphan: true\n---\n\n# {page}\n")
    assert build(source, tmp_path / "target", "en") == ""
