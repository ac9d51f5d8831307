"""Transaction on the reference: the broker's half queue and op queue, and the producers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from msgspec import structs

from mqcheck.replay import World, require
from mqcheck.values import FrozenDict
from mqcheck.worlds.conversing import converse
from mqcheck.worlds.terms import GROUP, TOPIC, load_offsets, offset_file, persist_offsets
from mqspec.core import end_transaction, offset_commit, transaction
from mqspec.core.broker_states import BrokerStates
from mqspec.core.conversation import Look, Put
from mqspec.core.delay import HALF_TOPIC
from mqspec.core.log import PutResult, PutStatus, Span
from mqspec.core.metadata import BrokerConfig
from mqspec.core.offset_commit import OffsetKey, OffsetState
from mqspec.core.record import Record, decode_properties, encode_properties
from mqspec.core.response import Refusal
from mqspec.core.step import apply
from mqspec.core.transaction import (
    CONSUMER_GROUP,
    OP_TOPIC,
    CheckRound,
    EndTransaction,
    OpMessages,
    Park,
    PutBack,
    TransactionState,
)

HALF_QUEUE, OP_QUEUE = (OffsetKey(name, CONSUMER_GROUP, 0) for name in (HALF_TOPIC, OP_TOPIC))
OLD_ENOUGH_MS = BrokerConfig().transaction_time_out  # each half may be checked
FILE_RESERVED_MS = OLD_ENOUGH_MS + 1
HALF_BYTES = 100  # by which the places of halves in the log differ


class TransactionWorld(World):
    """Everything of a model of Transaction. A check of the model is a round over one half."""

    module = "Transaction"
    actions: ClassVar = {
        "Prepare": ("transaction",),
        "Decide": ("transaction", "end"),
        "EndTransaction": ("half",),
        "FailToPublish": ("half",),
        "BatchSendOpMessage": (),
        "Check": (),
        "LoseCheck": ("half",),
        "Persist": (),
        "Kill": (),
    }

    def __init__(self, transactions: Iterable[str], max_checks: int, ends_first: bool) -> None:
        self.ends_first = ends_first
        self.config = BrokerConfig(transaction_check_max=max_checks)
        self.broker, self.offsets = TransactionState(), OffsetState()
        self.disk = offset_file(self.offsets)
        self.halves: tuple[Record, ...] = ()
        self.ops: tuple[bytes, ...] = ()
        self.outcome = dict.fromkeys(transactions, "undecided")
        self.topic = dict.fromkeys(self.outcome, 0)
        self.parked: frozenset[str] = frozenset()
        self.asked: frozenset[int] = frozenset()
        self.sent_ends: frozenset[int] = frozenset()
        self.accepted: frozenset[str] = frozenset()

    @classmethod
    def of(cls, constants: Mapping[str, Any]) -> TransactionWorld:
        """The world at the beginning of a model with these constants."""
        numbers = constants["MaxChecks"], constants["EndsFirst"]
        return cls(sorted(constants["Transactions"]), *numbers)

    def domain(self, name: str) -> Iterable[object]:
        return {
            "transaction": self.outcome,
            "end": ("commit", "rollback"),
            "half": range(len(self.halves)),
        }[name]

    def state(self) -> dict[str, object]:
        on_disk = self._load()
        return {
            "halfQueue": tuple(
                FrozenDict({"transaction": _name(half), "times": _times(half)})
                for half in self.halves
            ),
            "opQueue": tuple(frozenset(transaction.ended_halves(body)) for body in self.ops),
            "halfOffset": self.broker.half_offset,
            "opOffset": self.broker.op_offset,
            "opBatch": frozenset(self.broker.op_batch),
            "disk": FrozenDict({"half": on_disk.half_offset, "op": on_disk.op_offset}),
            "topic": FrozenDict(self.topic),
            "parked": self.parked,
            "asked": self.asked,
            "outcome": FrozenDict(self.outcome),
            "sentEnds": self.sent_ends,
            "accepted": self.accepted,
        }

    def prepare(self, name: str) -> None:
        require(name not in map(_name, self.halves))
        properties = {"TRAN_MSG": "true", "PGROUP": GROUP}
        sent = Record(TOPIC, name.encode(), encode_properties(properties).encode())
        require(transaction.is_prepared(sent))
        self._append(transaction.prepare(sent))

    def decide(self, name: str, end: str) -> None:
        require(name in map(_name, self.halves))
        require(self.outcome[name] == "undecided")
        self.outcome[name] = end

    def end_transaction(self, half: int) -> None:
        name, put = self._end(half, PutStatus.PUT_OK)
        self.topic[name] += sum(message.topic == TOPIC for message in put)
        self.accepted |= {name}

    def fail_to_publish(self, half: int) -> None:
        _, put = self._end(half, PutStatus.CREATE_MAPPED_FILE_FAILED)
        require(bool(put))
        self.spend("MaxFailures")

    def batch_send_op_message(self) -> None:
        step = transaction.batch_send_op_message(self.broker)
        require(bool(step.result))
        self.ops += (step.result,)
        apply(self.broker, step.changes)

    def check(self) -> None:
        state = self.broker
        require(state.half_offset < len(self.halves))
        require(not self.ends_first or state.half_offset in self.sent_ends)
        ops = OpMessages(state.op_offset)
        for body in self.ops[state.op_offset :]:
            ops.add(transaction.ended_halves(body))
        event = CheckRound(
            ops,
            state.op_batch,
            Span(0, state.half_offset + 1),
            self.halves.__getitem__,
            FILE_RESERVED_MS,
            OLD_ENOUGH_MS,
        )
        step = transaction.check(state, self.config, event)
        for send in step.sends:
            if isinstance(send, Park):
                self.parked |= {_name(send.message)}
            elif isinstance(send, PutBack):
                self.asked |= {len(self.halves)} if send.is_checked else set()
                self._append(send.message)
        apply(state, step.changes)
        for key, offset in ((HALF_QUEUE, state.half_offset), (OP_QUEUE, state.op_offset)):
            apply(self.offsets, offset_commit.commit_offset(self.offsets, key, offset).changes)

    def lose_check(self, half: int) -> None:
        require(half in self.asked)
        self.asked -= {half}

    def persist(self) -> None:
        self.disk = persist_offsets(self.offsets)

    def kill(self) -> None:
        self.spend("MaxCrashes")
        self.broker = self._load()
        self.offsets = load_offsets(self.disk)

    def _end(self, offset: int, status: PutStatus) -> tuple[str, list[Record]]:
        """A producer ends a half, once of its own accord, and as often as it is asked. The half's
        name, and what was put, which ended so."""
        half = self.halves[offset]
        name, is_asked = _name(half), offset in self.asked
        require(self.outcome[name] != "undecided")
        require(is_asked or (_times(half) == 0 and offset not in self.sent_ends))
        self.asked -= {offset}
        self.sent_ends |= set() if is_asked else {offset}
        is_commit = self.outcome[name] == "commit"
        event = EndTransaction(GROUP, offset, half.physical_offset, is_commit, is_asked)
        states = BrokerStates(config=self.config, transactions=self.broker)
        kind = end_transaction.COMMIT if is_commit else end_transaction.ROLLBACK
        put: list[Record] = []

        def store(ask: Put) -> PutResult:
            put.append(ask.message)
            return PutResult(status)

        talk = end_transaction.end_transaction(states, event, kind, OLD_ENOUGH_MS)
        answer = converse(talk, {Look: lambda _: half, Put: store})
        is_failed = put and status is not PutStatus.PUT_OK
        require(isinstance(answer, Refusal) == bool(is_failed))
        return name, put

    def _append(self, half: Record) -> None:
        offset = len(self.halves)
        placed = structs.replace(half, queue_offset=offset, physical_offset=offset * HALF_BYTES)
        self.halves += (placed,)

    def _load(self) -> TransactionState:
        table = load_offsets(self.disk).offset_table
        return TransactionState(table.get(HALF_QUEUE, 0), table.get(OP_QUEUE, 0))


def _name(half: Record) -> str:
    return half.body.decode()


def _times(half: Record) -> int:
    return int(decode_properties(half.properties).get("TRANSACTION_CHECK_TIMES", "0"))
