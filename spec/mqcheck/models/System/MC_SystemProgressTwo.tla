----------------------- MODULE MC_SystemProgressTwo -----------------------
(* Two messages are consumed in the end. *)
EXTENDS System
===========================================================================
