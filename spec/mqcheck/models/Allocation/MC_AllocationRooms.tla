-------------------------- MODULE MC_AllocationRooms --------------------------
(* Allocation by rooms and by lists, whatever they are: smaller bounds.        *)
EXTENDS Allocation

\* The assumptions under which ALLOC-021 and ALLOC-022 hold of lists, each by itself.
CoverIfListsAreWhole ==
    (Using("CONFIG") # {} /\ UNION {config[cid[m]] : m \in Members} = Queues) => Cover

DisjointIfListsAre ==
    (Using("CONFIG") # {} /\ \A m, o \in Members : m # o => config[cid[m]] \cap config[cid[o]] = {})
        => Disjoint

===============================================================================
