import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager;
import org.apache.kafka.server.log.remote.metadata.storage.serialization.RemoteLogMetadataSerde;
import org.apache.kafka.server.log.remote.storage.RemoteLogMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadataUpdate;
import org.apache.kafka.server.log.remote.storage.RemotePartitionDeleteMetadata;

/**
 * Kafka's manager of __remote_log_metadata on a running cluster, as a broker of Kafka has it. Each line of input,
 * tab-separated, gets one of output:
 *
 * <pre>
 * start BOOTSTRAP_SERVERS PARTITIONS REPLICAS   ok
 * lead TOPIC TOPIC_ID PARTITION                 ok, when the partition is ready
 * put HEX                                       ok, when the record of this value is written and read
 * list TOPIC TOPIC_ID PARTITION                 the values of its segments, in hexadecimal digits, with commas
 * </pre>
 */
public class RemoteLogMetadataManagerOracle {
    private static final HexFormat HEX = HexFormat.of();
    private static final RemoteLogMetadataSerde SERDE = new RemoteLogMetadataSerde();
    private static final TopicBasedRemoteLogMetadataManager MANAGER = new TopicBasedRemoteLogMetadataManager();

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            try {
                out.println(answer(line.split("\t", -1)));
            } catch (Exception refused) {
                out.println("!" + refused);
            }
        }
    }

    private static String answer(String[] words) throws Exception {
        switch (words[0]) {
            case "start":
                start(words[1], words[2], words[3]);
                return "ok";
            case "lead":
                MANAGER.onPartitionLeadershipChanges(Set.of(partition(words)), Set.of());
                while (!MANAGER.isReady(partition(words))) {
                    Thread.sleep(20);
                }
                return "ok";
            case "put":
                put(SERDE.deserialize(HEX.parseHex(words[1])));
                return "ok";
            case "list":
                return list(partition(words));
            default:
                throw new IllegalArgumentException(words[0]);
        }
    }

    private static void start(String servers, String partitions, String replicas) throws Exception {
        Map<String, Object> configs = new HashMap<>();
        configs.put("remote.log.metadata.common.client.bootstrap.servers", servers);
        configs.put("remote.log.metadata.topic.num.partitions", partitions);
        configs.put("remote.log.metadata.topic.replication.factor", replicas);
        configs.put("broker.id", "9");
        configs.put("node.id", "9");
        configs.put("log.dir", Files.createTempDirectory("remote-log-metadata").toString());
        MANAGER.configure(configs);
        MANAGER.onBrokerReady();
    }

    private static TopicIdPartition partition(String[] words) {
        return new TopicIdPartition(Uuid.fromString(words[2]), new TopicPartition(words[1], Integer.parseInt(words[3])));
    }

    private static void put(RemoteLogMetadata record) throws Exception {
        if (record instanceof RemoteLogSegmentMetadata segment) {
            MANAGER.addRemoteLogSegmentMetadata(segment).get();
        } else if (record instanceof RemoteLogSegmentMetadataUpdate update) {
            MANAGER.updateRemoteLogSegmentMetadata(update).get();
        } else {
            MANAGER.putRemotePartitionDeleteMetadata((RemotePartitionDeleteMetadata) record).get();
        }
    }

    private static String list(TopicIdPartition partition) throws Exception {
        List<String> values = new ArrayList<>();
        for (Iterator<RemoteLogSegmentMetadata> each = MANAGER.listRemoteLogSegments(partition); each.hasNext(); ) {
            values.add(HEX.formatHex(SERDE.serialize(each.next())));
        }
        return String.join(",", values);
    }
}
