import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import org.apache.kafka.server.authorizer.internals.CidrUtils;

/** Kafka's networks in ACLs: a host and a network per line, between tabs; whether the one is in the other, or why not. */
public class CidrOracle {
    private static String reason(String network) {
        try {
            CidrUtils.validate(network);
            return "valid";
        } catch (IllegalArgumentException error) {
            return error.getMessage();
        }
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split("\t", -1);
            System.out.println(CidrUtils.isInRange(words[0], words[1]) + "\t" + reason(words[1]));
        }
    }
}
