"""Transaction on the reference: the broker's half queue and op queue, and the producers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, ClassVar

from msgspec import structs

from mqcheck.replay import World, require
from mqcheck.values import FrozenDict
from mqcheck.worlds.conversing import converse
from mqcheck.worlds.terms import GROUP, TOPIC, load_offsets, offset_file, persist_offsets
from mqspec.core import check_transaction, end_transaction, transaction
from mqspec.core.broker_states import BrokerStates
from mqspec.core.check_transaction import HALF_QUEUE, OP_QUEUE
from mqspec.core.conversation import (
    Append,
    CheckBack,
    Get,
    IsAllVisible,
    Look,
    Now,
    Producers,
    Put,
    ReadSpan,
    Store,
    Units,
)
from mqspec.core.delay import HALF_TOPIC
from mqspec.core.log import GetMessageStatus, GetResult, PutResult, PutStatus, Span, Unit
from mqspec.core.metadata import BrokerConfig
from mqspec.core.offset_commit import OffsetState
from mqspec.core.record import (
    NOWHERE,
    Record,
    decode_properties,
    encode_properties,
    encode_record,
    offset_message_id,
)
from mqspec.core.response import Refusal
from mqspec.core.transaction import OP_TOPIC, EndTransaction, TransactionState

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
        before = len(self.ops)
        converse(end_transaction.write_ops(self._states(), OLD_ENOUGH_MS), {Append: self._put_op})
        require(len(self.ops) > before)

    def check(self) -> None:
        state = self.broker
        require(state.half_offset < len(self.halves))
        require(not self.ends_first or state.half_offset in self.sent_ends)
        converse(
            check_transaction.check(self._states(), FILE_RESERVED_MS),
            {
                ReadSpan: partial(self._span, seen=state.half_offset + 1),
                IsAllVisible: lambda _: True,
                Get: self._get_ops,
                Units: lambda ask: [Unit(ask.offset * HALF_BYTES, HALF_BYTES, 0)],
                Look: lambda ask: self.halves[ask.position // HALF_BYTES],
                Now: lambda _: OLD_ENOUGH_MS,
                Store: self._put_back,
                Append: self._park,
                Producers: lambda _: ("producer",),
                CheckBack: self._check_back,
            },
        )

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
        kind = end_transaction.COMMIT if is_commit else end_transaction.ROLLBACK
        put: list[Record] = []

        def store(ask: Put) -> PutResult:
            put.append(ask.message)
            return PutResult(status)

        talk = end_transaction.end_transaction(self._states(), event, kind, OLD_ENOUGH_MS)
        answer = converse(talk, {Look: lambda _: half, Put: store})
        is_failed = put and status is not PutStatus.PUT_OK
        require(isinstance(answer, Refusal) == bool(is_failed))
        return name, put

    def _states(self) -> BrokerStates:
        """The broker, as conversations take it."""
        return BrokerStates(
            config=self.config, offsets=self.offsets, transactions=self.broker, store_host=NOWHERE
        )

    def _span(self, ask: ReadSpan, seen: int) -> Span:
        """What a queue holds, or, of the halves, as many as are seen of it."""
        return Span(0, seen if ask.topic == HALF_TOPIC else len(self.ops))

    def _get_ops(self, ask: Get) -> GetResult:
        assert ask.topic == OP_TOPIC
        end = len(self.ops)
        if ask.offset >= end:
            return GetResult(GetMessageStatus.OFFSET_OVERFLOW_ONE, ask.offset, 0, end)
        records = tuple(encode_record(Record(OP_TOPIC, body)) for body in self.ops[ask.offset :])
        return GetResult(GetMessageStatus.FOUND, end, 0, end, records)

    def _put_op(self, ask: Append) -> PutResult:
        self.ops += (ask.message.body,)
        return PutResult(PutStatus.PUT_OK)

    def _put_back(self, ask: Store) -> PutResult:
        self._append(ask.message)
        put = self.halves[-1]
        key = offset_message_id(NOWHERE, put.physical_offset)
        return PutResult(PutStatus.PUT_OK, queue_offset=put.queue_offset, message_ids=key)

    def _park(self, ask: Append) -> PutResult:
        self.parked |= {_name(ask.message)}
        return PutResult(PutStatus.PUT_OK)

    def _check_back(self, ask: CheckBack) -> None:
        self.asked |= {ask.half.queue_offset}

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
