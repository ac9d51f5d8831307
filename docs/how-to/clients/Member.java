import java.util.Collections;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.remoting.protocol.heartbeat.MessageModel;

/** The Java client under test: Member NAMESERVER TOPIC GROUP MODE ID. */
public final class Member {
    private static final Set<String> FAILED = ConcurrentHashMap.newKeySet();

    public static void main(String[] args) throws Exception {
        // Where a broadcasting process keeps its offsets, and finds them when it comes back.
        String folder = System.getProperty("java.io.tmpdir") + "/mqspec-offsets";
        System.setProperty("rocketmq.client.localOffsetStoreDir", folder);
        switch (args[3]) {
            case "consume": case "orderly": case "expire": case "broadcast": case "pop":
                consume(args[0], args[1], args[2], args[3], args[4]);
                break;
            case "poll":
                poll(args[0], args[1], args[2], args[4]);
                break;
            case "produce": case "oneway": case "select": case "avoid":
                produce(args[0], args[1], args[2], args[3]);
                break;
            default:
                System.exit(64);
        }
    }

    private static void consume(String nameserver, String topic, String group, String mode, String id)
        throws Exception {
        boolean orderly = mode.equals("orderly");
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        if (mode.equals("expire")) {
            consumer.setConsumeTimeout(1); // minutes
        }
        if (mode.equals("broadcast")) {
            consumer.setMessageModel(MessageModel.BROADCASTING);
        }
        consumer.setClientRebalance(!mode.equals("pop")); // brokers say how it consumes
        consumer.setNamesrvAddr(nameserver);
        consumer.setInstanceName(id);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "a || AaAa");
        if (orderly) {
            consumer.registerMessageListener((MessageListenerOrderly) (messages, context) ->
                isDone(messages.get(0))
                    ? ConsumeOrderlyStatus.SUCCESS : ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT);
        } else {
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) ->
                isDone(messages.get(0))
                    ? ConsumeConcurrentlyStatus.CONSUME_SUCCESS : ConsumeConcurrentlyStatus.RECONSUME_LATER);
        }
        consumer.start();
        Runtime.getRuntime().addShutdownHook(new Thread(consumer::shutdown));
    }

    private static void poll(String nameserver, String topic, String group, String id) throws Exception {
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer(group);
        consumer.setNamesrvAddr(nameserver);
        consumer.setInstanceName(id);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "a || AaAa");
        consumer.start();
        Runtime.getRuntime().addShutdownHook(new Thread(consumer::shutdown));
        while (true) {
            for (MessageExt message : consumer.poll()) {
                isDone(message);
            }
        }
    }

    /** Prints the key, and does what the body says. */
    private static boolean isDone(MessageExt message) {
        System.out.println(message.getKeys());
        try {
            switch (new String(message.getBody())) {
                case "stays": new CountDownLatch(1).await();
                case "slow": Thread.sleep(15_000); return true;
                case "fails": return !FAILED.add(message.getKeys());
                default: return true;
            }
        } catch (InterruptedException e) {
            return false;
        }
    }

    private static void produce(String nameserver, String topic, String group, String mode) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer(group);
        producer.setNamesrvAddr(nameserver);
        producer.setSendLatencyFaultEnable(mode.equals("avoid"));
        producer.start();
        for (int number = 0; ; number++) {
            String key = topic + "-" + number;
            try {
                Message message = new Message(topic, "a", key, "takes".getBytes());
                if (mode.equals("oneway")) {
                    producer.sendOneway(message);
                    Thread.sleep(10); // nobody says when it is done
                } else if (mode.equals("select")) {
                    producer.send(message, (queues, sent, none) -> Collections.min(queues), null);
                } else {
                    producer.send(message);
                }
                System.out.println(key);
            } catch (MQClientException | MQBrokerException refused) {
                Thread.sleep(100);
            }
        }
    }
}
