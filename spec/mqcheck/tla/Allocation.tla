------------------------------ MODULE Allocation ------------------------------
(***************************************************************************)
(* Which member of a group consumes which queues of a topic.  Twin of      *)
(* mqspec/core/allocation.py.                                              *)
(*                                                                         *)
(* Nobody hands out queues.  Each member has a view of its own: the queues *)
(* of the topic, the ids of the group, a strategy.  It computes from these *)
(* alone what it takes, at a time of its own; when a member leaves, each   *)
(* survivor computes again.  What is promised of all slices together is    *)
(* stated of the moments when everybody has computed.                      *)
(*                                                                         *)
(* Queues are numbers, in the order in which members sort them; so are     *)
(* client ids.  A member is a process: two may have one id.                *)
(*                                                                         *)
(* Modelled: all six strategies, whatever they are configured with.  Of    *)
(* consistent hashing this is any ring at all: for each queue, the members *)
(* in the order in which a walk round the ring from the queue's point      *)
(* meets them first.                                                       *)
(* Left out: how members come to have their views, and what they own while *)
(* some have computed and others not (Rebalance); points of the ring that  *)
(* collide; an inner strategy of the nearby one other than averagely.      *)
(*                                                                         *)
(* Not in the core, being the environment: cid, view, config, due, owned   *)
(* (the core's allocate is a function, and its caller has the state);      *)
(* Leave.  Ghosts: before.                                                 *)
(***************************************************************************)
EXTENDS Integers, Sequences, FiniteSets

CONSTANTS
    MaxQueues,   \* topics of 0 up to this many queues
    MaxMembers,  \* groups of 1 up to this many members
    Strategies,  \* the names of the strategies that a group may use
    Defect       \* what is wrong with the inputs: "none", or a defect's name

VARIABLES
    cid,     \* member -> its client id
    view,    \* member -> what it computes from; its domain: the members that are there
    config,  \* what the strategy is configured with, see Configs
    due,     \* the members that have not yet computed from their view
    owned,   \* member -> the queues that it has taken
    before   \* member -> the queues that it had before another left; <<>>: nobody has left

vars == <<cid, view, config, due, owned, before>>

-------------------------------------------------------------------------------
Min(a, b) == IF a < b THEN a ELSE b
Range(list) == {list[i] : i \in 1..Len(list)}
Numbers(n) == [i \in 1..n |-> i]

\* Positions are counted from 0, as the code does.
At(list, position) == list[position + 1]
FirstPosition(list, x) ==
    CHOOSE p \in 0..(Len(list) - 1) :
        At(list, p) = x /\ \A q \in 0..(p - 1) : At(list, q) # x

WithoutFirst(list, x) ==
    LET p == FirstPosition(list, x)
    IN  SubSeq(list, 1, p) \o SubSeq(list, p + 2, Len(list))

-------------------------------------------------------------------------------
(***************************************************************************)
(* The strategies: what the member with id `c` takes of the list `queues`. *)
(***************************************************************************)

\* The positions of the slice of the member at `index`: the first ones take the remainder.
AverageSlice(queues, members, index) ==
    LET share == queues \div members
        remainder == queues % members
        start == share * index + Min(index, remainder)
        size == IF index < remainder THEN share + 1 ELSE share
    IN  start..(start + size - 1)

Averagely(c, queues, cids) ==
    {At(queues, p) : p \in AverageSlice(Len(queues), Len(cids), FirstPosition(cids, c))}

\* From the own position on, every so many-th queue as there are members.
AveragelyByCircle(c, queues, cids) ==
    LET index == FirstPosition(cids, c)
    IN  {At(queues, p) : p \in
            {p \in index..(Len(queues) - 1) : (p - index) % Len(cids) = 0}}

\* The first id of the ring, from the queue on, that is in the list.
ConsistentHash(c, queues, cids) ==
    {q \in Range(queues) :
        Head(SelectSeq(config[q], LAMBDA id : id \in Range(cids))) = c}

\* Of the queues in the rooms that are listed: equal shares, then one of the remainder each.
ByMachineRoom(c, queues, cids) ==
    LET near == SelectSeq(queues, LAMBDA q : q \in config)
        index == FirstPosition(cids, c)
        members == Len(cids)
        share == Len(near) \div members
        extra == IF index < Len(near) % members THEN {share * members + index} ELSE {}
    IN  {At(near, p) : p \in (share * index)..(share * (index + 1) - 1) \cup extra}

\* The queues of a room to its members; of a room without members, to all.
MachineRoomNearby(c, queues, cids) ==
    LET in(room) == SelectSeq(queues, LAMBDA q : config.queues[q] = room)
        members(room) == SelectSeq(cids, LAMBDA id : config.members[id] = room)
        own == config.members[c]
        lonely == {room \in Range(config.queues) : members(room) = <<>>}
    IN  Averagely(c, in(own), members(own))
            \cup UNION {Averagely(c, in(room), cids) : room \in lonely}

Take(strategy, c, queues, cids) ==
    CASE strategy = "AVG" -> Averagely(c, queues, cids)
      [] strategy = "AVG_BY_CIRCLE" -> AveragelyByCircle(c, queues, cids)
      [] strategy = "CONSISTENT_HASH" -> ConsistentHash(c, queues, cids)
      [] strategy = "MACHINE_ROOM" -> ByMachineRoom(c, queues, cids)
      [] strategy = "MACHINE_ROOM_NEARBY-AVG" -> MachineRoomNearby(c, queues, cids)
      [] strategy = "CONFIG" -> config[c]

-------------------------------------------------------------------------------
(***************************************************************************)
(* The inputs.  Without a defect ids are unique, and all members have the  *)
(* same view.                                                              *)
(***************************************************************************)
View(queues, cids, strategy, subscribed) ==
    [queues |-> queues, cids |-> cids, strategy |-> strategy, subscribed |-> subscribed]

Unequal(f) == \E m, o \in DOMAIN f : f[m] # f[o]

\* Two neighbours have one id.
ClientIds(c) ==
    IF Defect = "SameClientId"
    THEN {[m \in 1..c |-> IF m > shared THEN m - 1 ELSE m] : shared \in 1..(c - 1)}
    ELSE {Numbers(c)}

\* Some miss the last queue, or one id of the list: their own, even.
DifferentViews(n, ids, strategy) ==
    LET lists == {ids} \cup {WithoutFirst(ids, id) : id \in Range(ids)}
        choices == {View(Numbers(q), cids, strategy, TRUE) : q \in {n, n - 1}, cids \in lists}
    IN  {f \in [DOMAIN ids -> choices] : Unequal(f)}

Views(n, ids, strategy) ==
    LET members == DOMAIN ids
        equal == View(Numbers(n), ids, strategy, TRUE)
    IN  CASE Defect = "DifferentViews" ->
                IF n > 1 /\ Len(ids) > 1 THEN DifferentViews(n, ids, strategy) ELSE {}
          [] Defect = "DifferentStrategies" ->
                {f \in [members -> {[equal EXCEPT !.strategy = s] : s \in Strategies}] :
                    Unequal(f)}
          [] Defect = "DifferentSubscriptions" ->
                {f \in [members -> {[equal EXCEPT !.subscribed = b] : b \in BOOLEAN}] :
                    Unequal(f)}
          [] OTHER -> {[m \in members |-> equal]}

Orders(ids) == {f \in [1..Cardinality(ids) -> ids] : \A i, j \in DOMAIN f : i # j => f[i] # f[j]}

Rooms == 1..2

\* The ring, queue by queue; the queues whose rooms are listed; who is in which room; the lists.
Configs(n, ids, strategy) ==
    CASE strategy = "CONSISTENT_HASH" -> [1..n -> Orders(Range(ids))]
      [] strategy = "MACHINE_ROOM" -> SUBSET (1..n)
      [] strategy = "MACHINE_ROOM_NEARBY-AVG" ->
            [queues : [1..n -> Rooms], members : [Range(ids) -> Rooms]]
      [] strategy = "CONFIG" -> [Range(ids) -> SUBSET (1..n)]
      [] OTHER -> {<<>>}

-------------------------------------------------------------------------------
Members == DOMAIN view
Queues == UNION {Range(view[m].queues) : m \in Members}

Init ==
    \E n \in 0..MaxQueues, c \in 1..MaxMembers, strategy \in Strategies :
        /\ cid \in ClientIds(c)
        /\ view \in Views(n, cid, strategy)
        /\ config \in Configs(n, cid, strategy)
        /\ due = 1..c
        /\ owned = [m \in 1..c |-> {}]
        /\ before = <<>>

(***************************************************************************)
(* Member m computes what it takes.  One that is not in its own list takes *)
(* nothing; an empty list is refused, and it keeps what it has; one that   *)
(* does not subscribe to the topic does not compute for it at all.         *)
(***************************************************************************)
Allocate(m) ==
    /\ m \in due
    /\ due' = due \ {m}
    /\ LET v == view[m]
           refused == v.queues = <<>> \/ v.cids = <<>> \/ ~v.subscribed
           taken == IF cid[m] \in Range(v.cids)
                    THEN Take(v.strategy, cid[m], v.queues, v.cids)
                    ELSE {}
       IN  owned' = IF refused THEN owned ELSE [owned EXCEPT ![m] = taken]
    /\ UNCHANGED <<cid, view, config, before>>

(***************************************************************************)
(* Member m leaves, once all have computed; the others have lists without  *)
(* it from then on, and are to compute again.                              *)
(***************************************************************************)
Leave(m) ==
    /\ due = {}
    /\ before = <<>>
    /\ m \in Members
    /\ LET survivors == Members \ {m}
           without(v) == IF cid[m] \in Range(v.cids)
                         THEN [v EXCEPT !.cids = WithoutFirst(@, cid[m])]
                         ELSE v
       IN  /\ survivors # {}
           /\ view' = [o \in survivors |-> without(view[o])]
           /\ owned' = [o \in survivors |-> owned[o]]
           /\ due' = survivors
           /\ before' = owned
    /\ UNCHANGED <<cid, config>>

Next == \E m \in 1..MaxMembers : Allocate(m) \/ Leave(m)

Spec == Init /\ [][Next]_vars

-------------------------------------------------------------------------------
TypeOK ==
    /\ due \subseteq Members
    /\ Members \subseteq DOMAIN cid
    /\ DOMAIN owned = Members
    /\ \A m \in Members :
        /\ cid[m] \in 1..MaxMembers
        /\ Range(view[m].queues) \subseteq 1..MaxQueues
        /\ Range(view[m].cids) \subseteq 1..MaxMembers
        /\ view[m].strategy \in Strategies
        /\ view[m].subscribed \in BOOLEAN
        /\ owned[m] \subseteq Queues
    /\ before = <<>> \/ Members \subseteq DOMAIN before

Settled == due = {}

Owners(q) == {m \in Members : q \in owned[m]}
Using(strategy) == {m \in Members : view[m].strategy = strategy}

\* ALLOC-001; of the circle ALLOC-008, of the ring ALLOC-012, of all ALLOC-022.
Disjoint ==
    Settled => \A q \in Queues : Cardinality(Owners(q)) <= 1

\* ALLOC-002; of the circle ALLOC-008, of the ring ALLOC-012, of all ALLOC-021.
Cover ==
    Settled => \A q \in Queues : Owners(q) # {}

\* ALLOC-003: no member has two queues more than another.
Balanced ==
    Settled => \A m, o \in Members : Cardinality(owned[m]) - Cardinality(owned[o]) <= 1

\* ALLOC-004: who is earlier in the order of ids has no fewer.
EarlierNoLess ==
    Settled => \A m, o \in Members :
        cid[m] < cid[o] => Cardinality(owned[m]) >= Cardinality(owned[o])

\* ALLOC-005: averagely gives neighbours in the order of queues, and to the earlier the first.
Contiguous ==
    Settled => \A m, o \in Using("AVG") :
        /\ \A q, r \in owned[m] : q..r \subseteq owned[m]
        /\ m < o => \A q \in owned[m], r \in owned[o] : q < r

\* ALLOC-009: the circle deals the queue at position p to the member at position p mod members.
Dealt ==
    Settled => \A m \in Using("AVG_BY_CIRCLE") :
        LET v == view[m]
        IN  v.subscribed /\ cid[m] \in Range(v.cids) =>
                owned[m] = {q \in Range(v.queues) :
                    (q - 1) % Len(v.cids) = FirstPosition(v.cids, cid[m])}

\* ALLOC-010, of the ring ALLOC-011: a queue whose owner stays keeps its owner.
OnlyLeaversQueuesMove ==
    Settled /\ before # <<>> => \A m \in Members : before[m] \subseteq owned[m]

\* ALLOC-017: of the nearby strategy every queue has one owner,
NearbyPartitions ==
    Settled /\ Using("MACHINE_ROOM_NEARBY-AVG") # {} =>
        \A q \in Queues : Cardinality(Owners(q)) = 1

\* ALLOC-018: who is in the queue's room, if anybody is.
NearbyStaysInRoom ==
    Settled => \A m \in Using("MACHINE_ROOM_NEARBY-AVG") : \A q \in owned[m] :
        \/ config.members[cid[m]] = config.queues[q]
        \/ \A o \in Members : config.members[cid[o]] # config.queues[q]

\* ALLOC-019: of the rooms that are listed every queue has one owner, of the others none has any.
MachineRoomTakesListed ==
    Settled /\ Using("MACHINE_ROOM") # {} =>
        \A q \in Queues : Cardinality(Owners(q)) = (IF q \in config THEN 1 ELSE 0)

\* ALLOC-020: the configured list, whoever else has it.
ConfigIsVerbatim ==
    Settled => \A m \in Using("CONFIG") : owned[m] = config[cid[m]]

\* The assumption under which ALLOC-013 holds: walks round the ring meet each member first of
\* all equally often.  That is all of it: what is checked is that the strategy gives a queue to
\* whom its walk meets first.
BalancedIfSpread ==
    LET First(q) == Head(SelectSeq(config[q], LAMBDA id : id \in {cid[m] : m \in Members}))
        Meets(m) == Cardinality({q \in Queues : First(q) = cid[m]})
    IN  (Settled /\ \A m, o \in Members : Meets(m) - Meets(o) <= 1) => Balanced

\* The other assumption under which ALLOC-010 holds: who leaves had nothing.
IdleLeaverMovesNothing ==
    (before # <<>> /\ \A m \in DOMAIN before \ Members : before[m] = {}) => OnlyLeaversQueuesMove

\* The assumption under which ALLOC-021 holds of rooms.
CoverIfAllListed ==
    Using("MACHINE_ROOM") # {} /\ config = Queues => Cover

\* The assumption under which ALLOC-021 and ALLOC-022 hold of lists.
PartitionIfConfigured ==
    (Using("CONFIG") # {} /\ \A q \in Queues :
        Cardinality({m \in Members : q \in config[cid[m]]}) = 1) => Cover /\ Disjoint

===============================================================================
