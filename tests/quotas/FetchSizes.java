package org.apache.kafka.common.requests;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.message.FetchResponseData;
import org.apache.kafka.common.protocol.ByteBufferAccessor;

/**
 * The size that Apache Kafka's quotas charge for a Fetch response. Each line of input has the version and the response
 * in hex; its line of output has the size.
 */
public class FetchSizes {
    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ");
            short version = Short.parseShort(words[0]);
            ByteBuffer bytes = ByteBuffer.wrap(HexFormat.of().parseHex(words[1]));
            FetchResponseData response = new FetchResponseData(new ByteBufferAccessor(bytes), version);
            Map<TopicIdPartition, FetchResponseData.PartitionData> partitions = new LinkedHashMap<>();
            response.responses().forEach(topic -> topic.partitions().forEach(each -> partitions.put(
                new TopicIdPartition(topic.topicId(), each.partitionIndex(), topic.topic()), each)));
            System.out.println(FetchResponse.sizeOf(version, partitions.entrySet().iterator()));
        }
    }
}
