---------------------------- MODULE MC_GroupSeeded ----------------------------
(***************************************************************************)
(* What public reports tell of membership: Group with two actions changed. *)
(* The catalogue of defects says where each comes from.                    *)
(***************************************************************************)
EXTENDS Group

(***************************************************************************)
(* A client is a member of several groups over one connection, and the     *)
(* broker keeps one record of it for all.  Crash is here that it drops     *)
(* this group without a word.  In place of CloseChannel and                *)
(* ScanNotActiveChannel: its connection stays, and the heartbeats of its   *)
(* other groups renew the record.                                          *)
(***************************************************************************)
CloseChannelOfMember(m, b) ==
    /\ m \in consumerTable[b]
    /\ status[m] = "in"
    /\ Perturb
    /\ Change(b, consumerTable[b] \ {m})
    /\ UNCHANGED status

NeverExpires(m, b) == FALSE /\ UNCHANGED groupVars
=============================================================================
