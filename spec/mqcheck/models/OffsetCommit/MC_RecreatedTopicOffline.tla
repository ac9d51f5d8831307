----------------------- MODULE MC_RecreatedTopicOffline -----------------------
(***************************************************************************)
(* The assumption under which nothing of a topic that was made again is    *)
(* passed over: no member holds a queue of it when it is.                  *)
(***************************************************************************)
EXTENDS MC_RecreatedTopic

RecreateTopicOffline ==
    /\ \A m \in Members, q \in Queues : ~Holds(m, q)
    /\ RecreateTopic

OfflineNext == Meanwhile \/ RecreateTopicOffline

OfflineSpec == RecreatedInit /\ [][OfflineNext]_recreatedVars
===============================================================================
