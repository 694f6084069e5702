package org.apache.kafka.controller;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.Random;
import java.util.TreeMap;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import kafka.server.KafkaRaftServer;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.message.AlterPartitionReassignmentsRequestData;
import org.apache.kafka.common.message.AlterPartitionRequestData;
import org.apache.kafka.common.message.AssignReplicasToDirsRequestData;
import org.apache.kafka.common.message.BrokerHeartbeatRequestData;
import org.apache.kafka.common.message.BrokerHeartbeatResponseData;
import org.apache.kafka.common.message.BrokerRegistrationRequestData;
import org.apache.kafka.common.message.BrokerRegistrationResponseData;
import org.apache.kafka.common.message.CreatePartitionsRequestData;
import org.apache.kafka.common.message.CreatePartitionsResponseData;
import org.apache.kafka.common.message.ElectLeadersRequestData;
import org.apache.kafka.common.message.ListPartitionReassignmentsRequestData;
import org.apache.kafka.common.message.RequestHeaderData;
import org.apache.kafka.common.message.UnregisterBrokerRequestData;
import org.apache.kafka.common.message.UnregisterBrokerResponseData;
import org.apache.kafka.common.metadata.BrokerRegistrationChangeRecord;
import org.apache.kafka.common.metadata.ConfigRecord;
import org.apache.kafka.common.metadata.FeatureLevelRecord;
import org.apache.kafka.common.metadata.PartitionChangeRecord;
import org.apache.kafka.common.metadata.PartitionRecord;
import org.apache.kafka.common.metadata.RegisterBrokerRecord;
import org.apache.kafka.common.metadata.TopicRecord;
import org.apache.kafka.common.metadata.UnregisterBrokerRecord;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.utils.internals.LogContext;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.metadata.BrokerHeartbeatReply;
import org.apache.kafka.metadata.BrokerRegistration;
import org.apache.kafka.metadata.MetadataRecordSerde;
import org.apache.kafka.metadata.PartitionRegistration;
import org.apache.kafka.metadata.placement.StripedReplicaPlacer;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.timeline.SnapshotRegistry;

/** Kafka's controller without a quorum: requests and records in base64, one to a line; its answer, then all it knows. */
public class ControllerOracle {
    private static final long SESSION_NS = 9_000_000_000L;
    private static long nowNs;

    private final SnapshotRegistry snapshots = new SnapshotRegistry(new LogContext());
    private final FeatureControlManager features = new FeatureControlManager.Builder()
        .setSnapshotRegistry(snapshots)
        .setQuorumFeatures(new QuorumFeatures(1, QuorumFeatures.defaultSupportedFeatureMap(true), List.of(1)))
        .build();
    private final ConfigurationControlManager configs = new ConfigurationControlManager.Builder()
        .setSnapshotRegistry(snapshots)
        .setKafkaConfigSchema(KafkaRaftServer.configSchema())
        .setFeatureControl(features)
        .setNodeId(1)
        .build();
    private final ClusterControlManager cluster;
    private final ReplicationControlManager replication;
    private final Map<String, Uuid> topics = new TreeMap<>();

    private ControllerOracle(String clusterId) {
        cluster = new ClusterControlManager.Builder()
            .setClusterId(clusterId)
            .setTime(new Clock())
            .setSnapshotRegistry(snapshots)
            .setSessionTimeoutNs(SESSION_NS)
            .setReplicaPlacer(new StripedReplicaPlacer(new Random(1)))
            .setFeatureControlManager(features)
            .setBrokerShutdownHandler((id, clean, records) -> handler().handleBrokerShutdown(id, clean, records))
            .build();
        replication = new ReplicationControlManager.Builder()
            .setSnapshotRegistry(snapshots)
            .setConfigurationControl(configs)
            .setClusterControl(cluster)
            .setFeatureControl(features)
            .build();
        cluster.activate();
    }

    private ReplicationControlManager handler() {
        return replication;
    }

    public static void main(String[] arguments) throws Exception {
        ControllerOracle oracle = null;
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split("\t");
            String answer = "";
            switch (words[0]) {
                case "begin": oracle = new ControllerOracle(words[1]); break;
                case "pass": nowNs += Long.parseLong(words[1]) * 1_000_000; break;
                case "records": oracle.replay(words[1]); break;
                case "ask": answer = oracle.answer(words); break;
                case "unclean": oracle.apply(oracle.replication.maybeElectUncleanLeaders()); break;
                case "preferred": oracle.apply(oracle.replication.maybeBalancePartitionLeaders()); break;
                default: throw new IllegalArgumentException(words[0]);
            }
            System.out.println(answer + "\t" + oracle.state());
        }
    }

    /** Words: "ask", API key, version, the offset that is written next, the request. */
    private String answer(String[] words) {
        short version = Short.parseShort(words[2]);
        ByteBufferAccessor request = new ByteBufferAccessor(ByteBuffer.wrap(Base64.getDecoder().decode(words[4])));
        try {
            ApiMessage response = answer(ApiKeys.forId(Short.parseShort(words[1])), version, Long.parseLong(words[3]), request);
            return Base64.getEncoder().encodeToString(bytes(response, version));
        } catch (ApiException error) {
            return "error " + Errors.forException(error).code();
        } catch (RuntimeException error) {
            return "failed " + error;
        }
    }

    private ApiMessage answer(ApiKeys key, short version, long offset, ByteBufferAccessor request) {
        ControllerRequestContext context = new ControllerRequestContext(
            new RequestHeaderData().setRequestApiVersion(version), KafkaPrincipal.ANONYMOUS, OptionalLong.empty());
        switch (key) {
            case ALTER_PARTITION:
                return apply(replication.alterPartition(context, new AlterPartitionRequestData(request, version)));
            case ALTER_PARTITION_REASSIGNMENTS:
                return apply(replication.alterPartitionReassignments(new AlterPartitionReassignmentsRequestData(request, version)));
            case LIST_PARTITION_REASSIGNMENTS:
                return replication.listPartitionReassignments(
                    new ListPartitionReassignmentsRequestData(request, version).topics(), Long.MAX_VALUE);
            case ELECT_LEADERS:
                return apply(replication.electLeaders(new ElectLeadersRequestData(request, version)));
            case ASSIGN_REPLICAS_TO_DIRS:
                return apply(replication.handleAssignReplicasToDirs(new AssignReplicasToDirsRequestData(request, version)));
            case CREATE_PARTITIONS:
                return new CreatePartitionsResponseData().setResults(apply(
                    replication.createPartitions(context, List.copyOf(new CreatePartitionsRequestData(request, version).topics()))));
            case UNREGISTER_BROKER:
                apply(replication.unregisterBroker(new UnregisterBrokerRequestData(request, version).brokerId()));
                return new UnregisterBrokerResponseData().setErrorMessage("");
            case BROKER_REGISTRATION:
                return new BrokerRegistrationResponseData().setBrokerEpoch(apply(cluster.registerBroker(
                    new BrokerRegistrationRequestData(request, version), offset, features.finalizedFeatures(Long.MAX_VALUE), true)).epoch());
            case BROKER_HEARTBEAT:
                return heartbeat(new BrokerHeartbeatRequestData(request, version), offset);
            default:
                throw new IllegalArgumentException(key.name);
        }
    }

    /** As {@code QuorumController.processBrokerHeartbeat} does. */
    private ApiMessage heartbeat(BrokerHeartbeatRequestData request, long offset) {
        cluster.trackBrokerHeartbeat(request.brokerId(), request.brokerEpoch());
        OptionalLong registered = cluster.registerBrokerRecordOffset(request.brokerId());
        ControllerResult<BrokerHeartbeatReply> result =
            replication.processBrokerHeartbeat(request, registered.orElse(Long.MAX_VALUE));
        BrokerHeartbeatReply reply = apply(result);
        if (reply.inControlledShutdown()) {
            cluster.heartbeatManager().maybeUpdateControlledShutdownOffset(request.brokerId(), offset + result.records().size() - 1);
        }
        return new BrokerHeartbeatResponseData().setIsCaughtUp(reply.isCaughtUp()).setIsFenced(reply.isFenced())
            .setShouldShutDown(reply.shouldShutDown());
    }

    private <T> T apply(ControllerResult<T> result) {
        result.records().forEach(this::replay);
        return result.response();
    }

    private void replay(String encoded) {
        for (String each : encoded.split(",")) {
            byte[] value = Base64.getDecoder().decode(each);
            replay(MetadataRecordSerde.INSTANCE.read(new ByteBufferAccessor(ByteBuffer.wrap(value)), value.length));
        }
    }

    private void replay(ApiMessageAndVersion message) {
        ApiMessage record = message.message();
        if (record instanceof TopicRecord) {
            topics.put(((TopicRecord) record).name(), ((TopicRecord) record).topicId());
            replication.replay((TopicRecord) record);
        } else if (record instanceof PartitionRecord) {
            replication.replay((PartitionRecord) record);
        } else if (record instanceof PartitionChangeRecord) {
            replication.replay((PartitionChangeRecord) record);
        } else if (record instanceof RegisterBrokerRecord) {
            cluster.replay((RegisterBrokerRecord) record, ((RegisterBrokerRecord) record).brokerEpoch());
        } else if (record instanceof UnregisterBrokerRecord) {
            cluster.replay((UnregisterBrokerRecord) record);
        } else if (record instanceof BrokerRegistrationChangeRecord) {
            cluster.replay((BrokerRegistrationChangeRecord) record);
        } else if (record instanceof ConfigRecord) {
            configs.replay((ConfigRecord) record);
        } else if (record instanceof FeatureLevelRecord) {
            features.replay((FeatureLevelRecord) record);
        } else {
            throw new IllegalArgumentException(record.toString());
        }
    }

    private String state() {
        List<String> known = new ArrayList<>();
        for (BrokerRegistration broker : new TreeMap<>(cluster.brokerRegistrations()).values()) {
            known.add("broker " + broker.id() + " epoch=" + broker.epoch() + " fenced=" + broker.fenced()
                + " leaving=" + broker.inControlledShutdown() + " in=" + directories(broker.directories().stream().sorted(Comparator.comparing(Uuid::toString)).toList()));
        }
        topics.forEach((name, id) -> {
            int count = replication.getTopic(id).numPartitions(Long.MAX_VALUE);
            for (int index = 0; index < count; index++) {
                known.add(name + "-" + index + " " + described(replication.getPartition(id, index)));
            }
        });
        return String.join("; ", known);
    }

    private static String described(PartitionRegistration partition) {
        return "replicas=" + Arrays.toString(partition.replicas) + " in=" + directories(Arrays.asList(partition.directories))
            + " isr=" + Arrays.toString(partition.isr) + " removing=" + Arrays.toString(partition.removingReplicas)
            + " adding=" + Arrays.toString(partition.addingReplicas) + " elr=" + Arrays.toString(partition.elr)
            + " last=" + Arrays.toString(partition.lastKnownElr) + " leader=" + partition.leader
            + " recovery=" + partition.leaderRecoveryState.value() + " epochs=" + partition.leaderEpoch + "," + partition.partitionEpoch;
    }

    private static String directories(List<Uuid> ids) {
        return ids.stream().map(Uuid::toString).collect(Collectors.joining(",", "[", "]"));
    }

    private static byte[] bytes(ApiMessage message, short version) {
        return MessageUtil.byteBufferToArray(MessageUtil.toByteBufferAccessor(message, version).buffer());
    }

    private static class Clock implements Time {
        @Override
        public long milliseconds() {
            return nowNs / 1_000_000;
        }

        @Override
        public long nanoseconds() {
            return nowNs;
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
}
