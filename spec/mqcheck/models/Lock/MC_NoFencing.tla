----------------------------- MODULE MC_NoFencing -----------------------------
(* MC_Fencing with nobody who looks at tokens: the protocol as it is.          *)
EXTENDS MC_Fencing
===============================================================================
