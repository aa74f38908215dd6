------------------------------ MODULE Recovery ------------------------------
(***************************************************************************)
(* What Dictum.tla leaves out: a replica loses its memory, comes back under*)
(* a new incarnation, and votes again when it knows enough. See the head of*)
(* paxos/src/recovery.rs for the rules. Disks are prompt here and nobody   *)
(* crashes otherwise, a leader appends its opening entry only, and a       *)
(* candidate copies in one step; the rest is as in Dictum.tla.             *)
(*                                                                         *)
(* What an earlier life has said stays said: its promises and its Accepted *)
(* may still arrive.                                                       *)
(***************************************************************************)
EXTENDS Naturals, Sequences, FiniteSets, TLC

CONSTANTS Nodes, BallotMax, LengthMax,
    LossMax,    \* how many memories are lost, one at a time
    Mistake

Mistakes == {"none", "votes before it has caught up", "forgets the floor"}
ASSUME Mistake \in Mistakes

VARIABLES promised, log, role, matched, owner, sent, acked, decided,
    promises,   \* promises[b]: everything that was ever promised: from, tail, the life that promised, the lives that it knew
    life,       \* life[n]: n's incarnation
    noted,      \* noted[n][m]: the incarnation of m that n knows
    lost,       \* lost[n]: how far n's recovery has come; Whole when it has its memory
    losses

vars == <<promised, log, role, matched, owner, sent, acked, decided, promises, life, noted, lost, losses>>

Ballots == 1..BallotMax
Max(a, b) == IF a > b THEN a ELSE b
Majority(set) == 2 * Cardinality(set) > Cardinality(Nodes)
TailOf(entries) == <<IF entries = <<>> THEN 0 ELSE entries[Len(entries)], Len(entries)>>
Greater(a, b) == a[1] > b[1] \/ (a[1] = b[1] /\ a[2] > b[2])
Led(b) == sent[b] # <<>>
Opening(b) == CHOOSE p \in 1..Len(sent[b]) : sent[b][p] = b /\ \A q \in 1..(p - 1) : sent[b][q] # b
SamePrefix(a, b, length) == \A p \in 1..length : a[p] = b[p]
Whole == [on |-> FALSE, voices |-> {}, floor |-> 0, may |-> FALSE, target |-> <<0, 0>>]
\* So many others meet the others of every majority.
Enough == Cardinality(Nodes) - (Cardinality(Nodes) \div 2 + 1) + 1

Init ==
    /\ promised = [n \in Nodes |-> 0]
    /\ log = [n \in Nodes |-> <<>>]
    /\ role = [n \in Nodes |-> "follower"]
    /\ matched = [n \in Nodes |-> 0]
    /\ owner = [b \in Ballots |-> "nobody"]
    /\ sent = [b \in Ballots |-> <<>>]
    /\ acked = [b \in Ballots |-> [n \in Nodes |-> 0]]
    /\ decided = [b \in Ballots |-> 0]
    /\ promises = [b \in Ballots |-> {}]
    /\ life = [n \in Nodes |-> 1]
    /\ noted = [n \in Nodes |-> [m \in Nodes |-> 1]]
    /\ lost = [n \in Nodes |-> Whole]
    /\ losses = 0

PromiseOf(n) == [from |-> n, tail |-> TailOf(log[n]), life |-> life[n], knows |-> noted[n]]

Run(n, b) ==
    /\ role[n] = "follower" /\ ~lost[n].on /\ b > promised[n] /\ owner[b] \in {"nobody", n}
    /\ \A c \in 1..(b - 1) : owner[c] # "nobody"
    /\ owner' = [owner EXCEPT ![b] = n]
    /\ promised' = [promised EXCEPT ![n] = b]
    /\ role' = [role EXCEPT ![n] = "candidate"]
    /\ matched' = [matched EXCEPT ![n] = 0]
    /\ promises' = [promises EXCEPT ![b] = @ \cup {PromiseOf(n)}]
    /\ UNCHANGED <<log, sent, acked, decided, life, noted, lost, losses>>

OnPrepare(n, b) ==
    /\ owner[b] \notin {"nobody", n} /\ b >= promised[n] /\ ~lost[n].on
    /\ b > promised[n] \/ ~Led(b)
    /\ promised' = [promised EXCEPT ![n] = b]
    /\ role' = [role EXCEPT ![n] = "follower"]
    /\ matched' = [matched EXCEPT ![n] = IF b > promised[n] THEN 0 ELSE @]
    /\ promises' = [promises EXCEPT ![b] = @ \cup {PromiseOf(n)}]
    /\ UNCHANGED <<log, owner, sent, acked, decided, life, noted, lost, losses>>

\* Sets of promises, one from each of a majority with n's own among them, none of which another member of the
\* set knows to come from a life that is over.
Quorums(n) ==
    {set \in SUBSET promises[promised[n]] :
        /\ Majority({p.from : p \in set})
        /\ \E p \in set : p.from = n
        /\ \A p, q \in set : (p.from = q.from => p = q) /\ p.life >= q.knows[p.from]}

Lead(n) ==
    /\ role[n] = "candidate" /\ Len(log[n]) < LengthMax
    /\ \E set \in Quorums(n) : \E best \in set :
        /\ \A p \in set : ~Greater(p.tail, best.tail)
        /\ IF Greater(best.tail, TailOf(log[n]))
           THEN /\ promised[best.from] = promised[n] /\ ~lost[best.from].on /\ Len(log[best.from]) >= best.tail[2]
                /\ log' = [log EXCEPT ![n] = Append(SubSeq(log[best.from], 1, best.tail[2]), promised[n])]
           ELSE log' = [log EXCEPT ![n] = Append(@, promised[n])]
    /\ role' = [role EXCEPT ![n] = "leader"]
    /\ sent' = [sent EXCEPT ![promised[n]] = log'[n]]
    /\ acked' = [acked EXCEPT ![promised[n]][n] = Len(log'[n])]
    /\ UNCHANGED <<promised, matched, owner, decided, promises, life, noted, lost, losses>>

OnAccept(n, b, previous) ==
    /\ Led(b) /\ owner[b] # n /\ b >= promised[n] /\ (lost[n].on => lost[n].may)
    /\ previous <= Len(log[n]) /\ previous <= Len(sent[b])
    /\ IF previous = 0 THEN TRUE ELSE log[n][previous] = sent[b][previous]
    /\ \E end \in {previous, previous + 1} :
        /\ end <= Len(sent[b])
        /\ log' = IF end = previous \/ (end <= Len(log[n]) /\ log[n][end] = sent[b][end]) THEN log
                  ELSE [log EXCEPT ![n] = Append(SubSeq(@, 1, previous), sent[b][end])]
        /\ matched' = [matched EXCEPT ![n] = IF b = promised[n] THEN Max(@, end) ELSE end]
    /\ acked' = [acked EXCEPT ![b][n] = Max(@, matched'[n])]
    /\ promised' = [promised EXCEPT ![n] = b]
    /\ role' = [role EXCEPT ![n] = "follower"]
    /\ UNCHANGED <<owner, sent, decided, promises, life, noted, lost, losses>>

Decide(n, p) ==
    LET b == promised[n] IN
    /\ role[n] = "leader" /\ p \in (decided[b] + 1)..Len(log[n]) /\ p >= Opening(b)
    /\ Majority({m \in Nodes : acked[b][m] >= p})
    /\ decided' = [decided EXCEPT ![b] = p]
    /\ UNCHANGED <<promised, log, role, matched, owner, sent, acked, promises, life, noted, lost, losses>>

\* n's folder is deleted. It has been told that it is not new, and has taken a new incarnation.
Lose(n) ==
    /\ losses < LossMax /\ \A m \in Nodes : ~lost[m].on
    /\ losses' = losses + 1
    /\ promised' = [promised EXCEPT ![n] = 0]
    /\ log' = [log EXCEPT ![n] = <<>>]
    /\ role' = [role EXCEPT ![n] = "follower"]
    /\ matched' = [matched EXCEPT ![n] = 0]
    /\ life' = [life EXCEPT ![n] = @ + 1]
    /\ noted' = [noted EXCEPT ![n] = [m \in Nodes |-> IF m = n THEN life[n] + 1 ELSE 0]]
    /\ lost' = [lost EXCEPT ![n] = [Whole EXCEPT !.on = TRUE]]
    /\ UNCHANGED <<owner, sent, acked, decided, promises>>

\* m notes n's new incarnation and tells what it has promised and, if it leads, where its log ends.
Note(n, m) ==
    /\ lost[n].on /\ n # m /\ ~lost[m].on
    /\ noted' = [noted EXCEPT ![m][n] = life[n],
                              ![n] = [o \in Nodes |-> Max(@[o], noted[m][o])]]
    /\ LET voices == lost[n].voices \cup {m}
           floor == Max(lost[n].floor, promised[m])
           leads == IF role[m] = "leader" THEN <<promised[m], Len(log[m])>> ELSE <<0, 0>>
           may == Cardinality(voices) >= Enough
       IN  /\ lost' = [lost EXCEPT ![n] = [on |-> TRUE, voices |-> voices, floor |-> floor, may |-> may,
                           target |-> IF Greater(leads, lost[n].target) THEN leads ELSE lost[n].target]]
           /\ IF may /\ ~lost[n].may /\ floor > promised[n] /\ Mistake # "forgets the floor"
              THEN promised' = [promised EXCEPT ![n] = floor] /\ matched' = [matched EXCEPT ![n] = 0]
              ELSE UNCHANGED <<promised, matched>>
    /\ <<lost, noted>>' # <<lost, noted>>
    /\ UNCHANGED <<log, role, owner, sent, acked, decided, promises, life, losses>>

\* n has all that a leader of the ballot that it obeys held after n began to recover.
Recovered(n) ==
    /\ lost[n].may
    /\ \/ Mistake = "votes before it has caught up"
       \/ lost[n].target[1] # 0 /\ lost[n].target[1] = promised[n] /\ matched[n] >= lost[n].target[2]
    /\ lost' = [lost EXCEPT ![n] = Whole]
    /\ UNCHANGED <<promised, log, role, matched, owner, sent, acked, decided, promises, life, noted, losses>>

Next ==
    \E n \in Nodes :
        \/ \E b \in Ballots : Run(n, b) \/ OnPrepare(n, b)
        \/ Lead(n)
        \/ \E b \in Ballots : \E previous \in 0..LengthMax : OnAccept(n, b, previous)
        \/ \E p \in 1..LengthMax : Decide(n, p)
        \/ Lose(n) \/ Recovered(n)
        \/ \E m \in Nodes : Note(n, m)

Spec == Init /\ [][Next]_vars

\* Two ballots never decide different entries at one position.
Agreement ==
    \A b, c \in Ballots : \A p \in 1..LengthMax :
        p <= decided[b] /\ p <= decided[c] => sent[b][p] = sent[c][p]

\* Whoever leads has everything that lower ballots have decided, or ever will.
LeaderCompleteness ==
    \A b, c \in Ballots : b < c /\ Led(c) =>
        Len(sent[c]) >= decided[b] /\ SamePrefix(sent[b], sent[c], decided[b])

\* A ballot has one leadership: nobody who has lost its memory runs for a ballot under which it has led.
OneLeadership == \A n \in Nodes : role[n] = "leader" => sent[promised[n]] = log[n]

Symmetry == Permutations(Nodes)
=============================================================================
