---- MODULE MC_TransactionEndsFirst ----
(* Transaction, with ends that come before checks. *)
EXTENDS Transaction
====
