package org.apache.kafka.coordinator.group;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.InetAddress;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.message.ConsumerGroupDescribeRequestData;
import org.apache.kafka.common.message.ConsumerGroupDescribeResponseData;
import org.apache.kafka.common.message.ConsumerGroupHeartbeatRequestData;
import org.apache.kafka.common.message.ConsumerGroupHeartbeatResponseData;
import org.apache.kafka.common.message.DeleteGroupsRequestData;
import org.apache.kafka.common.message.DeleteGroupsResponseData;
import org.apache.kafka.common.message.DescribeGroupsRequestData;
import org.apache.kafka.common.message.DescribeGroupsResponseData;
import org.apache.kafka.common.message.HeartbeatRequestData;
import org.apache.kafka.common.message.HeartbeatResponseData;
import org.apache.kafka.common.message.JoinGroupResponseData;
import org.apache.kafka.common.message.LeaveGroupRequestData;
import org.apache.kafka.common.message.LeaveGroupResponseData;
import org.apache.kafka.common.message.ListGroupsRequestData;
import org.apache.kafka.common.message.ListGroupsResponseData;
import org.apache.kafka.common.message.OffsetCommitRequestData;
import org.apache.kafka.common.message.OffsetDeleteRequestData;
import org.apache.kafka.common.message.OffsetDeleteResponseData;
import org.apache.kafka.common.message.OffsetFetchRequestData;
import org.apache.kafka.common.message.OffsetFetchResponseData;
import org.apache.kafka.common.message.SyncGroupRequestData;
import org.apache.kafka.common.message.SyncGroupResponseData;
import org.apache.kafka.common.message.TxnOffsetCommitRequestData;
import org.apache.kafka.common.metadata.PartitionRecord;
import org.apache.kafka.common.metadata.RemoveTopicRecord;
import org.apache.kafka.common.metadata.TopicRecord;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.network.ClientInformation;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.requests.JoinGroupRequest;
import org.apache.kafka.common.requests.JoinGroupResponse;
import org.apache.kafka.common.requests.LeaveGroupRequest;
import org.apache.kafka.common.requests.LeaveGroupResponse;
import org.apache.kafka.common.requests.OffsetCommitRequest;
import org.apache.kafka.common.requests.RequestContext;
import org.apache.kafka.common.requests.RequestHeader;
import org.apache.kafka.common.requests.TransactionResult;
import org.apache.kafka.common.requests.TxnOffsetCommitRequest;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.utils.internals.LogContext;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.coordinator.common.runtime.CoordinatorExecutor;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.common.runtime.CoordinatorResult;
import org.apache.kafka.coordinator.common.runtime.CoordinatorTimer;
import org.apache.kafka.coordinator.common.runtime.KRaftCoordinatorMetadataDelta;
import org.apache.kafka.coordinator.common.runtime.KRaftCoordinatorMetadataImage;
import org.apache.kafka.coordinator.group.classic.ClassicGroup;
import org.apache.kafka.coordinator.group.metrics.GroupCoordinatorMetrics;
import org.apache.kafka.coordinator.group.modern.consumer.ConsumerGroup;
import org.apache.kafka.coordinator.group.modern.share.ShareGroupConfig;
import org.apache.kafka.coordinator.group.streams.StreamsGroup;
import org.apache.kafka.image.MetadataDelta;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.image.MetadataProvenance;
import org.apache.kafka.image.TopicImage;
import org.apache.kafka.timeline.SnapshotRegistry;

/**
 * Apache Kafka's own group coordinator, one shard of it, by lines of text; time stands still until it is moved. Each
 * line of input, tab-separated, gets one line of output:
 *
 * <pre>
 * reset   DELAY MAX_SIZE CONFIGS  a new shard with these two configs and others (NAME=VALUE;...), at time 1 000 000
 * topic   NAME ID PARTITIONS    a topic is created, or has more partitions
 * drop    NAME                  a topic is deleted; "topics" says what becomes of its offsets
 * group   NAME VALUE            the group "g" has a config of its own
 * run                           the tasks of the executor run: regular expressions are resolved
 * do      KEY VERSION TICKET HEX  a request's body
 * next                          the time of the next timer
 * advance TIME                  moves the clock and lets timers fire
 * expire                        looks for offsets and groups that expire
 * topics  NAMES                 topics are deleted
 * states  CODE PARTITIONS       these states were initialised, or with a code, could not be: ID=0,1;ID=0
 * offsets TICKET TOPICS         the states of these topics were deleted: ID=NAME;ID=NAME
 * marker  PRODUCER COMMIT       a transaction ends
 * load    KEY VALUE             a record stands in the log, from the next restart on
 * restart                       a new shard is made of the records
 * </pre>
 *
 * The output has, tab-separated, "A TICKET HEX" for each answer, "W KEY VALUE" for each record, "L LEADER", "M" with
 * all ids of members of the group "g", pending ones too, and "T NAME PARTITIONS REPLICATION_FACTOR CONFIGS" for each
 * internal topic that a streams group lacks; "S EPOCH ID=PARTITION:OFFSET,...;..." for states of a share group to
 * initialise, and "S ID=PARTITION,...;..." for those to delete.
 */
public class GroupOracle {
    private static final HexFormat HEX = HexFormat.of();
    static final String GROUP = "g";
    static final long LATEST = Long.MAX_VALUE;

    private final GroupCoordinatorRecordSerde serde = new GroupCoordinatorRecordSerde();
    private final List<Object[]> log = new ArrayList<>();
    final List<String> output = new ArrayList<>();
    private final GroupCoordinatorConfig config;
    private final GroupConfigManager groupConfigs;
    private final List<Task<?>> tasks = new ArrayList<>();
    private final ShareGroupRequests shareGroups = new ShareGroupRequests(this);
    private final StreamsGroupRequests streamsGroups = new StreamsGroupRequests(this);
    private MetadataImage image = MetadataImage.EMPTY;
    private final Map<String, Uuid> dropped = new HashMap<>();
    private long metadataOffset;
    RuntimeException failure;
    private final Clock clock = new Clock();
    private Timers timers;
    private SnapshotRegistry snapshots;
    private GroupMetadataManager groups;
    GroupCoordinatorShard shard;

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        GroupOracle oracle = null;
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split("\t", -1);
            if (words[0].equals("reset")) {
                oracle = new GroupOracle(words[1], words[2], words.length > 3 ? words[3] : "");
            }
            out.println(oracle.answer(words));
            out.flush();
        }
    }

    private GroupOracle(String delay, String maxSize, String others) {
        Map<String, String> configs = new HashMap<>();
        configs.put(GroupCoordinatorConfig.GROUP_INITIAL_REBALANCE_DELAY_MS_CONFIG, delay);
        configs.put(GroupCoordinatorConfig.GROUP_MAX_SIZE_CONFIG, maxSize);
        for (String each : others.isEmpty() ? new String[0] : others.split(";")) {
            configs.put(each.split("=")[0], each.split("=")[1]);
        }
        config = GroupCoordinatorConfig.fromProps(configs);
        ShareGroupConfig shareConfig = ShareGroupConfig.fromProps(Map.of());
        groupConfigs = new GroupConfigManager(config, shareConfig);
        open();
    }

    private void open() {
        LogContext context = new LogContext();
        snapshots = new SnapshotRegistry(context);
        GroupCoordinatorMetrics metrics = new GroupCoordinatorMetrics(
            new com.yammer.metrics.core.MetricsRegistry(), new Metrics());
        var metricsShard = metrics.newMetricsShard(snapshots, new TopicPartition("__consumer_offsets", 0));
        timers = new Timers();
        tasks.clear();
        groups = new GroupMetadataManager.Builder()
            .withLogContext(context).withSnapshotRegistry(snapshots).withTime(clock).withTimer(timers)
            .withExecutor(new Executor()).withConfig(config).withGroupConfigManager(groupConfigs)
            .withMetadataImage(new KRaftCoordinatorMetadataImage(image)).withGroupCoordinatorMetricsShard(metricsShard)
            .withAuthorizerPlugin(Optional.empty()).build();
        OffsetMetadataManager offsets = new OffsetMetadataManager.Builder()
            .withLogContext(context).withSnapshotRegistry(snapshots).withTime(clock)
            .withGroupMetadataManager(groups).withGroupCoordinatorConfig(config)
            .withGroupCoordinatorMetricsShard(metricsShard).build();
        shard = new GroupCoordinatorShard(
            context, groups, offsets, clock, timers, config, metrics, metricsShard);
        for (int offset = 0; offset < log.size(); offset++) {
            Object[] entry = log.get(offset);
            if (entry[0] == null) {
                shard.replayEndTransactionMarker((long) entry[1], (short) 0, (TransactionResult) entry[2]);
            } else {
                CoordinatorRecord record = serde.deserialize(
                    ByteBuffer.wrap((byte[]) entry[0]), entry[2] == null ? null : ByteBuffer.wrap((byte[]) entry[2]));
                shard.replay(offset, (long) entry[1], (short) 0, record);
            }
        }
        shard.onLoaded(new KRaftCoordinatorMetadataImage(image));
    }

    private String answer(String[] words) throws Exception {
        output.clear();
        switch (words[0]) {
            case "reset":
                break;
            case "do":
                serve(Short.parseShort(words[1]), Short.parseShort(words[2]), words[3], HEX.parseHex(words[4]));
                break;
            case "next":
                return timers.next();
            case "advance":
                clock.now = Long.parseLong(words[1]);
                timers.fire();
                break;
            case "expire":
                take(shard.cleanupGroupMetadata(), -1);
                break;
            case "topics":
                take(shard.maybeCleanupShareGroupState(Set.copyOf(Arrays.stream(words[1].split(","))
                    .map(name -> dropped.getOrDefault(name, Uuid.ZERO_UUID)).toList())), -1);
                take(shard.onTopicsDeleted(Arrays.stream(words[1].split(","))
                    .map(name -> new GroupCoordinatorShard.DeletedTopic(
                        dropped.getOrDefault(name, Uuid.ZERO_UUID), name)).toList()), -1);
                break;
            case "marker":
                TransactionResult result = TransactionResult.forId(words[2].equals("1"));
                log.add(new Object[] {null, Long.parseLong(words[1]), result});
                shard.replayEndTransactionMarker(Long.parseLong(words[1]), (short) 0, result);
                break;
            case "load":
                log.add(new Object[] {HEX.parseHex(words[1]), -1L, words[2].equals("-") ? null : HEX.parseHex(words[2])});
                break;
            case "topic":
                change(delta -> {
                    Uuid id = Uuid.fromString(words[2]);
                    TopicImage before = image.topics().getTopic(words[1]);
                    int known = before == null ? 0 : before.partitions().size();
                    if (before == null) {
                        delta.replay(new TopicRecord().setName(words[1]).setTopicId(id));
                    }
                    for (int index = known; index < Integer.parseInt(words[3]); index++) {
                        delta.replay(new PartitionRecord().setTopicId(id).setPartitionId(index)
                            .setReplicas(List.of(0)).setIsr(List.of(0)).setLeader(0));
                    }
                });
                break;
            case "drop":
                dropped.put(words[1], image.topics().getTopic(words[1]).id());
                change(delta -> delta.replay(
                    new RemoveTopicRecord().setTopicId(image.topics().getTopic(words[1]).id())));
                break;
            case "group":
                Properties properties = new Properties();
                properties.setProperty(words[1], words[2]);
                groupConfigs.updateGroupConfig(GROUP, properties);
                break;
            case "run":
                for (Task<?> task : List.copyOf(tasks)) {
                    tasks.remove(task);
                    task.run();
                }
                break;
            case "states", "offsets":
                shareGroups.answer(words);
                break;
            case "restart":
                open();
                break;
            default:
                throw new IllegalArgumentException(words[0]);
        }
        describe();
        return String.join("\t", output);
    }

    private void change(java.util.function.Consumer<MetadataDelta> replay) {
        MetadataDelta delta = new MetadataDelta.Builder().setImage(image).build();
        replay.accept(delta);
        image = delta.apply(new MetadataProvenance(++metadataOffset, 0, 0, true));
        shard.onMetadataUpdate(new KRaftCoordinatorMetadataDelta(delta), new KRaftCoordinatorMetadataImage(image));
    }

    private void describe() throws Exception {
        try {
            Group known = groups.group(GROUP, LATEST);
            if (known instanceof ConsumerGroup || known instanceof StreamsGroup) {
                output.add("M " + String.join(",", known instanceof ConsumerGroup consumer
                    ? consumer.members().keySet() : ((StreamsGroup) known).members().keySet()));
                return;
            }
            ClassicGroup group = groups.classicGroup(GROUP, LATEST);
            output.add("L " + (group.leaderOrNull() == null ? "" : group.leaderOrNull()));
            var pending = ClassicGroup.class.getDeclaredField("pendingJoinMembers");
            pending.setAccessible(true);
            List<String> ids = new ArrayList<>(group.allMemberIds());
            for (Object id : (Iterable<?>) pending.get(group)) {
                ids.add((String) id);
            }
            output.add("M " + String.join(",", ids));
        } catch (org.apache.kafka.common.errors.GroupIdNotFoundException missing) {
            output.add("M ");
        }
    }

    private void serve(short key, short version, String ticket, byte[] body) throws Exception {
        ByteBufferAccessor in = new ByteBufferAccessor(ByteBuffer.wrap(body));
        RequestContext context = new RequestContext(
            new RequestHeader(ApiKeys.forId(key), version, "client", 0), "0", InetAddress.getByName("127.0.0.1"),
            KafkaPrincipal.ANONYMOUS, new ListenerName("L"), SecurityProtocol.PLAINTEXT, ClientInformation.EMPTY, false);
        switch (ApiKeys.forId(key)) {
            case JOIN_GROUP: {
                var future = new CompletableFuture<JoinGroupResponseData>();
                future.thenAccept(data -> reply(ticket, new JoinGroupResponse(data, version).data(), version));
                var request = JoinGroupRequest.parse(in, version).data();
                attempt(() -> shard.classicGroupJoin(context, request, future, true), error ->
                    future.complete(new JoinGroupResponseData().setErrorCode(error.code())));
                break;
            }
            case SYNC_GROUP: {
                var future = new CompletableFuture<SyncGroupResponseData>();
                future.thenAccept(data -> reply(ticket, data, version));
                var request = new SyncGroupRequestData(in, version);
                attempt(() -> shard.classicGroupSync(context, request, future), error ->
                    future.complete(new SyncGroupResponseData().setErrorCode(error.code())));
                break;
            }
            case HEARTBEAT: {
                var request = new HeartbeatRequestData(in, version);
                reply(ticket, attempt(() -> shard.classicGroupHeartbeat(context, request), error ->
                    new HeartbeatResponseData().setErrorCode(error.code())), version);
                break;
            }
            case LEAVE_GROUP: {
                LeaveGroupRequestData request = LeaveGroupRequest.parse(in, version).normalizedData();
                var data = attempt(() -> shard.classicGroupLeave(context, request), error ->
                    new LeaveGroupResponseData().setMembers(request.members().stream().map(member ->
                        new LeaveGroupResponseData.MemberResponse().setMemberId(member.memberId())
                            .setGroupInstanceId(member.groupInstanceId()).setErrorCode(error.code())).toList()));
                reply(ticket, new LeaveGroupResponse(data, version).data(), version);
                break;
            }
            case OFFSET_COMMIT: {
                var request = new OffsetCommitRequestData(in, version);
                request.topics().stream().filter(each -> image.topics().getTopic(each.name()) != null).forEach(
                    each -> each.setTopicId(image.topics().getTopic(each.name()).id()));  // as KafkaApis does
                reply(ticket, attempt(() -> shard.commitOffset(context, request), error ->
                    OffsetCommitRequest.getErrorResponse(request, error)), version);
                break;
            }
            case TXN_OFFSET_COMMIT: {
                var request = new TxnOffsetCommitRequestData(in, version);
                for (var each : request.topics()) {  // as KafkaApis does
                    if (version >= 6) {
                        each.setName(image.topics().getTopic(each.topicId()).name());
                    } else if (image.topics().getTopic(each.name()) != null) {
                        each.setTopicId(image.topics().getTopic(each.name()).id());
                    }
                }
                reply(ticket, attempt(() -> shard.commitTransactionalOffset(context, request), error ->
                    TxnOffsetCommitRequest.getErrorResponse(request, error), request.producerId()), version);
                break;
            }
            case OFFSET_FETCH: {
                var request = new OffsetFetchRequestData(in, version);
                var group = request.groups().get(0);
                snapshots.idempotentCreateSnapshot(log.size());
                long epoch = request.requireStable() ? LATEST : log.size();
                OffsetFetchResponseData.OffsetFetchResponseGroup found;
                try {
                    found = shard.fetchOffsets(group, epoch);
                } catch (org.apache.kafka.common.errors.ApiException error) {
                    found = new OffsetFetchResponseData.OffsetFetchResponseGroup().setGroupId(group.groupId())
                        .setErrorCode(Errors.forException(error).code());
                }
                reply(ticket, new OffsetFetchResponseData().setGroups(List.of(found)), version);
                snapshots.deleteSnapshot(log.size());
                break;
            }
            case OFFSET_DELETE: {
                var request = new OffsetDeleteRequestData(in, version);
                reply(ticket, attempt(() -> shard.deleteOffsets(context, request), error ->
                    new OffsetDeleteResponseData().setErrorCode(error.code())), version);
                break;
            }
            case CONSUMER_GROUP_HEARTBEAT: {
                var request = new ConsumerGroupHeartbeatRequestData(in, version);
                reply(ticket, attempt(() -> shard.consumerGroupHeartbeat(context, request), error ->
                    new ConsumerGroupHeartbeatResponseData().setErrorCode(error.code())
                        .setErrorMessage(failure.getMessage())), version);
                break;
            }
            case CONSUMER_GROUP_DESCRIBE: {
                var request = new ConsumerGroupDescribeRequestData(in, version);
                reply(ticket, new ConsumerGroupDescribeResponseData()
                    .setGroups(shard.consumerGroupDescribe(request.groupIds(), LATEST)), version);
                break;
            }
            case STREAMS_GROUP_HEARTBEAT, STREAMS_GROUP_DESCRIBE:
                streamsGroups.serve(context, key, version, ticket, in);
                break;
            case DESCRIBE_GROUPS: {
                var request = new DescribeGroupsRequestData(in, version);
                reply(ticket, new DescribeGroupsResponseData()
                    .setGroups(shard.describeGroups(context, request.groups(), LATEST)), version);
                break;
            }
            case LIST_GROUPS: {
                var request = new ListGroupsRequestData(in, version);
                reply(ticket, new ListGroupsResponseData().setGroups(
                    shard.listGroups(request.statesFilter(), request.typesFilter(), LATEST)), version);
                break;
            }
            case DELETE_GROUPS: {
                var request = new DeleteGroupsRequestData(in, version);
                take(shard.sharePartitionDeleteRequests(request.groupsNames()), -1).values().forEach(
                    each -> shareGroups.delete(each.getKey()));
                reply(ticket, new DeleteGroupsResponseData().setResults(
                    attempt(() -> shard.deleteGroups(context, request.groupsNames()), error -> null)), version);
                break;
            }
            default:
                shareGroups.serve(context, key, version, ticket, in);
        }
    }

    <T> T attempt(
        Supplier<CoordinatorResult<T, CoordinatorRecord>> operation, java.util.function.Function<Errors, Object> onError
    ) {
        return attempt(operation, onError, -1);
    }

    @SuppressWarnings("unchecked")
    private <T> T attempt(
        Supplier<CoordinatorResult<T, CoordinatorRecord>> operation, java.util.function.Function<Errors, Object> onError,
        long producerId
    ) {
        try {
            return take(operation.get(), producerId);
        } catch (RuntimeException error) {
            failure = error;
            Object answer = onError.apply(Errors.forException(error));
            return answer instanceof Boolean ? null : (T) answer;
        }
    }

    <T> T take(CoordinatorResult<T, CoordinatorRecord> result, long producerId) {
        for (CoordinatorRecord record : result.records()) {
            byte[] key = serde.serializeKey(record);
            byte[] value = serde.serializeValue(record);
            output.add("W " + HEX.formatHex(key) + " " + (value == null ? "-" : HEX.formatHex(value)));
            if (result.replayRecords()) {
                shard.replay(log.size(), producerId, (short) 0, record);
            }
            log.add(new Object[] {key, producerId, value});
        }
        if (result.appendFuture() != null) {
            result.appendFuture().complete(null);
        }
        return result.response();
    }

    void reply(String ticket, Message message, short version) {
        ByteBuffer bytes = MessageUtil.toByteBufferAccessor(message, version).buffer();
        byte[] body = new byte[bytes.remaining()];
        bytes.get(body);
        output.add("A " + ticket + " " + HEX.formatHex(body));
    }

    private static final class Clock implements Time {
        private long now = 1_000_000;

        @Override
        public long milliseconds() {
            return now;
        }

        @Override
        public long nanoseconds() {
            return now * 1_000_000;
        }

        @Override
        public void sleep(long ms) {
            throw new UnsupportedOperationException();
        }

        @Override
        public void waitObject(Object object, Supplier<Boolean> condition, long deadlineMs) {
            throw new UnsupportedOperationException();
        }
    }

    private record Entry(long deadline, long number, CoordinatorTimer.TimeoutOperation<CoordinatorRecord> operation) {
    }

    private final class Timers implements CoordinatorTimer<CoordinatorRecord> {
        private final Map<String, Entry> entries = new HashMap<>();
        private long number;

        private String next() {
            return entries.entrySet().stream().filter(each -> isOfMembers(each.getKey()))
                .map(each -> each.getValue().deadline).min(Long::compare).map(String::valueOf).orElse("");
        }

        private boolean isOfMembers(String key) {
            return !key.startsWith("expire-group-metadata") && !key.startsWith("group-size-counter");
        }

        private void fire() {
            while (true) {
                var due = entries.entrySet().stream()
                    .filter(each -> isOfMembers(each.getKey()) && each.getValue().deadline <= clock.now)
                    .min((a, b) -> a.getValue().deadline != b.getValue().deadline
                        ? Long.compare(a.getValue().deadline, b.getValue().deadline)
                        : Long.compare(a.getValue().number, b.getValue().number));
                if (due.isEmpty()) {
                    return;
                }
                entries.remove(due.get().getKey());
                take(due.get().getValue().operation.generateRecords(), -1);
            }
        }

        @Override
        public void schedule(
            String key, long delay, TimeUnit unit, boolean retry, TimeoutOperation<CoordinatorRecord> operation
        ) {
            entries.put(key, new Entry(clock.now + unit.toMillis(delay), number++, operation));
        }

        @Override
        public void schedule(
            String key, long delay, TimeUnit unit, boolean retry, long backoff,
            TimeoutOperation<CoordinatorRecord> operation
        ) {
            schedule(key, delay, unit, retry, operation);
        }

        @Override
        public void scheduleIfAbsent(
            String key, long delay, TimeUnit unit, boolean retry, TimeoutOperation<CoordinatorRecord> operation
        ) {
            if (!entries.containsKey(key)) {
                schedule(key, delay, unit, retry, operation);
            }
        }

        @Override
        public void cancel(String key) {
            entries.remove(key);
        }

        @Override
        public boolean isScheduled(String key) {
            return entries.containsKey(key);
        }
    }

    private final class Task<R> {
        private final String key;
        private final CoordinatorExecutor.TaskRunnable<R> task;
        private final CoordinatorExecutor.TaskOperation<CoordinatorRecord, R> operation;

        private Task(
            String key, CoordinatorExecutor.TaskRunnable<R> task,
            CoordinatorExecutor.TaskOperation<CoordinatorRecord, R> operation
        ) {
            this.key = key;
            this.task = task;
            this.operation = operation;
        }

        private void run() {
            R result = null;
            Throwable thrown = null;
            try {
                result = task.run();
            } catch (Throwable error) {
                thrown = error;
            }
            take(operation.onComplete(result, thrown), -1);
        }
    }

    private final class Executor implements CoordinatorExecutor<CoordinatorRecord> {
        @Override
        public <R> boolean schedule(String key, TaskRunnable<R> task, TaskOperation<CoordinatorRecord, R> operation) {
            if (isScheduled(key)) {
                return false;
            }
            tasks.add(new Task<>(key, task, operation));
            return true;
        }

        @Override
        public boolean isScheduled(String key) {
            return tasks.stream().anyMatch(each -> each.key.equals(key));
        }

        @Override
        public void cancel(String key) {
            tasks.removeIf(each -> each.key.equals(key));
        }
    }
}
