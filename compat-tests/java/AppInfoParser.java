package org.apache.kafka.common.utils;

/** The old name of a class that Kafka 4.4 moved: the connectors for files were published with 4.3.1 last, and use it. */
public class AppInfoParser {
    public static String getVersion() {
        return org.apache.kafka.common.utils.internals.AppInfoParser.getVersion();
    }
}
