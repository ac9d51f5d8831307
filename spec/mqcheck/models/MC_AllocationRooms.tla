-------------------------- MODULE MC_AllocationRooms --------------------------
(* Allocation by rooms and by lists, whatever they are: smaller bounds.        *)
EXTENDS Allocation
===============================================================================
