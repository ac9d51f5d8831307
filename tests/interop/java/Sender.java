import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.remoting.RPCHook;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;
import org.apache.rocketmq.remoting.protocol.RequestCode;
import org.apache.rocketmq.remoting.protocol.header.EndTransactionRequestHeader;

/**
 * A producer on the real client, whose message trace is on, told by lines of standard input what to
 * do, words apart by tabs; a line "done" ends each. Argument: the nameserver.
 *
 * <p>{@code send TOPIC NUMBER RATE}: so many messages, keys K0, K1, ..., tags a and b in turn, at most so
 * many a second. {@code transact TOPIC NUMBER TIMES}: transactions, keys T0, T1, ..., each committed so
 * often. It ends with its standard input, once all traces are sent.
 */
public final class Sender {
    private static final int THREADS = 8, TRIES = 10;
    private static final Map<String, Integer> SENT = new HashMap<>();

    public static void main(String[] args) throws Exception {
        DefaultMQProducer plain = new DefaultMQProducer("Senders");
        plain.setEnableTrace(true);
        plain.setNamesrvAddr(args[0]);
        plain.start();
        TransactionMQProducer transactions =
            new TransactionMQProducer("SendersInTransactions", new EndsAgain());
        transactions.setEnableTrace(true);
        transactions.setNamesrvAddr(args[0]);
        transactions.setTransactionListener(new Commits());
        transactions.start();

        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = lines.readLine()) != null; ) {
            String[] words = line.split("\t");
            int number = Integer.parseInt(words[2]);
            int how = Integer.parseInt(words[3]);
            int failed = words[0].equals("send") ? send(plain, words[1], number, how)
                : transact(transactions, words[1], number, how);
            System.out.println("failed " + failed);
            System.out.println("done");
        }
        plain.shutdown();
        transactions.shutdown();
        System.exit(0);
    }

    private static int send(DefaultMQProducer producer, String topic, int number, int rate) throws Exception {
        ExecutorService threads = Executors.newFixedThreadPool(THREADS);
        Semaphore failures = new Semaphore(0);
        int first = SENT.merge(topic, number, Integer::sum) - number;
        long began = System.nanoTime();
        for (int n = 0; n < number; n++) {
            String key = "K" + (first + n);
            String tag = (first + n) % 2 == 0 ? "a" : "b";
            threads.submit(() -> {
                if (!isDone(() -> producer.send(new Message(topic, tag, key, "body".getBytes())))) {
                    failures.release();
                }
            });
            long due = began + (n + 1) * 1_000_000_000L / rate;
            TimeUnit.NANOSECONDS.sleep(due - System.nanoTime());
        }
        threads.shutdown();
        threads.awaitTermination(10, TimeUnit.MINUTES);
        return failures.availablePermits();
    }

    private static int transact(
            TransactionMQProducer producer, String topic, int number, int times) {
        int failures = 0;
        ends = producer;
        again = times - 1;
        for (int n = 0; n < number; n++) {
            Message message = new Message(topic, "a", "T" + n, "body".getBytes());
            failures += isDone(() -> producer.sendMessageInTransaction(message, null)) ? 0 : 1;
        }
        return failures;
    }

    private static volatile TransactionMQProducer ends;
    private static volatile int again;

    /** Sends the end of each transaction so many times more: itself, not what it sent. */
    private static final class EndsAgain implements RPCHook {
        private final Set<String> known = ConcurrentHashMap.newKeySet();

        @Override
        public void doBeforeRequest(String address, RemotingCommand request) {
            if (request.getCode() != RequestCode.END_TRANSACTION) {
                return;
            }
            var end = (EndTransactionRequestHeader) request.readCustomHeader();
            if (!known.add(end.getTransactionId())) {
                return;
            }
            for (int n = 0; n < again; n++) {
                try {
                    ends.getDefaultMQProducerImpl().getMqClientFactory().getMQClientAPIImpl()
                        .getRemotingClient().invokeOneway(address,
                            RemotingCommand.createRequestCommand(RequestCode.END_TRANSACTION, end), 3000);
                } catch (Exception e) {
                    throw new IllegalStateException(e);
                }
            }
        }

        @Override
        public void doAfterResponse(String address, RemotingCommand request, RemotingCommand response) {
        }
    }

    private interface Act {
        void run() throws Exception;
    }

    /** Whether it went well, if need be after some tries: a broker on a busy machine refuses. */
    private static boolean isDone(Act act) {
        for (int left = TRIES; left > 0; left--) {
            try {
                act.run();
                return true;
            } catch (Exception e) {
                System.err.println(e);
            }
        }
        return false;
    }

    private static final class Commits implements TransactionListener {
        @Override
        public LocalTransactionState executeLocalTransaction(Message message, Object arg) {
            return LocalTransactionState.COMMIT_MESSAGE;
        }

        @Override
        public LocalTransactionState checkLocalTransaction(MessageExt message) {
            return LocalTransactionState.COMMIT_MESSAGE;
        }
    }
}
