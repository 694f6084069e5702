import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import java.util.Base64;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.concurrent.ScheduledFuture;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.storage.log.FetchIsolation;
import org.apache.kafka.server.util.Scheduler;
import org.apache.kafka.storage.internals.log.FetchDataInfo;
import org.apache.kafka.storage.internals.log.LogAppendInfo;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogStartOffsetIncrementReason;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

/** Drives Apache Kafka's own log by commands from standard input, one a line, and answers each with one line. */
public class LogOracle {
    private static long nowMs = 0;

    private static final class SetTime implements Time {
        @Override public long milliseconds() { return nowMs; }
        @Override public long nanoseconds() { return nowMs * 1_000_000; }
        @Override public void sleep(long ms) { }
        @Override public void waitObject(Object object, Supplier<Boolean> condition, long deadlineMs) { }
    }

    /** Does at once what is to be done at once, and never what is to be done later or again and again. */
    private static final class Now implements Scheduler {
        @Override public void startup() { }
        @Override public void shutdown() { }
        @Override public void resizeThreadPool(int size) { }

        @Override public ScheduledFuture<?> schedule(String name, Runnable task, long delayMs, long periodMs) {
            if (delayMs <= 0 && periodMs < 0) {
                task.run();
            }
            return (ScheduledFuture<?>) Proxy.newProxyInstance(
                LogOracle.class.getClassLoader(), new Class<?>[] {ScheduledFuture.class}, (self, method, given) -> true);
        }
    }

    private static LogConfig config(String words) {
        Map<String, String> config = new HashMap<>();
        for (String pair : words.split(",")) {
            config.put(pair.split("=")[0], pair.substring(pair.indexOf('=') + 1).replace('+', ','));
        }
        return LogConfig.fromProps(config, new Properties());
    }

    private static UnifiedLog open(String[] words) throws Exception {
        return UnifiedLog.create(
            new File(words[1]), config(words[5]), Long.parseLong(words[3]),
            Long.parseLong(words[4]), new Now(), new BrokerTopicStats(), new SetTime(), 900_000,
            new ProducerStateManagerConfig(86_400_000, false), 600_000, new LogDirFailureChannel(1),
            Boolean.parseBoolean(words[2]), Optional.of(Uuid.fromString("AAECAwQFBgcICQoLDA0ODw")));
    }

    private static String state(UnifiedLog log) {
        String segments = log.logSegments().stream().map(s -> s.baseOffset() + ":" + s.size())
            .collect(Collectors.joining(" "));
        String epochs = log.leaderEpochCache().epochEntries().stream().map(e -> e.epoch() + ":" + e.startOffset())
            .collect(Collectors.joining(" "));
        return log.logStartOffset() + " " + log.logEndOffset() + " | " + segments + " | " + epochs + " | "
            + log.firstUnstableOffset().orElse(-1L);
    }

    private static String answer(UnifiedLog log, String[] words) throws Exception {
        switch (words[0]) {
            case "append":
                log.appendAsFollower(
                    MemoryRecords.readableRecords(ByteBuffer.wrap(Base64.getDecoder().decode(words[2]))),
                    Integer.parseInt(words[1]));
                return "ok";
            case "produce":
                LogAppendInfo written = log.appendAsLeader(
                    MemoryRecords.readableRecords(ByteBuffer.wrap(Base64.getDecoder().decode(words[2]))),
                    Integer.parseInt(words[1]));
                return written.firstOffset() + " " + written.lastOffset() + " " + written.logAppendTime();
            case "expire":
                log.removeExpiredProducers(nowMs);
                return "" + log.producerIdCount();
            case "config":
                log.updateConfig(config(words[1]));
                return "ok";
            case "high":
                log.updateHighWatermark(Long.parseLong(words[1]));
                return "ok";
            case "start":
                log.maybeIncrementLogStartOffset(
                    Long.parseLong(words[1]), LogStartOffsetIncrementReason.ClientRecordDeletion);
                return "ok";
            case "delete":
                return "" + log.deleteOldSegments();
            case "truncate":
                log.truncateTo(Long.parseLong(words[1]));
                return "ok";
            case "roll":
                log.roll();
                return "ok";
            case "flush":
                log.flush(true);
                return "ok";
            case "state":
                return state(log);
            case "read":
                FetchDataInfo read = log.read(
                    Long.parseLong(words[1]), Integer.parseInt(words[2]), FetchIsolation.LOG_END,
                    Boolean.parseBoolean(words[3]));
                return read.fetchOffsetMetadata.segmentBaseOffset + " "
                    + read.fetchOffsetMetadata.relativePositionInSegment + " "
                    + (read.firstEntryIncomplete ? 0 : read.records.sizeInBytes());
            case "time":
                return log.fetchOffsetByTimestamp(Long.parseLong(words[1]), Optional.empty()).timestampAndOffsetOpt()
                    .map(found -> found.timestamp + " " + found.offset + " " + found.leaderEpoch.orElse(-1)).orElse("none");
            case "aborted":
                return log.collectAbortedTransactions(Long.parseLong(words[1]), Long.parseLong(words[2])).stream()
                    .map(txn -> txn.producerId() + ":" + txn.firstOffset() + ":" + txn.lastOffset() + ":"
                        + txn.lastStableOffset()).collect(Collectors.joining(" "));
            case "kill":
                log.closeHandlers();
                return "ok";
            case "close":
                log.close();
                return "ok";
            default:
                throw new IllegalArgumentException(words[0]);
        }
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        UnifiedLog log = null;
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] words = line.split(" ");
            try {
                if (words[0].equals("now")) {
                    nowMs = Long.parseLong(words[1]);
                    System.out.println("ok");
                } else if (words[0].equals("open")) {
                    log = open(words);
                    System.out.println("ok");
                } else {
                    System.out.println(answer(log, words));
                }
            } catch (Exception error) {
                System.out.println("error " + error.getClass().getSimpleName() + " " + error.getMessage());
            }
        }
    }
}
