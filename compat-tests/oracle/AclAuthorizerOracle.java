import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Field;
import java.lang.reflect.Proxy;
import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.stream.Collectors;
import kafka.security.authorizer.AclAuthorizer;
import kafka.zk.ResourceZNode;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.utils.SecurityUtils;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.authorizer.AuthorizationResult;
import org.apache.zookeeper.data.Stat;

/** Kafka 3.9's AclAuthorizer without ZooKeeper: its cache is filled by hand. One event per line, words between tabs. */
public class AclAuthorizerOracle {
    private static AclAuthorizer authorizer;

    private static void set(String name, Object value) throws Exception {
        for (Field field : AclAuthorizer.class.getDeclaredFields()) {
            if (field.getName().equals(name) || field.getName().endsWith("$$" + name)) {
                field.setAccessible(true);
                field.set(authorizer, value);
                return;
            }
        }
        throw new IllegalStateException(name);
    }

    private static void begin(String superUsers, String allowsWithoutAcl) throws Exception {
        authorizer = new AclAuthorizer();
        scala.collection.immutable.Set<KafkaPrincipal> found = scala.collection.immutable.Set$.MODULE$.<KafkaPrincipal>empty();
        for (String each : superUsers.split(";")) {
            if (!each.isBlank()) {
                found = (scala.collection.immutable.Set<KafkaPrincipal>) found.$plus(SecurityUtils.parseKafkaPrincipal(each.trim()));
            }
        }
        set("superUsers", found);
        set("shouldAllowEveryoneIfNoAclIsFound", Boolean.parseBoolean(allowsWithoutAcl));
    }

    private static void replace(String kind, String pattern, String name, String content) {
        ResourcePattern resource = new ResourcePattern(
            ResourceType.fromCode(Byte.parseByte(kind)), name, PatternType.fromCode(Byte.parseByte(pattern)));
        authorizer.updateCache(resource, ResourceZNode.decode(Base64.getDecoder().decode(content), new Stat()));
    }

    private static AuthorizableRequestContext context(String type, String name, String host) throws Exception {
        KafkaPrincipal principal = new KafkaPrincipal(type, name);
        InetAddress address = InetAddress.getByName(host);
        return (AuthorizableRequestContext) Proxy.newProxyInstance(
            AclAuthorizerOracle.class.getClassLoader(), new Class<?>[] {AuthorizableRequestContext.class},
            (proxy, method, arguments) -> switch (method.getName()) {
                case "principal" -> principal;
                case "clientAddress" -> address;
                case "requestType" -> 3;
                default -> throw new UnsupportedOperationException(method.getName());
            });
    }

    private static String decide(String[] words) throws Exception {
        List<Action> actions = new ArrayList<>();
        for (int index = 4; index < words.length; index += 3) {
            actions.add(new Action(
                AclOperation.fromCode(Byte.parseByte(words[index])),
                new ResourcePattern(ResourceType.fromCode(Byte.parseByte(words[index + 1])), words[index + 2], PatternType.LITERAL),
                1, true, true));
        }
        return authorizer.authorize(context(words[1], words[2], words[3]), actions).stream()
            .map(each -> each == AuthorizationResult.ALLOWED ? "+" : "-").collect(Collectors.joining());
    }

    private static String decideAny(String[] words) throws Exception {
        StringBuilder answers = new StringBuilder();
        for (int index = 4; index < words.length; index += 2) {
            AuthorizationResult result = authorizer.authorizeByResourceType(
                context(words[1], words[2], words[3]),
                AclOperation.fromCode(Byte.parseByte(words[index])), ResourceType.fromCode(Byte.parseByte(words[index + 1])));
            answers.append(result == AuthorizationResult.ALLOWED ? "+" : "-");
        }
        return answers.toString();
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        java.io.PrintStream output = new java.io.PrintStream(System.out, true, StandardCharsets.UTF_8);
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] words = line.split("\t", -1);
            String answer = "done";
            switch (words[0]) {
                case "begin" -> begin(words[1], words[2]);
                case "acls" -> replace(words[1], words[2], words[3], words[4]);
                case "ask" -> answer = decide(words);
                case "any" -> answer = decideAny(words);
                default -> throw new IllegalArgumentException(words[0]);
            }
            output.println(answer);
        }
    }
}
