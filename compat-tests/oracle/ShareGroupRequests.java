package org.apache.kafka.coordinator.group;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.message.AlterShareGroupOffsetsRequestData;
import org.apache.kafka.common.message.AlterShareGroupOffsetsResponseData;
import org.apache.kafka.common.message.DeleteShareGroupOffsetsRequestData;
import org.apache.kafka.common.message.DeleteShareGroupOffsetsResponseData;
import org.apache.kafka.common.message.ShareGroupDescribeRequestData;
import org.apache.kafka.common.message.ShareGroupDescribeResponseData;
import org.apache.kafka.common.message.ShareGroupHeartbeatRequestData;
import org.apache.kafka.common.message.ShareGroupHeartbeatResponseData;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.requests.RequestContext;
import org.apache.kafka.server.share.persister.DeleteShareGroupStateParameters;
import org.apache.kafka.server.share.persister.InitializeShareGroupStateParameters;

/** The requests about share groups, for {@link GroupOracle}. The states that Kafka asks for are shown, not kept. */
final class ShareGroupRequests {
    private final GroupOracle oracle;

    ShareGroupRequests(GroupOracle oracle) {
        this.oracle = oracle;
    }

    void serve(RequestContext context, short key, short version, String ticket, ByteBufferAccessor in) {
        switch (ApiKeys.forId(key)) {
            case SHARE_GROUP_HEARTBEAT: {
                var request = new ShareGroupHeartbeatRequestData(in, version);
                var pair = oracle.attempt(() -> oracle.shard.shareGroupHeartbeat(context, request), error ->
                    Map.entry(new ShareGroupHeartbeatResponseData().setErrorCode(error.code())
                        .setErrorMessage(oracle.failure.getMessage()), Optional.empty()));
                oracle.reply(ticket, pair.getKey(), version);
                pair.getValue().ifPresent(this::initialize);
                break;
            }
            case SHARE_GROUP_DESCRIBE: {
                var request = new ShareGroupDescribeRequestData(in, version);
                oracle.reply(ticket, new ShareGroupDescribeResponseData()
                    .setGroups(oracle.shard.shareGroupDescribe(request.groupIds(), GroupOracle.LATEST)), version);
                break;
            }
            case ALTER_SHARE_GROUP_OFFSETS: {
                var request = new AlterShareGroupOffsetsRequestData(in, version);
                var pair = oracle.attempt(() -> oracle.shard.alterShareGroupOffsets(request.groupId(), request), error ->
                    Map.entry(new AlterShareGroupOffsetsResponseData().setErrorCode(error.code())
                        .setErrorMessage(oracle.failure.getMessage()), Optional.empty()));
                Map.Entry<?, ?> any = pair;
                oracle.reply(ticket, (Message) any.getKey(), version);
                if (any.getValue() instanceof InitializeShareGroupStateParameters states) {
                    initialize(states);
                }
                break;
            }
            case DELETE_SHARE_GROUP_OFFSETS: {
                var request = new DeleteShareGroupOffsetsRequestData(in, version);
                var holder = oracle.take(oracle.shard.initiateDeleteShareGroupOffsets(request.groupId(), request), -1);
                oracle.reply(ticket, new DeleteShareGroupOffsetsResponseData().setErrorCode(holder.topLevelErrorCode())
                    .setErrorMessage(holder.topLevelErrorMessage()).setResponses(
                        holder.errorTopicResponseList() == null ? List.of() : holder.errorTopicResponseList()), version);
                if (holder.deleteStateRequestParameters() != null) {
                    delete(holder.deleteStateRequestParameters());
                }
                break;
            }
            default:
                throw new IllegalArgumentException("API " + key);
        }
    }

    /** The share coordinator has answered. */
    void answer(String[] words) throws Exception {
        switch (words[0]) {
            case "states":
                Map<Uuid, Set<Integer>> partitions = new HashMap<>();
                for (String each : words[2].split(";")) {
                    partitions.put(Uuid.fromString(each.split("=")[0]), new TreeSet<>(
                        Arrays.stream(each.split("=")[1].split(",")).map(Integer::parseInt).toList()));
                }
                oracle.take(words[1].equals("0") ? oracle.shard.initializeShareGroupState(GroupOracle.GROUP, partitions)
                    : oracle.shard.uninitializeShareGroupState(GroupOracle.GROUP, partitions), -1);
                break;
            case "offsets":
                Map<Uuid, String> names = new HashMap<>();
                for (String each : words[2].split(";")) {
                    names.put(Uuid.fromString(each.split("=")[0]), each.split("=")[1]);
                }
                oracle.reply(words[1], oracle.take(
                    oracle.shard.completeDeleteShareGroupOffsets(GroupOracle.GROUP, names, new ArrayList<>()), -1), (short) 0);
                break;
            default:
                throw new IllegalArgumentException(words[0]);
        }
    }

    private void initialize(InitializeShareGroupStateParameters states) {
        Map<String, String> topics = new TreeMap<>();
        int[] epoch = {0};
        for (var topic : states.groupTopicPartitionData().topicsData()) {
            topics.put(topic.topicId().toString(), String.join(",", topic.partitions().stream().map(each -> {
                epoch[0] = each.stateEpoch();
                return each.partition() + ":" + each.startOffset();
            }).sorted().toList()));
        }
        show("S " + epoch[0] + " ", topics);
    }

    void delete(DeleteShareGroupStateParameters states) {
        Map<String, String> topics = new TreeMap<>();
        if (states.groupTopicPartitionData() != null) {
            for (var topic : states.groupTopicPartitionData().topicsData()) {
                topics.put(topic.topicId().toString(), String.join(",",
                    topic.partitions().stream().map(each -> "" + each.partition()).sorted().toList()));
            }
        }
        show("S ", topics);
    }

    private void show(String what, Map<String, String> topics) {
        if (!topics.isEmpty()) {
            oracle.output.add(what + String.join(";", topics.entrySet().stream().map(
                each -> each.getKey() + "=" + each.getValue()).toList()));
        }
    }
}
