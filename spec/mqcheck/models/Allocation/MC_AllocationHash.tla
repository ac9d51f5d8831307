--------------------------- MODULE MC_AllocationHash ---------------------------
(* Allocation by consistent hashing alone, over every ring: smaller bounds.    *)
EXTENDS Allocation
===============================================================================
