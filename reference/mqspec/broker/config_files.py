"""The files under config/: what a broker still knows after it was killed.

topics.json, subscriptionGroup.json, consumerOffset.json, consumerFilter.json, delayOffset.json and
others, in the form in which the real broker reads and writes them (ConfigManager.java, 5.3.3).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from mqrules import UserError
from mqspec.core import consumer_filter, delay, offset_commit, pop_order
from mqspec.core.assignment import AssignmentState
from mqspec.core.consumer_filter import ConsumerFilterState
from mqspec.core.delay import DelayState
from mqspec.core.due_messages import TimerProgress
from mqspec.core.metadata import (
    DataVersion,
    MetadataState,
    SubscriptionGroupConfig,
    TopicConfig,
)
from mqspec.core.offset_commit import OffsetState
from mqspec.core.pop_order import PopOrderState
from mqspec.core.types import Group, Topic
from mqspec.store.config_file import ConfigFile, Rendered, render
from mqspec.store.timer_check import read_timer_check, write_timer_check
from mqspec.wire.bodies import BodyError, from_plain, to_plain

T = TypeVar("T")


class _RenderedTable:
    """A table whose entries are rendered when they change, not each time that it is written."""

    def __init__(self) -> None:
        self._entries: dict[str, tuple[object, Rendered]] = {}

    def table(self, entries: Mapping[str, object]) -> dict[str, Rendered]:
        """The table as it is written."""
        known = self._entries
        self._entries = {
            name: known[name]
            if name in known and known[name][0] is entry
            else (entry, render(to_plain(entry)))
            for name, entry in entries.items()
        }
        return {name: text for name, (_, text) in self._entries.items()}


class ConfigFiles:
    """The files of one store."""

    def __init__(self, root: Path) -> None:
        config = root / "config"
        self._topics = ConfigFile(config / "topics.json")
        self._groups = ConfigFile(config / "subscriptionGroup.json")
        self._offsets = ConfigFile(config / "consumerOffset.json")
        self._filters = ConfigFile(config / "consumerFilter.json")
        self._written_filters: object = None
        self._delay = ConfigFile(config / "delayOffset.json")
        self._timer_check = config / "timercheck"
        self._pop_order = ConfigFile(config / "consumerOrderInfo.json")
        self._assignment = ConfigFile(config / "messageRequestMode.json")

        self._rendered_topics, self._rendered_groups = _RenderedTable(), _RenderedTable()

    def load_metadata(self) -> MetadataState:
        """Topics and groups. Raises UserError where a file is damaged, and its .bak too."""
        topics, groups = self._topics.load(), self._groups.load()
        return MetadataState(
            *_table(self._topics, topics, "topicConfigTable", TopicConfig),
            *_table(self._groups, groups, "subscriptionGroupTable", SubscriptionGroupConfig),
            _forbidden(self._groups, groups),
        )

    def persist_topics(self, state: MetadataState) -> None:
        """On disk when this returns."""
        table = self._rendered_topics.table(state.topic_config_table)
        version = to_plain(state.topic_data_version)
        self._topics.persist({"dataVersion": version, "topicConfigTable": table})

    def persist_groups(self, state: MetadataState) -> None:
        """On disk when this returns."""
        table = self._rendered_groups.table(state.subscription_group_table)
        version = to_plain(state.group_data_version)
        self._groups.persist(
            {
                "dataVersion": version,
                "forbiddenTable": to_plain(state.forbidden_table),
                "subscriptionGroupTable": table,
            }
        )

    def load_offsets(self) -> OffsetState:
        """Consumer offsets; none where both the file and its .bak are no JSON: groups then begin
        as new ones do, and 5.3.3 does not start. Raises UserError where it is something else.
        """
        try:
            return offset_commit.load(self._offsets.load(spare=True))
        except ValueError as error:
            raise _unreadable(self._offsets, error) from None

    def persist_offsets(self, state: OffsetState, now_ms: int) -> None:
        """On disk when this returns."""
        version = to_plain(DataVersion(timestamp=now_ms))
        self._offsets.persist({"dataVersion": version, **offset_commit.persist(state)})

    def load_filters(self, now_ms: int) -> ConsumerFilterState:
        """The expressions that groups filter by. Raises UserError where the file is damaged, and
        its .bak too."""
        try:
            return consumer_filter.load(self._filters.load(), now_ms)
        except ValueError as error:
            raise _unreadable(self._filters, error) from None

    def persist_filters(self, state: ConsumerFilterState) -> None:
        """On disk when this returns; most brokers have none, and need not write that again."""
        content = consumer_filter.persist(state)
        if content != self._written_filters:
            self._filters.persist(content)
            self._written_filters = content

    def load_delay(self) -> DelayState:
        """How far the delivery of delayed messages had come. Raises UserError where the file is
        damaged, and its .bak too."""
        try:
            return delay.load(self._delay.load())
        except ValueError as error:
            raise _unreadable(self._delay, error) from None

    def persist_delay(self, state: DelayState, now_ms: int) -> None:
        """On disk when this returns."""
        version = to_plain(DataVersion(timestamp=now_ms))
        self._delay.persist({"dataVersion": version, **delay.persist(state)})

    def load_timers(self) -> TimerProgress:
        """How far timer messages were delivered; zeros where nothing says so."""
        check = read_timer_check(self._timer_check)
        return TimerProgress(
            check.last_read_time, check.last_timer_queue_offset, check.master_timer_queue_offset
        )

    def persist_timers(self, progress: TimerProgress) -> None:
        """On disk when this returns. What else the file says is Apache's, and stays."""
        check = read_timer_check(self._timer_check)
        write_timer_check(self._timer_check, check._replace(**progress._asdict()))

    def load_pop_order(self) -> PopOrderState:
        """The queues that are popped in order. Raises UserError where the file is damaged, and
        its .bak too."""
        try:
            return pop_order.load(self._pop_order.load())
        except ValueError as error:
            raise _unreadable(self._pop_order, error) from None

    def persist_pop_order(self, state: PopOrderState) -> None:
        """On disk when this returns."""
        self._pop_order.persist(pop_order.persist(state))

    def load_assignment(self) -> AssignmentState:
        """How groups ask for messages. Raises UserError where the file is damaged, and its .bak
        too."""
        try:
            return from_plain(AssignmentState, self._assignment.load())
        except BodyError as error:
            raise _unreadable(self._assignment, error) from None

    def persist_assignment(self, state: AssignmentState) -> None:
        """On disk when this returns."""
        self._assignment.persist(to_plain(state))


def _table(
    file: ConfigFile, content: Mapping[str, Any], key: str, cls: type[T]
) -> tuple[dict[str, T], DataVersion]:
    table = content.get(key, {})
    try:
        if not isinstance(table, Mapping):
            raise BodyError(f"{key} is not an object")
        entries = {name: from_plain(cls, item) for name, item in table.items()}
        return entries, from_plain(DataVersion, content.get("dataVersion", {}))
    except BodyError as error:
        raise _unreadable(file, error) from None


def _forbidden(file: ConfigFile, content: Mapping[str, Any]) -> dict[Group, Mapping[Topic, int]]:
    table = content.get("forbiddenTable") or {}
    try:
        return {
            group: {topic: int(bits) for topic, bits in of.items()} for group, of in table.items()
        }
    except (AttributeError, TypeError, ValueError) as error:
        raise _unreadable(file, error) from None


def _unreadable(file: ConfigFile, error: Exception) -> UserError:
    return UserError(str(file.path), f"not what a broker writes: {error}", "restore it from a copy")
