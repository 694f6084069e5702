import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.apache.kafka.coordinator.group.api.streams.assignor.TopologyDescriber;
import org.apache.kafka.coordinator.group.streams.assignor.AssignmentConfigsImpl;
import org.apache.kafka.coordinator.group.streams.assignor.GroupSpecImpl;
import org.apache.kafka.coordinator.group.streams.assignor.MemberMetadataAndStateImpl;
import org.apache.kafka.coordinator.group.streams.assignor.StickyTaskAssignor;

/**
 * Apache Kafka's sticky task assignor, by lines of text. A line has, between tabs: the number of standby replicas, the
 * subtopologies as "NAME TASKS STATEFUL;...", and each member as "ID PROCESS ACTIVE STANDBY", where tasks are
 * "NAME:0,1;..." or "-". The answer has each member as "ID ACTIVE STANDBY".
 */
public class TaskAssignorOracle {
    private record Subtopology(int tasks, boolean isStateful) {
    }

    private record Topology(TreeMap<String, Subtopology> byName) implements TopologyDescriber {
        @Override
        public List<String> subtopologies() {
            return List.copyOf(byName.keySet());
        }

        @Override
        public int maxNumInputPartitions(String name) {
            return byName.get(name).tasks;
        }

        @Override
        public boolean isStateful(String name) {
            return byName.get(name).isStateful;
        }
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            out.println(answer(line.split("\t")));
            out.flush();
        }
    }

    private static String answer(String[] words) {
        TreeMap<String, Subtopology> topology = new TreeMap<>();
        for (String each : words[1].split(";")) {
            String[] parts = each.split(" ");
            topology.put(parts[0], new Subtopology(Integer.parseInt(parts[1]), parts[2].equals("1")));
        }
        Map<String, MemberMetadataAndStateImpl> members = new HashMap<>();
        for (String each : Arrays.copyOfRange(words, 2, words.length)) {
            String[] parts = each.split(" ");
            members.put(parts[0], new MemberMetadataAndStateImpl(Optional.empty(), Optional.empty(), parts[1], Map.of(),
                read(parts[2]), read(parts[3]), Map.of(), Map.of(), Map.of()));
        }
        var assigned = new StickyTaskAssignor().assign(
            new GroupSpecImpl(members, new AssignmentConfigsImpl(Integer.parseInt(words[0]), List.of())), new Topology(topology));
        List<String> answers = new ArrayList<>();
        new TreeMap<>(assigned.members()).forEach((id, each) ->
            answers.add(id + " " + written(each.activeTasks()) + " " + written(each.standbyTasks())));
        return String.join("\t", answers);
    }

    private static Map<String, Set<Integer>> read(String text) {
        Map<String, Set<Integer>> tasks = new HashMap<>();
        for (String each : text.equals("-") ? new String[0] : text.split(";")) {
            Set<Integer> partitions = new HashSet<>();
            for (String partition : each.split(":")[1].split(",")) {
                partitions.add(Integer.parseInt(partition));
            }
            tasks.put(each.split(":")[0], partitions);
        }
        return tasks;
    }

    private static String written(Map<String, Set<Integer>> tasks) {
        return tasks.isEmpty() ? "-" : new TreeMap<>(tasks).entrySet().stream().map(each -> each.getKey() + ":"
            + each.getValue().stream().sorted().map(String::valueOf).collect(Collectors.joining(",")))
            .collect(Collectors.joining(";"));
    }
}
