"""Frames of clusters that are wrong: what is recorded of them is judged to be so."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Mapping

import pytest
from pyspark.sql import SparkSession
from script import GROUP, TOPIC, Cluster, Member

from mqaudit import audit
from mqrecord.journal import Journal
from mqspec.core.types import MessageQueue
from mqspec.wire.bodies import to_plain
from mqspec.wire.codes import RequestCode, ResponseCode


def sends(
    cluster: Cluster,
    number: int,
    first: int = 0,
    code: int = ResponseCode.SUCCESS,
    name: int = 0,
) -> None:
    """Sends of messages u0, u1, ... (from `name` on) to queue 0, at offsets from `first` on."""
    link = cluster.link()
    for n in range(name, name + number):
        fields = {"b": TOPIC, "e": 0, "i": f"UNIQ_KEY\x01u{n}\x02TAGS\x01a\x02"}
        opaque = cluster.ask(link, RequestCode.SEND_MESSAGE_V2, fields)
        place = {"queueId": 0, "queueOffset": first + n - name}
        cluster.answer(link, opaque, place, code=code)


def pulls(member: Member, offset: int, *found: int) -> None:
    """A pull of queue 0 that finds messages at some offsets, in this order."""
    where = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": 0}
    more = {"queueOffset": offset, "sysFlag": 2, "commitOffset": 0}
    opaque = member.ask(RequestCode.PULL_MESSAGE, where | more)
    member.gets(opaque, 0, dict.fromkeys(found, "a"))


def commits(member: Member, offset: int) -> None:
    """A commit that is answered."""
    where = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": 0, "commitOffset": offset}
    cluster = member.cluster
    cluster.answer(member.link, member.ask(RequestCode.UPDATE_CONSUMER_OFFSET, where))


def right(cluster: Cluster) -> Member:
    sends(cluster, 4)
    member = Member(cluster, "one")
    member.begins(0)
    pulls(member, 0, 0, 1, 2, 3)
    commits(member, 4)
    return member


def leaves_one_out(cluster: Cluster) -> None:
    sends(cluster, 4)
    member = Member(cluster, "one")
    member.begins(0)
    pulls(member, 0, 0, 1, 3)
    commits(member, 4)


def gives_them_in_another_order(cluster: Cluster) -> None:
    sends(cluster, 4)
    member = Member(cluster, "one")
    member.begins(0)
    pulls(member, 0, 1, 0, 2, 3)
    commits(member, 4)


def gives_two_messages_one_offset(cluster: Cluster) -> None:
    sends(cluster, 4)
    link = cluster.link()
    fields = {"b": TOPIC, "e": 0, "i": "UNIQ_KEY\x01another\x02"}
    opaque = cluster.ask(link, RequestCode.SEND_MESSAGE_V2, fields)
    cluster.answer(link, opaque, {"queueId": 0, "queueOffset": 2})


def gives_no_message_an_offset(cluster: Cluster) -> None:
    """Who reads from the beginning gets all that there is."""
    sends(cluster, 2)
    sends(cluster, 1, first=3, name=3)
    member = Member(cluster, "one")
    member.begins(0)
    pulls(member, 0, 0, 1, 3)
    commits(member, 4)


def delivers_what_is_not_sent_yet(cluster: Cluster) -> None:
    member = Member(cluster, "one")
    member.begins(0)
    pulls(member, 0, 0)
    sends(cluster, 1)


def delivers_what_it_refused(cluster: Cluster) -> None:
    sends(cluster, 1, code=ResponseCode.NO_PERMISSION)
    member = Member(cluster, "one")
    member.begins(0)
    pulls(member, 0, 0)
    commits(member, 1)


def locks_for_two(cluster: Cluster) -> None:
    for member in (Member(cluster, "one"), Member(cluster, "two")):
        queue = to_plain(MessageQueue(TOPIC, "broker-a", 0))
        wanted = {"consumerGroup": GROUP, "clientId": member.client_id, "mqSet": [queue]}
        opaque = member.ask(RequestCode.LOCK_BATCH_MQ, body=json.dumps(wanted).encode())
        got = json.dumps({"lockOKMQSet": [queue]}).encode()
        cluster.answer(member.link, opaque, body=got)
        member.begins(0)


def delivers_what_was_rolled_back(cluster: Cluster) -> None:
    link = cluster.link()
    half = {"b": TOPIC, "e": 0, "i": "UNIQ_KEY\x01u0\x02TRAN_MSG\x01true\x02TAGS\x01a\x02"}
    opaque = cluster.ask(link, RequestCode.SEND_MESSAGE_V2, half)
    cluster.answer(link, opaque, {"queueId": 0, "queueOffset": 7})
    end = {"commitOrRollback": 12, "msgId": "u0"}
    cluster.ask(link, RequestCode.END_TRANSACTION, end, one_way=True)
    member = Member(cluster, "one")
    member.begins(0)
    pulls(member, 0, 0)
    commits(member, 1)


def has_two_of_one_id(cluster: Cluster) -> None:
    """Both take the first queue: it is their user's fault, and no broken promise."""
    sends(cluster, 4)
    members = Member(cluster, "one"), Member(cluster, "one")
    for member in members:
        member.begins(0)
    for member in members:
        pulls(member, 0, 0, 1)


def commits_beyond(cluster: Cluster) -> None:
    sends(cluster, 4)
    member = Member(cluster, "one")
    member.begins(0)
    pulls(member, 0, 0, 1)
    commits(member, 4)


def commits_back(cluster: Cluster) -> None:
    right(cluster).commits(0, 1)


def begins_again_below(cluster: Cluster) -> None:
    """Progress was answered, and its broker begins below for the next owner."""
    right(cluster)
    member = Member(cluster, "two")
    member.begins(0, 2)
    pulls(member, 2, 1, 2, 3)


WRONG = [
    (leaves_one_out, "lost"),
    (gives_them_in_another_order, "out of order"),
    (gives_two_messages_one_offset, "one offset, two messages"),
    (gives_no_message_an_offset, "offsets left out"),
    (delivers_what_is_not_sent_yet, "received before it was sent"),
    (delivers_what_it_refused, "refused, and delivered"),
    (delivers_what_was_rolled_back, "rolled back, and delivered"),
    (locks_for_two, "locked twice"),
    (commits_beyond, "committed, never delivered"),
    (commits_back, "went back"),
    (begins_again_below, "repeated"),
]


SCENES = (right, has_two_of_one_id, *(scene for scene, _ in WRONG))


@pytest.fixture(scope="module")
def found(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Mapping[str, Mapping[str, set[str]]]:
    """The checks that say no, by judgement and scene: each scene is a run of its own."""
    directory = tmp_path_factory.mktemp("recorded")
    for scene in SCENES:
        cluster = Cluster()
        scene(cluster)
        journal = Journal(directory, scene.__name__, "recorder")
        journal.add(cluster.rows)
        journal.close()
    audited = audit(spark, [str(directory)], keep=True)
    assert audited.tables is not None
    found: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for row in audited.tables.findings.collect():
        found[row.judgement][row.run].add(row["check"])
    return found


@pytest.fixture(scope="module")
def violated(found: Mapping[str, Mapping[str, set[str]]]) -> Mapping[str, set[str]]:
    return found["violated"]


def test_what_is_right_is_not_judged_wrong(violated: Mapping[str, set[str]]) -> None:
    assert violated
    assert "right" not in violated


def test_two_of_one_id_are_told_as_that(found: Mapping[str, Mapping[str, set[str]]]) -> None:
    assert "has_two_of_one_id" not in found["violated"]
    assert "equal client ids" in found["permitted"]["has_two_of_one_id"]


@pytest.mark.parametrize(("scene", "check"), WRONG, ids=[scene.__name__ for scene, _ in WRONG])
def test_what_is_wrong_is_judged_so(
    violated: Mapping[str, set[str]], scene: Callable[[Cluster], object], check: str
) -> None:
    assert check in violated[scene.__name__]
