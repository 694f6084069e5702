import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import javax.security.auth.login.AppConfigurationEntry;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.SaslConfigs;
import org.apache.kafka.common.security.oauthbearer.ClientCredentialsJwtRetriever;
import org.apache.kafka.common.security.oauthbearer.JwtBearerJwtRetriever;
import org.apache.kafka.common.security.oauthbearer.JwtRetriever;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule;

/**
 * Kafka's retrievers of tokens. Each line is "bearer" or "credentials" with configs as "name=value" between tabs; the
 * answer is "token" with the token, or "failed" with the exception.
 */
public class AssertionOracle {
    public static void main(String[] arguments) throws Exception {
        ConfigDef known = new ConfigDef();
        SaslConfigs.addClientSaslSupport(known);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println(answer(known, line.split("\t", -1)));
            System.out.flush();
        }
    }

    static String answer(ConfigDef known, String[] words) {
        Map<String, String> said = new HashMap<>();
        for (int i = 1; i < words.length; i++) {
            String[] parts = words[i].split("=", 2);
            said.put(parts[0], parts[1]);
        }
        System.setProperty("org.apache.kafka.sasl.oauthbearer.allowed.urls", said.get("sasl.oauthbearer.token.endpoint.url"));
        System.setProperty("org.apache.kafka.sasl.oauthbearer.allowed.files", String.join(",", said.values()));
        try (JwtRetriever retriever = words[0].equals("bearer") ? new JwtBearerJwtRetriever() : new ClientCredentialsJwtRetriever()) {
            AppConfigurationEntry entry = new AppConfigurationEntry(
                OAuthBearerLoginModule.class.getName(), AppConfigurationEntry.LoginModuleControlFlag.REQUIRED, Map.of());
            retriever.configure(known.parse(said), "OAUTHBEARER", List.of(entry));
            return "token\t" + retriever.retrieve();
        } catch (Throwable failure) {
            return "failed\t" + failure.getClass().getSimpleName();
        }
    }
}
