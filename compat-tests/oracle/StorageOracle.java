// kafka-storage.sh without a JVM for each command: one JSON array of arguments per line of standard input, one JSON
// object {"code": .., "said": ..} per line of standard output. What the tool refuses is in "said" as the tool prints it.

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import kafka.tools.StorageTool;

public class StorageOracle {
    public static void main(String[] arguments) throws Exception {
        var json = new ObjectMapper();
        var input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            var said = new ByteArrayOutputStream();
            int code;
            var printed = new PrintStream(said, true, StandardCharsets.UTF_8);
            try {
                code = StorageTool.execute(json.readValue(line, String[].class), printed);
            } catch (Throwable refused) {
                code = 1;
                printed.print(refused.getMessage());
            }
            var answer = json.createObjectNode().put("code", code).put("said", said.toString(StandardCharsets.UTF_8));
            System.out.println(json.writeValueAsString(answer));
        }
    }
}
