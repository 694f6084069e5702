import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Map;
import java.util.stream.Collectors;
import org.apache.kafka.storage.internals.log.Cleaner;
import org.apache.kafka.storage.internals.log.CleanerStats;
import org.apache.kafka.storage.internals.log.LogToClean;
import org.apache.kafka.storage.internals.log.SkimpyOffsetMap;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.internals.utils.Throttler;

/** Drives Apache Kafka's own log cleaner by commands from standard input, one a line, and answers each with one line. */
public class CleanerOracle {
    /** First dirty offset, first uncleanable offset, bytes of the map, its load factor, bytes of the buffers, high watermark. */
    private static String clean(UnifiedLog log, String[] words) throws Exception {
        SkimpyOffsetMap map = new SkimpyOffsetMap(Integer.parseInt(words[3]));
        log.updateHighWatermark(Long.parseLong(words[6]));
        int buffer = Integer.parseInt(words[5]);
        Throttler throttler = new Throttler(Double.MAX_VALUE, 300, "cleaner-io", "bytes", KafkaLog.TIME);
        Cleaner cleaner = new Cleaner(
            0, map, buffer, 1 << 30, Double.parseDouble(words[4]), throttler, KafkaLog.TIME, partition -> { });
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
                    case "now" -> KafkaLog.nowMs = Long.parseLong(words[1]);
                    case "open" -> log = KafkaLog.open(words[1], words[2], 0, Long.MAX_VALUE, true);
                    case "clean" -> answer = clean(log, words);
                    case "last" -> answer = lastRecords(log);
                    case "close" -> {
                        log.prepareActiveSegmentForClose();  // as LogManager does
                        log.close();
                    }
                    default -> answer = "error " + words[0];
                }
            } catch (Exception error) {
                answer = "error " + error.getClass().getSimpleName() + " " + error.getMessage();
            }
            System.out.println(answer);
        }
    }
}
