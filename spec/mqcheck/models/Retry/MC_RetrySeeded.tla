---------------------------- MODULE MC_RetrySeeded ----------------------------
(***************************************************************************)
(* What public reports tell of messages that are sent back: each is Retry  *)
(* with one step more.  The catalogue of defects says where each comes     *)
(* from.                                                                   *)
(***************************************************************************)
EXTENDS Retry

(***************************************************************************)
(* The send-back fails, and the consumer goes on as if it had not.         *)
(***************************************************************************)
IgnoreFailure(c) ==
    /\ request[c] # "none"
    /\ losses < MaxLosses
    /\ losses' = losses + 1
    /\ request' = [request EXCEPT ![c] = "none"]
    /\ held' = [held EXCEPT ![c] = Nothing]
    /\ UNCHANGED <<waiting, deadLetters, consumed, crashes>>

IgnoresSendBack == Init /\ [][Next \/ \E c \in Members : IgnoreFailure(c)]_vars /\ Fairness

(***************************************************************************)
(* The consumer reports progress past a message whose send-back failed,    *)
(* means to try that again, and dies.  Its queue goes on behind it.        *)
(***************************************************************************)
DieBetween(c) ==
    /\ request[c] = "send"
    /\ request' = [request EXCEPT ![c] = "none"]
    /\ held' = [held EXCEPT ![c] = Nothing]
    /\ UNCHANGED <<waiting, deadLetters, consumed, losses, crashes>>

PassesBeforeSendBack == Init /\ [][Next \/ \E c \in Members : DieBetween(c)]_vars /\ Fairness

(***************************************************************************)
(* The first broker is gone, for good, and no send-back arrives.  The      *)
(* listener fails every time.  Copies go to the retry topic on another     *)
(* broker, which does not look how often they were tried.                  *)
(***************************************************************************)
HandleWithoutLimit(c) ==
    LET tries == held[c].times
    IN  /\ request[c] = "send"
        /\ Retry(held[c].message, IF tries = MaxReconsumeTimes THEN tries ELSE tries + 1)
        /\ Answer(c, "none")
        /\ UNCHANGED <<consumed, crashes>>

LoseSendBack(c) ==
    /\ request[c] = "send back"
    /\ request' = [request EXCEPT ![c] = "send"]
    /\ UNCHANGED <<waiting, deadLetters, held, consumed, losses, crashes>>

DeliverAny(m, n) == \E c \in Members : Deliver(c, m, n)

TriesForEver ==
    /\ Init
    /\ [][\/ \E m \in Messages, n \in Times : DeliverAny(m, n)
          \/ \E c \in Members :
              \/ Fail(c)
              \/ LoseSendBack(c)
              \/ HandleWithoutLimit(c)]_vars
    /\ \A m \in Messages, n \in Times : SF_vars(DeliverAny(m, n))
    /\ \A c \in Members :
        /\ WF_vars(Fail(c))
        /\ WF_vars(LoseSendBack(c))
        /\ WF_vars(HandleWithoutLimit(c))
=============================================================================
