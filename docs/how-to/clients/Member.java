import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
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

/** The Java client under test: Member NAMESERVER TOPIC GROUP MODE ID. */
public final class Member {
    private static final Set<String> FAILED = ConcurrentHashMap.newKeySet();

    public static void main(String[] args) throws Exception {
        if (args[3].equals("produce")) {
            produce(args[0], args[1], args[2]);
        } else {
            consume(args[0], args[1], args[2], args[3].equals("orderly"), args[4]);
        }
    }

    private static void consume(String nameserver, String topic, String group, boolean orderly, String id)
        throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
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

    private static void produce(String nameserver, String topic, String group) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer(group);
        producer.setNamesrvAddr(nameserver);
        producer.start();
        for (int number = 0; ; number++) {
            String key = topic + "-" + number;
            try {
                producer.send(new Message(topic, "a", key, "takes".getBytes()));
                System.out.println(key);
            } catch (MQClientException | MQBrokerException refused) {
                Thread.sleep(100);
            }
        }
    }
}
