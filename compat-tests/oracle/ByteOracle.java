import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Map;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.metadata.MetadataRecordSerde;
import org.apache.kafka.server.common.ApiMessageAndVersion;

/**
 * Apache Kafka's own message classes, by lines of text. Each line of input, tab-separated, gets one line of output:
 *
 * <pre>
 * compare CLASS VERSION JSON HEX   the bytes Kafka writes for JSON, and whether it reads HEX as the same message
 * write   CLASS VERSION JSON FROM  the bytes for JSON (of version FROM) written at VERSION
 * default CLASS VERSION            the bytes of a new message
 * read    CLASS VERSION HEX        what Kafka read, written again, and how many bytes it left
 * record  CLASS VERSION JSON       the bytes of a record in the metadata log
 * keyed   CLASS VERSION JSON       the bytes of a coordinator's record: its key, after its type
 * valued  CLASS VERSION JSON       and its value, after its version
 * api     KEY VERSION              served or not, and the versions of the request's and the response's header
 * </pre>
 *
 * What Kafka refuses gives "!" and the name of the exception.
 */
public class ByteOracle {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final HexFormat HEX = HexFormat.of();
    private static final Map<String, Method> READERS = new HashMap<>();

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            out.println(answer(line.split("\t", -1)));
        }
    }

    private static String answer(String[] words) {
        try {
            if (words[0].equals("api")) {
                return api(Integer.parseInt(words[1]), Short.parseShort(words[2]));
            }
            String name = words[1];
            short version = Short.parseShort(words[2]);
            switch (words[0]) {
                case "compare": {
                    Message message = fromJson(name, version, words[3]);
                    ByteBufferAccessor bytes = new ByteBufferAccessor(ByteBuffer.wrap(HEX.parseHex(words[4])));
                    Message read = create(name);
                    read.read(bytes, version);
                    return toHex(message, version) + "\t" + (message.equals(read) && bytes.remaining() == 0);
                }
                case "write":
                    return toHex(fromJson(name, Short.parseShort(words[4]), words[3]), version);
                case "record": {
                    ApiMessageAndVersion record = new ApiMessageAndVersion((ApiMessage) fromJson(name, version, words[3]), version);
                    ObjectSerializationCache cache = new ObjectSerializationCache();
                    ByteBuffer frame = ByteBuffer.allocate(MetadataRecordSerde.INSTANCE.recordSize(record, cache));
                    MetadataRecordSerde.INSTANCE.write(record, cache, new ByteBufferAccessor(frame));
                    return HEX.formatHex(frame.array());
                }
                case "keyed": {
                    ApiMessage key = (ApiMessage) fromJson(name, version, words[3]);
                    return HEX.formatHex(MessageUtil.toCoordinatorTypePrefixedBytes(key));
                }
                case "valued":
                    return HEX.formatHex(MessageUtil.toVersionPrefixedBytes(version, fromJson(name, version, words[3])));
                case "default":
                    return toHex(create(name), version);
                case "read": {
                    ByteBufferAccessor bytes = new ByteBufferAccessor(ByteBuffer.wrap(HEX.parseHex(words[3])));
                    Message read = create(name);
                    read.read(bytes, version);
                    return toHex(read, version) + "\t" + bytes.remaining();
                }
                default:
                    return "!" + words[0];
            }
        } catch (InvocationTargetException thrown) {
            return "!" + thrown.getCause();
        } catch (Exception | OutOfMemoryError | StackOverflowError thrown) {
            return "!" + thrown.getClass().getSimpleName();
        }
    }

    private static String api(int key, short version) {
        if (!ApiKeys.hasId(key) || !ApiKeys.forId(key).hasValidVersion()) {
            return "false";
        }
        ApiKeys api = ApiKeys.forId(key);
        boolean served = version >= api.oldestVersion() && version <= api.latestVersion(false);
        return served + "\t" + api.requestHeaderVersion(version) + "\t" + api.responseHeaderVersion(version);
    }

    private static Message create(String name) throws Exception {
        return (Message) Class.forName(name).getDeclaredConstructor().newInstance();
    }

    private static Message fromJson(String name, short version, String json) throws Exception {
        Method reader = READERS.get(name);
        if (reader == null) {
            reader = Class.forName(name + "JsonConverter").getMethod("read", JsonNode.class, short.class);
            READERS.put(name, reader);
        }
        return (Message) reader.invoke(null, JSON.readTree(json), version);
    }

    private static String toHex(Message message, short version) {
        // By hand, since the helper for it has another name in Kafka 3.9.
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer written = ByteBuffer.allocate(message.size(cache, version));
        message.write(new ByteBufferAccessor(written), cache, version);
        return HEX.formatHex(written.array());
    }
}
