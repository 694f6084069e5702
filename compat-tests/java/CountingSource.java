import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.source.ExactlyOnceSupport;
import org.apache.kafka.connect.source.SourceConnector;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTask;

/**
 * A Connect source that supports exactly-once: every task counts from 0 into a partition of its own.
 *
 * The offset of a record is its number, so a task that another worker takes over goes on with the next one. Configs:
 * topic, numbers (how many per task), tasks.max.
 */
public final class CountingSource extends SourceConnector {
    private static final int NUMBERS_PER_POLL = 10;
    private static final int PAUSE_MS = 30;
    private Map<String, String> settings;

    @Override
    public void start(Map<String, String> given) {
        settings = given;
    }

    @Override
    public void stop() {}

    @Override
    public Class<? extends Task> taskClass() {
        return Counting.class;
    }

    @Override
    public List<Map<String, String>> taskConfigs(int most) {
        return IntStream.range(0, most).mapToObj(task -> {
            Map<String, String> config = new HashMap<>(settings);
            config.put("task", Integer.toString(task));
            return config;
        }).toList();
    }

    @Override
    public ConfigDef config() {
        return new ConfigDef()
            .define("topic", ConfigDef.Type.STRING, ConfigDef.Importance.HIGH, "Where the numbers go.")
            .define("numbers", ConfigDef.Type.INT, ConfigDef.Importance.HIGH, "How many of each task.");
    }

    @Override
    public ExactlyOnceSupport exactlyOnceSupport(Map<String, String> given) {
        return ExactlyOnceSupport.SUPPORTED;
    }

    @Override
    public String version() {
        return "1";
    }

    /** One task; what it has counted to is in its offsets. */
    public static final class Counting extends SourceTask {
        private String topic;
        private int numbers;
        private int task;
        private int next;

        @Override
        public void start(Map<String, String> given) {
            topic = given.get("topic");
            numbers = Integer.parseInt(given.get("numbers"));
            task = Integer.parseInt(given.get("task"));
            Map<String, Object> last = context.offsetStorageReader().offset(Map.of("task", task));
            next = last == null ? 0 : ((Number) last.get("number")).intValue() + 1;
        }

        @Override
        public List<SourceRecord> poll() throws InterruptedException {
            Thread.sleep(PAUSE_MS);
            List<SourceRecord> records = new ArrayList<>();
            for (int count = 0; count < NUMBERS_PER_POLL && next < numbers; count++, next++) {
                Map<String, Integer> offset = Map.of("number", next);
                String text = Integer.toString(next);
                records.add(new SourceRecord(
                    Map.of("task", task), offset, topic, task, Schema.STRING_SCHEMA, "", Schema.STRING_SCHEMA, text));
            }
            return records.isEmpty() ? null : records;
        }

        @Override
        public void stop() {}

        @Override
        public String version() {
            return "1";
        }
    }
}
