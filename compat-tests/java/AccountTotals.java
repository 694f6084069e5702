import java.util.Map;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;

/**
 * A Kafka Streams application of several instances: payments, whatever their key, by account, counted and summed up.
 *
 * A payment is "account amount"; grouping by account needs a repartition topic, the totals are a state store with its
 * changelog topic, and each change of one is a record "count sum" of the output. Nothing is held back to be merged, so
 * the counts of an account in the output are 1, 2, 3 and so on when every payment was worked on exactly once.
 *
 * Arguments: bootstrap servers, application id, state directory, input topic, output topic, group protocol, then further
 * settings as name=value.
 */
public final class AccountTotals {
    private AccountTotals() {}

    public static void main(String[] arguments) {
        StreamsBuilder builder = new StreamsBuilder();
        builder.<String, String>stream(arguments[3])
            .map((key, payment) -> KeyValue.pair(payment.split(" ")[0], payment.split(" ")[1]))
            .groupByKey(Grouped.as("by-account"))
            .aggregate(() -> "0 0", (account, amount, total) -> plus(total, amount), Materialized.as("totals"))
            .toStream()
            .to(arguments[4]);
        Properties settings = new Properties();
        settings.putAll(Map.of(
            StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0],
            StreamsConfig.APPLICATION_ID_CONFIG, arguments[1],
            StreamsConfig.STATE_DIR_CONFIG, arguments[2],
            StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2,
            StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class,
            StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class,
            StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0,
            StreamsConfig.GROUP_PROTOCOL_CONFIG, arguments[5]
        ));
        if (arguments[5].equals("classic")) {  // with the streams protocol, the broker decides
            settings.putAll(Map.of("consumer.session.timeout.ms", 6_000, "consumer.heartbeat.interval.ms", 1_000));
        }
        for (int index = 6; index < arguments.length; index++) {
            String[] setting = arguments[index].split("=", 2);
            settings.put(setting[0], setting[1]);
        }
        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        streams.setStateListener((now, before) -> System.out.println("state " + now));
        Runtime.getRuntime().addShutdownHook(new Thread(streams::close));
        streams.start();
    }

    private static String plus(String total, String amount) {
        String[] parts = total.split(" ");
        return (Long.parseLong(parts[0]) + 1) + " " + (Long.parseLong(parts[1]) + Long.parseLong(amount));
    }
}
