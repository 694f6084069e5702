import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Collectors;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.metadata.PartitionChangeRecord;
import org.apache.kafka.controller.PartitionChangeBuilder;
import org.apache.kafka.metadata.LeaderRecoveryState;
import org.apache.kafka.metadata.PartitionRegistration;
import org.apache.kafka.metadata.Replicas;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.server.common.MetadataVersion;

/** Asks Kafka's own builder for the change of a partition: one case for each line of standard input, words between tabs. */
public class PartitionChanges {
    public static void main(String[] args) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split("\t", -1);
            int[] replicas = ids(words[0]);
            PartitionRegistration was = new PartitionRegistration.Builder()
                .setReplicas(replicas)
                .setDirectories(Arrays.stream(replicas).mapToObj(PartitionChanges::directory).toArray(Uuid[]::new))
                .setIsr(ids(words[1]))
                .setLeader(Integer.parseInt(words[2]))
                .setElr(ids(words[3]))
                .setLastKnownElr(ids(words[4]))
                .setAddingReplicas(ids(words[5]))
                .setRemovingReplicas(ids(words[6]))
                .setLeaderRecoveryState(LeaderRecoveryState.of(Byte.parseByte(words[7])))
                .setLeaderEpoch(5)
                .setPartitionEpoch(7)
                .build();
            List<Integer> up = list(words[8]);
            PartitionChangeBuilder builder = new PartitionChangeBuilder(was, Uuid.fromString("dHR0dHR0dHR0dHR0dHR0dA"), 0,
                up::contains, MetadataVersion.fromFeatureLevel(Short.parseShort(words[9])), Integer.parseInt(words[10]),
                words[11].equals("true"));
            builder.setDefaultDirProvider(PartitionChanges::directory);
            builder.setElection(PartitionChangeBuilder.Election.valueOf(words[12]));
            builder.setTargetIsr(list(words[13]));
            builder.setTargetReplicas(list(words[14]));
            builder.setTargetAdding(list(words[15]));
            builder.setTargetRemoving(list(words[16]));
            builder.setTargetLeaderRecoveryState(LeaderRecoveryState.of(Byte.parseByte(words[17])));
            builder.setUncleanShutdownReplicas(list(words[18]));
            System.out.println(builder.build().map(change -> described(was, change)).orElse("nothing"));
        }
    }

    /** Of the eligible replicas only those that are replicas. */
    private static String described(PartitionRegistration was, ApiMessageAndVersion message) {
        PartitionChangeRecord record = (PartitionChangeRecord) message.message();
        List<Integer> replicas = record.replicas() == null ? Replicas.toList(was.replicas) : record.replicas();
        List<Integer> after = record.eligibleLeaderReplicas();
        List<Integer> elr = after == null ? Replicas.toList(was.elr) : new ArrayList<>(after);
        elr.retainAll(replicas);
        return "leader=" + record.leader() + " isr=" + record.isr() + " elr=" + elr
            + " last=" + record.lastKnownElr() + " replicas=" + record.replicas() + " adding=" + record.addingReplicas()
            + " removing=" + record.removingReplicas() + " recovery=" + record.leaderRecoveryState()
            + " directories=" + (record.directories() == null ? "null" : "" + record.directories().size())
            + " version=" + message.version();
    }

    private static Uuid directory(int broker) {
        return new Uuid(0x0101010101010101L * broker, 0x0101010101010101L * broker);
    }

    private static List<Integer> list(String word) {
        return Arrays.stream(ids(word)).boxed().collect(Collectors.toList());
    }

    private static int[] ids(String word) {
        return word.isEmpty() ? new int[0] : Arrays.stream(word.split(",")).mapToInt(Integer::parseInt).toArray();
    }
}
