------------------------------- MODULE Publish -------------------------------
(***************************************************************************)
(* How a message gets into a queue, and how often.  Twin of                *)
(* mqspec/core/publish.py and mqspec/core/producer.py.                     *)
(*                                                                         *)
(* A producer sends a message to the queue whose turn it is.  A broker     *)
(* checks it, stores it and answers, or refuses it.  Where a try fails,    *)
(* the producer tries a queue of another broker, MaxTries times in all.    *)
(* A try without an answer says nothing: the message may be stored, be     *)
(* stored later, or never, and is sent again all the same.                 *)
(*                                                                         *)
(* Modelled: one topic with queues on several brokers; messages that are   *)
(* sent side by side, as often as a send may be tried; requests that are   *)
(* late, or lost, which are those that stay late for ever; answers that    *)
(* are late or lost, at most MaxLosses; refusals that are tried again and  *)
(* those that are not, and messages that are stored less safely than was   *)
(* asked, MaxRefusals together; the brokers that a producer avoids, and    *)
(* for how long it does so, which is any time.                             *)
(*                                                                         *)
(* Mode "sync": a send waits for its answer, and is tried again.  Mode     *)
(* "orderly": a selector gives all messages one queue, one after the       *)
(* other, and there is one try.  Mode "oneway": nobody waits.              *)
(*                                                                         *)
(* Left out: why a broker refuses, which conformance cases cover; routes   *)
(* that change; crashes of brokers, which are Recovery's; batches, which   *)
(* are stored as one.                                                      *)
(*                                                                         *)
(* Not in the core, being the network, the store and the shell: requests,  *)
(* answer, outcome, tries, tried, stored, lost, notStoreOk, refusals;      *)
(* Receive, LoseAnswer, Elapse.                                            *)
(* Ghosts: losses, choice.                                                 *)
(***************************************************************************)
EXTENDS Naturals, Sequences, FiniteSets

CONSTANTS
    Messages,           \* numbers, in the order in which they are sent one by one
    QueueBrokers,       \* of each queue of the topic: its broker
    Mode,               \* "sync", "orderly" or "oneway"
    MaxTries,
    MaxLosses,
    MaxRefusals,
    Avoids,             \* whether brokers are avoided after a fault
    RetriesNotStoreOk,  \* whether a message that is stored less safely is sent again
    Defect              \* the guard or update that is left out; "none"

VARIABLES
    sendWhichQueue,     \* the queue that had the last turn
    faultItemTable,     \* broker -> whether it is available, and whether it is reachable
    requests,           \* what is on its way to a broker
    answer,             \* message -> what is on its way back for the try that is waited for
    stored,             \* queue -> the messages in it
    outcome,            \* message -> what its sender knows
    tries,              \* message -> how often it was sent
    tried,              \* message -> the queue of the last try; Nowhere
    lost,               \* message -> how many tries had no answer
    notStoreOk,         \* message -> how many were stored less safely, and tried again
    losses,
    refusals,
    choice              \* the choice of a queue that was made in the last step

vars == <<sendWhichQueue, faultItemTable, requests, answer, stored, outcome, tries, tried,
          lost, notStoreOk, losses, refusals, choice>>

Nowhere == 0
Queues == DOMAIN QueueBrokers
Brokers == {QueueBrokers[q] : q \in Queues}
BrokerOf(q) == IF q = Nowhere THEN "none" ELSE QueueBrokers[q]

Requests == [message : Messages, try : 1..MaxTries, queue : Queues]

\* Stored; stored less safely than asked; refused, to be tried again; refused for good.
Codes == {"ok", "not store ok", "try again", "refused"}
Ends == {"ok", "refused", "unknown"}
Copies(m) == Cardinality({<<q, i>> \in Queues \X (1..Cardinality(Messages) * MaxTries) :
                            i \in DOMAIN stored[q] /\ stored[q][i] = m})

TypeOK ==
    /\ sendWhichQueue \in Queues
    /\ faultItemTable \in [Brokers -> [available : BOOLEAN, reachable : BOOLEAN]]
    /\ requests \subseteq Requests
    /\ answer \in [Messages -> Codes \cup {"none"}]
    /\ stored \in [Queues -> Seq(Messages)]
    /\ outcome \in [Messages -> Ends \cup {"new", "to try", "waits", "sent"}]
    /\ tries \in [Messages -> 0..MaxTries]
    /\ tried \in [Messages -> Queues \cup {Nowhere}]
    /\ lost \in [Messages -> 0..MaxTries]
    /\ notStoreOk \in [Messages -> 0..MaxTries]
    /\ losses \in 0..MaxLosses
    /\ refusals \in 0..MaxRefusals

Init ==
    /\ sendWhichQueue = Len(QueueBrokers)
    /\ faultItemTable = [b \in Brokers |-> [available |-> TRUE, reachable |-> TRUE]]
    /\ requests = {}
    /\ answer = [m \in Messages |-> "none"]
    /\ stored = [q \in Queues |-> <<>>]
    /\ outcome = [m \in Messages |-> "new"]
    /\ tries = [m \in Messages |-> 0]
    /\ tried = [m \in Messages |-> Nowhere]
    /\ lost = [m \in Messages |-> 0]
    /\ notStoreOk = [m \in Messages |-> 0]
    /\ losses = 0
    /\ refusals = 0
    /\ choice = <<>>

-----------------------------------------------------------------------------
(***************************************************************************)
(* The queue whose turn it is, of those that are wanted: the first one     *)
(* after the last turn.                                                    *)
(***************************************************************************)
After(i) == ((sendWhichQueue + i - 1) % Len(QueueBrokers)) + 1

Turn(Wanted(_)) ==
    IF \E q \in Queues : Wanted(q)
    THEN After(CHOOSE i \in Queues :
                /\ Wanted(After(i))
                /\ \A j \in 1..i - 1 : ~Wanted(After(j)))
    ELSE Nowhere

Elsewhere(m, q) == BrokerOf(q) # BrokerOf(tried[m]) \/ Defect = "RetriesAnywhere"
Available(q) == faultItemTable[BrokerOf(q)].available \/ Defect = "AvoidsNobody"
Reachable(q) == faultItemTable[BrokerOf(q)].reachable

Chosen(m) ==
    LET anyway      == IF Defect = "NoLastResort" THEN Nowhere ELSE After(1)
        elsewhere   == Turn(LAMBDA q : Elsewhere(m, q))
        available   == Turn(LAMBDA q : Available(q) /\ Elsewhere(m, q))
        reachable   == Turn(LAMBDA q : Reachable(q) /\ Elsewhere(m, q))
    IN  CASE ~Avoids /\ elsewhere # Nowhere -> elsewhere
          [] Avoids /\ available # Nowhere -> available
          [] Avoids /\ available = Nowhere /\ reachable # Nowhere -> reachable
          [] OTHER -> anyway

(***************************************************************************)
(* A queue is chosen, and the message is sent there.  In order, that waits *)
(* for the end of the sends before it.                                     *)
(***************************************************************************)
MayTry(m) ==
    /\ \/ outcome[m] \in {"new", "to try"}
       \/ outcome[m] = "sent" /\ tries[m] < MaxTries /\ Defect = "OnewayTriesAgain"
    /\ Mode = "orderly" => \A n \in Messages : n < m => outcome[n] \in Ends

SelectOneMessageQueue(m) ==
    /\ MayTry(m)
    /\ \E q \in Queues :
        /\ Mode # "orderly" \/ Defect = "OrderlyGoesElsewhere" => q = Chosen(m)
        /\ Mode = "orderly" /\ Defect # "OrderlyGoesElsewhere" => q = 1
        /\ sendWhichQueue' = IF Mode = "orderly" THEN sendWhichQueue ELSE q
        /\ requests' = requests \cup {[message |-> m, try |-> tries[m] + 1, queue |-> q]}
        /\ tried' = [tried EXCEPT ![m] = q]
        /\ choice' = <<[before |-> tried[m], now |-> q]>>
    /\ tries' = [tries EXCEPT ![m] = @ + 1]
    /\ outcome' = [outcome EXCEPT ![m] = IF Mode = "oneway" THEN "sent" ELSE "waits"]
    /\ UNCHANGED <<faultItemTable, answer, stored, lost, notStoreOk, losses, refusals>>

-----------------------------------------------------------------------------
(***************************************************************************)
(* A broker gets a message, stores it and answers, or refuses it.  Nobody  *)
(* waits any more for the answer to a try that is over.                    *)
(***************************************************************************)
IsAwaited(r) == outcome[r.message] = "waits" /\ r.try = tries[r.message]

CheckSend(r, code) ==
    /\ r \in requests
    /\ requests' = requests \ {r}
    /\ code # "ok" => refusals < MaxRefusals
    /\ refusals' = IF code = "ok" THEN refusals ELSE refusals + 1
    /\ stored' = IF \/ code \in {"try again", "refused"}
                    \/ code = "not store ok" /\ Defect = "AnswersUnstored"
                 THEN stored
                 ELSE [stored EXCEPT ![r.queue] = Append(@, r.message)]
    /\ answer' = IF IsAwaited(r) THEN [answer EXCEPT ![r.message] = code] ELSE answer
    /\ choice' = <<>>
    /\ UNCHANGED <<sendWhichQueue, faultItemTable, outcome, tries, tried, lost, notStoreOk,
                   losses>>

-----------------------------------------------------------------------------
(***************************************************************************)
(* What a producer remembers of a broker after a try: how long it took, or *)
(* that the try failed.  A broker that was slow or failed is not available *)
(* for a while, which only time ends; one that refused is not reachable    *)
(* either, until a try on it ends otherwise.                               *)
(***************************************************************************)
UpdateFaultItem(m, failed, refused) ==
    IF ~Avoids THEN UNCHANGED faultItemTable
    ELSE \E fast \in (IF failed THEN {FALSE} ELSE BOOLEAN) :
            faultItemTable' = [faultItemTable EXCEPT ![BrokerOf(tried[m])] =
                                [available |-> fast /\ @.available, reachable |-> ~refused]]

(***************************************************************************)
(* A try is over.  It is the last one, or another follows.                 *)
(***************************************************************************)
End(isStored, unanswered) ==
    IF isStored THEN "ok"
    ELSE IF unanswered > 0 /\ Defect # "UnknownIsRefused" THEN "unknown"
    ELSE "refused"

IsLastTry(m) == tries[m] = IF Mode = "sync" \/ Defect = "OrderlyGoesElsewhere"
                           THEN MaxTries ELSE 1

(***************************************************************************)
(* The answer arrives.  A message that is stored is done with, unless it   *)
(* is sent again where it is stored less safely than was asked.            *)
(***************************************************************************)
Receive(m) ==
    /\ outcome[m] = "waits"
    /\ answer[m] # "none"
    /\ LET again == /\ \/ answer[m] = "try again"
                       \/ answer[m] = "not store ok" /\ RetriesNotStoreOk
                       \/ answer[m] = "ok" /\ Defect = "TriesAfterSuccess"
                    /\ ~IsLastTry(m)
           isStored == notStoreOk[m] > 0 \/ answer[m] \in {"ok", "not store ok"}
       IN  /\ notStoreOk' = [notStoreOk EXCEPT
                ![m] = @ + IF answer[m] = "not store ok" /\ again THEN 1 ELSE 0]
           /\ outcome' = [outcome EXCEPT ![m] = IF again THEN "to try"
                                                ELSE End(isStored, lost[m])]
    /\ LET refused == answer[m] \in {"try again", "refused"}
       IN  UpdateFaultItem(m, refused, refused)
    /\ answer' = [answer EXCEPT ![m] = "none"]
    /\ choice' = <<>>
    /\ UNCHANGED <<sendWhichQueue, requests, stored, tries, tried, lost, losses, refusals>>

(***************************************************************************)
(* No answer comes: the connection ends, and there is time for another     *)
(* try; or the time of all tries together is over.                         *)
(***************************************************************************)
LoseAnswer(m) ==
    /\ outcome[m] = "waits"
    /\ losses < MaxLosses
    /\ losses' = losses + 1
    /\ lost' = [lost EXCEPT ![m] = @ + 1]
    /\ \E goesOn \in (IF IsLastTry(m) THEN {FALSE} ELSE BOOLEAN) :
        outcome' = [outcome EXCEPT ![m] = IF goesOn THEN "to try"
                                          ELSE End(notStoreOk[m] > 0, lost[m] + 1)]
    /\ UpdateFaultItem(m, TRUE, FALSE)
    /\ answer' = [answer EXCEPT ![m] = "none"]
    /\ choice' = <<>>
    /\ UNCHANGED <<sendWhichQueue, requests, stored, tries, tried, notStoreOk, refusals>>

(***************************************************************************)
(* A broker was avoided long enough.                                       *)
(***************************************************************************)
Elapse(b) ==
    /\ ~faultItemTable[b].available
    /\ faultItemTable' = [faultItemTable EXCEPT ![b].available = TRUE]
    /\ choice' = <<>>
    /\ UNCHANGED <<sendWhichQueue, requests, answer, stored, outcome, tries, tried, lost,
                   notStoreOk, losses, refusals>>

-----------------------------------------------------------------------------
Next ==
    \/ \E m \in Messages : SelectOneMessageQueue(m) \/ Receive(m) \/ LoseAnswer(m)
    \/ \E r \in Requests, code \in Codes : CheckSend(r, code)
    \/ \E b \in Brokers : Elapse(b)

(***************************************************************************)
(* What can be sent is sent; a broker handles what it gets while somebody  *)
(* waits for it; an answer that is not lost arrives.                       *)
(***************************************************************************)
Handle(m) == \E r \in requests, code \in Codes :
                r.message = m /\ IsAwaited(r) /\ CheckSend(r, code)

Fairness ==
    \A m \in Messages :
        WF_vars(SelectOneMessageQueue(m)) /\ WF_vars(Receive(m)) /\ WF_vars(Handle(m))

Spec == Init /\ [][Next]_vars /\ Fairness

-----------------------------------------------------------------------------
(***************************************************************************)
(* A send that succeeds is stored (SEND-022).                              *)
(***************************************************************************)
SuccessIsStored == \A m \in Messages : outcome[m] = "ok" => Copies(m) >= 1

(***************************************************************************)
(* A send that is refused in each of its tries is not stored, and will not *)
(* be (SEND-023).                                                          *)
(***************************************************************************)
RefusedIsNotStored ==
    \A m \in Messages :
        outcome[m] = "refused" => Copies(m) = 0 /\ \A r \in requests : r.message # m

(***************************************************************************)
(* A send that fails is not stored.  Never promised (SEND-024).            *)
(***************************************************************************)
FailedIsNotStored ==
    \A m \in Messages : outcome[m] \in {"refused", "unknown"} => Copies(m) = 0

(***************************************************************************)
(* A message is stored once at most.  Never promised (SEND-025).           *)
(***************************************************************************)
NoRepeat == \A m \in Messages : Copies(m) <= 1

(***************************************************************************)
(* Each repeat has its cause: a try without an answer, or one that stored  *)
(* the message less safely and was followed by another (SEND-026).         *)
(***************************************************************************)
RepeatsHaveACause == \A m \in Messages : Copies(m) <= 1 + lost[m] + notStoreOk[m]

(***************************************************************************)
(* After a try that failed, another broker is tried, where the topic has   *)
(* a queue on one that is not avoided (SEND-027).                          *)
(***************************************************************************)
TriesElsewhere ==
    \A i \in DOMAIN choice :
        LET before == BrokerOf(choice[i].before)
            others == {b \in Brokers \ {before} :
                        ~Avoids \/ faultItemTable[b].available \/ faultItemTable[b].reachable}
        IN  before # "none" /\ others # {} => BrokerOf(choice[i].now) # before

(***************************************************************************)
(* A broker that is avoided is not chosen while there is another one that  *)
(* is not, and that has not just failed (SEND-028).                        *)
(***************************************************************************)
AvoidsFaults ==
    \A i \in DOMAIN choice :
        LET fine == {b \in Brokers \ {BrokerOf(choice[i].before)} :
                        faultItemTable[b].available}
        IN  Avoids /\ fine # {} => BrokerOf(choice[i].now) \in fine

(***************************************************************************)
(* With a selector, messages are in its queue only, each once at most, and *)
(* those that were sent with success one after the other in this order     *)
(* (SEND-029).                                                             *)
(***************************************************************************)
KeepsTheOrder ==
    Mode = "orderly" =>
        /\ \A q \in Queues \ {1} : stored[q] = <<>>
        /\ \A m, n \in Messages :
            m < n /\ outcome[m] = "ok" /\ outcome[n] = "ok" =>
                \E i, j \in DOMAIN stored[1] : i < j /\ stored[1][i] = m /\ stored[1][j] = n

(***************************************************************************)
(* A one-way send is stored once at most (SEND-030).                       *)
(***************************************************************************)
OnewayIsSentOnce == Mode = "oneway" => NoRepeat

(***************************************************************************)
(* A one-way send is stored in the end.  Never promised (SEND-032).        *)
(***************************************************************************)
OnewayIsStored ==
    \A m \in Messages : outcome[m] = "sent" ~> Copies(m) > 0

(***************************************************************************)
(* Every send that waits for its answer ends (SEND-031): whatever is       *)
(* avoided, there is a queue to choose for its next try (SEND-028).        *)
(***************************************************************************)
SendsEnd == \A m \in Messages : outcome[m] = "waits" ~> outcome[m] \in Ends
=============================================================================
