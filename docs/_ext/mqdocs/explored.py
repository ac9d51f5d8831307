"""An allocation as HTML: what the page of the explorer shows, when the book is built and later.

The browser runs this module too, so it needs the standard library and `mqspec.commands.plan` only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from itertools import groupby

from mqrules.errors import UserError
from mqspec.commands.plan import Allocation, Asked, Plan, between_stayers, plan
from mqspec.core.types import ClientId, MessageQueue, string_order

CELLS_MAX = 4_000  # what a page draws without a pause
COLOURS = 10  # members are told apart by number, neighbours by colour as well

# What may happen to the group: the option of `mqspec allocate`, and whether it needs a word more.
EVENTS: Mapping[str, tuple[str, bool]] = {
    "nothing": ("", False),
    "a member leaves": ("leave", True),
    "a member joins": ("join", True),
    "a release": ("release", False),
    "an id comes twice": ("duplicate_id", True),
    "the others miss a member": ("unseen", True),
}
_MANY = ("leave", "join")


def asked_of(form: Mapping[str, str]) -> Asked:
    """The options that the fields of the form stand for."""
    options: dict[str, object] = {
        name: form[name] for name in ("brokers", "members", "strategy") if form.get(name)
    }
    if topics := form.get("topics", "").split():
        options["topic"] = topics
    elif form.get("queues"):
        options["queues"] = form["queues"]
    if form.get("rooms") and form.get("strategy") == "MACHINE_ROOM":
        options["rooms"] = form["rooms"]
    option, needs_word = EVENTS[form.get("event", "nothing")]
    if needs_word:
        word = form.get("who", "").strip()
        options[option] = [word] if option in _MANY else word
    elif option:
        options[option] = True
    return Asked(**options)  # type: ignore[arg-type]


def command(asked: Asked) -> str:
    """The command that shows the same."""
    words = ["mqspec allocate"]
    usual = Asked()
    for name in Asked.__dataclass_fields__:
        value = getattr(asked, name)
        if value == getattr(usual, name):
            continue
        option = "--" + name.replace("_", "-")
        if value is True:
            words.append(option)
        else:
            several = [value] if isinstance(value, str) else value
            words += [f"{option} {_word(one)}" for one in several]
    return " ".join(words)


def _word(text: str) -> str:
    plain = text.replace("-", "").replace("_", "").replace(",", "").replace(":", "")
    return text if plain.replace("@", "").replace(".", "").isalnum() else f"'{text}'"


def answered(form: Mapping[str, str]) -> str:
    """What the page shows below the form: a drawing; or, of bad input, one line that says why."""
    asked = asked_of(form)
    try:
        planned = plan(asked)
    except UserError as error:
        return f'<p class="wrong">{escape(str(error))}</p>'
    return f"<p><code>{escape(command(asked))}</code></p>{drawn(planned)}"


def drawn(planned: Plan) -> str:
    """A row a state, a cell a queue, its owners by number; what has moved is framed."""
    first = planned.states[0][1]
    if len(first.queues) * len(planned.states) > CELLS_MAX:
        return f"<p>Too much to draw: {len(first.queues)} queues, {len(planned.states)} times.</p>"
    members = _members(planned)
    return "".join(
        [
            *_totals(planned, members),
            '<div class="wide"><table class="allocation">',
            *_heads(first.queues),
            *_rows(planned, members),
            "</table></div>",
            *_summary(planned),
        ]
    )


def _members(planned: Plan) -> list[ClientId]:
    """All ids that there are at any time; a member's number is its place, from 1."""
    return sorted({cid for _, state in planned.states for cid in state.members}, key=string_order)


def _totals(planned: Plan, members: Sequence[ClientId]) -> Iterator[str]:
    """What each member has at first and, of two states, then."""
    states = [state for _, state in planned.states[:2]] if len(planned.states) <= 2 else []
    states = states or [planned.states[0][1]]
    yield '<p class="members">'
    for number, cid in enumerate(members, start=1):
        counts = [str(_count(state, cid)) for state in states]
        yield (
            f'<span class="m{(number - 1) % COLOURS}">{number}</span> {escape(cid)}: '
            f"{' → '.join(counts)} "
        )
    yield "</p>"


def _count(state: Allocation, cid: ClientId) -> int:
    return sum(cid in owners for owners in state.owners.values())


def _heads(queues: Sequence[MessageQueue]) -> Iterator[str]:
    yield "<thead><tr><th></th>"
    for (topic, broker), some in groupby(queues, key=lambda mq: (mq.topic, mq.broker_name)):
        yield f'<th colspan="{len(list(some))}">{escape(topic)} {escape(broker)}</th>'
    yield "</tr><tr><th></th>"
    yield from (f"<td>{mq.queue_id}</td>" for mq in queues)
    yield "</tr></thead><tbody>"


def _rows(planned: Plan, members: Sequence[ClientId]) -> Iterator[str]:
    before: Allocation | None = None
    for title, state in planned.states:
        yield f"<tr><th>{escape(title) if len(planned.states) > 1 else 'owner'}</th>"
        for mq in state.queues:
            cids = state.owners[mq]
            numbers = [members.index(cid) + 1 for cid in cids]
            kind = "nobody" if not cids else "shared" if len(cids) > 1 else _colour(numbers[0])
            has_moved = before is not None and before.owners[mq] != cids
            who = ", ".join(cids) or "nobody"
            name = escape(f"{mq.topic} {mq.broker_name} {mq.queue_id}: {who}", quote=True)
            shown = "+".join(map(str, numbers)) or "-"
            yield f'<td class="{kind}{" moved" if has_moved else ""}" title="{name}">{shown}</td>'
        yield "</tr>"
        before = state
    yield "</tbody>"


def _colour(number: int) -> str:
    return f"m{(number - 1) % COLOURS}"


def _summary(planned: Plan) -> Iterator[str]:
    """How many queues are nobody's or shared, and how many moved."""
    _, last = planned.states[-1]
    for what, queues in (("has no owner", last.nobodys), ("has two owners", last.shared)):
        if queues:
            several = f"{len(queues)} queues {what.replace('has', 'have')}"
            yield f'<p class="wrong">{several if len(queues) > 1 else f"1 queue {what}"}.</p>'
    changes = [
        (len(moved), between_stayers(before, after, moved))
        for before, after, moved in planned.changes()
    ]
    if changes:
        moved_all, between = map(sum, zip(*changes, strict=True))
        yield (
            f"<p>{moved_all} changes of an owner, {between} of them between members that stay; "
            "framed above.</p>"
        )
