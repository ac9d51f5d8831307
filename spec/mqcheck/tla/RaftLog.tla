------------------------------- MODULE RaftLog -------------------------------
(***************************************************************************)
(* DLedger: the CommitLog of a broker as a Raft log.  The nodes elect a    *)
(* leader for each term; the leader appends what producers send and pushes *)
(* it to the others, after it has compared their ledgers with its own and  *)
(* cut off where they differ; what a quorum has is committed, which makes  *)
(* it visible and answers its producer.                                    *)
(*                                                                         *)
(* Modelled: terms and votes, which are on disk; candidates that ask one   *)
(* node after the other, and votes that are never counted; leaders that do *)
(* not know yet that there is a newer one; comparison, truncation, append  *)
(* and commit, for each follower apart; crashes, after which a node knows  *)
(* its term, its vote and its ledger, and which may take the ledger's end, *)
(* as nothing waits for the disk.                                          *)
(*                                                                         *)
(* An entry is its term: a term has one leader, which writes one entry at  *)
(* an index.  A comparison, which walks back entry by entry, is one step,  *)
(* and so are a request and its answer: a request that comes late is one   *)
(* that a leader sends late, and an answer that is lost, one after which   *)
(* the leader does nothing.  That a node takes a greater term from a vote  *)
(* or a heartbeat, and votes or follows only when it is asked again, is    *)
(* one step too.                                                           *)
(*                                                                         *)
(* Left out: time; batches; leadership that is handed over; snapshots; the *)
(* waiting of an append (an answer WAIT_QUORUM_ACK_TIMEOUT or TERM_CHANGED *)
(* changes nothing here: the entry stays); the checkpoint of the committed *)
(* index, which may be old (a node starts with none).                      *)
(*                                                                         *)
(* DLedger 0.3.1.2, which is what 5.3.3 uses, commits entries of earlier   *)
(* terms by counting, which Raft forbids (CommitsOldTerms), and appends    *)
(* none of its own at the start of a term, which Raft needs then.          *)
(*                                                                         *)
(* No twin in the core: the reference has no replication.                  *)
(***************************************************************************)
EXTENDS Naturals, Sequences, FiniteSets, TLC

CONSTANTS
    Nodes,
    MaxTerm,
    MaxEntries,       \* how long a ledger grows by what producers send
    MaxCrashes,
    MaxLosses,        \* how many of these crashes take the end of a ledger
    NoOpAtStart,      \* TRUE: a leader appends an entry of its own first
    \* Defects, FALSE in the protocol as it is:
    CommitsOldTerms,  \* entries of earlier terms are committed by counting
    ForgetsVote,      \* a vote is not on disk
    VotesForAny,      \* the ledgers are not compared at a vote
    AppendsUncompared \* a follower compares indexes only

VARIABLES
    currTerm,
    currVoteFor,     \* node -> whom it voted for in its term, or Nobody
    role,
    votes,           \* candidate -> who voted for it
    ledger,          \* node -> the terms of its entries
    committedIndex,  \* node -> up to where it knows its ledger to be committed
    peerWaterMarks,  \* leader -> node -> up to where it has the leader's ledger
    committed,       \* ghost: what was committed: its index, its term, the term of whom
    crashes,
    losses

electionVars == <<currTerm, currVoteFor, role, votes>>
ledgerVars == <<ledger, committedIndex, peerWaterMarks, committed>>
vars == <<electionVars, ledgerVars, crashes, losses>>

-----------------------------------------------------------------------------
Nobody == "nobody"
Terms == 0 .. MaxTerm
Longest == MaxEntries + (IF NoOpAtStart THEN MaxTerm ELSE 0)
Indexes == 0 .. Longest

End(n) == Len(ledger[n])
EndTerm(n) == IF End(n) = 0 THEN 0 ELSE ledger[n][End(n)]
IsPrefix(s, t) == Len(s) <= Len(t) /\ SubSeq(t, 1, Len(s)) = s
Max(S) == CHOOSE x \in S : \A y \in S : x >= y
Min(a, b) == IF a < b THEN a ELSE b
IsQuorum(S) == 2 * Cardinality(S) > Cardinality(Nodes)

\* The last index at which two ledgers have the same entry.
Matching(m, n) ==
    Max({0} \cup {i \in 1 .. Min(End(m), End(n)) : ledger[m][i] = ledger[n][i]})

\* A ledger is newer by the term of its end, then by its length.
IsUpToDate(candidate, n) ==
    \/ EndTerm(candidate) > EndTerm(n)
    \/ EndTerm(candidate) = EndTerm(n) /\ End(candidate) >= End(n)

Follows(n, l) == role[l] = "leader" /\ role[n] = "follower" /\ currTerm[n] = currTerm[l]

Marks(l, n) == IF n = l THEN End(l) ELSE peerWaterMarks[l][n]

NoMarks == [n \in Nodes |-> 0]

-----------------------------------------------------------------------------
Init ==
    /\ currTerm = [n \in Nodes |-> 0]
    /\ currVoteFor = [n \in Nodes |-> Nobody]
    /\ role = [n \in Nodes |-> "candidate"]
    /\ votes = [n \in Nodes |-> {}]
    /\ ledger = [n \in Nodes |-> <<>>]
    /\ committedIndex = [n \in Nodes |-> 0]
    /\ peerWaterMarks = [n \in Nodes |-> NoMarks]
    /\ committed = {}
    /\ crashes = 0
    /\ losses = 0

\* What a node forgets that is no longer a leader.
Forget(n) == peerWaterMarks' = [peerWaterMarks EXCEPT ![n] = NoMarks]

(***************************************************************************)
(* A node has heard of no leader for a while, or a leader of no quorum:    *)
(* it becomes a candidate of the next term, and votes for itself.          *)
(***************************************************************************)
IncreaseTerm(n) ==
    /\ currTerm[n] < MaxTerm
    /\ currTerm' = [currTerm EXCEPT ![n] = @ + 1]
    /\ currVoteFor' = [currVoteFor EXCEPT ![n] = n]
    /\ role' = [role EXCEPT ![n] = "candidate"]
    /\ votes' = [votes EXCEPT ![n] = {n}]
    /\ Forget(n)
    /\ UNCHANGED <<ledger, committedIndex, committed, crashes, losses>>

(***************************************************************************)
(* A node votes for a candidate whose ledger is not behind its own, once   *)
(* in a term.                                                              *)
(***************************************************************************)
HandleVote(c, n) ==
    /\ c # n
    /\ role[c] = "candidate"
    /\ currVoteFor[c] = c
    /\ VotesForAny \/ IsUpToDate(c, n)
    /\ \/ currTerm[n] < currTerm[c]
       \/ currTerm[n] = currTerm[c] /\ currVoteFor[n] = Nobody
    /\ currTerm' = [currTerm EXCEPT ![n] = currTerm[c]]
    /\ currVoteFor' = [currVoteFor EXCEPT ![n] = c]
    /\ IF currTerm[n] < currTerm[c]
       THEN /\ role' = [role EXCEPT ![n] = "candidate"]
            /\ votes' = [votes EXCEPT ![n] = {}, ![c] = @ \cup {n}]
            /\ Forget(n)
       ELSE /\ votes' = [votes EXCEPT ![c] = @ \cup {n}]
            /\ UNCHANGED <<role, peerWaterMarks>>
    /\ UNCHANGED <<ledger, committedIndex, committed, crashes, losses>>

(***************************************************************************)
(* A candidate has the votes of a quorum.                                  *)
(***************************************************************************)
ChangeRoleToLeader(c) ==
    /\ role[c] = "candidate"
    /\ IsQuorum(votes[c])
    /\ role' = [role EXCEPT ![c] = "leader"]
    /\ votes' = [votes EXCEPT ![c] = {}]
    /\ ledger' = IF NoOpAtStart THEN [ledger EXCEPT ![c] = Append(@, currTerm[c])] ELSE ledger
    /\ UNCHANGED <<currTerm, currVoteFor, committedIndex, peerWaterMarks, committed, crashes,
                   losses>>

(***************************************************************************)
(* A node hears of the leader of its term, or of a greater one, and        *)
(* follows it.                                                             *)
(***************************************************************************)
HandleHeartBeat(l, n) ==
    /\ role[l] = "leader"
    /\ \/ currTerm[n] < currTerm[l]
       \/ currTerm[n] = currTerm[l] /\ role[n] = "candidate"
    /\ currTerm' = [currTerm EXCEPT ![n] = currTerm[l]]
    /\ currVoteFor' = [currVoteFor EXCEPT ![n] = IF currTerm[n] < currTerm[l] THEN Nobody ELSE @]
    /\ role' = [role EXCEPT ![n] = "follower"]
    /\ votes' = [votes EXCEPT ![n] = {}]
    /\ Forget(n)
    /\ UNCHANGED <<ledger, committedIndex, committed, crashes, losses>>

-----------------------------------------------------------------------------
(***************************************************************************)
(* The leader stores a message.                                            *)
(***************************************************************************)
AppendAsLeader(l) ==
    /\ role[l] = "leader"
    /\ End(l) < MaxEntries
    /\ ledger' = [ledger EXCEPT ![l] = Append(@, currTerm[l])]
    /\ UNCHANGED <<electionVars, committedIndex, peerWaterMarks, committed, crashes, losses>>

(***************************************************************************)
(* The leader compares a follower's ledger with its own.  The follower has *)
(* no other entries, and the leader notes how many; or it has, and cuts    *)
(* them off.                                                               *)
(***************************************************************************)
Note(l, n, index) ==
    peerWaterMarks' = [peerWaterMarks EXCEPT ![l][n] = Max({@, index})]

HandleDoCompare(l, n) ==
    /\ Follows(n, l)
    /\ IsPrefix(ledger[n], ledger[l])
    /\ peerWaterMarks[l][n] < End(n)
    /\ Note(l, n, End(n))
    /\ UNCHANGED <<electionVars, ledger, committedIndex, committed, crashes, losses>>

HandleDoTruncate(l, n) ==
    /\ Follows(n, l)
    /\ ~IsPrefix(ledger[n], ledger[l])
    /\ ledger' = [ledger EXCEPT ![n] = SubSeq(@, 1, Matching(l, n))]
    /\ Note(l, n, Matching(l, n))
    /\ UNCHANGED <<electionVars, committedIndex, committed, crashes, losses>>

(***************************************************************************)
(* The leader pushes the entry that follows to a follower that was         *)
(* compared.                                                               *)
(***************************************************************************)
HandleDoAppend(l, n) ==
    /\ Follows(n, l)
    /\ End(n) < End(l)
    /\ AppendsUncompared \/ IsPrefix(ledger[n], ledger[l])
    /\ ledger' = [ledger EXCEPT ![n] = Append(@, ledger[l][End(n) + 1])]
    /\ Note(l, n, End(n) + 1)
    /\ UNCHANGED <<electionVars, committedIndex, committed, crashes, losses>>

(***************************************************************************)
(* The leader commits what a quorum has, if it is of its own term, and     *)
(* what lies before that.  Appends of its own term are answered now.       *)
(***************************************************************************)
UpdateCommittedIndex(l) ==
    LET quorum == {i \in Indexes : IsQuorum({n \in Nodes : Marks(l, n) >= i})}
        index == Max(quorum)
        newly == {[index |-> i, term |-> ledger[l][i], by |-> currTerm[l]] :
                      i \in committedIndex[l] + 1 .. index}
    IN  /\ role[l] = "leader"
        /\ index > committedIndex[l]
        /\ CommitsOldTerms \/ ledger[l][index] = currTerm[l]
        /\ committedIndex' = [committedIndex EXCEPT ![l] = index]
        /\ committed' = committed \cup newly
        /\ UNCHANGED <<electionVars, ledger, peerWaterMarks, crashes, losses>>

(***************************************************************************)
(* A follower that was compared is told what is committed.                 *)
(***************************************************************************)
HandleDoCommit(l, n) ==
    LET index == Min(committedIndex[l], End(n))
    IN  /\ Follows(n, l)
        /\ IsPrefix(ledger[n], ledger[l])
        /\ index > committedIndex[n]
        /\ committedIndex' = [committedIndex EXCEPT ![n] = index]
        /\ UNCHANGED <<electionVars, ledger, peerWaterMarks, committed, crashes, losses>>

-----------------------------------------------------------------------------
(***************************************************************************)
(* A node crashes and starts again, as a candidate.                        *)
(***************************************************************************)
Crash(n) ==
    /\ crashes < MaxCrashes
    /\ crashes' = crashes + 1
    /\ \E kept \in (IF losses < MaxLosses THEN 0 ELSE End(n)) .. End(n) :
           /\ ledger' = [ledger EXCEPT ![n] = SubSeq(@, 1, kept)]
           /\ losses' = IF kept < End(n) THEN losses + 1 ELSE losses
    /\ currVoteFor' = [currVoteFor EXCEPT ![n] = IF ForgetsVote THEN Nobody ELSE @]
    /\ role' = [role EXCEPT ![n] = "candidate"]
    /\ votes' = [votes EXCEPT ![n] = {}]
    /\ committedIndex' = [committedIndex EXCEPT ![n] = 0]
    /\ peerWaterMarks' = [peerWaterMarks EXCEPT ![n] = NoMarks]
    /\ UNCHANGED <<currTerm, committed>>

Next ==
    \/ \E n \in Nodes :
          \/ IncreaseTerm(n)
          \/ ChangeRoleToLeader(n)
          \/ AppendAsLeader(n)
          \/ UpdateCommittedIndex(n)
          \/ Crash(n)
    \/ \E m, n \in Nodes :
          \/ HandleVote(m, n)
          \/ HandleHeartBeat(m, n)
          \/ HandleDoCompare(m, n)
          \/ HandleDoTruncate(m, n)
          \/ HandleDoAppend(m, n)
          \/ HandleDoCommit(m, n)

\* A leader pushes and commits; nobody must send anything, and nobody must be elected.  None of
\* these steps is undone in its term, so that each is taken if always one of them is.
Fairness ==
    WF_vars(\E l, n \in Nodes :
        \/ HandleHeartBeat(l, n)
        \/ HandleDoCompare(l, n)
        \/ HandleDoTruncate(l, n)
        \/ HandleDoAppend(l, n)
        \/ UpdateCommittedIndex(l))

Spec == Init /\ [][Next]_vars /\ Fairness

Symmetry == Permutations(Nodes)

-----------------------------------------------------------------------------
TypeOK ==
    /\ currTerm \in [Nodes -> Terms]
    /\ currVoteFor \in [Nodes -> Nodes \cup {Nobody}]
    /\ role \in [Nodes -> {"candidate", "leader", "follower"}]
    /\ votes \in [Nodes -> SUBSET Nodes]
    /\ \A n \in Nodes : ledger[n] \in Seq(1 .. MaxTerm) /\ End(n) <= Longest
    /\ committedIndex \in [Nodes -> Indexes]
    /\ peerWaterMarks \in [Nodes -> [Nodes -> Indexes]]
    /\ committed \subseteq [index : 1 .. Longest, term : 1 .. MaxTerm, by : 1 .. MaxTerm]
    /\ crashes \in 0 .. MaxCrashes
    /\ losses \in 0 .. MaxLosses

Leads(n) == role[n] = "leader"

HasEntry(n, e) == End(n) >= e.index /\ ledger[n][e.index] = e.term

(***************************************************************************)
(* A term has one leader at most (RAFT-001).                               *)
(***************************************************************************)
ElectionSafety ==
    \A m, n \in Nodes : Leads(m) /\ Leads(n) /\ currTerm[m] = currTerm[n] => m = n

\* Only a candidate counts votes.
OnlyCandidatesCount == \A n \in Nodes : votes[n] # {} => role[n] = "candidate"

(***************************************************************************)
(* Two ledgers with the same entry have the same before it (RAFT-002).     *)
(***************************************************************************)
LogMatching ==
    \A m, n \in Nodes : \A i \in 1 .. Matching(m, n) :
        ledger[m][i] = ledger[n][i]

(***************************************************************************)
(* What was committed in a term is in the ledger of the leaders of all     *)
(* later ones (RAFT-003): so it was never another entry that was committed *)
(* at its index (RAFT-004), and it is not cut off (RAFT-005).              *)
(***************************************************************************)
LeaderCompleteness ==
    \A e \in committed, n \in Nodes : Leads(n) /\ currTerm[n] > e.by => HasEntry(n, e)

StateMachineSafety ==
    \A d, e \in committed : d.index = e.index => d.term = e.term

CommittedIsInLedger == \A n \in Nodes : committedIndex[n] <= End(n)

(***************************************************************************)
(* What a producer was told to be stored, as its entry was committed in    *)
(* the term in which it was appended (RAFT-006).                           *)
(***************************************************************************)
AcknowledgedIsKept ==
    \A e \in committed, n \in Nodes :
        e.term = e.by /\ Leads(n) /\ currTerm[n] > e.by => HasEntry(n, e)

\* That, as long as no crash took the end of a ledger (RAFT-008).
KeptWithoutLoss == losses = 0 => AcknowledgedIsKept

(***************************************************************************)
(* Often believed: what a producer was not told to be stored is not there  *)
(* (RAFT-007).                                                             *)
(***************************************************************************)
CommittedIsAcknowledged ==
    \A e \in committed : \E d \in committed : d.index = e.index /\ d.term = e.term /\ d.by = d.term

(***************************************************************************)
(* Often believed: a leader that is not disturbed commits all that it has  *)
(* (RAFT-009), which lets a broker of 5.3.3 become master.                 *)
(***************************************************************************)
IsUndisturbed(n) == Leads(n) /\ currTerm[n] = MaxTerm /\ crashes = MaxCrashes

LeaderCommits == \A n \in Nodes : IsUndisturbed(n) ~> committedIndex[n] = End(n)

(***************************************************************************)
(* Witnesses, to be violated: two leaders of different terms at once; a    *)
(* follower that has cut off entries; an entry that was committed in a     *)
(* term and is in the ledger of a later leader.                            *)
(***************************************************************************)
NeverTwoLeaders == \A m, n \in Nodes : Leads(m) /\ Leads(n) => m = n

NeverTruncates ==
    \A l, n \in Nodes : Follows(n, l) => IsPrefix(ledger[n], ledger[l])

NeverHandsOn == \A e \in committed, n \in Nodes : Leads(n) => currTerm[n] <= e.by
=============================================================================
