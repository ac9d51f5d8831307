"""What is known from before is used, and only where nothing has changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from mqcheck import tlc
from mqcheck.cache import Cache, key_of
from mqcheck.tlc import Exit, run_tlc
from mqrules import UserError

CONFIG = "INIT Init\nNEXT Next\nINVARIANT Small\n"


def write(folder: Path, name: str, *lines: str) -> Path:
    path = folder / f"{name}.tla"
    path.write_text("\n".join((f"---- MODULE {name} ----", *lines, "====\n")))
    return path


@pytest.fixture
def module(tmp_path: Path) -> Path:
    (tmp_path / "library").mkdir()
    write(tmp_path / "library", "Limits", "EXTENDS Naturals", "Limit == 2")
    write(tmp_path / "library", "Alone", "Nothing == TRUE")
    counts = ("VARIABLE n", "Init == n = 0", "Next == n < Limit /\\ n' = n + 1", "Small == n < 2")
    return write(tmp_path, "Counts", "EXTENDS Limits", *counts)


def key(module: Path, config: str = CONFIG, options: tuple[str, ...] = ()) -> str:
    return key_of(module, config, [module.parent / "library"], options)


def test_the_key_is_of_all_that_a_run_depends_on(module: Path) -> None:
    library = module.parent / "library"
    keys = [key(module), key(module, CONFIG + "CHECK_DEADLOCK FALSE\n")]
    keys.append(key(module, options=("-coverage", "1")))
    write(library, "Limits", "EXTENDS Naturals", "Limit == 3")
    keys.append(key(module))
    module.write_text(module.read_text().replace("n + 1", "n + 2"))
    keys.append(key(module))
    assert len(set(keys)) == len(keys)
    write(library, "Alone", "Nothing == FALSE")  # which nobody names
    assert key(module) == keys[-1]


def test_the_nearest_module_of_a_name_counts(module: Path) -> None:
    near, library = module.parent / "near", module.parent / "library"
    near.mkdir()
    write(near, "Limits", "EXTENDS Naturals", "Limit == 3")
    first = key_of(module, CONFIG, [near, library], ())
    assert key_of(module, CONFIG, [library, near], ()) == key(module) != first


def test_the_same_run_is_not_run_again(module: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache, library = Cache(module.parent / "cache"), [module.parent / "library"]
    first = run_tlc(module, CONFIG, "Counts", library, cache=cache)
    assert (first.exit, first.cached) == (Exit.SAFETY, False)

    def java(*_: object) -> tuple[int, str]:
        raise AssertionError("run again")

    monkeypatch.setattr(tlc, "run_tlc_in_jvm", java)
    second = run_tlc(module, CONFIG, "Counts", library, cache=cache)
    assert second.cached
    assert second.counterexample == first.counterexample
    write(library[0], "Limits", "EXTENDS Naturals", "Limit == 1")
    with pytest.raises(AssertionError, match="run again"):
        run_tlc(module, CONFIG, "Counts", library, cache=cache)


def test_what_tlc_refuses_is_not_kept(module: Path) -> None:
    cache, library = Cache(module.parent / "cache"), [module.parent / "library"]
    for _ in range(2):
        with pytest.raises(UserError, match="Smal"):
            run_tlc(module, CONFIG + "INVARIANT Smal\n", "Counts", library, cache=cache)
    assert not cache.folder.exists()


def test_a_torn_entry_counts_as_none(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    cache.keep("whole", 12, "said")
    assert cache.get("whole") == (12, "said")
    (tmp_path / "torn").write_text("")
    assert cache.get("torn") is None
