import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.TableEnvironment;

/**
 * Flink SQL in one JVM: the statements of a file, each ended by a semicolon, with a checkpoint twice a second.
 *
 * Arguments: the file, the directory for checkpoints and, after a crash, the checkpoint to go on from. It runs until
 * it is killed.
 */
public final class FlinkSql {
    public static void main(String[] arguments) throws Exception {
        Configuration configuration = new Configuration();
        configuration.setString("parallelism.default", "2");
        configuration.setString("execution.checkpointing.interval", "500 ms");
        configuration.setString("execution.checkpointing.mode", "EXACTLY_ONCE");
        configuration.setString("execution.checkpointing.dir", Path.of(arguments[1]).toUri().toString());
        configuration.setString("execution.checkpointing.externalized-checkpoint-retention", "RETAIN_ON_CANCELLATION");
        if (arguments.length > 2) {
            configuration.setString("execution.state-recovery.path", Path.of(arguments[2]).toUri().toString());
        }
        TableEnvironment tables = TableEnvironment.create(
            EnvironmentSettings.newInstance().inStreamingMode().withConfiguration(configuration).build());
        for (String statement : Files.readString(Path.of(arguments[0])).split(";")) {
            if (!statement.isBlank()) {
                tables.executeSql(statement);
            }
        }
        Thread.currentThread().join();
    }
}
