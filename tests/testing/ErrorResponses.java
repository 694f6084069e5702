import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.requests.AbstractRequest;
import org.apache.kafka.common.requests.AbstractResponse;

/**
 * What Apache Kafka answers to a request that fails as a whole. Each line of input, tab-separated, is an API key, a
 * version, an error code and a request's body in hex; its line of output the response's body in hex, or "!" and why not.
 */
public class ErrorResponses {
    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            out.println(answer(line.split("\t", -1)));
        }
        out.flush();
    }

    private static String answer(String[] words) {
        try {
            short version = Short.parseShort(words[1]);
            ByteBuffer body = ByteBuffer.wrap(HexFormat.of().parseHex(words[3]));
            AbstractRequest request = AbstractRequest.parseRequest(
                ApiKeys.forId(Integer.parseInt(words[0])), version, new ByteBufferAccessor(body)).request;
            Errors error = Errors.forCode(Short.parseShort(words[2]));
            AbstractResponse response = request.getErrorResponse(0, error.exception());
            ByteBuffer bytes = MessageUtil.toByteBufferAccessor(response.data(), version).buffer();
            byte[] written = new byte[bytes.remaining()];
            bytes.get(written);
            return HexFormat.of().formatHex(written);
        } catch (Exception failure) {
            return "!" + failure;
        }
    }
}
