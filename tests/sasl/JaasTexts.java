package org.apache.kafka.common.security;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.TreeMap;
import javax.security.auth.login.AppConfigurationEntry;

/**
 * How Apache Kafka reads texts of sasl.jaas.config. Each line of input is a text in hex; its line of output has the
 * module and the options, each in hex, or "!" if the text is refused.
 */
public class JaasTexts {
    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            out.println(read(new String(HexFormat.of().parseHex(line), StandardCharsets.UTF_8)));
        }
        out.flush();
    }

    private static String read(String text) {
        try {
            AppConfigurationEntry[] entries = new JaasConfig("name", text).getAppConfigurationEntry("name");
            if (entries.length != 1) {
                return "!";
            }
            StringBuilder found = new StringBuilder(hex(entries[0].getLoginModuleName()));
            new TreeMap<String, Object>(entries[0].getOptions()).forEach(
                (key, value) -> found.append(' ').append(hex(key)).append('=').append(hex(value.toString())));
            return found.toString();
        } catch (RuntimeException refused) {
            return "!";
        }
    }

    private static String hex(String text) {
        return HexFormat.of().formatHex(text.getBytes(StandardCharsets.UTF_8));
    }
}
