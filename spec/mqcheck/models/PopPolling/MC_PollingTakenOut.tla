------------------------- MODULE MC_PollingTakenOut -------------------------
(***************************************************************************)
(* Whose time is up is looked for by one thread, which takes the first pop *)
(* of a key out, looks at its time, and puts it back where there is some   *)
(* left, as 5.3.3 does it each 20 ms.  Of a message that is told of        *)
(* meanwhile the pop does not hear.                                        *)
(***************************************************************************)
EXTENDS PopPolling

VARIABLE
    out    \* the pop that the thread has out, or Nobody

outVars == <<vars, out>>

OutInit == Init /\ out = Nobody

OutTypeOK ==
    /\ out \in Consumers \cup {Nobody}
    /\ out \notin Held
    /\ Held \cup ({out} \ {Nobody}) = {c \in Consumers : phase[c] = "held"}

-----------------------------------------------------------------------------
TakeOut(key) ==
    /\ out = Nobody
    /\ pollingMap[key] # <<>>
    /\ out' = Head(pollingMap[key])
    /\ pollingMap' = [pollingMap EXCEPT ![key] = Tail(@)]
    /\ UNCHANGED <<available, arrivals, sent, pops, lock, phase, sees, last>>

PutBack ==
    /\ out # Nobody
    /\ out' = Nobody
    /\ pollingMap' = [pollingMap EXCEPT ![Key(out)] = <<out>> \o @]
    /\ UNCHANGED <<available, arrivals, sent, pops, lock, phase, sees, last>>

ForgetOut(c) == out = c /\ Forget(c) /\ out' = Nobody

-----------------------------------------------------------------------------
OutNext ==
    \/ \E key \in Keys : TakeOut(key)
    \/ PutBack
    \/ \E c \in Consumers : ForgetOut(c)
    \/ /\ \/ PutMessage
          \/ NotifyMessageArriving
          \/ \E c \in Consumers : PopMessage(c) \/ LockQueue(c) \/ ReadQueue(c) \/ Polling(c)
       /\ UNCHANGED out

(***************************************************************************)
(* The thread goes on, and each pop's time is up in the end.               *)
(***************************************************************************)
OutFairness ==
    /\ \A c \in Consumers :
        /\ WF_outVars(LockQueue(c) /\ UNCHANGED out)
        /\ WF_outVars(ReadQueue(c) /\ UNCHANGED out)
        /\ WF_outVars(Polling(c) /\ UNCHANGED out)
        /\ SF_outVars(ForgetOut(c))
    /\ \A key \in Keys : SF_outVars(TakeOut(key))
    /\ WF_outVars(PutBack)

OutSpec == OutInit /\ [][OutNext]_outVars /\ OutFairness
=============================================================================
