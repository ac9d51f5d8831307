--------------------------- MODULE RetryInductive ---------------------------
(***************************************************************************)
(* What is true of Retry in every state, for any number of messages,       *)
(* members, tries, losses and crashes.                                     *)
(***************************************************************************)
EXTENDS Retry

(***************************************************************************)
(* A group without retry queues does lose what it fails on (RETRY-006).    *)
(***************************************************************************)
Bounds == MaxReconsumeTimes >= 0 /\ ~DropsSendBack

(***************************************************************************)
(* No number is below none, and what a member works on was tried no more   *)
(* often than is allowed: a copy that is put aside is put where it is      *)
(* looked for.  Only who works on something asks anything of the broker.   *)
(***************************************************************************)
CopiesAreNatural ==
    \A m \in Messages :
        /\ deadLetters[m] >= 0
        /\ consumed[m] >= 0
        /\ \A n \in Times : waiting[m][n] >= 0

WorkIsAllowed ==
    \A c \in Members :
        /\ held[c] # Nothing => held[c].times \in Times
        /\ request[c] # "none" => held[c] # Nothing

Somewhere == CopiesAreNatural /\ WorkIsAllowed /\ NothingLost

(***************************************************************************)
(* Who is done with what it failed on has left a copy (RETRY-018): one     *)
(* more than there was is in a topic, and none is gone.  DoneWhenAnswered  *)
(* says it by the number of copies of all tries.                           *)
(***************************************************************************)
NoneIsTaken(m) ==
    /\ deadLetters'[m] >= deadLetters[m]
    /\ \A n \in Times : waiting'[m][n] >= waiting[m][n]

OneIsAdded(m) ==
    \/ deadLetters'[m] > deadLetters[m]
    \/ \E n \in Times : waiting'[m][n] > waiting[m][n]

DoneLeavesACopy ==
    [][\A m \in Messages : \A c \in AtWork(m) : request[c] # "none" /\ held'[c] = Nothing =>
        losses' = losses /\ NoneIsTaken(m) /\ OneIsAdded(m)]_vars

(***************************************************************************)
(* No copy vanishes, said of each step and not of sums: where one is taken *)
(* from a place it is one, from one place, and another place gets one.     *)
(***************************************************************************)
AtWorkAfter(m) == {c \in Members : held'[c] # Nothing /\ held'[c].message = m}

WaitsNoLess(m, n) == waiting'[m][n] >= waiting[m][n]

EndsNoLess(m) == deadLetters'[m] >= deadLetters[m] /\ consumed'[m] >= consumed[m]

NoneVanishes(m) ==
    /\ AtWork(m) \subseteq AtWorkAfter(m)
    /\ \A n \in Times : WaitsNoLess(m, n)

OneIsDone(m) ==
    /\ \E c \in AtWork(m) : AtWork(m) \subseteq AtWorkAfter(m) \cup {c}
    /\ \A n \in Times : WaitsNoLess(m, n)
    /\ OneIsAdded(m) \/ consumed'[m] > consumed[m]

OneIsDelivered(m) ==
    /\ AtWork(m) \subseteq AtWorkAfter(m)
    /\ \E c \in AtWorkAfter(m) : c \notin AtWork(m)
    /\ \E n \in Times :
        /\ waiting'[m][n] = waiting[m][n] - 1
        /\ \A other \in Times \ {n} : WaitsNoLess(m, other)

NoneIsLess ==
    [][\A m \in Messages :
        EndsNoLess(m) /\ (NoneVanishes(m) \/ OneIsDone(m) \/ OneIsDelivered(m))]_vars

(***************************************************************************)
(* And where every request is answered there is one copy: in one place.    *)
(***************************************************************************)
OnceBounds == Bounds /\ MaxLosses = 0

InOnePlace ==
    \A m \in Messages :
        /\ consumed[m] + deadLetters[m] <= 1
        /\ consumed[m] + deadLetters[m] = 1 => AtWork(m) = {} /\ Waiting(m) = {}
        /\ AtWork(m) # {} => Waiting(m) = {}
        /\ \A c1, c2 \in AtWork(m) : c1 = c2
        /\ \A n1, n2 \in Waiting(m) : n1 = n2
        /\ \A n \in Times : waiting[m][n] <= 1

NothingIsSentAgain == losses >= 0 /\ \A c \in Members : request[c] # "send"

Once == Somewhere /\ NothingIsSentAgain /\ InOnePlace
=============================================================================
