-------------------------- MODULE MC_RebalanceSeeded --------------------------
(***************************************************************************)
(* What public reports tell of rebalancing: Rebalance with a step less.    *)
(* The catalogue of defects says where each comes from.                    *)
(***************************************************************************)
EXTENDS MC_Rebalance

CONSTANT b2

(***************************************************************************)
(* The network between one member and one broker is cut, and both go on.   *)
(***************************************************************************)
IsCut(m, b) == m = m2 /\ b = b2

RegisterUnlessCut(m, b) == ~IsCut(m, b) /\ RegisterConsumer(m, b)
DoRebalanceUnlessCut(m, b) == ~IsCut(m, b) /\ DoRebalance(m, b)

CutLinkNext ==
    \/ \E m \in Members, b \in Brokers :
        \/ RegisterUnlessCut(m, b)
        \/ UnregisterConsumer(m, b)
        \/ CloseChannel(m, b)
        \/ ScanNotActiveChannel(m, b)
        \/ DoRebalanceUnlessCut(m, b)
    \/ \E m \in Members :
        \/ Join(m) \/ Leave(m) \/ Crash(m)
        \/ LoseNotice(m)
        \/ NotifyConsumerIdsChanged(m)
        \/ RebalanceByTopic(m, MqAll[m])

CutLinkNotice ==
    \E m \in Members, b \in Brokers :
        \/ RegisterUnlessCut(m, b)
        \/ UnregisterConsumer(m, b)
        \/ status[m] = "crashed" /\ (CloseChannel(m, b) \/ ScanNotActiveChannel(m, b))

CutLink ==
    /\ Init
    /\ [][CutLinkNext]_vars
    /\ WF_vars(CutLinkNotice)
    /\ WF_vars(\E m \in Members : NotifyConsumerIdsChanged(m))
    /\ \A m \in Members :
        /\ WF_vars(\E b \in Brokers : DoRebalanceUnlessCut(m, b))
        /\ WF_vars(RebalanceByTopic(m, MqAll[m]))
=============================================================================
