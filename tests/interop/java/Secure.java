import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;

/**
 * Sends a message over TLS as a user, once for each PASSWORD, and prints what comes of it:
 * java Secure NAMESERVER TOPIC USER PASSWORD...
 */
public class Secure {
    public static void main(String[] args) throws Exception {
        for (int i = 3; i < args.length; i++) {
            SessionCredentials credentials = new SessionCredentials(args[2], args[i]);
            DefaultMQProducer producer =
                new DefaultMQProducer("SecureGroup" + i, new AclClientRPCHook(credentials));
            producer.setNamesrvAddr(args[0]);
            producer.setInstanceName("secure" + i);
            producer.setUseTLS(true);
            producer.setRetryTimesWhenSendFailed(0);
            producer.start();
            try {
                Message message = new Message(args[1], "hello".getBytes());
                System.out.println("sent: " + producer.send(message).getSendStatus());
            } catch (MQClientException e) {
                System.out.println("sent: code " + e.getResponseCode());
            }
            producer.shutdown();
        }
        System.exit(0);
    }
}
