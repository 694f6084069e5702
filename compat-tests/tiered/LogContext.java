package org.apache.kafka.common.utils;

import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The class of Kafka 4.3 by which LocalTieredStorage gets its logger. In Kafka 4.4 it is in another package. */
public class LogContext {
    public LogContext(String prefix) {
    }

    public Logger logger(Class<?> owner) {
        return LoggerFactory.getLogger(owner);
    }
}
