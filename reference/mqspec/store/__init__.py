"""The files of a broker, byte for byte those of the real one, and their recovery."""

from mqspec.core.log import GetMessageStatus, GetResult, PutResult, PutStatus
from mqspec.store.config_file import ConfigFile
from mqspec.store.files import Disk
from mqspec.store.message_store import (
    Boundary,
    MessageStore,
    QueryResult,
    RecoveryReport,
    StoreConfig,
)

__all__ = [
    "Boundary",
    "ConfigFile",
    "Disk",
    "GetMessageStatus",
    "GetResult",
    "MessageStore",
    "PutResult",
    "PutStatus",
    "QueryResult",
    "RecoveryReport",
    "StoreConfig",
]
