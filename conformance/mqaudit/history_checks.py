"""The checks of a history, a table: what is looked for, under which rule, and what it means."""

from __future__ import annotations

from typing import Final

from mqaudit.check import Check, Outcome
from mqaudit.history import GROUP_QUEUE, MEMBER_QUEUE, of, same
from mqaudit.report import Judgement

HELD, PERMITTED, VIOLATED, UNDECIDABLE, OPEN = Judgement

# How long after its last change a group may take to settle: a member that dies in silence is
# dropped by its broker within 120 s and a scan of 10 s, and missed by the others' next
# rebalance, every 20 s (ClientHousekeepingService.java, RebalanceService.java, 5.3.3).
SETTLED_NS: Final = 150 * 10**9

# The columns that name a place, in the order of first and last.
_HOLD: Final = (
    "run", "process", "seq", "consumer_group", "topic", "broker", "queue_id",
)  # fmt: skip
_COMMIT: Final = (*_HOLD, "client_id", "value")
_MESSAGE: Final = (*_HOLD, "queue_offset", "client_id", "message")

# Whether an expression `e` of a subscription has the tag of a message `s`; one without a tag is
# had by '*' alone.
_WANTS: Final = (
    "e -> e = '*' OR coalesce("
    "array_contains(transform(split(e, '[|][|]'), tag -> trim(tag)), s.tag), false)"
)

LOST: Final = Check(
    name="lost",
    about="messages that the group committed past and never handled",
    promise="OFFSET-001",
    places=(*_HOLD, "queue_offset", "message"),
    # `handled`: acknowledged where the group's members record that, else received; `given_back`:
    # that alone; `unsaid`: received by a member that records no such thing; `elsewhere`: by a
    # client that owns nothing. `reach`: how far the group's progress is known to have come;
    # `reach_maybe`: may have. `begun`: whether it is known where the first to own the queue began,
    # of each recorder, and `since` when it owned it. `passed`: how far one came that owned
    # nothing, as a tool that resets a group, or an owner that went on elsewhere.
    # `lives`: of those that were given one offset, which of its broker's lives each was seen in.
    query=f"""
        WITH member AS (
            SELECT run, consumer_group, process, client_id, bool_or(kind = 'ack') AS acks
            FROM {{tenured}} GROUP BY run, consumer_group, process, client_id),
        handled AS (
            SELECT run, consumer_group, message,
                bool_or(NOT acks) AS unsaid,
                bool_or(acks AND kind = 'ack' AND outcome = 'failed') AS given_back,
                bool_or(acks IS NULL) AS elsewhere,
                bool_or(acks AND kind = 'ack' AND outcome != 'failed')
                    OR bool_or(NOT acks) AND NOT bool_or(bool_or(acks)) OVER (
                        PARTITION BY run, consumer_group) AS handled
            FROM {{event}} LEFT JOIN member USING (run, consumer_group, process, client_id)
            WHERE kind IN ('receive', 'ack') AND consumer_group IS NOT NULL
            GROUP BY run, consumer_group, message),
        progress AS (
            SELECT run, consumer_group, topic, broker, queue_id,
                max(value) FILTER (WHERE outcome = 'ok' AND kind != 'receive' AND NOT seek)
                    AS reach,
                max(value) FILTER (WHERE kind = 'commit') AS reach_maybe,
                min(value) FILTER (WHERE kind = 'query_offset' AND NOT seek) AS start,
                min(queue_offset) FILTER (WHERE kind = 'receive') AS first_received
            FROM {{tenured}}
            GROUP BY run, consumer_group, topic, broker, queue_id),
        beginning AS (
            SELECT {GROUP_QUEUE}, bool_and(first_start IS NOT NULL) AS begun,
                map_from_entries(collect_list(struct(process, since))) AS since
            FROM (
                SELECT {GROUP_QUEUE}, process, min_by(start, since) AS first_start,
                    min(since) AS since
                FROM (
                    SELECT {GROUP_QUEUE}, process, min(seq) AS since,
                        min_by(value, seq) FILTER (WHERE kind = 'query_offset' AND NOT seek)
                            AS start
                    FROM {{tenured}} GROUP BY {MEMBER_QUEUE}, tenure)
                GROUP BY {GROUP_QUEUE}, process)
            GROUP BY {GROUP_QUEUE}),
        past AS (
            SELECT run, consumer_group, topic, broker, queue_id, max(value) AS passed
            FROM (
                SELECT {MEMBER_QUEUE}, value
                FROM {{event}} LEFT ANTI JOIN (SELECT DISTINCT {MEMBER_QUEUE} FROM {{tenured}})
                USING ({MEMBER_QUEUE})
                WHERE kind = 'commit'
                UNION ALL
                SELECT {MEMBER_QUEUE}, value FROM {{tenured}} WHERE seek)
            GROUP BY run, consumer_group, topic, broker, queue_id),
        given AS (
            SELECT *, count(*) OVER (
                PARTITION BY run, topic, broker, queue_id, queue_offset) AS times
            FROM (
                SELECT run, topic, broker, queue_id, queue_offset, message,
                    max(store_epoch) AS epoch,
                    min_by(struct(process, seq), struct(kind = 'receive', seq)) AS seen
                FROM {{event}}
                WHERE queue_offset IS NOT NULL
                    AND (kind = 'receive' OR kind = 'send' AND outcome = 'ok')
                GROUP BY run, topic, broker, queue_id, queue_offset, message)),
        crash AS (
            SELECT run, broker, process, seq FROM {{broker_event}} WHERE kind = 'crash'),
        lived AS (
            SELECT run, topic, broker, queue_id, queue_offset, message, first(epoch) AS epoch,
                first(seen.process) AS process,
                collect_set(c.process) AS crashed_at,
                count_if(c.process = seen.process AND c.seq < seen.seq) AS life
            FROM given LEFT JOIN crash c USING (run, broker)
            WHERE times > 1
            GROUP BY run, topic, broker, queue_id, queue_offset, message),
        replaced AS (
            SELECT run, topic, broker, queue_id, queue_offset, max(epoch) AS last_epoch,
                size(first(crashed_at)) > 0 AS crashed,
                size(array_union(collect_set(process), first(crashed_at))) = 1 AS ordered,
                collect_list(life) AS lives,
                map_from_entries(collect_list(struct(message, life))) AS life
            FROM lived GROUP BY run, topic, broker, queue_id, queue_offset)
        SELECT s.*, p.consumer_group, CASE
            WHEN h.handled THEN 'handled'
            WHEN NOT exists(w.expressions, {_WANTS}) THEN 'unwanted'
            WHEN p.start IS NOT NULL AND s.queue_offset < least(p.start, p.first_received)
                THEN if(b.begun AND NOT coalesce(s.seq > b.since[s.process], false),
                    'before', 'start')
            WHEN s.queue_offset >= coalesce(greatest(p.reach, p.reach_maybe), 0) THEN 'open'
            WHEN p.start IS NULL
                AND (p.first_received IS NULL OR s.queue_offset < p.first_received) THEN 'start'
            WHEN i.run IS NOT NULL THEN 'incomplete'
            WHEN h.unsaid THEN 'unsaid'
            WHEN h.given_back THEN 'given back'
            WHEN r.crashed AND NOT r.ordered THEN 'given away'
            WHEN r.crashed AND size(filter(r.lives, life -> life = r.life[s.message])) = 1
                THEN 'replaced'
            WHEN r.last_epoch > coalesce(s.store_epoch, 0) THEN 'anew'
            WHEN s.queue_offset < t.passed THEN 'passed'
            WHEN h.elsewhere THEN 'elsewhere'
            WHEN NOT forall(w.expressions, {_WANTS}) THEN 'mixed'
            WHEN s.queue_offset < coalesce(p.reach, 0) THEN 'lost'
            ELSE 'unconfirmed' END AS outcome
        FROM {{stored}} s
        JOIN progress p USING (run, topic, broker, queue_id)
        JOIN beginning b USING (run, consumer_group, topic, broker, queue_id)
        LEFT JOIN handled h USING (run, consumer_group, message)
        LEFT JOIN past t USING (run, consumer_group, topic, broker, queue_id)
        LEFT JOIN {{wanted}} w USING (run, consumer_group, topic)
        LEFT JOIN {{incomplete}} i USING (run, consumer_group)
        LEFT JOIN replaced r USING (run, topic, broker, queue_id, queue_offset)
    """,
    outcomes={
        "handled": Outcome(HELD, "handled"),
        "unwanted": Outcome(HELD, "its tag is not subscribed"),
        "before": Outcome(HELD, "before the offset at which the group began"),
        "lost": Outcome(VIOLATED, "committed past, and never handled"),
        "replaced": Outcome(
            PERMITTED, "its broker crashed, and its offset was given away", rule="RECOV-015"
        ),
        "mixed": Outcome(PERMITTED, "its tag is not subscribed by every member", rule="SUBS-016"),
        "start": Outcome(UNDECIDABLE, "below the first offset seen; where the group began is not"),
        "incomplete": Outcome(UNDECIDABLE, "a member or a part of the run was not recorded"),
        "unsaid": Outcome(UNDECIDABLE, "its receiver does not record what it has finished"),
        "given back": Outcome(UNDECIDABLE, "given back, and never recorded to have come again"),
        "given away": Outcome(
            UNDECIDABLE, "its broker crashed, and its offset was given away, in no known order"
        ),
        "anew": Outcome(UNDECIDABLE, "its offset was given away when its queue began again"),
        "passed": Outcome(UNDECIDABLE, "passed by a reset, or as an owner went on elsewhere"),
        "elsewhere": Outcome(UNDECIDABLE, "received only by a client that owned nothing"),
        "unconfirmed": Outcome(UNDECIDABLE, "passed only by commits that were not answered"),
        "open": Outcome(OPEN, "the recording ended before it was due"),
    },
)

REPEATED: Final = Check(
    name="repeated",
    about="messages that a group received more than once",
    promise="OFFSET-005",
    ideal="OFFSET-004",
    places=_MESSAGE,
    # `kept`: the progress that the broker is known to have held when the tenure began; a crash
    # may take it back, and so may a one-way commit that comes late. `start`: where the tenure
    # said that it began. `by_process`: progress answered to other recorders, in no known order.
    # `try`: how often it had been given back; where nobody counted, what the member recorded.
    query=f"""
        WITH progress AS (
            SELECT {GROUP_QUEUE}, process, client_id, seq, kind, 0 AS tenure, value
            FROM {{event}}
            WHERE kind IN ('commit', 'query_offset') AND outcome = 'ok' AND NOT seek
            UNION ALL
            SELECT {GROUP_QUEUE}, process, client_id, min(seq), 'assign', tenure, NULL
            FROM {{tenured}} WHERE kind IN ('assign', 'query_offset')
            GROUP BY {MEMBER_QUEUE}, tenure
            UNION ALL
            SELECT {GROUP_QUEUE}, process, NULL, seq, 'crash', 0, NULL
            FROM (SELECT DISTINCT {GROUP_QUEUE} FROM {{tenured}})
            JOIN (SELECT run, process, seq, broker FROM {{broker_event}} WHERE kind = 'crash')
            USING (run, broker)),
        known AS (
            SELECT *, last_value(value) IGNORE NULLS OVER (
                PARTITION BY {GROUP_QUEUE}, process, life
                ORDER BY seq, kind = 'query_offset') AS kept
            FROM (
                SELECT *, count_if(kind = 'crash') OVER (
                    PARTITION BY {GROUP_QUEUE}, process ORDER BY seq) AS life
                FROM progress)),
        begun AS (
            SELECT {MEMBER_QUEUE}, tenure, kept FROM known WHERE kind = 'assign'),
        started AS (
            SELECT {MEMBER_QUEUE}, tenure, min_by(value, seq) AS start
            FROM {{tenured}} WHERE kind = 'query_offset' GROUP BY {MEMBER_QUEUE}, tenure),
        late AS (
            SELECT {GROUP_QUEUE}, min(value) AS one_way
            FROM {{event}} WHERE kind = 'commit' AND outcome = 'unknown' GROUP BY {GROUP_QUEUE}),
        reached AS (
            SELECT {GROUP_QUEUE}, collect_list(struct(process, least, value)) AS by_process
            FROM (
                SELECT {GROUP_QUEUE}, process, min(value) AS least, max(value) AS value
                FROM progress WHERE kind = 'commit' GROUP BY {GROUP_QUEUE}, process)
            GROUP BY {GROUP_QUEUE}),
        sends AS (
            SELECT run, message,
                greatest(count_if(outcome = 'invoked'), count_if(outcome != 'invoked')) AS sends
            FROM {{event}} WHERE kind = 'send' GROUP BY run, message),
        crashed AS (
            SELECT DISTINCT run, true AS crashed FROM {{broker_event}} WHERE kind = 'crash'),
        tried AS (
            SELECT *, coalesce(attempt, int(startswith(topic, '%RETRY%')) + count_if(
                kind = 'ack' AND outcome = 'failed') OVER (
                    PARTITION BY {MEMBER_QUEUE}, tenure, queue_offset, message
                    ORDER BY seq)) AS try
            FROM {{tenured}} WHERE kind IN ('receive', 'ack')),
        delivery AS (
            SELECT *,
                struct(topic, broker, queue_id, queue_offset, coalesce(store_epoch, 0)) AS place,
                row_number() OVER (
                    PARTITION BY {MEMBER_QUEUE}, tenure, queue_offset, message, try
                    ORDER BY seq) AS nth_in_tenure
            FROM tried WHERE kind = 'receive'),
        explained AS (
            SELECT *, CASE
                WHEN nth_in_tenure > 1 THEN 'again'
                WHEN queue_offset < start THEN 'below'
                WHEN sought THEN 'sought'
                WHEN queue_offset < kept AND queue_offset < coalesce(one_way, kept)
                    THEN if(exists(by_process, p -> p.process != delivery.process
                        AND p.least <= queue_offset), 'put back', 'stale')
                WHEN exists(by_process, p -> p.process != delivery.process
                    AND p.value > queue_offset) THEN 'unordered'
                ELSE 'window' END AS how
            FROM delivery
            LEFT JOIN begun USING ({MEMBER_QUEUE}, tenure)
            LEFT JOIN started USING ({MEMBER_QUEUE}, tenure)
            LEFT JOIN late USING ({GROUP_QUEUE})
            LEFT JOIN reached USING ({GROUP_QUEUE})),
        -- Which of several deliveries came first is not always known: the one that is easiest to
        -- explain counts as the first.
        ranked AS (
            SELECT *,
                min(place) OVER (PARTITION BY run, consumer_group, message, try) AS first_place,
                row_number() OVER (
                    PARTITION BY run, consumer_group, message, try, place
                    ORDER BY array_position(
                        array('window', 'unordered', 'put back', 'sought', 'below', 'stale',
                            'again'), how), process, seq) AS nth
            FROM explained)
        SELECT {", ".join(_MESSAGE)}, CASE
            WHEN nth > 1 THEN how
            WHEN place = first_place THEN 'once'
            WHEN try > 0 THEN 'given back again'
            WHEN sends > 1 THEN 'sent again'
            WHEN sends = 1 AND crashed THEN 'crash'
            WHEN sends = 1 THEN 'stored again'
            ELSE 'sender' END AS outcome
        FROM ranked
        LEFT JOIN sends USING (run, message)
        LEFT JOIN crashed USING (run)
    """,
    outcomes={
        "once": Outcome(HELD, "received for the first time"),
        "again": Outcome(VIOLATED, "received again by a member that had kept the queue"),
        "stale": Outcome(VIOLATED, "received again though progress past it had been answered"),
        "below": Outcome(VIOLATED, "received again from below the offset where its owner began"),
        "stored again": Outcome(VIOLATED, "stored twice, and sent once"),
        "window": Outcome(PERMITTED, "received again, as progress past it was not known"),
        "sought": Outcome(PERMITTED, "received again, as its owner went on elsewhere"),
        "sent again": Outcome(
            PERMITTED, "stored twice, as its producer tried again", rule="SEND-025"
        ),
        "given back again": Outcome(
            PERMITTED, "stored twice, as it was given back to be retried", rule="RETRY-013"
        ),
        "unordered": Outcome(UNDECIDABLE, "progress past it was answered to another recorder"),
        "put back": Outcome(UNDECIDABLE, "another recorder's commit may have put progress back"),
        "sender": Outcome(UNDECIDABLE, "stored twice, and its producer was not recorded"),
        "crash": Outcome(
            UNDECIDABLE, "stored twice, and a broker crashed: it may have been delayed"
        ),
    },
)

OUT_OF_ORDER: Final = Check(
    name="out of order",
    about="messages received after a later one of their queue",
    promise="PULL-001",
    places=_MESSAGE,
    query=f"""
        WITH delivery AS (
            SELECT *, row_number() OVER (
                PARTITION BY {MEMBER_QUEUE}, tenure, queue_offset, message ORDER BY seq) AS nth
            FROM {{tenured}} WHERE kind = 'receive')
        SELECT {", ".join(_MESSAGE)},
            CASE WHEN queue_offset < before THEN 'behind' ELSE 'in order' END AS outcome
        FROM (
            SELECT *, max(queue_offset) OVER (
                PARTITION BY {MEMBER_QUEUE}, tenure, store_epoch ORDER BY seq
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
            FROM delivery WHERE nth = 1)
        WHERE before IS NOT NULL
    """,
    outcomes={
        "in order": Outcome(HELD, "after all earlier ones"),
        "behind": Outcome(VIOLATED, "received after a later message of its queue"),
    },
)

NEVER_DELIVERED: Final = Check(
    name="committed, never delivered",
    about="commits past messages that were not delivered, or not finished",
    promise="OFFSET-002",
    places=_COMMIT,
    query=f"""
        WITH reach AS (
            SELECT *, CASE kind WHEN 'receive' THEN queue_offset + 1
                WHEN 'query_offset' THEN value END AS offset
            FROM {{tenured}}),
        reached AS (
            SELECT {GROUP_QUEUE}, collect_list(struct(process, reached)) AS by_process
            FROM (
                SELECT {GROUP_QUEUE}, process, max(offset) AS reached
                FROM reach GROUP BY {GROUP_QUEUE}, process)
            GROUP BY {GROUP_QUEUE}),
        acknowledging AS (
            SELECT DISTINCT run, process, consumer_group, client_id
            FROM {{tenured}} WHERE kind = 'ack'),
        -- When the last of all messages below a commit was finished: in the order of offsets.
        finish AS (
            SELECT run, process, seq, max(finished) OVER (
                PARTITION BY {MEMBER_QUEUE}, tenure ORDER BY at, finished IS NOT NULL
                ROWS UNBOUNDED PRECEDING) AS last_finished
            FROM (
                SELECT {MEMBER_QUEUE}, tenure, seq, value AS at, NULL AS finished
                FROM {{tenured}} WHERE kind = 'commit'
                UNION ALL
                SELECT {MEMBER_QUEUE}, tenure, NULL, queue_offset,
                    coalesce(min(seq) FILTER (WHERE kind = 'ack'), {2**62})
                FROM {{tenured}} WHERE kind IN ('receive', 'ack')
                GROUP BY {MEMBER_QUEUE}, tenure, queue_offset
                HAVING count_if(kind = 'receive') > 0)),
        -- Likewise when the last of the messages stored below a commit had come to the group, from
        -- where its owner began: told by offsets, so that one that was given away counts once.
        -- `last_sure`: of those that were to come to it, and to no other recorder.
        began AS (
            SELECT {MEMBER_QUEUE}, tenure,
                min_by(value, seq) FILTER (WHERE kind = 'query_offset') AS start,
                min(queue_offset) FILTER (WHERE kind = 'receive') AS first_received,
                max(value) FILTER (WHERE kind = 'commit') AS reach
            FROM {{tenured}} GROUP BY {MEMBER_QUEUE}, tenure),
        came AS (
            SELECT {GROUP_QUEUE}, queue_offset,
                map_from_entries(collect_list(struct(process, seq))) AS by_process
            FROM (
                SELECT {GROUP_QUEUE}, process, queue_offset, min(seq) AS seq
                FROM {{tenured}} WHERE kind IN ('receive', 'ack')
                GROUP BY {GROUP_QUEUE}, process, queue_offset)
            GROUP BY {GROUP_QUEUE}, queue_offset),
        due AS (
            SELECT {of("b", MEMBER_QUEUE)}, b.tenure, s.queue_offset,
                coalesce(m.by_process[b.process], {2**62}) AS came,
                s.queue_offset >= coalesce(b.start, b.first_received)
                    AND (m.by_process[b.process] IS NOT NULL OR m.by_process IS NULL
                        AND coalesce(forall(w.expressions, {_WANTS}), true)) AS sure
            FROM {{stored}} s
            JOIN began b ON {same("s", "b", "run, topic, broker, queue_id")}
                AND s.queue_offset >= coalesce(b.start, 0) AND s.queue_offset < b.reach
            LEFT JOIN {{wanted}} w ON {same("w", "b", "run, consumer_group, topic")}
            LEFT JOIN came m ON {same("m", "b", GROUP_QUEUE)}
                AND m.queue_offset = s.queue_offset
            WHERE coalesce(exists(w.expressions, {_WANTS}), true)),
        coming AS (
            SELECT run, process, seq, max(came) OVER so_far AS last_came,
                max(if(sure, came, NULL)) OVER so_far AS last_sure
            FROM (
                SELECT {MEMBER_QUEUE}, tenure, seq, value AS at, NULL AS came, false AS sure
                FROM {{tenured}} WHERE kind = 'commit'
                UNION ALL
                SELECT {MEMBER_QUEUE}, tenure, NULL, queue_offset, came, sure FROM due)
            WINDOW so_far AS (
                PARTITION BY {MEMBER_QUEUE}, tenure ORDER BY at, came IS NOT NULL
                ROWS UNBOUNDED PRECEDING)),
        filtered AS (
            SELECT run, consumer_group, topic FROM {{wanted}}
            WHERE exists(expressions, e -> e != '*'))
        SELECT {", ".join(_COMMIT)}, CASE
            WHEN f.last_finished > seq AND a.run IS NOT NULL THEN 'unfinished'
            WHEN g.last_sure > seq AND i.run IS NULL THEN 'skipped'
            WHEN value <= coalesce(before, 0) AND g.last_came > seq
                THEN if(i.run IS NULL, 'doubtful', 'incomplete')
            WHEN value <= coalesce(before, 0) THEN 'delivered'
            WHEN i.run IS NOT NULL THEN 'incomplete'
            WHEN t.run IS NOT NULL THEN 'filtered'
            WHEN exists(by_process, p -> p.process != c.process AND p.reached >= value)
                THEN 'unordered'
            WHEN before IS NULL THEN 'start'
            ELSE 'beyond' END AS outcome
        FROM (
            SELECT *, max(offset) OVER (
                PARTITION BY {GROUP_QUEUE}, process ORDER BY seq) AS before
            FROM reach) c
        LEFT JOIN reached USING ({GROUP_QUEUE})
        LEFT JOIN {{incomplete}} i USING (run, consumer_group)
        LEFT JOIN filtered t USING (run, consumer_group, topic)
        LEFT JOIN finish f USING (run, process, seq)
        LEFT JOIN coming g USING (run, process, seq)
        LEFT JOIN acknowledging a USING (run, process, consumer_group, client_id)
        WHERE kind = 'commit' AND NOT former
    """,
    outcomes={
        "delivered": Outcome(HELD, "everything below was delivered"),
        "unfinished": Outcome(VIOLATED, "past a message that its owner had not finished"),
        "skipped": Outcome(VIOLATED, "past a stored message that had not been delivered"),
        "beyond": Outcome(VIOLATED, "beyond everything that had been delivered"),
        "doubtful": Outcome(
            UNDECIDABLE, "past a stored message that may have been delivered, or left out"
        ),
        "incomplete": Outcome(UNDECIDABLE, "a member or a part of the run was not recorded"),
        "filtered": Outcome(UNDECIDABLE, "the group filters, and what was left out is not known"),
        "unordered": Outcome(UNDECIDABLE, "delivered to another recorder, in no known order"),
        "start": Outcome(
            UNDECIDABLE, "nothing was delivered before, and where the group began is not known"
        ),
    },
)

WENT_BACK: Final = Check(
    name="went back",
    about="commits lower than an earlier one of the same group and queue",
    promise="OFFSET-003",
    ideal="OFFSET-008",
    places=_COMMIT,
    # `own`: in the tenure, but for what is left of the one before a seek; `others`: of all that
    # one recorder saw. Another recorder's commit may be the earlier one, or the later.
    query=f"""
        WITH highest AS (
            SELECT {GROUP_QUEUE}, collect_list(struct(process, value)) AS by_process
            FROM (
                SELECT {GROUP_QUEUE}, process, max(value) AS value
                FROM {{tenured}} WHERE kind = 'commit' GROUP BY {GROUP_QUEUE}, process)
            GROUP BY {GROUP_QUEUE})
        SELECT {", ".join(_COMMIT)}, CASE
            WHEN value < own THEN 'back'
            WHEN value < others THEN 'handed over'
            WHEN exists(by_process, p -> p.process != c.process AND p.value > c.value)
                THEN 'unordered'
            ELSE 'forward' END AS outcome
        FROM (
            SELECT *,
                max(if(former, NULL, value)) OVER (
                    PARTITION BY {MEMBER_QUEUE}, tenure ORDER BY seq) AS own,
                max(value) OVER (
                    PARTITION BY {GROUP_QUEUE}, process ORDER BY seq) AS others
            FROM {{tenured}} WHERE kind = 'commit') c
        LEFT JOIN highest USING ({GROUP_QUEUE})
    """,
    outcomes={
        "forward": Outcome(HELD, "at least what was committed before"),
        "back": Outcome(VIOLATED, "lower than its owner had committed before"),
        "handed over": Outcome(PERMITTED, "lower than before it was handed over, or before a seek"),
        "unordered": Outcome(
            UNDECIDABLE, "lower than another recorder's, in no known order", "OFFSET-008"
        ),
    },
)

TWO_OWNERS: Final = Check(
    name="two owners",
    about="queues that more than one member owned at once",
    promise="REBAL-001",
    ideal="REBAL-002",
    places=_HOLD,
    query=f"""
        SELECT {", ".join(_HOLD)}, CASE
            WHEN owners = 1 THEN 'one'
            WHEN calm_ns > {SETTLED_NS} THEN if(sharing > 1, 'settled', 'unshared')
            ELSE 'passing' END AS outcome
        FROM {{ownership}} WHERE owners > 1 OR owners = 1 AND closing
        UNION ALL
        SELECT {", ".join(_HOLD)}, CASE
            WHEN together THEN if(calm_ns <= {SETTLED_NS}, 'passing', 'lasting')
            WHEN apart THEN 'apart'
            ELSE 'unordered' END
        FROM {{cross_hold}}
    """,
    outcomes={
        "one": Outcome(HELD, "one owner until the next change of the group"),
        "apart": Outcome(HELD, "one owner after the other"),
        "settled": Outcome(VIOLATED, "several owners long after the last change of the group"),
        "passing": Outcome(PERMITTED, "several owners while the group rebalanced"),
        "lasting": Outcome(
            UNDECIDABLE, "several owners, and two recorders: for how long is not known", "REBAL-001"
        ),
        "unshared": Outcome(
            UNDECIDABLE, "several owners, not known to have all subscribed", "REBAL-001"
        ),
        "unordered": Outcome(UNDECIDABLE, "owners recorded by two processes, in no known order"),
    },
)

NO_OWNER: Final = Check(
    name="no owner",
    about="queues that nobody owned though the group had members",
    promise="REBAL-001",
    ideal="REBAL-003",
    places=_HOLD,
    query=f"""
        SELECT {", ".join(_HOLD)}, CASE
            WHEN owners > 0 THEN 'owned'
            WHEN i.run IS NOT NULL OR s.run IS NOT NULL THEN 'incomplete'
            WHEN sharing = 0 THEN 'unshared'
            WHEN calm_ns > {SETTLED_NS} THEN 'settled'
            ELSE 'passing' END AS outcome
        FROM {{ownership}}
        LEFT JOIN {{incomplete}} i USING (run, consumer_group)
        LEFT JOIN {{scattered}} s USING (run, consumer_group)
        WHERE owners = 0 OR closing
    """,
    outcomes={
        "owned": Outcome(HELD, "owned until the next change of the group"),
        "settled": Outcome(VIOLATED, "no owner long after the last change of the group"),
        "passing": Outcome(PERMITTED, "no owner while the group rebalanced"),
        "incomplete": Outcome(UNDECIDABLE, "an owner may not have been recorded, or elsewhere"),
        "unshared": Outcome(UNDECIDABLE, "no member is known to have subscribed to the topic"),
    },
)

HISTORY_CHECKS: Final = (
    LOST,
    REPEATED,
    OUT_OF_ORDER,
    NEVER_DELIVERED,
    WENT_BACK,
    TWO_OWNERS,
    NO_OWNER,
)
