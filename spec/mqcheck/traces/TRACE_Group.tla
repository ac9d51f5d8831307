----------------------------- MODULE TRACE_Group -----------------------------
(***************************************************************************)
(* What brokers knew of the members of one group, as steps of Group.       *)
(*                                                                         *)
(* | action               | process | x       | y                      |   *)
(* | Join, Crash          | nobody  | member  |                        |   *)
(* | RegisterConsumer     | broker  | member  | how many were notified |   *)
(* | CloseChannel         | broker  | member  | how many were notified |   *)
(* | ScanNotActiveChannel | broker  | member  | how many were notified |   *)
(* | NotifyAgain          | broker  |         | how many were notified |   *)
(* | ConsumerIdList       | broker  | members |                        |   *)
(* | Restart              | broker  |         |                        |   *)
(*                                                                         *)
(* Steps of the reference that Group leaves out: NotifyAgain, a change of  *)
(* subscriptions, or one more channel of a member; Restart, a broker that  *)
(* starts again and knows nobody.                                          *)
(*                                                                         *)
(* Hidden: status, but that a member joins before it is registered, and    *)
(* is silent before it expires; so UnregisterConsumer cannot be told from  *)
(* CloseChannel.  Whether a notice arrives: each counts as gone before the *)
(* next event.                                                             *)
(***************************************************************************)
EXTENDS Group, Trace

B == Process
M == Event[4]
Told == Event[5]

TInit == GroupInit /\ TraceInit

-----------------------------------------------------------------------------
NotifyAgain == Change(B, consumerTable[B]) /\ UNCHANGED <<status, perturbations>>

Restart ==
    /\ consumerTable' = [consumerTable EXCEPT ![B] = {}]
    /\ UNCHANGED <<notices, status, perturbations>>

NoticesAreGone == notices' = {} /\ UNCHANGED <<consumerTable, status, perturbations>>

Notified == Cardinality(notices') = Told

Step ==
    CASE Action = "Join" -> Join(M)
      [] Action = "Crash" -> Crash(M)
      [] Action = "NoticesAreGone" -> NoticesAreGone
      [] Action = "RegisterConsumer" -> RegisterConsumer(M, B) /\ Notified
      [] Action = "CloseChannel" -> CloseChannel(M, B) /\ Notified
      [] Action = "ScanNotActiveChannel" -> ScanNotActiveChannel(M, B) /\ Notified
      [] Action = "NotifyAgain" -> NotifyAgain /\ Notified
      [] Action = "Restart" -> Restart
      [] Action = "ConsumerIdList" ->
            {M[i] : i \in DOMAIN M} = consumerTable[B] /\ UNCHANGED groupVars
      [] OTHER -> FALSE

ReadStep == ReadEvent /\ Step

TNext == ReadStep \/ (EditTrace /\ UNCHANGED groupVars)

Shown == [consumerTable |-> consumerTable, status |-> status]

TellAll == Tell(TRUE, ENABLED ReadStep, Shown)
=============================================================================
