---- MODULE MC_DelayLonger ----
(* Delay, with a clock that goes on longer. *)
EXTENDS Delay
====
