"""Records the defaults of Apache RocketMQ 5.3.3: what its own classes hold when they are new, and
the constants of some.

    python tests/interop/record_defaults.py

writes tests/core/real_defaults.json: class, field, value. Numbers, booleans and arrays of them
alone: names and paths are those of a machine.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path

from mqspec import toolchain

HERE = Path(__file__).parent
TARGET = HERE.parent / "core" / "real_defaults.json"
CLASSES = (
    "org.apache.rocketmq.common.BrokerConfig",
    "org.apache.rocketmq.store.config.MessageStoreConfig",
    "org.apache.rocketmq.common.namesrv.NamesrvConfig",
    "org.apache.rocketmq.common.TopicConfig",
    "org.apache.rocketmq.remoting.protocol.subscription.SubscriptionGroupConfig",
    "org.apache.rocketmq.remoting.protocol.subscription.CustomizedRetryPolicy",
    "org.apache.rocketmq.remoting.protocol.subscription.ExponentialRetryPolicy",
    "org.apache.rocketmq.client.consumer.DefaultMQPushConsumer",
    "org.apache.rocketmq.client.consumer.DefaultLitePullConsumer",
    "org.apache.rocketmq.client.producer.DefaultMQProducer",
)
CONSTANTS = (
    "org.apache.rocketmq.broker.client.ProducerManager",
    "org.apache.rocketmq.broker.filter.ConsumerFilterManager",
    "org.apache.rocketmq.broker.offset.ConsumerOrderInfoManager",
    "org.apache.rocketmq.broker.processor.AbstractSendMessageProcessor",
    "org.apache.rocketmq.broker.schedule.ScheduleMessageService",
    "org.apache.rocketmq.broker.transaction.queue.TransactionalMessageServiceImpl",
    "org.apache.rocketmq.client.Validators",
    "org.apache.rocketmq.client.impl.consumer.ConsumeMessageOrderlyService",
    "org.apache.rocketmq.client.impl.consumer.DefaultLitePullConsumerImpl",
    "org.apache.rocketmq.client.impl.consumer.DefaultMQPushConsumerImpl",
    "org.apache.rocketmq.client.impl.consumer.ProcessQueue",
    "org.apache.rocketmq.client.impl.consumer.RebalancePushImpl",
    "org.apache.rocketmq.client.impl.consumer.RebalanceService",
    "org.apache.rocketmq.common.KeyBuilder",
    "org.apache.rocketmq.common.constant.PermName",
    "org.apache.rocketmq.common.message.MessageDecoder",
    "org.apache.rocketmq.common.sysflag.MessageSysFlag",
    "org.apache.rocketmq.common.sysflag.PullSysFlag",
    "org.apache.rocketmq.namesrv.routeinfo.RouteInfoManager",
    "org.apache.rocketmq.remoting.protocol.RequestCode",
    "org.apache.rocketmq.remoting.protocol.ResponseCode",
    "org.apache.rocketmq.store.index.IndexFile",
    "org.apache.rocketmq.store.index.IndexHeader",
)


def main() -> None:
    jars = ":".join(map(str, toolchain.classpath("apache")))
    (compiler,) = toolchain.classpath("ecj")
    java = str(toolchain.java())
    with tempfile.TemporaryDirectory() as classes:
        options = ["-nowarn", "-source", "17", "-target", "17", "-cp", jars, "-d", classes]
        source = HERE / "java" / "Defaults.java"
        subprocess.run(
            [java, "-jar", str(compiler), *options, str(source)], check=True, timeout=120
        )
        command = [java, "-cp", f"{classes}:{jars}", "Defaults", *CLASSES, "static", *CONSTANTS]
        said = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
    found: dict[str, dict[str, int | float | bool | list[int]]] = {}
    lines = (line.split("\t") for line in said.stdout.splitlines())
    for name, option, value in (line for line in lines if len(line) == 3):  # 5.3.3 greets as well
        found.setdefault(name, {})[option] = json.loads(value)
    TARGET.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
