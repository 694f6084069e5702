// What Apache Kafka knows and decides about configuration, answered line by line:
// one JSON command per line of standard input, one JSON answer per line of standard output.
//
//   {"do":"dump"}                                        every ConfigDef, synonym and update mode
//   {"do":"broker","props":{..}}                         KafkaConfig of a server.properties: its values, or the error
//   {"do":"topic","static":{..},"existing":{..},"props":{..}}   LogConfig.validate under those broker configs
//   {"do":"group","static":{..},"props":{..}}            GroupConfig.validate
//   {"do":"client-metrics","name":"..","props":{..}}     ClientMetricsConfigs.validate
//   {"do":"dynamic","static":{..},"props":{..},"perBroker":true}  DynamicBrokerConfig.validate
//   {"do":"properties","text":".."}                      java.util.Properties of a text

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.StringReader;
import java.lang.reflect.Field;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.TreeSet;
import kafka.server.KafkaConfig;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.coordinator.group.GroupConfig;
import org.apache.kafka.server.config.AbstractKafkaConfig;
import org.apache.kafka.server.config.ConfigSynonym;
import org.apache.kafka.server.config.DynamicBrokerConfig;
import org.apache.kafka.server.config.QuotaConfig;
import org.apache.kafka.server.config.ServerTopicConfigSynonyms;
import org.apache.kafka.server.metrics.ClientMetricsConfigs;
import org.apache.kafka.storage.internals.log.LogConfig;

public class Configs {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        var input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        var output = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            ObjectNode answer;
            try {
                answer = answer(JSON.readTree(line));
            } catch (Throwable error) {
                answer = JSON.createObjectNode();
                answer.put("error", error.getMessage());
                answer.put("class", error.getClass().getSimpleName());
                answer.put("code", Errors.forException(error).code());
            }
            output.println(JSON.writeValueAsString(answer));
        }
    }

    private static ObjectNode answer(JsonNode command) throws Exception {
        switch (command.get("do").asText()) {
            case "dump": return dump();
            case "broker": return broker(map(command.get("props")));
            case "topic": {
                var config = new KafkaConfig(map(command.get("static")), false);
                LogConfig.validate(map(command.get("existing")), map(command.get("props")), config.extractLogConfigMap(),
                    config.remoteLogManagerConfig().isRemoteStorageSystemEnabled());
                return JSON.createObjectNode();
            }
            case "group": {
                var config = new KafkaConfig(map(command.get("static")), false);
                GroupConfig.validate(map(command.get("props")), config.groupCoordinatorConfig(), config.shareGroupConfig());
                return JSON.createObjectNode();
            }
            case "client-metrics":
                ClientMetricsConfigs.validate(command.get("name").asText(), map(command.get("props")));
                return JSON.createObjectNode();
            case "dynamic": {
                var config = new KafkaConfig(map(command.get("static")), false);
                config.dynamicConfig().initialize(scala.Option.empty());
                var properties = new Properties();
                properties.putAll(map(command.get("props")));
                config.dynamicConfig().validate(properties, command.get("perBroker").asBoolean());
                return JSON.createObjectNode();
            }
            case "properties": {
                var properties = new Properties();
                properties.load(new StringReader(command.get("text").asText()));
                return JSON.valueToTree(new TreeMap<>(properties));
            }
            default: throw new IllegalArgumentException("unknown command " + command);
        }
    }

    private static Map<String, String> map(JsonNode node) {
        var map = new HashMap<String, String>();
        if (node != null) node.fields().forEachRemaining(field -> map.put(field.getKey(), field.getValue().asText()));
        return map;
    }

    private static ObjectNode broker(Map<String, String> properties) {
        var config = new KafkaConfig(properties, false);
        var answer = JSON.createObjectNode();
        var values = answer.putObject("values");
        for (var key : AbstractKafkaConfig.CONFIG_DEF.configKeys().values()) {
            values.put(key.name, ConfigDef.convertToString(config.values().get(key.name), key.type));
        }
        var log = answer.putObject("log");
        var definitions = LogConfig.configKeys();
        new TreeMap<>(config.extractLogConfigMap()).forEach((name, value) ->
            log.put(name, ConfigDef.convertToString(value, definitions.get(name).type)));
        answer.put("listeners", config.listeners().mkString(";"));
        answer.put("advertised", config.effectiveAdvertisedBrokerListeners().mkString(";"));
        return answer;
    }

    private static ObjectNode dump() throws Exception {
        var answer = JSON.createObjectNode();
        answer.set("broker", definitions(AbstractKafkaConfig.CONFIG_DEF));
        answer.set("quota", definitions(QuotaConfig.brokerQuotaConfigs()));
        answer.set("topic", definitions(LogConfig.configDefCopy()));
        answer.set("group", definitions(GroupConfig.CONFIG_DEF));
        answer.set("client-metrics", definitions(ClientMetricsConfigs.configDef()));
        answer.set("dynamic", JSON.valueToTree(new TreeMap<>(DynamicBrokerConfig.dynamicConfigUpdateModes())));
        answer.set("dynamicSecurity", JSON.valueToTree(new TreeSet<>(DynamicBrokerConfig.DYNAMIC_SECURITY_CONFIGS)));
        var topicSynonyms = answer.putObject("topicSynonyms");
        new TreeMap<>(ServerTopicConfigSynonyms.ALL_TOPIC_CONFIG_SYNONYMS).forEach((name, synonyms) -> {
            ArrayNode list = topicSynonyms.putArray(name);
            for (ConfigSynonym synonym : synonyms) list.addObject().put("name", synonym.name()).put("unit", unit(synonym));
        });
        var groupSynonyms = answer.putObject("groupSynonyms");
        new TreeMap<>(GroupConfig.ALL_GROUP_CONFIG_SYNONYMS).forEach((name, synonym) -> groupSynonyms.put(name, synonym.orElse(null)));
        var brokerSynonyms = answer.putObject("brokerSynonyms");
        for (String name : new TreeSet<>(AbstractKafkaConfig.CONFIG_DEF.names())) {
            List<String> synonyms = DynamicBrokerConfig.brokerConfigSynonyms(name, true);
            if (synonyms.size() > 1) brokerSynonyms.set(name, JSON.valueToTree(synonyms));
        }
        return answer;
    }

    private static String unit(ConfigSynonym synonym) {
        if (synonym.converter() == ConfigSynonym.HOURS_TO_MILLISECONDS) return "hours";
        return synonym.converter() == ConfigSynonym.MINUTES_TO_MILLISECONDS ? "minutes" : "";
    }

    private static ArrayNode definitions(ConfigDef definition) throws Exception {
        var list = JSON.createArrayNode();
        for (var key : new TreeMap<>(definition.configKeys()).values()) {
            var entry = list.addObject();
            entry.put("name", key.name).put("type", key.type.name().toLowerCase());
            entry.put("importance", key.importance.name().toLowerCase()).put("internal", key.internalConfig);
            entry.put("hasDefault", key.hasDefault()).put("documentation", key.documentation);
            if (key.hasDefault()) entry.put("default", ConfigDef.convertToString(key.defaultValue, key.type));
            if (key.validator != null) entry.set("validator", validator(key.validator));
        }
        return list;
    }

    private static ObjectNode validator(ConfigDef.Validator validator) throws Exception {
        var answer = JSON.createObjectNode();
        answer.put("kind", validator.getClass().getSimpleName()).put("text", validator.toString());
        for (Class<?> owner = validator.getClass(); owner != Object.class; owner = owner.getSuperclass()) {
            for (Field field : owner.getDeclaredFields()) {
                field.setAccessible(true);
                Object value = field.get(validator);
                if (value instanceof Number || value instanceof Boolean || value instanceof List || value instanceof java.util.Set) {
                    answer.set(field.getName(), JSON.valueToTree(value));
                } else if (value instanceof ConfigDef.ValidString) {
                    answer.set(field.getName(), validator((ConfigDef.ValidString) value));
                }
            }
        }
        return answer;
    }
}
