import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HexFormat;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.server.log.remote.storage.LocalTieredStorage;
import org.apache.kafka.server.log.remote.storage.LogSegmentData;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentId;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteResourceNotFoundException;
import org.apache.kafka.server.log.remote.storage.RemoteStorageManager.IndexType;

/**
 * Kafka's LocalTieredStorage in the directory that is the first argument. Each line of input gets one line of output:
 *
 * <pre>
 * copy TOPIC TOPIC_ID PARTITION START ID FROM    the files log, index, timeindex, txnindex (if it is there), snapshot and
 *                                                epochs of the directory FROM
 * fetch TOPIC TOPIC_ID PARTITION START ID AT     the bytes of the segment from AT on
 * index TOPIC TOPIC_ID PARTITION START ID TYPE   the bytes of an index, "none" if there is no such
 * delete TOPIC TOPIC_ID PARTITION START ID       ok
 * </pre>
 *
 * Ids are Kafka's base64, bytes are hexadecimal digits.
 */
public class LocalTieredStorageOracle {
    private static final HexFormat HEX = HexFormat.of();
    private static final LocalTieredStorage STORE = new LocalTieredStorage();

    public static void main(String[] arguments) throws Exception {
        STORE.configure(Map.of("dir", arguments[0], "delete.on.close", "false", "broker.id", 1));
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            try {
                out.println(answer(line.split("\t", -1)));
            } catch (RemoteResourceNotFoundException absent) {
                out.println("none");
            } catch (Exception thrown) {
                out.println("!" + thrown);
            }
            out.flush();
        }
    }

    private static String answer(String[] words) throws Exception {
        TopicPartition partition = new TopicPartition(words[1], Integer.parseInt(words[3]));
        TopicIdPartition named = new TopicIdPartition(Uuid.fromString(words[2]), partition);
        RemoteLogSegmentId id = new RemoteLogSegmentId(named, Uuid.fromString(words[5]));
        long start = Long.parseLong(words[4]);
        RemoteLogSegmentMetadata segment =
            new RemoteLogSegmentMetadata(id, start, start, 0, 1, 0, Integer.MAX_VALUE, Map.of(0, start));
        switch (words[0]) {
            case "copy": {
                Path from = Path.of(words[6]);
                Path aborted = from.resolve("txnindex");
                STORE.copyLogSegmentData(segment, new LogSegmentData(
                    from.resolve("log"), from.resolve("index"), from.resolve("timeindex"),
                    Files.exists(aborted) ? Optional.of(aborted) : Optional.empty(), from.resolve("snapshot"),
                    ByteBuffer.wrap(Files.readAllBytes(from.resolve("epochs")))));
                return "ok";
            }
            case "fetch":
                return HEX.formatHex(STORE.fetchLogSegment(segment, Integer.parseInt(words[6])).readAllBytes());
            case "index":
                return HEX.formatHex(STORE.fetchIndex(segment, IndexType.valueOf(words[6])).readAllBytes());
            default:
                STORE.deleteLogSegmentData(segment);
                return "ok";
        }
    }
}
