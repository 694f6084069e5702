import java.io.BufferedReader;
import java.io.File;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.util.Base64;
import java.util.HexFormat;
import java.util.List;
import java.util.Optional;
import java.util.Properties;
import java.util.function.Supplier;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.message.KRaftVersionRecord;
import org.apache.kafka.common.message.LeaderChangeMessage;
import org.apache.kafka.common.message.SnapshotFooterRecord;
import org.apache.kafka.common.message.SnapshotHeaderRecord;
import org.apache.kafka.common.message.VotersRecord;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.EndTransactionMarker;
import org.apache.kafka.common.record.internal.FileRecords;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.requests.ProduceRequest;
import org.apache.kafka.common.requests.ProduceResponse;
import org.apache.kafka.common.utils.internals.BufferSupplier;
import org.apache.kafka.common.utils.internals.ByteBufferOutputStream;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.server.common.RequestLocal;
import org.apache.kafka.server.storage.log.FetchIsolation;
import org.apache.kafka.server.util.KafkaScheduler;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.LogAppendInfo;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.RecordValidationException;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.internals.log.VerificationGuard;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

/**
 * What Apache Kafka does with a record batch, one command per line of standard input, one answer per line of output.
 *
 *   topic KEY=VALUE,...            a fresh, empty log with these topic configs; answers "ok"
 *   append VERSION NOW EPOCH HEX   a client's produce of that request version at that time; answers
 *                                  "ok BASE_OFFSET LOG_APPEND_TIME HEX" with the bytes as they lie in the log, or
 *                                  "error CODE EXCEPTION MESSAGE {INDEX MESSAGE}" (messages in base64, "-" for none)
 *   read HEX                       the records of batches, as a consumer sees them; answers "ok" and per record OFFSET
 *                                  TIMESTAMP KEY VALUE {HEADER_KEY HEADER_VALUE}, comma-separated, in hex, or "error"
 *   build BASE_OFFSET LEADER_EPOCH PRODUCER_ID PRODUCER_EPOCH SEQUENCE TRANSACTIONAL APPEND_TIME RECORD...
 *                                  the batch of these records, each TIMESTAMP,KEY,VALUE{,HEADER_KEY,HEADER_VALUE};
 *                                  APPEND_TIME -1 for CreateTime; answers "ok HEX"
 *   control                        one control batch of each type, with fixed contents; answers "ok HEX..."
 *   inflate CODEC HEX              "ok HEX" or "error"
 *   deflate CODEC LEVEL HEX        "ok HEX"
 */
public class BatchOracle {
    private static final HexFormat HEX = HexFormat.of();
    private static final byte V2 = RecordBatch.MAGIC_VALUE_V2;

    private final SetTime time = new SetTime();
    private final KafkaScheduler scheduler = new KafkaScheduler(1);
    private UnifiedLog log;
    private File directory;

    public static void main(String[] arguments) throws Exception {
        BatchOracle oracle = new BatchOracle();
        oracle.scheduler.startup();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.US_ASCII);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            out.println(oracle.answer(line.split(" ")));
        }
        oracle.closeLog();
        out.flush();
        System.exit(0);
    }

    private String answer(String[] words) throws Exception {
        switch (words[0]) {
            case "topic":
                return topic(words.length > 1 ? words[1] : "");
            case "append":
                return append(Short.parseShort(words[1]), Long.parseLong(words[2]), Integer.parseInt(words[3]),
                        bytes(words, 4));
            case "read":
                return read(bytes(words, 1));
            case "build":
                return build(words);
            case "control":
                return control();
            case "inflate":
                return inflate(words[1], bytes(words, 2));
            case "deflate":
                return deflate(words[1], words[2], bytes(words, 3));
            default:
                throw new IllegalArgumentException(words[0]);
        }
    }

    private static byte[] bytes(String[] words, int index) {
        return words.length > index ? HEX.parseHex(words[index]) : new byte[0];
    }

    private String topic(String configs) throws Exception {
        closeLog();
        Properties properties = new Properties();
        for (String config : configs.split(",")) {
            if (!config.isEmpty()) {
                properties.put(config.split("=")[0], config.split("=")[1]);
            }
        }
        directory = Files.createTempDirectory("batch-oracle").toFile();
        File partition = new File(directory, "t-0");
        partition.mkdirs();
        log = UnifiedLog.create(partition, new LogConfig(properties), 0, 0, scheduler, new BrokerTopicStats(false), time,
                900_000, new ProducerStateManagerConfig(86_400_000, false), 600_000, new LogDirFailureChannel(1), true,
                Optional.empty());
        return "ok";
    }

    private void closeLog() throws Exception {
        if (log != null) {
            log.close();
            Utils.delete(directory);
        }
    }

    private String append(short version, long now, int epoch, byte[] bytes) {
        time.now = now;
        MemoryRecords records = MemoryRecords.readableRecords(ByteBuffer.wrap(bytes));
        try {
            ProduceRequest.validateRecords(version, records);
            LogAppendInfo info = log.appendAsLeader(records, epoch, AppendOrigin.CLIENT, RequestLocal.noCaching(),
                    VerificationGuard.SENTINEL, (short) 0);
            FileRecords stored = (FileRecords) log.read(info.firstOffset(), 1, FetchIsolation.LOG_END, true).records;
            ByteBuffer buffer = ByteBuffer.allocate(stored.sizeInBytes());
            stored.readInto(buffer, 0);
            log.producerStateManager().truncateFullyAndStartAt(log.logEndOffset());
            return "ok " + info.firstOffset() + " " + info.logAppendTime() + " " + HEX.formatHex(buffer.array());
        } catch (RecordValidationException e) {
            return error(e.invalidException(), e.recordErrors());
        } catch (Throwable e) {
            return error(e, List.of());
        }
    }

    private static String read(byte[] bytes) {
        StringBuilder answer = new StringBuilder("ok");
        try {
            for (Record record : MemoryRecords.readableRecords(ByteBuffer.wrap(bytes)).records()) {
                answer.append(' ').append(record.offset()).append(',').append(record.timestamp());
                answer.append(',').append(hex(record.key())).append(',').append(hex(record.value()));
                for (Header header : record.headers()) {
                    answer.append(',').append(HEX.formatHex(header.key().getBytes(StandardCharsets.UTF_8)));
                    answer.append(',').append(header.value() == null ? "-" : HEX.formatHex(header.value()));
                }
            }
            return answer.toString();
        } catch (Exception | OutOfMemoryError e) {
            return "error";
        }
    }

    private static String build(String[] words) {
        long appendTime = Long.parseLong(words[7]);
        TimestampType type = appendTime < 0 ? TimestampType.CREATE_TIME : TimestampType.LOG_APPEND_TIME;
        MemoryRecordsBuilder builder = MemoryRecords.builder(ByteBuffer.allocate(1024), V2, Compression.NONE, type,
                Long.parseLong(words[1]), appendTime, Long.parseLong(words[3]), Short.parseShort(words[4]),
                Integer.parseInt(words[5]), Boolean.parseBoolean(words[6]), Integer.parseInt(words[2]));
        for (int index = 8; index < words.length; index++) {
            String[] fields = words[index].split(",", -1);
            Header[] headers = new Header[(fields.length - 3) / 2];
            for (int number = 0; number < headers.length; number++) {
                String name = new String(HEX.parseHex(fields[3 + 2 * number]), StandardCharsets.UTF_8);
                headers[number] = new RecordHeader(name, bytes(fields[4 + 2 * number]));
            }
            builder.append(Long.parseLong(fields[0]), bytes(fields[1]), bytes(fields[2]), headers);
        }
        return "ok " + hex(builder.build().buffer());
    }

    private static byte[] bytes(String field) {
        return field.equals("-") ? null : HEX.parseHex(field);
    }

    private static String control() {
        MemoryRecords[] batches = {
            MemoryRecords.withEndTransactionMarker(7, 8, 9, 10, (short) 11,
                    new EndTransactionMarker(ControlRecordType.ABORT, 12)),
            MemoryRecords.withEndTransactionMarker(7, 8, 9, 10, (short) 11,
                    new EndTransactionMarker(ControlRecordType.COMMIT, 12)),
            MemoryRecords.withLeaderChangeMessage(7, 8, 9, ByteBuffer.allocate(256),
                    new LeaderChangeMessage().setLeaderId(3)
                            .setVoters(List.of(new LeaderChangeMessage.Voter().setVoterId(3),
                                    new LeaderChangeMessage.Voter().setVoterId(4)))
                            .setGrantingVoters(List.of(new LeaderChangeMessage.Voter().setVoterId(4)))),
            MemoryRecords.withSnapshotHeaderRecord(7, 8, 9, ByteBuffer.allocate(256),
                    new SnapshotHeaderRecord().setLastContainedLogTimestamp(10)),
            MemoryRecords.withSnapshotFooterRecord(7, 8, 9, ByteBuffer.allocate(256), new SnapshotFooterRecord()),
            MemoryRecords.withKRaftVersionRecord(7, 8, 9, ByteBuffer.allocate(256),
                    new KRaftVersionRecord().setKRaftVersion((short) 1)),
            MemoryRecords.withVotersRecord(7, 8, 9, ByteBuffer.allocate(256),
                    new VotersRecord().setVoters(List.of(new VotersRecord.Voter().setVoterId(3)))),
        };
        StringBuilder answer = new StringBuilder("ok");
        for (MemoryRecords batch : batches) {
            answer.append(' ').append(hex(batch.buffer()));
        }
        return answer.toString();
    }

    private static String hex(ByteBuffer buffer) {
        return buffer == null ? "-" : HEX.formatHex(Utils.toArray(buffer));
    }

    private static String error(Throwable exception, List<ProduceResponse.RecordError> recordErrors) {
        StringBuilder answer = new StringBuilder("error ");
        answer.append(Errors.forException(exception).code()).append(' ').append(exception.getClass().getSimpleName());
        answer.append(' ').append(base64(exception.getMessage()));
        for (ProduceResponse.RecordError recordError : recordErrors) {
            answer.append(' ').append(recordError.batchIndex).append(' ').append(base64(recordError.message));
        }
        return answer.toString();
    }

    private static String base64(String text) {
        return text == null || text.isEmpty() ? "-" : Base64.getEncoder().encodeToString(text.getBytes(StandardCharsets.UTF_8));
    }

    private static String inflate(String codec, byte[] bytes) {
        Compression compression = Compression.of(codec).build();
        try (InputStream stream = compression.wrapForInput(ByteBuffer.wrap(bytes), V2, BufferSupplier.NO_CACHING)) {
            return "ok " + HEX.formatHex(stream.readAllBytes());
        } catch (Exception | Error e) {
            return "error";
        }
    }

    private static String deflate(String codec, String level, byte[] bytes) throws Exception {
        ByteBufferOutputStream buffer = new ByteBufferOutputStream(64);
        try (OutputStream stream = compression(codec, Integer.parseInt(level)).wrapForOutput(buffer, V2)) {
            stream.write(bytes);
        }
        buffer.buffer().flip();
        return "ok " + HEX.formatHex(Utils.toArray(buffer.buffer()));
    }

    private static Compression compression(String codec, int level) {
        switch (codec) {
            case "gzip":
                return Compression.gzip().level(level).build();
            case "lz4":
                return Compression.lz4().level(level).build();
            case "zstd":
                return Compression.zstd().level(level).build();
            default:
                return Compression.of(codec).build();
        }
    }

    /** A clock that stands where the last command put it. */
    private static final class SetTime implements Time {
        private long now;

        @Override
        public long milliseconds() {
            return now;
        }

        @Override
        public long nanoseconds() {
            return now * 1_000_000;
        }

        @Override
        public void sleep(long ms) {
            now += ms;
        }

        @Override
        public void waitObject(Object object, Supplier<Boolean> condition, long deadlineMs) {
            throw new UnsupportedOperationException();
        }
    }
}
