"""What a run makes or sets at its target is gone, or put back, when it ends, whatever ended it.

Names carry the prefix of the run: whatever has it goes, also what a broker made by itself, as
retry topics. What was set is put back to what it was before. Messages stay in the brokers' logs
until these expire; no request takes them out.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Final

from mqconform import requests
from mqconform.cluster import Cluster
from mqconform.connection import Connection
from mqconform.frame import Frame, FrameError, parse_frame
from mqconform.requests import Request
from mqconform.target import Address
from mqconform.transcript import Transcript

_ANSWER_S: Final = 10.0
_UPDATES: Final = {False: requests.UPDATE_BROKER_CONFIG, True: requests.UPDATE_NAMESRV_CONFIG}


class Tidy:
    """Keeps what was before, and takes away what came since."""

    def __init__(self, cluster: Cluster, prefix: str) -> None:
        self._cluster, self._prefix = cluster, prefix
        self._before: dict[tuple[Address, bool], dict[str, str]] = {}
        self._lock = threading.Lock()

    def remember(self, server: Address, is_nameserver: bool, options: Mapping[str, str]) -> None:
        """Put these options back in the end. What was told first of an option counts."""
        with self._lock:
            before = self._before.setdefault((server, is_nameserver), {})
            for name, value in options.items():
                before.setdefault(name, value)

    def finish(self, transcripts: Iterable[Transcript] = ()) -> list[str]:
        """Take away and put back. What could not be is told, a line each."""
        left: list[str] = []
        sent = [request for transcript in transcripts for request in _sent(transcript)]
        for (server, is_nameserver), options in self._before.items():
            lines = "".join(f"{name}={value}\n" for name, value in options.items())
            request = Request(_UPDATES[is_nameserver], body=lines.encode())
            left += _tried(server, f"options {', '.join(options)}", partial(_ask, request))
        for name, broker in self._cluster.brokers.items():
            left += _tried(broker, f"what was made at {name}", self._sweep_broker)
        nameserver = self._cluster.nameserver
        left += _tried(nameserver, "routes and KV config", lambda ask: self._sweep_names(ask, sent))
        return left

    def _sweep_broker(self, ask: Callable[[Request], Frame]) -> None:
        for topic in self._named(ask(Request(requests.GET_ALL_TOPIC_CONFIG)), "topicConfigTable"):
            ask(requests.delete_topic(topic))
        every = ask(Request(requests.GET_ALL_SUBSCRIPTIONGROUP_CONFIG))
        groups = set(self._named(every, "subscriptionGroupTable"))
        offsets = ask(Request(requests.GET_ALL_CONSUMER_OFFSET))
        groups |= {key.rpartition("@")[2] for key in self._named(offsets, "offsetTable")}
        for group in sorted(groups):
            ask(requests.delete_group(group, clean_offset=True))

    def _sweep_names(self, ask: Callable[[Request], Frame], sent: list[Request]) -> None:
        listed = ask(Request(requests.GET_ALL_TOPIC_LIST_FROM_NAMESERVER))
        for topic in self._named(listed, "topicList"):
            ask(Request(requests.DELETE_TOPIC_IN_NAMESRV, {"topic": topic}))
        for request in sent:
            fields = request.fields
            if request.code == requests.PUT_KV_CONFIG and {"namespace", "key"} <= fields.keys():
                if self._prefix in fields["namespace"] + fields["key"]:
                    place = {name: fields[name] for name in ("namespace", "key")}
                    ask(Request(requests.DELETE_KV_CONFIG, place))
            elif request.code == requests.REGISTER_BROKER:
                names = ("brokerName", "brokerAddr", "clusterName", "brokerId")
                if self._prefix in fields.get("brokerName", ""):
                    place = {name: fields.get(name, "0") for name in names}
                    ask(Request(requests.UNREGISTER_BROKER, place))

    def _named(self, answer: Frame, table: str) -> Iterator[str]:
        """The names of a table in the answer's body that are of this run."""
        if answer.code == 0 and answer.body:
            yield from (name for name in answer.json().get(table) or () if self._prefix in name)


def _ask(request: Request, ask: Callable[[Request], Frame]) -> None:
    answer = ask(request)
    assert answer.code == 0, f"code {answer.code} {answer.remark!r}"


def _tried(
    server: Address, what: str, act: Callable[[Callable[[Request], Frame]], object]
) -> list[str]:
    try:
        with Connection(server, Transcript(), _ANSWER_S) as connection:
            act(connection.call)
    # Whatever a server answers that is as no other: what it keeps is told, and no more.
    except (OSError, AssertionError, ValueError, LookupError, TypeError, AttributeError) as error:
        return [f"{what} may be left at {server}: {str(error) or type(error).__name__}"]
    return []


def _sent(transcript: Transcript) -> Iterator[Request]:
    for exchange in transcript.exchanges:
        if exchange.sent:
            try:
                found = parse_frame(exchange.raw)
            except (FrameError, TypeError):
                continue
            if found.code in (requests.PUT_KV_CONFIG, requests.REGISTER_BROKER):
                yield Request(found.code, found.fields)
