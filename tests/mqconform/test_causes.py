"""Failures of one reason are one cause, and preparation that fails fails no other rule."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from rich.console import Console

from mqconform import report
from mqconform.case import Status
from mqconform.causes import Step, UnexpectedError, causes, departure
from mqconform.frame import frame, json_header
from mqconform.page import page
from mqconform.plugin import Suite
from mqconform.scene import properties_of
from mqconform.target import Address
from mqconform.transcript import Transcript
from mqrules import Strength
from mqrules.report import Report
from mqrules.schema import decode, encode, json_schema
from mqspec.service import Dispatcher
from mqspec.wire.codec import RemotingCommand
from mqspec.wire.codes import RequestCode

PROCESS = Dispatcher._process
SERVER = Address("127.0.0.1", 1)
SCHEMA = Path(report.__file__).parent / "data" / "report.schema.json"


def exchange(code: int, answer: int) -> Transcript:
    transcript = Transcript()
    transcript.add(SERVER, True, frame(json_header(code, {"topic": "T"}, 7)))
    transcript.add(SERVER, False, frame(json_header(answer, {}, 7, flag=1)))
    return transcript


def refusing(code: int) -> Callable[..., Any]:
    """A broker that refuses one request."""

    def process(dispatcher: Any, connection: Any, request: RemotingCommand) -> Any:
        if request.code == code:
            return request.response(1, "<b>no</b>")
        return PROCESS(dispatcher, connection, request)

    return process


def told(suite: Suite) -> Report:
    about = {"target": "patched", "keeps": "5.3.3", "run": "mq", "began": "now", "seconds": 1.0}
    return report.as_data(list(suite.results.values()), **about, stale=[], left=[])  # type: ignore[arg-type]


def test_names_and_numbers_of_a_run_make_no_other_cause() -> None:
    found = [
        departure(
            AssertionError(f"topic mq12ab34-{n}-T1 at 127.0.0.1:{4000 + n} is at 12345{n}"),
            exchange(105, 17), None, ["NAMESRV-001"],
        )
        for n in (1, 2)
    ]  # fmt: skip
    (cause,) = causes((str(n), one, True) for n, one in enumerate(found))
    assert cause.cases == ["0", "1"]
    assert cause.strength is Strength.RELIED_ON
    assert cause.title.startswith("GET_ROUTEINFO_BY_TOPIC (105): topic NAME at ADDRESS")


def failing(expectation: Callable[[], None]) -> AssertionError:
    with pytest.raises(AssertionError) as raised:
        expectation()
    return raised.value


def test_what_was_expected_in_vain_is_said_and_is_no_cause_of_something_else() -> None:
    def is_one(number: int) -> bool:
        return number == 1

    def one() -> None:
        assert is_one(2)

    def other() -> None:
        assert not is_one(  # a comment
            1
        )  # fmt: skip

    raised = [failing(expectation) for expectation in (one, one, other)]
    found = [departure(each, exchange(30, 0), None, ["RETRY-008"]) for each in raised]
    several = causes((str(n), each, True) for n, each in enumerate(found))
    assert [cause.cases for cause in several] == [["0", "1"], ["2"]]
    assert [cause.title for cause in several] == [
        "GET_MAX_OFFSET (30): assert is_one(2)",
        "GET_MAX_OFFSET (30): assert not is_one(1)",
    ]


def test_the_exchange_that_departs_is_that_of_the_answer() -> None:
    transcript = exchange(17, 1)
    answer = transcript.exchanges[-1].raw
    transcript.add(SERVER, True, frame(json_header(38, {}, 8)))
    found = departure(UnexpectedError("code 1", answer), transcript, None, ["ADMIN-001"])
    assert (found.request, len(found.exchanges)) == (17, 2)


def test_a_cause_ends_with_how_to_ask_for_more() -> None:
    found = departure(AssertionError("no"), exchange(11, 1), None, ["PULL-001", "LOG-001"])
    said = io.StringIO()
    report.show_causes(Console(file=said), causes([("a", found, True)], []))
    assert said.getvalue().splitlines()[-2:] == [
        "more: mqspec explain LOG-001",
        "more: mqspec explain PULL-001",
    ]


def test_what_waits_for_a_case_is_blocked_by_its_cause() -> None:
    one = departure(AssertionError("no"), exchange(11, 1), None, ["PULL-001"])
    (cause,) = causes([("a", one, True)], [("b", "a"), ("c", "b"), ("d", "elsewhere")])
    assert (cause.cases, cause.blocks) == (["a"], ["b", "c"])


def test_a_step_fails_its_own_rules_only() -> None:
    assert Step("topic", ("ADMIN",)).fails(["PULL-001", "ADMIN-001"])
    assert not Step("topic", ("ADMIN",)).fails(["PULL-001"])


def test_a_broker_that_makes_no_topics_fails_no_rule_of_something_else(
    run: Callable[..., Suite], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Dispatcher, "_process", refusing(RequestCode.UPDATE_AND_CREATE_TOPIC))
    suite = run("shown_as_it_was_made or stored_as_it or committed_offset or unknown_topic_has_no")
    failed = [
        result for result in suite.chosen if suite.results[result.name].status is Status.FAILED
    ]
    assert {rule for result in failed for rule in result.case.rules} == {"ADMIN-001"}
    blocked = [r for r in suite.results.values() if r.status is Status.BLOCKED and r.departure]
    assert len(blocked) > 2
    report_ = told(suite)
    preparation = [cause for cause in report_.causes if cause.preparation == "topic"]
    assert len(preparation) == 1
    assert preparation[0].cases == ()
    assert preparation[0].title.startswith("in preparation, topic: UPDATE_AND_CREATE_TOPIC (17)")
    assert len(report_.causes) <= 3


def test_the_report_is_what_its_schema_says_and_the_page_shows_it(
    run: Callable[..., Suite], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Dispatcher, "_process", refusing(RequestCode.GET_TOPIC_CONFIG))
    found = told(run("shown_as_it_was_made or unknown_topic_has_no"))
    assert decode(Report, json.loads(json.dumps(encode(found))), "report") == found
    assert json.loads(SCHEMA.read_text(encoding="utf-8")) == json_schema(Report)
    shown = page(found)
    assert "GET_TOPIC_CONFIG (351): code 1" in shown
    assert "<b>no</b>" not in shown, "what a broker says is text"
    assert "ADMIN-001" in shown
    for outside in ("http://", "https://", "src=", "@import", "url("):
        assert outside not in shown.replace("https://rocketmq.apache.org", "")


def test_what_nobody_relies_on_is_apaches_in_a_rule_that_is_relied_on(
    run: Callable[..., Suite], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker that has another code for what no tool asks, and one that is silent there."""

    def process(dispatcher: Any, connection: Any, request: RemotingCommand) -> Any:
        words = request.ext_fields
        if request.code == RequestCode.PUT_KV_CONFIG and "key" not in words:
            return request.response(29, "no key")
        if request.code == RequestCode.PULL_MESSAGE and words.get("maxMsgNums") == "0":
            return None
        return PROCESS(dispatcher, connection, request)

    monkeypatch.setattr(Dispatcher, "_process", process)
    suite = run("test_the_kv_config or key_is_deleted or asks_for_nothing")
    assert [cause.strength for cause in told(suite).causes] == [Strength.APACHE] * 2
    # What comes after such a case is judged: what it needs works.
    behind = suite.results["test_a_key_is_deleted_and_those_like_it_stay"]
    assert (behind.case.after, behind.status) == ("test_the_kv_config", Status.PASSED)


def test_a_case_behind_one_that_fails_at_what_it_is_for_is_blocked(
    run: Callable[..., Suite], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Dispatcher, "_process", refusing(RequestCode.PUT_KV_CONFIG))
    suite = run("test_the_kv_config or key_is_deleted")
    behind = suite.results["test_a_key_is_deleted_and_those_like_it_stay"]
    assert (behind.status, behind.why) == (Status.BLOCKED, "by test_the_kv_config")


def test_options_are_read_as_tools_in_java_read_them() -> None:
    told_of = b"a=1\nrootDir:/tmp/b:c=d\nno option\n"
    assert properties_of(told_of) == {"a": "1", "rootDir": "/tmp/b:c=d"}


def test_wording_is_judged_of_apache_alone(
    run: Callable[..., Suite], monkeypatch: pytest.MonkeyPatch
) -> None:
    def rude(dispatcher: Any, connection: Any, request: RemotingCommand) -> Any:
        answer = PROCESS(dispatcher, connection, request)
        if request.code == RequestCode.GET_CONSUMER_LIST_BY_GROUP:
            assert isinstance(answer, RemotingCommand)
            return structs.replace(answer, remark="go away")
        return answer

    monkeypatch.setattr(Dispatcher, "_process", rude)
    suite = run("group_without_members", to_the_letter=False)
    judged_suite = run("group_without_members")
    (strict,) = (judged_suite.results[r.name] for r in judged_suite.chosen)
    assert strict.status is Status.FAILED
    assert strict.departure
    assert strict.departure.strength is Strength.IDENTICAL
    (lenient,) = (suite.results[r.name] for r in suite.chosen)
    assert lenient.status is Status.PASSED
    assert lenient.letters == ("the wording of the remark",)
