import java.util.ArrayList;
import java.util.List;
import org.apache.rocketmq.client.impl.consumer.ProcessQueue;
import org.apache.rocketmq.common.message.MessageExt;

/** Message 0 is stuck, and all others are finished as they come: how far flow control lets a member pull. */
public class StuckMessage {
    static final int SPAN = 2000, BATCH = 32;

    static List<MessageExt> messages(long first, int number) {
        List<MessageExt> found = new ArrayList<>();
        for (int i = 0; i < number; i++) {
            MessageExt message = new MessageExt();
            message.setQueueOffset(first + i);
            message.setBody(new byte[1]);
            found.add(message);
        }
        return found;
    }

    public static void main(String[] args) {
        ProcessQueue queue = new ProcessQueue();
        queue.putMessage(messages(0, 1));
        long next = 1, progress = -1, span = 0;
        while (next < 10 * SPAN && queue.getMaxSpan() <= SPAN) {
            List<MessageExt> batch = messages(next, BATCH);
            queue.putMessage(batch);
            next += BATCH;
            span = queue.getMaxSpan();
            progress = queue.removeMessage(batch);
        }
        System.out.println("pulled " + next + " progress " + progress + " span " + span);
        System.exit(0);
    }
}
