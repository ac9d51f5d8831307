"""The C++ client under test, by its Python package: member.py NAMESERVER TOPIC GROUP MODE ID."""

import itertools
import signal
import sys
import threading
import time

from rocketmq.client import Message, Producer, PushConsumer, RecvMessage, dll

SUCCESS, LATER = 0, 1  # what its listener gives back


def listen(consumer, handle):
    """Print the key, and do what the body says."""
    message = RecvMessage(handle)
    print(message.keys.decode(), flush=True)
    body = message.body.decode()
    if body == "stays":
        threading.Event().wait()
    if body == "slow":
        time.sleep(15)
    return LATER if body == "fails" and message.reconsume_times == 0 else SUCCESS


def consume(nameserver, topic, group, orderly, name):
    member = PushConsumer(group, orderly=orderly)
    member.set_namesrv_addr(nameserver)
    member.set_instance_name(name)
    member.set_thread_count(20)
    dll.Subscribe(member._handle, topic.encode(), b"a || AaAa")
    member._register_callback(listen)
    member.start()
    signal.sigwait({signal.SIGTERM})
    member.shutdown()


def produce(nameserver, topic, group):
    producer = Producer(group)
    producer.set_namesrv_addr(nameserver)
    producer.start()
    for number in itertools.count():
        message = Message(topic)
        message.set_keys(f"{topic}-{number}")
        message.set_tags("a")
        message.set_body("takes")
        try:
            producer.send_sync(message)
            print(f"{topic}-{number}", flush=True)
        except Exception:
            time.sleep(0.1)


signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
nameserver, topic, group, mode, name = sys.argv[1:]
if mode == "produce":
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    produce(nameserver, topic, group)
else:
    consume(nameserver, topic, group, mode == "orderly", name)
