import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.remoting.protocol.heartbeat.MessageModel;

/**
 * A member whose history is recorded on its way.
 *
 * <p>Arguments: nameserver, group, topic, expression, how it consumes ("concurrently", "orderly",
 * "broadcasting", "popping", or "failing": messages of an even key fail the first time), and an
 * instance name or "-". With the property "trace" its message trace is on. Prints "started" and
 * "got KEY" for each message; leaves when its standard input ends.
 */
public final class Recorded {
    public static void main(String[] args) throws Exception {
        String how = args[4];
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(args[1]);
        consumer.setNamesrvAddr(args[0]);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setPersistConsumerOffsetInterval(1000);
        consumer.setEnableTrace(Boolean.getBoolean("trace"));
        consumer.setClientRebalance(!how.equals("popping"));
        if (!args[5].equals("-")) {
            consumer.setInstanceName(args[5]);
        }
        if (how.equals("broadcasting")) {
            consumer.setMessageModel(MessageModel.BROADCASTING);
        }
        consumer.subscribe(args[2], args[3]);
        if (how.equals("orderly")) {
            consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
                messages.forEach(message -> say("got " + message.getKeys()));
                return ConsumeOrderlyStatus.SUCCESS;
            });
        } else {
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                context.setDelayLevelWhenNextConsume(1);
                for (var message : messages) {
                    boolean even = Integer.parseInt(message.getKeys().substring(1)) % 2 == 0;
                    if (how.equals("failing") && even && message.getReconsumeTimes() == 0) {
                        return ConsumeConcurrentlyStatus.RECONSUME_LATER;
                    }
                    say("got " + message.getKeys());
                }
                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
        }
        consumer.start();
        say("started");
        while (System.in.read() >= 0) {
            // Until whoever started this process closes the pipe.
        }
        consumer.shutdown();
        say("left");
        System.exit(0);
    }

    private static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }
}
