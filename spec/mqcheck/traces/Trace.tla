-------------------------------- MODULE Trace --------------------------------
(***************************************************************************)
(* Traces, read one event after the other.  A module TRACE_NAME extends    *)
(* NAME and this, and says which step of NAME an event is: a trace is      *)
(* accepted where each of its events is such a step.                       *)
(*                                                                         *)
(* An event is <<action, process, number, x, y>>: what happened, to whom,  *)
(* the number of the event among that process's own, 0 where it is none    *)
(* that a process told, and two values that the action explains.  Events   *)
(* of different processes stand in an order that their causes allow; a     *)
(* step that has a cause is not enabled before it.                         *)
(*                                                                         *)
(* Edits are for the test of the traces themselves: each is one change of  *)
(* one trace, <<number, position, how many events it takes out, the events *)
(* it puts there>>.  They share the states before that position, so that   *)
(* all of them are one run of TLC.                                         *)
(*                                                                         *)
(* Traces, Edits and Numbered are in a module that mqcheck writes for each *)
(* run, TraceData.                                                         *)
(***************************************************************************)
EXTENDS Integers, Sequences, TLC, TraceData

VARIABLES
    trace,     \* which trace is read
    position,  \* of its next event
    ahead,     \* events to read before that one: what an edit put there
    edit,      \* the edit, 0 where none was made
    numbers    \* process -> how many events of it were read

traceVars == <<trace, position, ahead, edit, numbers>>

TraceInit ==
    /\ trace \in DOMAIN Traces
    /\ position = 1
    /\ ahead = <<>>
    /\ edit = 0
    /\ numbers = [p \in TraceProcesses |-> 0]

AtEnd == ahead = <<>> /\ position > Len(Traces[trace])

Event == IF ahead = <<>> THEN Traces[trace][position] ELSE Head(ahead)

Action == Event[1]
Process == Event[2]
Number == Event[3]

(***************************************************************************)
(* The next event is read: none of its process is missing before it.       *)
(***************************************************************************)
ReadEvent ==
    /\ ~AtEnd
    /\ IF ahead = <<>> THEN position' = position + 1 /\ UNCHANGED ahead
       ELSE ahead' = Tail(ahead) /\ UNCHANGED position
    /\ IF Number = 0 THEN UNCHANGED numbers
       ELSE /\ Numbered => Number = numbers[Process] + 1
            /\ numbers' = [numbers EXCEPT ![Process] = Number]
    /\ UNCHANGED <<trace, edit>>

(***************************************************************************)
(* The trace is another one from here on.                                  *)
(***************************************************************************)
EditTrace ==
    /\ edit = 0
    /\ position \in DOMAIN Edits[trace]
    /\ \E e \in Edits[trace][position] :
        /\ edit' = e[1]
        /\ position' = position + e[2]
        /\ ahead' = e[3]
    /\ UNCHANGED <<trace, numbers>>

(***************************************************************************)
(* What is told of a trace where it ends, or can go no further.  It is     *)
(* always TRUE.                                                            *)
(***************************************************************************)
Say(what) == PrintT(ToString(what))  \* in one line

Tell(isWhole, canStep, state) ==
    \/ AtEnd /\ isWhole /\ Say(<<"accepted", trace, edit>>)
    \/ ~AtEnd /\ canStep
    \/ Say(<<"refused", trace, edit, position, Len(ahead), state>>)
==============================================================================
