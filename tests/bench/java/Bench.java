import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * The real client under load. Arguments: the nameserver, a name for topic and group that nobody
 * used, bytes of a body, and what to do, each as WORK=MESSAGES: sync1, sync16, async, batch,
 * consume (of all that was sent). Prints a line `WORK messages/s FAILURES` for each,
 * with the sends that failed so far.
 */
public class Bench {
    private static final int IN_FLIGHT = 2000, BATCH = 32, DEADLINE_S = 120;

    private final String topic;
    private final byte[] body;
    private final DefaultMQProducer producer;
    private int sent = 0;
    private long failures = 0;

    public static void main(String[] args) {
        int code = 1;
        try {
            measure(args);
            code = 0;
        } catch (Exception error) {
            error.printStackTrace();
        }
        System.exit(code); // the client's threads would go on
    }

    private static void measure(String[] args) throws Exception {
        Bench bench = new Bench(args[0], args[1], Integer.parseInt(args[2]));
        for (String work : Arrays.asList(args).subList(3, args.length)) {
            String[] words = work.split("=");
            double rate = bench.run(args[0], words[0], Integer.parseInt(words[1]));
            System.out.printf("%s %.1f %d%n", words[0], rate, bench.failures);
        }
    }

    Bench(String nameserver, String name, int size) throws Exception {
        topic = name;
        body = new byte[size];
        Arrays.fill(body, (byte) 'x');
        producer = new DefaultMQProducer("P_" + name);
        producer.setNamesrvAddr(nameserver);
        producer.setSendMsgTimeout(10000);
        producer.setVipChannelEnabled(false);
        producer.start();
    }

    private double run(String nameserver, String work, int count) throws Exception {
        switch (work) {
            case "sync1":
                return inThreads(1, count, this::sendSync);
            case "sync16":
                return inThreads(16, count, this::sendSync);
            case "async":
                return async(count);
            case "batch":
                return inThreads(1, count / BATCH, this::sendBatch);
            case "consume":
                return consume(nameserver);
            default:
                throw new IllegalArgumentException(work);
        }
    }

    private interface Sending {
        int send(int i) throws Exception;
    }

    private int sendSync(int i) throws Exception {
        stored(producer.send(new Message(topic, "T", "key" + i, body)));
        return 1;
    }

    private int sendBatch(int i) throws Exception {
        List<Message> messages = new ArrayList<>();
        for (int j = 0; j < BATCH; j++) messages.add(new Message(topic, "T", body));
        stored(producer.send(messages));
        return BATCH;
    }

    private static void stored(SendResult result) {
        if (result.getSendStatus() != SendStatus.SEND_OK) throw new IllegalStateException("" + result);
    }

    private double inThreads(int threads, int count, Sending sending) throws Exception {
        AtomicInteger next = new AtomicInteger(), done = new AtomicInteger();
        AtomicLong failed = new AtomicLong();
        ExecutorService pool = Executors.newFixedThreadPool(threads);
        long start = System.nanoTime();
        for (int t = 0; t < threads; t++)
            pool.submit(() -> {
                for (int i; (i = next.getAndIncrement()) < count; )
                    try {
                        done.addAndGet(sending.send(i));
                    } catch (Exception error) {
                        if (failed.getAndIncrement() == 0) error.printStackTrace();
                    }
            });
        pool.shutdown();
        if (!pool.awaitTermination(DEADLINE_S, TimeUnit.SECONDS)) throw new IllegalStateException("too slow");
        return rate(start, failed.get(), done.get());
    }

    private double async(int count) throws Exception {
        Semaphore inFlight = new Semaphore(IN_FLIGHT);
        CountDownLatch answered = new CountDownLatch(count);
        AtomicInteger done = new AtomicInteger();
        AtomicLong failed = new AtomicLong();
        long start = System.nanoTime();
        for (int i = 0; i < count; i++) {
            inFlight.acquire();
            producer.send(new Message(topic, "T", "key" + i, body), new SendCallback() {
                @Override
                public void onSuccess(SendResult result) {
                    done.incrementAndGet();
                    over();
                }

                @Override
                public void onException(Throwable error) {
                    if (failed.getAndIncrement() == 0) error.printStackTrace();
                    over();
                }

                private void over() {
                    inFlight.release();
                    answered.countDown();
                }
            });
        }
        if (!answered.await(DEADLINE_S, TimeUnit.SECONDS)) throw new IllegalStateException("too slow");
        return rate(start, failed.get(), done.get());
    }

    private double rate(long start, long failed, int done) {
        double seconds = (System.nanoTime() - start) / 1e9;
        failures += failed;
        sent += done;
        return done / seconds;
    }

    private double consume(String nameserver) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("C_" + topic);
        consumer.setNamesrvAddr(nameserver);
        consumer.setVipChannelEnabled(false);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setPullBatchSize(32);
        consumer.setConsumeMessageBatchMaxSize(32);
        consumer.subscribe(topic, "*");
        Set<String> got = ConcurrentHashMap.newKeySet();
        AtomicLong first = new AtomicLong(), last = new AtomicLong();
        CountDownLatch all = new CountDownLatch(1);
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            first.compareAndSet(0, System.nanoTime());
            for (MessageExt message : messages) got.add(message.getQueueId() + ":" + message.getQueueOffset());
            last.set(System.nanoTime());
            if (got.size() >= sent) all.countDown();
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        boolean whole = all.await(DEADLINE_S, TimeUnit.SECONDS);
        consumer.shutdown();
        if (!whole) throw new IllegalStateException("got " + got.size() + " of " + sent);
        return got.size() / ((last.get() - first.get()) / 1e9);
    }
}
