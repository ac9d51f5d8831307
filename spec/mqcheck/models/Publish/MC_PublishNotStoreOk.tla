------------------------ MODULE MC_PublishNotStoreOk ------------------------
(***************************************************************************)
(* Messages that are stored less safely than was asked are sent again to   *)
(* another broker (retryAnotherBrokerWhenNotStoreOK), and are there twice. *)
(***************************************************************************)
EXTENDS MC_Publish
=============================================================================
