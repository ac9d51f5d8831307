"""The message trace of a real cluster: read, joined with its store, judged as far as it tells."""

from __future__ import annotations

import zlib
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from recorded_cluster import (
    CONTEXT_ENDS,
    FIELD_ENDS,
    of_one_transaction,
    rewrite_traces,
    said,
    unpacked,
)

from mqaudit import CheckReport, Judgement
from mqaudit.kept import events, judging
from mqaudit.kept.trace import COLUMNS, Bodies, contexts, plain, sender
from mqaudit.store import register

KEY = "FD0000000000000000000000000000026CAB6659C6568B20E41B0000"
MEMBERS = ("first", "second", "third")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpacked(tmp_path_factory.mktemp("recorded"))


@pytest.fixture(scope="module")
def clean(spark: SparkSession, recorded: Path) -> judging.Kept:
    return joined(spark, recorded / "store")


@pytest.fixture(scope="module")
def judged_clean(clean: judging.Kept) -> dict[str, CheckReport]:
    return by_name(clean)


def joined(spark: SparkSession, store: Path) -> judging.Kept:
    register(spark)
    found = judging.kept(spark, [str(store)])
    assert found is not None
    return found


def by_name(kept: judging.Kept) -> dict[str, CheckReport]:
    _, reports = judging.reports(kept, examples=0)
    return {report.name: report for report in reports}


def rows(*bodies: bytes | None, key: str | None = KEY) -> list[dict[str, object]]:
    """What the bodies of some records hold, without what is nothing."""
    at = pa.array(range(len(bodies)), pa.int64()).to_numpy()
    batch = contexts(Bodies("store", at, [key] * len(bodies), bodies))
    assert batch.schema == pa.schema(list(COLUMNS.items()))
    return [{k: v for k, v in row.items() if v is not None} for row in batch.to_pylist()]


def body(*contexts: str) -> bytes:
    return "".join(c.replace("|", FIELD_ENDS) + CONTEXT_ENDS for c in contexts).encode()


def test_what_clients_say_they_sent_and_got_is_what_their_traces_say(
    spark: SparkSession, recorded: Path
) -> None:
    register(spark)
    events.register(spark)
    traces = events.traces(spark, [str(recorded / "store")]).collect()
    assert {row.kind for row in traces} == {"Pub", "SubBefore", "SubAfter", "EndTransaction"}

    sent = Counter(row["keys"] for row in traces if row.kind == "Pub")
    assert sent == Counter(
        [key for key, *_ in said(recorded, "producer", "sent")] + [f"X{i}" for i in range(4)]
    )
    states = Counter(row.transaction_state for row in traces if row.kind == "EndTransaction")
    assert states == {"COMMIT_MESSAGE": 2, "ROLLBACK_MESSAGE": 2}

    # Who was killed had got messages that it never told of; all others told all of it.
    got = {member: Counter(key for (key,) in said(recorded, member, "got")) for member in MEMBERS}
    pids = {member: said(recorded, member, "started")[0][0] for member in MEMBERS}
    for member in MEMBERS:
        pid = pids[member].split("@")[1].split("#")[0]
        told = Counter(
            row["keys"] for row in traces
            if row.kind == "SubBefore" and row.sender.split("@")[1].startswith(f"{pid}#")
        )  # fmt: skip
        assert told == got[member] or (member == "second" and told < got[member])


def test_what_a_real_cluster_traced_is_clean(judged_clean: dict[str, CheckReport]) -> None:
    """A message came again as its first receiver was killed: who owned its queue nobody tells."""
    assert not any(r.count(Judgement.VIOLATED, Judgement.PERMITTED) for r in judged_clean.values())
    lost, repeated = judged_clean["lost"], judged_clean["repeated"]
    assert (lost.examined, lost.held) == (242, 242)
    assert lost.sources == ("store", "message trace")
    assert repeated.examined - repeated.held == repeated.count(Judgement.UNDECIDABLE) == 1
    assert dict(repeated.verdicts())["OFFSET-004"] == "refuted"


def test_what_nobody_tells_is_undecided_and_says_who_would(
    judged_clean: dict[str, CheckReport],
) -> None:
    owners = judged_clean["two owners"]
    assert owners.held == 0
    assert owners.sources == ()
    (found,) = owners.findings
    assert found.judgement is Judgement.UNDECIDABLE
    assert found.why == "no source here tells who owned which queue (a client log would)"
    assert found.count == owners.examined > 0
    assert {verdict.value for _, verdict in owners.verdicts()} == {"undecidable"}


def test_a_clean_run_leaves_nothing_out(clean: judging.Kept) -> None:
    assert clean.unread == ()


def test_planted_anomalies_are_found_and_nothing_else(
    spark: SparkSession, tmp_path: Path, judged_clean: dict[str, CheckReport]
) -> None:
    """One message lost, one given twice, one body cut in its last context."""
    store = unpacked(tmp_path) / "store"
    planted: dict[str, str] = {}

    def plant(bodies: list[str]) -> list[str]:
        befores = [c for b in bodies for c in b.split(CONTEXT_ENDS) if c.startswith("SubBefore")]
        fields = [c.split(FIELD_ENDS) for c in befores]
        times = Counter(f[5] for f in fields)
        once = [f for f in fields if times[f[5]] == 1]
        lost, twice = once[20], once[60]
        planted.update(lost=lost[5], twice=twice[5])
        bodies = [
            "".join(
                c + CONTEXT_ENDS
                for c in b.split(CONTEXT_ENDS)[:-1]
                if not c.startswith("Sub") or f"\1{lost[5]}\1" not in c
            )
            for b in bodies
        ]
        again = [*twice]
        again[1], again[4] = str(int(twice[1]) + 5), twice[4][:-4] + "FFFF"
        after = ["SubAfter", again[4], twice[5], "1", "true", twice[7], "0", again[1], twice[3]]
        at = next(i for i, b in enumerate(bodies) if f"\1{twice[4]}\1" in b)
        bodies[at] += FIELD_ENDS.join(again) + CONTEXT_ENDS + FIELD_ENDS.join(after) + CONTEXT_ENDS
        cut = next(i for i, b in enumerate(bodies) if b.startswith("Pub"))
        bodies[cut] = bodies[cut][:-20]
        return bodies

    rewrite_traces(store, plant)
    kept = joined(spark, store)
    judged = by_name(kept)

    (lost,) = judged["lost"].findings
    assert lost.count == 1
    assert lost.first["message"] == planted["lost"]
    assert lost.judgement is Judgement.UNDECIDABLE
    assert lost.why.startswith("committed past, and never handled; no source here tells all")
    (torn,) = kept.unread
    assert (torn.count, torn.source) == (1, "message trace")
    assert str(torn.first["damage"]).startswith("Pub\x01")

    again = {str(f.first["message"]): f.count for f in judged["repeated"].findings}
    assert again.pop(planted["twice"]) == 1
    before = {str(f.first["message"]): f.count for f in judged_clean["repeated"].findings}
    assert again == before
    for name in judged.keys() - {"lost", "repeated"}:
        assert judged[name].examined - judged_clean[name].examined <= 1, name
        assert [f.why for f in judged[name].findings] == [
            f.why for f in judged_clean[name].findings
        ], name


def _without_ends(body: str) -> str:
    contexts = [c for c in body.split(CONTEXT_ENDS)[:-1] if not c.startswith("EndTransaction")]
    return "".join(context + CONTEXT_ENDS for context in contexts)


@pytest.mark.parametrize(
    ("is_one_half", "why"),
    [
        (True, "stored twice, as its transaction was committed twice"),
        (False, "stored twice, as its producer tried again"),
    ],
)
@pytest.mark.parametrize("is_traced", [True, False])
def test_a_store_tells_a_transaction_that_was_committed_twice(
    spark: SparkSession, tmp_path: Path, is_one_half: bool, is_traced: bool, why: str
) -> None:
    """From a half message that was sent again; whether or not traces tell how both ended."""
    store = unpacked(tmp_path) / "store"
    message = of_one_transaction(store, is_one_half)
    if not is_traced:
        rewrite_traces(store, lambda bodies: [*map(_without_ends, bodies)])
    judged = by_name(joined(spark, store))
    (found,) = (f for f in judged["repeated"].findings if f.first["message"] == message)
    assert (found.why, found.count, found.judgement) == (why, 1, Judgement.PERMITTED)


def test_each_form_of_a_context() -> None:
    pub = "Pub|1700000000000|Region|P|T|ID|Tag|null|127.0.0.1:10911|5|3|0"
    told = rows(
        body(f"{pub}|true", f"{pub}|OFFSET|false", f"{pub}|OFFSET|true|10.0.0.1"),
        body("SubBefore|1700000000001|Region|G|R|ID|2|k1 k2"),
        body("SubAfter|R|ID|7|true|k", "SubAfter|R|ID|7|false|k|3", "SubAfter|R|ID|7|true|k|0|"),
        body("SubAfter|R|ID|7|true|k|0|1700000000002|G"),
        body("EndTransaction|1|Region|P|T|ID|Tag|k|h:1|2|TX|COMMIT_MESSAGE|false"),
        body("Recall|1|Region|P|T|ID|true"),
    )
    assert [row["kind"] for row in told] == [
        "Pub", "Pub", "Pub", "SubBefore", "SubAfter", "SubAfter", "SubAfter", "SubAfter",
        "EndTransaction", "Recall",
    ]  # fmt: skip
    assert told[1] == {
        "kind": "Pub", "store": "store", "physical_offset": 0, "nth": 1,
        "sender": "fd00::2@27819#6659C656", "time_ms": 1_700_000_000_000, "region": "Region",
        "client_group": "P", "topic": "T", "message_id": "ID", "tags": "Tag",
        "store_host": "127.0.0.1:10911", "body_bytes": 5, "cost_ms": 3, "message_type": 0,
        "offset_message_id": "OFFSET", "success": False,
    }  # fmt: skip
    assert told[2]["client_host"] == "10.0.0.1"
    assert (told[3]["attempt"], told[3]["keys"]) == (2, "k1 k2")
    assert (told[5]["success"], told[5]["context_code"]) == (False, 3)
    assert (told[7]["time_ms"], told[7]["client_group"]) == (1_700_000_000_002, "G")
    assert told[8]["transaction_state"] == "COMMIT_MESSAGE"


@pytest.mark.parametrize(
    "piece",
    [
        b"SubBefore\x011\x01R\x01G\x01Q\x01ID\x010\x01k",  # its end is missing
        body("SubBefore|1|R|G|Q|ID|0"),  # a field is
        body("SubBefore|soon|R|G|Q|ID|0|k"),  # no number
        body("SubAfter|R|ID|7|maybe|k"),  # no truth value
        body("SubBefore|1|R|G|Q|ID|99999999999999999999|k"),  # beyond any number
        body("Sideways|1|2|3"),
        b"\xff\xfe\x02",
        None,  # a body that its CRC does not hold
    ],
)
def test_what_is_no_context_is_a_row_of_damage_and_the_rest_is_read(piece: bytes | None) -> None:
    whole = body("SubBefore|1|R|G|Q|ID|0|k")
    told = rows(whole, piece, whole)
    assert [row["kind"] for row in told] == ["SubBefore", "damage", "SubBefore"]
    assert told[1]["physical_offset"] == 1
    assert told[1].keys() == {"kind", "store", "physical_offset", "nth", "sender", "damage"}


def test_an_empty_body_is_no_row() -> None:
    assert rows(b"") == []
    assert rows() == []


@pytest.mark.parametrize(
    ("key", "who"),
    [
        ("7F0000016CAB6659C6568B20E41B0000", "127.0.0.1@27819#6659C656"),
        (KEY, "fd00::2@27819#6659C656"),
        ("7F0000016CAB6659C6568B20E41B000", None),
        ("7F00000100000001" + "6CAB6659C6568B20E41B0000", None),  # an address of 8 bytes
        ("a-key-of-another-client", None),
        (None, None),
    ],
)
def test_a_unique_key_tells_its_process(key: str | None, who: str | None) -> None:
    assert sender(key) == who


def test_compressed_bodies_are_plain_again() -> None:
    text = b"Pub" * 100
    assert plain(text, 0) == text
    assert plain(zlib.compress(text), 1) == plain(zlib.compress(text), 1 | 3 << 8) == text
    for codec, flag in (("lz4", 1), ("zstd", 2)):
        sink = pa.BufferOutputStream()
        with pa.CompressedOutputStream(sink, codec) as stream:
            stream.write(text)
        assert plain(sink.getvalue().to_pybytes(), 1 | flag << 8) == text
        with pytest.raises(ValueError):  # noqa: PT011  (the codec's own words)
            plain(b"no such thing", 1 | flag << 8)
    with pytest.raises(ValueError, match="header"):
        plain(b"no such thing", 1)
