------------------------------- MODULE Dictum -------------------------------
(***************************************************************************)
(* The replicated log of one partition, as the crate `paxos` keeps it.     *)
(*                                                                         *)
(* What is modelled: ballots; phase 1 once for the whole log, with promises*)
(* that tell the tail (ballot of the last entry, its position); a candidate*)
(* that copies, in parts, a log with a greater tail than its own;          *)
(* the opening entry; phase 2 by log matching, with entries that keep the  *)
(* ballot under which they were first proposed; a disk that lags behind    *)
(* memory, and crashes that lose the difference; answers that wait for the *)
(* disk; refusals; decisions by counting disks from the opening entry on;  *)
(* rounds that confirm reads.                                              *)
(*                                                                         *)
(* What is left out, and why that is safe: pre-vote, ranks, hand-over and  *)
(* all timers only choose *when* a replica runs for leader; here it may at *)
(* any time. Snapshots and windows only choose how entries travel. A       *)
(* Refuse does what a Prepare of the ballot that it tells of does. Ballots *)
(* are run for in their order: whoever runs for a lower one after a higher *)
(* one was run for has heard nothing of it, so it might as well have done  *)
(* so before. Lost memories are in Recovery.tla.                           *)
(*                                                                         *)
(* The network loses, doubles, delays and reorders. That needs no set of   *)
(* messages: what can still arrive is always one of the things that were   *)
(* ever said, and what was said is kept per ballot (`prepared`, `promises`,*)
(* `sent`, `acked`). A leader's log only grows, so every Accept of ballot b*)
(* is a window of sent[b]; it is received here one entry at a time.        *)
(***************************************************************************)
EXTENDS Naturals, Sequences, FiniteSets, TLC

CONSTANTS
    Nodes,      \* the voters
    BallotMax,  \* ballots are 1..BallotMax; 0 is "none yet". Round and node are folded into one number: whoever
                \* first runs for a ballot owns it, which is every order that (round, node) can produce.
    LengthMax,  \* longest log
    SlowDisks,  \* TRUE: disks lag behind memory. FALSE: what is given to a disk is there at once (smaller)
    CrashMax,   \* how many crashes a behaviour has at most
    ReadMax,    \* how many linearizable reads: 0 or 1
    Mistake     \* "none", or a rule that is broken on purpose to see that TLC notices

Mistakes == {"none", "counts before its opening", "forgets a promise", "promises before it is on disk",
             "accepts before it is on disk", "does not fetch", "reads without confirmation",
             "vouches for a lower ballot"}
ASSUME Mistake \in Mistakes

VARIABLES
    promised,   \* promised[n]: no ballot below this is obeyed
    log,        \* log[n]: a sequence of entries. An entry is its ballot: (position, ballot) names it.
    role,       \* role[n]: "follower", "candidate", "leader" (of promised[n])
    matched,    \* matched[n]: the log agrees with that of the leader of promised[n] up to here
    diskPromised, diskLog,   \* what n would find after a crash
    owner,      \* owner[b]: who runs for b, or "nobody"
    prepared,   \* the ballots for which Prepare has been sent
    promises,   \* promises[b][n]: the tail that n's Promise told, or NoTail
    sent,       \* sent[b]: the log of b's leader as far as it ever reached; <<>> before b leads
    acked,      \* acked[b][n]: the furthest position that n ever accepted under b, on its disk
    decided,    \* decided[b]: what the leader of b has counted as decided
    crashes,
    read        \* the read: its ballot, the position it will see, what had been decided before it, who has confirmed, and
                \* whether the leader knows of it

vars == <<promised, log, role, matched, diskPromised, diskLog, owner, prepared, promises, sent, acked, decided,
          crashes, read>>
replica == <<promised, log, role, matched>>
disk == <<diskPromised, diskLog>>
said == <<owner, prepared, promises, sent, acked, decided>>

Ballots == 1..BallotMax
NoTail == <<0, 0, 0>>
NoRead == [ballot |-> 0, sees |-> 0, before |-> 0, yes |-> {}, taken |-> FALSE, done |-> FALSE]
Majority(set) == 2 * Cardinality(set) > Cardinality(Nodes)
Max(a, b) == IF a > b THEN a ELSE b

\* <<1, ballot, last>>; the 1 tells the tail of an empty log from no tail at all.
TailOf(entries) == <<1, IF entries = <<>> THEN 0 ELSE entries[Len(entries)], Len(entries)>>
Greater(a, b) == a[2] > b[2] \/ (a[2] = b[2] /\ a[3] > b[3])

Led(b) == sent[b] # <<>>
Opening(b) == CHOOSE p \in 1..Len(sent[b]) : sent[b][p] = b /\ \A q \in 1..(p - 1) : sent[b][q] # b
SamePrefix(a, b, length) == \A p \in 1..length : a[p] = b[p]

Init ==
    /\ promised = [n \in Nodes |-> 0]
    /\ log = [n \in Nodes |-> <<>>]
    /\ role = [n \in Nodes |-> "follower"]
    /\ matched = [n \in Nodes |-> 0]
    /\ diskPromised = [n \in Nodes |-> 0]
    /\ diskLog = [n \in Nodes |-> <<>>]
    /\ owner = [b \in Ballots |-> "nobody"]
    /\ prepared = {}
    /\ promises = [b \in Ballots |-> [n \in Nodes |-> NoTail]]
    /\ sent = [b \in Ballots |-> <<>>]
    /\ acked = [b \in Ballots |-> [n \in Nodes |-> 0]]
    /\ decided = [b \in Ballots |-> 0]
    /\ crashes = 0
    /\ read = NoRead

(***************************************************************************)
(* The disk                                                                *)
(***************************************************************************)

\* Everything that n has given to its disk by the end of this step is there, and what waited for it leaves: a candidate's
\* Prepare, a follower's Promise, a follower's Accepted, the leader's count of its own copy.
OnDisk(n, promisesNow, ackedNow) ==
    LET b == promised'[n] IN
    /\ diskPromised' = [diskPromised EXCEPT ![n] = b]
    /\ diskLog' = [diskLog EXCEPT ![n] = log'[n]]
    /\ prepared' = IF role'[n] = "candidate" THEN prepared \cup {b} ELSE prepared
    /\ promises' = IF b \in prepared /\ owner[b] # n /\ promisesNow[b][n] = NoTail
                   THEN [promisesNow EXCEPT ![b][n] = TailOf(log'[n])] ELSE promisesNow
    /\ acked' = IF b = 0 THEN ackedNow
                ELSE [ackedNow EXCEPT ![b][n] = Max(@, IF role'[n] = "leader" THEN Len(log'[n]) ELSE matched'[n])]

\* The end of every step in which n gives something to its disk. (`promisesNow` and `ackedNow` differ from `promises` and
\* `acked` only where a mistake lets an answer leave early.)
Store(n, promisesNow, ackedNow) ==
    IF SlowDisks
    THEN promises' = promisesNow /\ acked' = ackedNow /\ UNCHANGED <<disk, prepared>>
    ELSE OnDisk(n, promisesNow, ackedNow)

\* A slow disk catches up. That it may have only a part of what was given to it is the same as a Sync before the rest.
Sync(n) ==
    /\ SlowDisks
    /\ UNCHANGED replica
    /\ OnDisk(n, promises, acked)
    /\ <<disk, prepared, promises, acked>>' # <<disk, prepared, promises, acked>>
    /\ UNCHANGED <<owner, sent, decided, crashes, read>>

(***************************************************************************)
(* Phase 1                                                                 *)
(***************************************************************************)

\* n wants to lead. The promise to itself goes to its disk; Prepare leaves after that (see Sync).
Run(n, b) ==
    /\ role[n] = "follower" /\ b > promised[n]
    /\ owner[b] \in {"nobody", n}
    /\ \A c \in 1..(b - 1) : owner[c] # "nobody"
    /\ owner' = [owner EXCEPT ![b] = n]
    /\ promised' = [promised EXCEPT ![n] = b]
    /\ role' = [role EXCEPT ![n] = "candidate"]
    /\ matched' = [matched EXCEPT ![n] = 0]
    /\ UNCHANGED <<log, sent, decided, crashes, read>>
    /\ Store(n, promises, acked)

\* n receives Prepare(b) and promises. The Promise leaves after it is on disk (see Sync).
OnPrepare(n, b) ==
    /\ b \in prepared /\ b > promised[n]
    /\ promised' = [promised EXCEPT ![n] = b]
    /\ role' = [role EXCEPT ![n] = "follower"]
    /\ matched' = [matched EXCEPT ![n] = 0]
    /\ UNCHANGED <<log, owner, sent, decided, crashes, read>>
    /\ Store(n, IF Mistake = "promises before it is on disk"
                THEN [promises EXCEPT ![b][n] = TailOf(log[n])] ELSE promises, acked)

\* The others whose promises could make a majority with n's own.
Promisers(n) == {others \in SUBSET {m \in Nodes \ {n} : promises[promised[n]][m] # NoTail} : Majority(others \cup {n})}

\* One promise told of a greater tail: n makes its log like that of m, up to some position. m has promised
\* this ballot, so its log does not change meanwhile; if m has gone on to a higher one, it does not answer.
\* Any greater tail will do, and it takes no majority of promises (with three replicas one other is one; `four` has more).
Fetch(n) ==
    /\ role[n] = "candidate"
    /\ \E m \in Nodes \ {n} :
        LET b == promised[n]
            tail == promises[b][m]
        IN  /\ tail # NoTail
            /\ promised[m] = b
            /\ Greater(tail, TailOf(log[n]))
            /\ \E k \in 1..tail[3] :
                /\ k <= Len(log[m])
                /\ ~(k <= Len(log[n]) /\ SamePrefix(log[n], log[m], k))
                /\ log' = [log EXCEPT ![n] = SubSeq(log[m], 1, k)]
    /\ UNCHANGED <<promised, role, matched>>
    /\ Store(n, promises, acked)
    /\ UNCHANGED <<owner, sent, decided, crashes, read>>

\* n has a majority of promises and lacks nothing that they told of: it leads and appends its opening entry.
Lead(n) ==
    /\ role[n] = "candidate" /\ Len(log[n]) < LengthMax
    /\ \E others \in Promisers(n) :
        Mistake = "does not fetch" \/ \A m \in others : ~Greater(promises[promised[n]][m], TailOf(log[n]))
    /\ role' = [role EXCEPT ![n] = "leader"]
    /\ log' = [log EXCEPT ![n] = Append(@, promised[n])]
    /\ sent' = [sent EXCEPT ![promised[n]] = log'[n]]
    /\ UNCHANGED <<promised, matched>>
    /\ Store(n, promises, acked)
    /\ UNCHANGED <<owner, decided, crashes, read>>

(***************************************************************************)
(* Phase 2                                                                 *)
(***************************************************************************)

Propose(n) ==
    /\ role[n] = "leader" /\ Len(log[n]) < LengthMax
    /\ log' = [log EXCEPT ![n] = Append(@, promised[n])]
    /\ sent' = [sent EXCEPT ![promised[n]] = log'[n]]
    /\ UNCHANGED <<promised, role, matched>>
    /\ Store(n, promises, acked)
    /\ UNCHANGED <<owner, decided, crashes, read>>

\* n receives Accept(b) with the entry after `previous`, or with none. Entries that it has stay; at the first that differs
\* its log is cut. Accepted leaves after all that is on disk (see Sync).
OnAccept(n, b, previous) ==
    /\ Led(b) /\ owner[b] # n /\ b >= promised[n]
    /\ previous <= Len(log[n]) /\ previous <= Len(sent[b])
    /\ IF previous = 0 THEN TRUE ELSE log[n][previous] = sent[b][previous]
    /\ \E end \in {previous, previous + 1} :
        /\ end <= Len(sent[b])
        /\ log' = IF end = previous \/ (end <= Len(log[n]) /\ log[n][end] = sent[b][end]) THEN log
                  ELSE [log EXCEPT ![n] = Append(SubSeq(@, 1, previous), sent[b][end])]
        /\ matched' = [matched EXCEPT ![n] = IF b = promised[n] THEN Max(@, end) ELSE end]
    /\ promised' = [promised EXCEPT ![n] = b]
    /\ role' = [role EXCEPT ![n] = "follower"]
    /\ Store(n, promises, IF Mistake = "accepts before it is on disk"
                          THEN [acked EXCEPT ![b][n] = Max(@, matched'[n])] ELSE acked)
    /\ UNCHANGED <<owner, sent, decided, crashes, read>>

\* The leader counts the disks that have everything up to p. Its own need not be among them.
Decide(n, p) ==
    LET b == promised[n] IN
    /\ role[n] = "leader" /\ p \in (decided[b] + 1)..Len(log[n])
    /\ p >= Opening(b) \/ Mistake = "counts before its opening"
    /\ Majority({m \in Nodes : acked[b][m] >= p})
    /\ decided' = [decided EXCEPT ![b] = p]
    /\ UNCHANGED <<replica, disk, owner, prepared, promises, sent, acked, crashes, read>>

\* n loses what is not on its disk, and who it was.
Crash(n) ==
    /\ crashes < CrashMax
    /\ crashes' = crashes + 1
    /\ promised' = [promised EXCEPT ![n] = IF Mistake = "forgets a promise" THEN 0 ELSE diskPromised[n]]
    /\ log' = [log EXCEPT ![n] = diskLog[n]]
    /\ role' = [role EXCEPT ![n] = "follower"]
    /\ matched' = [matched EXCEPT ![n] = 0]
    /\ UNCHANGED <<disk, said, read>>

(***************************************************************************)
(* Reads                                                                   *)
(***************************************************************************)

AllDecided == CHOOSE p \in {decided[b] : b \in Ballots} : \A b \in Ballots : decided[b] <= p

\* A read arrives at n, who believes to lead. It will see the state at the greater of the decided position and the
\* opening entry. A round of Confirm is sent.
Ask(n) ==
    /\ ReadMax > 0 /\ read = NoRead /\ role[n] = "leader"
    /\ read' = [ballot |-> promised[n], sees |-> Max(decided[promised[n]], Opening(promised[n])),
                before |-> AllDecided, yes |-> {n}, taken |-> TRUE, done |-> FALSE]
    /\ UNCHANGED <<replica, disk, said, crashes>>

\* A read arrives at m, who follows a leader. It asks, and vouches: it has promised nothing higher.
AskThrough(m) ==
    /\ ReadMax > 0 /\ read = NoRead /\ role[m] = "follower" /\ promised[m] > 0
    /\ \E b \in IF Mistake = "vouches for a lower ballot" THEN 1..promised[m] ELSE {promised[m]} :
        read' = [ballot |-> b, sees |-> 0, before |-> AllDecided, yes |-> {m}, taken |-> FALSE, done |-> FALSE]
    /\ UNCHANGED <<replica, disk, said, crashes>>

\* The question reaches the leader, however late. It will be answered with what is decided now.
Take(n) ==
    /\ read # NoRead /\ ~read.taken
    /\ role[n] = "leader" /\ promised[n] = read.ballot
    /\ read' = [read EXCEPT !.sees = Max(decided[read.ballot], Opening(read.ballot)), !.yes = @ \cup {n}, !.taken = TRUE]
    /\ UNCHANGED <<replica, disk, said, crashes>>

\* m has promised nothing higher, and says so.
OnConfirm(m) ==
    /\ read # NoRead /\ read.taken /\ ~read.done /\ m \notin read.yes
    /\ promised[m] <= read.ballot
    /\ read' = [read EXCEPT !.yes = @ \cup {m}]
    /\ UNCHANGED <<replica, disk, said, crashes>>

\* The round has its majority, and what the read will see is decided.
Answer(n) ==
    /\ read # NoRead /\ read.taken /\ ~read.done
    /\ role[n] = "leader" /\ promised[n] = read.ballot
    /\ Majority(read.yes) \/ Mistake = "reads without confirmation"
    /\ decided[read.ballot] >= read.sees
    /\ read' = [read EXCEPT !.done = TRUE]
    /\ UNCHANGED <<replica, disk, said, crashes>>

Next ==
    \/ \E n \in Nodes :
        \/ \E b \in Ballots : Run(n, b) \/ OnPrepare(n, b)
        \/ Fetch(n) \/ Lead(n) \/ Propose(n)
        \/ \E b \in Ballots : \E previous \in 0..LengthMax : OnAccept(n, b, previous)
        \/ \E p \in 1..LengthMax : Decide(n, p)
        \/ Sync(n) \/ Crash(n)
        \/ Ask(n) \/ AskThrough(n) \/ Take(n) \/ OnConfirm(n) \/ Answer(n)

Spec == Init /\ [][Next]_vars

(***************************************************************************)
(* What must hold                                                          *)
(***************************************************************************)

\* Two ballots never decide different entries at one position.
Agreement ==
    \A b, c \in Ballots : \A p \in 1..LengthMax :
        p <= decided[b] /\ p <= decided[c] => sent[b][p] = sent[c][p]

\* Whoever leads has everything that lower ballots have decided, or ever will.
LeaderCompleteness ==
    \A b, c \in Ballots : b < c /\ Led(c) =>
        Len(sent[c]) >= decided[b] /\ SamePrefix(sent[b], sent[c], decided[b])

\* What is decided, and was accepted by a replica when it was decided, is never cut from its log, nor from its disk.
LogImmutability ==
    \A b \in Ballots : \A n \in Nodes : \A p \in 1..LengthMax :
        p <= decided[b] /\ p <= acked[b][n] =>
            /\ Len(log[n]) >= p /\ log[n][p] = sent[b][p]
            /\ Len(diskLog[n]) >= p /\ diskLog[n][p] = sent[b][p]

\* A decided entry is on the disks of a majority, in logs whose tail is at least the ballot that decided it.
DecidedIsOnDisks ==
    \A b \in Ballots : \A p \in 1..decided[b] :
        Majority({n \in Nodes : /\ Len(diskLog[n]) >= p /\ diskLog[n][p] = sent[b][p]
                                /\ diskLog[n][Len(diskLog[n])] >= b})

\* (position, ballot) names an entry and all before it.
LogMatching ==
    \A n, m \in Nodes : \A p \in 1..LengthMax :
        p <= Len(log[n]) /\ p <= Len(log[m]) /\ log[n][p] = log[m][p] => SamePrefix(log[n], log[m], p)

BallotsNeverFall == \A n \in Nodes : \A p \in 2..LengthMax : p <= Len(log[n]) => log[n][p - 1] <= log[n][p]

\* A read sees everything that had been decided when it arrived.
ReadsAreFresh == read.done => read.sees >= read.before

Symmetry == Permutations(Nodes)

\* To make the search for a mistake shorter: every leader appends its opening entry and nothing else.
OnlyOpenings == \A b \in Ballots : Cardinality({p \in 1..Len(sent[b]) : sent[b][p] = b}) <= 1
=============================================================================
