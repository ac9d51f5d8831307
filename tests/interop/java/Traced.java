import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * A producer or a member of a group on the real client, whose message trace is on.
 *
 * <p>Arguments: nameserver, group, topic, and of a producer how many messages, how many milliseconds
 * lie between two, and how many transactions follow, of which every other one is rolled back. A
 * member says "started CLIENT_ID", and "got KEY" for each message; it gives the first message of
 * each queue back once, and shuts down when its standard input ends.
 */
public final class Traced {
    public static void main(String[] args) throws Exception {
        if (args.length > 3) {
            produce(args);
        } else {
            consume(args);
        }
        System.exit(0);
    }

    private static void produce(String[] args) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer(args[1]);
        producer.setEnableTrace(true);
        producer.setNamesrvAddr(args[0]);
        producer.start();
        for (int i = 0; i < Integer.parseInt(args[3]); i++) {
            SendResult sent = producer.send(new Message(args[2], "Tag", "K" + i, ("body " + i).getBytes()));
            say("sent K" + i + " " + sent.getMessageQueue().getQueueId() + " " + sent.getQueueOffset());
            Thread.sleep(Integer.parseInt(args[4]));
        }
        producer.shutdown();

        TransactionMQProducer transactions = new TransactionMQProducer(args[1] + "InTransactions");
        transactions.setEnableTrace(true);
        transactions.setNamesrvAddr(args[0]);
        AtomicInteger number = new AtomicInteger();
        transactions.setTransactionListener(new TransactionListener() {
            @Override
            public LocalTransactionState executeLocalTransaction(Message message, Object arg) {
                return number.getAndIncrement() % 2 == 0
                    ? LocalTransactionState.COMMIT_MESSAGE : LocalTransactionState.ROLLBACK_MESSAGE;
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                return LocalTransactionState.ROLLBACK_MESSAGE;
            }
        });
        transactions.start();
        for (int i = 0; i < Integer.parseInt(args[5]); i++) {
            transactions.sendMessageInTransaction(new Message(args[2], "Tag", "X" + i, "x".getBytes()), null);
        }
        transactions.shutdown();
        say("left");
    }

    private static void consume(String[] args) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(args[1]);
        consumer.setEnableTrace(true);
        consumer.setNamesrvAddr(args[0]);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setPersistConsumerOffsetInterval(1000);
        consumer.setAwaitTerminationMillisWhenShutdown(10_000);
        consumer.subscribe(args[2], "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            messages.forEach(message -> say("got " + message.getKeys()));
            context.setDelayLevelWhenNextConsume(1);
            MessageExt first = messages.get(0);
            return first.getQueueOffset() == 0 && first.getReconsumeTimes() == 0
                ? ConsumeConcurrentlyStatus.RECONSUME_LATER : ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        say("started " + consumer.buildMQClientId());
        while (System.in.read() >= 0) {
            // Until whoever started this process closes the pipe.
        }
        consumer.shutdown();
        say("left");
    }

    private static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }
}
