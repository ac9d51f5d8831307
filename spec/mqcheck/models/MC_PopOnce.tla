------------------------------ MODULE MC_PopOnce ------------------------------
(* Pop where consumers acknowledge in time and nothing crashes: each message is *)
(* popped once.                                                                 *)
EXTENDS Pop
===============================================================================
