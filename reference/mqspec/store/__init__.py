"""The files of a broker, byte for byte those of the real one, and their recovery."""

from mqspec.core.log import GetMessageStatus, PutStatus
from mqspec.store.config_file import ConfigFile
from mqspec.store.message_store import (
    Arrival,
    Boundary,
    GetResult,
    MessageStore,
    PutResult,
    RecoveryReport,
    StoreConfig,
)

__all__ = [
    "Arrival",
    "Boundary",
    "ConfigFile",
    "GetMessageStatus",
    "GetResult",
    "MessageStore",
    "PutResult",
    "PutStatus",
    "RecoveryReport",
    "StoreConfig",
]
