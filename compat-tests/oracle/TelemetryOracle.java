// Kafka's ClientMetricsManager with a clock of its own and a receiver that parses every payload, asked by lines:
// "milliseconds TAB words"; one line of output for each.
//
//   begin  MAX_BYTES                                 another manager
//   set    NAME CONFIG=VALUE ...                     the configs of a subscription; none to delete it
//   get    CONNECTION CLIENT ID                      -> error, id, subscription, interval, metrics
//   push   CONNECTION CLIENT ID SUBSCRIPTION TERMINATING CODEC HEX      -> error
//   close  CONNECTION
//   known  ID                                        -> whether the instance is there
//   parse  HEX                                       -> the points of a payload as OpenTelemetry's classes read it, or !

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Method;
import java.net.InetAddress;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.message.GetTelemetrySubscriptionsRequestData;
import org.apache.kafka.common.message.PushTelemetryRequestData;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.network.ClientInformation;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.requests.GetTelemetrySubscriptionsRequest;
import org.apache.kafka.common.requests.PushTelemetryRequest;
import org.apache.kafka.common.requests.RequestContext;
import org.apache.kafka.common.requests.RequestHeader;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.ClientMetricsManager;
import org.apache.kafka.server.metrics.ClientMetricsInstance;
import org.apache.kafka.server.metrics.ClientTelemetryExporterPlugin;
import org.apache.kafka.server.telemetry.ClientTelemetryReceiver;
import org.apache.kafka.server.util.timer.TimerTask;
import org.apache.kafka.shaded.io.opentelemetry.proto.common.v1.AnyValue;
import org.apache.kafka.shaded.io.opentelemetry.proto.common.v1.KeyValue;
import org.apache.kafka.shaded.io.opentelemetry.proto.metrics.v1.Metric;
import org.apache.kafka.shaded.io.opentelemetry.proto.metrics.v1.MetricsData;
import org.apache.kafka.shaded.io.opentelemetry.proto.metrics.v1.NumberDataPoint;
import org.apache.kafka.shaded.io.opentelemetry.proto.metrics.v1.ResourceMetrics;
import org.apache.kafka.shaded.io.opentelemetry.proto.metrics.v1.ScopeMetrics;

public class TelemetryOracle {
    private static long nowMs = 1_000_000_000L;
    private static ClientMetricsManager manager;
    private static Method instanceOf;
    /** When the timer of an instance is due; Kafka's own timers have a clock that cannot be moved. */
    private static final Map<TimerTask, Long> due = new HashMap<>();

    private static final Time TIME = (Time) java.lang.reflect.Proxy.newProxyInstance(
        TelemetryOracle.class.getClassLoader(), new Class<?>[] {Time.class}, (proxy, method, arguments) -> {
            switch (method.getName()) {
                case "milliseconds": return nowMs;
                case "hiResClockMs": return nowMs;
                case "nanoseconds": return nowMs * 1_000_000L;
                case "hashCode": return 1;
                default: throw new UnsupportedOperationException(method.getName());
            }
        });

    private static void begin(int maxBytes) throws Exception {
        ClientTelemetryExporterPlugin plugin = new ClientTelemetryExporterPlugin();
        plugin.add((ClientTelemetryReceiver) (context, payload) -> {
            try {
                MetricsData.parseFrom(payload.data());
            } catch (Exception malformed) {
                throw new IllegalArgumentException(malformed);
            }
        });
        if (manager != null) manager.close();
        manager = new ClientMetricsManager(plugin, maxBytes, TIME, new Metrics(TIME));
        instanceOf = ClientMetricsManager.class.getDeclaredMethod("clientInstance", Uuid.class);
        instanceOf.setAccessible(true);
        due.clear();
    }

    private static ClientMetricsInstance instance(Uuid id) throws Exception {
        return (ClientMetricsInstance) instanceOf.invoke(manager, id);
    }

    private static void pass(long millis) {
        nowMs += millis;
        for (Map.Entry<TimerTask, Long> each : new ArrayList<>(due.entrySet())) {
            if (each.getValue() > nowMs) continue;
            due.remove(each.getKey());
            if (!each.getKey().isCancelled()) each.getKey().run();
        }
    }

    private static void watch(Uuid id) throws Exception {
        ClientMetricsInstance found = instance(id);
        TimerTask task = found == null ? null : found.expirationTimerTask();
        if (task != null && !due.containsKey(task)) {
            due.keySet().removeIf(TimerTask::isCancelled);
            due.put(task, nowMs + task.delayMs);
        }
    }

    private static RequestContext context(ApiKeys key, String connection, String client) throws Exception {
        RequestHeader header = new RequestHeader(key, (short) 0, client.equals("-") ? null : client, 1);
        return new RequestContext(header, connection, InetAddress.getByName("127.0.0.1"), Optional.of(7),
            KafkaPrincipal.ANONYMOUS, new ListenerName("PLAINTEXT"), SecurityProtocol.PLAINTEXT,
            new ClientInformation("software", "1.2"), false);
    }

    private static String labels(List<KeyValue> attributes) {
        Map<String, String> found = new TreeMap<>();
        for (KeyValue each : attributes) {
            AnyValue value = each.getValue();
            found.put(each.getKey(), switch (value.getValueCase()) {
                case STRING_VALUE -> value.getStringValue();
                case BOOL_VALUE -> "" + value.getBoolValue();
                case INT_VALUE -> "" + value.getIntValue();
                default -> "";
            });
        }
        return found.toString();
    }

    private static String points(byte[] content) {
        StringBuilder found = new StringBuilder();
        try {
            for (ResourceMetrics resource : MetricsData.parseFrom(content).getResourceMetricsList()) {
                for (ScopeMetrics scope : resource.getScopeMetricsList()) {
                    for (Metric metric : scope.getMetricsList()) {
                        boolean sum = metric.hasSum();
                        for (NumberDataPoint point : sum
                            ? metric.getSum().getDataPointsList() : metric.getGauge().getDataPointsList()) {
                            double value = point.hasAsInt() ? point.getAsInt() : point.getAsDouble();
                            found.append('|').append(metric.getName()).append(' ').append(labels(point.getAttributesList()))
                                .append(' ').append(Double.doubleToLongBits(value))
                                .append(' ').append(sum && metric.getSum().getAggregationTemporalityValue() == 1)
                                .append(' ').append(sum && metric.getSum().getIsMonotonic());
                        }
                    }
                }
            }
        } catch (Exception malformed) {
            return "!";
        }
        return found.toString();
    }

    private static String answer(String[] words) throws Exception {
        pass(Long.parseLong(words[0]));
        switch (words[1]) {
            case "begin":
                begin(Integer.parseInt(words[2]));
                return "";
            case "set":
                Properties properties = new Properties();
                for (int index = 3; index < words.length; index++) {
                    String[] pair = words[index].split("=", 2);
                    properties.setProperty(pair[0], pair[1]);
                }
                manager.updateSubscription(words[2], properties);
                return "";
            case "get": {
                GetTelemetrySubscriptionsRequestData data = new GetTelemetrySubscriptionsRequestData();
                data.setClientInstanceId(Uuid.fromString(words[4]));
                var response = manager.processGetTelemetrySubscriptionRequest(
                    new GetTelemetrySubscriptionsRequest(data, (short) 0),
                    context(ApiKeys.GET_TELEMETRY_SUBSCRIPTIONS, words[2], words[3])).data();
                watch(data.clientInstanceId().equals(Uuid.ZERO_UUID) ? response.clientInstanceId() : data.clientInstanceId());
                return response.errorCode() + " " + response.clientInstanceId() + " " + response.subscriptionId() + " "
                    + response.pushIntervalMs() + " " + response.acceptedCompressionTypes() + " "
                    + response.telemetryMaxBytes() + " " + response.deltaTemporality() + " "
                    + String.join(",", new TreeSet<>(response.requestedMetrics()));
            }
            case "push": {
                PushTelemetryRequestData data = new PushTelemetryRequestData();
                data.setClientInstanceId(Uuid.fromString(words[4])).setSubscriptionId(Integer.parseInt(words[5]));
                data.setTerminating(words[6].equals("1")).setCompressionType(Byte.parseByte(words[7]));
                data.setMetrics(ByteBuffer.wrap(words.length > 8 ? HexFormat.of().parseHex(words[8]) : new byte[0]));
                var response = manager.processPushTelemetryRequest(
                    new PushTelemetryRequest(data, (short) 0), context(ApiKeys.PUSH_TELEMETRY, words[2], words[3]));
                watch(data.clientInstanceId());
                return "" + response.data().errorCode();
            }
            case "close":
                manager.connectionDisconnectListener().onDisconnect(words[2]);
                return "";
            case "known":
                return "" + (instance(Uuid.fromString(words[2])) != null);
            default:
                return points(HexFormat.of().parseHex(words.length > 2 ? words[2] : ""));
        }
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println(answer(line.split("\t")));
            System.out.flush();
        }
        System.exit(0);
    }
}
