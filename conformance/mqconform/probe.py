"""What a target can do, as a draft of its file: to be read and completed by who runs it."""

from __future__ import annotations

import json
import ssl

from mqconform import requests
from mqconform.cluster import Cluster
from mqconform.connection import Connection
from mqconform.requests import Request
from mqconform.scene import properties_of
from mqconform.target import Address, Target
from mqconform.transcript import Transcript

_SHOWN = (
    *("autoCreateTopicEnable", "autoCreateSubscriptionGroup", "enablePropertyFilter"),
    *("useServerSideResetOffset", "recallMessageEnable", "messageDelayLevel"),
    "transactionCheckInterval",
)


def draft(target: Target) -> str:
    """The text of a target file. Raises UserError where there is nothing to test."""
    cluster = Cluster(target.nameserver, target.places)
    cluster.find()
    first = next(iter(cluster.brokers.values()))
    name, _, version = str(target).partition(":")
    lines = [
        "# Drafted by mqspec conform --probe: what it found. What it cannot find out is a comment.",
        f"name = {json.dumps('mine' if target.name == 'address' else name)}",
        f"version = {json.dumps(version if target.version != str(target.nameserver) else '')}",
        f"nameserver = {json.dumps(str(target.nameserver))}",
        f"keeps = {json.dumps(target.keeps)}  # the version of RocketMQ whose rules are judged",
        f"tls = {json.dumps(_speaks_tls(first))}",
        f"exclusive = {json.dumps(target.exclusive)}  # true where nobody else uses it",
        "# stop, kill and start, lists of words each, open the cases of restarts and crashes.",
        "# store, a folder, opens those of what is on disk.",
        "# secured, access_key and secret_key: a broker that lets only this user in.",
        *(f"# broker {broker} at {address}" for broker, address in cluster.brokers.items()),
        *(f"# {line}" for line in _options(first)),
    ]
    places = ", ".join(f'"{told}" = "{place}"' for told, place in target.places.items())
    return "\n".join([*lines, f"map = {{ {places} }}" if places else "# map = {}"]) + "\n"


def _options(broker: Address) -> list[str]:
    with Connection(broker, Transcript()) as connection:
        answer = connection.call(Request(requests.GET_BROKER_CONFIG))
    if answer.code:
        return [f"its options are not shown: code {answer.code}"]
    options = properties_of(answer.body)
    return [f"{name}={options[name]}" for name in options if name in _SHOWN]


def _speaks_tls(broker: Address) -> bool:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        Connection(broker, Transcript(), 2.0, context).close()
    except (OSError, AssertionError):
        return False
    return True
