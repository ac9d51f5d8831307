"""A link that leads nowhere is told, with its page; one that leads somewhere is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from mqdocs.links import broken, main

GOOD = '<h1 id="top-of-it">A</h1><a href="sub/b.html#there">b</a><a href="#top-of-it">up</a>'
OTHER = '<p id="there"></p><a href="../">back</a><a href="https://example.org/x">out</a>'


def site(folder: Path, page: str) -> Path:
    (folder / "sub").mkdir()
    (folder / "index.html").write_text(page, encoding="utf-8")
    (folder / "sub" / "b.html").write_text(OTHER, encoding="utf-8")
    return folder


def test_what_leads_somewhere_is_well(tmp_path: Path) -> None:
    assert list(broken(site(tmp_path, GOOD))) == []
    assert main([str(tmp_path)]) == 0


@pytest.mark.parametrize(
    "link",
    ["sub/c.html", "sub/b.html#nowhere", "#nothing", "../outside.html", "missing.png", "sub/"],
)
def test_what_leads_nowhere_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], link: str
) -> None:
    tag = "img src" if link.endswith("png") else "a href"
    assert main([str(site(tmp_path, f'{GOOD}<{tag}="{link}">'))]) == 1
    assert capsys.readouterr().err == f"leads nowhere: index.html: {link}\n"


def test_a_folder_without_pages_is_no_site(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(tmp_path)]) == 2
    assert "no pages" in capsys.readouterr().err
