import java.io.File;
import java.io.IOException;
import java.lang.reflect.Proxy;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ScheduledFuture;
import java.util.function.Supplier;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.util.Scheduler;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogOffsetsListener;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

/** A log of Apache Kafka's without a broker: the time is the one that it is given, and nothing happens by itself. */
final class KafkaLog {
    static final Time TIME = new SetTime();
    static long nowMs = 0;

    private KafkaLog() { }

    private static final class SetTime implements Time {
        @Override public long milliseconds() { return nowMs; }
        @Override public long nanoseconds() { return nowMs * 1_000_000; }
        @Override public void sleep(long ms) { }
        @Override public void waitObject(Object object, Supplier<Boolean> condition, long deadlineMs) { }
    }

    /** Does at once what is to be done at once, and never what is to be done later or again and again. */
    static final class Now implements Scheduler {
        @Override public void startup() { }
        @Override public void shutdown() { }
        @Override public void resizeThreadPool(int size) { }

        @Override public ScheduledFuture<?> schedule(String name, Runnable task, long delayMs, long periodMs) {
            if (delayMs <= 0 && periodMs < 0) {
                task.run();
            }
            return (ScheduledFuture<?>) Proxy.newProxyInstance(
                KafkaLog.class.getClassLoader(), new Class<?>[] {ScheduledFuture.class}, (self, method, given) -> true);
        }
    }

    /** Pairs as a=b,c=d; a comma in a value is written as a plus. */
    static LogConfig config(String words) {
        Map<String, String> config = new HashMap<>();
        for (String pair : words.split(",")) {
            config.put(pair.split("=")[0], pair.substring(pair.indexOf('=') + 1).replace('+', ','));
        }
        return LogConfig.fromProps(config, new Properties());
    }

    static UnifiedLog open(String directory, String config, long start, long recoveryPoint, boolean clean)
            throws IOException {
        LogConfig parsed = config(config);
        return UnifiedLog.create(
            new File(directory), parsed, start, recoveryPoint, new Now(), new BrokerTopicStats(), TIME, 900_000,
            new ProducerStateManagerConfig(86_400_000, false), 600_000, new LogDirFailureChannel(1), clean,
            Optional.of(Uuid.fromString("AAECAwQFBgcICQoLDA0ODw")), new ConcurrentHashMap<>(),
            parsed.remoteStorageEnable(), LogOffsetsListener.NO_OP_OFFSETS_LISTENER);
    }
}
