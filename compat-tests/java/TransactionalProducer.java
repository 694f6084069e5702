import java.util.Map;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Transactions by the Java producer. Arguments are bootstrap servers, transactional id and topic: ten transactions of
 * five records, every other one aborted; then one that a second producer of the same id ends.
 */
public final class TransactionalProducer {
    public static void main(String[] arguments) {
        String topic = arguments[2];
        try (KafkaProducer<String, String> producer = producer(arguments)) {
            producer.initTransactions();
            for (int transaction = 0; transaction < 10; transaction++) {
                producer.beginTransaction();
                for (int number = 0; number < 5; number++) {
                    producer.send(new ProducerRecord<>(topic, transaction + "-" + number));
                }
                if (transaction % 2 == 0) {
                    producer.commitTransaction();
                } else {
                    producer.flush();
                    producer.abortTransaction();
                }
            }
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(topic, "zombie"));
            producer.flush();
            try (KafkaProducer<String, String> successor = producer(arguments)) {
                successor.initTransactions();
            }
            try {
                producer.commitTransaction();
                System.out.println("committed");
            } catch (KafkaException fenced) {
                System.out.println("fenced: " + fenced.getClass().getSimpleName());
            }
        }
    }

    private static KafkaProducer<String, String> producer(String[] arguments) {
        Map<String, Object> config =
            Map.of("bootstrap.servers", arguments[0], "transactional.id", arguments[1], "max.block.ms", "30000");
        StringSerializer text = new StringSerializer();
        return new KafkaProducer<>(config, text, text);
    }
}
