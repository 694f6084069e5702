import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.server.log.remote.metadata.storage.RemoteLogMetadataTopicPartitioner;
import org.apache.kafka.server.log.remote.metadata.storage.RemoteLogSegmentMetadataSnapshot;
import org.apache.kafka.server.log.remote.metadata.storage.serialization.RemoteLogMetadataSerde;
import org.apache.kafka.server.log.remote.storage.RemoteLogMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentId;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata.CustomMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadataUpdate;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentState;
import org.apache.kafka.server.log.remote.storage.RemotePartitionDeleteMetadata;
import org.apache.kafka.server.log.remote.storage.RemotePartitionDeleteState;

/**
 * Kafka's values of __remote_log_metadata, and their partitions. Each line of input, tab-separated, gets one of output:
 *
 * <pre>
 * write KIND FIELD...              the bytes of RemoteLogMetadataSerde
 * read HEX                         KIND and its fields, as write takes them
 * partition TOPIC_ID PARTITION N   the partition of RemoteLogMetadataTopicPartitioner
 * </pre>
 *
 * Kinds and their fields, ids and bytes in hexadecimal digits, "-" for no custom metadata:
 *
 * <pre>
 * segment  TOPIC TOPIC_ID PARTITION ID BROKER EVENT_MS STATE CUSTOM START END MAX_MS SIZE EPOCH:OFFSET,... EMPTY
 * update   TOPIC TOPIC_ID PARTITION ID BROKER EVENT_MS STATE CUSTOM
 * snapshot ID BROKER EVENT_MS STATE CUSTOM START END MAX_MS SIZE EPOCH:OFFSET,... EMPTY
 * delete   TOPIC TOPIC_ID PARTITION BROKER EVENT_MS STATE
 * </pre>
 */
public class RemoteLogRecordOracle {
    private static final HexFormat HEX = HexFormat.of();
    private static final RemoteLogMetadataSerde SERDE = new RemoteLogMetadataSerde();

    private static String[] words;
    private static int at;

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            words = line.split("\t", -1);
            at = 0;
            try {
                out.println(answer());
            } catch (Exception refused) {
                out.println("!" + refused.getClass().getSimpleName());
            }
        }
        out.flush();
    }

    private static String answer() {
        switch (word()) {
            case "write":
                return HEX.formatHex(SERDE.serialize(value()));
            case "read":
                return text(SERDE.deserialize(HEX.parseHex(word())));
            default: {
                Uuid topic = uuid();
                TopicIdPartition named = new TopicIdPartition(topic, new TopicPartition("any", integer()));
                return Integer.toString(new RemoteLogMetadataTopicPartitioner(integer()).metadataPartition(named));
            }
        }
    }

    private static RemoteLogMetadata value() {
        switch (word()) {
            case "segment": {
                RemoteLogSegmentId id = new RemoteLogSegmentId(partition(), uuid());
                int broker = integer();
                long event = number();
                RemoteLogSegmentState state = RemoteLogSegmentState.forId((byte) integer());
                Optional<CustomMetadata> custom = custom();
                long start = number();
                long end = number();
                long most = number();
                int size = integer();
                Map<Integer, Long> epochs = epochs();
                return new RemoteLogSegmentMetadata(
                    id, start, end, most, broker, event, size, custom, state, epochs, Boolean.parseBoolean(word()));
            }
            case "snapshot": {
                Uuid id = uuid();
                int broker = integer();
                long event = number();
                RemoteLogSegmentState state = RemoteLogSegmentState.forId((byte) integer());
                Optional<CustomMetadata> custom = custom();
                long start = number();
                long end = number();
                long most = number();
                int size = integer();
                Map<Integer, Long> epochs = epochs();
                return new RemoteLogSegmentMetadataSnapshot(
                    id, start, end, most, broker, event, size, custom, state, epochs, Boolean.parseBoolean(word()));
            }
            case "update": {
                RemoteLogSegmentId id = new RemoteLogSegmentId(partition(), uuid());
                int broker = integer();
                long event = number();
                RemoteLogSegmentState state = RemoteLogSegmentState.forId((byte) integer());
                return new RemoteLogSegmentMetadataUpdate(id, event, custom(), state, broker);
            }
            default: {
                TopicIdPartition named = partition();
                int broker = integer();
                long event = number();
                return new RemotePartitionDeleteMetadata(
                    named, RemotePartitionDeleteState.forId((byte) integer()), event, broker);
            }
        }
    }

    private static String text(RemoteLogMetadata read) {
        if (read instanceof RemoteLogSegmentMetadata segment) {
            return joined("segment", text(segment.remoteLogSegmentId()), text(read, segment.state().id()),
                text(segment.customMetadata()), segment.startOffset(), segment.endOffset(), segment.maxTimestampMs(),
                segment.segmentSizeInBytes(), text(segment.segmentLeaderEpochs()), segment.isTxnIdxEmpty());
        }
        if (read instanceof RemoteLogSegmentMetadataSnapshot segment) {
            return joined("snapshot", hex(segment.segmentId()), text(read, segment.state().id()),
                text(segment.customMetadata()), segment.startOffset(), segment.endOffset(), segment.maxTimestampMs(),
                segment.segmentSizeInBytes(), text(segment.segmentLeaderEpochs()), segment.isTxnIdxEmpty());
        }
        if (read instanceof RemoteLogSegmentMetadataUpdate update) {
            return joined("update", text(update.remoteLogSegmentId()), text(read, update.state().id()),
                text(update.customMetadata()));
        }
        RemotePartitionDeleteMetadata deleted = (RemotePartitionDeleteMetadata) read;
        return joined("delete", text(deleted.topicIdPartition()), text(read, deleted.state().id()));
    }

    private static String text(RemoteLogMetadata read, byte state) {
        return joined(read.brokerId(), read.eventTimestampMs(), state);
    }

    private static String text(RemoteLogSegmentId id) {
        return joined(text(id.topicIdPartition()), hex(id.id()));
    }

    private static String text(TopicIdPartition named) {
        return joined(named.topic(), hex(named.topicId()), named.partition());
    }

    private static String text(Optional<CustomMetadata> custom) {
        return custom.map(each -> HEX.formatHex(each.value())).orElse("-");
    }

    private static String text(Map<Integer, Long> epochs) {
        return epochs.entrySet().stream().map(each -> each.getKey() + ":" + each.getValue())
            .collect(Collectors.joining(","));
    }

    private static String joined(Object... parts) {
        return java.util.Arrays.stream(parts).map(String::valueOf).collect(Collectors.joining("\t"));
    }

    private static String hex(Uuid id) {
        return HEX.toHexDigits(id.getMostSignificantBits()) + HEX.toHexDigits(id.getLeastSignificantBits());
    }

    private static String word() {
        return words[at++];
    }

    private static int integer() {
        return Integer.parseInt(word());
    }

    private static long number() {
        return Long.parseLong(word());
    }

    private static Uuid uuid() {
        ByteBuffer bytes = ByteBuffer.wrap(HEX.parseHex(word()));
        return new Uuid(bytes.getLong(), bytes.getLong());
    }

    private static TopicIdPartition partition() {
        String topic = word();
        Uuid id = uuid();
        return new TopicIdPartition(id, new TopicPartition(topic, integer()));
    }

    private static Optional<CustomMetadata> custom() {
        String text = word();
        return text.equals("-") ? Optional.empty() : Optional.of(new CustomMetadata(HEX.parseHex(text)));
    }

    private static Map<Integer, Long> epochs() {
        Map<Integer, Long> epochs = new TreeMap<>();
        for (String each : word().split(",")) {
            String[] pair = each.split(":");
            epochs.put(Integer.parseInt(pair[0]), Long.parseLong(pair[1]));
        }
        return epochs;
    }
}
