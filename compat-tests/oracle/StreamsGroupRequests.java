package org.apache.kafka.coordinator.group;

import org.apache.kafka.common.message.StreamsGroupDescribeRequestData;
import org.apache.kafka.common.message.StreamsGroupDescribeResponseData;
import org.apache.kafka.common.message.StreamsGroupHeartbeatRequestData;
import org.apache.kafka.common.message.StreamsGroupHeartbeatResponseData;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.requests.RequestContext;
import org.apache.kafka.coordinator.group.streams.StreamsGroupHeartbeatResult;

/** The requests about streams groups, for {@link GroupOracle}. The topics that Kafka would create are shown. */
final class StreamsGroupRequests {
    private final GroupOracle oracle;

    StreamsGroupRequests(GroupOracle oracle) {
        this.oracle = oracle;
    }

    void serve(RequestContext context, short key, short version, String ticket, ByteBufferAccessor in) {
        switch (ApiKeys.forId(key)) {
            case STREAMS_GROUP_HEARTBEAT: {
                var request = new StreamsGroupHeartbeatRequestData(in, version);
                var result = oracle.attempt(() -> oracle.shard.streamsGroupHeartbeat(context, request), error ->
                    StreamsGroupHeartbeatResult.forError(new StreamsGroupHeartbeatResponseData().setErrorCode(error.code())
                        .setErrorMessage(error == Errors.UNKNOWN_SERVER_ERROR ? null : oracle.failure.getMessage())));
                result.creatableTopics().values().forEach(each -> oracle.output.add("T " + each.name() + " "
                    + each.numPartitions() + " " + each.replicationFactor() + " " + String.join(",", each.configs()
                        .stream().map(config -> config.name() + "=" + config.value()).sorted().toList())));
                oracle.reply(ticket, result.data(), version);
                break;
            }
            case STREAMS_GROUP_DESCRIBE: {
                var request = new StreamsGroupDescribeRequestData(in, version);
                oracle.reply(ticket, new StreamsGroupDescribeResponseData()
                    .setGroups(oracle.shard.streamsGroupDescribe(request.groupIds(), GroupOracle.LATEST)
                        .describedGroups()), version);
                break;
            }
            default:
                throw new IllegalArgumentException("API " + key);
        }
    }
}
