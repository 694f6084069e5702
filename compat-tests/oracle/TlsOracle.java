import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.io.PrintStream;
import javax.security.auth.x500.X500Principal;
import org.apache.kafka.common.security.ssl.SslPrincipalMapper;

/** Names of certificates and mapping rules, asked by lines: all words in Base64, the answer too, "!" for an error. */
public class TlsOracle {
    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, true, "UTF-8");
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split("\t", -1);
            String answer;
            try {
                if (words[0].equals("name")) {
                    answer = new X500Principal(Base64.getDecoder().decode(words[1])).getName();
                } else {
                    answer = SslPrincipalMapper.fromRules(decoded(words[1])).getName(decoded(words[2]));
                }
                answer = Base64.getEncoder().encodeToString(answer.getBytes(StandardCharsets.UTF_8));
            } catch (Exception error) {
                answer = "!";
            }
            out.println(answer);
        }
    }

    private static String decoded(String word) {
        return new String(Base64.getDecoder().decode(word), StandardCharsets.UTF_8);
    }
}
