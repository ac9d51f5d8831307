"""CleanExpired on the reference: one queue, its consumer, and the clean-up of what is stuck."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from mqcheck.replay import World, require
from mqcheck.worlds.terms import GROUP, function, message_queue, offset_key, store_offset
from mqspec.core import offset_commit, push_consumer
from mqspec.core.offset_commit import Consumed, ConsumerState, OffsetState, ProcessQueue, Pulled
from mqspec.core.push_consumer import CONSUME_TIMEOUT_MS
from mqspec.core.step import apply

MQ, KEY = message_queue(0), offset_key(0)
IN_TIME_MS, EXPIRED_MS = 1, 0  # when a listener began
NOW_MS = CONSUME_TIMEOUT_MS + 1


class CleanExpiredWorld(World):
    """Everything of a model of CleanExpired. Its clock stands still: that a message has been in
    work for too long is told to the clean-up alone."""

    module = "CleanExpired"
    actions: ClassVar = {
        "PullMessage": (),
        "StartListening": ("offset",),
        "Expire": ("offset",),
        "ProcessConsumeResult": ("offset",),
        "FirstExpired": (),
        "SendMessageBack": (),
        "FailToSendBack": ("got",),
        "RemoveMessage": (),
        "PersistAll": (),
        "ConsumeCopy": ("offset",),
        "CrashMember": (),
    }

    def __init__(self, max_messages: int, ends_while: Iterable[str]) -> None:
        self.messages = range(max_messages)
        self.ends_while = {"in time", *ends_while}
        self.broker = OffsetState()
        self.retry_topic = [0] * max_messages
        self.consumed = [0] * max_messages
        self.ended_while: frozenset[str] = frozenset()
        self.member = ConsumerState()
        self.listening: dict[int, int] = {}
        self.picked: int | None = None
        self.is_sent = False
        self._go_on()

    @classmethod
    def of(cls, constants: Mapping[str, Any]) -> CleanExpiredWorld:
        """The world at the beginning of a model with these constants."""
        return cls(constants["MaxMessages"], constants["EndsWhile"])

    def domain(self, name: str) -> Iterable[object]:
        return {"offset": self.messages, "got": (True, False)}[name]

    def state(self) -> dict[str, object]:
        queue = self._queue()
        return {
            "nextOffset": queue.next_offset,
            "msgTreeMap": frozenset(queue.msg_tree_map),
            "offsetStore": self.member.offset_store[MQ],
            "offsetTable": self._stored(),
            "listening": frozenset(self.listening),
            "expired": frozenset(o for o, ms in self.listening.items() if ms == EXPIRED_MS),
            "picked": len(self.messages) if self.picked is None else self.picked,
            "isSent": self.is_sent,
            "retryTopic": function(self.messages, lambda o: self.retry_topic[o]),
            "consumed": function(self.messages, lambda o: self.consumed[o]),
            "endedWhile": self.ended_while,
        }

    def pull_message(self) -> None:
        queue = self._queue()
        offset = queue.next_offset
        require(offset in self.messages)
        pulled = Pulled(MQ, queue.generation, offset + 1, NOW_MS, (offset,))
        apply(self.member, offset_commit.pull_message(self.member, pulled).changes)

    def start_listening(self, offset: int) -> None:
        require(offset in self._queue().msg_tree_map and offset not in self.listening)
        self.listening[offset] = IN_TIME_MS

    def expire(self, offset: int) -> None:
        require(self.listening.get(offset) == IN_TIME_MS)
        self.listening[offset] = EXPIRED_MS

    def process_consume_result(self, offset: int) -> None:
        require(offset in self.listening)
        phase = self._phase(offset)
        require(phase in self.ends_while)
        self.ended_while |= {phase} - {"in time"}
        del self.listening[offset]
        self.consumed[offset] = _more(self.consumed[offset])
        self._finish(offset)

    def first_expired(self) -> None:
        require(self.picked is None)
        tree = self._queue().msg_tree_map
        self.picked = push_consumer.first_expired(tree, self.listening, CONSUME_TIMEOUT_MS, NOW_MS)
        require(self.picked is not None)

    def send_message_back(self) -> None:
        self._copy()
        self.is_sent = True

    def fail_to_send_back(self, got: bool) -> None:
        self.spend("MaxFailures")
        if got:
            self._copy()
        else:
            self._picked(is_sent=False)
        self.picked = None

    def remove_message(self) -> None:
        self._finish(self._picked(is_sent=True))
        self.picked, self.is_sent = None, False

    def persist_all(self) -> None:
        for send in offset_commit.persist_all(self.member, GROUP).sends:
            store_offset(self.broker, MQ.queue_id, send.commit_offset)

    def consume_copy(self, offset: int) -> None:
        require(self.retry_topic[offset] > 0)
        self.retry_topic[offset] -= 1
        self.consumed[offset] = _more(self.consumed[offset])

    def crash_member(self) -> None:
        self.spend("MaxCrashes")
        self.member = ConsumerState()
        self.listening = {}
        self.picked, self.is_sent = None, False
        self._go_on()

    def _go_on(self) -> None:
        """A member begins at what is stored."""
        stored = self._stored()
        step = offset_commit.add_message_queue(self.member, MQ, stored, stored, NOW_MS)
        apply(self.member, step.changes)

    def _copy(self) -> None:
        """The broker gets what was picked."""
        offset = self._picked(is_sent=False)
        self.retry_topic[offset] = _more(self.retry_topic[offset])

    def _finish(self, offset: int) -> None:
        event = Consumed(MQ, self._queue().generation, (offset,))
        apply(self.member, offset_commit.process_consume_result(self.member, event).changes)

    def _phase(self, offset: int) -> str:
        """Where the clean-up is with a message."""
        if offset not in self._queue().msg_tree_map:
            return "removed"
        if offset == self.picked:
            return "sent" if self.is_sent else "picked"
        return "in time"

    def _picked(self, *, is_sent: bool) -> int:
        require(self.picked is not None and self.is_sent == is_sent)
        assert self.picked is not None
        return self.picked

    def _queue(self) -> ProcessQueue:
        return self.member.process_queue_table[MQ]

    def _stored(self) -> int:
        return self.broker.offset_table.get(KEY, 0)


def _more(count: int) -> int:
    """One more, of which the model counts as far as 2."""
    return min(count + 1, 2)
