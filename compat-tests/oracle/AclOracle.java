package org.apache.kafka.controller;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.net.InetAddress;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.metadata.AccessControlEntryRecord;
import org.apache.kafka.common.metadata.RemoveAccessControlEntryRecord;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.internals.PluginMetricsImpl;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.requests.CreateAclsRequest;
import org.apache.kafka.common.requests.DeleteAclsRequest;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.metadata.MetadataRecordSerde;
import org.apache.kafka.metadata.authorizer.StandardAcl;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AclCreateResult;
import org.apache.kafka.server.authorizer.AclDeleteResult;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.authorizer.AuthorizationResult;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.server.common.MetadataVersion;

/** Kafka's authorizer and its controller of ACLs, without a node: one event per line, words between tabs. */
public class AclOracle {
    private static final String APART = ";";

    private StandardAuthorizer authorizer;
    private AclControlManager controller;

    private void begin(String superUsers, String allowsWithoutAcl) {
        authorizer = new StandardAuthorizer();
        authorizer.configure(Map.of("super.users", superUsers, "allow.everyone.if.no.acl.found", allowsWithoutAcl, "node.id", "1"));
        authorizer.withPluginMetrics(new PluginMetricsImpl(new Metrics(), new LinkedHashMap<>()));
        authorizer.loadSnapshot(Map.of());
        authorizer.completeInitialLoad();
        controller = new AclControlManager.Builder().build();
    }

    private static byte[] bytes(String text) {
        return Base64.getDecoder().decode(text);
    }

    private static ByteBufferAccessor reader(String text) {
        return new ByteBufferAccessor(ByteBuffer.wrap(bytes(text)));
    }

    private void replay(String encoded) {
        for (String each : encoded.split(",")) {
            replay(MetadataRecordSerde.INSTANCE.read(reader(each), bytes(each).length).message());
        }
    }

    private void replay(ApiMessage message) {
        if (message instanceof AccessControlEntryRecord) {
            AccessControlEntryRecord record = (AccessControlEntryRecord) message;
            authorizer.addAcl(record.id(), StandardAcl.fromRecord(record));
            controller.replay(record);
        } else {
            RemoveAccessControlEntryRecord record = (RemoveAccessControlEntryRecord) message;
            authorizer.removeAcl(record.id());
            controller.replay(record);
        }
    }

    private static AuthorizableRequestContext context(String type, String name, String host) throws Exception {
        KafkaPrincipal principal = new KafkaPrincipal(type, name);
        InetAddress address = InetAddress.getByName(host);
        return (AuthorizableRequestContext) Proxy.newProxyInstance(
            AclOracle.class.getClassLoader(), new Class<?>[] {AuthorizableRequestContext.class}, (proxy, method, arguments) ->
                switch (method.getName()) {
                    case "principal" -> principal;
                    case "clientAddress" -> address;
                    case "requestType" -> 3;
                    default -> throw new UnsupportedOperationException(method.getName());
                });
    }

    /** Words: "ask", type and name of the principal, address, then operation, resource type and name for each question. */
    private String decide(String[] words) throws Exception {
        return authorizer.authorize(context(words[1], words[2], words[3]), actions(words)).stream()
            .map(each -> each == AuthorizationResult.ALLOWED ? "+" : "-").collect(Collectors.joining());
    }

    private static List<Action> actions(String[] words) {
        List<Action> actions = new ArrayList<>();
        for (int index = 4; index < words.length; index += 3) {
            actions.add(new Action(
                AclOperation.fromCode(Byte.parseByte(words[index])),
                new ResourcePattern(ResourceType.fromCode(Byte.parseByte(words[index + 1])), words[index + 2], PatternType.LITERAL),
                1, true, true));
        }
        return actions;
    }

    /** The rules that decide, as the audit log names them; words as for "ask". Super users have no rule here. */
    private String rules(String[] words) throws Exception {
        Field field = StandardAuthorizer.class.getDeclaredField("data");
        field.setAccessible(true);
        Object data = field.get(authorizer);
        Method find = data.getClass().getDeclaredMethod("findAclRule", Set.class, String.class, Action.class);
        find.setAccessible(true);
        Set<KafkaPrincipal> principals = Set.of(new KafkaPrincipal(words[1], words[2]), new KafkaPrincipal("User", "*"));
        String host = InetAddress.getByName(words[3]).getHostAddress();
        List<String> found = new ArrayList<>();
        for (Action action : actions(words)) {
            found.add(find.invoke(data, principals, host, action).toString());
        }
        return String.join("|", found);
    }

    private String decideAny(String[] words) throws Exception {
        StringBuilder answers = new StringBuilder();
        for (int index = 4; index < words.length; index += 2) {
            AuthorizationResult result = authorizer.authorizeByResourceType(
                context(words[1], words[2], words[3]),
                AclOperation.fromCode(Byte.parseByte(words[index])), ResourceType.fromCode(Byte.parseByte(words[index + 1])));
            answers.append(result == AuthorizationResult.ALLOWED ? "+" : "-");
        }
        return answers.toString();
    }

    private static String said(ApiException error) {
        return Errors.forException(error).code() + "," + error.getMessage();
    }

    private static String described(AclBinding acl) {
        return acl.pattern().resourceType().code() + "," + acl.pattern().name() + "," + acl.pattern().patternType().code() + ","
            + acl.entry().principal() + "," + acl.entry().host() + "," + acl.entry().operation().code() + ","
            + acl.entry().permissionType().code();
    }

    private String create(MetadataVersion level, String request) {
        List<AclBinding> wanted = CreateAclsRequest.parse(reader(request), (short) 3).aclCreations().stream()
            .map(CreateAclsRequest::aclBinding).toList();
        ControllerResult<List<AclCreateResult>> result = controller.createAcls(wanted, level);
        List<String> written = new ArrayList<>();
        for (ApiMessageAndVersion each : result.records()) {
            StandardAcl acl = StandardAcl.fromRecord((AccessControlEntryRecord) each.message());
            written.add(described(acl.toBinding()));
        }
        String answers = result.response().stream()
            .map(each -> each.exception().map(AclOracle::said).orElse("0")).collect(Collectors.joining(APART));
        return answers + "\t" + String.join(APART, written);
    }

    private String delete(String request) {
        ControllerResult<List<AclDeleteResult>> result =
            controller.deleteAcls(DeleteAclsRequest.parse(reader(request), (short) 3).filters());
        String answers = result.response().stream().map(each -> each.exception().map(AclOracle::said).orElse(
            each.aclBindingDeleteResults().stream().map(one -> described(one.aclBinding())).sorted()
                .collect(Collectors.joining("|")))).collect(Collectors.joining(APART));
        String removed = result.records().stream()
            .map(each -> ((RemoveAccessControlEntryRecord) each.message()).id().toString()).sorted().collect(Collectors.joining(APART));
        return answers + "\t" + removed;
    }

    private String play(String[] words) throws Exception {
        try {
            switch (words[0]) {
                case "begin": begin(words[1], words[2]); return "";
                case "records": replay(words[1]); return "" + authorizer.aclCount();
                case "ask": return decide(words);
                case "rules": return rules(words);
                case "any": return decideAny(words);
                case "create": return create(MetadataVersion.fromFeatureLevel(Short.parseShort(words[1])), words[2]);
                case "delete": return delete(words[1]);
                default: throw new IllegalArgumentException(words[0]);
            }
        } catch (ApiException error) {
            return "error " + said(error);
        } catch (RuntimeException error) {
            return "failed " + error;
        }
    }

    public static void main(String[] arguments) throws Exception {
        AclOracle oracle = new AclOracle();
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            System.out.println(oracle.play(line.split("\t", -1)));
        }
    }
}
