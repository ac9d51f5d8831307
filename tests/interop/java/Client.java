import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.zip.CRC32;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.RequestCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.client.producer.selector.SelectMessageQueueByHash;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.remoting.protocol.heartbeat.MessageModel;

/**
 * The real client, told by lines of standard input what to do: a command and its words, apart by
 * tabs. It prints a line for what it did and for each message that it got, and "done" after each
 * command. Argument: the nameserver.
 */
public final class Client {
    private static final long COMMIT_INTERVAL_MS = 1_000;  // the least
    private static final Map<String, DefaultMQPushConsumer> CONSUMERS = new HashMap<>();
    private static String nameserver;
    private static TransactionMQProducer producer;

    public static void main(String[] args) throws Exception {
        nameserver = args[0];
        producer = new TransactionMQProducer("JavaProducers");
        producer.setNamesrvAddr(nameserver);
        producer.setTransactionListener(new AsTheMessageSays());
        producer.start();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = lines.readLine()) != null; ) {
            String[] words = line.split("\t");
            try {
                carryOut(words);
            } catch (Exception e) {
                say("failed " + withCauses(e));
            }
            say("done");
        }
        CONSUMERS.values().forEach(DefaultMQPushConsumer::shutdown);
        producer.shutdown();
        System.exit(0);
    }

    private static void carryOut(String[] words) throws Exception {
        switch (words[0]) {
            case "send" -> sent(producer.send(message(words[1], words[2], Integer.parseInt(words[3]))));
            case "send-delayed" -> {
                Message message = message(words[1], words[2], 1);
                message.setDelayTimeLevel(Integer.parseInt(words[3]));
                sent(producer.send(message));
            }
            case "send-timed" -> {
                Message message = message(words[1], words[2], 1);
                message.setDeliverTimeMs(System.currentTimeMillis() + Long.parseLong(words[3]));
                SendResult result = producer.send(message);
                sent(result);
                say("handle " + result.getRecallHandle());
            }
            case "recall" -> say("recalled " + producer.recallMessage(words[1], words[2]));
            case "request" -> producer.request(message(words[1], words[2], 1), new Answered(), 40_000);
            case "send-ordered" ->
                sent(producer.send(message(words[1], words[2], 1), new SelectMessageQueueByHash(), words[3]));
            case "send-batch" -> {
                List<Message> batch = new ArrayList<>();
                for (String key : words[2].split(" ")) {
                    batch.add(message(words[1], key, 1));
                }
                sent(producer.send(batch));
            }
            case "send-in-transaction" ->
                sent(producer.sendMessageInTransaction(message(words[1], words[2], 1), words[3]));
            case "push" -> push(words[1], words[2], words[3], MessageSelector.byTag("*"));
            case "push-by-sql" -> push(words[1], words[2], "concurrently", MessageSelector.bySql(words[3]));
            case "stop" -> CONSUMERS.remove(words[1]).shutdown();
            case "lite-pull" -> litePull(words[1], words[2], Integer.parseInt(words[3]), false);
            case "lite-pull-by-itself" -> litePull(words[1], words[2], Integer.parseInt(words[3]), true);
            case "query" -> {
                long now = System.currentTimeMillis();
                for (MessageExt found : producer.queryMessage(words[1], words[2], 32, 0, now).getMessageList()) {
                    got("query", found);
                }
            }
            default -> throw new IllegalArgumentException(words[0]);
        }
    }

    private static Message message(String topic, String key, int size) {
        Message message = new Message(topic, "Tag", key, "x".repeat(size).getBytes());
        message.setFlag(7);
        message.putUserProperty("who", "java");
        return message;
    }

    private static void sent(SendResult result) {
        say("sent " + result.getMessageQueue().getBrokerName() + " " + result.getMessageQueue().getQueueId()
            + " " + result.getQueueOffset() + " " + result.getMsgId());
    }

    private static void push(String group, String topic, String mode, MessageSelector wanted) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        consumer.setNamesrvAddr(nameserver);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        // What a listener has said to have got counts as progress before a stop stores it.
        consumer.setAwaitTerminationMillisWhenShutdown(10_000);
        consumer.subscribe(topic, wanted);
        if (mode.equals("broadcasting")) {
            consumer.setMessageModel(MessageModel.BROADCASTING);
        }
        consumer.setClientRebalance(!mode.startsWith("by-broker"));
        if (mode.equals("orderly")) {
            consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
                messages.forEach(message -> got(group, message));
                return ConsumeOrderlyStatus.SUCCESS;
            });
        } else {
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                messages.forEach(message -> got(group, message));
                if (mode.equals("answering")) {
                    messages.stream().filter(m -> m.getProperty("REPLY_TO_CLIENT") != null).forEach(Client::answer);
                }
                if (mode.equals("giving-up")) {
                    context.setDelayLevelWhenNextConsume(-1);
                    return ConsumeConcurrentlyStatus.RECONSUME_LATER;
                }
                int before = messages.get(0).getReconsumeTimes();
                boolean fails = (mode.equals("failing-twice") && before < 2)
                    || (mode.equals("by-broker-failing-once") && before < 1);
                return fails ? ConsumeConcurrentlyStatus.RECONSUME_LATER : ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
        }
        consumer.start();
        CONSUMERS.put(group, consumer);
    }

    private static void answer(MessageExt message) {
        try {
            producer.send(MessageUtil.createReplyMessage(message, ("to " + message.getKeys()).getBytes()));
            say("replied " + message.getKeys());
        } catch (Exception e) {
            say("failed " + withCauses(e));
        }
    }

    /** Polls so many messages, one at a time, and commits in the end, or has that done as it polls on. */
    private static void litePull(String group, String topic, int count, boolean byItself) throws Exception {
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer(group);
        consumer.setNamesrvAddr(nameserver);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setAutoCommit(byItself);
        consumer.setAutoCommitIntervalMillis(COMMIT_INTERVAL_MS);
        consumer.setPullBatchSize(1);
        consumer.subscribe(topic, "*");
        consumer.start();
        for (int left = count; left > 0; ) {
            List<MessageExt> messages = consumer.poll(20_000);
            messages.forEach(message -> got(group, message));
            left -= messages.size();
            if (byItself) Thread.sleep(COMMIT_INTERVAL_MS + 100);  // or the next poll commits nothing
        }
        if (!byItself) consumer.commit();
        consumer.shutdown();
    }

    private static void got(String by, MessageExt message) {
        CRC32 crc = new CRC32();
        crc.update(message.getBody());
        say(String.join(" ", "got", by, message.getKeys(), "" + message.getTags(), "" + message.getBody().length,
            "" + crc.getValue(), "" + message.getFlag(), "" + message.getProperty("who"),
            message.getBrokerName() + ":" + message.getQueueId(), "" + message.getQueueOffset()));
    }

    private static String withCauses(Throwable e) {
        return e.getCause() == null ? e.toString() : e + " because of " + withCauses(e.getCause());
    }

    private static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }

    /**
     * Says what a reply is. The request that waits for it cannot be used: 5.3.3's gives up once the
     * message is sent (apache/rocketmq#9319), when this one is called with nothing.
     */
    private static final class Answered implements RequestCallback {
        @Override
        public void onSuccess(Message reply) {
            if (reply != null) {
                say("answered " + new String(reply.getBody()));
            }
        }

        @Override
        public void onException(Throwable e) {
            say("unanswered " + e);
        }
    }

    /** Commits or rolls back as the message's argument says; of others it knows nothing yet. */
    private static final class AsTheMessageSays implements TransactionListener {
        @Override
        public LocalTransactionState executeLocalTransaction(Message message, Object arg) {
            return switch ((String) arg) {
                case "commit" -> LocalTransactionState.COMMIT_MESSAGE;
                case "rollback" -> LocalTransactionState.ROLLBACK_MESSAGE;
                default -> LocalTransactionState.UNKNOW;
            };
        }

        @Override
        public LocalTransactionState checkLocalTransaction(MessageExt message) {
            say("checked " + message.getKeys());
            return LocalTransactionState.COMMIT_MESSAGE;
        }
    }
}
