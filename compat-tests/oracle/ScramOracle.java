package org.apache.kafka.metadata.storage;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.Base64;
import java.util.List;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.metadata.MetadataRecordSerde;
import org.apache.kafka.server.common.ApiMessageAndVersion;

/** Kafka's reading of {@code --add-scram}: an argument in base64 to a line; its record in base64, or its error. */
public class ScramOracle {
    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            try {
                ApiMessageAndVersion record = ScramParser.parse(List.of(new String(Base64.getDecoder().decode(line), "UTF-8"))).get(0);
                ObjectSerializationCache cache = new ObjectSerializationCache();
                ByteBuffer buffer = ByteBuffer.allocate(MetadataRecordSerde.INSTANCE.recordSize(record, cache));
                MetadataRecordSerde.INSTANCE.write(record, cache, new ByteBufferAccessor(buffer));
                System.out.println("record " + Base64.getEncoder().encodeToString(buffer.array()));
            } catch (FormatterException error) {
                System.out.println("error " + error.getMessage());
            }
        }
    }
}
