import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.Arrays;
import java.util.HashSet;
import java.util.Set;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/**
 * Calls each method of the administrator's library that no command of mqadmin calls, so that a proxy
 * sees its request. By their names, as versions differ: one that is not there is passed over.
 * Arguments: the nameserver, a broker's address, a topic, a group with members and one without.
 */
public final class Tools {
    private static DefaultMQAdminExt admin;

    public static void main(String[] args) throws Exception {
        String broker = args[1];
        String topic = args[2];
        String group = args[3];
        String idle = args[4];
        admin = new DefaultMQAdminExt();
        admin.setNamesrvAddr(args[0]);
        admin.start();
        call("queryConsumeTimeSpan", topic, group);
        call("queryTopicsByConsumer", group);
        call("queryTopicConsumeByWho", topic);
        call("querySubscription", group, topic);
        call("examineSubscriptionGroupConfig", broker, idle);
        call("getAllSubscriptionGroup", broker, 3000L);
        call("getAllTopicConfig", broker, 3000L);
        call("updateAndGetGroupReadForbidden", broker, idle, topic, true);
        call("getConsumeStatus", topic, group, "");
        call("getKVListByNamespace", "ORDER_TOPIC_CONFIG");
        call("fetchTopicsByCLuster", "DefaultCluster");
        call("resumeCheckHalfMessage", topic, "7F0000010000000000000000000000000000");
        call("queryConsumeQueue", broker, topic, 0, 0L, 10, idle);
        call("resetOffsetByQueueId", broker, idle, topic, 0, 1L);
        call("getAllProducerInfo", broker);
        call("examineBrokerClusterInfo");
        call("fetchAllTopicList");
        call("getUserSubscriptionGroup", broker, 3000L);
        call("cleanUnusedTopicByAddr", broker);
        call("searchOffset", new MessageQueue(topic, "broker-a", 0), 1L);
        call("createOrUpdateOrderConf", topic, "broker-a:4", true);
        Set<String> brokers = new HashSet<>(Arrays.asList(broker));
        call("deleteTopicInBroker", brokers, "Nothing");
        call("exportRocksDBConfigToJson", broker, Arrays.asList());
        admin.shutdown();
        System.exit(0);
    }

    /** The first method of that name that takes these arguments. */
    private static void call(String name, Object... args) {
        for (Method method : DefaultMQAdminExt.class.getMethods()) {
            if (!method.getName().equals(name) || method.getParameterCount() != args.length) continue;
            try {
                method.invoke(admin, args);
                System.out.println(name + ": done");
                return;
            } catch (InvocationTargetException e) {
                System.out.println(name + ": " + e.getCause());
                return;
            } catch (IllegalArgumentException | IllegalAccessException e) {
                continue; // another one of that name
            }
        }
        System.out.println(name + ": no such method");
    }
}
