"""The checks of a history, a table: what is looked for, under which rule, and what it means."""

from __future__ import annotations

from typing import Final

from mqaudit.check import Check, Outcome
from mqaudit.history import GROUP_QUEUE, MEMBER_QUEUE
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
    # `handled`: acknowledged or given back where the group's members record that, else received;
    # `unsaid`: received by a member that records no such thing. `reach`: how far the group's
    # progress is known to have come; `reach_maybe`: may have. `passed`: how far one came that
    # owned nothing, as a tool that resets a group.
    query=f"""
        WITH acking AS (
            SELECT DISTINCT run, consumer_group, process, client_id, true AS acks
            FROM {{event}} WHERE kind = 'ack'),
        handled AS (
            SELECT run, consumer_group, message, bool_or(acks IS NULL) AS unsaid,
                bool_or(kind = 'ack') OR NOT bool_or(bool_or(kind = 'ack')) OVER (
                    PARTITION BY run, consumer_group) AS handled
            FROM {{event}} LEFT JOIN acking USING (run, consumer_group, process, client_id)
            WHERE kind IN ('receive', 'ack') AND consumer_group IS NOT NULL
            GROUP BY run, consumer_group, message),
        progress AS (
            SELECT run, consumer_group, topic, broker, queue_id,
                max(value) FILTER (WHERE outcome = 'ok' AND kind != 'receive') AS reach,
                max(value) FILTER (WHERE kind = 'commit') AS reach_maybe,
                min(value) FILTER (WHERE kind = 'query_offset') AS start,
                min(queue_offset) FILTER (WHERE kind = 'receive') AS first_received
            FROM {{tenured}}
            GROUP BY run, consumer_group, topic, broker, queue_id),
        past AS (
            SELECT run, consumer_group, topic, broker, queue_id, max(value) AS passed
            FROM {{event}} LEFT ANTI JOIN (SELECT DISTINCT {MEMBER_QUEUE} FROM {{tenured}})
            USING ({MEMBER_QUEUE})
            WHERE kind = 'commit'
            GROUP BY run, consumer_group, topic, broker, queue_id),
        wanted AS (
            SELECT run, consumer_group, topic,
                collect_set(coalesce(nullif(trim(tag), ''), '*')) AS expressions
            FROM {{event}} WHERE kind = 'subscribe'
            GROUP BY run, consumer_group, topic),
        replaced AS (
            SELECT run, topic, broker, queue_id, queue_offset, max(store_epoch) AS last_epoch
            FROM {{event}}
            WHERE queue_offset IS NOT NULL
                AND (kind = 'receive' OR kind = 'send' AND outcome = 'ok')
            GROUP BY run, topic, broker, queue_id, queue_offset
            HAVING count(DISTINCT message) > 1),
        crashed AS (SELECT DISTINCT run, broker FROM {{broker_event}} WHERE kind = 'crash')
        SELECT s.*, p.consumer_group, CASE
            WHEN h.handled THEN 'handled'
            WHEN NOT exists(w.expressions, {_WANTS}) THEN 'unwanted'
            WHEN p.start IS NOT NULL AND s.queue_offset < least(p.start, p.first_received)
                THEN 'before'
            WHEN s.queue_offset >= coalesce(greatest(p.reach, p.reach_maybe), 0) THEN 'open'
            WHEN p.start IS NULL
                AND (p.first_received IS NULL OR s.queue_offset < p.first_received) THEN 'start'
            WHEN i.run IS NOT NULL THEN 'incomplete'
            WHEN h.unsaid THEN 'unsaid'
            WHEN r.run IS NOT NULL AND c.run IS NOT NULL THEN 'replaced'
            WHEN r.last_epoch > coalesce(s.store_epoch, 0) THEN 'anew'
            WHEN s.queue_offset < t.passed THEN 'passed'
            WHEN NOT forall(w.expressions, {_WANTS}) THEN 'mixed'
            WHEN s.queue_offset < coalesce(p.reach, 0) THEN 'lost'
            ELSE 'unconfirmed' END AS outcome
        FROM {{stored}} s
        JOIN progress p USING (run, topic, broker, queue_id)
        LEFT JOIN handled h USING (run, consumer_group, message)
        LEFT JOIN past t USING (run, consumer_group, topic, broker, queue_id)
        LEFT JOIN wanted w USING (run, consumer_group, topic)
        LEFT JOIN {{incomplete}} i USING (run, consumer_group)
        LEFT JOIN replaced r USING (run, topic, broker, queue_id, queue_offset)
        LEFT JOIN crashed c USING (run, broker)
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
        "anew": Outcome(UNDECIDABLE, "its offset was given away when its queue began again"),
        "passed": Outcome(UNDECIDABLE, "passed by a client that owned nothing, as by a reset"),
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
            WHERE kind IN ('commit', 'query_offset') AND outcome = 'ok'
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
                        array('window', 'unordered', 'put back', 'below', 'stale', 'again'),
                        how), process, seq) AS nth
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
                WHEN 'query_offset' THEN value END AS reached
            FROM {{tenured}}),
        reached AS (
            SELECT {GROUP_QUEUE}, collect_list(struct(process, reached)) AS by_process
            FROM (
                SELECT {GROUP_QUEUE}, process, max(reached) AS reached
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
        filtered AS (
            SELECT run, consumer_group, topic
            FROM {{event}} WHERE kind = 'subscribe'
            GROUP BY run, consumer_group, topic
            HAVING bool_or(coalesce(nullif(trim(tag), ''), '*') != '*'))
        SELECT {", ".join(_COMMIT)}, CASE
            WHEN f.last_finished > seq AND a.run IS NOT NULL THEN 'unfinished'
            WHEN value <= coalesce(before, 0) THEN 'delivered'
            WHEN i.run IS NOT NULL THEN 'incomplete'
            WHEN t.run IS NOT NULL THEN 'filtered'
            WHEN exists(by_process, p -> p.process != c.process AND p.reached >= value)
                THEN 'unordered'
            WHEN before IS NULL THEN 'start'
            ELSE 'beyond' END AS outcome
        FROM (
            SELECT *, max(reached) OVER (
                PARTITION BY {GROUP_QUEUE}, process ORDER BY seq) AS before
            FROM reach) c
        LEFT JOIN reached USING ({GROUP_QUEUE})
        LEFT JOIN {{incomplete}} i USING (run, consumer_group)
        LEFT JOIN filtered t USING (run, consumer_group, topic)
        LEFT JOIN finish f USING (run, process, seq)
        LEFT JOIN acknowledging a USING (run, process, consumer_group, client_id)
        WHERE kind = 'commit'
    """,
    outcomes={
        "delivered": Outcome(HELD, "everything below was delivered"),
        "unfinished": Outcome(VIOLATED, "past a message that its owner had not finished"),
        "beyond": Outcome(VIOLATED, "beyond everything that had been delivered"),
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
    query=f"""
        SELECT {", ".join(_COMMIT)}, CASE
            WHEN value < own THEN 'back'
            WHEN value < others THEN 'handed over'
            ELSE 'forward' END AS outcome
        FROM (
            SELECT *,
                max(value) OVER (
                    PARTITION BY {MEMBER_QUEUE}, tenure ORDER BY seq) AS own,
                max(value) OVER (
                    PARTITION BY {GROUP_QUEUE}, process ORDER BY seq) AS others
            FROM {{tenured}} WHERE kind = 'commit')
    """,
    outcomes={
        "forward": Outcome(HELD, "at least what was committed before"),
        "back": Outcome(VIOLATED, "lower than its owner had committed before"),
        "handed over": Outcome(PERMITTED, "lower than another owner had committed"),
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
            WHEN calm_ns > {SETTLED_NS} THEN 'settled'
            ELSE 'passing' END AS outcome
        FROM {{ownership}} WHERE owners > 1 OR owners = 1 AND closing
        UNION ALL
        SELECT {", ".join(_HOLD)}, CASE
            WHEN together THEN 'passing'
            WHEN apart THEN 'apart'
            ELSE 'unordered' END
        FROM {{cross_hold}}
    """,
    outcomes={
        "one": Outcome(HELD, "one owner until the next change of the group"),
        "apart": Outcome(HELD, "one owner after the other"),
        "settled": Outcome(VIOLATED, "several owners long after the last change of the group"),
        "passing": Outcome(PERMITTED, "several owners while the group rebalanced"),
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
