import java.util.Set;
import java.util.stream.Collectors;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * A member of a consumer group on the real client.
 *
 * <p>Arguments: nameserver, group, topic. Prints "started CLIENT_ID", "queues a:0 b:1 ..." whenever its
 * share of the topic changes, "got KEY" for each message, and "left" once it has shut down,
 * which it does when its standard input ends.
 */
public final class Member {
    public static void main(String[] args) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(args[1]);
        consumer.setNamesrvAddr(args[0]);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setPersistConsumerOffsetInterval(1000);
        consumer.subscribe(args[2], "*");
        consumer.setMessageQueueListener((topic, all, mine) -> {
            if (topic.equals(args[2])) {
                say("queues " + describe(mine));
            }
        });
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            messages.forEach(message -> say("got " + message.getKeys()));
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        say("started " + consumer.buildMQClientId());
        while (System.in.read() >= 0) {
            // Until whoever started this process closes the pipe.
        }
        consumer.shutdown();
        say("left");
        System.exit(0);
    }

    private static String describe(Set<MessageQueue> queues) {
        return queues.stream()
            .map(queue -> queue.getBrokerName() + ":" + queue.getQueueId())
            .sorted()
            .collect(Collectors.joining(" "));
    }

    private static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }
}
