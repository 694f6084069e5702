import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Many Java consumers of one group of the consumer protocol (KIP-848) in one process. Arguments: bootstrap servers,
 * topic, group, number of partitions. Reads "join N" and "leave N" from its input. After each it waits until all
 * members have an even share of the partitions, and prints "even after MS ms, owned twice N", or what went wrong.
 */
public final class CrowdOfConsumers {
    private static final long PATIENCE_MS = 120_000;

    private final String servers;
    private final String topic;
    private final String group;
    private final int partitions;
    private final List<Member> members = new ArrayList<>();
    private final Map<TopicPartition, Member> owners = new HashMap<>();
    private int ownedTwice;
    private volatile Exception failure;

    private CrowdOfConsumers(String[] arguments) {
        servers = arguments[0];
        topic = arguments[1];
        group = arguments[2];
        partitions = Integer.parseInt(arguments[3]);
    }

    public static void main(String[] arguments) throws Exception {
        new CrowdOfConsumers(arguments).run();
        System.exit(0);
    }

    private final class Member extends Thread implements ConsumerRebalanceListener {
        private volatile boolean leaving;

        Member() {
            setDaemon(true);
            start();
        }

        @Override
        public void run() {
            ByteArrayDeserializer bytes = new ByteArrayDeserializer();
            Map<String, Object> configs = Map.of("bootstrap.servers", servers, "group.id", group,
                "group.protocol", "consumer", "enable.auto.commit", "false");
            try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(configs, bytes, bytes)) {
                consumer.subscribe(List.of(topic), this);
                while (!leaving) {
                    consumer.poll(Duration.ofMillis(100));
                }
            } catch (Exception error) {
                failure = error;
            }
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> places) {
            synchronized (owners) {
                for (TopicPartition place : places) {
                    Member before = owners.put(place, this);
                    ownedTwice += before == null || before == this ? 0 : 1;
                }
            }
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> places) {
            synchronized (owners) {
                places.forEach(place -> owners.remove(place, this));
            }
        }
    }

    private boolean isEven() {
        synchronized (owners) {
            Map<Member, Integer> counts = new HashMap<>();
            owners.values().forEach(owner -> counts.merge(owner, 1, Integer::sum));
            int least = partitions / members.size();
            int most = least + (partitions % members.size() == 0 ? 0 : 1);
            return owners.size() == partitions && members.containsAll(counts.keySet()) && members.stream()
                .allMatch(each -> counts.getOrDefault(each, 0) >= least && counts.getOrDefault(each, 0) <= most);
        }
    }

    private void waitUntilEven() throws Exception {
        long began = System.nanoTime();
        while (!isEven()) {
            if (failure != null) {
                throw failure;
            }
            if (System.nanoTime() - began > TimeUnit.MILLISECONDS.toNanos(PATIENCE_MS)) {
                throw new IllegalStateException("the members do not share evenly");
            }
            Thread.sleep(10);
        }
        long tookMs = TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - began);
        System.out.printf("even after %d ms, owned twice %d%n", tookMs, ownedTwice);
    }

    private void run() throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] words = line.split(" ");
            for (int number = 0; number < Integer.parseInt(words[1]); number++) {
                if (words[0].equals("join")) {
                    members.add(new Member());
                } else {
                    members.remove(0).leaving = true;
                }
            }
            waitUntilEven();
        }
    }
}
