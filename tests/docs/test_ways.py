"""The ways through the house are read from the code: what a request comes to is on them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "docs" / "_ext"))

from mqdocs.modules import module_names
from mqdocs.ways import Stop, way
from mqspec.broker.processor import offsets
from mqspec.broker.processor.table import PROCESSORS
from mqspec.wire.codes import RequestCode


def names(stop: Stop) -> Iterator[str]:
    yield f"{stop.function.__module__}.{stop.function.__qualname__}".removeprefix("mqspec.")
    for each in stop.onward:
        yield from names(each)


@pytest.mark.parametrize(
    ("code", "decides", "keeps"),
    [
        (RequestCode.SEND_MESSAGE_V2, "core.publish.check_send", "store.message_store"),
        (RequestCode.PULL_MESSAGE, "core.pull.pull_message", "store.message_store"),
        (
            RequestCode.UPDATE_CONSUMER_OFFSET,
            "core.offset_commit.update_consumer_offset",
            "broker.carrying.carry",
        ),
    ],
)
def test_a_way_leads_from_the_processor_over_the_core(
    code: RequestCode, decides: str, keeps: str
) -> None:
    found = list(names(way(PROCESSORS[code])))
    assert found[0].startswith("broker.processor.")
    assert decides in found
    assert any(name.startswith(keeps) for name in found)
    assert len(set(found)) == len(found)


def test_the_core_never_leads_to_a_processor() -> None:
    def below_the_core(stop: Stop, inside: bool = False) -> Iterator[str]:
        module = stop.function.__module__
        if inside:
            yield module
        for each in stop.onward:
            yield from below_the_core(each, inside or module.startswith("mqspec.core"))

    for processor in set(PROCESSORS.values()):
        under = list(below_the_core(way(processor)))
        assert [module for module in under if module.startswith("mqspec.broker.processor")] == []


def test_a_way_does_not_show_what_its_code_does_not_name() -> None:
    found = list(names(way(offsets.update_consumer_offset)))
    assert not [name for name in found if name.startswith(("store", "core.publish"))]


def test_every_module_of_a_package_is_found() -> None:
    found = set(module_names("mqspec.broker"))
    assert {"mqspec.broker", "mqspec.broker.processor.pulling", "mqspec.broker.held"} <= found
    assert not [name for name in module_names("mqconform") if ".cases." in name]
