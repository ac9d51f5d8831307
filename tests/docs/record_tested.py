"""Run the suite on brokers, and keep what it saw for the book: docs/tested/NAME.json.

    python tests/docs/record_tested.py reference apache:5.3.3 rocketmq-rust:1.0.0

A page of the same name shows it. Of a report that is there already give the file instead.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "docs" / "_ext"))

from mqdocs.tested import FOLDER, to_keep

ROOT = Path(__file__).parents[2]


def report_of(target: str) -> Path:
    """A report file, or that of a run on a target; its exit code says what the report says."""
    if target.endswith(".json"):
        return Path(target)
    path = Path(tempfile.mkdtemp()) / "report.json"
    command = [sys.executable, "-m", "mqspec.cli", "conform", target, "--json", str(path)]
    if subprocess.run(command, check=False).returncode and not path.is_file():
        raise SystemExit(f"{target}: no report; what `mqspec conform` says of it is above")
    return path


def main() -> None:
    for target in sys.argv[1:]:
        report = to_keep(json.loads(report_of(target).read_text(encoding="utf-8")))
        name = str(report["target"]).replace(":", "-")
        lines = json.dumps(report, ensure_ascii=False, indent=1)
        (ROOT / "docs" / FOLDER / f"{name}.json").write_text(lines + "\n", encoding="utf-8")
        print(f"docs/{FOLDER}/{name}.json: {report['counts']}")


if __name__ == "__main__":
    main()
