// Kafka's quota managers with a clock of their own, asked by lines: "time TAB words"; one line of output for each.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.util.Optional;
import org.apache.kafka.server.quota.ClientRequestQuotaManager;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.Quota;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.common.utils.Timer;
import org.apache.kafka.network.Session;
import org.apache.kafka.server.config.ClientQuotaManagerConfig;
import org.apache.kafka.server.quota.ClientQuotaEntity;
import org.apache.kafka.server.quota.ClientQuotaManager;
import org.apache.kafka.server.quota.ControllerMutationQuota;
import org.apache.kafka.server.quota.ControllerMutationQuotaManager;
import org.apache.kafka.server.quota.QuotaType;

public class QuotaOracle {
    private static long nowMs = 1_000_000_000L;

    private static final Time TIME = (Time) java.lang.reflect.Proxy.newProxyInstance(
        QuotaOracle.class.getClassLoader(), new Class<?>[] {Time.class}, (proxy, method, arguments) -> {
            switch (method.getName()) {
                case "milliseconds": return nowMs;
                case "hiResClockMs": return nowMs;
                case "nanoseconds": return nowMs * 1_000_000L;
                case "hashCode": return 1;
                default: throw new UnsupportedOperationException(method.getName());
            }
        });

    private static ClientQuotaManager bytes;
    private static ClientRequestQuotaManager requests;
    private static ControllerMutationQuotaManager mutations;

    private static void begin(int windows, int seconds) {
        ClientQuotaManagerConfig config = new ClientQuotaManagerConfig(windows, seconds);
        bytes = new ClientQuotaManager(config, new Metrics(TIME), QuotaType.PRODUCE, TIME, "a", Optional.empty());
        requests = new ClientRequestQuotaManager(config, new Metrics(TIME), TIME, "b", Optional.empty());
        mutations = new ControllerMutationQuotaManager(config, new Metrics(TIME), TIME, "c", Optional.empty());
    }

    private static Optional<ClientQuotaEntity.ConfigEntity> user(String name) {
        if (name.equals("-")) return Optional.empty();
        if (name.equals("*")) return Optional.of(ClientQuotaManager.DEFAULT_USER_ENTITY);
        return Optional.of(new ClientQuotaManager.UserEntity(name));
    }

    private static Optional<ClientQuotaEntity.ConfigEntity> client(String name) {
        if (name.equals("-")) return Optional.empty();
        if (name.equals("*")) return Optional.of(ClientQuotaManager.DEFAULT_USER_CLIENT_ID);
        return Optional.of(new ClientQuotaManager.ClientIdEntity(name));
    }

    private static Session session(String name) throws Exception {
        return new Session(new KafkaPrincipal("User", name), InetAddress.getLoopbackAddress());
    }

    private static String answer(String[] words) throws Exception {
        nowMs += Long.parseLong(words[1]);
        String id = words.length > 3 ? words[3].equals("-") && !words[0].startsWith("set") ? "" : words[3] : "";
        switch (words[0]) {
            case "begin":
                begin(Integer.parseInt(words[2]), Integer.parseInt(words[3]));
                return "";
            case "set":
                Optional<Quota> quota = words[4].equals("none")
                    ? Optional.empty() : Optional.of(Quota.upperBound(Double.parseDouble(words[4])));
                bytes.updateQuota(user(words[2]), client(words[3]), quota);
                requests.updateQuota(user(words[2]), client(words[3]), quota);
                mutations.updateQuota(user(words[2]), client(words[3]), quota);
                return "";
            case "bytes":
                return "" + bytes.maybeRecordAndGetThrottleTimeMs(
                    session(words[2]), id, Double.parseDouble(words[4]), nowMs);
            case "unrecord":
                bytes.unrecordQuotaSensor(session(words[2]), id, Double.parseDouble(words[4]), nowMs);
                return "";
            case "most":
                return "" + bytes.maxValueInQuotaWindow(session(words[2]), id);
            case "time":
                return "" + requests.maybeRecordAndGetThrottleTimeMs(
                    session(words[2]), id, Double.parseDouble(words[4]), nowMs);
            default:
                ControllerMutationQuota of = words[0].equals("strict")
                    ? mutations.newStrictQuotaFor(session(words[2]), id)
                    : mutations.newPermissiveQuotaFor(session(words[2]), id);
                String outcome = "accepted";
                try {
                    of.record(Double.parseDouble(words[4]));
                } catch (org.apache.kafka.common.errors.ThrottlingQuotaExceededException refused) {
                    outcome = "refused";
                }
                return outcome + " " + of.throttleTime();
        }
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        StringBuilder output = new StringBuilder();
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            output.append(answer(line.split("\t"))).append('\n');
        }
        System.out.print(output);
        System.out.flush();
        System.exit(0);
    }
}
