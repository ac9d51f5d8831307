------------------------------ MODULE Reading ------------------------------
(***************************************************************************)
(* Two actions of a counter, and much that is false of it.                 *)
(***************************************************************************)
EXTENDS Integers, FiniteSets

CONSTANTS Members, None, Limit

VARIABLES count, held

Init == count = 0 /\ held = {} /\ Limit /= 1

Take(m) == count < Limit /\ count' = count + 1 /\ held' = held \cup {m}

Drop == \E m \in {each \in Members : each \in held} : held' = held \ {m} /\ UNCHANGED count

Next == Drop \/ \E m \in Members : Take(m)

-----------------------------------------------------------------------------
Open == Limit >= 1

Contradiction == Limit > 1 /\ Limit < 1

Closed == Limit = 0

Natural == count >= 0

Below == count <= Limit /\ Natural

Negative == count < 0

Barred == Limit = 1

-----------------------------------------------------------------------------
NoSubset == \A some \in SUBSET Members : some /= some

NoFunction == \A f \in [Members -> {0}] : FALSE

FirstIsChosen == (CHOOSE n \in {count, count + 1} : TRUE) = count

LeastOfOthers ==
    \A least \in Int :
        (CHOOSE i \in {n \in Nat : n = n} : \A j \in {n \in Int : n = n} : i <= j) <= least

ByNone == 1 \div Limit >= 0

RoundedUp == (0 - 1) \div 2 = 0

ProductGrows == \A x, y \in Int : x * y >= x

ProductIsNatural == \A x, y \in Nat : x * y >= 0

QuotientIsLess == \A x \in Nat : x \div Limit < Limit

QuotientIsNatural == \A x \in Nat : x \div Limit >= 0

RemainderIsLess == \A x \in Int : 0 <= x % Limit /\ x % Limit < Limit

AllHold == Cardinality(held) = Cardinality(Members)

OneMoreIsMore == \A m \in Members : Cardinality(held) < Cardinality(held \cup {m})

SizesAreOrdered ==
    /\ Cardinality(held) <= Cardinality(Members)
    /\ Cardinality(held) = 0 <=> held = {}
    /\ \A m \in Members \ held : Cardinality(held) < Cardinality(held \cup {m})

Same == INSTANCE Inner

Other == INSTANCE Inner WITH count <- count + 1

InsideIsBelow == Same!IsBelow

InsideIsNatural == Same!IsNatural

OtherIsBelow == Other!IsBelow

AllOrNone == held \in {Members, {}}

WithinMembers == \A some \in {held, Members} : some \subseteq Members

OneHolder == Cardinality(held) <= 1

AlwaysBelow == count < Limit

SomeoneHolds == \E m \in Members : m \in held

NumbersEnd == \A n \in Nat : \E m \in Nat : n + m = 3

NeverTaken == [][count' = count]_<<count, held>>
=============================================================================
