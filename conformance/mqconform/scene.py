"""What a case works with: names of its own, connections, and the usual steps.

Each case has one scene, used by its thread alone. Names carry the run and a number of the
case's own, so that cases run side by side, against a broker that others use as well.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import re
import ssl
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

from mqconform import connection, requests
from mqconform.causes import Step, UnexpectedError
from mqconform.cluster import Cluster
from mqconform.connection import (
    ClosedError,
    Connection,
    Manner,
    SilentError,
    eventually,
)
from mqconform.frame import Frame
from mqconform.history import Recorder
from mqconform.records import Record, parse_records
from mqconform.requests import Request
from mqconform.stage import Restart, Stage
from mqconform.target import Address, Secured, Target, deviations_of
from mqconform.tidy import Tidy
from mqconform.transcript import Transcript
from mqrules import EventKind, Outcome, Strength
from mqrules.rule import version_key

CHANGES: Final = 8  # of a topic, until a route shows them
_SEPARATOR: Final = re.compile("[=:]")
HUNG_UP_S: Final = 0.5  # by when it is known that a broker was restarted
T = TypeVar("T")
P = ParamSpec("P")


class NotClaimedError(Exception):
    """The target does not allow what a case needs."""


def step(
    *areas: str,
) -> Callable[[Callable[Concatenate[Scene, P], T]], Callable[Concatenate[Scene, P], T]]:
    """A step by which cases prepare what they are about.

    Where it fails, a case of these areas of rules has failed, and any other is blocked.
    """

    def marked(act: Callable[Concatenate[Scene, P], T]) -> Callable[Concatenate[Scene, P], T]:
        this = Step(act.__name__.replace("_", " "), areas)

        @functools.wraps(act)
        def taken(scene: Scene, /, *args: P.args, **kwargs: P.kwargs) -> T:
            try:
                return act(scene, *args, **kwargs)
            except Exception as error:
                if not (scene.failed_step and scene.failed_step[0] is error):  # of a step within
                    scene.failed_step = error, this
                raise

        return taken

    return marked


class Scene:
    """The world of one case.

    `broker` and `nameserver` are connections that are there from the start; the broker is the
    first by name, the one that a restart restarts. The steps below assert that they worked:
    what a case is about, it asks for with `call`.
    """

    def __init__(
        self,
        prefix: str,
        target: Target,
        cluster: Cluster,
        stage: Stage,
        recorder: Recorder,
        tidy: Tidy | None = None,
    ) -> None:
        self.prefix, self.recorder = prefix, recorder
        self.transcript = Transcript()
        self._target, self._cluster, self._stage = target, cluster, stage
        self._numbers = itertools.count(1)
        self.last_key = ""  # of the message that was sent last
        self.failed_step: tuple[Exception, Step] | None = None
        self.failed_as: tuple[Exception, Strength] | None = None
        self.letters: list[str] = []  # in what the target is not the same to the letter
        self._tidy = tidy or Tidy(cluster, prefix)
        self._connections = contextlib.ExitStack()
        self._open_ones: list[Connection] = []
        self._is_cut_off = False
        self._open()

    @cached_property
    def deviates(self) -> frozenset[str]:
        """The rules from which the target is listed as departing."""
        return frozenset(one.rule for one in deviations_of(self._target.name, self._target.version))

    def _open(self) -> None:
        self.broker = self.connect()
        self.nameserver = self.connect_nameserver()

    def close(self) -> None:
        self._connections.close()

    def cut_off(self) -> None:
        """From another thread: have the case come to its end."""
        self._is_cut_off = True
        for each in list(self._open_ones):
            each.cut_off()

    def opened(self, connection: Connection) -> Connection:
        """A connection that ends with the scene."""
        self._open_ones.append(connection)
        if self._is_cut_off:
            connection.cut_off()
        return self._connections.enter_context(connection)

    # Names and connections

    def name(self, what: str) -> str:
        """A name that nobody else uses: of a topic, a group, a client, a key."""
        return f"{self.prefix}-{what}{next(self._numbers)}"

    def client(self, name: str) -> str:
        """The id of a client of this case, the same for the same name.

        A broker may keep one connection of an id whatever its groups, and close the one before:
        with an id that two cases use side by side, each would hang up on the other.
        """
        return f"{self.prefix}-{name}"

    @property
    def broker_names(self) -> list[str]:
        return list(self._cluster.brokers)

    def address_of(self, broker_name: str) -> Address:
        return self._cluster.brokers[broker_name]

    @property
    def groups_by_use(self) -> bool:
        """Whether the brokers make a group when it is first used."""
        return self._cluster.groups_by_use

    @property
    def store(self) -> Path:
        """The store of the first broker (capability 'store')."""
        assert self._target.store
        return self._target.store

    def connect(
        self,
        broker_name: str | None = None,
        *,
        port_below: int = 0,
        tls: ssl.SSLContext | None = None,
        manner: Manner | None = None,
    ) -> Connection:
        """A new connection to a broker, or to a port of it that is so much lower."""
        name = broker_name or self.broker_names[0]
        host, port = self._cluster.brokers[name]
        connection = Connection(
            Address(host, port - port_below),
            self.transcript,
            tls=tls,
            broker_name=name,
            manner=manner,
        )
        return self.opened(connection)

    @property
    def secured(self) -> Secured:
        """The broker that lets only users in (capability 'users')."""
        assert self._target.secured
        return self._target.secured

    def connect_secured(self) -> Connection:
        return self.opened(Connection(self.secured.address, self.transcript))

    def connect_nameserver(
        self, *, tls: ssl.SSLContext | None = None, manner: Manner | None = None
    ) -> Connection:
        address = self._cluster.nameserver
        return self.opened(Connection(address, self.transcript, tls=tls, manner=manner))

    @contextlib.contextmanager
    def identical(self, what: str) -> Iterator[None]:
        """Expectations that are to the letter: a remark's wording, a null, the order of keys.

        They are judged of Apache and the reference, and of others where that is asked for; of
        any other a difference is noted and fails nothing.
        """
        try:
            yield
        except AssertionError as error:
            if self._target.to_the_letter:
                self.failed_as = error, Strength.IDENTICAL
                raise
            self.letters.append(what)

    @contextlib.contextmanager
    def apaches(self) -> Iterator[None]:
        """Expectations of a rule that is relied on, of which nobody relies on just this."""
        try:
            yield
        except (AssertionError, SilentError, ClosedError) as error:
            self.failed_as = error, Strength.APACHE
            raise

    def worded(self, answer: Frame, remark: str | None) -> None:
        """Expect an answer's remark, to the letter."""
        with self.identical("the wording of the remark"):
            assert answer.remark == remark, f"remark {answer.remark!r}, not {remark!r}"

    # Steps

    @step("ADMIN")
    def topic(
        self, queues: int = 1, *, write: int | None = None, perm: int = 6, everywhere: bool = False
    ) -> str:
        """Create a topic on the first broker, or on all."""
        topic = self.name("T")
        request = requests.create_topic(topic, queues, queues if write is None else write, perm)
        brokers = (
            [self.connect(name) for name in self.broker_names] if everywhere else [self.broker]
        )
        for broker in brokers:
            done(broker.call(request))
        return topic

    @step("ADMIN")
    def set_options(self, broker: Connection, /, **options: object) -> None:
        """Set options of a broker, which are put back when the run ends.

        Raises NotClaimedError where others use the broker and it has other values.
        """
        wanted = requests.text_fields(options)
        before = config_of(broker)
        if all(before.get(name) == value for name, value in wanted.items()):
            return
        self.needs_exclusive()
        known = {name: before[name] for name in wanted if name in before}
        self._tidy.remember(broker.address, False, known)
        done(broker.call(requests.update_broker_config(**options)))

    def set_nameserver_option(self, name: str, value: str, escaped: str = "") -> Frame:
        """Try to set an option of the nameserver, which is put back when the run ends."""
        self.needs_exclusive()
        before = config_of(self.nameserver, requests.GET_NAMESRV_CONFIG)
        if name in before:
            self._tidy.remember(self.nameserver.address, True, {name: before[name]})
        body = f"{escaped or name}={value}\n".encode()
        return self.nameserver.call(Request(requests.UPDATE_NAMESRV_CONFIG, body=body))

    def needs_exclusive(self) -> None:
        """What follows touches whoever else uses the target. Raises NotClaimedError."""
        if not self._target.exclusive:
            raise NotClaimedError("exclusive: say --exclusive where nobody else uses the target")

    @step("ADMIN")
    def new_group(self) -> str:
        """The name of a group that nobody has used yet.

        The brokers know it only where groups come to be by nothing but their creation.
        """
        group = self.name("G")
        if not self._cluster.groups_by_use:
            for name in self.broker_names:
                done(self.connect(name).call(requests.create_group(group)))
        return group

    @step("GROUP", "ADMIN")
    def group(self) -> str:
        """The name of a group that the first broker knows, and that had a member."""
        group, client_id = self.new_group(), self.name("C")
        with self.connect() as connection:
            done(connection.call(requests.heartbeat(client_id, group)))
            done(connection.call(requests.unregister(client_id, group)))
        return group

    @step("SEND", "LOG", "RECOV")
    def send(
        self,
        topic: str,
        body: bytes = b"hello",
        queue_id: int = 0,
        *,
        tag: str | None = None,
        broker: Connection | None = None,
        broker_name: str | None = None,
    ) -> Frame:
        """Store a message under a key of its own and wait until it can be pulled."""
        key = self.last_key = self.name("K")
        properties = {"KEYS": key} | ({"TAGS": tag} if tag else {})
        known = {
            "topic": topic,
            "broker": broker_name or self.broker_names[0],
            "queue_id": queue_id,
            "message_key": key,
            "tag": tag,
        }
        connection = broker or self.broker
        cause = self.recorder.record(EventKind.SEND, Outcome.INVOKED, **known)
        request = requests.send(topic, body, queue_id, properties)
        try:
            answer = connection.call(request)
        except (SilentError, ClosedError):
            self.recorder.record(EventKind.SEND, Outcome.UNKNOWN, cause=cause, **known)
            raise
        if answer.code != 0:
            self.recorder.record(EventKind.SEND, Outcome.FAILED, cause=cause, **known)
        done(answer)
        offset = answer.number("queueOffset")
        self.recorder.record(
            EventKind.SEND,
            Outcome.OK,
            cause=cause,
            queue_offset=offset,
            message_id=answer.fields["msgId"],
            **known,
        )
        if not eventually(lambda: self.max_offset(topic, queue_id, connection) > offset):
            raise AssertionError(f"the message at {offset} of queue {queue_id} stays invisible")
        return answer

    def max_offset(self, topic: str, queue_id: int = 0, broker: Connection | None = None) -> int:
        return (broker or self.broker).call(requests.max_offset(topic, queue_id)).number("offset")

    def committed(self, group: str, topic: str, queue_id: int = 0) -> int | None:
        """The offset that the broker keeps; None where it has none.

        A version below 5 has no setZeroIfNotFound, and is asked for its whole table.
        """
        if version_key(self._target.keeps) < (5,):
            every = done(self.broker.call(Request(requests.GET_ALL_CONSUMER_OFFSET))).json()
            kept = every["offsetTable"].get(f"{topic}@{group}", {})
            return next((int(kept[key]) for key in kept if int(key) == queue_id), None)
        request = requests.query_offset(group, topic, queue_id).having(setZeroIfNotFound=False)
        answer = self.broker.call(request)
        return done(answer, 0, 22).number("offset") if answer.code == 0 else None

    def pull(self, request: requests.Request) -> list[Record]:
        """The messages that a pull finds, at least one."""
        return parse_records(done(self.broker.call(request)).body)

    def read_all(self, topic: str, group: str, queue_id: int = 0) -> list[Record]:
        """Pull a queue from its least offset to its end."""
        offset = self.broker.call(requests.min_offset(topic, queue_id)).number("offset")
        found: list[Record] = []
        while (answer := self.broker.call(requests.pull(topic, group, offset, queue_id))).code == 0:
            found += parse_records(answer.body)
            if answer.number("nextBeginOffset") <= offset:
                raise AssertionError(f"a pull that found messages stays at {offset}")
            offset = answer.number("nextBeginOffset")
        done(answer, 19)
        return found

    def is_routed(self, change: Request, shows: Callable[[], bool]) -> bool:
        """Whether routes come to show a change of a topic that they have, made by the first broker.

        Where others make topics at once, that one may stay unchanged in the routes of 5.3.3 for
        good. A registration of all topics is gathered before the change and written after it: it
        has the topic as it was with the version that the change made, and a nameserver takes
        nothing more with a version that it has; what follows has the topic that changed alone
        (BrokerController.registerBrokerAll, RouteInfoManager.isTopicConfigChanged). Another change
        of the same topic puts it right, one to what it is already is none: its order is turned.
        """
        for number in range(CHANGES):
            done(self.broker.call(change.having(order=bool(number % 2))))
            if eventually(shows, connection.REGISTERED_S / CHANGES):
                return True
        return False

    def topic_config(self, topic: str) -> dict[str, Any] | None:
        """What the broker keeps of a topic; None where it has no such topic.

        A version below 5 does not know the request for one, and is asked for all.
        """
        if version_key(self._target.keeps) < (5,):
            every = done(self.broker.call(Request(requests.GET_ALL_TOPIC_CONFIG))).json()
            found: dict[str, Any] | None = every["topicConfigTable"].get(topic)
            return found
        answer = done(self.broker.call(requests.topic_config(topic)), 0, 17)
        return answer.json() if answer.code == 0 else None

    def members(self, group: str, broker: Connection | None = None) -> list[str]:
        """A group's members as `client` names them, sorted; none where the broker knows none."""
        answer = (broker or self.broker).call(requests.consumer_list(group))
        ids = answer.json()["consumerIdList"] if answer.code == 0 else []
        return sorted(each.removeprefix(self.client("")) for each in ids)

    def restart(self, kind: Restart, damage: Callable[[], None] = lambda: None) -> None:
        """Have the first broker restarted, and connect again. Connections of before are gone.

        `damage` runs while the broker is down; from then on queue offsets may be used again.
        """

        def damaged() -> None:
            damage()
            if kind in (Restart.DAMAGE, Restart.STALL, Restart.TORN, Restart.RUIN):
                self.recorder.store_damaged()

        self._connections.close()
        self._stage.restart(kind, damaged)
        self._open()

    def restart_now(self, kind: Restart) -> list[str]:
        """Have the first broker restarted at once, where no case runs, and connect again. The
        brokers that were: of some targets all are one process."""
        watched = {name: self.connect(name) for name in self.broker_names}
        self._stage.restart_now(kind)
        restarted = [
            name for name, connection in watched.items() if connection.is_closed(HUNG_UP_S)
        ]
        self._connections.close()
        self._open()
        return restarted


def config_of(server: Connection, code: int = requests.GET_BROKER_CONFIG) -> dict[str, str]:
    """The options of a broker or a nameserver."""
    return properties_of(done(server.call(Request(code))).body)


def properties_of(body: bytes) -> dict[str, str]:
    """Options by name, read as tools in Java read them: `name=value` or `name:value`, a line each.

    5.3.3 writes the first; who writes the other is understood (java.util.Properties.load).
    """
    lines = (
        _SEPARATOR.split(line, maxsplit=1) for line in body.decode(errors="replace").splitlines()
    )
    return {words[0]: words[1] for words in lines if len(words) == 2}


def done(answer: Frame, *codes: int) -> Frame:
    """The answer, which must have one of the codes (0 unless others are given)."""
    if answer.code not in (codes or (0,)):
        wanted = " or ".join(map(str, codes or (0,)))
        raise UnexpectedError(f"code {answer.code} {answer.remark!r}, not {wanted}", answer.raw)
    return answer


def without_nulls(data: Any) -> Any:
    """JSON without the keys whose value is null: a reader takes them for what is not there."""
    match data:
        case dict():
            kept = {name: without_nulls(value) for name, value in data.items()}
            return {name: value for name, value in kept.items() if value is not None}
        case list():
            return [without_nulls(value) for value in data]
    return data


def shows(found: Mapping[str, str], expected: Mapping[str, str]) -> None:
    """Expect these properties or fields, among others; what is not so is said by its name."""
    other = {
        name: found.get(name) for name in sorted(expected) if found.get(name) != expected[name]
    }
    assert not other, f"{other}, not { {name: expected[name] for name in other} }"


def fields(answer: Frame, *names: str) -> tuple[int, ...]:
    """An answer's code and some of its fields, all numbers: handy to compare."""
    return answer.code, *(answer.number(name) for name in names)
