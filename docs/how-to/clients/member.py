"""The C++ client under test, by its Python package: member.py NAMESERVER TOPIC GROUP MODE ID."""

import itertools
import os
import signal
import sys
import threading
import time

from rocketmq.client import Message, Producer, PushConsumer, RecvMessage, dll

SUCCESS, LATER = 0, 1  # what its listener gives back
failed = set()  # keys


def listen(consumer, handle):
    """Print the key, and do what the body says."""
    message = RecvMessage(handle)
    os.write(1, message.keys + b"\n")  # in one piece, from whichever thread
    body, key = message.body.decode(), message.keys
    if body == "stays":
        threading.Event().wait()
    if body == "slow":
        time.sleep(15)
    if body == "fails" and key not in failed:
        failed.add(key)
        return LATER
    return SUCCESS


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
if mode not in ("consume", "orderly", "produce"):
    sys.exit(os.EX_USAGE)
if mode == "produce":
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    produce(nameserver, topic, group)
else:
    consume(nameserver, topic, group, mode == "orderly", name)
