---------------------------- MODULE Subscription ----------------------------
(***************************************************************************)
(* What of a topic a group wants, as its members and a broker understand   *)
(* it.  Twin of mqspec/core/subscription.py, mqspec/core/group.py,         *)
(* mqspec/core/pull.py and mqspec/core/push_consumer.py.                   *)
(*                                                                         *)
(* Each member has a subscription, with a version: the time at which it    *)
(* was made or last renewed, by the member's own clock.  Heartbeats take   *)
(* it to the broker, which keeps one for the whole group: that of the      *)
(* greatest version.  A pull names its member's version, and is refused    *)
(* while the broker knows only of an older one.  A pull that is served     *)
(* passes over what the broker's subscription does not want, by the hash   *)
(* of the tag; the member drops what its own does not want, by the tag.    *)
(* What is passed over or dropped is not delivered again, whoever wants    *)
(* it.                                                                     *)
(*                                                                         *)
(* Modelled: one topic, one queue that is full at the start and is owned   *)
(* by one member after the other, one broker; members that change what     *)
(* they want, and that renew their version because a rebalance changed     *)
(* something; versions that any clocks give, equal ones too; heartbeats    *)
(* that take their time, and one that is left out because another one is   *)
(* under way; two tags of one hash, "Aa" and "BB".                         *)
(*                                                                         *)
(* Left out: members that leave or crash, with which the broker forgets    *)
(* the subscription once they all have; other topics and brokers; a pull   *)
(* that is under way, or held, while its member changes what it wants: a   *)
(* pull is one step; what is delivered twice, which is OffsetCommit's;     *)
(* subscriptions that name no tag and want all; expressions of SQL92.      *)
(*                                                                         *)
(* Not in the core, being the members, the network and the store:          *)
(* subscribed, heartbeat, owner, nextOffset, moves; Subscribe,             *)
(* RenewSubVersion, SendHeartbeat, MoveQueue.                              *)
(* Ghosts: heard, pulled.                                                  *)
(***************************************************************************)
EXTENDS Naturals, Sequences

CONSTANTS
    Members,
    QueueTags,          \* the tags of the queue's messages
    Before,             \* member -> the tags that it wants first
    After,              \* member -> the tags that it wants once it changed its mind
    MaxVersion,
    MaxMoves,           \* how often the queue gets another owner
    PostsSubscription,  \* whether each pull carries its member's own subscription
    Defect              \* the guard or update that is left out; "none"

VARIABLES
    subscriptionTable,  \* what the broker keeps for the group; at first Nothing
    subscribed,         \* member -> what it wants
    subVersion,         \* member -> the version of that
    heartbeat,          \* member -> what its heartbeat under way carries, or Nothing
    owner,              \* who owns the queue
    nextOffset,         \* the group's position in it
    moves,
    heard,              \* the greatest version of all heartbeats that arrived
    pulled              \* the message that was passed or delivered in the last step

vars == <<subscriptionTable, subscribed, subVersion, heartbeat, owner, nextOffset, moves,
          heard, pulled>>

Tags == {"Aa", "BB", "C"}
Hash(tag) == IF tag = "BB" THEN "Aa" ELSE tag

Nothing == [tags |-> {}, version |-> 0]
Subscriptions == [tags : SUBSET Tags, version : 0..MaxVersion]

TypeOK ==
    /\ subscriptionTable \in Subscriptions
    /\ subscribed \in [Members -> SUBSET Tags]
    /\ subVersion \in [Members -> 1..MaxVersion]
    /\ heartbeat \in [Members -> Subscriptions]
    /\ owner \in Members
    /\ nextOffset \in 0..Len(QueueTags)
    /\ moves \in 0..MaxMoves
    /\ heard \in 0..MaxVersion

Init ==
    /\ subscriptionTable = Nothing
    /\ subscribed = Before
    /\ subVersion = [m \in Members |-> 1]
    /\ heartbeat = [m \in Members |-> Nothing]
    /\ owner = CHOOSE m \in Members : TRUE
    /\ nextOffset = 0
    /\ moves = 0
    /\ heard = 0
    /\ pulled = <<>>

-----------------------------------------------------------------------------
(***************************************************************************)
(* Each 30 s a member tells the broker what it wants.                      *)
(***************************************************************************)
SendHeartbeat(m) ==
    /\ heartbeat[m] = Nothing
    /\ subVersion[m] > subscriptionTable.version \* else nothing would come of it
    /\ subVersion[m] = 1 \/ Defect # "HeartbeatsOnlyOnChange"
    /\ heartbeat' = [heartbeat EXCEPT ![m] = [tags |-> subscribed[m],
                                              version |-> subVersion[m]]]
    /\ pulled' = <<>>
    /\ UNCHANGED <<subscriptionTable, subscribed, subVersion, owner, nextOffset, moves, heard>>

(***************************************************************************)
(* A rebalance changed something for a member, or its user changed what it *)
(* wants: the version is renewed, and a heartbeat goes out, unless one is  *)
(* under way.                                                              *)
(***************************************************************************)
Renew(m) ==
    /\ \E version \in subVersion[m] + 1..MaxVersion :
        /\ subVersion' = [subVersion EXCEPT ![m] = version]
        /\ heartbeat' = IF heartbeat[m] = Nothing
                        THEN [heartbeat EXCEPT ![m] = [tags |-> subscribed'[m],
                                                       version |-> version]]
                        ELSE heartbeat
    /\ pulled' = <<>>
    /\ UNCHANGED <<subscriptionTable, owner, nextOffset, moves, heard>>

RenewSubVersion(m) ==
    /\ UNCHANGED subscribed
    /\ Renew(m)

Subscribe(m) ==
    /\ subscribed[m] # After[m]
    /\ subscribed' = [subscribed EXCEPT ![m] = After[m]]
    /\ Renew(m)

(***************************************************************************)
(* A heartbeat arrives.  Of two subscriptions the broker keeps the one of  *)
(* the greater version, and the one that it has where they are equal.      *)
(***************************************************************************)
RegisterConsumer(m) ==
    /\ heartbeat[m] # Nothing
    /\ subscriptionTable' = IF \/ heartbeat[m].version > subscriptionTable.version
                               \/ Defect = "LastHeartbeatWins"
                            THEN heartbeat[m]
                            ELSE subscriptionTable
    /\ heard' = IF heartbeat[m].version > heard THEN heartbeat[m].version ELSE heard
    /\ heartbeat' = [heartbeat EXCEPT ![m] = Nothing]
    /\ pulled' = <<>>
    /\ UNCHANGED <<subscribed, subVersion, owner, nextOffset, moves>>

-----------------------------------------------------------------------------
(***************************************************************************)
(* The two stages of the filter.                                           *)
(***************************************************************************)
IsMatchedByConsumeQueue(tags, tag) == \E wanted \in tags : Hash(wanted) = Hash(tag)

IsWanted(tags, tag) == IF Defect = "ClientTrustsHash" THEN TRUE ELSE tag \in tags

(***************************************************************************)
(* The owner pulls the next message, unless the broker refuses it, which   *)
(* it does until it knows the member's version.                            *)
(***************************************************************************)
IsServed(m) ==
    \/ PostsSubscription
    \/ /\ subscriptionTable # Nothing
       /\ subscriptionTable.version >= subVersion[m] \/ Defect = "AnswersStale"

CheckPull(m) ==
    /\ owner = m
    /\ nextOffset < Len(QueueTags)
    /\ IsServed(m)
    /\ LET tag    == QueueTags[nextOffset + 1]
           known  == IF PostsSubscription
                     THEN [tags |-> subscribed[m], version |-> subVersion[m]]
                     ELSE subscriptionTable
           passes == /\ IsMatchedByConsumeQueue(known.tags, tag)
                     /\ IsWanted(subscribed[m], tag)
       IN  pulled' = <<[by |-> m, tag |-> tag, filter |-> known.version,
                        delivered |-> passes]>>
    /\ nextOffset' = nextOffset + 1
    /\ UNCHANGED <<subscriptionTable, subscribed, subVersion, heartbeat, owner, moves, heard>>

(***************************************************************************)
(* The queue gets another owner.                                           *)
(***************************************************************************)
MoveQueue(m) ==
    /\ owner # m
    /\ moves < MaxMoves
    /\ moves' = moves + 1
    /\ owner' = m
    /\ pulled' = <<>>
    /\ UNCHANGED <<subscriptionTable, subscribed, subVersion, heartbeat, nextOffset, heard>>

-----------------------------------------------------------------------------
Next ==
    \E m \in Members :
        \/ SendHeartbeat(m)
        \/ RenewSubVersion(m)
        \/ Subscribe(m)
        \/ RegisterConsumer(m)
        \/ CheckPull(m)
        \/ MoveQueue(m)

(***************************************************************************)
(* Heartbeats go out again and again and arrive, and an owner pulls.       *)
(***************************************************************************)
Fairness ==
    \A m \in Members :
        /\ WF_vars(SendHeartbeat(m))
        /\ WF_vars(RegisterConsumer(m))
        /\ WF_vars(CheckPull(m))

Spec == Init /\ [][Next]_vars /\ Fairness

-----------------------------------------------------------------------------
Last == pulled[1]
Pulled == pulled # <<>>

(***************************************************************************)
(* A listener gets only messages of tags that its member wants (SUBS-015). *)
(***************************************************************************)
OnlyWanted == Pulled /\ Last.delivered => Last.tag \in subscribed[Last.by]

(***************************************************************************)
(* No pull is filtered by a subscription that is older than its member's   *)
(* (SUBS-006).                                                             *)
(***************************************************************************)
NoOlderFilter == Pulled => Last.filter >= subVersion[Last.by]

(***************************************************************************)
(* The broker keeps the subscription of the greatest version (GROUP-009).  *)
(***************************************************************************)
NewestIsKept == subscriptionTable.version = heard

(***************************************************************************)
(* A message that some member of the group wants is delivered to one that  *)
(* does.  Never promised (SUBS-016).                                       *)
(***************************************************************************)
GroupMissesNothing ==
    Pulled /\ (\E m \in Members : Last.tag \in subscribed[m]) => Last.delivered

(***************************************************************************)
(* A message that the member wants that pulls it is delivered.  Never      *)
(* promised (SUBS-017), but to a member that is alone (SUBS-019).          *)
(***************************************************************************)
OwnerMissesNothing == Pulled /\ Last.tag \in subscribed[Last.by] => Last.delivered

AloneMissesNothing == (\A m, n \in Members : m = n) => OwnerMissesNothing

(***************************************************************************)
(* Pulls that are refused are served in the end, and the group comes to    *)
(* the end of the queue (SUBS-018).                                        *)
(***************************************************************************)
PullsGoOn == <>(nextOffset = Len(QueueTags))
=============================================================================
