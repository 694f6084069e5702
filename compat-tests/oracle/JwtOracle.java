import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import javax.security.auth.login.AppConfigurationEntry;
import org.apache.kafka.common.security.oauthbearer.BrokerJwtValidator;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerToken;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallback;
import org.apache.kafka.common.security.oauthbearer.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler;
import javax.security.auth.callback.Callback;

/**
 * Kafka's checks of OAUTHBEARER tokens. "signed URL audiences issuer skew scope sub" and "unsecured options" choose a
 * check, "check token" asks it: "accepted" with principal and expiry, "refused" with a status, or "crashed".
 */
public class JwtOracle {
    interface Check {
        OAuthBearerToken check(String token) throws Exception;
    }

    static class Refused extends Exception {
        Refused(String status) {
            super(status);
        }
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        Check check = null;
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split("\t", -1);
            if (words[0].equals("signed")) {
                check = signed(words);
                System.out.println("ready");
            } else if (words[0].equals("unsecured")) {
                check = unsecured(words[1]);
                System.out.println("ready");
            } else {
                System.out.println(answer(check, words[1]));
            }
            System.out.flush();
        }
    }

    static String answer(Check check, String token) {
        try {
            OAuthBearerToken found = check.check(token);
            return "accepted\t" + found.principalName() + "\t" + found.lifetimeMs();
        } catch (Refused refused) {
            return "refused\t" + refused.getMessage();
        } catch (org.apache.kafka.common.security.oauthbearer.JwtValidatorException refused) {
            return "refused\tinvalid_token";
        } catch (Throwable failure) {
            return "crashed\t" + failure.getClass().getSimpleName();
        }
    }

    static AppConfigurationEntry entry(Map<String, String> options) {
        return new AppConfigurationEntry(
            OAuthBearerLoginModule.class.getName(), AppConfigurationEntry.LoginModuleControlFlag.REQUIRED, options);
    }

    static Check signed(String[] words) {
        System.setProperty("org.apache.kafka.sasl.oauthbearer.allowed.urls", words[1]);
        Map<String, Object> configs = new HashMap<>();
        configs.put("sasl.oauthbearer.jwks.endpoint.url", words[1]);
        configs.put("sasl.oauthbearer.allow.unverified.audience", true);
        configs.put("sasl.oauthbearer.allow.unverified.issuer", true);
        configs.put("sasl.oauthbearer.expected.audience", words[2].isEmpty() ? List.of() : List.of(words[2].split(",")));
        configs.put("sasl.oauthbearer.expected.issuer", words[3].isEmpty() ? null : words[3]);
        configs.put("sasl.oauthbearer.clock.skew.seconds", Integer.parseInt(words[4]));
        configs.put("sasl.oauthbearer.scope.claim.name", words[5]);
        configs.put("sasl.oauthbearer.sub.claim.name", words[6]);
        BrokerJwtValidator validator = new BrokerJwtValidator();
        validator.configure(configs, "OAUTHBEARER", List.of(entry(Map.of())));
        return validator::validate;
    }

    static Check unsecured(String text) {
        Map<String, String> options = new HashMap<>();
        for (String pair : text.split(";")) {
            String[] parts = pair.split("=", 2);
            if (parts.length == 2)
                options.put(parts[0], parts[1]);
        }
        OAuthBearerUnsecuredValidatorCallbackHandler handler = new OAuthBearerUnsecuredValidatorCallbackHandler();
        handler.configure(Map.of(), "OAUTHBEARER", List.of(entry(options)));
        return token -> {
            OAuthBearerValidatorCallback callback = new OAuthBearerValidatorCallback(token);
            handler.handle(new Callback[] {callback});
            if (callback.token() == null)
                throw new Refused(callback.errorStatus());
            return callback.token();
        };
    }
}
