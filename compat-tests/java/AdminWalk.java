import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.lang.reflect.Proxy;
import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.admin.AlterConfigOp.OpType;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.GroupState;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicCollection;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionReplica;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.metrics.KafkaMetric;
import org.apache.kafka.common.quota.ClientQuotaAlteration;
import org.apache.kafka.common.quota.ClientQuotaEntity;
import org.apache.kafka.common.quota.ClientQuotaFilter;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;

/**
 * Walks every method of Java's Admin on a broker: arguments are its address and a name for what it creates. Prints a
 * line for each step: its name, the methods it calls and what came of it, with tabulators between; at last the methods
 * that no step has called.
 */
public final class AdminWalk {
    private interface Step {
        Object run() throws Exception;
    }

    private static final Set<String> called = new TreeSet<>();
    private static final Set<String> calledInStep = new TreeSet<>();
    private final Admin admin;
    private final String name;
    private final String topic;

    private AdminWalk(Admin admin, String name) {
        this.admin = admin;
        this.name = name;
        this.topic = name + "-topic";
    }

    public static void main(String[] arguments) {
        Map<String, Object> config = Map.of(
            "bootstrap.servers", arguments[0], "client.id", "walk", "default.api.timeout.ms", "4000", "request.timeout.ms", "3000");
        try (Admin real = Admin.create(config)) {
            AdminWalk walk = new AdminWalk(noting(real), arguments[1]);
            walk.topics();
            walk.cluster();
            walk.configs();
            walk.logs();
            walk.groups();
            walk.newGroups();
            walk.security();
            walk.transactions();
            walk.end();
        }
        Set<String> missed = Stream.of(Admin.class.getMethods())
            .filter(method -> !Modifier.isStatic(method.getModifiers()))
            .map(Method::getName).filter(method -> !called.contains(method) && !method.equals("close"))
            .collect(Collectors.toCollection(TreeSet::new));
        System.out.println("not walked\t\t" + missed);
    }

    private static Admin noting(Admin real) {
        return (Admin) Proxy.newProxyInstance(Admin.class.getClassLoader(), new Class<?>[] {Admin.class}, (proxy, method, given) -> {
            called.add(method.getName());
            calledInStep.add(method.getName());
            try {
                return method.invoke(real, given);
            } catch (InvocationTargetException thrown) {
                throw thrown.getCause();
            }
        });
    }

    private void topics() {
        NewTopic wanted = new NewTopic(topic, 2, (short) 1).configs(Map.of("retention.ms", "90000"));
        step("create a topic", () -> {
            CreateTopicsResult result = admin.createTopics(List.of(wanted));
            return List.of(result.numPartitions(topic), result.replicationFactor(topic),
                result.config(topic).thenApply(described -> described.get("retention.ms")));
        });
        step("create topics wrongly", () -> admin.createTopics(List.of(wanted, new NewTopic("no topic", 1, (short) 1),
            new NewTopic(name + "-few", 1, (short) 3), new NewTopic(name + "-odd", Map.of(0, List.of(77))))).values());
        step("create a topic by way of trial", () -> admin.createTopics(
            List.of(new NewTopic(name + "-trial", Optional.empty(), Optional.empty())), new CreateTopicsOptions().validateOnly(true)).all());
        awaitTopic();
        step("list topics", () -> admin.listTopics(new ListTopicsOptions().listInternal(true)).names().thenApply(
            names -> names.stream().filter(each -> each.startsWith(name)).collect(Collectors.toList())));
        step("describe topics", () -> admin.describeTopics(List.of(topic, name + "-none"),
            new DescribeTopicsOptions().includeAuthorizedOperations(true)).topicNameValues());
        step("describe a topic by id", () -> admin.describeTopics(TopicCollection.ofTopicIds(List.of(id()))).allTopicIds()
            .thenApply(found -> found.values().stream().map(TopicDescription::name).collect(Collectors.toList())));
        step("describe a topic by an unknown id", () -> admin.describeTopics(
            TopicCollection.ofTopicIds(List.of(Uuid.fromString("AAECAwQFBgcICQoLDA0ODw")))).allTopicIds());
        step("add partitions", () -> admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(3))).all());
        step("add partitions wrongly", () -> admin.createPartitions(Map.of(
            topic, NewPartitions.increaseTo(1), name + "-none", NewPartitions.increaseTo(3))).values());
        step("elect preferred leaders", () -> admin.electLeaders(ElectionType.PREFERRED,
            Set.of(partition(0), partition(9), new TopicPartition(name + "-none", 0))).partitions());
        step("elect any leaders", () -> admin.electLeaders(ElectionType.UNCLEAN, Set.of(partition(1))).partitions());
        step("elect all leaders", () -> admin.electLeaders(ElectionType.PREFERRED, null).partitions());
        step("list reassignments", () -> admin.listPartitionReassignments().reassignments());
        step("list reassignments of partitions", () -> admin.listPartitionReassignments(Set.of(partition(0))).reassignments());
        step("alter reassignments", () -> admin.alterPartitionReassignments(Map.of(partition(0), Optional.empty())).values());
    }

    private void cluster() {
        step("describe the cluster", () -> {
            DescribeClusterResult result = admin.describeCluster(
                new DescribeClusterOptions().includeAuthorizedOperations(true).includeFencedBrokers(true));
            return List.of(result.clusterId(), result.controller(), result.nodes(), result.authorizedOperations());
        });
        step("describe features", () -> admin.describeFeatures().featureMetadata());
        step("update features by way of trial", () -> admin.updateFeatures(Map.of(
            "metadata.version", new FeatureUpdate((short) 33, FeatureUpdate.UpgradeType.UPGRADE)),
            new UpdateFeaturesOptions().validateOnly(true)).values());
        step("update features wrongly", () -> admin.updateFeatures(Map.of(
            "metadata.version", new FeatureUpdate((short) 29, FeatureUpdate.UpgradeType.SAFE_DOWNGRADE)),
            new UpdateFeaturesOptions()).values());
        step("describe the quorum", () -> admin.describeMetadataQuorum().quorumInfo());
        step("add a voter", () -> admin.addRaftVoter(9, Uuid.ONE_UUID,
            Set.of(new RaftVoterEndpoint("CONTROLLER", "localhost", 9))).all());
        step("remove a voter", () -> admin.removeRaftVoter(9, Uuid.ONE_UUID).all());
        step("unregister a broker", () -> admin.unregisterBroker(77).all());
        step("unregister a controller", () -> admin.unregisterController(77).all());
        step("ask for an instance id", () -> admin.clientInstanceId(Duration.ofSeconds(2)));
        step("look at metrics", () -> {
            KafkaMetric metric = (KafkaMetric) admin.metrics().values().iterator().next();
            admin.registerMetricForSubscription(metric);
            admin.unregisterMetricFromSubscription(metric);
            return !admin.metrics().isEmpty();
        });
    }

    private void configs() {
        ConfigResource ofTopic = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        ConfigResource ofBroker = new ConfigResource(ConfigResource.Type.BROKER, "1");
        ConfigResource ofBrokers = new ConfigResource(ConfigResource.Type.BROKER, "");
        ConfigResource ofLoggers = new ConfigResource(ConfigResource.Type.BROKER_LOGGER, "1");
        ConfigResource ofGroup = new ConfigResource(ConfigResource.Type.GROUP, name + "-group");
        ConfigResource ofMetrics = new ConfigResource(ConfigResource.Type.CLIENT_METRICS, name + "-metrics");
        step("alter configs of a topic", () -> alter(ofTopic, op("segment.ms", "70000", OpType.SET),
            op("cleanup.policy", "compact", OpType.APPEND), op("retention.ms", "", OpType.DELETE)));
        step("alter configs of a group", () -> alter(ofGroup, op("consumer.session.timeout.ms", "50000", OpType.SET)));
        step("alter configs of client metrics", () -> alter(ofMetrics, op("interval.ms", "60000", OpType.SET),
            op("match", "client_id=walk", OpType.SET)));
        step("alter configs of a broker", () -> alter(ofBroker, op("message.max.bytes", "2000000", OpType.SET)));
        step("alter configs of all brokers", () -> alter(ofBrokers, op("message.max.bytes", "3000000", OpType.SET)));
        step("alter loggers", () -> {
            String level = admin.describeConfigs(List.of(ofLoggers)).values().get(ofLoggers).get().get("root").value();
            return alter(ofLoggers, op("root", level, OpType.SET));
        });
        step("alter configs wrongly", () -> admin.incrementalAlterConfigs(Map.of(
            ofTopic, List.of(op("segment.ms", "soon", OpType.SET)),
            ofBroker, List.of(op("node.id", "7", OpType.SET)),
            ofLoggers, List.of(op("no.such.logger", "INFO", OpType.SET)),
            ofGroup, List.of(op("no.such.config", "1", OpType.SET)),
            new ConfigResource(ConfigResource.Type.TOPIC, name + "-none"), List.of(op("segment.ms", "70000", OpType.SET)))).values());
        step("describe configs of a topic", () -> described(ofTopic, "segment.ms cleanup.policy retention.ms max.message.bytes"));
        step("describe configs of a broker", () -> described(ofBroker, "message.max.bytes log.retention.ms ssl.keystore.password"));
        step("describe configs of all brokers", () -> described(ofBrokers, "message.max.bytes"));
        step("describe loggers", () -> described(ofLoggers, "root"));
        step("describe configs of a group", () -> described(ofGroup, "consumer.session.timeout.ms share.auto.offset.reset"));
        step("describe configs of client metrics", () -> described(ofMetrics, "interval.ms match metrics"));
        step("describe configs wrongly", () -> admin.describeConfigs(List.of(
            new ConfigResource(ConfigResource.Type.TOPIC, name + "-none"),
            new ConfigResource(ConfigResource.Type.TOPIC, "no topic"))).values());
        step("list config resources", () -> ours(admin.listConfigResources().all()));
        step("list resources of brokers", () -> admin.listConfigResources(
            Set.of(ConfigResource.Type.BROKER, ConfigResource.Type.BROKER_LOGGER), new ListConfigResourcesOptions()).all());
        step("list client metrics resources", () -> ours(admin.listClientMetricsResources().all()));
        step("undo", () -> {
            alter(ofBroker, op("message.max.bytes", "", OpType.DELETE)).get();
            alter(ofBrokers, op("message.max.bytes", "", OpType.DELETE)).get();
            alter(ofGroup, op("consumer.session.timeout.ms", "", OpType.DELETE)).get();
            return alter(ofMetrics, op("interval.ms", "", OpType.DELETE), op("match", "", OpType.DELETE));
        });
    }

    private void logs() {
        TopicPartitionReplica replica = new TopicPartitionReplica(topic, 0, 1);
        step("list offsets", () -> {
            Map<TopicPartition, OffsetSpec> earliest = Map.of(partition(0), OffsetSpec.earliest(), partition(1), OffsetSpec.latest());
            return List.of(admin.listOffsets(earliest).all(),
                admin.listOffsets(Map.of(partition(0), OffsetSpec.maxTimestamp(), partition(1), OffsetSpec.forTimestamp(1))).all(),
                admin.listOffsets(Map.of(partition(0), OffsetSpec.earliestLocal(), partition(1), OffsetSpec.latestTiered())).all());
        });
        step("delete records", () -> {
            Map<TopicPartition, KafkaFuture<DeletedRecords>> lows = admin.deleteRecords(
                Map.of(partition(0), RecordsToDelete.beforeOffset(0), partition(1), RecordsToDelete.beforeOffset(5))).lowWatermarks();
            Map<String, Object> rendered = new TreeMap<>();
            lows.forEach((at, low) -> rendered.put(at.toString(), render(low.thenApply(DeletedRecords::lowWatermark))));
            return rendered;
        });
        step("describe log directories", () -> admin.describeLogDirs(List.of(1)).allDescriptions().thenApply(brokers ->
            brokers.get(1).values().stream().map(directory -> List.of(String.valueOf(directory.error()),
                directory.totalBytes().isPresent(), directory.usableBytes().isPresent(), directory.isCordoned(),
                directory.replicaInfos().entrySet().stream().filter(at -> at.getKey().topic().equals(topic))
                    .map(Object::toString).sorted().collect(Collectors.toList()))).collect(Collectors.toList())));
        step("describe log directories of replicas", () -> admin.describeReplicaLogDirs(List.of(replica)).all());
        step("move a replica to another directory", () -> admin.alterReplicaLogDirs(Map.of(replica, "/no/such/directory")).values());
        step("describe producers", () -> admin.describeProducers(List.of(partition(0))).all());
    }

    private void groups() {
        String group = name + "-group";
        step("list groups", () -> ours(admin.listGroups().all()));
        step("list consumer groups", () -> ours(admin.listConsumerGroups(
            new ListConsumerGroupsOptions().inGroupStates(Set.of(GroupState.EMPTY))).all()));
        step("describe an unknown group", () -> admin.describeConsumerGroups(List.of(name + "-nobody")).describedGroups());
        step("describe an unknown classic group", () -> admin.describeClassicGroups(List.of(name + "-nobody")).describedGroups());
        step("commit offsets", () -> admin.alterConsumerGroupOffsets(group,
            Map.of(partition(0), new OffsetAndMetadata(5, Optional.of(0), "note"))).all());
        step("commit offsets of nothing", () -> admin.alterConsumerGroupOffsets(group,
            Map.of(new TopicPartition(name + "-none", 0), new OffsetAndMetadata(5))).all());
        step("list groups with one", () -> ours(admin.listGroups().all()));
        step("describe a group", () -> admin.describeConsumerGroups(List.of(group),
            new DescribeConsumerGroupsOptions().includeAuthorizedOperations(true)).all());
        step("describe a classic group", () -> admin.describeClassicGroups(List.of(group)).all());
        step("list offsets of a group", () -> admin.listConsumerGroupOffsets(group).all());
        step("list offsets of partitions", () -> admin.listConsumerGroupOffsets(Map.of(group,
            new ListConsumerGroupOffsetsSpec().topicPartitions(List.of(partition(0), partition(1))))).all());
        step("remove members", () -> admin.removeMembersFromConsumerGroup(group, new RemoveMembersFromConsumerGroupOptions()).all());
        step("delete offsets", () -> admin.deleteConsumerGroupOffsets(group, Set.of(partition(0))).all());
        step("delete groups", () -> admin.deleteConsumerGroups(List.of(group, name + "-nobody")).deletedGroups());
    }

    private void newGroups() {
        String group = name + "-share";
        String streams = name + "-streams";
        step("describe share groups", () -> admin.describeShareGroups(List.of(group)).all());
        step("delete share groups", () -> admin.deleteShareGroups(List.of(group)).all());
        step("list offsets of share groups", () -> admin.listShareGroupOffsets(Map.of(group, new ListShareGroupOffsetsSpec())).all());
        step("alter offsets of a share group", () -> admin.alterShareGroupOffsets(group, Map.of(partition(0), 0L)).all());
        step("delete offsets of a share group", () -> admin.deleteShareGroupOffsets(group, Set.of(topic)).all());
        step("describe streams groups", () -> admin.describeStreamsGroups(List.of(streams)).all());
        step("list offsets of streams groups", () -> admin.listStreamsGroupOffsets(Map.of(streams, new ListStreamsGroupOffsetsSpec())).all());
        step("alter offsets of a streams group", () -> admin.alterStreamsGroupOffsets(streams, Map.of(partition(0), new OffsetAndMetadata(0))).all());
        step("delete offsets of a streams group", () -> admin.deleteStreamsGroupOffsets(streams, Set.of(partition(0))).all());
        step("delete streams groups", () -> admin.deleteStreamsGroups(List.of(streams)).all());
    }

    private void security() {
        AclBinding binding = new AclBinding(new ResourcePattern(ResourceType.TOPIC, topic, PatternType.LITERAL),
            new AccessControlEntry("User:somebody", "*", AclOperation.READ, AclPermissionType.ALLOW));
        step("describe ACLs", () -> admin.describeAcls(AclBindingFilter.ANY).values());
        step("create ACLs", () -> admin.createAcls(List.of(binding)).all());
        step("delete ACLs", () -> admin.deleteAcls(List.of(binding.toFilter())).all());
        step("create a token", () -> admin.createDelegationToken().delegationToken());
        step("renew a token", () -> admin.renewDelegationToken(new byte[] {1}).expiryTimestamp());
        step("expire a token", () -> admin.expireDelegationToken(new byte[] {1}).expiryTimestamp());
        step("describe tokens", () -> admin.describeDelegationToken().delegationTokens());
        step("describe credentials", () -> admin.describeUserScramCredentials().all());
        step("describe the credentials of a user", () -> admin.describeUserScramCredentials(List.of("somebody")).description("somebody"));
        step("alter credentials", () -> admin.alterUserScramCredentials(
            List.of(new UserScramCredentialDeletion("somebody", ScramMechanism.SCRAM_SHA_256))).all());
        step("describe quotas", () -> admin.describeClientQuotas(ClientQuotaFilter.all()).entities());
        step("alter quotas", () -> admin.alterClientQuotas(List.of(new ClientQuotaAlteration(
            new ClientQuotaEntity(Map.of("user", "somebody")), List.of(new ClientQuotaAlteration.Op("producer_byte_rate", null)))),
            new AlterClientQuotasOptions().validateOnly(true)).all());
    }

    private void transactions() {
        String id = name + "-transactions";
        step("list transactions", () -> ours(admin.listTransactions(new ListTransactionsOptions()).all()));
        step("describe transactions", () -> admin.describeTransactions(List.of(id)).all());
        step("abort a transaction", () -> admin.abortTransaction(new AbortTransactionSpec(partition(0), 77, (short) 0, 0)).all());
        step("fence producers", () -> admin.fenceProducers(List.of(id)).all());
        step("end a transaction", () -> admin.forceTerminateTransaction(id).result());
    }

    private void end() {
        Uuid known = id();
        step("delete topics wrongly", () -> admin.deleteTopics(List.of(name + "-none")).topicNameValues());
        step("delete a topic by id", () -> admin.deleteTopics(TopicCollection.ofTopicIds(List.of(known))).all());
        step("delete a topic by id again", () -> admin.deleteTopics(TopicCollection.ofTopicIds(List.of(known))).all());
    }

    private TopicPartition partition(int index) {
        return new TopicPartition(topic, index);
    }

    private Uuid id() {
        try {
            return admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).topicId();
        } catch (ExecutionException | InterruptedException unknown) {
            return Uuid.ZERO_UUID;
        }
    }

    /** A new topic is answered for by the controller first, by its leader soon. */
    private void awaitTopic() {
        for (int attempt = 0; attempt < 100; attempt++) {
            try {
                admin.listOffsets(Map.of(partition(0), OffsetSpec.latest(), partition(1), OffsetSpec.latest())).all().get();
                return;
            } catch (ExecutionException | InterruptedException tooEarly) {
                continue;
            }
        }
    }

    private static AlterConfigOp op(String key, String value, OpType type) {
        return new AlterConfigOp(new ConfigEntry(key, value), type);
    }

    private KafkaFuture<Void> alter(ConfigResource resource, AlterConfigOp... operations) {
        return admin.incrementalAlterConfigs(Map.of(resource, List.of(operations))).all();
    }

    private List<String> described(ConfigResource resource, String keys) throws Exception {
        DescribeConfigsOptions everything = new DescribeConfigsOptions().includeSynonyms(true).includeDocumentation(true);
        Thread.sleep(200); // a broker takes a change over soon after it was answered
        Config config = admin.describeConfigs(List.of(resource), everything).values().get(resource).get();
        return Stream.of(keys.split(" ")).map(key -> String.valueOf(config.get(key))).collect(Collectors.toList());
    }

    private <T> KafkaFuture<List<T>> ours(KafkaFuture<Collection<T>> all) {
        return all.thenApply(found -> found.stream().filter(each -> each.toString().contains(name)).collect(Collectors.toList()));
    }

    private static void step(String what, Step step) {
        Object outcome;
        calledInStep.clear();
        try {
            outcome = step.run();
        } catch (Exception thrown) {
            outcome = thrown;
        }
        String rendered = render(outcome);
        System.out.println(what + "\t" + String.join(" ", calledInStep) + "\t" + rendered);
    }

    private static String render(Object value) {
        if (value instanceof KafkaFuture) {
            try {
                return render(((KafkaFuture<?>) value).get(10, TimeUnit.SECONDS));
            } catch (Exception thrown) {
                return render(thrown);
            }
        }
        if (value instanceof Throwable) {
            Throwable cause = value instanceof ExecutionException ? ((Throwable) value).getCause() : (Throwable) value;
            return "! " + cause.getClass().getSimpleName() + ": " + String.valueOf(cause.getMessage()).replace('\n', ' ');
        }
        if (value instanceof Map) {
            Map<String, String> rendered = new HashMap<>();
            ((Map<?, ?>) value).forEach((key, each) -> rendered.put(render(key), render(each)));
            return new TreeMap<>(rendered).toString();
        }
        if (value instanceof List || value instanceof Set || value instanceof Collection) {
            Stream<String> rendered = ((Collection<?>) value).stream().map(AdminWalk::render);
            return (value instanceof List ? rendered : rendered.sorted()).collect(Collectors.toList()).toString();
        }
        if (value instanceof Optional) {
            return ((Optional<?>) value).map(AdminWalk::render).orElse("-");
        }
        return String.valueOf(value);
    }
}
