------------------------------ MODULE ConfigFile ------------------------------
(***************************************************************************)
(* consumerOffset.json and its like: a table that a broker writes to a     *)
(* file again and again, with the content before it in a .bak, and reads   *)
(* when it starts.                                                         *)
(*                                                                         *)
(* Modelled: a write in its steps, a crash between any two of them, and    *)
(* what a start reads; a machine that loses its power, which tears what is *)
(* not on the disk.  A content is a number that grows, so that it is the   *)
(* larger the newer it is; a file that is torn is no JSON.                 *)
(*                                                                         *)
(* As the reference does it: the new content goes to a file of its own and *)
(* to the disk, the old file becomes the .bak, the new one takes its       *)
(* place.  As 5.3.3 does it (InPlace): the old content is copied to the    *)
(* .bak, whatever it is, and the new one is written over the old.          *)
(*                                                                         *)
(* Left out: files that somebody damages (OffsetCommit), a disk that takes *)
(* renames in another order than they were made.                           *)
(*                                                                         *)
(* No twin in the core: what it models is files, mqspec/store/config_file. *)
(***************************************************************************)
EXTENDS Naturals

CONSTANTS
    MaxContents,     \* how many contents there are
    MaxCrashes,
    LosesPower,      \* TRUE: a crash may be one of the machine
    \* Defects, FALSE in the protocol as it is:
    InPlace,         \* a file is written over, after its content was copied to the .bak
    SyncsNothing     \* nothing waits for the disk

VARIABLES
    table,           \* what the broker has in memory
    file, bak, new,  \* what the files hold: a content, None or Torn
    unsynced,        \* the files that are not on the disk
    step,            \* how far the write is: "none", "new", "bak" or "file"; "down"
    written,         \* ghost: the last content whose write ended
    crashes

vars == <<table, file, bak, new, unsynced, step, written, crashes>>

Contents == 1 .. MaxContents
None == 0
Torn == MaxContents + 1
Values == Contents \cup {None, Torn}
IsWhole(content) == content \in Contents

TypeOK ==
    /\ table \in 0 .. MaxContents
    /\ {file, bak, new} \subseteq Values
    /\ unsynced \subseteq {"file", "bak", "new"}
    /\ step \in {"none", "new", "bak", "file", "down"}
    /\ written \in 0 .. MaxContents
    /\ crashes \in 0 .. MaxCrashes

Init ==
    /\ table = None
    /\ file = None
    /\ bak = None
    /\ new = None
    /\ unsynced = {}
    /\ step = "none"
    /\ written = None
    /\ crashes = 0

-----------------------------------------------------------------------------
(***************************************************************************)
(* The table changes.                                                      *)
(***************************************************************************)
Update ==
    /\ step = "none"
    /\ table < MaxContents
    /\ table' = table + 1
    /\ UNCHANGED <<file, bak, new, unsynced, step, written, crashes>>

(***************************************************************************)
(* The write begins: a file is open, and has nothing whole in it.          *)
(***************************************************************************)
BeginWrite ==
    /\ step = "none"
    /\ table # written
    /\ IF InPlace
       THEN IF file = None
            THEN step' = "file" /\ file' = Torn /\ UNCHANGED <<bak, new>>
            ELSE step' = "bak" /\ bak' = Torn /\ UNCHANGED <<file, new>>
       ELSE step' = "new" /\ new' = Torn /\ UNCHANGED <<file, bak>>
    /\ UNCHANGED <<table, unsynced, written, crashes>>

\* As the reference does it.
WriteNew ==
    /\ step = "new"
    /\ new' = table
    /\ unsynced' = IF SyncsNothing THEN unsynced \cup {"new"} ELSE unsynced
    /\ step' = IF file = None THEN "file" ELSE "bak"
    /\ UNCHANGED <<table, file, bak, written, crashes>>

RenameToBak ==
    /\ ~InPlace
    /\ step = "bak"
    /\ bak' = file
    /\ file' = None
    /\ unsynced' = (unsynced \ {"file", "bak"}) \cup (IF "file" \in unsynced THEN {"bak"} ELSE {})
    /\ step' = "file"
    /\ UNCHANGED <<table, new, written, crashes>>

RenameToFile ==
    /\ ~InPlace
    /\ step = "file"
    /\ file' = new
    /\ new' = None
    /\ unsynced' = (unsynced \ {"file", "new"}) \cup (IF "new" \in unsynced THEN {"file"} ELSE {})
    /\ step' = "none"
    /\ written' = table
    /\ UNCHANGED <<table, bak, crashes>>

\* As 5.3.3 does it.
CopyToBak ==
    /\ InPlace
    /\ step = "bak"
    /\ bak' = file
    /\ file' = Torn
    /\ unsynced' = unsynced \cup {"bak"}
    /\ step' = "file"
    /\ UNCHANGED <<table, new, written, crashes>>

WriteOver ==
    /\ InPlace
    /\ step = "file"
    /\ file' = table
    /\ unsynced' = unsynced \cup {"file"}
    /\ step' = "none"
    /\ written' = table
    /\ UNCHANGED <<table, bak, new, crashes>>

(***************************************************************************)
(* What is not on the disk gets there in the end.                          *)
(***************************************************************************)
Sync ==
    /\ unsynced # {}
    /\ unsynced' = {}
    /\ UNCHANGED <<table, file, bak, new, step, written, crashes>>

(***************************************************************************)
(* The broker is killed, or its machine loses its power, which may tear    *)
(* what is not on the disk.                                                *)
(***************************************************************************)
Crash ==
    /\ step # "down"
    /\ crashes < MaxCrashes
    /\ crashes' = crashes + 1
    /\ \E torn \in (IF LosesPower THEN SUBSET unsynced ELSE {{}}) :
           /\ file' = IF "file" \in torn THEN Torn ELSE file
           /\ bak' = IF "bak" \in torn THEN Torn ELSE bak
           /\ new' = IF "new" \in torn THEN Torn ELSE new
    /\ unsynced' = {}
    /\ step' = "down"
    /\ UNCHANGED <<table, written>>

(***************************************************************************)
(* A start reads the file, or the .bak where that is missing or torn.  The *)
(* reference then removes a file that is torn, so that it does not become  *)
(* the .bak.                                                               *)
(***************************************************************************)
Load ==
    /\ step = "down"
    /\ table' = IF IsWhole(file) THEN file ELSE IF IsWhole(bak) THEN bak ELSE None
    /\ file' = IF ~InPlace /\ file = Torn THEN None ELSE file
    /\ new' = None
    /\ step' = "none"
    /\ written' = table'
    /\ UNCHANGED <<bak, unsynced, crashes>>

Next ==
    \/ Update
    \/ BeginWrite
    \/ WriteNew
    \/ RenameToBak
    \/ RenameToFile
    \/ CopyToBak
    \/ WriteOver
    \/ Sync
    \/ Crash
    \/ Load

Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------
(***************************************************************************)
(* Whenever a crash comes, a start reads what the last write that ended    *)
(* wrote, or something newer (RECOV-023).                                  *)
(***************************************************************************)
NothingWrittenIsLost ==
    written # None => \/ IsWhole(file) /\ file >= written
                      \/ ~IsWhole(file) /\ IsWhole(bak) /\ bak >= written

(***************************************************************************)
(* What a start finds is on the disk.  The reference, once it has started, *)
(* has no file that is torn, of which it would make the .bak; 5.3.3 writes *)
(* no third file.                                                          *)
(***************************************************************************)
FoundIsOnDisk == step = "down" => unsynced = {}

NoThirdFile == InPlace => new = None

TornIsRemoved == InPlace \/ step = "down" \/ file # Torn

(***************************************************************************)
(* A broker that is down writes nothing before it has started.             *)
(***************************************************************************)
DownWritesNothing ==
    [][step = "down" /\ <<file, bak, new, step>>' # <<file, bak, new, step>>
        => step' = "none" /\ bak' = bak /\ written' = table']_vars

(***************************************************************************)
(* Witnesses, to be violated: a start needs the .bak; the .bak is torn.    *)
(***************************************************************************)
NeverTornBak == bak # Torn

NeverNeedsBak == step = "down" /\ written # None => IsWhole(file)
===============================================================================
