--------------------------- MODULE MC_PopSwitched ---------------------------
(***************************************************************************)
(* A group that pops comes to pull: its clients are deployed anew, or an   *)
(* administrator says so (401).  Who pulls reads the topic's queue from    *)
(* the group's offset on, and knows nothing of the retry topic of those    *)
(* who pop.  What was popped may be acknowledged still.                    *)
(***************************************************************************)
EXTENDS Pop

CONSTANT WhenAcknowledged   \* TRUE: it comes to that when all that was popped is acknowledged

VARIABLE pulls              \* whether the group pulls, and pops no more

switchVars == <<popVars, pulls>>

SwitchInit == PopInit /\ pulls = FALSE

SwitchToPull ==
    /\ ~pulls
    /\ WhenAcknowledged => 1 .. offsetTable["topic"] \subseteq consumed
    /\ pulls' = TRUE
    /\ UNCHANGED popVars

PullMessage ==
    LET m == offsetTable["topic"] + 1
    IN  /\ pulls
        /\ m <= Messages
        /\ offsetTable' = [offsetTable EXCEPT !["topic"] = m]
        /\ consumed' = consumed \cup {m}
        /\ UNCHANGED <<log, flushed, disk, scanOffset, checkPoints, handles, late, due, popTime,
                       ackedInTime, poppedAgain, crashes, abandoned, changes, replaced,
                       persists, pulls>>

\* As before, but that nobody pops any more.
PopsStill == ~pulls /\ Pops /\ UNCHANGED pulls
StaysSo(action) == action /\ UNCHANGED pulls
GivesUp == \E h \in handles : StaysSo(Abandon(h))

SwitchNext ==
    \/ SwitchToPull
    \/ PullMessage
    \/ PopsStill
    \/ StaysSo(Acks)
    \/ \E h \in late : StaysSo(AckMessage(h))
    \/ GivesUp
    \/ StaysSo(TimesUp)
    \/ StaysSo(ConsumeReviveMessage)
    \/ StaysSo(Revives)

SwitchSpec ==
    /\ SwitchInit
    /\ [][SwitchNext]_switchVars
    /\ WF_switchVars(PullMessage)
    /\ WF_switchVars(PopsStill)
    /\ WF_switchVars(StaysSo(Acks))
    /\ WF_switchVars(StaysSo(TimesUp))
    /\ WF_switchVars(StaysSo(ConsumeReviveMessage))
    /\ WF_switchVars(StaysSo(Revives))

-----------------------------------------------------------------------------
(***************************************************************************)
(* POP-047, an ideal: what the group has not consumed is before who pulls, *)
(* or a consumer has it that will acknowledge it.                          *)
(***************************************************************************)
NothingStranded ==
    pulls => \A m \in AllMessages \ consumed :
        m > offsetTable["topic"] \/ \E h \in handles : h.msg = m
=============================================================================
