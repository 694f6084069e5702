// Kafka's Partition as its leader, asked by lines: one event per line of standard input, words between tabs; one line of
// standard output says how the partition is afterwards. A test plays the followers, the controller and the clock.

import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.lang.reflect.Proxy;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.TreeSet;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ScheduledFuture;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import kafka.cluster.DelayedOperations;
import kafka.cluster.Partition;
import org.apache.kafka.server.partition.AlterPartitionManager;
import org.apache.kafka.common.DirectoryId;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.SimpleRecord;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.metadata.LeaderAndIsr;
import org.apache.kafka.metadata.LeaderRecoveryState;
import org.apache.kafka.metadata.MetadataCache;
import org.apache.kafka.metadata.PartitionRegistration;
import org.apache.kafka.server.common.RequestLocal;
import org.apache.kafka.server.common.TopicIdPartition;
import org.apache.kafka.server.partition.AlterPartitionListener;
import org.apache.kafka.server.util.Scheduler;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogOffsetMetadata;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.internals.log.VerificationGuard;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;
import scala.Option;

public class PartitionOracle {
    private static final TopicPartition NAME = new TopicPartition("t", 0);
    private static final Uuid TOPIC_ID = new Uuid(7, 7);
    private static final int[] REPLICAS = {1, 2, 3};

    private record Broker(long epoch, boolean fenced, boolean shutsDown) { }

    private record Proposal(LeaderAndIsr wanted, CompletableFuture<LeaderAndIsr> answer) { }

    private final Clock clock = new Clock();
    private final Map<Integer, Broker> brokers = new HashMap<>();
    private final List<Proposal> proposals = new ArrayList<>();
    private File directory;
    private UnifiedLog log;
    private Partition partition;

    private static final class Clock implements Time {
        private long now;

        public long milliseconds() {
            return now;
        }

        public long nanoseconds() {
            return now * 1_000_000;
        }

        public void sleep(long ms) { }

        public void waitObject(Object object, Supplier<Boolean> condition, long deadline) { }
    }

    private static final class Never implements Scheduler {
        public void startup() { }

        public void shutdown() { }

        public ScheduledFuture<?> schedule(String name, Runnable task, long delay, long period) {
            return (ScheduledFuture<?>) Proxy.newProxyInstance(PartitionOracle.class.getClassLoader(),
                new Class<?>[] {ScheduledFuture.class}, (proxy, method, arguments) -> true);  // is only cancelled
        }

        public void resizeThreadPool(int threads) { }
    }

    private static final class NobodyWaits extends DelayedOperations {
        private NobodyWaits() {
            super(Option.empty(), NAME, null, null, null, null);
        }

        @Override
        public void checkAndCompleteAll() { }

        @Override
        public int numDelayedDelete() {
            return 0;
        }
    }

    private final class Controller implements AlterPartitionManager {
        @Override
        public void start() { }

        @Override
        public void shutdown() { }

        @Override
        public CompletableFuture<LeaderAndIsr> submit(TopicIdPartition place, LeaderAndIsr wanted) {
            var proposal = new Proposal(wanted, new CompletableFuture<>());
            proposals.add(proposal);
            return proposal.answer;
        }
    }

    private static final class Uncounted implements AlterPartitionListener {
        public void markIsrExpand() { }

        public void markIsrShrink() { }

        public void markFailed() { }
    }

    private MetadataCache metadata() {
        return (MetadataCache) Proxy.newProxyInstance(
            getClass().getClassLoader(), new Class<?>[] {MetadataCache.class}, (proxy, method, arguments) -> {
                Broker broker = brokers.get((Integer) arguments[0]);
                return switch (method.getName()) {
                    case "hasAliveBroker" -> broker != null && !broker.fenced;
                    case "isBrokerFenced" -> broker != null && broker.fenced;
                    case "isBrokerShuttingDown" -> broker != null && broker.shutsDown;
                    case "getAliveBrokerEpoch" ->
                        broker == null || broker.fenced ? Optional.empty() : Optional.of(broker.epoch);
                    default -> throw new UnsupportedOperationException(method.getName());
                };
            });
    }

    private static int[] numbers(String words) {
        return words.isEmpty() ? new int[0] : Arrays.stream(words.split(",")).mapToInt(Integer::parseInt).toArray();
    }

    private void begin(long lag, String minIsr, String isr) throws Exception {
        close();
        clock.now = 1_000_000;
        proposals.clear();
        brokers.clear();
        for (int id : REPLICAS) {
            brokers.put(id, new Broker(10 + id, false, false));
        }
        Properties properties = new Properties();
        properties.put("min.insync.replicas", minIsr);
        directory = Files.createTempDirectory("partition-oracle").toFile();
        File files = new File(directory, "t-0");
        files.mkdirs();
        log = UnifiedLog.create(files, new LogConfig(properties), 0, 0, new Never(), new BrokerTopicStats(false), clock,
            900_000, new ProducerStateManagerConfig(86_400_000, false), 600_000, new LogDirFailureChannel(1), true,
            Optional.of(TOPIC_ID));
        partition = new Partition(NAME, lag, 1, () -> 11L, clock, new Uncounted(), new NobodyWaits(), metadata(), null,
            new Controller(), Option.apply(TOPIC_ID));
        partition.setLog(log, false);
        learn(0, 0, isr);
    }

    private void close() throws Exception {
        if (log != null) {
            log.close();
            Utils.delete(directory);
        }
    }

    private void learn(int leaderEpoch, int partitionEpoch, String isr) {
        var registration = new PartitionRegistration.Builder()
            .setReplicas(REPLICAS)
            .setDirectories(DirectoryId.unassignedArray(REPLICAS.length))
            .setIsr(numbers(isr))
            .setLeader(1)
            .setLeaderRecoveryState(LeaderRecoveryState.RECOVERED)
            .setLeaderEpoch(leaderEpoch)
            .setPartitionEpoch(partitionEpoch)
            .build();
        partition.makeLeader(
            registration, false, (path, name) -> Optional.empty(), Option.apply(TOPIC_ID), Option.empty());
    }

    private void append(int records) {
        SimpleRecord[] values = new SimpleRecord[records];
        Arrays.fill(values, new SimpleRecord(clock.now, "v".getBytes(StandardCharsets.UTF_8)));
        partition.appendRecordsToLeader(MemoryRecords.withRecords(Compression.NONE, values), AppendOrigin.CLIENT, 1,
            RequestLocal.noCaching(), VerificationGuard.SENTINEL, (short) 0);
    }

    private void fetch(int id, long offset, long startOffset, long epoch) {
        var replica = partition.getReplica(id).get();
        try {
            partition.updateFollowerFetchState(
                replica, new LogOffsetMetadata(offset, 0, (int) offset), startOffset, clock.now, log.logEndOffset(), epoch);
        } catch (org.apache.kafka.common.errors.NotLeaderOrFollowerException stale) {
            // an earlier life of the broker: nothing is noted
        }
    }

    private void answer(String[] words) {
        Proposal proposal = proposals.get(Integer.parseInt(words[1]));
        Errors error = Errors.forCode(Short.parseShort(words[2]));
        if (error != Errors.NONE) {
            proposal.answer.completeExceptionally(error.exception());
            return;
        }
        List<Integer> isr = Arrays.stream(numbers(words[5])).boxed().toList();
        proposal.answer.complete(new LeaderAndIsr(
            1, Integer.parseInt(words[3]), isr, LeaderRecoveryState.RECOVERED, Integer.parseInt(words[4])));
    }

    private String state() {
        var held = partition.partitionState();
        String last = "";
        if (!proposals.isEmpty()) {
            LeaderAndIsr wanted = proposals.get(proposals.size() - 1).wanted;
            String isr = wanted.isrWithBrokerEpoch().stream()
                .sorted((one, other) -> one.brokerId() - other.brokerId())
                .map(each -> each.brokerId() + ":" + each.brokerEpoch())
                .collect(Collectors.joining(","));
            last = isr + "@" + wanted.leaderEpoch() + "/" + wanted.partitionEpoch();
        }
        return String.join(" ", "hw=" + log.highWatermark(), "end=" + log.logEndOffset(), "isr=" + sorted(held.isr()),
            "maximal=" + sorted(held.maximalIsr()), "pending=" + held.isInflight(),
            "epochs=" + partition.getLeaderEpoch() + "/" + partition.getPartitionEpoch(),
            "low=" + partition.lowWatermarkIfLeader(), "under=" + partition.isUnderMinIsr(),
            "asked=" + proposals.size(), "last=" + last);
    }

    private static String sorted(java.util.Set<Integer> ids) {
        return new TreeSet<>(ids).stream().map(String::valueOf).collect(Collectors.joining(","));
    }

    private void play(String[] words) throws Exception {
        switch (words[0]) {
            case "begin" -> begin(Long.parseLong(words[1]), words[2], words[3]);
            case "append" -> append(Integer.parseInt(words[1]));
            case "fetch" -> fetch(
                Integer.parseInt(words[1]), Long.parseLong(words[2]), Long.parseLong(words[3]), Long.parseLong(words[4]));
            case "time" -> clock.now += Long.parseLong(words[1]);
            case "shrink" -> partition.maybeShrinkIsr();
            case "broker" -> brokers.put(Integer.parseInt(words[1]),
                new Broker(Long.parseLong(words[2]), words[3].equals("fenced"), words[3].equals("shuts down")));
            case "learn" -> learn(Integer.parseInt(words[1]), Integer.parseInt(words[2]), words[3]);
            case "answer" -> answer(words);
            default -> throw new IllegalArgumentException(words[0]);
        }
    }

    public static void main(String[] arguments) throws Exception {
        var oracle = new PartitionOracle();
        var input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            oracle.play(line.split("\t", -1));
            System.out.println(oracle.state());
        }
        oracle.close();
    }
}
