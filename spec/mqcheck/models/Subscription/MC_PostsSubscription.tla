------------------------ MODULE MC_PostsSubscription ------------------------
(***************************************************************************)
(* The change under which a member with a subscription of its own misses   *)
(* nothing in the queues that it owns: each pull carries it                *)
(* (postSubscriptionWhenPull).                                             *)
(***************************************************************************)
EXTENDS MC_Subscription
=============================================================================
