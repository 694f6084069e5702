import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.lang.reflect.Proxy;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.concurrent.ScheduledFuture;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.util.Scheduler;
import org.apache.kafka.storage.internals.log.Cleaner;
import org.apache.kafka.storage.internals.log.CleanerStats;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogToClean;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.SkimpyOffsetMap;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.internals.utils.Throttler;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

/** Drives Apache Kafka's own log cleaner by commands from standard input, one a line, and answers each with one line. */
public class CleanerOracle {
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
                CleanerOracle.class.getClassLoader(), new Class<?>[] {ScheduledFuture.class},
                (self, method, given) -> true);
        }
    }

    private static LogConfig config(String words) {
        Map<String, String> config = new HashMap<>();
        for (String pair : words.split(",")) {
            config.put(pair.split("=")[0], pair.substring(pair.indexOf('=') + 1));
        }
        return LogConfig.fromProps(config, new Properties());
    }

    private static UnifiedLog open(String[] words) throws Exception {
        return UnifiedLog.create(
            new File(words[1]), config(words[2]), 0, Long.MAX_VALUE, new Now(), new BrokerTopicStats(), new SetTime(),
            900_000, new ProducerStateManagerConfig(86_400_000, false), 600_000, new LogDirFailureChannel(1), true,
            Optional.of(Uuid.fromString("AAECAwQFBgcICQoLDA0ODw")));
    }

    /** First dirty offset, first uncleanable offset, bytes of the map, its load factor, bytes of the buffers. */
    private static String clean(UnifiedLog log, String[] words) throws Exception {
        SkimpyOffsetMap map = new SkimpyOffsetMap(Integer.parseInt(words[3]));
        int buffer = Integer.parseInt(words[5]);
        Throttler throttler = new Throttler(Double.MAX_VALUE, 300, "cleaner-io", "bytes", new SetTime());
        Cleaner cleaner = new Cleaner(
            0, map, buffer, 1 << 30, Double.parseDouble(words[4]), throttler, new SetTime(), partition -> { });
        long began = System.nanoTime();
        Map.Entry<Long, CleanerStats> done = cleaner.clean(
            new LogToClean(log, Long.parseLong(words[1]), Long.parseLong(words[2]), false));
        long took = System.nanoTime() - began;
        CleanerStats stats = done.getValue();
        return done.getKey() + " " + stats.mapMessagesRead() + " " + stats.bytesRead() + " " + stats.messagesRead() + " "
            + stats.bytesWritten() + " " + stats.messagesWritten() + " " + stats.invalidMessagesRead() + " " + took;
    }

    private static String lastRecords(UnifiedLog log) {
        return log.lastRecordsOfActiveProducers().entrySet().stream().sorted(Map.Entry.comparingByKey())
            .map(entry -> entry.getKey() + ":" + entry.getValue().lastDataOffset().orElse(-1) + ":"
                + entry.getValue().producerEpoch())
            .collect(Collectors.joining(" "));
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        UnifiedLog log = null;
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] words = line.split(" ");
            String answer = "ok";
            try {
                switch (words[0]) {
                    case "now" -> nowMs = Long.parseLong(words[1]);
                    case "open" -> log = open(words);
                    case "clean" -> answer = clean(log, words);
                    case "last" -> answer = lastRecords(log);
                    case "close" -> log.close();
                    default -> answer = "error " + words[0];
                }
            } catch (Exception error) {
                answer = "error " + error.getClass().getSimpleName() + " " + error.getMessage();
            }
            System.out.println(answer);
        }
    }
}
