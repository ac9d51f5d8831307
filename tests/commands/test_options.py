"""Options: fields of configurations under the names that Apache RocketMQ has."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from mqspec.core.authentication import User
from mqspec.core.metadata import BrokerConfig
from mqspec.options import build, options, parse_properties, to_properties, updated, values
from mqspec.store.message_store import StoreConfig


@dataclass(frozen=True)
class Inner:
    ratio: float = 0.5
    when: str = "04"


@dataclass(frozen=True)
class Outer:
    is_on: bool = True
    count: int = 3
    inner: Inner = Inner()
    names: tuple[str, ...] = ()


def test_a_configuration_inside_another_has_no_name_of_its_own() -> None:
    assert [option.name for option in options(Outer)] == [
        "is_on",
        "count",
        "ratio",
        "when",
        "names",
    ]
    assert values(Outer()) == {"is_on": True, "count": 3, "ratio": 0.5, "when": "04"}
    built = build(Outer, {"count": 4, "when": "05", "of_another": 1})
    assert built == Outer(count=4, inner=Inner(when="05"))


def test_properties_are_read_and_written() -> None:
    text = to_properties(Outer(is_on=False))
    assert text == "count=3\nisOn=false\nratio=0.5\nwhen=04\n"
    read = parse_properties(
        b"# a comment\n\n count = 7 \nwhen=a=b\nisOn:fal\\\n  se\nr\\u0061tio 0.5\n"
    )
    assert read == {"count": "7", "when": "a=b", "isOn": "false", "ratio": "0.5"}
    with pytest.raises(ValueError, match="escape"):
        parse_properties(b"count=\\u12")


def test_what_is_no_option_or_no_value_changes_nothing() -> None:
    text = {"isOn": "FALSE", "count": "many", "ratio": "0.25", "noSuch": "1", "names": "a"}
    assert updated(Outer(), text) == Outer(is_on=False, inner=Inner(ratio=0.25))


def test_no_password_is_shown() -> None:
    config = BrokerConfig(users=(User("admin", "secret"),))
    assert "secret" not in to_properties(config)


def test_no_name_is_used_twice() -> None:
    names = [option.name for config in (BrokerConfig, StoreConfig) for option in options(config)]
    assert len(names) == len(set(names))
