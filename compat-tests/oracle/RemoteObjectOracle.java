import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.github.luben.zstd.Zstd;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyFactory;
import java.security.SecureRandom;
import java.security.spec.PKCS8EncodedKeySpec;
import java.security.spec.X509EncodedKeySpec;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.HexFormat;
import java.util.List;
import java.util.TreeMap;
import javax.crypto.Cipher;
import javax.crypto.spec.GCMParameterSpec;
import javax.crypto.spec.SecretKeySpec;
import org.apache.kafka.common.protocol.types.Field;
import org.apache.kafka.common.protocol.types.Schema;
import org.apache.kafka.common.protocol.types.Struct;
import org.apache.kafka.common.protocol.types.TaggedFields;
import org.apache.kafka.common.protocol.types.Type;
import org.bouncycastle.jce.provider.BouncyCastleProvider;

/**
 * The objects of Aiven's plugin, written and read by the description of its format, with the libraries that it uses:
 * Jackson, zstd-jni and Bouncy Castle. Its own jars are in no registry. Each line of input gets one line of output:
 *
 * <pre>
 * store DIR CHUNK_BYTES COMPRESS ENCRYPT   DIR/segment and DIR/offset ... DIR/transaction into DIR/log, indexes, manifest
 * load DIR START END                       bytes START to END of the segment in DIR/log
 * index DIR NAME                           one index file in DIR/indexes
 * wrap DIR KEY                             the text of a data key in a manifest
 * custom SIZE PREFIX KEY                   the custom metadata of these, "-" for none
 * customs HEX                              and what Kafka's types read there
 * </pre>
 *
 * Keys are DIR/public.pem and DIR/private.pem, of the name "key1". Bytes are hexadecimal digits.
 */
public class RemoteObjectOracle {
    private static final List<String> INDEXES =
        List.of("offset", "timestamp", "producerSnapshot", "leaderEpoch", "transaction");
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final HexFormat HEX = HexFormat.of();
    private static final SecureRandom RANDOM = new SecureRandom();
    private static final Field.TaggedFieldsSection CUSTOM = Field.TaggedFieldsSection.of(
        0, new Field("remote_size", Type.VARLONG),
        1, new Field("object_prefix", Type.COMPACT_STRING),
        2, new Field("object_key", Type.COMPACT_STRING));

    private final Path dir;
    private byte[] dataKey;
    private byte[] aad;

    private RemoteObjectOracle(String dir) {
        this.dir = Path.of(dir);
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split("\t", -1);
            try {
                out.println(answer(words));
            } catch (Exception thrown) {
                out.println("!" + thrown);
            }
            out.flush();
        }
    }

    private static String answer(String[] words) throws Exception {
        switch (words[0]) {
            case "store":
                new RemoteObjectOracle(words[1]).store(
                    Integer.parseInt(words[2]), Boolean.parseBoolean(words[3]), Boolean.parseBoolean(words[4]));
                return "ok";
            case "load":
                return HEX.formatHex(
                    new RemoteObjectOracle(words[1]).load(Integer.parseInt(words[2]), Integer.parseInt(words[3])));
            case "index":
                return HEX.formatHex(new RemoteObjectOracle(words[1]).index(words[2]));
            case "wrap": {
                RemoteObjectOracle oracle = new RemoteObjectOracle(words[1]);
                oracle.dataKey = HEX.parseHex(words[2]);
                return oracle.wrapped();
            }
            case "custom": {
                TreeMap<Integer, Object> fields = new TreeMap<>();
                if (!words[1].equals("-")) {
                    fields.put(0, Long.parseLong(words[1]));
                }
                for (int tag = 1; tag <= 2; tag++) {
                    if (!words[tag + 1].equals("-")) {
                        fields.put(tag, words[tag + 1]);
                    }
                }
                Struct struct = new Struct(new Schema(CUSTOM)).set(CUSTOM.name, fields);
                ByteBuffer written = ByteBuffer.allocate(struct.sizeOf());
                struct.writeTo(written);
                return HEX.formatHex(written.array());
            }
            default: {
                Struct read = new Schema(CUSTOM).read(ByteBuffer.wrap(HEX.parseHex(words[1])));
                return String.valueOf(read.get(CUSTOM.name));
            }
        }
    }

    private void store(int chunkBytes, boolean compress, boolean encrypt) throws Exception {
        ObjectNode manifest = JSON.createObjectNode();
        manifest.put("version", "1");
        if (encrypt) {
            dataKey = randomBytes(32);
            aad = randomBytes(32);
        }
        byte[] segment = Files.readAllBytes(dir.resolve("segment"));
        ByteArrayOutputStream log = new ByteArrayOutputStream();
        List<Integer> sizes = new ArrayList<>();
        for (int start = 0; start < segment.length; start += chunkBytes) {
            byte[] chunk = Arrays.copyOfRange(segment, start, Math.min(segment.length, start + chunkBytes));
            chunk = compress ? Zstd.compress(chunk) : chunk;
            chunk = encrypt ? encrypted(chunk) : chunk;
            log.write(chunk);
            sizes.add(chunk.length);
        }
        Files.write(dir.resolve("log"), log.toByteArray());
        ObjectNode chunks = manifest.putObject("chunkIndex");
        chunks.put("type", compress ? "variable" : "fixed");
        chunks.put("originalChunkSize", chunkBytes).put("originalFileSize", segment.length);
        if (compress) {
            chunks.put("transformedChunks", Base64.getEncoder().encodeToString(Zstd.compress(coded(sizes))));
        } else {
            chunks.put("transformedChunkSize", chunkBytes + (encrypt ? 28 : 0));
            chunks.put("finalTransformedChunkSize", sizes.isEmpty() ? 0 : sizes.get(sizes.size() - 1));
        }
        ByteArrayOutputStream joined = new ByteArrayOutputStream();
        ObjectNode places = manifest.putObject("segmentIndexes");
        for (String name : INDEXES) {
            if (!Files.exists(dir.resolve(name))) {
                places.putNull(name);
                continue;
            }
            byte[] file = Files.readAllBytes(dir.resolve(name));
            byte[] stored = encrypt && file.length > 0 ? encrypted(file) : file;
            places.putObject(name).put("position", joined.size()).put("size", stored.length);
            joined.write(stored);
        }
        Files.write(dir.resolve("indexes"), joined.toByteArray());
        manifest.put("compression", compress);
        if (encrypt) {
            manifest.putObject("encryption").put("dataKey", wrapped()).put("aad", aad);
        }
        manifest.putNull("remoteLogSegmentMetadata");
        Files.write(dir.resolve("manifest"), JSON.writeValueAsBytes(manifest));
    }

    private byte[] load(int start, int end) throws Exception {
        JsonNode manifest = manifest();
        JsonNode chunks = manifest.get("chunkIndex");
        int chunkBytes = chunks.get("originalChunkSize").intValue();
        int segmentBytes = chunks.get("originalFileSize").intValue();
        boolean isFixed = chunks.get("type").textValue().equals("fixed");
        List<Integer> sizes = isFixed ? null : decoded(chunks.get("transformedChunks").textValue());
        byte[] log = Files.readAllBytes(dir.resolve("log"));
        ByteArrayOutputStream found = new ByteArrayOutputStream();
        int position = 0;
        for (int chunk = 0; chunk * chunkBytes < segmentBytes; chunk++) {
            boolean isLast = (chunk + 1) * chunkBytes >= segmentBytes;
            int size = !isFixed ? sizes.get(chunk)
                : chunks.get(isLast ? "finalTransformedChunkSize" : "transformedChunkSize").intValue();
            int from = Math.max(start - chunk * chunkBytes, 0);
            int to = Math.min(end, segmentBytes) - chunk * chunkBytes;
            if (from < chunkBytes && to > 0) {
                byte[] stored = Arrays.copyOfRange(log, position, position + size);
                stored = dataKey != null ? decrypted(stored) : stored;
                if (manifest.get("compression").booleanValue()) {
                    long told = Zstd.decompressedSize(stored);
                    stored = Zstd.decompress(stored, (int) told);
                }
                if (from < Math.min(to, stored.length)) {
                    found.write(stored, from, Math.min(to, stored.length) - from);
                }
            }
            position += size;
        }
        return found.toByteArray();
    }

    private byte[] index(String name) throws Exception {
        JsonNode place = manifest().get("segmentIndexes").get(name);
        int position = place.get("position").intValue();
        int size = place.get("size").intValue();
        byte[] stored = Arrays.copyOfRange(Files.readAllBytes(dir.resolve("indexes")), position, position + size);
        return dataKey != null && size > 0 ? decrypted(stored) : stored;
    }

    private JsonNode manifest() throws Exception {
        JsonNode manifest = JSON.readTree(dir.resolve("manifest").toFile());
        JsonNode secret = manifest.get("encryption");
        if (secret != null) {
            Cipher rsa = rsa();
            PKCS8EncodedKeySpec key = new PKCS8EncodedKeySpec(pem("private.pem"));
            rsa.init(Cipher.DECRYPT_MODE, KeyFactory.getInstance("RSA").generatePrivate(key));
            dataKey = rsa.doFinal(Base64.getDecoder().decode(secret.get("dataKey").textValue().substring(5)));
            aad = secret.get("aad").binaryValue();
        }
        return manifest;
    }

    private String wrapped() throws Exception {
        X509EncodedKeySpec key = new X509EncodedKeySpec(pem("public.pem"));
        Cipher rsa = rsa();
        rsa.init(Cipher.ENCRYPT_MODE, KeyFactory.getInstance("RSA").generatePublic(key));
        return "key1:" + Base64.getEncoder().encodeToString(rsa.doFinal(dataKey));
    }

    private static Cipher rsa() throws Exception {
        return Cipher.getInstance("RSA/NONE/OAEPWithSHA3-512AndMGF1Padding", new BouncyCastleProvider());
    }

    private byte[] encrypted(byte[] plain) throws Exception {
        byte[] vector = randomBytes(12);
        byte[] rest = aes(Cipher.ENCRYPT_MODE, vector).doFinal(plain);
        return ByteBuffer.allocate(12 + rest.length).put(vector).put(rest).array();
    }

    private byte[] decrypted(byte[] stored) throws Exception {
        return aes(Cipher.DECRYPT_MODE, Arrays.copyOf(stored, 12)).doFinal(stored, 12, stored.length - 12);
    }

    private Cipher aes(int mode, byte[] vector) throws Exception {
        Cipher cipher = Cipher.getInstance("AES/GCM/NoPadding");
        cipher.init(mode, new SecretKeySpec(dataKey, "AES"), new GCMParameterSpec(128, vector));
        cipher.updateAAD(aad);
        return cipher;
    }

    private byte[] pem(String name) throws Exception {
        String text = Files.readString(dir.resolve(name)).replaceAll("-----[A-Z ]+-----|\\s", "");
        return Base64.getDecoder().decode(text);
    }

    private static byte[] randomBytes(int count) {
        byte[] bytes = new byte[count];
        RANDOM.nextBytes(bytes);
        return bytes;
    }

    private static byte[] coded(List<Integer> sizes) {
        int count = sizes.size();
        ByteBuffer coded = ByteBuffer.allocate(13 + 4 * count).putInt(count);
        if (count > 1) {
            int least = sizes.subList(0, count - 1).stream().mapToInt(each -> each).min().getAsInt();
            int most = sizes.subList(0, count - 1).stream().mapToInt(each -> each - least).max().getAsInt();
            int width = most < 1 << 8 ? 1 : most < 1 << 16 ? 2 : most < 1 << 24 ? 3 : 4;
            coded.putInt(least).put((byte) width);
            for (int size : sizes.subList(0, count - 1)) {
                for (int digit = width - 1; digit >= 0; digit--) {
                    coded.put((byte) (size - least >> 8 * digit));
                }
            }
        }
        if (count > 0) {
            coded.putInt(sizes.get(count - 1));
        }
        return Arrays.copyOf(coded.array(), coded.position());
    }

    private static List<Integer> decoded(String text) {
        byte[] frame = Base64.getDecoder().decode(text);
        ByteBuffer coded = ByteBuffer.wrap(Zstd.decompress(frame, (int) Zstd.decompressedSize(frame)));
        List<Integer> sizes = new ArrayList<>();
        int count = coded.getInt();
        int least = count > 1 ? coded.getInt() : 0;
        int width = count > 1 ? coded.get() : 0;
        while (sizes.size() < count - 1) {
            int size = 0;
            for (int digit = 0; digit < width; digit++) {
                size = size << 8 | coded.get() & 0xFF;
            }
            sizes.add(least + size);
        }
        if (count > 0) {
            sizes.add(coded.getInt());
        }
        return sizes;
    }
}
