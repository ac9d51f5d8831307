"""Where readers come in: every incident, symptom and line is there, and figures are counts."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from mqdocs.entrance import figures
from mqrules import incidents, log_lines, rules, symptoms
from mqrules.schema import encode

EXTENSIONS = Path(__file__).parents[2] / "docs" / "_ext"
CONF = f"""
import sys
sys.path.insert(0, {str(EXTENSIONS)!r})
extensions = ["myst_parser", "mqdocs"]
suppress_warnings = ["ref"]
html_theme = "basic"
mqspec_report = "report.json"
"""


def record(rule: str, verdict: str) -> dict[str, object]:
    return {"rule": rule, "kind": "checked", "subject": "MC_One: P", "verdict": verdict}


def report(path: Path, *evidence: dict[str, object]) -> Path:
    """A report with these records, and nothing about other rules."""
    entries = [{"rule": encode(rules()[str(r["rule"])]), "evidence": [r]} for r in evidence]
    path.write_text(json.dumps({"target": "a broker", "rules": entries, "kills": []}))
    return path


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A page that has all that these directives make."""
    source = tmp_path_factory.mktemp("source")
    (source / "conf.py").write_text(CONF)
    names = ("incidents", "symptoms", "log-lines", "at-a-glance", "evidence-matrix")
    made = "\n\n".join(f"```{{{name}}}\n```" for name in names)
    areas = " ".join(dict.fromkeys(rule.partition("-")[0] for rule in rules()))
    (source / "index.md").write_text(f"# Page\n\n## Part\n\n{made}\n\n```{{rules}} {areas}\n```\n")
    report(source / "report.json", record("ALLOC-001", "held"), record("LOCK-001", "violated"))
    command = [sys.executable, "-m", "sphinx", "-q", "-b", "html", str(source), str(source / "out")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return (source / "out" / "index.html").read_text()


def test_every_incident_and_symptom_stands_there(page: str) -> None:
    assert [i.id for i in incidents().values() if i.seen not in page] == []
    assert [s.id for s in symptoms() if f'id="symptom-{s.id}"' not in page] == []


def test_every_line_carries_its_pieces_for_the_script(page: str) -> None:
    found = re.findall(r'<script type="application/json">(\[.*?\])</script>', page)
    pieces = [tuple(json.loads(text)) for text in found]
    assert [line.text for line in log_lines() if line.pieces not in pieces] == []
    assert page.count('id="log-line-') == len(log_lines())


def test_the_evidence_says_by_what_each_rule_is_found(page: str) -> None:
    held = re.search(r'class="([^"]*)"><a [^>]*#rule-ALLOC-001', page)
    violated = re.search(r'class="([^"]*)"><a [^>]*#rule-LOCK-001', page)
    assert held
    assert violated
    assert {"about", "area-ALLOC", "level-MUST", "standing-gap"} <= set(held[1].split())
    assert "standing-violated" in violated[1].split()
    assert page.count('<details class="matrix-area"') == len(
        {rule.partition("-")[0] for rule in rules()}
    )


def test_figures_are_counts(tmp_path: Path) -> None:
    counts = {"passed": 7, "deviates": 2}
    report = {"target": "apache:9.9.9", "counts": counts, "cases": []}
    (tmp_path / "tested").mkdir()
    (tmp_path / "tested" / "apache-9.9.9.json").write_text(json.dumps(report))
    found = {words: number for number, words in figures(tmp_path)}
    assert found["incidents from production, explained"] == str(len(incidents()))
    assert found["cases passed by Apache 9.9.9"] == "7 of 9"
