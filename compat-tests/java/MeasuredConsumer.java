// A consumer whose metrics are pushed: reads COUNT records of a topic, polls for some seconds, prints its instance id.
//   MeasuredConsumer BOOTSTRAP TOPIC GROUP COUNT SECONDS

import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

public class MeasuredConsumer {
    public static void main(String[] arguments) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", arguments[0]);
        properties.put("client.id", "measured");
        properties.put("group.id", arguments[2]);
        properties.put("auto.offset.reset", "earliest");
        try (var consumer = new KafkaConsumer<>(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.subscribe(List.of(arguments[1]));
            int read = 0;
            while (read < Integer.parseInt(arguments[3])) read += consumer.poll(Duration.ofMillis(200)).count();
            System.out.println(consumer.clientInstanceId(Duration.ofSeconds(20)));
            System.out.flush();
            long end = System.nanoTime() + Long.parseLong(arguments[4]) * 1_000_000_000L;
            while (System.nanoTime() < end) consumer.poll(Duration.ofMillis(200));
        }
        System.out.println("closed");
    }
}
