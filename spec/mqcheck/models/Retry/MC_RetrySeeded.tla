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
IgnoreFailure ==
    /\ request # "none"
    /\ losses < MaxLosses
    /\ losses' = losses + 1
    /\ request' = "none"
    /\ held' = Nothing
    /\ UNCHANGED <<retryTopic, deadLetters, consumed>>

IgnoresSendBack == Init /\ [][Next \/ IgnoreFailure]_vars /\ Fairness

(***************************************************************************)
(* The consumer reports progress past a message whose send-back failed,    *)
(* means to try that again, and dies.  Its queue goes on behind it.        *)
(***************************************************************************)
DieBetween ==
    /\ request = "send"
    /\ request' = "none"
    /\ held' = Nothing
    /\ UNCHANGED <<retryTopic, deadLetters, consumed, losses>>

PassesBeforeSendBack == Init /\ [][Next \/ DieBetween]_vars /\ Fairness

(***************************************************************************)
(* The first broker is gone, for good, and no send-back arrives.  The      *)
(* listener fails every time.  Copies go to the retry topic on another     *)
(* broker, which does not look how often they were tried.                  *)
(***************************************************************************)
HandleWithoutLimit ==
    /\ request = "send"
    /\ Retry(IF held = MaxReconsumeTimes THEN held ELSE held + 1)
    /\ Answer("none")
    /\ UNCHANGED consumed

LoseSendBack ==
    /\ request = "send back"
    /\ request' = "send"
    /\ UNCHANGED <<retryTopic, deadLetters, held, consumed, losses>>

TriesForEver ==
    /\ Init
    /\ [][\/ \E n \in Times : Deliver(n)
          \/ Fail
          \/ LoseSendBack
          \/ HandleWithoutLimit]_vars
    /\ \A n \in Times : SF_vars(Deliver(n))
    /\ WF_vars(Fail)
    /\ WF_vars(LoseSendBack)
    /\ WF_vars(HandleWithoutLimit)
=============================================================================
