---------------------------- MODULE MC_LostProgress ----------------------------
(***************************************************************************)
(* Incident F alone: a queue goes to another member in good order, nobody  *)
(* crashes, and a message is consumed twice all the same.                  *)
(***************************************************************************)
EXTENDS OffsetCommit

GoesToAnother == \A task \in orphans : ~Holds(task.member, task.queue)
=============================================================================
