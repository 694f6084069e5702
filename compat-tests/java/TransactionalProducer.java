import java.util.Map;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Asks for transactions: arguments are bootstrap servers and transactional id. Prints what came of it. */
public final class TransactionalProducer {
    public static void main(String[] arguments) {
        Map<String, Object> config =
            Map.of("bootstrap.servers", arguments[0], "transactional.id", arguments[1], "max.block.ms", "30000");
        StringSerializer text = new StringSerializer();
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(config, text, text)) {
            producer.initTransactions();
            System.out.println("initialised");
        } catch (RuntimeException refused) {
            System.out.println(refused);
        }
    }
}
