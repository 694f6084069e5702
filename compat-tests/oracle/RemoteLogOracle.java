// Kafka's RemoteLogMetadataCache and RemoteLogManager, asked by lines: questions between record separators (U+001E),
// words between tabs, one line for the answers. The log is a real one of Kafka's in a temporary directory; the store is empty, and its metadata are the cache alone.

import java.io.BufferedReader;
import java.io.File;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.NavigableMap;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.Collectors;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.config.AbstractConfig;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.SimpleRecord;
import org.apache.kafka.server.common.OffsetAndEpoch;
import org.apache.kafka.server.log.remote.metadata.storage.RemoteLogMetadataCache;
import org.apache.kafka.server.log.remote.storage.LogSegmentData;
import org.apache.kafka.server.log.remote.storage.RemoteLogManager;
import org.apache.kafka.server.log.remote.storage.RemoteLogManagerConfig;
import org.apache.kafka.server.log.remote.storage.RemoteLogMetadataManager;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentId;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata.CustomMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadataUpdate;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentState;
import org.apache.kafka.server.log.remote.storage.RemotePartitionDeleteMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteStorageException;
import org.apache.kafka.server.log.remote.storage.RemoteStorageManager;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogOffsetsListener;
import org.apache.kafka.storage.internals.log.LogSegment;
import org.apache.kafka.storage.internals.log.LogStartOffsetIncrementReason;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

public class RemoteLogOracle {
    private static final TopicIdPartition NAME = new TopicIdPartition(new Uuid(7, 7), new TopicPartition("t", 0));
    private static RemoteLogMetadataCache cache = new RemoteLogMetadataCache();
    private static List<String> deleted = new ArrayList<>();

    private final RemoteLogManager manager;
    private UnifiedLog log;

    public static final class Store implements RemoteStorageManager {
        public void configure(Map<String, ?> configs) { }

        public void close() { }

        public Optional<CustomMetadata> copyLogSegmentData(RemoteLogSegmentMetadata segment, LogSegmentData data) {
            return Optional.empty();
        }

        public InputStream fetchLogSegment(RemoteLogSegmentMetadata segment, int start) throws RemoteStorageException {
            throw new RemoteStorageException("empty");
        }

        public InputStream fetchLogSegment(RemoteLogSegmentMetadata segment, int start, int end)
                throws RemoteStorageException {
            throw new RemoteStorageException("empty");
        }

        public InputStream fetchIndex(RemoteLogSegmentMetadata segment, IndexType type) throws RemoteStorageException {
            throw new RemoteStorageException("empty");
        }

        public void deleteLogSegmentData(RemoteLogSegmentMetadata segment) {
            deleted.add(segment.remoteLogSegmentId().id().toString());
        }
    }

    public static final class Metadata implements RemoteLogMetadataManager {
        public void configure(Map<String, ?> configs) { }

        public void close() { }

        public CompletableFuture<Void> addRemoteLogSegmentMetadata(RemoteLogSegmentMetadata segment) {
            call(cache, "addCopyInProgressSegment", segment);
            return CompletableFuture.completedFuture(null);
        }

        public CompletableFuture<Void> updateRemoteLogSegmentMetadata(RemoteLogSegmentMetadataUpdate update) {
            call(cache, "updateRemoteLogSegmentMetadata", update);
            return CompletableFuture.completedFuture(null);
        }

        @SuppressWarnings("unchecked")
        public Optional<RemoteLogSegmentMetadata> remoteLogSegmentMetadata(TopicIdPartition of, int epoch, long offset) {
            return (Optional<RemoteLogSegmentMetadata>) call(cache, "remoteLogSegmentMetadata", epoch, offset);
        }

        @SuppressWarnings("unchecked")
        public Optional<Long> highestOffsetForEpoch(TopicIdPartition of, int epoch) {
            return (Optional<Long>) call(cache, "highestOffsetForEpoch", epoch);
        }

        public CompletableFuture<Void> putRemotePartitionDeleteMetadata(RemotePartitionDeleteMetadata deletion) {
            return CompletableFuture.completedFuture(null);
        }

        @SuppressWarnings("unchecked")
        public Iterator<RemoteLogSegmentMetadata> listRemoteLogSegments(TopicIdPartition of) {
            return (Iterator<RemoteLogSegmentMetadata>) call(cache, "listAllRemoteLogSegments");
        }

        @SuppressWarnings("unchecked")
        public Iterator<RemoteLogSegmentMetadata> listRemoteLogSegments(TopicIdPartition of, int epoch) {
            return (Iterator<RemoteLogSegmentMetadata>) call(cache, "listRemoteLogSegments", epoch);
        }

        public void onPartitionLeadershipChanges(Set<TopicIdPartition> leaders, Set<TopicIdPartition> followers) { }

        public void onStopPartitions(Set<TopicIdPartition> partitions) { }

        public long remoteLogSize(TopicIdPartition of, int epoch) {
            return 0;
        }
    }

    private RemoteLogOracle() throws Exception {
        Map<String, String> properties = new HashMap<>();
        properties.put("remote.log.storage.system.enable", "true");
        properties.put("remote.log.storage.manager.class.name", Store.class.getName());
        properties.put("remote.log.metadata.manager.class.name", Metadata.class.getName());
        properties.put("remote.log.metadata.manager.listener.name", "L");
        AbstractConfig config = new AbstractConfig(RemoteLogManagerConfig.configDef(), properties, false);
        File directory = Files.createTempDirectory("remote-log-oracle").toFile();
        manager = new RemoteLogManager(new RemoteLogManagerConfig(config), 1, directory.getPath(), "cluster", KafkaLog.TIME,
            of -> Optional.ofNullable(log),
            (of, offset) -> log.maybeIncrementLogStartOffset(offset, LogStartOffsetIncrementReason.SegmentDeletion),
            new BrokerTopicStats(true), new Metrics(), Optional.empty());
        call(cache, "markInitialized");
    }

    // Kafka keeps these methods to its own packages.

    private static Object call(Object of, String name, Object... given) {
        for (Class<?> each = of.getClass(); each != null; each = each.getSuperclass()) {
            for (Method method : each.getDeclaredMethods()) {
                if (method.getName().equals(name) && method.getParameterCount() == given.length
                        && !method.isSynthetic()) {
                    return invoke(method, of, given);
                }
            }
        }
        throw new IllegalArgumentException(name);
    }

    private static Object ofManager(String name, Object... given) {
        for (Method method : RemoteLogManager.class.getDeclaredMethods()) {
            if (method.getName().equals(name) && method.getParameterCount() == given.length) {
                return invoke(method, null, given);
            }
        }
        throw new IllegalArgumentException(name);
    }

    private static Object invoke(Method method, Object of, Object... given) {
        try {
            method.setAccessible(true);
            return method.invoke(of, given);
        } catch (InvocationTargetException error) {
            if (error.getCause() instanceof RuntimeException cause) {
                throw cause;
            }
            throw new RuntimeException(error.getCause().getClass().getSimpleName(), error.getCause());
        } catch (IllegalAccessException error) {
            throw new IllegalStateException(error);
        }
    }

    private Object task(String name, Object... given) throws Exception {
        var constructor = Class.forName(RemoteLogManager.class.getName() + "$" + name).getDeclaredConstructors()[0];
        constructor.setAccessible(true);
        Object[] all = new Object[given.length + 1];
        all[0] = manager;
        System.arraycopy(given, 0, all, 1, given.length);
        return constructor.newInstance(all);
    }

    // Words.

    private static NavigableMap<Integer, Long> epochs(String words) {
        NavigableMap<Integer, Long> found = new TreeMap<>();
        for (String each : words.isEmpty() ? new String[0] : words.split(",")) {
            found.put(Integer.parseInt(each.split(":")[0]), Long.parseLong(each.split(":")[1]));
        }
        return found;
    }

    private static String words(Map<Integer, Long> epochs) {
        return epochs.entrySet().stream().map(each -> each.getKey() + ":" + each.getValue())
            .collect(Collectors.joining(","));
    }

    private static RemoteLogSegmentId id(String words) {
        return new RemoteLogSegmentId(NAME, Uuid.fromString(words));
    }

    private static Optional<CustomMetadata> custom(String words) {
        return words.equals("-") ? Optional.empty()
            : Optional.of(new CustomMetadata(words.getBytes(StandardCharsets.UTF_8)));
    }

    private static RemoteLogSegmentMetadata segment(String[] words) {
        return new RemoteLogSegmentMetadata(id(words[1]), Long.parseLong(words[2]), Long.parseLong(words[3]),
            Long.parseLong(words[4]), Integer.parseInt(words[5]), Long.parseLong(words[6]), Integer.parseInt(words[7]),
            custom(words[8]), RemoteLogSegmentState.forId(Byte.parseByte(words[9])), epochs(words[10]),
            words[11].equals("1"));
    }

    private static String words(RemoteLogSegmentMetadata of) {
        return String.join(";", of.remoteLogSegmentId().id().toString(), Long.toString(of.startOffset()),
            Long.toString(of.endOffset()), Long.toString(of.maxTimestampMs()), Integer.toString(of.brokerId()),
            Long.toString(of.eventTimestampMs()), Integer.toString(of.segmentSizeInBytes()),
            of.customMetadata().map(each -> new String(each.value(), StandardCharsets.UTF_8)).orElse("-"),
            Integer.toString(of.state().id()), words(of.segmentLeaderEpochs()), of.isTxnIdxEmpty() ? "1" : "0");
    }

    @SuppressWarnings("unchecked")
    private static String words(Object found) {
        if (found instanceof Optional<?> optional) {
            return optional.map(RemoteLogOracle::words).orElse("-");
        }
        if (found instanceof Iterator<?>) {
            List<String> all = new ArrayList<>();
            ((Iterator<RemoteLogSegmentMetadata>) found).forEachRemaining(each -> all.add(words(each)));
            return String.join(" ", all);
        }
        return found instanceof RemoteLogSegmentMetadata segment ? words(segment) : String.valueOf(found);
    }

    // The log.

    private void begin(String config) throws Exception {
        if (log != null) {
            log.close();
        }
        File directory = new File(Files.createTempDirectory("remote-log").toFile(), "t-0");
        if (!directory.mkdir()) {
            throw new IllegalStateException();
        }
        log = UnifiedLog.create(directory, KafkaLog.config(config), 0, 0, new KafkaLog.Now(), new BrokerTopicStats(),
            KafkaLog.TIME, 900_000, new ProducerStateManagerConfig(86_400_000, false), 600_000,
            new LogDirFailureChannel(1), true, Optional.of(NAME.topicId()), new ConcurrentHashMap<>(), true,
            LogOffsetsListener.NO_OP_OFFSETS_LISTENER);
    }

    private String state() throws Exception {
        List<String> segments = new ArrayList<>();
        for (LogSegment each : log.logSegments()) {
            segments.add(each.baseOffset() + ":" + each.size() + ":" + each.largestTimestamp());
        }
        return String.join(";", Long.toString(log.logStartOffset()), Long.toString(log.localLogStartOffset()),
            Long.toString(log.logEndOffset()), Long.toString(log.highWatermark()), Long.toString(log.lastStableOffset()),
            words(log.leaderEpochCache().epochWithOffsets()), String.join(",", segments));
    }

    private String candidates(long from, long lastStableOffset) throws Exception {
        List<String> found = new ArrayList<>();
        for (Object each : (List<?>) call(task("RLMCopyTask", NAME, 128), "candidateLogSegments", log, from,
                lastStableOffset)) {
            var segment = each.getClass().getDeclaredField("logSegment");
            segment.setAccessible(true);
            found.add(Long.toString(((LogSegment) segment.get(each)).baseOffset()));
        }
        return String.join(",", found);
    }

    private String answer(String[] words) throws Exception {
        switch (words[0]) {
            case "new":
                cache = new RemoteLogMetadataCache();
                call(cache, "markInitialized");
                return "ok";
            case "add":
                call(cache, "addCopyInProgressSegment", segment(words));
                return "ok";
            case "update":
                call(cache, "updateRemoteLogSegmentMetadata", new RemoteLogSegmentMetadataUpdate(id(words[1]),
                    Long.parseLong(words[2]), custom(words[3]), RemoteLogSegmentState.forId(Byte.parseByte(words[4])),
                    Integer.parseInt(words[5])));
                return "ok";
            case "find":
                return words(call(cache, "remoteLogSegmentMetadata", Integer.parseInt(words[1]), Long.parseLong(words[2])));
            case "next":
                return words(call(cache, "nextSegmentWithTxnIndex", Integer.parseInt(words[1]), Long.parseLong(words[2])));
            case "highest":
                return words(call(cache, "highestOffsetForEpoch", Integer.parseInt(words[1])));
            case "all":
                return words(call(cache, "listAllRemoteLogSegments"));
            case "epoch":
                return words(call(cache, "listRemoteLogSegments", Integer.parseInt(words[1])));
            case "filtered":
                return words((Map<Integer, Long>) (Map<?, ?>) (NavigableMap<?, ?>) ofManager("buildFilteredLeaderEpochMap",
                    epochs(words[1])));
            case "within":
                return String.valueOf(ofManager("isRemoteSegmentWithinLeaderEpochs", segment(words),
                    Long.parseLong(words[12]), epochs(words[13])));
            case "log":
                begin(words[1]);
                return state();
            case "append":
                log.appendAsLeader(MemoryRecords.withRecords(Compression.NONE, new SimpleRecord(Long.parseLong(words[2]),
                    new byte[Integer.parseInt(words[3])])), Integer.parseInt(words[1]));
                return "ok";
            case "roll":
                log.roll();
                return "ok";
            case "cut":
                log.truncateTo(Long.parseLong(words[1]));
                return "ok";
            case "committed":
                log.updateHighWatermark(Long.parseLong(words[1]));
                return "ok";
            case "start":
                log.maybeIncrementLogStartOffset(Long.parseLong(words[1]),
                    LogStartOffsetIncrementReason.ClientRecordDeletion);
                return "ok";
            case "time":
                KafkaLog.nowMs = Long.parseLong(words[1]);
                return "ok";
            case "state":
                return state();
            case "candidates":
                return candidates(Long.parseLong(words[1]), Long.parseLong(words[2]));
            case "copied":
                OffsetAndEpoch found = (OffsetAndEpoch) call(manager, "findHighestRemoteOffset", NAME, log);
                return found.offset() + ":" + found.epoch();
            case "first":
                return String.valueOf(call(manager, "findLogStartOffset", NAME, log));
            case "expire":
                log.updateHighestOffsetInRemoteStorage(
                    ((OffsetAndEpoch) call(manager, "findHighestRemoteOffset", NAME, log)).offset());
                deleted = new ArrayList<>();
                call(task("RLMExpirationTask", NAME), "cleanupExpiredRemoteLogSegments");
                return log.logStartOffset() + ";" + String.join(",", deleted);
            case "local":
                log.updateHighestOffsetInRemoteStorage(Long.parseLong(words[1]));
                log.deleteOldSegments();
                return state();
            default:
                throw new IllegalArgumentException(words[0]);
        }
    }

    private String answerOrError(String[] words) throws Exception {
        try {
            return answer(words);
        } catch (RuntimeException error) {
            Throwable cause = error.getClass() == RuntimeException.class ? error.getCause() : error;
            return "error " + cause.getClass().getSimpleName();
        }
    }

    public static void main(String[] arguments) throws Exception {
        RemoteLogOracle oracle = new RemoteLogOracle();
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            List<String> answers = new ArrayList<>();
            for (String question : line.split("\u001e")) {
                answers.add(oracle.answerOrError(question.split("\t", -1)));
            }
            System.out.println(String.join("\u001e", answers));
        }
    }
}
