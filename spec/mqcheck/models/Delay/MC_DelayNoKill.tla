---- MODULE MC_DelayNoKill ----
(* Delay, without kills of the broker. *)
EXTENDS Delay
====
