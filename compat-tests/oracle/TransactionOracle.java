package kafka.coordinator.transaction;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import kafka.server.ReplicaManager;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.message.ListTransactionsResponseData;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.requests.ProduceResponse.PartitionResponse;
import org.apache.kafka.common.requests.TransactionResult;
import org.apache.kafka.common.utils.internals.LogContext;
import org.apache.kafka.common.utils.internals.ProducerIdAndEpoch;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.coordinator.transaction.TransactionConfig;
import org.apache.kafka.coordinator.transaction.ProducerIdManager;
import org.apache.kafka.coordinator.transaction.TransactionLog;
import org.apache.kafka.coordinator.transaction.TransactionMetadata;
import org.apache.kafka.coordinator.transaction.TransactionState;
import org.apache.kafka.coordinator.transaction.TxnTransitMetadata;
import org.apache.kafka.metadata.MetadataCache;
import org.apache.kafka.server.common.FinalizedFeatures;
import org.apache.kafka.server.common.MetadataVersion;
import org.apache.kafka.server.common.RequestLocal;
import org.apache.kafka.server.common.TransactionVersion;
import org.apache.kafka.server.util.Scheduler;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.RecordValidationStats;
import org.apache.kafka.storage.internals.log.VerificationGuard;
import scala.Function1;
import scala.Option;
import scala.runtime.BoxedUnit;

/**
 * Apache Kafka's own transaction coordinator on a log in memory, by lines of text; time stands still until it is moved,
 * and markers are written when that is said. Each line of input, tab-separated, gets one line of output:
 *
 * <pre>
 * reset    LEVEL MAX_TIMEOUT EXPIRATION       nothing is known; transaction.version
 * level    LEVEL                              transaction.version changes
 * time     TIME
 * ids      NEXT                               the next producer id
 * init     ID TIMEOUT PRODUCER EPOCH          InitProducerId; PRODUCER -1 for none
 * add      ID PRODUCER EPOCH VERSION PARTITIONS   partitions as t:0,t:1
 * verify   ID PRODUCER EPOCH PARTITIONS
 * end      ID PRODUCER EPOCH COMMIT VERSION
 * marked   ID                                 all markers of a transaction are written
 * timeouts                                    looks for transactions that have timed out
 * expire                                      looks for transactional ids that expire
 * describe ID
 * list     STATES PRODUCERS DURATION PATTERN
 * load     KEY VALUE                          a record stands in the log, from the next restart on
 * restart                                     a new coordinator is made of the records
 * </pre>
 *
 * The output has, tab-separated, "A ..." for an answer, "W KEY VALUE" for a record, "M ID PRODUCER EPOCH COMMIT VERSION
 * PARTITIONS" for markers that are to be written.
 */
public class TransactionOracle {
    private static final HexFormat HEX = HexFormat.of();
    private static final int EPOCH = 7;
    private static final List<byte[][]> LOG = new ArrayList<>();
    private static final List<String> OUTPUT = new ArrayList<>();
    private static final Map<String, TxnTransitMetadata> PENDING = new HashMap<>();
    private static long now = 0;
    private static long nextProducerId = 0;
    private static short level = 2;
    private static TransactionConfig config;
    private static TransactionStateManager states;
    private static TransactionCoordinator coordinator;

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

    private static void answer(String[] words) throws Exception {
        switch (words[0]) {
            case "reset":
                LOG.clear();
                level = Short.parseShort(words[1]);
                config = new TransactionConfig(Integer.parseInt(words[3]), Integer.parseInt(words[2]), 1, (short) 1,
                    1 << 20, 1 << 20, 1, 10_000, 3_600_000, false, 30_000);
                open();
                break;
            case "level":
                level = Short.parseShort(words[1]);
                break;
            case "time":
                now = Long.parseLong(words[1]);
                break;
            case "ids":
                nextProducerId = Long.parseLong(words[1]);
                break;
            case "init":
                try {
                    coordinator.handleInitProducerId(words[1], Integer.parseInt(words[2]), false, false,
                        words[3].equals("-1") ? Option.empty()
                            : Option.apply(new ProducerIdAndEpoch(Long.parseLong(words[3]), Short.parseShort(words[4]))),
                        result -> answered(result.error(), result.producerId(), result.producerEpoch()),
                        RequestLocal.noCaching());
                } catch (IllegalStateException | IllegalArgumentException error) {
                    answered(Errors.forException(error), -1, -1);
                }
                break;
            case "add":
                coordinator.handleAddPartitionsToTransaction(words[1], Long.parseLong(words[2]),
                    Short.parseShort(words[3]), partitions(words[5]), error -> answered(error, -1, -1),
                    TransactionVersion.fromFeatureLevel(Short.parseShort(words[4])), RequestLocal.noCaching());
                break;
            case "verify":
                coordinator.handleVerifyPartitionsInTransaction(words[1], Long.parseLong(words[2]),
                    Short.parseShort(words[3]), partitions(words[4]), result -> {
                        OUTPUT.add("A " + result.topicResults().stream().flatMap(topic -> topic.resultsByPartition().stream()
                            .map(each -> topic.name() + ":" + each.partitionIndex() + "=" + each.partitionErrorCode()))
                            .sorted().collect(Collectors.joining(",")));
                        return BoxedUnit.UNIT;
                    });
                break;
            case "end":
                try {
                    coordinator.handleEndTransaction(words[1], Long.parseLong(words[2]), Short.parseShort(words[3]),
                        TransactionResult.forId(words[4].equals("1")),
                        TransactionVersion.fromFeatureLevel(Short.parseShort(words[5])),
                        (error, producerId, epoch) -> answered(error, (Long) producerId, (Short) epoch),
                        RequestLocal.noCaching());
                } catch (IllegalStateException | IllegalArgumentException error) {
                    answered(Errors.forException(error), -1, -1);
                }
                break;
            case "marked":
                states.appendTransactionToLog(words[1], EPOCH, PENDING.remove(words[1]), error -> {
                    if (error != Errors.NONE) {
                        throw new IllegalStateException(error.toString());
                    }
                    return BoxedUnit.UNIT;
                }, error -> true, RequestLocal.noCaching());
                break;
            case "timeouts":
                coordinator.abortTimedOutTransactions(transaction -> (error, producerId, epoch) -> BoxedUnit.UNIT);
                break;
            case "expire":
                states.removeExpiredTransactionalIds();
                break;
            case "describe":
                var state = coordinator.handleDescribeTransactions(words[1]);
                OUTPUT.add("A " + state.errorCode() + " " + state.transactionState() + " " + state.transactionTimeoutMs()
                    + " " + state.transactionStartTimeMs() + " " + state.producerId() + " " + state.producerEpoch() + " "
                    + state.topics().stream().flatMap(topic -> topic.partitions().stream()
                        .map(each -> topic.topic() + ":" + each)).sorted().collect(Collectors.joining(",")));
                break;
            case "list":
                list(words);
                break;
            case "load":
                LOG.add(new byte[][] {HEX.parseHex(words[1]), words[2].equals("-") ? null : HEX.parseHex(words[2])});
                break;
            case "restart":
                open();
                break;
            default:
                throw new IllegalArgumentException(words[0]);
        }
    }

    private static void list(String[] words) {
        Set<Object> producers = Arrays.stream(words[2].split(",")).filter(word -> !word.isEmpty())
            .map(Long::parseLong).collect(Collectors.toSet());
        Set<String> names = Arrays.stream(words[1].split(",")).filter(word -> !word.isEmpty())
            .collect(Collectors.toSet());
        ListTransactionsResponseData data;
        try {
            data = coordinator.handleListTransactions(immutable(producers), immutable(names), Long.parseLong(words[3]),
                words[4]);
        } catch (org.apache.kafka.common.errors.ApiException error) {
            OUTPUT.add("A " + Errors.forException(error).code() + "  ");
            return;
        }
        OUTPUT.add("A " + data.errorCode() + " "
            + data.unknownStateFilters().stream().sorted().collect(Collectors.joining(",")) + " "
            + data.transactionStates().stream()
                .map(each -> each.transactionalId() + ":" + each.producerId() + ":" + each.transactionState())
                .sorted().collect(Collectors.joining(",")));
    }

    private static <T> scala.collection.immutable.Set<T> immutable(Set<T> items) {
        return scala.jdk.javaapi.CollectionConverters.asScala(items).toSet();
    }

    private static BoxedUnit answered(Errors error, long producerId, int epoch) {
        OUTPUT.add("A " + error.code() + " " + producerId + " " + epoch);
        return BoxedUnit.UNIT;
    }

    private static Set<TopicPartition> partitions(String words) {
        return Arrays.stream(words.split(",")).map(word -> word.split(":"))
            .map(parts -> new TopicPartition(parts[0], Integer.parseInt(parts[1]))).collect(Collectors.toSet());
    }

    /** A coordinator that has loaded the log. */
    private static void open() throws Exception {
        PENDING.clear();
        MetadataCache metadata = (MetadataCache) Proxy.newProxyInstance(TransactionOracle.class.getClassLoader(),
            new Class<?>[] {MetadataCache.class}, (proxy, method, arguments) -> {
                if (method.getName().equals("features")) {
                    return FinalizedFeatures.of(MetadataVersion.latestProduction(),
                        Map.of(TransactionVersion.FEATURE_NAME, level), 0);
                }
                throw new UnsupportedOperationException(method.toString());
            });
        Scheduler scheduler = (Scheduler) Proxy.newProxyInstance(TransactionOracle.class.getClassLoader(),
            new Class<?>[] {Scheduler.class}, (proxy, method, arguments) -> null);
        states = new TransactionStateManager(
            0, scheduler, bare(Replicas.class), metadata, config, TIME, new Metrics());
        ProducerIdManager ids = () -> nextProducerId++;
        coordinator = new TransactionCoordinator(
            config, scheduler, () -> ids, states, bare(Markers.class), TIME, new LogContext());
        coordinator.startup(() -> 1, true);
        Map<String, TransactionMetadata> found = new LinkedHashMap<>();
        for (byte[][] record : LOG) {
            var read = TransactionLog.read(
                ByteBuffer.wrap(record[0]), record[1] == null ? null : ByteBuffer.wrap(record[1]));
            if (read instanceof TransactionLog.TxnRecord entry) {
                found.put(entry.transactionId(), entry.metadata());
            } else if (read instanceof TransactionLog.TxnTombstone tombstone) {
                found.remove(tombstone.transactionId());
            }
        }
        states.addLoadedTransactionsToCache(0, EPOCH, new ConcurrentHashMap<>(found));
        for (TransactionMetadata loaded : found.values()) {
            if (loaded.state() == TransactionState.PREPARE_COMMIT || loaded.state() == TransactionState.PREPARE_ABORT) {
                // Kafka says the time of the load here; that of the decision is easier to compare.
                TxnTransitMetadata completed = loaded.prepareComplete(loaded.txnLastUpdateTimestamp());
                markers(loaded.state() == TransactionState.PREPARE_COMMIT, loaded, completed);
            }
        }
    }

    private static void markers(boolean commit, TransactionMetadata transaction, TxnTransitMetadata completed) {
        PENDING.put(transaction.transactionalId(), completed);
        OUTPUT.add("M " + transaction.transactionalId() + " " + transaction.producerId() + " "
            + transaction.producerEpoch() + " " + (commit ? 1 : 0) + " "
            + transaction.clientTransactionVersion().featureLevel() + " "
            + transaction.topicPartitions().stream().map(each -> each.topic() + ":" + each.partition()).sorted()
                .collect(Collectors.joining(",")));
    }

    /** An object whose constructor never ran: only what is overridden is used of it. */
    private static <T> T bare(Class<T> type) throws Exception {
        Field field = sun.misc.Unsafe.class.getDeclaredField("theUnsafe");
        field.setAccessible(true);
        return type.cast(((sun.misc.Unsafe) field.get(null)).allocateInstance(type));
    }

    private static class Markers extends TransactionMarkerChannelManager {
        Markers() {
            super(null, null, null, null, null);
        }

        @Override public synchronized void start() {
        }

        @Override public void addTxnMarkersToSend(
                int epoch, TransactionResult result, TransactionMetadata transaction, TxnTransitMetadata completed) {
            markers(result == TransactionResult.COMMIT, transaction, completed);
        }
    }

    private static class Replicas extends ReplicaManager {
        Replicas() {
            super(null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null,
                null, null, null, null);
        }

        @Override public TopicIdPartition topicIdPartition(TopicPartition partition) {
            return new TopicIdPartition(Uuid.ONE_UUID, partition);
        }

        @Override public Option<LogConfig> getLogConfig(TopicPartition partition) {
            return Option.apply(new LogConfig(new HashMap<>()));
        }

        @Override public void appendRecords(
                long timeout, short acks, boolean internal, AppendOrigin origin,
                scala.collection.Map<TopicIdPartition, MemoryRecords> entries,
                Function1<Map<TopicIdPartition, PartitionResponse>, BoxedUnit> done,
                Function1<scala.collection.Map<TopicIdPartition, RecordValidationStats>, BoxedUnit> stats,
                RequestLocal local, scala.collection.Map<TopicPartition, VerificationGuard> guards, short version) {
            Map<TopicIdPartition, PartitionResponse> outcome = new HashMap<>();
            for (var entry : scala.jdk.javaapi.CollectionConverters.asJava(entries).entrySet()) {
                for (Record record : entry.getValue().records()) {
                    byte[] key = bytes(record.key());
                    byte[] value = record.hasValue() ? bytes(record.value()) : null;
                    LOG.add(new byte[][] {key, value});
                    OUTPUT.add("W " + HEX.formatHex(key) + " " + (value == null ? "-" : HEX.formatHex(value)));
                }
                outcome.put(entry.getKey(), new PartitionResponse(Errors.NONE));
            }
            done.apply(outcome);
        }

        private static byte[] bytes(ByteBuffer buffer) {
            byte[] copied = new byte[buffer.remaining()];
            buffer.get(copied);
            return copied;
        }
    }
}
