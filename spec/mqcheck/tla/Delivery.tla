------------------------------- MODULE Delivery -------------------------------
(***************************************************************************)
(* Each message is delivered at least once to the group: what System, with *)
(* members or brokers that assign the queues, and Pop have in common, and  *)
(* all that they promise.  They refine it.                                 *)
(*                                                                         *)
(* A message is pending until it is in work at a member; it is given back  *)
(* when the group no longer counts on that member; it is done once anybody *)
(* has consumed it, and stays done, however often it comes again.  A       *)
(* message that no longer can come has a state that is none of these, so   *)
(* that a protocol that loses one does not refine this.                    *)
(*                                                                         *)
(* Left out: repeats, which are steps of no interest here; order; queues.  *)
(*                                                                         *)
(* No twin in the core: it is what several of its modules do together.     *)
(* Not in the core: state; Deliver, Return, Finish.                        *)
(***************************************************************************)
CONSTANTS
    Messages

VARIABLES
    state    \* message -> "pending", "delivered" or "done"

TypeOK == state \in [Messages -> {"pending", "delivered", "done"}]

Init == state = [m \in Messages |-> "pending"]

Become(several, now) ==
    [m \in Messages |-> IF m \in several THEN now ELSE state[m]]

(***************************************************************************)
(* Messages come to members of the group.                                  *)
(***************************************************************************)
Deliver(several) ==
    /\ \A m \in several : state[m] = "pending"
    /\ state' = Become(several, "delivered")

(***************************************************************************)
(* The group does not count any more on those who have them.               *)
(***************************************************************************)
Return(several) ==
    /\ \A m \in several : state[m] = "delivered"
    /\ state' = Become(several, "pending")

(***************************************************************************)
(* A member consumes a message; perhaps one on whom nobody counted.        *)
(***************************************************************************)
Finish(m) ==
    /\ state[m] # "done"
    /\ state' = Become({m}, "done")

Next ==
    \/ \E several \in SUBSET Messages : Deliver(several) \/ Return(several)
    \/ \E m \in Messages : Finish(m)

(***************************************************************************)
(* At least once: safety says that no message gets lost, this that it does *)
(* come, and to an end.                                                    *)
(***************************************************************************)
EachIsDone == \A m \in Messages : <>(state[m] = "done")

Spec == Init /\ [][Next]_state /\ EachIsDone
===============================================================================
