import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Does once what applications do, with what the clients 4.9.7 and 5.3.3 both have, so that a proxy
 * sees each kind of request. Arguments: the nameserver, a topic that exists, a broker's port.
 */
public final class Usual {
    private static String nameserver;
    private static String topic;

    public static void main(String[] args) throws Exception {
        nameserver = args[0];
        topic = args[1];
        DefaultMQProducer producer = new DefaultMQProducer("UsualProducers");
        producer.setNamesrvAddr(nameserver);
        producer.start();
        SendResult first = producer.send(new Message(topic, "Tag", "key", "body".getBytes()));
        producer.sendOneway(new Message(topic, "Tag", "key", "body".getBytes()));
        Message delayed = new Message(topic, "Tag", "key", "body".getBytes());
        delayed.setDelayTimeLevel(1);
        producer.send(delayed);
        List<Message> batch = new ArrayList<>();
        for (int i = 0; i < 3; i++) batch.add(new Message(topic, "Tag", "key", "body".getBytes()));
        producer.send(batch);
        MessageQueue queue = first.getMessageQueue();
        producer.maxOffset(queue);
        producer.minOffset(queue);
        producer.earliestMsgStoreTime(queue);
        producer.searchOffset(queue, System.currentTimeMillis());
        attempt("query", () -> producer.queryMessage(topic, "key", 32, 0, System.currentTimeMillis()));
        attempt("view", () -> producer.viewMessage(topic, throughProxy(first, args[2])));
        transactions();
        push("UsualPush", MessageSelector.byTag("*"), 0);
        push("UsualFails", MessageSelector.byTag("Tag || Other"), 1);
        attempt("sql", () -> push("UsualSql", MessageSelector.bySql("a is null"), 0));
        orderly();
        pull(queue);
        litePull();
        requests(producer);
        producer.shutdown();
        System.out.println("done");
        System.exit(0);
    }

    /** The id of a message at the proxy's port, as the broker's own port is passed by. */
    private static String throughProxy(SendResult sent, String port) throws Exception {
        long offset = MessageDecoder.decodeMessageId(sent.getOffsetMsgId()).getOffset();
        return MessageDecoder.createMessageId(
            new InetSocketAddress("127.0.0.1", Integer.parseInt(port)), offset);
    }

    private interface Act {
        void run() throws Exception;
    }

    private static void attempt(String what, Act act) {
        try {
            act.run();
        } catch (Exception e) {
            System.out.println(what + ": " + e);
        }
    }

    private static void transactions() throws Exception {
        CountDownLatch checked = new CountDownLatch(1);
        TransactionMQProducer producer = new TransactionMQProducer("UsualTransactions");
        producer.setNamesrvAddr(nameserver);
        producer.setTransactionListener(new TransactionListener() {
            @Override
            public LocalTransactionState executeLocalTransaction(Message message, Object arg) {
                return (LocalTransactionState) arg;
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                checked.countDown();
                return LocalTransactionState.COMMIT_MESSAGE;
            }
        });
        producer.start();
        for (LocalTransactionState state : LocalTransactionState.values()) {
            producer.sendMessageInTransaction(new Message(topic, "Tag", "key", "half".getBytes()), state);
        }
        checked.await(30, TimeUnit.SECONDS);
        Thread.sleep(500);
        producer.shutdown();
    }

    private static void push(String group, MessageSelector wanted, int failures) throws Exception {
        CountDownLatch got = new CountDownLatch(3);
        AtomicInteger left = new AtomicInteger(failures);
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        consumer.setNamesrvAddr(nameserver);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setPersistConsumerOffsetInterval(1000);
        consumer.subscribe(topic, wanted);
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            got.countDown();
            return left.getAndDecrement() > 0
                ? ConsumeConcurrentlyStatus.RECONSUME_LATER
                : ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        got.await(20, TimeUnit.SECONDS);
        Thread.sleep(1500);
        consumer.shutdown();
    }

    private static void orderly() throws Exception {
        CountDownLatch got = new CountDownLatch(3);
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("UsualOrderly");
        consumer.setNamesrvAddr(nameserver);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
            got.countDown();
            return ConsumeOrderlyStatus.SUCCESS;
        });
        consumer.start();
        got.await(20, TimeUnit.SECONDS);
        consumer.shutdown();
    }

    @SuppressWarnings("deprecation")
    private static void pull(MessageQueue queue) throws Exception {
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer("UsualPull");
        consumer.setNamesrvAddr(nameserver);
        consumer.start();
        consumer.fetchConsumeOffset(queue, true);
        consumer.pull(queue, "*", 0, 32);
        consumer.pullBlockIfNotFound(queue, "*", consumer.maxOffset(queue), 32, ignored());
        attempt("commit", () -> consumer.getDefaultMQPullConsumerImpl().updateConsumeOffset(queue, 1));
        consumer.getDefaultMQPullConsumerImpl().getOffsetStore().updateConsumeOffsetToBroker(queue, 1, false);
        Thread.sleep(500);
        consumer.shutdown();
    }

    private static org.apache.rocketmq.client.consumer.PullCallback ignored() {
        return new org.apache.rocketmq.client.consumer.PullCallback() {
            @Override
            public void onSuccess(org.apache.rocketmq.client.consumer.PullResult result) {}

            @Override
            public void onException(Throwable e) {}
        };
    }

    private static void litePull() throws Exception {
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer("UsualLitePull");
        consumer.setNamesrvAddr(nameserver);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.start();
        for (int i = 0; i < 5 && consumer.poll(3_000).isEmpty(); i++) {}
        consumer.commitSync();
        consumer.shutdown();
    }

    /** A request, and a reply to it. */
    private static void requests(DefaultMQProducer producer) throws Exception {
        CountDownLatch replied = new CountDownLatch(1);
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("UsualReplies");
        consumer.setNamesrvAddr(nameserver);
        consumer.subscribe(topic, "Ask");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            attempt("reply", () -> {
                producer.send(MessageUtil.createReplyMessage(messages.get(0), "answer".getBytes()));
                replied.countDown();
            });
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        Thread.sleep(2_000);
        attempt("request", () -> producer.request(new Message(topic, "Ask", "key", "ask".getBytes()), 5_000));
        replied.await(10, TimeUnit.SECONDS);
        consumer.shutdown();
    }
}
