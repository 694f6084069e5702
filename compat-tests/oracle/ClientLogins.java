import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.StringReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.logging.log4j.Level;
import org.apache.logging.log4j.LogManager;
import org.apache.logging.log4j.core.LogEvent;
import org.apache.logging.log4j.core.LoggerContext;
import org.apache.logging.log4j.core.appender.AbstractAppender;
import org.apache.logging.log4j.core.config.Property;

/**
 * Java's producer, asked by lines: the path of a file with properties, and a topic. It sends one record. The answer is
 * "ok", or the errors with their causes, and what the client logged about its connection.
 * A line "set NAME VALUE" sets a property of the JVM.
 */
public class ClientLogins {
    static final List<String> WARNINGS = new CopyOnWriteArrayList<>();

    public static void main(String[] args) throws Exception {
        LoggerContext context = (LoggerContext) LogManager.getContext(false);
        AbstractAppender appender = new AbstractAppender("kept", null, null, true, Property.EMPTY_ARRAY) {
            @Override
            public void append(LogEvent event) {
                if (event.getLevel().isMoreSpecificThan(Level.WARN) && event.getLoggerName().contains("NetworkClient")) {
                    WARNINGS.add(event.getMessage().getFormattedMessage());
                }
            }
        };
        appender.start();
        context.getConfiguration().getRootLogger().addAppender(appender, Level.WARN, null);
        context.getConfiguration().getRootLogger().setLevel(Level.WARN);
        context.updateLoggers();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split("\t");
            if (words[0].equals("set")) {
                System.setProperty(words[1], words[2]);
                System.out.println("ok");
            } else {
                WARNINGS.clear();
                System.out.println(sent(words[0], words[1]).replaceAll("\\s+", " "));
            }
            System.out.flush();
        }
    }

    private static String sent(String file, String topic) throws Exception {
        Properties properties = new Properties();
        properties.load(new StringReader(Files.readString(Path.of(file))));
        try (KafkaProducer<String, String> producer =
                new KafkaProducer<>(properties, new StringSerializer(), new StringSerializer())) {
            producer.send(new ProducerRecord<>(topic, "x")).get(20, TimeUnit.SECONDS);
            return "ok";
        } catch (Exception error) {
            List<String> said = new ArrayList<>();
            for (Throwable each = error; each != null; each = each.getCause()) {
                said.add(each.getClass().getSimpleName() + ": " + each.getMessage());
            }
            WARNINGS.stream().distinct().limit(2).forEach(each -> said.add("log: " + each));
            return String.join(" | ", said);
        }
    }
}
