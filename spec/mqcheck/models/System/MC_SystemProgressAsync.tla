---------------------- MODULE MC_SystemProgressAsync ----------------------
(* What is no gap is consumed in the end, with asynchronous flush. *)
EXTENDS System
===========================================================================
