"""What random programs are made of: steps about two topics and two groups, by two clients.

What an operation is told of depends on the program alone, or it is left out of what is compared.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias

from mqconform import fastjson, requests
from mqconform.frame import Frame
from mqconform.records import Record, parse_records
from mqconform.requests import Request, Subscription

STEPS: Final = 60  # of a program
LATE_MS: Final = 4_000_000_000_000  # in the year 2096
TIMES: Final = (0, LATE_MS, -1)
OFFSETS: Final = (0, 1, 2, 3, 4, 5, -1, 99)
COUNTS: Final = (32, 1, 3)
LEVELS: Final = ((0, None), (1, 16), (-1, None), (0, 0))  # of a send-back, each with a maximum
PERMISSIONS: Final = (6, 4, 2)
ODD_PROPERTIES: Final = (
    "\x02\x01\x02a\x02b\x01\x02",
    "a\x01b\x01c\x02KEYS\x01 k0  k1 \x02",
    "TAGS\x01é\x02TAGS\x01a\x02",
    "UNIQ_KEY\x01k1\x02KEYS\x01k1",
    "WAIT\x01x\x02INSTANCE_ID\x01k2\x02",
    "CLUSTER\x01x\x02TRACE_ON\x01y",
    "REAL_TOPIC\x01x\x02REAL_QID\x01y\x02",
    "TRAN_MSG\x01x\x02POP_CK\x011 2\x02MSG_REGION\x01z\x02",
)


class Step(NamedTuple):
    """What to do, and what is chosen for it: each operation takes what it needs."""

    operation: str
    topic: int
    group: int
    client: int
    queue: int
    number: int
    word: str


def random_program(seed: int) -> list[Step]:
    chosen = random.Random(seed)
    return [
        Step(
            operation=chosen.choice(list(OPERATIONS)),
            topic=chosen.choice((0, 0, 0, 1)),
            group=chosen.choice((0, 0, 0, 1)),
            client=chosen.randrange(2),
            queue=chosen.choice((0, 0, 0, 1, 1, 2)),
            number=chosen.randrange(len(OFFSETS)),
            word=chosen.choice(("*", "a", "b", "a||b")),
        )
        for _ in range(STEPS)
    ]


class Place(NamedTuple):
    """Where a message lies."""

    queue_offset: int
    position: int  # in the CommitLog


NOWHERE: Final = Place(0, 1 << 40)


class Popped(NamedTuple):
    """A message that was popped, as it is acknowledged."""

    topic: str
    group: str
    handle: str
    offset: int
    queue_id: int


@dataclass
class Known:
    """What the steps of a program have learned so far, for those that follow."""

    sent: list[Place] = field(default_factory=list)
    halves: list[Place] = field(default_factory=list)
    popped: list[Popped] = field(default_factory=list)


class Turn(NamedTuple):
    """A step with the names of its program, and what is known when it is done."""

    step: Step
    name: str
    broker_name: str
    known: Known

    @property
    def topic(self) -> str:
        return f"{self.name}-T{self.step.topic}"

    @property
    def group(self) -> str:
        return f"{self.name}-G{self.step.group}"

    @property
    def client_id(self) -> str:
        return f"{self.name}-C{self.step.client}"

    def learn(self, answer: Frame) -> None:
        """Keep what later steps are about."""
        match self.step.operation:
            case "send a half":
                self.known.halves += stored(answer)
            case "send" | "send again" | "send oddly":
                self.known.sent += stored(answer)
            case "pop in order":
                self.known.popped += self._popped(answer)
            case "reset" | "reset to an offset" | "delete a topic" | "delete a group":
                self.known.popped.clear()

    def _popped(self, answer: Frame) -> Iterator[Popped]:
        told, records = answer.fields, parse_records(answer.body)
        for r in records:
            middle = f"{told['popTime']} {told['invisibleTime']} {told['reviveQid']} 0"
            place = f"{self.broker_name} {r.queue_id} {r.queue_offset}"
            handle = f"{records[0].queue_offset} {middle} {place}"
            yield Popped(self.topic, self.group, handle, r.queue_offset, r.queue_id)

    def one_of(self, places: Sequence[Place]) -> Place:
        return places[self.step.number % len(places)] if places else NOWHERE


def stored(answer: Frame) -> Iterator[Place]:
    if answer.code == 0:
        yield Place(answer.number("queueOffset"), int(answer.fields["msgId"][-16:], 16))


Asking: TypeAlias = Callable[[Turn], Request]


class Operation(NamedTuple):
    """What is asked, and which fields of the answer and what of its body are compared."""

    ask: Asking
    fields: Sequence[str] = ()
    body: Callable[[bytes], object] = len
    stores: bool = False


OF_A_MESSAGE: Final = {
    *("UNIQ_KEY", "ORIGIN_MESSAGE_ID", "__transactionId__", "POP_CK", "1ST_POP_TIME"),
}
"""Properties that no other message has: ids, places and times."""


def messages(data: bytes) -> object:
    def properties(m: Record) -> dict[str, str]:
        return {name: m.properties[name] for name in m.properties.keys() - OF_A_MESSAGE}

    return [
        (m.topic, m.queue_id, m.queue_offset, m.body, m.reconsume_times, m.sys_flag, properties(m))
        for m in parse_records(data)
    ]


def document(data: bytes) -> object:
    """JSON. What is a set in Java has no order; of a time counts whether there is one."""

    def plain(value: Any, name: str = "") -> Any:
        if isinstance(value, dict):
            return {key: plain(value[key], key) for key in sorted(value) if key not in THEIR_OWN}
        if isinstance(value, list):
            return sorted(map(plain, value), key=json.dumps)
        return bool(value) if name.endswith("Timestamp") else value

    return plain(fastjson.loads(data)) if data else None


THEIR_OWN: Final = {
    *("brokerAddr", "clientAddr", "topicPutTps", "consumeTps"),
    *("l", "popTime", "ot"),  # of consumerOrderInfo.json: times
}


def pull(turn: Turn, subscription: str | None) -> Request:
    step = turn.step
    return requests.pull(
        turn.topic,
        turn.group,
        OFFSETS[step.number],
        step.queue,
        subscription=subscription,
        count=COUNTS[step.number % 3],
        commit=step.number if step.client else None,
    )


def send(turn: Turn) -> Request:
    properties = {"TAGS": turn.step.word[0], "KEYS": f"k{turn.step.number % 3}"}
    return requests.send(turn.topic, b"x", turn.step.queue, properties)


def send_oddly(turn: Turn) -> Request:
    return send(turn).having(i=ODD_PROPERTIES[turn.step.number])


def send_batch(turn: Turn) -> Request:
    bodies = [b"%d" % i for i in range(turn.step.number + 1)]
    return requests.send_batch(turn.topic, bodies, turn.step.queue, {"TAGS": "a"})


def end(turn: Turn) -> Request:
    kind = requests.ROLLBACK if turn.step.queue else requests.COMMIT
    return requests.end_transaction(turn.group, *turn.one_of(turn.known.halves), kind)


def send_back(turn: Turn) -> Request:
    level, maximum = LEVELS[turn.step.number % len(LEVELS)]
    place = turn.one_of(turn.known.sent).position
    return requests.send_back(turn.group, turn.topic, place, level, maximum)


def heartbeat(turn: Turn) -> Request:
    wanted = [Subscription(turn.topic, turn.step.word, 1000 + turn.step.number)]
    return requests.heartbeat(turn.client_id, turn.group, wanted)


def create_group(turn: Turn) -> Request:
    return requests.create_group(
        turn.group,
        retryMaxTimes=turn.step.number,
        consumeEnable=turn.step.queue == 0,
        consumeBroadcastEnable=True,
        consumeFromMinEnable=True,
    )


def committed(turn: Turn) -> Request:
    request = requests.query_offset(turn.group, turn.topic, turn.step.queue)
    return request.having(setZeroIfNotFound=False) if turn.step.client else request


def reset(turn: Turn) -> Request:
    when, is_force = TIMES[turn.step.number % 3], turn.step.client == 0
    return requests.reset_offset(turn.group, turn.topic, timestamp=when, isForce=is_force)


def reset_to_offset(turn: Turn) -> Request:
    where = {"queueId": turn.step.queue, "offset": OFFSETS[turn.step.number]}
    return requests.reset_offset(turn.group, turn.topic, **where)


def search(turn: Turn) -> Request:
    request = requests.search_offset(turn.topic, TIMES[turn.step.number % 3], turn.step.queue)
    return request.having(boundaryType="upper") if turn.step.client else request


def pop(turn: Turn) -> Request:
    many = COUNTS[turn.step.number % 3]
    return requests.pop(turn.topic, turn.group, turn.step.queue, count=many, order=True)


def one_popped(turn: Turn) -> Popped:
    if found := turn.known.popped:
        return found[-1 - turn.step.number % len(found)]
    handle = f"0 0 60000 999 0 {turn.broker_name} 0 0"
    return Popped(turn.topic, turn.group, handle, NOWHERE.position, 0)


def change(turn: Turn) -> Request:
    message = one_popped(turn)._asdict()
    return requests.change_invisible_time(**message, invisible_ms=60_000)


def queues(turn: Turn) -> Sequence[tuple[str, str, int]]:
    return [(turn.topic, turn.broker_name, queue) for queue in {0, turn.step.queue}]


def of_group(code: int, field: str = "consumerGroup") -> Asking:
    return lambda turn: Request(code, {field: turn.group})


STORED: Final = ("queueId", "queueOffset")
PULLED: Final = ("nextBeginOffset", "minOffset", "maxOffset", "suggestWhichBrokerId")
OPERATIONS: Final = {
    "send": Operation(send, STORED, stores=True),
    "send again": Operation(send, STORED, stores=True),  # most do nothing without messages
    "send oddly": Operation(send_oddly, STORED, stores=True),
    "send a batch": Operation(send_batch, STORED, stores=True),
    "send a half": Operation(
        lambda t: requests.send_half(t.topic, t.group), ("queueId",), stores=True
    ),
    "end": Operation(end, stores=True),
    "send back": Operation(send_back, stores=True),
    "pull": Operation(lambda t: pull(t, t.step.word), PULLED, messages),
    "pull as subscribed": Operation(lambda t: pull(t, None), PULLED, messages),
    "pop in order": Operation(pop, ("orderCountInfo", "restNum"), messages),
    "ack": Operation(lambda t: requests.ack(*one_popped(t))),
    "change": Operation(change),
    "query": Operation(
        lambda t: requests.query_message(t.topic, f"k{t.step.number % 4}"), body=messages
    ),
    "min": Operation(lambda t: requests.min_offset(t.topic, t.step.queue), ("offset",)),
    "max": Operation(lambda t: requests.max_offset(t.topic, t.step.queue), ("offset",)),
    "search": Operation(search, ("offset",)),
    "heartbeat": Operation(heartbeat),
    "unregister": Operation(lambda t: requests.unregister(t.client_id, t.group)),
    "members": Operation(lambda t: requests.consumer_list(t.group), body=document),
    "connections": Operation(of_group(requests.GET_CONSUMER_CONNECTION_LIST), body=document),
    "topics of a group": Operation(
        of_group(requests.QUERY_TOPICS_BY_CONSUMER, "group"), body=document
    ),
    "progress": Operation(of_group(requests.GET_CONSUME_STATS), body=document),
    "commit": Operation(
        lambda t: requests.commit_offset(t.group, t.topic, t.step.number, t.step.queue)
    ),
    "committed": Operation(committed, ("offset",)),
    "reset": Operation(reset, body=document),
    "reset to an offset": Operation(reset_to_offset, body=document),
    "lock": Operation(lambda t: requests.lock(t.group, t.client_id, *queues(t)), body=document),
    "unlock": Operation(lambda t: requests.unlock(t.group, t.client_id, *queues(t))),
    "create a topic": Operation(
        lambda t: requests.create_topic(t.topic, t.step.queue + 1, t.step.queue + 1)
    ),
    "permit": Operation(
        lambda t: requests.create_topic(t.topic, 2, 2, PERMISSIONS[t.step.number % 3])
    ),
    "delete a topic": Operation(lambda t: requests.delete_topic(t.topic)),
    "topic": Operation(lambda t: requests.topic_config(t.topic), body=document),
    "statistics": Operation(
        lambda t: Request(requests.GET_TOPIC_STATS_INFO, {"topic": t.topic}), body=document
    ),
    "create a group": Operation(create_group),
    "group": Operation(lambda t: requests.group_config(t.group), body=document),
    "delete a group": Operation(
        lambda t: requests.delete_group(t.group, clean_offset=t.step.client > 0)
    ),
}
