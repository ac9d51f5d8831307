"""POP: who gets a message, for how long it is invisible, and when it comes again."""

from __future__ import annotations

import time
from base64 import b64encode
from dataclasses import dataclass

import pytest

from mqconform import requests
from mqconform.case import at_edges, case
from mqconform.connection import Connection, eventually
from mqconform.frame import Frame
from mqconform.records import Record, parse_records
from mqconform.requests import Request
from mqconform.scene import Scene, done, fields
from mqconform.stage import Restart

# Most cases need one message: a broker that tells several wrongly fails those about several.
POPPED = "test_a_message_is_popped"
SEVERAL = "test_a_popped_message_is_invisible"
REVIVED = "test_a_message_comes_again"
SOME_REVIVED = "test_what_is_not_acknowledged_comes_again"
HELD = "test_a_pop_is_held_until_a_message_arrives"
ORDERED = "test_a_queue_that_is_popped_in_order_is_blocked"
SOME_ORDERED = "test_a_batch_that_is_popped_in_order_blocks_its_queue"

SHORT_MS = 1_000  # an invisible time whose end is waited for
LONGEST_MS = 259_200_000  # timerMaxDelaySec: 3 days
REVIVE_S = 30  # what a busy broker may take to bring a message back: an idle one takes 3 to 6 s
LONG_POLL_MS = 30_000
NOTHING = 210


@dataclass(frozen=True, slots=True)
class Popped:
    """A message, and what its consumer shows for it."""

    record: Record
    topic: str  # where it lies, which a handle is shown for
    queue_id: int
    offset: int
    handle: str


class Consumer:
    """A member of a group that pops a topic, over a connection of its own."""

    def __init__(self, scene: Scene, topic: str, group: str) -> None:
        self._scene, self.topic, self.group = scene, topic, group
        self.connection: Connection = scene.connect()

    @property
    def retry_topic(self) -> str:
        return f"%RETRY%{self.group}_{self.topic}"

    def request(
        self,
        queue_id: int = 0,
        *,
        count: int = 32,
        invisible_ms: int = 60_000,
        poll_ms: int = 0,
        attempt_id: str | None = None,
    ) -> Request:
        """A pop; with an attempt id, one in order."""
        return requests.pop(
            self.topic,
            self.group,
            queue_id,
            count=count,
            invisible_ms=invisible_ms,
            poll_ms=poll_ms,
            order=attempt_id is not None,
            attempt_id=attempt_id,
        )

    def pop(
        self, queue_id: int = 0, *, count: int = 32, invisible_ms: int = 60_000
    ) -> list[Popped]:
        """What a pop gives; nothing where it is answered with 210."""
        request = self.request(queue_id, count=count, invisible_ms=invisible_ms)
        return self.popped(self.connection.call(request))

    def popped(self, answer: Frame) -> list[Popped]:
        """The messages of an answer, with their handles."""
        if done(answer, 0, NOTHING).code == NOTHING:
            return []
        starts = {
            (flag, queue_id): start for flag, queue_id, start in _entries(answer, "startOffsetInfo")
        }
        told = answer.fields
        middle = f"{told['popTime']} {told['invisibleTime']} {told['reviveQid']}"
        broker = self._scene.broker_names[0]
        places = [
            (flag, queue_id, offset, f"{starts[flag, queue_id]} {middle} {flag} {broker}")
            for flag, queue_id, offsets in _entries(answer, "msgOffsetInfo")
            for offset in offsets.split(",")
        ]
        return [
            Popped(
                record,
                self.topic if flag == "0" else self.retry_topic,
                int(queue_id),
                int(offset),
                f"{handle} {queue_id} {offset}",
            )
            for record, (flag, queue_id, offset, handle) in zip(
                parse_records(answer.body), places, strict=True
            )
        ]

    def pop_again(self) -> list[Popped]:
        """Pop until something comes."""
        found: list[Popped] = []

        def comes() -> bool:
            found.extend(self.pop())
            return bool(found)

        assert eventually(comes, REVIVE_S)
        return found

    def ack(self, message: Popped) -> Frame:
        return self.connection.call(
            requests.ack(
                message.topic, self.group, message.handle, message.offset, message.queue_id
            )
        )

    def change(self, message: Popped, invisible_ms: int) -> Popped:
        """Change the invisible time; the message with its new handle."""
        answer = done(
            self.connection.call(
                requests.change_invisible_time(
                    message.topic,
                    self.group,
                    message.handle,
                    message.offset,
                    invisible_ms,
                    message.queue_id,
                )
            )
        )
        _, _, _, _, *rest = message.handle.split(" ")
        told = answer.fields
        new = (
            str(message.offset), told["popTime"], told["invisibleTime"], told["reviveQid"], *rest
        )  # fmt: skip
        return Popped(
            message.record, message.topic, message.queue_id, message.offset, " ".join(new)
        )

    def hold(self, request: Request) -> int:
        """Ask for a pop that is held, and wait until the broker holds it; its opaque."""
        queue_id = int(request.fields["queueId"])
        info = requests.polling_info(self.topic, self.group, queue_id)
        before = self._scene.broker.call(info).number("pollingNum")
        held = self.connection.ask(request)
        assert eventually(lambda: self._scene.broker.call(info).number("pollingNum") == before + 1)
        return held

    def is_brought_back(self, count: int = 1) -> bool:
        """Whether messages come to lie in the retry topic."""
        return eventually(lambda: self._scene.max_offset(self.retry_topic) >= count, REVIVE_S)


def consumer(scene: Scene, queues: int = 1) -> Consumer:
    """Of a topic and a group of its own."""
    return Consumer(scene, scene.topic(queues), scene.group())


def bodies(messages: list[Popped]) -> list[bytes]:
    return [message.record.body for message in messages]


def _entries(answer: Frame, name: str) -> list[list[str]]:
    entries = [entry.split(" ") for entry in answer.fields[name].split(";")]
    assert all(len(entry) == 3 for entry in entries), f"{name} {answer.fields[name]!r}"
    return entries


@case("POP-001", party="broker")
def test_a_message_is_popped(scene: Scene) -> None:
    one = consumer(scene)
    scene.send(one.topic, b"a")
    assert bodies(one.pop()) == [b"a"]
    assert one.pop() == []


@case("POP-001", "POP-005", "POP-014", "POP-016", party="broker", after=POPPED)
def test_a_popped_message_is_invisible(scene: Scene) -> None:
    one = consumer(scene)
    other = Consumer(scene, one.topic, one.group)
    for body in (b"a", b"b", b"c"):
        scene.send(one.topic, body)
    answer = one.connection.call(one.request(count=2))
    assert bodies(one.popped(answer)) == [b"a", b"b"]
    scene.worded(answer, "FOUND")
    assert fields(answer, "invisibleTime", "restNum") == (0, 60_000, 1)
    assert (answer.fields["startOffsetInfo"], answer.fields["msgOffsetInfo"]) == (
        "0 0 0",
        "0 0 0,1",
    )
    assert answer.number("reviveQid") in range(8)
    assert abs(answer.number("popTime") - time.time_ns() // 1_000_000) < 60_000
    assert bodies(other.pop()) == [b"c"]
    nothing = one.connection.call(one.request())
    assert nothing.code == NOTHING
    scene.worded(nothing, "NO_MESSAGE_IN_QUEUE")
    assert (nothing.fields["startOffsetInfo"], nothing.fields["msgOffsetInfo"]) == ("", "")
    assert eventually(lambda: scene.committed(one.group, one.topic) == 3)
    assert bodies(Consumer(scene, one.topic, scene.group()).pop()) == [b"a", b"b", b"c"]


@case("POP-002", party="broker", after=POPPED)
def test_a_message_comes_again(scene: Scene) -> None:
    one = consumer(scene)
    scene.send(one.topic, b"a")
    assert len(one.pop(invisible_ms=SHORT_MS)) == 1
    (again,) = one.pop_again()
    assert (again.record.body, again.record.topic) == (b"a", one.topic)


@case("POP-001", "POP-002", "POP-003", "POP-004", party="broker", after=SEVERAL)
def test_what_is_not_acknowledged_comes_again(scene: Scene) -> None:
    one = consumer(scene)
    for body in (b"a", b"b", b"c"):
        scene.send(one.topic, body, tag="A")
    first = one.pop(invisible_ms=SHORT_MS)
    popped_at = time.monotonic()
    for message in (first[0], first[2]):
        done(one.ack(message))
    (again,) = one.pop_again()
    assert time.monotonic() - popped_at > SHORT_MS / 1000
    record = again.record
    assert (record.body, record.topic, record.reconsume_times) == (b"b", one.topic, 1)
    assert record.properties["1ST_POP_TIME"] == first[0].handle.split(" ")[1]
    assert record.properties["TAGS"] == "A"
    assert record.properties["POP_CK"] == again.handle
    assert (again.topic, again.queue_id, again.offset) == (one.retry_topic, 0, 0)
    done(one.ack(again))
    assert one.connection.is_quiet()
    assert one.pop() == []
    assert scene.max_offset(one.retry_topic) == 1


@case("POP-006", party="broker", after=REVIVED)
def test_an_acknowledgement_that_is_too_late_has_no_effect(scene: Scene) -> None:
    one = consumer(scene)
    scene.send(one.topic, b"late")
    (message,) = one.pop(invisible_ms=SHORT_MS)
    assert one.is_brought_back()
    done(one.ack(message))
    (again,) = one.pop_again()
    assert (again.record.body, again.record.reconsume_times) == (b"late", 1)
    for _ in range(2):
        done(one.ack(again))
    unknown = requests.ack(again.topic, scene.new_group(), again.handle, again.offset)
    done(scene.broker.call(unknown))


@case("POP-012", party="broker", after=REVIVED)
def test_the_broker_gives_up_on_no_message(scene: Scene) -> None:
    one = consumer(scene)
    done(scene.broker.call(requests.create_group(one.group, retryMaxTimes=0)))
    scene.send(one.topic)
    one.pop(invisible_ms=SHORT_MS)
    (again,) = one.pop_again()
    assert again.record.reconsume_times == 1
    assert scene.broker.call(requests.topic_config(f"%DLQ%{one.group}")).code == 17


@case("POP-007", party="broker", after=POPPED)
def test_what_is_no_acknowledgement_is_refused(scene: Scene) -> None:
    one = consumer(scene)
    scene.send(one.topic)
    (message,) = one.pop()
    good = requests.ack(one.topic, one.group, message.handle, 0)
    wrong = {
        17: [good.having(topic=scene.name("T"))],
        13: [good.having(queueId=1), good.having(queueId=-1)],
        208: [good.having(offset=2), good.having(offset=-1)],
        1: [
            good.without("extraInfo"),
            good.having(extraInfo="x"),
            good.having(extraInfo="0 1 2 3 0"),
            good.having(extraInfo="0 1 2 x 0 broker-a 0 0"),
        ],
    }
    for code, asked in wrong.items():
        assert [scene.broker.call(request).code for request in asked] == [code] * len(asked)
    done(scene.broker.call(good.having(offset=1)))


@case("POP-008", party="broker", after=SOME_REVIVED)
def test_the_invisible_time_of_a_message_is_changed(scene: Scene) -> None:
    one = consumer(scene)
    for body in (b"later", b"sooner", b"done"):
        scene.send(one.topic, body)
    (later,) = one.pop(invisible_ms=SHORT_MS, count=1)
    one.change(later, 60_000)
    sooner, finished = one.pop()
    one.change(sooner, SHORT_MS)
    changed_at = time.monotonic()
    done(one.ack(one.change(finished, SHORT_MS)))
    assert bodies(one.pop_again()) == [b"sooner"]
    assert time.monotonic() - changed_at > SHORT_MS / 1000
    assert one.connection.is_quiet()
    assert one.pop() == []


@case("POP-046", party="broker")
def test_a_peek_takes_nothing(scene: Scene) -> None:
    topic, group = scene.topic(2), scene.group()
    for body in (b"a", b"b", b"c"):
        scene.send(topic, body)
    scene.send(topic, b"d", 1)

    def peek(queue_id: int, count: int = 32) -> tuple[list[bytes], int]:
        answer = scene.broker.call(requests.peek(topic, group, queue_id, count))
        found = parse_records(done(answer, 0, 19).body) if answer.code == 0 else []
        return [record.body for record in found], answer.number("restNum")

    for _ in range(2):
        assert peek(0) == ([b"a", b"b", b"c"], 3)
    assert peek(0, 2) == ([b"a", b"b"], 3)
    assert scene.committed(group, topic) is None
    consumer = Consumer(scene, topic, group)
    assert [popped.record.body for popped in consumer.pop(count=2)] == [b"a", b"b"]
    assert peek(0) == ([b"c"], 1)
    bodies, rest = peek(-1)
    assert (sorted(bodies), rest) == ([b"c", b"d"], 2)
    assert [popped.record.body for popped in consumer.pop()] == [b"c"]
    assert peek(0) == ([], 0)


@case("POP-045", party="broker", after=REVIVED)
def test_a_change_that_is_too_late_has_the_message_come_twice(scene: Scene) -> None:
    one = consumer(scene)
    scene.send(one.topic, b"late")
    (message,) = one.pop(invisible_ms=SHORT_MS)
    assert one.is_brought_back()
    one.change(message, SHORT_MS)
    for number in range(2):
        (again,) = one.pop_again()
        assert (again.record.body, again.offset) == (b"late", number)
        done(one.ack(again))


@case("POP-009", party="broker", after=POPPED)
def test_what_cannot_be_changed_is_refused(scene: Scene) -> None:
    one = consumer(scene)
    scene.send(one.topic)
    (message,) = one.pop()
    good = requests.change_invisible_time(one.topic, one.group, message.handle, 0, 60_000)
    wrong = {
        17: [good.having(topic=scene.name("T"))],
        13: [good.having(queueId=1), good.having(queueId=-1)],
        208: [good.having(offset=1), good.having(offset=-1)],
        1: [good.having(extraInfo="x")],
    }
    for code, asked in wrong.items():
        assert [scene.broker.call(request).code for request in asked] == [code] * len(asked)


@case("POP-043", party="broker", after=REVIVED)
def test_a_message_is_not_hidden_for_longer_than_three_days(scene: Scene) -> None:
    one = consumer(scene)
    scene.send(one.topic, b"m")
    (message,) = one.pop(invisible_ms=SHORT_MS)
    asked = requests.change_invisible_time(one.topic, one.group, message.handle, 0, 0)
    assert scene.broker.call(asked.having(invisibleTime=LONGEST_MS + 2_000)).code == 1
    (again,) = one.pop_again()
    assert again.record.body == b"m"
    done(one.ack(one.change(again, LONGEST_MS)))


@case("POP-010", party="broker", after=SOME_REVIVED)
def test_a_batch_of_messages_is_acknowledged(scene: Scene) -> None:
    one = consumer(scene)
    for body in (b"a", b"b", b"c", b"d"):
        scene.send(one.topic, body)
    start, pop_time, invisible, revive_qid, flag, broker, queue_id, _ = one.pop(
        invisible_ms=SHORT_MS
    )[0].handle.split(" ")
    entry = {
        "c": one.group,
        "t": one.topic,
        "r": flag,
        "so": int(start),
        "q": int(queue_id),
        "rq": int(revive_qid),
        "pt": int(pop_time),
        "it": int(invisible),
        "b": b64encode(bytes((0b0101, 0, 0, 0, 0, 1))).decode(),  # 0, 2 and 40
    }
    done(scene.broker.call(requests.batch_ack(broker, entry)))
    assert one.is_brought_back(2)
    assert bodies(one.pop_again()) == [b"b", b"d"]
    assert scene.broker.call(requests.batch_ack(broker)).code == 208
    assert scene.broker.call(Request(requests.BATCH_ACK_MESSAGE)).code == 208


@case("POP-010", party="broker", after=ORDERED)
def test_a_number_that_a_batch_leaves_out_is_0(scene: Scene) -> None:
    one = consumer(scene)
    scene.send(one.topic)
    (message,) = one.popped(one.connection.call(one.request(attempt_id="first")))
    entry = {
        "c": one.group,
        "t": one.topic,
        "r": "0",
        "rq": 999,
        "pt": int(message.handle.split(" ")[1]),
        "b": b64encode(b"\x01").decode(),
    }
    done(scene.broker.call(requests.batch_ack(scene.broker_names[0], entry)))
    assert scene.committed(one.group, one.topic) == 1


@case("POP-011", party="broker", after=SEVERAL)
def test_a_new_group_begins_at_the_first_message_of_a_young_queue(scene: Scene) -> None:
    one = consumer(scene)
    for body in (b"a", b"b"):
        scene.send(one.topic, body)
    answer = one.connection.call(one.request().having(initMode=1))
    assert bodies(one.popped(answer)) == [b"a", b"b"]


@case("POP-013", party="broker")
@pytest.mark.parametrize(
    ("code", "wrong"),
    [
        (210, {"bornTime": 1_000}),
        (29, {"queueId": 1}),
        (17, {"topic": "nowhere"}),
        (23, {"exp": "||"}),
    ],
)
def test_what_is_no_pop_is_refused(scene: Scene, code: int, wrong: dict[str, object]) -> None:
    one = consumer(scene)
    answer = one.connection.call(one.request().having(**wrong))
    names = ("popTime", "invisibleTime", "reviveQid", "restNum")
    assert fields(answer, *names) == (code, 0, 0, 0, 0)


@case("POP-013", party="broker", after=POPPED)
@pytest.mark.parametrize("count", [0, -1, -(2**31)])
def test_a_pop_of_no_message_gives_none(scene: Scene, count: int) -> None:
    one = consumer(scene)
    scene.send(one.topic, b"a")
    answer = one.connection.call(one.request(count=count))
    assert answer.code != 0
    assert answer.body == b""
    assert bodies(one.pop()) == [b"a"]


@case("POP-013", party="broker")
@at_edges("POP-013", "messages asked for")
def test_how_many_messages_a_pop_may_ask_for(scene: Scene, value: int, fits: bool) -> None:
    one = consumer(scene)
    scene.broker.call(requests.send_batch(one.topic, [b"x"] * 33))
    assert eventually(lambda: scene.max_offset(one.topic) == 33)
    answer = one.connection.call(one.request().having(maxMsgNums=value))
    assert answer.code == (0 if fits else 29)
    assert len(parse_records(answer.body)) == (value if fits else 0)


@case("POP-013", party="broker")
def test_a_topic_that_may_not_be_read_is_not_popped(scene: Scene) -> None:
    one = Consumer(scene, scene.topic(perm=2), scene.group())
    assert one.connection.call(one.request()).code == 16


@case("POP-015", "POP-019", party="broker", after=POPPED)
@pytest.mark.parametrize("queue_id", [1, -1])
def test_a_pop_is_held_until_a_message_arrives(scene: Scene, queue_id: int) -> None:
    one = consumer(scene, 2)
    held = one.hold(one.request(queue_id, poll_ms=LONG_POLL_MS))
    if queue_id == 1:
        scene.send(one.topic, b"elsewhere", 0)
    assert one.connection.is_quiet(held)
    scene.send(one.topic, b"here", 1)
    assert bodies(one.popped(one.connection.answer(held))) == [b"here"]
    info = requests.polling_info(one.topic, one.group, queue_id)
    assert scene.broker.call(info).number("pollingNum") == 0


@case("POP-019", party="broker", after=POPPED)
def test_held_pops_of_all_queues_are_counted_below_0(scene: Scene) -> None:
    one = consumer(scene, 2)
    for queue_id in (1, -1):
        one.hold(one.request(queue_id, poll_ms=LONG_POLL_MS))
    for queue_id, held in ((0, 0), (1, 1), (-1, 1), (-2, 1), (-9, 1)):
        info = requests.polling_info(one.topic, one.group, queue_id)
        assert scene.broker.call(info).number("pollingNum") == held, queue_id


@case("POP-015", party="broker", after=POPPED)
def test_a_held_pop_ends_with_its_time(scene: Scene) -> None:
    one = consumer(scene)
    asked_at = time.monotonic()
    # What it remarks depends on how late it looks: a busy broker finds the pop too old.
    assert one.connection.call(one.request(poll_ms=1_000)).code == NOTHING
    assert time.monotonic() - asked_at > 0.9


@case("POP-017", party="broker", after=REVIVED)
def test_a_held_pop_is_not_woken_by_a_message_that_comes_again(scene: Scene) -> None:
    one = consumer(scene)
    scene.send(one.topic, b"again")
    (message,) = one.pop()
    held = one.hold(one.request(poll_ms=LONG_POLL_MS))
    one.change(message, SHORT_MS)
    assert one.is_brought_back()
    assert one.connection.is_quiet(held)
    scene.send(one.topic, b"new")
    assert sorted(bodies(one.popped(one.connection.answer(held)))) == [b"again", b"new"]


@case("POP-018", party="broker", after=POPPED)
def test_a_notification_tells_that_there_is_a_message(scene: Scene) -> None:
    one = consumer(scene)

    def ask(poll_ms: int = 0) -> Request:
        return requests.notification(one.topic, one.group, poll_ms=poll_ms)

    def has_msg(answer: Frame) -> str:
        return done(answer).fields["hasMsg"]

    assert has_msg(one.connection.call(ask())) == "false"
    assert has_msg(one.connection.call(ask(500))) == "false"
    held = one.connection.ask(ask(LONG_POLL_MS))
    assert one.connection.is_quiet(held)
    scene.send(one.topic)
    assert has_msg(one.connection.answer(held)) == "true"
    assert has_msg(one.connection.call(ask())) == "true"
    assert len(one.pop()) == 1
    assert eventually(lambda: has_msg(one.connection.call(ask())) == "false")


def ordered(one: Consumer, attempt_id: str, count: int = 32, invisible_ms: int = 60_000) -> Frame:
    request = one.request(attempt_id=attempt_id, count=count, invisible_ms=invisible_ms)
    return one.connection.call(request)


@case("POP-020", "POP-022", "POP-023", party="broker", after=POPPED)
def test_a_queue_that_is_popped_in_order_is_blocked(scene: Scene) -> None:
    one = consumer(scene)
    for body in (b"a", b"b"):
        scene.send(one.topic, body)
    for _ in range(2):
        answer = ordered(one, "mine", count=1)
        assert bodies(one.popped(answer)) == [b"a"]
        assert (answer.number("reviveQid"), answer.fields["orderCountInfo"]) == (999, "0 0 0")
        assert one.popped(ordered(one, "another", count=1)) == []


@case("POP-020", "POP-022", "POP-023", party="broker", after=SEVERAL)
def test_a_batch_that_is_popped_in_order_blocks_its_queue(scene: Scene) -> None:
    one = consumer(scene)
    for body in (b"a", b"b", b"c"):
        scene.send(one.topic, body)
    for _ in range(2):
        answer = ordered(one, "mine", count=2)
        assert bodies(one.popped(answer)) == [b"a", b"b"]
        assert (answer.number("reviveQid"), answer.fields["orderCountInfo"]) == (999, "0 0 0")
        assert one.popped(ordered(one, "another", count=2)) == []


@case("POP-020", "POP-021", party="broker", after=SOME_ORDERED)
def test_acknowledgements_move_a_queue_that_is_popped_in_order(scene: Scene) -> None:
    one = consumer(scene)
    for body in (b"a", b"b", b"c"):
        scene.send(one.topic, body)
    a, b = one.popped(ordered(one, "mine", count=2))
    assert scene.committed(one.group, one.topic) == 0
    done(one.ack(b))
    assert scene.committed(one.group, one.topic) == 0
    assert one.popped(ordered(one, "another")) == []
    held = one.hold(one.request(attempt_id="held", poll_ms=LONG_POLL_MS))
    other = Consumer(scene, one.topic, one.group)
    done(other.ack(a))
    assert scene.committed(one.group, one.topic) == 2
    assert bodies(one.popped(one.connection.answer(held))) == [b"c"]


@case("POP-003", "POP-021", "POP-023", "POP-024", party="broker", after=SOME_ORDERED)
def test_what_was_popped_in_order_comes_again_in_order(scene: Scene) -> None:
    one = consumer(scene)
    for body in (b"a", b"b", b"c"):
        scene.send(one.topic, body)
    a, b, c = one.popped(ordered(one, "mine", count=3, invisible_ms=SHORT_MS))
    for message in (a, c):
        done(one.ack(message))
    request = one.request(attempt_id="next", poll_ms=LONG_POLL_MS)
    answer = one.connection.call(request)  # held until the queue is free
    assert bodies(one.popped(answer)) == [b"b", b"c"]
    assert answer.fields["orderCountInfo"] == "0 qo0%1 1;0 qo0%2 1;0 0 1"
    done(one.ack(b))  # with the handle of before
    assert scene.committed(one.group, one.topic) == 1
    done(one.ack(a))
    (new_b, _) = one.popped(answer)
    beyond = requests.ack(one.topic, one.group, new_b.handle, 3)
    refused = scene.broker.call(beyond)
    said = f"offset is illegal, key:{one.topic}@{one.group}@0, old:1, commit:3, next:-1, /"
    assert refused.code == 13
    with scene.identical("the wording of the remark"):
        assert (refused.remark or "").startswith(said)


@case("POP-023", party="broker", after=SOME_ORDERED)
@pytest.mark.parametrize("queue_id", [1, 7, 8])
def test_how_often_a_message_of_any_queue_came_is_told(scene: Scene, queue_id: int) -> None:
    one = consumer(scene, queues=queue_id + 1)
    for body in (b"a", b"b"):
        scene.send(one.topic, body, queue_id)
    request = one.request(queue_id, attempt_id="mine", count=2, invisible_ms=SHORT_MS)
    assert bodies(one.popped(one.connection.call(request))) == [b"a", b"b"]
    request = one.request(queue_id, attempt_id="next", count=2, poll_ms=LONG_POLL_MS)
    answer = one.connection.call(request)  # held until the queue is free
    assert bodies(one.popped(answer)) == [b"a", b"b"]
    told = f"0 qo{queue_id}%0 1;0 qo{queue_id}%1 1;0 {queue_id} 1"
    assert answer.fields["orderCountInfo"] == told


@case("POP-021", party="broker", claims="restart store", after=SOME_ORDERED)
def test_in_order_nothing_is_passed_over_after_a_crash(scene: Scene) -> None:
    one = consumer(scene)
    for body in (b"a", b"b"):
        scene.send(one.topic, body)
    _, b = one.popped(ordered(one, "mine"))

    def forget() -> None:
        """A kill before the batch was written leaves nothing of it."""
        for file in (scene.store / "config").glob("consumerOrderInfo.json*"):
            file.unlink()

    scene.restart(Restart.KILL, forget)  # not DAMAGE: others then cut the log off
    again = Consumer(scene, one.topic, one.group)
    done(again.ack(b))
    assert bodies(again.popped(ordered(again, "mine"))) == [b"a", b"b"]


@case("POP-025", party="broker", after=ORDERED)
def test_the_invisible_time_of_a_message_popped_in_order_is_changed(scene: Scene) -> None:
    one = consumer(scene)
    scene.send(one.topic, b"a")
    (a,) = one.popped(ordered(one, "mine"))
    held = one.hold(one.request(attempt_id="next", poll_ms=LONG_POLL_MS))
    changed_at = time.monotonic()
    changed = one.change(a, SHORT_MS)
    assert changed.handle.split(" ")[1] == a.handle.split(" ")[1]
    assert bodies(one.popped(one.connection.answer(held))) == [b"a"]
    assert SHORT_MS / 1000 <= time.monotonic() - changed_at < REVIVE_S


@case("POP-026", party="broker", after=SEVERAL)
def test_a_pop_gives_only_what_its_expression_wants(scene: Scene) -> None:
    one = consumer(scene)
    for body, tag in ((b"a", "A"), (b"b", "B"), (b"c", "C")):
        scene.send(one.topic, body, tag=tag)
    answer = one.connection.call(one.request().having(exp="A || C"))
    assert bodies(one.popped(answer)) == [b"a", b"c"]
    assert answer.fields["msgOffsetInfo"] == "0 0 0,2"
    assert eventually(lambda: scene.committed(one.group, one.topic) == 3)
    scene.send(one.topic, b"d", tag="D")
    assert one.popped(one.connection.call(one.request().having(exp="A"))) == []
    assert eventually(lambda: scene.committed(one.group, one.topic) == 4)


@case("POP-026", party="broker", after=POPPED)
@pytest.mark.parametrize("kind", ["TAG", "SQL92", "NONSENSE"])
def test_a_pop_without_an_expression_gives_all(scene: Scene, kind: str) -> None:
    one = consumer(scene)
    for body, asked in (
        (b"a", one.request().having(exp="", expType=kind)),
        (b"b", one.request().having(expType=kind).without("exp")),
    ):
        scene.send(one.topic, body, tag="A")
        assert bodies(one.popped(one.connection.call(asked))) == [body]


@case("POP-027", party="broker", after=POPPED)
def test_all_queues_are_popped(scene: Scene) -> None:
    one = consumer(scene, 3)
    for queue_id, body in enumerate((b"a", b"b", b"c")):
        scene.send(one.topic, body, queue_id)
    found = one.pop(-1)
    places = sorted((message.queue_id, message.record.body) for message in found)
    assert places == [(0, b"a"), (1, b"b"), (2, b"c")]


@case("POP-028", party="broker", claims="restart", after=REVIVED)
def test_a_popped_message_comes_again_after_a_crash(scene: Scene) -> None:
    one = consumer(scene)
    scene.send(one.topic, b"kept")
    assert len(one.pop(invisible_ms=SHORT_MS)) == 1
    scene.restart(Restart.KILL)
    again = Consumer(scene, one.topic, one.group)
    assert b"kept" in bodies(again.pop_again())
