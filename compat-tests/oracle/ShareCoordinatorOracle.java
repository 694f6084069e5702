package org.apache.kafka.coordinator.share;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.AbstractConfig;
import org.apache.kafka.common.message.DeleteShareGroupStateRequestData;
import org.apache.kafka.common.message.InitializeShareGroupStateRequestData;
import org.apache.kafka.common.message.ReadShareGroupStateRequestData;
import org.apache.kafka.common.message.ReadShareGroupStateSummaryRequestData;
import org.apache.kafka.common.message.WriteShareGroupStateRequestData;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.utils.internals.LogContext;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataImage;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.common.runtime.CoordinatorResult;
import org.apache.kafka.coordinator.share.metrics.ShareCoordinatorMetrics;
import org.apache.kafka.server.share.persister.PersisterStateBatch;
import org.apache.kafka.timeline.SnapshotRegistry;

/**
 * Apache Kafka's own share coordinator on a log in memory, by lines of text; time stands still until it is moved. Each
 * line of input, tab-separated, gets one line of output:
 *
 * <pre>
 * reset    UPDATES COLD_MS         nothing is known; the updates before a snapshot, and the age of a cold one
 * topic    ID PARTITIONS           a topic in the metadata; with 0 partitions it is gone
 * time     TIME
 * ask      KEY VERSION REQUEST     a request about one share partition, in hexadecimal
 * cold                             snapshots of cold share partitions
 * cleanup  IDS                     these topics were deleted
 * prune                            the offset below which nothing is needed
 * restart  OFFSET                  a new coordinator is made of the records from this offset on
 * combine  START BEFORE NEW        batches as FIRST,LAST,STATE,COUNT; between semicolons
 * </pre>
 *
 * The output has, tab-separated, "A ..." for an answer, "W KEY VALUE" for a record.
 */
public class ShareCoordinatorOracle {
    private static final HexFormat HEX = HexFormat.of();
    private static final List<CoordinatorRecord> LOG = new ArrayList<>();
    private static final List<String> OUTPUT = new ArrayList<>();
    private static final Map<Uuid, Integer> TOPICS = new HashMap<>();
    private static final ShareCoordinatorRecordSerde SERDE = new ShareCoordinatorRecordSerde();
    private static long now = 0;
    private static ShareCoordinatorConfig config;
    private static ShareCoordinatorShard shard;

    private static final Time TIME = new Time() {
        @Override public long milliseconds() {
            return now;
        }
        @Override public long nanoseconds() {
            return now * 1_000_000;
        }
        @Override public void sleep(long ms) {
        }
        @Override public void waitObject(Object object, Supplier<Boolean> condition, long deadline) {
        }
    };

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            OUTPUT.clear();
            answer(line.split("\t", -1));
            out.println(String.join("\t", OUTPUT));
            out.flush();
        }
    }

    private static void answer(String[] words) {
        switch (words[0]) {
            case "reset":
                LOG.clear();
                TOPICS.clear();
                config = new ShareCoordinatorConfig(new AbstractConfig(ShareCoordinatorConfig.CONFIG_DEF, Map.of(
                    ShareCoordinatorConfig.SNAPSHOT_UPDATE_RECORDS_PER_SNAPSHOT_CONFIG, words[1],
                    ShareCoordinatorConfig.COLD_PARTITION_SNAPSHOT_INTERVAL_MS_CONFIG, words[2])));
                open(0);
                break;
            case "topic":
                if (words[2].equals("0")) {
                    TOPICS.remove(Uuid.fromString(words[1]));
                } else {
                    TOPICS.put(Uuid.fromString(words[1]), Integer.parseInt(words[2]));
                }
                break;
            case "time":
                now = Long.parseLong(words[1]);
                break;
            case "ask":
                short version = Short.parseShort(words[2]);
                CoordinatorResult<? extends ApiMessage, CoordinatorRecord> result =
                    ask(Integer.parseInt(words[1]), version, new ByteBufferAccessor(ByteBuffer.wrap(HEX.parseHex(words[3]))));
                OUTPUT.add("A " + hex(MessageUtil.toByteBufferAccessor(result.response(), version).buffer()));
                write(result.records());
                break;
            case "cold":
                write(shard.snapshotColdPartitions().records());
                break;
            case "cleanup":
                write(shard.maybeCleanupShareState(Arrays.stream(words[1].split(",")).map(Uuid::fromString)
                    .collect(Collectors.toSet())).records());
                break;
            case "prune":
                OUTPUT.add("A " + shard.lastRedundantOffset().response().map(String::valueOf).orElse("none"));
                break;
            case "restart":
                open(Integer.parseInt(words[1]));
                break;
            case "combine":
                OUTPUT.add("A " + new PersisterStateBatchCombiner(batches(words[2]), batches(words[3]),
                    Long.parseLong(words[1])).combineStateBatches().stream().map(each -> each.firstOffset() + ","
                    + each.lastOffset() + "," + each.deliveryState() + "," + each.deliveryCount())
                    .collect(Collectors.joining(";")));
                break;
            default:
                throw new IllegalArgumentException(words[0]);
        }
    }

    private static CoordinatorResult<? extends ApiMessage, CoordinatorRecord> ask(
        int key, short version, ByteBufferAccessor request) {
        switch (key) {
            case 83:
                return shard.initializeState(new InitializeShareGroupStateRequestData(request, version));
            case 84:
                return shard.readStateAndMaybeUpdateLeaderEpoch(new ReadShareGroupStateRequestData(request, version));
            case 85:
                return shard.writeState(new WriteShareGroupStateRequestData(request, version));
            case 86:
                return shard.deleteState(new DeleteShareGroupStateRequestData(request, version));
            default:
                return shard.readStateSummary(new ReadShareGroupStateSummaryRequestData(request, version));
        }
    }

    private static void open(int from) {
        shard = (ShareCoordinatorShard) new ShareCoordinatorShard.Builder(config)
            .withLogContext(new LogContext()).withSnapshotRegistry(new SnapshotRegistry(new LogContext()))
            .withTime(TIME).withCoordinatorMetrics(new ShareCoordinatorMetrics(new Metrics()))
            .withTopicPartition(new TopicPartition("__share_group_state", 0)).build();
        for (int offset = from; offset < LOG.size(); offset++) {
            shard.replay(offset, -1, (short) -1, LOG.get(offset));
        }
        shard.onLoaded((CoordinatorMetadataImage) Proxy.newProxyInstance(
            ShareCoordinatorOracle.class.getClassLoader(), new Class<?>[] {CoordinatorMetadataImage.class},
            (proxy, method, arguments) -> {
                if (!method.getName().equals("topicMetadata") || !(arguments[0] instanceof Uuid)) {
                    throw new UnsupportedOperationException(method.toString());
                }
                Integer partitions = TOPICS.get(arguments[0]);
                return partitions == null ? Optional.empty() : Optional.of(topic(partitions));
            }));
    }

    private static CoordinatorMetadataImage.TopicMetadata topic(int partitions) {
        return (CoordinatorMetadataImage.TopicMetadata) Proxy.newProxyInstance(
            ShareCoordinatorOracle.class.getClassLoader(), new Class<?>[] {CoordinatorMetadataImage.TopicMetadata.class},
            (proxy, method, arguments) -> {
                if (method.getName().equals("name")) {
                    return "t";  // for a line of the log
                }
                if (!method.getName().equals("partitionCount")) {
                    throw new UnsupportedOperationException(method.toString());
                }
                return partitions;
            });
    }

    private static void write(List<CoordinatorRecord> records) {
        for (CoordinatorRecord record : records) {
            shard.replay(LOG.size(), -1, (short) -1, record);
            LOG.add(record);
            byte[] value = SERDE.serializeValue(record);
            OUTPUT.add("W " + HEX.formatHex(SERDE.serializeKey(record)) + " " + (value == null ? "-" : HEX.formatHex(value)));
        }
    }

    private static List<PersisterStateBatch> batches(String text) {
        return text.isEmpty() ? List.of() : Arrays.stream(text.split(";")).map(each -> each.split(",")).map(each ->
            new PersisterStateBatch(Long.parseLong(each[0]), Long.parseLong(each[1]), Byte.parseByte(each[2]),
                Short.parseShort(each[3]))).toList();
    }

    private static String hex(ByteBuffer buffer) {
        byte[] bytes = new byte[buffer.remaining()];
        buffer.get(bytes);
        return HEX.formatHex(bytes);
    }
}
