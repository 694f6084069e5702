import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.util.Base64;
import java.util.List;
import java.util.Optional;
import java.util.stream.Collectors;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.server.log.remote.storage.RemoteLogManager;
import org.apache.kafka.server.storage.log.FetchIsolation;
import org.apache.kafka.storage.internals.log.EpochEntry;
import org.apache.kafka.storage.internals.log.FetchDataInfo;
import org.apache.kafka.storage.internals.log.LogAppendInfo;
import org.apache.kafka.storage.internals.log.LogSegment;
import org.apache.kafka.storage.internals.log.LogStartOffsetIncrementReason;
import org.apache.kafka.storage.internals.log.UnifiedLog;

/** Drives Apache Kafka's own log by commands from standard input, one a line, and answers each with one line. */
public class LogOracle {
    private static String state(UnifiedLog log) {
        String segments = log.logSegments().stream().map(s -> s.baseOffset() + ":" + s.size())
            .collect(Collectors.joining(" "));
        String epochs = log.leaderEpochCache().epochEntries().stream().map(e -> e.epoch() + ":" + e.startOffset())
            .collect(Collectors.joining(" "));
        return log.logStartOffset() + " " + log.logEndOffset() + " | " + segments + " | " + epochs + " | "
            + log.firstUnstableOffset().orElse(-1L);
    }

    /** The files of a closed segment as RLMCopyTask gathers them for the store, in base 64; "-" for none. */
    private static String files(UnifiedLog log, long base) throws Exception {
        List<LogSegment> segments = List.copyOf(log.logSegments());
        int at = 0;
        while (segments.get(at).baseOffset() != base) {
            at++;
        }
        LogSegment segment = segments.get(at);
        long next = segments.get(at + 1).baseOffset();
        List<EpochEntry> epochs = log.leaderEpochCache().epochEntries().stream().filter(e -> e.startOffset() < next)
            .toList();
        Method text = RemoteLogManager.class.getDeclaredMethod("epochEntriesAsByteBuffer", List.class);
        text.setAccessible(true);
        StringBuilder found = new StringBuilder();
        for (File file : new File[] {segment.log().file(), segment.offsetIndex().file(), segment.timeIndex().file(),
                segment.txnIndex().file(), log.producerStateManager().fetchSnapshot(next).orElseThrow()}) {
            found.append(file.exists() ? Base64.getEncoder().encodeToString(Files.readAllBytes(file.toPath())) : "-")
                .append(' ');
        }
        ByteBuffer epochText = (ByteBuffer) text.invoke(null, epochs);
        byte[] bytes = new byte[epochText.remaining()];
        epochText.get(bytes);
        return found + Base64.getEncoder().encodeToString(bytes);
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
                log.removeExpiredProducers(KafkaLog.nowMs);
                return "" + log.producerIdCount();
            case "config":
                log.updateConfig(KafkaLog.config(words[1]));
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
            case "copied":
                log.updateHighestOffsetInRemoteStorage(Long.parseLong(words[1]));
                return "ok";
            case "local":
                return "" + log.localLogStartOffset();
            case "files":
                return files(log, Long.parseLong(words[1]));
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
                return "ok";  // nothing is closed or flushed: the next one opens the files as they are
            case "close":
                log.prepareActiveSegmentForClose();  // as LogManager does
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
                    KafkaLog.nowMs = Long.parseLong(words[1]);
                    System.out.println("ok");
                } else if (words[0].equals("open")) {
                    log = KafkaLog.open(
                        words[1], words[5], Long.parseLong(words[3]), Long.parseLong(words[4]),
                        Boolean.parseBoolean(words[2]));
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
