import org.apache.kafka.common.internals.Topic;
import org.apache.kafka.server.common.Feature;
import org.apache.kafka.server.common.FeatureVersion;
import org.apache.kafka.server.common.MetadataVersion;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;

/** Prints what Kafka knows about levels of features, and what it says about the topic names on standard input. */
public class MetadataFacts {
    public static void main(String[] args) throws Exception {
        for (MetadataVersion version : MetadataVersion.VERSIONS) {
            if (version.isProduction()) {
                System.out.println(String.join("\t", "version", "" + version.featureLevel(), version.version(),
                    "" + version.didMetadataChange(), "" + version.registerBrokerRecordVersion(),
                    "" + version.partitionRecordVersion(), "" + version.partitionChangeRecordVersion(),
                    "" + version.fetchRequestVersion()));
            }
        }
        for (Feature feature : Feature.PRODUCTION_FEATURES) {
            System.out.println(String.join("\t", "feature", feature.featureName(), "" + feature.minimumProduction(),
                "" + feature.latestProduction()));
        }
        for (MetadataVersion version : MetadataVersion.VERSIONS) {
            for (Feature feature : Feature.PRODUCTION_FEATURES) {
                System.out.println(String.join("\t", "default", "" + version.featureLevel(), feature.featureName(),
                    "" + feature.defaultLevel(version)));
            }
            System.out.println(String.join("\t", "able", "" + version.featureLevel(), "" + version.isScramSupported(),
                "" + !version.isLeaderEpochBumpRequiredOnIsrShrink(), "" + version.isMetadataTransactionSupported(),
                "" + version.isDelegationTokenSupported(), "" + version.isControllerRegistrationSupported(),
                "" + version.isDirectoryAssignmentSupported(), "" + version.isElrSupported(),
                "" + version.isCordonedLogDirsSupported(), "" + version.isCidrAclSupported(),
                "" + version.isControllerUnregistrationSupported()));
        }
        for (Feature feature : Feature.PRODUCTION_FEATURES) {
            for (FeatureVersion version : feature.featureVersions()) {
                System.out.println(String.join("\t", "needs", feature.featureName(), "" + version.featureLevel(),
                    "" + version.dependencies()));
            }
        }
        for (String text : new String[] {"4.3", "4.3.1", "4.3-IV0", "3.9", "4.0-IV1", "3.3", "3.2", "nonsense", "4.9"}) {
            String answer;
            try {
                answer = "" + MetadataVersion.fromVersionString(text, false).featureLevel();
            } catch (IllegalArgumentException error) {
                answer = error.getMessage();
            }
            System.out.println("release\t" + text + "\t" + answer);
        }
        BufferedReader names = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String name = names.readLine(); name != null; name = names.readLine()) {
            String answer = "";
            try {
                Topic.validate(name);
            } catch (RuntimeException error) {
                answer = error.getMessage();
            }
            System.out.println("name\t" + name + "\t" + answer + "\t" + Topic.hasCollisionChars(name) + "\t"
                + Topic.unifyCollisionChars(name));
        }
    }
}
