"""How real clients, tools and brokers send each request, and in what a request departs from it.

`data/requests/VERSION.json` holds the forms that were recorded, made by
`tests/interop/record_requests.py`. A form is a request's code, who sent it, whether it was sent
one way, and the kind of each field, of each property of a message and of each place in a JSON
body. What preparation sends fits one of them, and a case whose requests fit none says in what
(`data/departures.json`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

from mqconform.frame import FrameError, parse_frame
from mqconform.transcript import Transcript

FOLDER: Final = Path(__file__).parent / "data" / "requests"
DEPARTURES: Final = Path(__file__).parent / "data" / "departures.json"
_EXAMPLE: Final = 120  # characters of a value that are kept
_PARTS: Final = ("fields", "body")

# Objects whose keys are names of somebody's choice, not of the protocol.
_MAPS: Final = frozenset(
    {"topicConfigTable", "subscriptionGroupTable", "offsetTable", "attributes"}
    | {"topicQueueMappingInfoMap", "topicQueueMappingDetailMap"}
)

Kinds = Mapping[str, frozenset[str]]


@dataclass(frozen=True, slots=True)
class Form:
    """One form of a request. `fields` and `body` map each name to the kinds of its values:
    `integer`, `boolean`, `text`, `empty`, `null`, and in bodies `list` and `object`.

    A property of a message is named after its field, as `i.UNIQ_KEY`. Places in a JSON body are
    joined by dots, with `[]` for any element and `*` for any key of a map of names. A body that
    is no JSON has the one place `bytes`; no body has none.
    """

    code: int
    by: str  # client, broker, server
    one_way: bool
    fields: Kinds
    body: Kinds
    example: Mapping[str, str] = field(default_factory=dict, compare=False)
    optional: frozenset[str] = frozenset()  # of the fields, those that are not always there


def form_of(code: int, by: str, one_way: bool, fields: Mapping[str, str], body: bytes) -> Form:
    """The form of one request."""
    example = {name: str(value or "")[:_EXAMPLE] for name, value in sorted(fields.items())}
    return Form(code, by, one_way, dict(_field_kinds(fields)), dict(_body_kinds(body)), example)


def merged(recorded: Iterable[Form]) -> list[Form]:
    """One form where requests differ in the values of their fields alone."""
    found: dict[object, Form] = {}
    for one in recorded:
        key = (one.code, one.by, one.one_way, tuple(one.fields), tuple(one.body))
        known = found.get(key, one)
        fields = {name: kinds | known.fields[name] for name, kinds in one.fields.items()}
        body = {place: kinds | known.body[place] for place, kinds in one.body.items()}
        found[key] = Form(one.code, one.by, one.one_way, fields, body, known.example)
    return sorted(found.values(), key=lambda one: (one.code, one.by, one.one_way, *one.fields))


def write_forms(path: Path, forms: Iterable[Form]) -> None:
    """Write forms, a line each."""
    lines = [
        json.dumps(
            {
                "code": one.code,
                "by": one.by,
                "one_way": one.one_way,
                "fields": {name: sorted(kinds) for name, kinds in one.fields.items()},
                "body": {place: sorted(kinds) for place, kinds in one.body.items()},
                "example": one.example,
            }
        )
        for one in forms
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("[\n" + ",\n".join(lines) + "\n]\n", encoding="utf-8")


@cache
def forms() -> Mapping[int, tuple[Form, ...]]:
    """What was recorded, by code: of each version, sender and way one form."""
    found: dict[int, list[Form]] = {}
    for path in sorted(FOLDER.glob("*.json")):
        recorded: dict[object, list[Form]] = {}
        for entry in json.loads(path.read_text(encoding="utf-8")):
            for part in _PARTS:
                entry[part] = {name: frozenset(kinds) for name, kinds in entry[part].items()}
            one = Form(**entry)
            recorded.setdefault((one.code, one.by, one.one_way), []).append(one)
        for ones in recorded.values():
            found.setdefault(ones[0].code, []).append(_united(ones))
    return {code: tuple(ones) for code, ones in found.items()}


def departures(
    code: int, fields: Mapping[str, str], body: bytes, one_way: bool = False
) -> tuple[str, ...]:
    """In what a request departs from the nearest form; nothing where it fits one."""
    sent = form_of(code, "", one_way, fields, body)
    found = [tuple(sorted(_differences(sent, form))) for form in forms().get(code, ())]
    return min(found, key=len, default=("was never recorded",))


def departures_of(transcript: Transcript) -> set[str]:
    """In what the requests of a case depart, each by its code."""
    found = set()
    for exchange in transcript.exchanges:
        if not exchange.sent:
            continue
        try:
            request = parse_frame(exchange.raw)
            if not request.is_response:
                sent = request.code, request.fields, request.body, request.is_one_way
                found |= {f"{request.code} {what}" for what in departures(*sent)}
        except (FrameError, TypeError):
            found.add("no frame")
    return found


@cache
def declared() -> Mapping[str, frozenset[str]]:
    """In what the requests of each case depart on purpose (`data/departures.json`)."""
    table = json.loads(DEPARTURES.read_text(encoding="utf-8"))
    return {case: frozenset(said) for case, said in table.items()}


@cache
def field_of_broker_name(code: int) -> str | None:
    """The field in which every recorded client of a version names the broker, if it does."""
    for name in ("bname", "n"):
        if any(name in form.fields and name not in form.optional for form in forms().get(code, ())):
            return name
    return None


def _united(ones: list[Form]) -> Form:
    """One form for all: what not all have is optional, in a body where it could have been."""
    fields: dict[str, frozenset[str]] = {}
    body: dict[str, frozenset[str]] = {}
    for one in ones:
        for kinds, into in ((one.fields, fields), (one.body, body)):
            for name, kind in kinds.items():
                into[name] = into.get(name, frozenset()) | kind
    optional = {name for name in fields if any(name not in one.fields for one in ones)}
    for place in body:
        outer = place.rpartition(".")[0]
        if any(place not in one.body and outer in one.body for one in ones) or "[]" in place[-2:]:
            optional.add(place)
    first = ones[0]
    return Form(
        first.code, first.by, first.one_way, fields, body, first.example, frozenset(optional)
    )


def _differences(sent: Form, form: Form) -> Iterator[str]:
    if sent.one_way != form.one_way:
        yield "one way" if sent.one_way else "not one way"
    for where, ours, theirs in (("", sent.fields, form.fields), ("body", sent.body, form.body)):
        for name in theirs.keys() - ours.keys() - form.optional:
            outer = name.rpartition(".")[0]
            if not where or not name or outer in ours:
                yield f"without {where}{name}"
        for name, kinds in ours.items():
            if name not in theirs:
                yield f"with {where}{name}"
            elif not kinds <= theirs[name]:
                yield f"{where}{name} {', '.join(sorted(kinds - theirs[name]))}"


def _field_kinds(fields: Mapping[str, str]) -> Iterator[tuple[str, frozenset[str]]]:
    for name, value in sorted(fields.items()):
        yield name, frozenset({_kind_of_text(value)})
        for entry in str(value or "").split("\x02"):
            own, sign, _ = entry.partition("\x01")
            if sign:
                yield f"{name}.{own}", frozenset({"text"})


def _kind_of_text(value: object) -> str:
    """A field is text, but a case may send anything."""
    if value in (None, ""):
        return "empty"
    if not isinstance(value, str):
        return "no text"
    if value.lstrip("-").isdigit():
        return "integer"
    return "boolean" if value in ("true", "false") else "text"


def _body_kinds(body: bytes) -> Iterator[tuple[str, frozenset[str]]]:
    if not body:
        return
    try:
        data = json.loads(body) if body[:1] in (b"{", b"[") else None
    except ValueError:
        data = None
    if data is None:
        yield "bytes", frozenset({"bytes"})
        return
    found: dict[str, set[str]] = {}
    for place, kind in _walk(data, "", False):
        found.setdefault(place, set()).add(kind)
    for place in sorted(found):
        yield place, frozenset(found[place])


def _walk(data: Any, place: str, is_map: bool) -> Iterator[tuple[str, str]]:
    match data:
        case dict():
            yield place, "object"
            for name, value in data.items():
                inner = "*" if is_map else name
                yield from _walk(value, f"{place}.{inner}", not is_map and name in _MAPS)
        case list():
            yield place, "list"
            for value in data:
                yield from _walk(value, f"{place}[]", False)
        case bool():
            yield place, "boolean"
        case int() | float():
            yield place, "integer"
        case None:
            yield place, "null"
        case _:
            yield place, "text" if data else "empty"
