import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import org.apache.kafka.common.security.kerberos.KerberosName;
import org.apache.kafka.common.security.kerberos.KerberosShortNamer;

/** Rules for the names of principals, asked by lines: realm, name, rules. All words in Base64, the answer too. "!" for
 * rules that are refused, "?" for a name that becomes no user. */
public class KerberosOracle {
    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, true, "UTF-8");
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            List<String> words = Arrays.stream(line.split("\t", -1)).map(KerberosOracle::decoded).toList();
            out.println(answer(words));
        }
    }

    private static String answer(List<String> words) {
        KerberosShortNamer namer;
        try {
            namer = KerberosShortNamer.fromUnparsedRules(words.get(0), words.subList(2, words.size()));
        } catch (Exception error) {
            return "!";
        }
        try {
            String user = namer.shortName(KerberosName.parse(words.get(1)));
            return Base64.getEncoder().encodeToString(user.getBytes(StandardCharsets.UTF_8));
        } catch (Exception error) {
            return "?";
        }
    }

    private static String decoded(String word) {
        return new String(Base64.getDecoder().decode(word), StandardCharsets.UTF_8);
    }
}
