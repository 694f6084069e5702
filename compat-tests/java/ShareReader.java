// A member of a share group. It reads until it has acknowledged COUNT records, or for SECONDS.
//   ShareReader BOOTSTRAP TOPIC GROUP implicit|explicit|keep COUNT SECONDS
//
// With "explicit" a record is acknowledged by its value: "reject..." is rejected, "poison..." is released, "renew..." is
// renewed and accepted when it comes again, all others are accepted. With "keep" the first records are kept until the end.
// Prints "OFFSET VALUE DELIVERIES" for each record, with the partition before the offset, and "committed" when all
// acknowledgements of a poll were stored.

import java.time.Duration;
import java.util.HashSet;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.serialization.StringDeserializer;

public class ShareReader {
    public static void main(String[] arguments) throws Exception {
        String mode = arguments[3];
        Properties properties = new Properties();
        properties.put("bootstrap.servers", arguments[0]);
        properties.put("group.id", arguments[2]);
        properties.put("share.acknowledgement.mode", mode.equals("implicit") ? "implicit" : "explicit");
        int count = Integer.parseInt(arguments[4]);
        long end = System.nanoTime() + Long.parseLong(arguments[5]) * 1_000_000_000L;
        try (var consumer = new KafkaShareConsumer<>(properties, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(arguments[1]));
            System.out.println("subscribed");
            int done = 0;
            var renewed = new HashSet<Long>();
            while (done < count && System.nanoTime() < end) {
                var records = consumer.poll(Duration.ofMillis(200));
                for (ConsumerRecord<String, String> record : records) {
                    System.out.println(record.partition() + ":" + record.offset() + " " + record.value() + " "
                        + record.deliveryCount().get());
                    if (mode.equals("keep")) {
                        System.out.println("kept");
                        System.out.flush();
                        Thread.sleep(Math.max(0, (end - System.nanoTime()) / 1_000_000));
                        return;
                    }
                    if (mode.equals("explicit")) {
                        AcknowledgeType type = record.value().startsWith("reject") ? AcknowledgeType.REJECT
                            : record.value().startsWith("poison") ? AcknowledgeType.RELEASE : AcknowledgeType.ACCEPT;
                        if (record.value().startsWith("renew") && renewed.add(record.offset())) {
                            type = AcknowledgeType.RENEW;
                        }
                        consumer.acknowledge(record, type);
                    }
                    done++;
                }
                if (!records.isEmpty()) {
                    for (var outcome : consumer.commitSync().entrySet()) {
                        System.out.println(outcome.getValue().map(Object::toString).orElse("committed"));
                    }
                }
                System.out.flush();
            }
        }
        System.out.println("closed");
    }
}
