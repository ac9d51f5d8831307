----------------------------- MODULE Transaction -----------------------------
(***************************************************************************)
(* Half messages are seen only once their producer has committed them; one *)
(* that gets no end is checked back, and parked after the last check.      *)
(* Twin of mqspec/core/transaction.py.                                     *)
(*                                                                         *)
(* Modelled: the half queue and the op queue, ends that are noted in       *)
(* memory first, check-backs that append the half again, commits whose put *)
(* fails, answers and check-backs that are lost, offsets that reach the    *)
(* disk now and then, kills of the broker.                                 *)
(*                                                                         *)
(* Left out: time, so that a half may be checked at any moment after its   *)
(* Prepare; immunities of their own; which producer is asked.  A round of  *)
(* checks is a step for each half; where its put fails it is none, and the *)
(* half is looked at again.                                                *)
(*                                                                         *)
(* Not in the core, being the environment: halfQueue, opQueue, disk,       *)
(* topic, parked, asked, outcome, Decide, FailToPublish, LoseCheck,        *)
(* Persist, Kill.                                                          *)
(* Ghosts: sentEnds, accepted, crashes, failures.                          *)
(***************************************************************************)
EXTENDS Integers, Sequences, FiniteSets

CONSTANTS
    Transactions,
    MaxChecks,    \* how often a half is checked
    MaxCrashes,
    MaxFailures,  \* how many commits fail to put their message
    EndsFirst,    \* TRUE: no half is checked before its producer has ended it
    \* A defect, FALSE in the protocol as it is:
    NotesFailedCommits  \* a commit counts as an end although its message was not stored

VARIABLES
    halfQueue,   \* the halves, with the number of their checks
    opQueue,     \* op messages: sets of queue offsets of ended halves
    halfOffset,  \* halves before it are ended, or were appended again
    opOffset,    \* op messages before it are not needed any more
    opBatch,     \* queue offsets of ended halves that are in no op message yet
    disk,        \* both offsets, as a kill leaves them
    topic,       \* how often each message was published
    parked,      \* transactions that are checked no more
    asked,       \* the halves that check-backs on their way are about
    outcome,     \* what the producers' own transactions came to
    sentEnds,    \* halves that a producer has ended without being asked
    accepted,    \* transactions with an end that was answered with success
    crashes,
    failures

transactionVars == <<halfQueue, opQueue, halfOffset, opOffset, opBatch, disk, topic, parked,
                     asked, outcome, sentEnds, accepted, crashes, failures>>

-----------------------------------------------------------------------------
Half(o) == halfQueue[o + 1]

Halves == 0 .. Len(halfQueue) - 1

Prepared == {Half(o).transaction : o \in Halves}

Entry(t, times) == [transaction |-> t, times |-> times]

(***************************************************************************)
(* The halves that the broker knows to be ended.                           *)
(***************************************************************************)
Ended == opBatch \cup UNION {opQueue[i] : i \in opOffset + 1 .. Len(opQueue)}

(***************************************************************************)
(* Op messages that name only halves before an offset are done, up to the  *)
(* first that does not.                                                    *)
(***************************************************************************)
DoneBefore(offset) ==
    LET NotDone == {i \in DOMAIN opQueue : i > opOffset /\ \E o \in opQueue[i] : o >= offset}
    IN  IF NotDone = {} THEN Len(opQueue)
        ELSE (CHOOSE i \in NotDone : \A j \in NotDone : i <= j) - 1

(***************************************************************************)
(* A producer may end its half: once of its own accord, and as often as it *)
(* is asked.                                                               *)
(***************************************************************************)
MayEnd(o) ==
    /\ outcome[Half(o).transaction] /= "undecided"
    /\ \/ o \in asked
       \/ Half(o).times = 0 /\ o \notin sentEnds

Sent(o) ==
    /\ asked' = asked \ {o}
    /\ sentEnds' = IF o \in asked THEN sentEnds ELSE sentEnds \cup {o}

-----------------------------------------------------------------------------
TransactionInit ==
    /\ halfQueue = <<>>
    /\ opQueue = <<>>
    /\ halfOffset = 0
    /\ opOffset = 0
    /\ opBatch = {}
    /\ disk = [half |-> 0, op |-> 0]
    /\ topic = [t \in Transactions |-> 0]
    /\ parked = {}
    /\ asked = {}
    /\ outcome = [t \in Transactions |-> "undecided"]
    /\ sentEnds = {}
    /\ accepted = {}
    /\ crashes = 0
    /\ failures = 0

(***************************************************************************)
(* A half message is stored in the half queue.                             *)
(***************************************************************************)
Prepare(t) ==
    /\ t \notin Prepared
    /\ halfQueue' = Append(halfQueue, Entry(t, 0))
    /\ UNCHANGED <<opQueue, halfOffset, opOffset, opBatch, disk, topic, parked, asked, outcome,
                   sentEnds, accepted, crashes, failures>>

(***************************************************************************)
(* The producer's own transaction comes to its end.                        *)
(***************************************************************************)
Decide(t) ==
    /\ t \in Prepared
    /\ outcome[t] = "undecided"
    /\ \E end \in {"commit", "rollback"} : outcome' = [outcome EXCEPT ![t] = end]
    /\ UNCHANGED <<halfQueue, opQueue, halfOffset, opOffset, opBatch, disk, topic, parked, asked,
                   sentEnds, accepted, crashes, failures>>

(***************************************************************************)
(* A producer ends a half.  Whether it was ended before, or appended again *)
(* meanwhile, is not asked: each commit publishes.                         *)
(***************************************************************************)
EndTransaction ==
    \E o \in Halves :
        /\ MayEnd(o)
        /\ Sent(o)
        /\ LET t == Half(o).transaction
           IN  /\ topic' = [topic EXCEPT ![t] = IF outcome[t] = "commit" THEN @ + 1 ELSE @]
               /\ accepted' = accepted \cup {t}
        /\ opBatch' = opBatch \cup {o}
        /\ UNCHANGED <<halfQueue, opQueue, halfOffset, opOffset, disk, parked, outcome, crashes,
                       failures>>

(***************************************************************************)
(* The message of a commit is not stored, and the end is refused.          *)
(***************************************************************************)
FailToPublish ==
    \E o \in Halves :
        /\ MayEnd(o)
        /\ outcome[Half(o).transaction] = "commit"
        /\ failures < MaxFailures
        /\ failures' = failures + 1
        /\ Sent(o)
        /\ opBatch' = IF NotesFailedCommits THEN opBatch \cup {o} ELSE opBatch
        /\ UNCHANGED <<halfQueue, opQueue, halfOffset, opOffset, disk, topic, parked, outcome,
                       accepted, crashes>>

(***************************************************************************)
(* Each 3 s what was noted goes to the op queue, as one message.           *)
(***************************************************************************)
BatchSendOpMessage ==
    /\ opBatch /= {}
    /\ opQueue' = Append(opQueue, opBatch)
    /\ opBatch' = {}
    /\ UNCHANGED <<halfQueue, halfOffset, opOffset, disk, topic, parked, asked, outcome,
                   sentEnds, accepted, crashes, failures>>

(***************************************************************************)
(* The next half is looked at.  One without an end is appended again and   *)
(* asked about, or parked.                                                 *)
(***************************************************************************)
Check ==
    /\ halfOffset < Len(halfQueue)
    /\ EndsFirst => halfOffset \in sentEnds
    /\ halfOffset' = halfOffset + 1
    /\ opOffset' = DoneBefore(halfOffset + 1)
    /\ LET half == Half(halfOffset)
       IN  IF halfOffset \in Ended
           THEN UNCHANGED <<halfQueue, parked, asked>>
           ELSE IF half.times = MaxChecks
           THEN /\ parked' = parked \cup {half.transaction}
                /\ UNCHANGED <<halfQueue, asked>>
           ELSE /\ halfQueue' = Append(halfQueue, Entry(half.transaction, half.times + 1))
                /\ asked' = asked \cup {Len(halfQueue)}
                /\ UNCHANGED parked
    /\ UNCHANGED <<opQueue, opBatch, disk, topic, outcome, sentEnds, accepted, crashes,
                   failures>>

(***************************************************************************)
(* Check-backs are one-way.                                                *)
(***************************************************************************)
LoseCheck ==
    \E o \in Halves :
        /\ o \in asked
        /\ asked' = asked \ {o}
        /\ UNCHANGED <<halfQueue, opQueue, halfOffset, opOffset, opBatch, disk, topic, parked,
                       outcome, sentEnds, accepted, crashes, failures>>

(***************************************************************************)
(* The offsets are written, with those of consumers.                       *)
(***************************************************************************)
Persist ==
    /\ disk /= [half |-> halfOffset, op |-> opOffset]
    /\ disk' = [half |-> halfOffset, op |-> opOffset]
    /\ UNCHANGED <<halfQueue, opQueue, halfOffset, opOffset, opBatch, topic, parked, asked,
                   outcome, sentEnds, accepted, crashes, failures>>

(***************************************************************************)
(* The broker is killed, and starts again.  What was noted in memory is    *)
(* forgotten.                                                              *)
(***************************************************************************)
Kill ==
    /\ crashes < MaxCrashes
    /\ crashes' = crashes + 1
    /\ opBatch' = {}
    /\ halfOffset' = disk.half
    /\ opOffset' = disk.op
    /\ UNCHANGED <<halfQueue, opQueue, disk, topic, parked, asked, outcome, sentEnds, accepted,
                   failures>>

TransactionNext ==
    \/ \E t \in Transactions : Prepare(t) \/ Decide(t)
    \/ EndTransaction
    \/ FailToPublish
    \/ LoseCheck
    \/ BatchSendOpMessage
    \/ Check
    \/ Persist
    \/ Kill

TransactionSpec ==
    TransactionInit /\ [][TransactionNext]_transactionVars /\ WF_transactionVars(Check)

-----------------------------------------------------------------------------
TransactionTypeOK ==
    /\ halfQueue \in Seq([transaction : Transactions, times : 0 .. MaxChecks])
    /\ opQueue \in Seq(SUBSET Halves)
    /\ halfOffset \in 0 .. Len(halfQueue)
    /\ opOffset \in 0 .. Len(opQueue)
    /\ opBatch \subseteq Halves
    /\ disk \in [half : 0 .. halfOffset, op : 0 .. opOffset]
    /\ topic \in [Transactions -> Nat]
    /\ parked \subseteq Transactions
    /\ asked \subseteq Halves
    /\ outcome \in [Transactions -> {"undecided", "commit", "rollback"}]
    /\ sentEnds \subseteq Halves
    /\ accepted \subseteq Transactions
    /\ crashes \in 0 .. MaxCrashes
    /\ failures \in 0 .. MaxFailures

(***************************************************************************)
(* Consumers see only what was committed (TX-001, TX-014).                 *)
(***************************************************************************)
OnlyCommittedIsSeen == \A t \in Transactions : topic[t] > 0 => outcome[t] = "commit"

(***************************************************************************)
(* And not before the commit came: what a producer has decided the broker  *)
(* does not know until it is told (TX-001).                                *)
(***************************************************************************)
OnlyEndedIsSeen == \A t \in Transactions : topic[t] > 0 => t \in accepted

(***************************************************************************)
(* A commit that succeeded has published (TX-003).                         *)
(***************************************************************************)
CommittedIsSeen == \A t \in accepted : outcome[t] = "commit" => topic[t] > 0

(***************************************************************************)
(* A half without an end is still to be looked at, or is parked (TX-006,   *)
(* TX-013).                                                                *)
(***************************************************************************)
NoHalfIsForgotten ==
    \A t \in Prepared \ (accepted \cup parked) :
        \E o \in Halves : o >= halfOffset /\ Half(o).transaction = t

(***************************************************************************)
(* Only what was checked so often is parked (TX-008).                      *)
(***************************************************************************)
ParkedWasChecked ==
    \A t \in parked : \E o \in Halves : Half(o) = Entry(t, MaxChecks)

(***************************************************************************)
(* Op messages that are not read any more name halves that are not looked  *)
(* at any more, now and after a kill.                                      *)
(***************************************************************************)
OpMessagesAreKept ==
    /\ \A i \in 1 .. opOffset : \A o \in opQueue[i] : o < halfOffset
    /\ \A i \in 1 .. disk.op : \A o \in opQueue[i] : o < disk.half

(***************************************************************************)
(* A half whose end is noted is not checked (TX-014); a check that counts  *)
(* is a check that is sent (TX-008).  Together, so that the graph is       *)
(* walked once.                                                            *)
(***************************************************************************)
EndedIsNotChecked ==
    [][Len(halfQueue') > Len(halfQueue) /\ halfOffset' > halfOffset =>
            halfOffset \notin opBatch \cup UNION {opQueue[i] : i \in DOMAIN opQueue}
      ]_transactionVars

CountedIsAsked ==
    [][Len(halfQueue') > Len(halfQueue) /\ halfOffset' > halfOffset =>
            Len(halfQueue) \in asked']_transactionVars

ChecksAreInOrder == EndedIsNotChecked /\ CountedIsAsked

(***************************************************************************)
(* A transaction with an end is not checked in another half, in which it   *)
(* was stored again.  Never promised (TX-019).                             *)
(***************************************************************************)
EndedIsAskedNoMore ==
    [][\A o \in asked' \ asked : halfQueue'[o + 1].transaction \notin accepted
      ]_transactionVars

(***************************************************************************)
(* A transaction is published once only.  Never promised (TX-017).         *)
(***************************************************************************)
NoRepeat == \A t \in Transactions : topic[t] <= 1

(***************************************************************************)
(* Every half is ended or parked in the end (TX-006, TX-008).              *)
(***************************************************************************)
HalvesAreSettled == \A t \in Transactions : t \in Prepared ~> t \in accepted \cup parked

(***************************************************************************)
(* A witness, to be violated: something is parked.                         *)
(***************************************************************************)
NeverParked == parked = {}
==============================================================================
