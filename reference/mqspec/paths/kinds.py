"""Every kind of property, option and topic that the core knows, from where it is defined.

A kind that is added there is drawn from then on, without a change here.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import mqspec.core
from mqspec.core.attributes import TOPIC_ATTRIBUTES
from mqspec.core.metadata import BrokerConfig, system_topic_names
from mqspec.options import to_properties

CONFIG: Final = BrokerConfig()
OF_A_STOP: Final = ("enableShutdownGracefully", "shutdownWaitTimeSeconds")  # which then waits
_NAME: Final = re.compile(r"[A-Z0-9_]*[A-Z]{2,}[A-Z0-9_]*|__[a-zA-Z]\w+__?\w*")
_CODE: Final = Path(mqspec.core.__file__).parent


def property_names() -> Sequence[str]:
    """What may be the name of a property in the code of the core: more than are, and none less."""
    found: set[str] = set()
    for path in _CODE.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found |= {node.value} if _NAME.fullmatch(node.value) else set()
    return sorted(found)


def options() -> Mapping[str, str]:
    """Each option of a broker that can be set, by its real name, with its default."""
    lines = (line.partition("=") for line in to_properties(CONFIG).splitlines())
    return {name: value for name, _, value in lines if name not in OF_A_STOP}


def unusual_options() -> Iterator[tuple[str, str]]:
    """Each option with what is not its default."""
    for name, value in options().items():
        match value:
            case "true" | "false":
                yield name, "false" if value == "true" else "true"
            case _ if value.lstrip("-").isdigit():
                yield from ((name, other) for other in ("0", "1", str(int(value) // 2)))
            case _:
                yield name, "another"


def topics() -> Mapping[str, str]:
    """A topic of each kind, by name: its attributes, as a tool writes them."""
    made = {
        f"{name.replace('.', '-')}-{value}": f"+{name}={value}"
        for name, attribute in TOPIC_ATTRIBUTES.items()
        for value in attribute.values or ("3600000",)
    }
    return dict.fromkeys(sorted(system_topic_names(CONFIG)), "") | made
