-------------------- MODULE MC_TransactionEndsFirstKilled --------------------
(***************************************************************************)
(* Transaction, with ends that come before checks and are not refused, and *)
(* a broker that may be killed.  Where ends are refused as well this is    *)
(* not enough: a copy of the half is ended then, and a kill may forget     *)
(* how far checks had come.                                                *)
(***************************************************************************)
EXTENDS Transaction

(***************************************************************************)
(* The broker is not killed before the op message of an end is written.    *)
(***************************************************************************)
KilledOnceWritten == crashes' > crashes => opBatch = {}
==============================================================================
