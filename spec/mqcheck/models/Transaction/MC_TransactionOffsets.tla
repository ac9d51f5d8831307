------------------------ MODULE MC_TransactionOffsets -----------------------
(***************************************************************************)
(* The offsets of halves and of op messages are of two topics, and are     *)
(* read for the file one after the other, as 5.3.3 does it: a check may    *)
(* move both between.  HalfFirst says which is read first.                 *)
(***************************************************************************)
EXTENDS Transaction

CONSTANT HalfFirst

VARIABLE
    read    \* the offset that was read for the file first, or None

offsetsVars == <<transactionVars, read>>

None == -1

OffsetsInit == TransactionInit /\ read = None

OffsetsTypeOK == TransactionTypeOK /\ read \in {None} \cup 0 .. Len(halfQueue) + Len(opQueue)

BeginPersist ==
    /\ read = None
    /\ read' = IF HalfFirst THEN halfOffset ELSE opOffset
    /\ UNCHANGED transactionVars

EndPersist ==
    /\ read /= None
    /\ read' = None
    /\ disk' = IF HalfFirst THEN [half |-> read, op |-> opOffset]
               ELSE [half |-> halfOffset, op |-> read]
    /\ UNCHANGED <<halfQueue, opQueue, halfOffset, opOffset, opBatch, topic, parked, asked,
                   outcome, sentEnds, accepted, crashes, failures>>

OffsetsNext ==
    \/ BeginPersist
    \/ EndPersist
    \/ Kill /\ read' = None
    \/ /\ \/ \E t \in Transactions : Prepare(t) \/ Decide(t)
          \/ EndTransaction
          \/ LoseCheck
          \/ BatchSendOpMessage
          \/ Check
       /\ UNCHANGED read

OffsetsSpec ==
    /\ OffsetsInit
    /\ [][OffsetsNext]_offsetsVars
    /\ WF_offsetsVars(Check /\ UNCHANGED read)
=============================================================================
