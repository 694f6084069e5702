package kafka.server.share;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.lang.reflect.Proxy;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.OptionalLong;
import java.util.concurrent.CompletableFuture;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.internals.ShareAcquireMode;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.coordinator.group.modern.share.ShareGroupConfigProvider;
import org.apache.kafka.server.share.acknowledge.ShareAcknowledgementBatch;
import org.apache.kafka.server.share.dlq.ShareGroupDLQManager;
import org.apache.kafka.server.share.dlq.ShareGroupDLQRecordParameter;
import org.apache.kafka.server.share.fetch.InFlightBatch;
import org.apache.kafka.server.share.fetch.InFlightState;
import org.apache.kafka.server.share.persister.PartitionFactory;
import org.apache.kafka.server.share.persister.Persister;
import org.apache.kafka.server.share.persister.PersisterStateBatch;
import org.apache.kafka.server.share.persister.ReadShareGroupStateResult;
import org.apache.kafka.server.share.persister.TopicData;
import org.apache.kafka.server.share.persister.WriteShareGroupStateParameters;
import org.apache.kafka.server.share.persister.WriteShareGroupStateResult;
import org.apache.kafka.server.storage.log.FetchIsolation;
import org.apache.kafka.server.storage.log.FetchPartitionData;
import org.apache.kafka.server.util.timer.Timer;
import org.apache.kafka.server.util.timer.TimerTask;
import org.apache.kafka.server.util.timer.TimerTaskEntry;
import sun.misc.Unsafe;

/**
 * Apache Kafka's own share partition, by lines of text; time stands still until it is moved, and a write to the share
 * coordinator ends when that is said. Each line of input, tab-separated, gets one line of output:
 *
 * <pre>
 * reset    LIMIT LOCKS LOCK_MS START BATCHES HAS_DLQ   the state that is loaded; batches as FIRST,LAST,STATE,COUNT
 * acquire  MEMBER MAX SIZE IS_LIMIT OFFSET BATCHES   records that were read from OFFSET; batches as BASE,LAST
 * ack      MEMBER BATCHES                        batches as FIRST,LAST,TYPE:TYPE...
 * release  MEMBER
 * stored   OK                                    the oldest write that waits has ended
 * settled  OK                                    the oldest dead letters were written, or given up
 * time     TIME                                  the clock and the timers
 * start    OFFSET                                the log starts here
 * show                                           the whole state
 * </pre>
 *
 * The output has, tab-separated, "A ..." for an answer or an error, "W ..." for a write, "L ..." for dead letters.
 */
public class SharePartitionOracle {
    private static final Uuid TOPIC = new Uuid(1, 116);
    private static final List<String> OUTPUT = new ArrayList<>();
    private static final List<CompletableFuture<WriteShareGroupStateResult>> WRITES = new ArrayList<>();
    private static final List<CompletableFuture<Void>> DEAD_LETTERS = new ArrayList<>();
    private static List<TimerTask> tasks = new ArrayList<>();
    private static List<Long> due = new ArrayList<>();
    private static long now = 0;
    private static SharePartition partition;

    private static final Time TIME = new Time() {
        @Override public long milliseconds() {
            return now;
        }
        @Override public long hiResClockMs() {
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
    private static final Timer TIMER = new Timer() {
        @Override public void add(TimerTask task) {
            new TimerTaskEntry(task, now + task.delayMs);  // without one, a task counts as cancelled
            tasks.add(task);
            due.add(now + task.delayMs);
        }
        @Override public boolean advanceClock(long timeoutMs) {
            return false;
        }
        @Override public int size() {
            return tasks.size();
        }
        @Override public void close() {
        }
    };

    /** Is made without a constructor. */
    private static class NoConfigs extends org.apache.kafka.coordinator.group.GroupConfigManager {
        NoConfigs() {
            super(null, null);
        }
        @Override public Optional<org.apache.kafka.coordinator.group.GroupConfig> groupConfig(String groupId) {
            return Optional.empty();
        }
    }

    private static final ShareGroupDLQManager DLQ = new ShareGroupDLQManager() {
        @Override public CompletableFuture<Void> enqueue(ShareGroupDLQRecordParameter wanted) {
            OUTPUT.add("L " + wanted.firstOffset() + "," + wanted.lastOffset() + "," + wanted.deliveryCount().get() + ","
                + wanted.cause().get().getMessage());
            CompletableFuture<Void> settled = new CompletableFuture<>();
            DEAD_LETTERS.add(settled);
            return settled;
        }
        @Override public void stop() {
        }
    };

    /** A group that has a dead-letter topic, or none. */
    private static class Group extends ShareGroupConfigProvider {
        private final boolean hasDlq;

        Group(NoConfigs configs, boolean hasDlq) {
            super(configs);
            this.hasDlq = hasDlq;
        }
        @Override public Optional<String> errorsDLQTopicName(String groupId) {
            return hasDlq ? Optional.of("dlq.t") : Optional.empty();
        }
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            OUTPUT.clear();
            try {
                answer(line.split("\t", -1));
            } catch (RuntimeException defect) {
                OUTPUT.add("D " + defect + " " + defect.getStackTrace()[0]);
            }
            out.println(String.join("\t", OUTPUT));
            out.flush();
        }
    }

    private static void answer(String[] words) throws Exception {
        switch (words[0]) {
            case "reset":
                open(words);
                break;
            case "acquire":
                OUTPUT.add("A " + partition.acquire(words[1],
                    words[4].equals("1") ? ShareAcquireMode.RECORD_LIMIT : ShareAcquireMode.BATCH_OPTIMIZED,
                    Integer.parseInt(words[3]), Integer.parseInt(words[2]), Long.parseLong(words[5]),
                    new FetchPartitionData(Errors.NONE, 1_000_000, 0, records(words[6]), Optional.empty(),
                        OptionalLong.empty(), Optional.empty(), OptionalInt.empty(), false), FetchIsolation.HIGH_WATERMARK)
                    .acquiredRecords().stream().map(each -> each.firstOffset() + "," + each.lastOffset() + ","
                        + each.deliveryCount()).collect(Collectors.joining(";")));
                break;
            case "ack":
                ended(partition.acknowledge(words[1], Arrays.stream(words[2].split(";")).map(each -> each.split(","))
                    .map(each -> new ShareAcknowledgementBatch(Long.parseLong(each[0]), Long.parseLong(each[1]),
                        Arrays.stream(each[2].split(":")).map(Byte::parseByte).toList())).toList()));
                break;
            case "release":
                ended(partition.releaseAcquiredRecords(words[1]));
                break;
            case "stored":
                short code = words[1].equals("1") ? 0 : Errors.COORDINATOR_NOT_AVAILABLE.code();
                WRITES.remove(0).complete(new WriteShareGroupStateResult.Builder().setTopicsData(List.of(new TopicData<>(
                    TOPIC, List.of(PartitionFactory.newPartitionErrorData(0, code, ""))))).build());
                break;
            case "settled":
                if (words[1].equals("1")) {
                    DEAD_LETTERS.remove(0).complete(null);
                } else {
                    DEAD_LETTERS.remove(0).completeExceptionally(new RuntimeException("given up"));
                }
                break;
            case "time":
                now = Long.parseLong(words[1]);
                List<TimerTask> before = tasks;
                List<Long> times = due;
                tasks = new ArrayList<>();
                due = new ArrayList<>();
                for (int each = 0; each < before.size(); each++) {
                    if (before.get(each).isCancelled()) {
                        continue;
                    }
                    if (times.get(each) <= now) {
                        before.get(each).run();
                    } else {
                        tasks.add(before.get(each));
                        due.add(times.get(each));
                    }
                }
                break;
            case "start":
                partition.updateCacheAndOffsets(Long.parseLong(words[1]));
                break;
            case "show":
                OUTPUT.add("A " + partition.nextFetchOffset() + " " + partition.startOffset() + " " + partition.endOffset()
                    + " " + partition.deliveryCompleteCount() + " " + partition.cachedState().values().stream()
                    .map(SharePartitionOracle::shown).collect(Collectors.joining(";")));
                break;
            default:
                throw new IllegalArgumentException(words[0]);
        }
    }

    private static void open(String[] words) throws Exception {
        WRITES.clear();
        DEAD_LETTERS.clear();
        tasks = new ArrayList<>();
        due = new ArrayList<>();
        now = 0;
        Field field = Unsafe.class.getDeclaredField("theUnsafe");
        field.setAccessible(true);
        NoConfigs none = (NoConfigs) ((Unsafe) field.get(null)).allocateInstance(NoConfigs.class);
        List<PersisterStateBatch> batches = words[5].isEmpty() ? List.of() : Arrays.stream(words[5].split(";"))
            .map(each -> each.split(",")).map(each -> new PersisterStateBatch(Long.parseLong(each[0]),
                Long.parseLong(each[1]), Byte.parseByte(each[2]), Short.parseShort(each[3]))).toList();
        Persister persister = (Persister) Proxy.newProxyInstance(SharePartitionOracle.class.getClassLoader(),
            new Class<?>[] {Persister.class}, (proxy, method, arguments) -> {
                if (method.getName().equals("readState")) {
                    return CompletableFuture.completedFuture(new ReadShareGroupStateResult.Builder().setTopicsData(List.of(
                        new TopicData<>(TOPIC, List.of(PartitionFactory.newPartitionAllData(0, 1, Long.parseLong(words[4]),
                            (short) 0, "", batches))))).build());
                }
                return write((WriteShareGroupStateParameters) arguments[0]);
            });
        partition = new SharePartition("g", new TopicIdPartition(TOPIC, new TopicPartition("t", 0)), 7,
            Integer.parseInt(words[2]), Integer.parseInt(words[1]), Integer.parseInt(words[3]), TIMER, TIME, persister,
            null, key -> { }, new Group(none, words[6].equals("1")), null, () -> true, DLQ);
        partition.maybeInitialize().get();
    }

    private static CompletableFuture<WriteShareGroupStateResult> write(WriteShareGroupStateParameters parameters) {
        var data = parameters.groupTopicPartitionData().topicsData().get(0).partitions().get(0);
        OUTPUT.add("W " + data.stateEpoch() + " " + data.leaderEpoch() + " " + data.startOffset() + " "
            + data.deliveryCompleteCount() + " " + data.stateBatches().stream().map(each -> each.firstOffset() + ","
            + each.lastOffset() + "," + each.deliveryState() + "," + each.deliveryCount()).collect(Collectors.joining(";")));
        CompletableFuture<WriteShareGroupStateResult> written = new CompletableFuture<>();
        WRITES.add(written);
        return written;
    }

    private static void ended(CompletableFuture<Void> future) {
        if (future.isCompletedExceptionally()) {
            try {
                future.join();
            } catch (Exception error) {
                OUTPUT.add("A " + Errors.forException(error.getCause()).code());
            }
        }
    }

    private static MemoryRecords records(String text) {
        java.nio.ByteBuffer buffer = java.nio.ByteBuffer.allocate(1 << 20);
        for (String each : text.split(";")) {
            long base = Long.parseLong(each.split(",")[0]);
            MemoryRecordsBuilder builder = MemoryRecords.builder(buffer, Compression.NONE, TimestampType.CREATE_TIME, base);
            for (long offset = base; offset <= Long.parseLong(each.split(",")[1]); offset++) {
                builder.append(0, null, new byte[1]);
            }
            builder.close();
        }
        buffer.flip();
        return MemoryRecords.readableRecords(buffer);
    }

    private static String shown(InFlightBatch batch) {
        String range = batch.firstOffset() + "," + batch.lastOffset() + "=";
        if (batch.offsetState() == null) {
            return range + batch.batchState().id() + "," + batch.batchDeliveryCount() + "," + batch.batchMemberId() + ","
                + (batch.batchHasOngoingStateTransition() ? 1 : 0);
        }
        return range + batch.offsetState().values().stream().map((InFlightState each) -> each.state().id() + ","
            + each.deliveryCount() + "," + each.memberId() + "," + (each.hasOngoingStateTransition() ? 1 : 0))
            .collect(Collectors.joining("/"));
    }
}
