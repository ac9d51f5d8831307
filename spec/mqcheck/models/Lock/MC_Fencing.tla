------------------------------ MODULE MC_Fencing ------------------------------
(***************************************************************************)
(* The smallest change under which a listener that outlives its lock does  *)
(* no harm: a fencing token.                                               *)
(*                                                                         *)
(* Each grant of the lock to another holder carries a token, larger than   *)
(* all before, also after a restart of the broker.  A listener hands in    *)
(* the token that it started with when it writes its result, and whoever   *)
(* keeps results refuses a token smaller than one it has seen.  Two        *)
(* listeners may still work at once; what counts is in the order of the    *)
(* grants.                                                                 *)
(***************************************************************************)
EXTENDS Lock

CONSTANTS
    Fenced,     \* whether tokens are looked at
    MaxTokens   \* how many grants there are

VARIABLES
    granted,    \* the last token
    token,      \* member -> the token of its last grant
    work,       \* member -> the token with which its listener started
    accepted    \* the token of the last result that was kept

fencedVars == <<vars, granted, token, work, accepted>>

IsGranted(m) ==
    /\ mqLockTable' # NoLock
    /\ mqLockTable'.clientId = m
    /\ mqLockTable = NoLock \/ mqLockTable.clientId # m

Starts(m) == listening[m] = Idle /\ listening'[m] # Idle
Ends(m) == listening[m] # Idle /\ listening'[m] = Idle /\ m \notin crashed'

Tokens ==
    /\ granted' = IF \E m \in Members : IsGranted(m) THEN granted + 1 ELSE granted
    /\ granted' <= MaxTokens
    /\ token' = [m \in Members |-> IF IsGranted(m) THEN granted' ELSE token[m]]
    /\ work' = [m \in Members |-> IF Starts(m) THEN token[m] ELSE work[m]]
    /\ accepted' =
        IF \E m \in Members : Ends(m) /\ (~Fenced \/ work[m] >= accepted)
        THEN work[CHOOSE m \in Members : Ends(m)] ELSE accepted

FencedInit ==
    /\ Init
    /\ granted = 0
    /\ token = [m \in Members |-> 0]
    /\ work = [m \in Members |-> 0]
    /\ accepted = 0

FencedNext == Next /\ Tokens

FencedSpec == FencedInit /\ [][FencedNext]_fencedVars

-----------------------------------------------------------------------------
FencedTypeOK ==
    /\ TypeOK
    /\ granted \in 0..MaxTokens
    /\ \A m \in Members : work[m] <= token[m] /\ token[m] <= granted
    /\ accepted <= granted

(***************************************************************************)
(* LOCK-030.  No result is kept after that of a later holder.              *)
(***************************************************************************)
ResultsInOrderOfGrants == [][accepted' >= accepted]_fencedVars

(***************************************************************************)
(* Nobody is refused who has the newest token.                             *)
(***************************************************************************)
NewestIsAccepted ==
    [][\A m \in Members : Ends(m) /\ work[m] = granted => accepted' = granted]_fencedVars
=============================================================================
