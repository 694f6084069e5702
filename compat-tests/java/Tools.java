import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.common.utils.internals.Exit;

/**
 * Runs the main methods of many classes in one JVM, one after the other, since starting a JVM costs more than most of
 * them. Each line of standard input is a command {"class", "arguments", "stdin"}, each line of standard output its
 * answer {"exit", "out", "err"}. What a tool prints is caught; what it logs goes to standard error.
 */
public final class Tools {
    /** Unwinds a tool that wants to end the JVM. */
    private static final class Ended extends RuntimeException {
        Ended() {
            super("", null, false, false);
        }
    }

    private static final List<Runnable> shutdownHooks = new ArrayList<>();
    /** The first code counts: some tools catch what unwinds them, and end again with another. */
    private static Integer exitCode;

    public static void main(String[] none) throws Exception {
        Exit.setExitProcedure((code, message) -> end(code));
        Exit.setHaltProcedure((code, message) -> end(code));
        Exit.setShutdownHookAdder((name, hook) -> shutdownHooks.add(hook));
        ObjectMapper json = new ObjectMapper();
        PrintStream answers = System.out;
        PrintStream log = System.err;
        InputStream commands = System.in;
        BufferedReader lines = new BufferedReader(new InputStreamReader(commands, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            JsonNode command = json.readTree(line);
            ByteArrayOutputStream out = new ByteArrayOutputStream();
            ByteArrayOutputStream err = new ByteArrayOutputStream();
            System.setOut(new PrintStream(out, true, StandardCharsets.UTF_8));
            System.setErr(new PrintStream(err, true, StandardCharsets.UTF_8));
            System.setIn(new ByteArrayInputStream(command.get("stdin").asText().getBytes(StandardCharsets.UTF_8)));
            ObjectNode answer = json.createObjectNode();
            answer.put("exit", run(command, System.err));
            System.setOut(answers);
            System.setErr(log);
            answer.put("out", out.toString(StandardCharsets.UTF_8));
            answer.put("err", err.toString(StandardCharsets.UTF_8));
            answers.println(json.writeValueAsString(answer));
            answers.flush();
        }
    }

    private static int run(JsonNode command, PrintStream err) {
        String[] arguments = new String[command.get("arguments").size()];
        for (int index = 0; index < arguments.length; index++) {
            arguments[index] = command.get("arguments").get(index).asText();
        }
        exitCode = null;
        shutdownHooks.clear();
        try {
            Class<?> tool = Class.forName(command.get("class").asText());
            tool.getMethod("main", String[].class).invoke(null, (Object) arguments);
        } catch (InvocationTargetException thrown) {
            if (!(thrown.getCause() instanceof Ended)) {
                thrown.getCause().printStackTrace(err);
                exitCode = 1;
            }
        } catch (ReflectiveOperationException missing) {
            err.println(missing);
            exitCode = 127;
        }
        shutdownHooks.forEach(Runnable::run);
        return exitCode == null ? 0 : exitCode;
    }

    private static void end(int code) {
        exitCode = exitCode == null ? code : exitCode;
        throw new Ended();
    }
}
