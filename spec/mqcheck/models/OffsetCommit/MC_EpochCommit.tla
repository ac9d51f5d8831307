---------------------------- MODULE MC_EpochCommit ----------------------------
(***************************************************************************)
(* The smallest change under which what is stored never goes back, though  *)
(* queues have two owners at times: an epoch on the commit.                *)
(*                                                                         *)
(* A member that starts on a queue begins an epoch of it at the broker,    *)
(* with the question where to start.  Its commits carry the epoch, and     *)
(* the broker drops those of an earlier one.  LoseCommit stands for that:  *)
(* a commit that is dropped and one that is lost come to the same.         *)
(***************************************************************************)
EXTENDS OffsetCommit

CONSTANT Epochs  \* whether the broker looks at them

VARIABLES
    latest,   \* queue -> who began its epoch, or None
    stale     \* commits on their way that were sent in an earlier epoch

epochVars == <<vars, latest, stale>>

Begins(m, q) == ~Holds(m, q) /\ Holds(m, q)'

Stored(commit) == commit \notin network' /\ offsetTable'[commit.queue] # offsetTable[commit.queue]

FollowsEpochs ==
    /\ latest' = [q \in Queues |->
        IF \E m \in Members : Begins(m, q) THEN CHOOSE m \in Members : Begins(m, q)
        ELSE latest[q]]
    /\ stale' = {commit \in network' : \/ commit \in stale
                                       \/ /\ commit \in network
                                          /\ \E m \in Members : Begins(m, commit.queue)}
    /\ Epochs => \A commit \in network :
        Stored(commit) => commit.member = latest[commit.queue] /\ commit \notin stale

EpochInit == Init /\ latest = [q \in Queues |-> None] /\ stale = {}

EpochNext == Next /\ FollowsEpochs

EpochSpec == EpochInit /\ [][EpochNext]_epochVars

-----------------------------------------------------------------------------
(***************************************************************************)
(* Broken, to show that the model is not empty: commits do come too late.  *)
(***************************************************************************)
NeverStale == stale = {} /\ \A commit \in network : commit.member = latest[commit.queue]
=============================================================================
