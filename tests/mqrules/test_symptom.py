"""Symptoms, incidents and log lines: they name what there is, and lines are what Apache writes."""

from __future__ import annotations

import zipfile
from functools import cache
from pathlib import Path

import pytest

from mqrules import (
    LogLine,
    defects,
    find_log_lines,
    incidents,
    log_lines,
    rules,
    symptoms,
)
from mqspec.toolchain import classpath

INCIDENTS = Path(__file__).parents[2] / "docs/incidents"


def named(line: LogLine) -> str:
    """What a test of one line is called."""
    return f"{line.source}: {line.text[:60]}"


def test_incidents_name_what_there_is() -> None:
    for incident in incidents().values():
        assert set(incident.rules) <= rules().keys(), incident.id
        assert set(incident.defects) <= defects().keys(), incident.id
        assert incident.models or incident.defects, incident.id
    assert {i.page for i in incidents().values()} == {
        page.stem for page in INCIDENTS.glob("*.md") if page.stem != "index"
    }


def test_every_incident_is_reached_from_a_symptom() -> None:
    named = [case.incident for symptom in symptoms() for case in symptom.case]
    assert set(named) == incidents().keys()
    for symptom in symptoms():
        of_one = [case.incident for case in symptom.case]
        assert len(of_one) == len(set(of_one)), symptom.id


def test_lines_name_what_there_is() -> None:
    for line in log_lines():
        assert set(line.incidents) <= incidents().keys(), line.text
        assert set(line.rules) <= rules().keys(), line.text
        assert line.by in ("client", "broker", "nameserver"), line.text


@cache
def compiled(java_class: str) -> bytes:
    """What javac made of a class of Apache RocketMQ 5.3.3, and of those within it."""
    found = b""
    for jar in classpath("apache"):
        if jar.name.startswith("rocketmq-"):
            with zipfile.ZipFile(jar) as archive:
                for name in archive.namelist():
                    simple = name.rpartition("/")[2].removesuffix(".class").partition("$")[0]
                    found += archive.read(name) if simple == java_class else b""
    return found


def missing(line: LogLine) -> list[str]:
    """The pieces of a line that its class does not hold: a class holds its strings in UTF-8."""
    return [piece for piece in line.pieces if piece.encode() not in compiled(line.source)]


@pytest.mark.parametrize("line", log_lines(), ids=named)
def test_apache_writes_that_line(line: LogLine) -> None:
    assert missing(line) == []


def test_a_line_that_apache_does_not_write_is_noticed() -> None:
    made_up = LogLine("no such {} words", "client", "RebalanceImpl", "warn", "", "")
    assert missing(made_up) == ["no such", "words"]


@pytest.mark.parametrize("line", log_lines(), ids=named)
def test_a_line_as_it_stands_in_a_log_is_found(line: LogLine) -> None:
    written = "2026-11-26 10:11:12,345 WARN Thread_1 - " + line.text.replace("{}", "group-1@x=[y]")
    assert line in find_log_lines(written)


def test_a_part_of_a_line_is_found_and_other_words_are_not() -> None:
    assert [line.source for line in find_log_lines("SPAN too long")] == [
        "DefaultMQPushConsumerImpl"
    ]
    assert find_log_lines("all is well") == []
    assert find_log_lines(" ") == []
