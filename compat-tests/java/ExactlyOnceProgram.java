import java.io.FileOutputStream;
import java.io.IOException;
import java.io.Reader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * What exactly_once/program.py does, by the Java clients: a writer, or a worker on one partition or as a member of a
 * group, that keeps a diary (exactly_once/diary.py) and goes on with a new producer after any trouble.
 *
 * Arguments: file of properties by which the brokers are reached, transactional id, seed, partitions, partition to work on or -1, file whose
 * appearance ends it, diary, transaction timeout in ms, the protocol of the group that assigns partitions or nothing.
 */
public final class ExactlyOnceProgram {
    private static final String INPUT = "in";
    private static final String OUTPUT = "out";
    private static final String GROUP = "workers";
    private static final double ABORTED_SHARE = 0.15;

    private final Map<String, Object> access = new HashMap<>();
    private final String name;
    private final int seed;
    private final int partitions;
    private final int worksOn;
    private final int timeoutMs;
    private final boolean isMember;
    private final Random random;
    private final FileOutputStream diary;
    private final List<Future<RecordMetadata>> sent = new ArrayList<>();
    private final List<String> values = new ArrayList<>();
    private KafkaProducer<String, String> producer;
    private KafkaConsumer<String, String> consumer;
    private int numbers;

    private ExactlyOnceProgram(String[] arguments) throws IOException {
        Properties properties = new Properties();
        try (Reader file = Files.newBufferedReader(Path.of(arguments[0]))) {
            properties.load(file);
        }
        properties.stringPropertyNames().forEach(key -> access.put(key, properties.getProperty(key)));
        name = arguments[1];
        seed = Integer.parseInt(arguments[2]);
        partitions = Integer.parseInt(arguments[3]);
        worksOn = Integer.parseInt(arguments[4]);
        diary = new FileOutputStream(arguments[6], true);
        timeoutMs = Integer.parseInt(arguments[7]);
        isMember = arguments[8].equals("consumer");
        random = new Random(seed);
    }

    public static void main(String[] arguments) throws Exception {
        new ExactlyOnceProgram(arguments).run(Path.of(arguments[5]));
        Runtime.getRuntime().halt(0);
    }

    private static double now() {
        return System.nanoTime() / 1e9;
    }

    private void run(Path until) throws Exception {
        while (!Files.exists(until)) {
            try {
                if (producer == null) {
                    open();
                }
                if (worksOn < 0) {
                    write();
                } else {
                    work();
                }
            } catch (KafkaException | IllegalStateException error) {
                note("trouble", "\"what\": \"" + error.getClass().getSimpleName() + "\"");
                close();
                Thread.sleep(200);
            }
        }
        close();
    }

    private void open() {
        producer = new KafkaProducer<>(
            with(
                "transactional.id", name, "transaction.timeout.ms", timeoutMs,
                "delivery.timeout.ms", timeoutMs, "request.timeout.ms", timeoutMs - 1000, "linger.ms", 0,
                "max.block.ms", 30000, "reconnect.backoff.max.ms", 500),
            new StringSerializer(), new StringSerializer());
        producer.initTransactions();
        if (worksOn >= 0) {
            consumer = new KafkaConsumer<>(
                with(
                    "group.id", GROUP, "isolation.level", "read_committed",
                    "enable.auto.commit", false, "max.poll.records", 20, "reconnect.backoff.max.ms", 500,
                    "auto.offset.reset", "earliest", "group.protocol", isMember ? "consumer" : "classic"),
                new StringDeserializer(), new StringDeserializer());
            if (isMember) {
                consumer.subscribe(Set.of(INPUT));
                return;
            }
            TopicPartition input = new TopicPartition(INPUT, worksOn);
            consumer.assign(Set.of(input));
            OffsetAndMetadata committed = consumer.committed(Set.of(input)).get(input);
            consumer.seek(input, committed == null ? 0 : committed.offset());
        }
    }

    /** The properties of the access, and these names and values. */
    private Map<String, Object> with(Object... further) {
        Map<String, Object> found = new HashMap<>(access);
        for (int i = 0; i < further.length; i += 2) {
            found.put((String) further[i], further[i + 1]);
        }
        return found;
    }

    private void close() {
        for (AutoCloseable each : new AutoCloseable[] {consumer, producer == null ? null : () -> producer.close(Duration.ofSeconds(1))}) {
            try {
                if (each != null) {
                    each.close();
                }
            } catch (Exception ignored) {
                // It is given up anyway.
            }
        }
        consumer = null;
        producer = null;
    }

    private void write() throws Exception {
        note("begin", null);
        producer.beginTransaction();
        try {
            for (int count = 1 + random.nextInt(5); count > 0; count--) {
                send(INPUT);
            }
        } catch (KafkaException error) {
            giveUp();
            throw error;
        }
        end();
    }

    private void work() throws Exception {
        List<ConsumerRecord<String, String>> seen = new ArrayList<>();
        consumer.poll(Duration.ofMillis(200)).forEach(seen::add);
        if (seen.isEmpty()) {
            note("idle", null);
            return;
        }
        note("begin", null);
        for (ConsumerRecord<String, String> record : seen) {
            note("input", place(record.topic(), record.partition()) + ", \"offset\": " + record.offset()
                + ", \"value\": \"" + record.value() + "\"");
        }
        producer.beginTransaction();
        Map<TopicPartition, Long> first = new HashMap<>();
        Map<TopicPartition, OffsetAndMetadata> next = new HashMap<>();
        for (ConsumerRecord<String, String> record : seen) {
            TopicPartition input = new TopicPartition(record.topic(), record.partition());
            first.putIfAbsent(input, record.offset());
            next.put(input, new OffsetAndMetadata(record.offset() + 1));
        }
        try {
            for (int count = 0; count < seen.size(); count++) {
                send(OUTPUT);
            }
            for (Map.Entry<TopicPartition, OffsetAndMetadata> each : next.entrySet()) {
                note("position", "\"group\": \"" + GROUP + "\", " + place(INPUT, each.getKey().partition())
                    + ", \"offset\": " + each.getValue().offset());
            }
            producer.sendOffsetsToTransaction(next, consumer.groupMetadata());
        } catch (KafkaException error) {
            giveUp();
            throw error;
        }
        if (!end()) {
            first.forEach(consumer::seek);
        }
    }

    private void send(String topic) throws IOException {
        String value = name + "." + seed + "/" + ++numbers;
        int partition = random.nextInt(partitions);
        note("send", place(topic, partition) + ", \"value\": \"" + value + "\"");
        sent.add(producer.send(new ProducerRecord<>(topic, partition, null, value)));
        values.add(value);
    }

    private boolean end() throws Exception {
        try {
            producer.flush();
            for (int at = 0; at < values.size(); at++) {
                note("sent", "\"value\": \"" + values.get(at) + "\", \"offset\": " + sent.get(at).get().offset());
            }
        } catch (java.util.concurrent.ExecutionException error) {
            giveUp();
            throw new KafkaException(error.getCause());
        } finally {
            sent.clear();
            values.clear();
        }
        boolean commits = random.nextDouble() >= ABORTED_SHARE;
        note("ending", null);
        try {
            if (commits) {
                producer.commitTransaction();
            } else {
                producer.abortTransaction();
            }
        } catch (KafkaException error) {
            note("end", "\"outcome\": \"unknown\"");
            throw error;
        }
        note("end", "\"outcome\": \"" + (commits ? "committed" : "aborted") + "\"");
        return commits;
    }

    private void giveUp() throws IOException {
        sent.clear();
        values.clear();
        try {
            producer.abortTransaction();
        } catch (KafkaException error) {
            note("end", "\"outcome\": \"unknown\"");
            return;
        }
        note("end", "\"outcome\": \"aborted\"");
    }

    private static String place(String topic, int partition) {
        return "\"partition\": [\"" + topic + "\", " + partition + "]";
    }

    private void note(String event, String facts) throws IOException {
        String line = "{\"event\": \"" + event + "\", \"s\": " + now() + (facts == null ? "" : ", " + facts) + "}\n";
        diary.write(line.getBytes(StandardCharsets.UTF_8));
    }
}
