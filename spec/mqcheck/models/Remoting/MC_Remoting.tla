------------------------------ MODULE MC_Remoting ------------------------------
(***************************************************************************)
(* One connection of a client: requests, each with an opaque, and answers  *)
(* that come in any order, too late, or never.                             *)
(*                                                                         *)
(* A request is known by its opaque alone: an answer completes the open    *)
(* request of its opaque, and one that comes too late, for a request that  *)
(* was given up, completes none.                                           *)
(*                                                                         *)
(* Left out: what requests say; one-way requests, which are never open.    *)
(***************************************************************************)
EXTENDS Naturals, FiniteSets

CONSTANTS
    Requests,      \* how many requests there are
    CopiesOpaque   \* a defect, FALSE in the protocol: a request that is made as a copy of
                   \* the one before has its opaque too

VARIABLES
    requestId,      \* the counter that opaques are taken from
    responseTable,  \* opaque -> the open request that has it
    network,        \* requests and answers on their way
    answered        \* request -> the request whose answer it got, 0: none

vars == <<requestId, responseTable, network, answered>>

All == 1..Requests

Message(kind, opaque, r) == [kind |-> kind, opaque |-> opaque, request |-> r]

Init ==
    /\ requestId = 0
    /\ responseTable = [o \in {} |-> 0]
    /\ network = {}
    /\ answered = [r \in All |-> 0]

(***************************************************************************)
(* The client sends its next request; answers find it by its opaque.       *)
(***************************************************************************)
Entered(opaque, r) ==
    [o \in DOMAIN responseTable \cup {opaque} |-> IF o = opaque THEN r ELSE responseTable[o]]

Invoke ==
    LET r == requestId + 1
        opaque == IF CopiesOpaque /\ requestId > 0 THEN requestId - 1 ELSE requestId
    IN  /\ r <= Requests
        /\ requestId' = r
        /\ responseTable' = Entered(opaque, r)
        /\ network' = network \cup {Message("request", opaque, r)}
        /\ UNCHANGED answered

(***************************************************************************)
(* The server answers, with the opaque of the request.                     *)
(***************************************************************************)
Answer(m) ==
    /\ m.kind = "request"
    /\ network' = (network \ {m}) \cup {Message("response", m.opaque, m.request)}
    /\ UNCHANGED <<requestId, responseTable, answered>>

Without(opaque) == [o \in DOMAIN responseTable \ {opaque} |-> responseTable[o]]

(***************************************************************************)
(* An answer comes, and completes the request that is open, if any is.     *)
(***************************************************************************)
Complete(m) ==
    /\ m.kind = "response"
    /\ network' = network \ {m}
    /\ IF m.opaque \in DOMAIN responseTable
       THEN /\ answered' = [answered EXCEPT ![responseTable[m.opaque]] = m.request]
            /\ responseTable' = Without(m.opaque)
       ELSE UNCHANGED <<answered, responseTable>>
    /\ UNCHANGED requestId

(***************************************************************************)
(* The client waits no longer; a message is lost with its connection.      *)
(***************************************************************************)
TimeOut(opaque) ==
    /\ responseTable' = Without(opaque)
    /\ UNCHANGED <<requestId, network, answered>>

Lose(m) ==
    /\ network' = network \ {m}
    /\ UNCHANGED <<requestId, responseTable, answered>>

Next ==
    \/ Invoke
    \/ \E m \in network : Answer(m) \/ Complete(m) \/ Lose(m)
    \/ \E opaque \in DOMAIN responseTable : TimeOut(opaque)

Spec ==
    /\ Init
    /\ [][Next]_vars
    /\ WF_vars(\E opaque \in DOMAIN responseTable : TimeOut(opaque))

-----------------------------------------------------------------------------
TypeOK ==
    /\ requestId \in 0..Requests
    /\ \A o \in DOMAIN responseTable : responseTable[o] \in All
    /\ answered \in [All -> 0..Requests]

(***************************************************************************)
(* WIRE-019.  Who gets an answer gets its own; and of the open requests of *)
(* a connection each can be told from the others.                          *)
(***************************************************************************)
AnswersAreOwn == \A r \in All : answered[r] \in {0, r}

OpenAreTold == \A m, n \in network : m.opaque = n.opaque => m = n

(***************************************************************************)
(* No request waits for ever.                                              *)
(***************************************************************************)
NobodyWaits == []<>(DOMAIN responseTable = {})

(***************************************************************************)
(* Broken, to show that the model is not empty: all get their answers.     *)
(***************************************************************************)
NeverAllAnswered == \E r \in All : answered[r] = 0
===============================================================================
