import com.sun.security.auth.login.ConfigFile;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HexFormat;
import java.util.TreeMap;
import javax.security.auth.login.AppConfigurationEntry;

/**
 * How Java reads login configuration files. Each line of input is a file's text in hex; its line of output has the
 * login modules of each section that is an argument, with their options, or "!" if the file is refused.
 */
public class JaasFiles {
    public static void main(String[] sections) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Path file = Files.createTempFile("jaas", ".conf");
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            Files.write(file, HexFormat.of().parseHex(line));
            System.out.println(read(file, sections));
        }
        Files.delete(file);
    }

    private static String read(Path file, String[] sections) {
        StringBuilder found = new StringBuilder();
        try {
            ConfigFile configuration = new ConfigFile(file.toUri());
            for (String section : sections) {
                AppConfigurationEntry[] entries = configuration.getAppConfigurationEntry(section);
                if (entries == null) {
                    continue;
                }
                found.append(section);
                for (AppConfigurationEntry entry : entries) {
                    found.append(' ').append(hex(entry.getLoginModuleName()));
                    new TreeMap<String, Object>(entry.getOptions()).forEach(
                        (key, value) -> found.append(' ').append(hex(key)).append('=').append(hex(value.toString())));
                }
                found.append(';');
            }
        } catch (RuntimeException refused) {
            return "!";
        }
        return found.toString();
    }

    private static String hex(String text) {
        return HexFormat.of().formatHex(text.getBytes(StandardCharsets.UTF_8));
    }
}
