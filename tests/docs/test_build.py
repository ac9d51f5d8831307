"""The design reference builds without a warning, and what is wrong in it fails the build."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

from mqcheck.manifest import manifests
from mqrules import rules

DOCS = Path(__file__).parents[2] / "docs"
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


def build(source: Path, target: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "sphinx", "-W", "-q", "-b", "html", str(source), str(target)],
        capture_output=True,
        text=True,
        timeout=600,  # some 90 s alone; tests run side by side
    )


def test_the_design_reference_builds_without_a_warning(tmp_path: Path) -> None:
    done = build(DOCS, tmp_path)
    assert done.returncode == 0, done.stderr
    pages = {str(page.relative_to(tmp_path)): page.read_text() for page in tmp_path.rglob("*.html")}
    assert '<svg class="sequence"' in pages["incidents/progress-lost.html"]
    assert 'id="rule-ALLOC-001"' in pages["rules/allocation.html"]
    assert 'id="tla-OffsetCommit-PersistAll"' in pages["specs/offset-commit.html"]
    assert "TopicTest" in pages["tour.html"]  # what a command prints
    assert "core.publish.check_send" in pages["reference/architecture.html"]
    documented = "".join(page for name, page in pages.items() if name.startswith("reference/"))
    assert [m for m in public_modules() if f'id="module-{m}"' not in documented] == []
    from_elsewhere = [
        name
        for name, page in pages.items()
        if 'src="http' in page or 'rel="stylesheet" href="http' in page
    ]
    assert from_elsewhere == []


WRONG = {
    "{rule}`ALLOC-999`": "'rule' reference target not found: ALLOC-999",
    "{defect}`NoSuchDefect`": "'defect' reference target not found: NoSuchDefect",
    "{figure}`MC_Release.Nothing`": "no figure MC_Release.Nothing",
    "{model}`MC_None`": "'model' reference target not found: MC_None",
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
    done = build(source, tmp_path / "target")
    assert done.returncode == 1
    assert [why for why in WRONG.values() if why not in done.stderr] == []


def test_the_same_page_without_what_is_wrong_builds(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    areas = " ".join(dict.fromkeys(rule.partition("-")[0] for rule in rules()))
    names = "\n".join(f"```{{models}} {name}\n```" for name in manifests())
    right = f"{{rule}}`ALLOC-001`\n\n```{{rules}} {areas}\n```\n\n{names}\n\n```{{defects}}\n```\n"
    (source / "conf.py").write_text(CONF)
    (source / "index.md").write_text(f"# Page\n\n## Part\n\n{right}")
    done = build(source, tmp_path / "target")
    assert (done.returncode, done.stderr) == (0, "")
