"""What is told of what went over links: a script of requests and answers, and its events."""

from __future__ import annotations

import pytest
from script import BROKER, GROUP, PLACE, QUEUES, REPLICA, TOPIC, Cluster, Member

from mqrecord.holds import LAST_MS, LEAVING_MS, SILENT_MS
from mqrecord.seen import BELIEVED_MS, TWO_LINKS_MS
from mqspec.wire.codes import RequestCode, ResponseCode


def test_a_member_joins_gets_finishes_and_commits() -> None:
    cluster = Cluster()
    member = Member(cluster, "one")
    assert cluster.told("kind", "group", "tag") == [("join", "G", None), ("subscribe", "G", "*")]
    member.begins(0, 7)
    member.pulls(0, 7, "a", "b", "c")
    assert cluster.told("kind", "queue_offset", "value", "message_key") == [
        ("query_offset", None, 7, None),
        ("assign", None, None, None),
        ("receive", 7, None, "u7"),
        ("receive", 8, None, "u8"),
        ("receive", 9, None, "u9"),
    ]
    member.commits(0, 9)
    assert cluster.told("kind", "outcome", "queue_offset", "value") == [
        ("ack", "ok", 7, None),
        ("ack", "ok", 8, None),
        ("commit", "unknown", None, 9),
    ]


def test_what_a_client_drops_by_its_tag_was_not_received() -> None:
    cluster = Cluster()
    member = Member(cluster, "one", "a || c")
    member.begins(0)
    member.pulls(0, 0, "a", "b", "c")
    received = [row for row in cluster.told("kind", "queue_offset") if row[0] == "receive"]
    assert received == [("receive", 0), ("receive", 2)]


def test_a_queue_is_left_with_the_commit_after_a_list_gives_it_to_another() -> None:
    cluster = Cluster()
    member = Member(cluster, "one")
    for queue_id in range(QUEUES):
        member.begins(queue_id)
    cluster.told()
    member.told_members("one", "two")  # averagely, the first two are its own
    assert cluster.told("kind") == [("view",)]
    for queue_id in range(QUEUES):
        member.commits(queue_id, 5)
    assert cluster.told("kind", "queue_id") == [
        ("commit", 0),
        ("commit", 1),
        ("commit", 2),
        ("commit", 3),
    ]
    member.pulls(3, 0, "a")  # asked before it was through
    assert cluster.told("kind") == []
    cluster.after(LAST_MS + 1)
    assert cluster.told("kind", "queue_id") == [("revoke", 2), ("revoke", 3)]


def test_who_may_go_by_an_older_route_keeps_what_that_gives_it() -> None:
    """Another client was told of fewer queues; this one is not yet, as far as one can see."""
    cluster = Cluster()
    member, other = Member(cluster, "one"), Member(cluster, "two")
    member.begins(1)
    other.told_route(queues=2)
    cluster.told()
    member.told_members("one", "two")
    member.commits(1, 5)
    cluster.after(LAST_MS + 1)
    member.commits(1, 6)
    assert cluster.told("kind") == [("view",), ("commit",), ("commit",)]

    for _ in range(2):  # by now it has been told: of two queues the first is its own
        cluster.after(BELIEVED_MS / 2)
        other.told_route(queues=2)
    cluster.told()
    member.told_members("one", "two")
    member.commits(1, 7)
    cluster.after(LAST_MS + 1)
    assert cluster.told("kind") == [("commit",), ("revoke",)]


def test_a_timer_may_commit_just_before_a_rebalance_does() -> None:
    cluster = Cluster()
    member = Member(cluster, "one")
    member.begins(3)
    member.told_members("one", "two")
    cluster.told()
    for wait_ms, said in ((0, "commit"), (LAST_MS - 1, "commit"), (2, "revoke"), (0, "commit")):
        cluster.after(wait_ms)
        if said == "commit":
            member.commits(3, 5)
        assert cluster.told("kind") == [(said,)]


def test_what_comes_behind_a_timers_commit_was_received_if_it_is_committed() -> None:
    """Its rebalance takes longer: it goes on, and what it then commits it has consumed."""
    cluster = Cluster()
    member = Member(cluster, "one")
    member.begins(3)
    member.pulls(3, 0, "a")
    member.told_members("one", "two")
    member.commits(3, 1)  # the timer's
    cluster.told()
    member.pulls(3, 1, "b", "c")
    assert cluster.told("kind") == []  # it would be dropped if the commit were the rebalance's
    member.pulls(3, 3, "d", commits=2)
    told = cluster.told("kind", "queue_offset", "value")
    assert told == [("receive", 1, None), ("ack", 1, None), ("commit", 3, 2)]
    member.commits(3, 3)
    told = cluster.told("kind", "queue_offset", "value")
    assert told == [("receive", 2, None), ("ack", 2, None), ("commit", None, 3)]
    cluster.after(LAST_MS + 1)
    assert cluster.told("kind") == [("revoke",)]  # what came last is dropped


def test_who_keeps_a_queue_after_all_has_not_gone_elsewhere() -> None:
    cluster = Cluster()
    member = Member(cluster, "one")
    member.begins(3)
    member.told_members("one", "two")
    member.commits(3, 0)
    member.pulls(3, 0, "a", "b")
    member.told_members("one")
    cluster.told()
    member.pulls(3, 2, "c", commits=2)
    assert cluster.told("kind", "queue_offset") == [
        *(("receive", 0), ("receive", 1), ("ack", 0), ("ack", 1), ("commit", 2), ("receive", 2)),
    ]


def test_who_is_given_a_queue_again_may_leave_it_once_more() -> None:
    cluster = Cluster()
    member = Member(cluster, "one")
    member.begins(3)
    member.told_members("one", "two")
    member.commits(3, 5)
    member.told_members("one")
    cluster.after(LAST_MS + 1)
    member.pulls(3, 5, "a")
    assert ("revoke",) not in cluster.told("kind")
    member.told_members("one", "two")
    member.commits(3, 6)
    cluster.told()
    cluster.after(LAST_MS + 1)
    assert cluster.told("kind") == [("revoke",)]


def test_who_goes_on_pulling_what_is_not_its_share_owns_it() -> None:
    cluster = Cluster()
    member = Member(cluster, "one")
    member.begins(3)
    member.told_members("one", "two")
    cluster.after(LEAVING_MS + 1)
    assert cluster.told("kind", "queue_id")[-1] == ("revoke", 3)
    cluster.after(LEAVING_MS)
    member.pulls(3, 0, "a")
    assert ("assign", 3) in cluster.told("kind", "queue_id")
    member.told_members("one", "two")  # by now it is known not to share averagely
    cluster.after(LEAVING_MS + 1)
    assert cluster.told("kind") == []


def test_a_silent_owner_has_left_its_queue() -> None:
    cluster = Cluster()
    member = Member(cluster, "one")
    member.begins(0)
    cluster.after(SILENT_MS - 1)
    member.commits(0, 0)
    cluster.told()
    cluster.after(SILENT_MS - 1)
    assert cluster.told("kind") == []
    cluster.after(2)
    assert cluster.told("kind", "queue_id") == [("revoke", 0)]


def test_who_was_silent_and_works_on_had_kept_its_queue() -> None:
    """It goes on from where it was, and what it had received is finished by what it commits."""
    cluster = Cluster()
    member = Member(cluster, "one")
    member.begins(0)
    member.pulls(0, 0, "a", "b")
    cluster.after(SILENT_MS + 1)
    other = Member(cluster, "two")
    other.begins(0)
    cluster.told()
    member.commits(0, 1)
    assert cluster.told("kind", "client_id", "queue_offset", "value") == [
        ("assign", "one", None, None),
        ("query_offset", "one", None, 2),
        ("ack", "one", 0, None),
        ("commit", "one", None, 1),
    ]
    member.pulls(0, 2, "a")
    assert cluster.told("kind") == [("receive",)]


def test_who_was_silent_and_asks_where_to_begin_has_begun_anew() -> None:
    cluster = Cluster()
    member = Member(cluster, "one")
    member.begins(0)
    member.pulls(0, 0, "a")
    cluster.after(SILENT_MS + 1)
    cluster.told()
    member.begins(0, 5)
    member.commits(0, 5)
    assert cluster.told("kind", "peer") == [
        ("query_offset", None),
        ("assign", None),
        ("commit", None),
    ]


@pytest.mark.parametrize("first", ["heartbeat", "commit"])
def test_a_member_that_its_broker_cut_off_is_back_when_it_works_again(first: str) -> None:
    cluster = Cluster()
    member = Member(cluster, "one")
    member.begins(0)
    cluster.told()
    cluster.after(2 * SILENT_MS)
    member.is_ended()
    assert cluster.told("kind", "client_id") == [("revoke", "one"), ("crash", "one")]

    member.link = cluster.link()
    if first == "heartbeat":
        member.ask(RequestCode.HEART_BEAT, body=member.beat)
        assert cluster.told("kind", "client_id") == [("join", "one")]
    member.commits(0, 0)
    back = ["assign", "query_offset", "commit"]
    assert [kind for (kind,) in cluster.told("kind")] == ["join"] * (first == "commit") + back
    member.ends()
    assert cluster.told("kind", "client_id") == [("crash", "one")]


def test_who_ends_what_its_broker_has_ended_is_told_to_have_crashed_once() -> None:
    cluster = Cluster()
    member = Member(cluster, "one")
    cluster.told()
    cluster.after(2 * SILENT_MS)
    member.is_ended()
    member.link = cluster.link()
    member.ends()
    assert cluster.told("kind") == [("crash",)]


def test_a_broker_that_ends_a_connection_cuts_nobody_off_who_spoke_just_before() -> None:
    cluster = Cluster()
    member = Member(cluster, "one")
    member.begins(0)
    cluster.after(SILENT_MS)
    cluster.told()
    member.commits(0, 0)
    member.is_ended()
    assert cluster.told("kind") == [("commit",)]


def test_a_list_that_takes_a_queue_from_a_silent_member_is_kept_to_when_it_is_back() -> None:
    cluster = Cluster()
    member = Member(cluster, "one")
    member.begins(3)
    cluster.after(SILENT_MS + 1)
    member.told_members("one", "two")
    cluster.told()
    member.commits(3, 5)
    assert cluster.told("kind") == [("assign",), ("query_offset",), ("commit",)]
    cluster.after(LAST_MS + 1)
    assert cluster.told("kind", "queue_id") == [("revoke", 3)]


def test_a_commit_that_a_pull_carries_says_from_where_that_reads() -> None:
    cluster = Cluster()
    member = Member(cluster, "one")
    member.begins(0)
    member.pulls(0, 0, "a", "b")
    cluster.told()
    member.pulls(0, 2, commits=1)
    member.commits(0, 2)
    assert cluster.told("kind", "queue_offset", "value") == [
        ("ack", 0, None),
        ("commit", 2, 1),
        ("ack", 1, None),
        ("commit", None, 2),
    ]


def test_last_commits_may_come_behind_a_goodbye() -> None:
    cluster = Cluster()
    member = Member(cluster, "one")
    for queue_id in (0, 1, 2):
        member.begins(queue_id)
    cluster.told()
    member.leaves()
    member.commits(0, 3)
    other = Member(cluster, "two")
    cluster.told()
    other.begins(1)
    assert cluster.told("kind", "client_id", "queue_id") == [
        ("query_offset", "two", 1),
        ("revoke", "one", 1),
        ("assign", "two", 1),
    ]
    member.ends()
    assert cluster.told("kind", "client_id", "queue_id") == [
        ("revoke", "one", 0),
        ("revoke", "one", 2),
        ("leave", "one", None),
    ]


def test_who_ends_without_a_goodbye_crashed_but_not_where_its_broker_did() -> None:
    cluster = Cluster()
    dead, cut = Member(cluster, "dead"), Member(cluster, "cut")
    cluster.told()
    dead.ends()
    assert cluster.told("kind", "client_id", "group") == [("crash", "dead", GROUP)]
    cut.ends(by_client=False)
    cluster.rows += cluster.observer.broker_lost(BROKER)
    cluster.rows += cluster.observer.broker_lost(BROKER)
    assert cluster.told("kind", "client_id", "peer") == [("crash", None, "broker-a")]
    cluster.link()
    assert cluster.told("kind", "peer") == [("restart", "broker-a")]


@pytest.mark.parametrize("says", ["one", "another"])
def test_a_member_works_again_before_it_says_who_it_is(says: str) -> None:
    """Its broker started again; it owned the queue, and has no other connection to the broker."""
    cluster = Cluster()
    member = Member(cluster, "one")
    member.begins(0)
    cluster.rows += cluster.observer.unlinked(member.link, by_client=False, now_ms=0)
    link = cluster.link()
    queue = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": 0, "commitOffset": 3}
    cluster.told()
    cluster.ask(link, RequestCode.UPDATE_CONSUMER_OFFSET, queue, one_way=True)
    assert cluster.told("kind", "client_id", "value") == [("commit", "one", 3)]

    cluster.ask(
        link, RequestCode.HEART_BEAT, body=member.beat.replace(b'"one"', f'"{says}"'.encode())
    )
    assert (("join", "another") in cluster.told("kind", "client_id")) == (says == "another")
    cluster.ask(link, RequestCode.UPDATE_CONSUMER_OFFSET, queue, one_way=True)
    assert cluster.told("kind", "client_id", "value") == [("commit", says, 3)]


def test_who_works_at_a_queue_of_a_member_that_is_there_is_another() -> None:
    cluster = Cluster()
    Member(cluster, "one").begins(0)
    link = cluster.link()
    queue = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": 0, "commitOffset": 3}
    cluster.told()
    cluster.ask(link, RequestCode.UPDATE_CONSUMER_OFFSET, queue, one_way=True)
    ((kind, who),) = cluster.told("kind", "client_id")
    assert (kind, who.partition(":")[0]) == ("commit", "10.0.0.1")


def test_two_clients_of_one_id_are_told_apart() -> None:
    cluster = Cluster()
    Member(cluster, "same")
    Member(cluster, "same")
    assert {who for (who,) in cluster.told("client_id")} == {"same", "same #2"}


def started_again(*members: Member) -> None:
    """The broker of all members."""
    (cluster,) = {member.cluster for member in members}
    for member in members:
        member.ends(by_client=False)
    cluster.rows += cluster.observer.broker_lost(BROKER)


def test_who_connects_twice_as_its_broker_starts_again_is_one() -> None:
    cluster = Cluster()
    member = Member(cluster, "one")
    started_again(member)
    cluster.told()
    for _ in range(2):
        cluster.ask(cluster.link(), RequestCode.HEART_BEAT, body=member.beat)
        cluster.now_ms += TWO_LINKS_MS / 2
    assert cluster.told("kind", "client_id") == [("restart", None)]
    cluster.ask(cluster.link(), RequestCode.HEART_BEAT, body=member.beat)
    assert {who for (who,) in cluster.told("client_id")} == {"one #2"}


def test_two_of_one_id_stay_two_when_their_broker_starts_again() -> None:
    cluster = Cluster()
    first, second = Member(cluster, "same"), Member(cluster, "same")
    first.begins(0)
    second.begins(1)
    started_again(first, second)
    links = cluster.link(), cluster.link()
    for link in links:
        cluster.ask(link, RequestCode.HEART_BEAT, body=first.beat)
    cluster.told()
    for queue_id, link in enumerate(links):
        at = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": queue_id, "commitOffset": 3}
        cluster.ask(link, RequestCode.UPDATE_CONSUMER_OFFSET, at, one_way=True)
    assert cluster.told("kind", "client_id", "queue_id") == [
        ("commit", "same", 0),
        ("commit", "same #2", 1),
    ]


def test_a_replica_is_no_other_broker_and_no_other_client() -> None:
    cluster = Cluster()
    member = Member(cluster, "one")
    link = cluster.link(REPLICA)
    cluster.ask(link, RequestCode.HEART_BEAT, body=member.beat)
    assert {who for (who,) in cluster.told("client_id")} == {"one"}
    cluster.rows += cluster.observer.broker_lost(REPLICA)
    assert cluster.told("kind") == []


def test_a_client_that_filters_by_properties_drops_nothing_itself() -> None:
    cluster = Cluster()
    member = Member(cluster, "one", "a > 5", is_sql=True)
    member.begins(0)
    member.pulls(0, 0, "a", "b")
    assert [kind for (kind,) in cluster.told("kind")].count("receive") == 2


def test_what_came_before_a_seek_is_not_in_the_way_of_what_comes_after() -> None:
    cluster = Cluster()
    member = Member(cluster, "one")
    member.begins(0, 7)
    member.pulls(0, 7, "a", "b")
    member.pulls(0, 0, "a")
    cluster.told()
    member.commits(0, 1)
    assert cluster.told("kind", "queue_offset") == [("ack", 0), ("commit", None)]


@pytest.mark.parametrize("how", ["told", "by itself"])
def test_who_goes_on_elsewhere_is_told_so(how: str) -> None:
    cluster = Cluster()
    member = Member(cluster, "one")
    member.begins(0, 7)
    member.pulls(0, 7, "a")
    cluster.told()
    if how == "told":
        member.pulls(0, 8, moved=2)
    member.pulls(0, 2, "a")
    assert cluster.told("kind", "peer", "value", "queue_offset") == [
        ("query_offset", "one", 2, None),
        ("receive", None, None, 2),
    ]


def test_a_message_that_is_given_back_is_not_finished_by_a_commit() -> None:
    cluster = Cluster()
    member = Member(cluster, "one")
    member.begins(0)
    member.pulls(0, 0, "a", "b")
    cluster.told()
    fields = {"group": GROUP, "originMsgId": "any", "offset": PLACE, "delayLevel": 0}
    cluster.answer(member.link, member.ask(RequestCode.CONSUMER_SEND_MSG_BACK, fields))
    member.commits(0, 2)
    assert cluster.told("kind", "outcome", "queue_offset") == [
        ("ack", "failed", 0),
        ("ack", "ok", 1),
        ("commit", "unknown", None),
    ]


def test_a_message_in_doubt_that_is_given_back_was_received() -> None:
    cluster = Cluster()
    member = Member(cluster, "one")
    member.begins(3)
    member.told_members("one", "two")
    member.commits(3, 0)
    member.pulls(3, 0, "a", "b")
    cluster.told()
    fields = {"group": GROUP, "originMsgId": "any", "offset": PLACE, "delayLevel": 0}
    cluster.answer(member.link, member.ask(RequestCode.CONSUMER_SEND_MSG_BACK, fields))
    assert cluster.told("kind", "outcome", "queue_offset") == [
        ("receive", "ok", 0),
        ("ack", "failed", 0),
    ]
    member.commits(3, 1)
    assert cluster.told("kind") == [("commit",)]


SENDS = [
    ("TAGS\x01a\x02UNIQ_KEY\x01u\x02KEYS\x01k\x02", 0, [("ok", "u", 5)]),
    ("KEYS\x01k\x02", 0, [("ok", "k", 5)]),
    ("UNIQ_KEY\x01u\x02", ResponseCode.FLUSH_DISK_TIMEOUT, [("ok", "u", 5)]),
    ("UNIQ_KEY\x01u\x02", ResponseCode.SYSTEM_BUSY, [("failed", "u", None)]),
    ("UNIQ_KEY\x01u\x02DELAY\x013\x02", 0, [("ok", "u", None)]),
    ("UNIQ_KEY\x01u\x02TRAN_MSG\x01true\x02", 0, [("unknown", "u", None)]),
]


@pytest.mark.parametrize(("properties", "code", "said"), SENDS)
def test_a_send_is_invoked_and_then_what_came_of_it(
    properties: str, code: int, said: list[tuple[str, str, int | None]]
) -> None:
    cluster = Cluster()
    link = cluster.link()
    opaque = cluster.ask(link, RequestCode.SEND_MESSAGE_V2, {"b": TOPIC, "e": 1, "i": properties})
    assert cluster.told("kind", "outcome") == [("send", "invoked")]
    cluster.answer(link, opaque, {"queueId": 1, "queueOffset": 5}, code=code)
    assert cluster.told("outcome", "message_key", "queue_offset") == said


def test_of_a_send_without_an_answer_nothing_is_known() -> None:
    cluster = Cluster()
    link = cluster.link()
    fields = {"b": TOPIC, "e": 1, "i": "UNIQ_KEY\x01u\x02"}
    cluster.ask(link, RequestCode.SEND_MESSAGE_V2, fields, one_way=True)
    cluster.ask(link, RequestCode.SEND_MESSAGE_V2, fields)
    cluster.rows += cluster.observer.unlinked(link, True, 0)
    assert [went for (went,) in cluster.told("outcome")] == [
        "invoked",
        "unknown",
        "invoked",
        "unknown",
    ]


def test_what_cannot_be_read_is_counted() -> None:
    cluster = Cluster()
    link = cluster.link()
    cluster.ask(link, RequestCode.HEART_BEAT, body=b"{")
    cluster.ask(link, RequestCode.PULL_MESSAGE, {"consumerGroup": GROUP})
    assert cluster.observer.unread == 2
    assert cluster.rows == []


@pytest.mark.parametrize(
    ("value", "kind"), [(8, "publish"), (12, "rollback"), (0, None), ("x", None), (None, None)]
)
def test_ends_of_transactions(value: object, kind: str | None) -> None:
    cluster = Cluster()
    link = cluster.link()
    end = {"topic": TOPIC, "msgId": "u0"} | ({} if value is None else {"commitOrRollback": value})
    cluster.ask(link, RequestCode.END_TRANSACTION, end, one_way=True)
    told = [(kind, "unknown", "u0", "broker-a", TOPIC)] if kind else []
    assert cluster.told("kind", "outcome", "message_key", "broker", "topic") == told
    opaque = cluster.ask(link, RequestCode.END_TRANSACTION, end)
    assert cluster.told("kind") == []
    cluster.answer(link, opaque, code=ResponseCode.SYSTEM_ERROR)
    assert cluster.told("kind", "outcome") == ([(kind, "failed")] if kind else [])
    opaque = cluster.ask(link, RequestCode.END_TRANSACTION, end)
    cluster.answer(link, opaque)
    assert cluster.told("kind", "outcome") == ([(kind, "ok")] if kind else [])


def test_delays_are_told_of_sends_and_of_what_came() -> None:
    cluster = Cluster()
    link = cluster.link()
    for level in ("3", "99", "0", "-1", "x"):
        fields = {"b": TOPIC, "e": 0, "i": f"UNIQ_KEY\x01u{level}\x02DELAY\x01{level}\x02"}
        cluster.ask(link, RequestCode.SEND_MESSAGE_V2, fields, one_way=True)
    hours_ms = 3_600_000
    told = [(10_000,), (2 * hours_ms,), (None,), (None,), (None,)]
    assert cluster.told("value") == [one for one in told for _ in ("invoked", "unknown")]
    assert cluster.observer.unread == 0
    member = Member(cluster, "one")
    member.begins(0)
    where = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": 0, "queueOffset": 0, "sysFlag": 2}
    for times in (0, 1):  # what is tried again was delayed by its broker
        opaque = member.ask(RequestCode.PULL_MESSAGE, where | {"commitOffset": 0})
        member.gets(opaque, 0, {0: "a"}, times, DELAY="3")
    received = [value for kind, value in cluster.told("kind", "value") if kind == "receive"]
    assert received == [10_000, None]


def test_a_list_of_members_is_told_when_it_is_another_one() -> None:
    cluster = Cluster()
    one, two = Member(cluster, "one"), Member(cluster, "two")
    cluster.told()
    for member, ids in ((one, "ab"), (one, "ba"), (two, "ab"), (one, "abc"), (one, "ab")):
        member.told_members(*ids)
    told = cluster.told("kind", "client_id", "broker", "value", "tag")
    tags = [tag for *_, tag in told]
    assert [row[:4] for row in told] == [
        ("view", "one", "broker-a", 2),
        ("view", "two", "broker-a", 2),
        ("view", "one", "broker-a", 3),
        ("view", "one", "broker-a", 2),
    ]
    assert tags[0] == tags[1] == tags[3] != tags[2]
