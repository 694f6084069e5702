import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Java consumers of one group read a topic that is written meanwhile, and come and go. Arguments: bootstrap servers,
 * topic, group, assignor's class or "consumer" for the consumer protocol (KIP-848), number of partitions. Prints "lost N, repeated N, owned twice N, read N", or what
 * went wrong.
 */
public final class GroupOfConsumers {
    private static final long PATIENCE_MS = 60_000;
    private static final String CONSUMER_PROTOCOL = "consumer";

    private final String servers;
    private final String topic;
    private final String group;
    private final String assignor;
    private final int partitions;
    private final Map<TopicPartition, String> owners = new HashMap<>();
    private final Map<TopicPartition, Map<Long, Integer>> read = new HashMap<>();
    private final Map<TopicPartition, Long> ends = new HashMap<>();
    private int ownedTwice;
    private volatile Exception failure;

    private GroupOfConsumers(String[] arguments) {
        servers = arguments[0];
        topic = arguments[1];
        group = arguments[2];
        assignor = arguments[3];
        partitions = Integer.parseInt(arguments[4]);
    }

    public static void main(String[] arguments) throws Exception {
        new GroupOfConsumers(arguments).run();
    }

    /** One consumer; commits what it has read before it gives a partition away. */
    private final class Member extends Thread implements ConsumerRebalanceListener {
        private final KafkaConsumer<byte[], byte[]> consumer;
        private final Map<TopicPartition, OffsetAndMetadata> next = new HashMap<>();
        private final CountDownLatch leaving = new CountDownLatch(1);

        Member(String name) {
            super(name);
            setDaemon(true);
            ByteArrayDeserializer bytes = new ByteArrayDeserializer();
            Map<String, Object> configs = new HashMap<>(Map.of(
                "bootstrap.servers", servers, "group.id", group, "client.id", name,
                "auto.offset.reset", "earliest", "enable.auto.commit", "false"));
            configs.putAll(assignor.equals(CONSUMER_PROTOCOL)
                ? Map.of("group.protocol", "consumer")
                : Map.of("partition.assignment.strategy", assignor,
                    "heartbeat.interval.ms", "300", "session.timeout.ms", "6000"));
            consumer = new KafkaConsumer<>(configs, bytes, bytes);
            start();
        }

        @Override
        public void run() {
            try (consumer) {
                consumer.subscribe(List.of(topic), this);
                while (leaving.getCount() > 0) {
                    for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(100))) {
                        TopicPartition place = new TopicPartition(record.topic(), record.partition());
                        take(place, record.offset());
                        next.put(place, new OffsetAndMetadata(record.offset() + 1));
                    }
                    commit(next.keySet());
                }
                commit(next.keySet());
            } catch (Exception error) {
                failure = error;
            }
        }

        private void commit(Collection<TopicPartition> places) {
            Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>(next);
            offsets.keySet().retainAll(new HashSet<>(places));
            try {
                if (!offsets.isEmpty()) {
                    consumer.commitSync(offsets);
                }
            } catch (RebalanceInProgressException | CommitFailedException late) {
                // Tried again with the next poll, or when the partition is given away.
            }
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> places) {
            synchronized (owners) {
                for (TopicPartition place : places) {
                    String before = owners.put(place, getName());
                    ownedTwice += before == null || before.equals(getName()) ? 0 : 1;
                }
            }
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> places) {
            commit(places);
            onPartitionsLost(places);
        }

        @Override
        public void onPartitionsLost(Collection<TopicPartition> places) {
            next.keySet().removeAll(places);
            synchronized (owners) {
                places.forEach(place -> owners.remove(place, getName()));
            }
        }

        int owned() {
            synchronized (owners) {
                return (int) owners.values().stream().filter(getName()::equals).count();
            }
        }

        void leave() throws InterruptedException {
            leaving.countDown();
            join(PATIENCE_MS);
        }
    }

    private void take(TopicPartition place, long offset) {
        synchronized (read) {
            read.computeIfAbsent(place, none -> new TreeMap<>()).merge(offset, 1, Integer::sum);
        }
    }

    private int count() {
        synchronized (read) {
            return read.values().stream().mapToInt(Map::size).sum();
        }
    }

    private void await(String what, BooleanSupplier condition) throws Exception {
        long until = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(PATIENCE_MS);
        while (!condition.getAsBoolean()) {
            if (failure != null) {
                throw failure;
            }
            if (System.nanoTime() > until) {
                throw new IllegalStateException("waited too long for " + what);
            }
            Thread.sleep(20);
        }
    }

    private Thread write(CountDownLatch stop) {
        Thread thread = new Thread(() -> {
            ByteArraySerializer bytes = new ByteArraySerializer();
            try (KafkaProducer<byte[], byte[]> producer =
                    new KafkaProducer<>(Map.of("bootstrap.servers", servers, "linger.ms", "5"), bytes, bytes)) {
                do {
                    for (int partition = 0; partition < partitions; partition++) {
                        producer.send(new ProducerRecord<>(topic, partition, null, new byte[50]), (record, error) -> {
                            if (error != null) {
                                failure = error;
                            } else {
                                ends.merge(new TopicPartition(topic, record.partition()), record.offset() + 1, Math::max);
                            }
                        });
                    }
                } while (!stop.await(5, TimeUnit.MILLISECONDS));
            } catch (InterruptedException interrupted) {
                failure = interrupted;
            }
        });
        thread.setDaemon(true);
        thread.start();
        return thread;
    }

    private void run() throws Exception {
        CountDownLatch stop = new CountDownLatch(1);
        Thread writer = write(stop);
        List<Member> members = new ArrayList<>();
        for (int number = 1; number <= 3; number++) {
            members.add(new Member("member-" + number));
            await(number + " members", () -> members.stream().allMatch(each -> each.owned() == partitions / members.size()));
        }
        members.remove(0).leave();
        await("the others", () -> members.stream().allMatch(each -> each.owned() == partitions / 2));
        members.add(new Member("member-4"));
        await("the newcomer", () -> members.stream().allMatch(each -> each.owned() == partitions / 3));
        stop.countDown();
        writer.join(PATIENCE_MS);
        long written = ends.values().stream().mapToLong(Long::longValue).sum();
        await("the last record", () -> count() >= written);
        for (Member member : members) {
            member.leave();
        }
        if (failure != null) {
            throw failure;
        }
        long repeated = read.values().stream().flatMap(each -> each.values().stream()).filter(times -> times > 1).count();
        Set<TopicPartition> places = new HashSet<>(ends.keySet());
        long lost = places.stream().mapToLong(place -> ends.get(place) - read.getOrDefault(place, Map.of()).size()).sum();
        System.out.printf("lost %d, repeated %d, owned twice %d, read %d%n", lost, repeated, ownedTwice, count());
    }
}
