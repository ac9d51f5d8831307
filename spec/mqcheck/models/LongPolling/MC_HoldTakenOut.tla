--------------------------- MODULE MC_HoldTakenOut --------------------------
(***************************************************************************)
(* Who looks at held pulls takes all of them out, judges them one by one,  *)
(* and puts back those that stay held, as 5.3.3 has it (cloneListAndClear, *)
(* addPullRequest).  Two threads do so: the one that dispatches, of each   *)
(* message that it tells of, and the one that looks.  What one of them has *)
(* out the other does not see.  No time passes meanwhile.                  *)
(***************************************************************************)
EXTENDS LongPolling

VARIABLES
    taken,    \* thread -> the held pulls that it has out
    doing     \* thread -> "idle", "judges", or "puts back"

holdVars == <<taken, doing>>

Threads == {"arrival", "check"}
Out == UNION {taken[t] : t \in Threads}

HoldInit ==
    /\ Init
    /\ taken = [t \in Threads |-> {}]
    /\ doing = [t \in Threads |-> "idle"]

HoldTypeOK ==
    /\ TypeOK
    /\ taken \in [Threads -> SUBSET Consumers]
    /\ doing \in [Threads -> {"idle", "judges", "puts back"}]
    /\ Out \cap pullRequestTable = {}

-----------------------------------------------------------------------------
(***************************************************************************)
(* A thread takes out what is held: there is a message to tell of, which   *)
(* those that are held from now on were not told of; or it is time to look.*)
(***************************************************************************)
TakeOut(t) ==
    /\ doing[t] = "idle"
    /\ IF t = "check" THEN sinceCheck = CheckInterval ELSE arrived < maxOffset
    /\ taken' = [taken EXCEPT ![t] = pullRequestTable]
    /\ doing' = [doing EXCEPT ![t] = "judges"]
    /\ pullRequestTable' = {}
    /\ arrived' = IF t = "check" THEN arrived ELSE arrived + 1
    /\ answers' = {}
    /\ UNCHANGED <<queue, maxOffset, reading, pullFromThisOffset, waited, sinceCheck, heldAt>>

(***************************************************************************)
(* It answers those that are to be answered; where the two read the        *)
(* queue's end, it is as it is now.                                        *)
(***************************************************************************)
Judge(t) ==
    LET wants(c) == IF t = "check" THEN maxOffset > pullFromThisOffset[c]
                    ELSE arrived > pullFromThisOffset[c] /\ queue[arrived] = "A"
        woken    == {c \in taken[t] : wants(c) \/ IsDue(c)}
    IN  /\ doing[t] = "judges"
        /\ doing' = [doing EXCEPT ![t] = "puts back"]
        /\ taken' = [taken EXCEPT ![t] = @ \ woken]
        /\ Answer(woken, t)
        /\ sinceCheck' = IF t = "check" THEN 0 ELSE sinceCheck
        /\ UNCHANGED <<queue, maxOffset, arrived, reading, pullRequestTable>>

PutBack(t) ==
    /\ doing[t] = "puts back"
    /\ doing' = [doing EXCEPT ![t] = "idle"]
    /\ taken' = [taken EXCEPT ![t] = {}]
    /\ pullRequestTable' = pullRequestTable \cup taken[t]
    /\ answers' = {}
    /\ UNCHANGED <<queue, maxOffset, arrived, reading, pullFromThisOffset, waited,
                   sinceCheck, heldAt>>

-----------------------------------------------------------------------------
HoldNext ==
    \/ \E t \in Threads : TakeOut(t) \/ Judge(t) \/ PutBack(t)
    \/ /\ \/ \E tag \in Tags : PutMessage(tag)
          \/ doing["arrival"] = "idle" /\ Dispatch
          \/ \E c \in Consumers \ Out : PullMessage(c)
          \/ \E c \in Consumers : SuspendPullRequest(c)
          \/ (\A t \in Threads : doing[t] = "idle") /\ Tick
       /\ UNCHANGED holdVars

HoldFairness ==
    /\ \A c \in Consumers : WF_<<vars, holdVars>>(SuspendPullRequest(c) /\ UNCHANGED holdVars)
    /\ WF_<<vars, holdVars>>(TakeOut("check"))
    /\ \A t \in Threads : WF_<<vars, holdVars>>(Judge(t)) /\ WF_<<vars, holdVars>>(PutBack(t))
    /\ WF_<<vars, holdVars>>((\A t \in Threads : doing[t] = "idle") /\ Tick /\ UNCHANGED holdVars)

HoldSpec == HoldInit /\ [][HoldNext]_<<vars, holdVars>> /\ HoldFairness

-----------------------------------------------------------------------------
(***************************************************************************)
(* A look leaves no pull that it has out behind with a message: one of     *)
(* which nobody was told waits for a look only.                            *)
(***************************************************************************)
LooksFindAll ==
    [][doing["check"] = "judges" /\ doing'["check"] = "puts back"
        => \A c \in taken'["check"] : maxOffset <= pullFromThisOffset[c]]_<<vars, holdVars>>

(***************************************************************************)
(* Every held pull is answered in the end (PULL-013).                      *)
(***************************************************************************)
EveryHeldPullIsAnswered ==
    \A c \in Consumers : c \in reading \cup pullRequestTable \cup Out
                            ~> c \notin reading \cup pullRequestTable \cup Out

(***************************************************************************)
(* A witness, to be violated: each look has out whatever is held.  One     *)
(* that comes while a message is told of leaves those to the next look.    *)
(***************************************************************************)
LooksSeeAll ==
    [][doing["check"] = "idle" /\ doing'["check"] = "judges" => taken["arrival"] = {}
      ]_<<vars, holdVars>>
=============================================================================
