"""Requests that a broker hands on to a client: who is asked, and how it is answered who asked.

Facts: AdminBrokerProcessor.callConsumer, Broker2Client.getConsumeStatus (5.3.3), and what 5.3.3
answered over the wire.
"""

from __future__ import annotations

from typing import Final

from mqspec.core.group import Channel, GroupState
from mqspec.core.response import NOT_SET, Answer, ResponseCode
from mqspec.core.types import ClientId, Group

# MQVersion.java, up to the first versions of consumers that know the requests
_VERSIONS: Final = (
    *(f"V3_0_0_{name}" for name in ("SNAPSHOT", "ALPHA1")),
    *(f"V3_0_0_BETA{n}" for n in range(1, 6)),
    *(f"V3_0_0_BETA{n}{end}" for n in range(6, 10) for end in ("_SNAPSHOT", "")),
    "V3_0_0_FINAL",
    *(f"V3_0_{n}{end}" for n in range(1, 16) for end in ("_SNAPSHOT", "")),
    *(f"V3_1_{n}{end}" for n in range(8) for end in ("_SNAPSHOT", "")),
)
_STATUS_VERSION_MIN: Final = _VERSIONS.index("V3_0_7_SNAPSHOT")
_VERSION_MIN: Final = len(_VERSIONS)  # V3_1_8_SNAPSHOT


def find_member(state: GroupState, group: Group, client_id: ClientId | None) -> Channel | Answer:
    """The member that is asked, or the answer where it cannot be."""
    info = state.consumer_table.get(group)
    for channel, member in info.channel_info_table.items() if info else ():
        if member.client_id == client_id:
            if member.version >= _VERSION_MIN:
                return channel
            version = _VERSIONS[max(member.version, 0)]
            remark = (
                f"The Consumer <{client_id}> Version <{version}> too low to finish, "
                "please upgrade it to V3_1_8_SNAPSHOT"
            )
            return Answer(ResponseCode.SYSTEM_ERROR, remark)
    remark = f"The Consumer <{group}> <{client_id}> not online"
    return Answer(ResponseCode.SYSTEM_ERROR, remark)


def timed_out(group: Group, client_id: ClientId | None, why: str) -> Answer:
    """The answer where the member gave none (ADMIN-044)."""
    remark = f"consumer <{group}> <{client_id}> Timeout: {why}"
    return Answer(ResponseCode.CONSUME_MSG_TIMEOUT, remark)


def check_status_version(version: int) -> Answer | None:
    """The answer where a member does not know the question how far it is."""
    if version >= _STATUS_VERSION_MIN:
        return None
    known = _VERSIONS[max(version, 0)]
    remark = f"the client does not support this feature. version={known}"
    return Answer(ResponseCode.SYSTEM_ERROR, remark)


STATUS_TOLD: Final = Answer(remark=NOT_SET)
"""The answer to request 223, beside its body."""
