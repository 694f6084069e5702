package org.apache.kafka.controller;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.Base64;
import java.util.List;
import java.util.OptionalLong;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import org.apache.kafka.common.message.CreateDelegationTokenRequestData;
import org.apache.kafka.common.message.ExpireDelegationTokenRequestData;
import org.apache.kafka.common.message.RenewDelegationTokenRequestData;
import org.apache.kafka.common.message.RequestHeaderData;
import org.apache.kafka.common.metadata.DelegationTokenRecord;
import org.apache.kafka.common.metadata.RemoveDelegationTokenRecord;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.scram.internals.ScramMechanism;
import org.apache.kafka.common.security.token.delegation.TokenInformation;
import org.apache.kafka.common.security.token.delegation.internals.DelegationTokenCache;
import org.apache.kafka.common.utils.internals.SecurityUtils;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.metadata.MetadataRecordSerde;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.server.common.MetadataVersion;

/** Kafka's delegation tokens without a quorum: requests of a principal at a time, one to a line; the answer and its records. */
public class TokenOracle {
    private static long nowMs;

    private final DelegationTokenCache cache = new DelegationTokenCache(ScramMechanism.mechanismNames());
    private final DelegationTokenControlManager tokens;
    private final String secret;

    private TokenOracle(String secret, long maxLifetimeMs, long expiryTimeMs) throws Exception {
        this.secret = secret;
        tokens = new DelegationTokenControlManager.Builder()
            .setTokenCache(cache)
            .setDelegationTokenSecretKey(secret.isEmpty() ? null : secret)
            .setDelegationTokenMaxLifeMs(maxLifetimeMs)
            .setDelegationTokenExpiryTimeMs(expiryTimeMs)
            .build();
        java.lang.reflect.Field time = DelegationTokenControlManager.class.getDeclaredField("time");
        time.setAccessible(true);
        time.set(tokens, new Clock());
    }

    public static void main(String[] arguments) throws Exception {
        TokenOracle oracle = null;
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split("\t", -1);
            switch (words[0]) {
                case "begin":
                    oracle = new TokenOracle(words[1], Long.parseLong(words[2]), Long.parseLong(words[3]));
                    System.out.println();
                    break;
                case "time": nowMs = Long.parseLong(words[1]); System.out.println(); break;
                case "ask": System.out.println(oracle.answer(words)); break;
                case "sweep": System.out.println(oracle.told(null, (short) 0, oracle.tokens.sweepExpiredDelegationTokens().records())); break;
                case "record": oracle.replay(words[1]); System.out.println(); break;
                default: throw new IllegalArgumentException(words[0]);
            }
        }
    }

    /** Words: "ask", API key, version, level of metadata.version, principal, the request. */
    private String answer(String[] words) {
        short version = Short.parseShort(words[2]);
        MetadataVersion level = MetadataVersion.fromFeatureLevel(Short.parseShort(words[3]));
        ControllerRequestContext context = new ControllerRequestContext(
            new RequestHeaderData().setRequestApiVersion(version), SecurityUtils.parseKafkaPrincipal(words[4]), OptionalLong.empty());
        ByteBufferAccessor body = new ByteBufferAccessor(ByteBuffer.wrap(Base64.getDecoder().decode(words[5])));
        switch (ApiKeys.forId(Short.parseShort(words[1]))) {
            case CREATE_DELEGATION_TOKEN: {
                var result = tokens.createDelegationToken(context, new CreateDelegationTokenRequestData(body, version), level);
                return told(result.response(), version, result.records());
            }
            case RENEW_DELEGATION_TOKEN: {
                var result = tokens.renewDelegationToken(context, new RenewDelegationTokenRequestData(body, version), level);
                return told(result.response(), version, result.records());
            }
            case EXPIRE_DELEGATION_TOKEN: {
                var result = tokens.expireDelegationToken(context, new ExpireDelegationTokenRequestData(body, version), level);
                return told(result.response(), version, result.records());
            }
            default:
                throw new IllegalArgumentException(words[1]);
        }
    }

    /** The tokens that exist are those of the records given, since the ids of new ones are random. */
    private void replay(String encoded) throws Exception {
        byte[] value = Base64.getDecoder().decode(encoded);
        ApiMessage message = MetadataRecordSerde.INSTANCE.read(new ByteBufferAccessor(ByteBuffer.wrap(value)), value.length).message();
        if (message instanceof RemoveDelegationTokenRecord) {
            cache.removeCache(((RemoveDelegationTokenRecord) message).tokenId());
            return;
        }
        DelegationTokenRecord record = (DelegationTokenRecord) message;
        List<KafkaPrincipal> renewers = record.renewers().stream().map(SecurityUtils::parseKafkaPrincipal).collect(Collectors.toList());
        TokenInformation token = new TokenInformation(record.tokenId(), SecurityUtils.parseKafkaPrincipal(record.owner()),
            SecurityUtils.parseKafkaPrincipal(record.requester()), renewers, record.issueTimestamp(), record.maxTimestamp(),
            record.expirationTimestamp());
        javax.crypto.Mac mac = javax.crypto.Mac.getInstance("HmacSHA512");
        mac.init(new javax.crypto.spec.SecretKeySpec(secret.getBytes("UTF-8"), "HmacSHA512"));
        String hmac = Base64.getEncoder().encodeToString(mac.doFinal(record.tokenId().getBytes("UTF-8")));
        cache.updateCache(new org.apache.kafka.common.security.token.delegation.DelegationToken(token, Base64.getDecoder().decode(hmac)),
            java.util.Map.of());
    }

    private static String told(ApiMessage response, short version, List<ApiMessageAndVersion> records) {
        String answer = response == null ? "" : Base64.getEncoder().encodeToString(
            MessageUtil.byteBufferToArray(MessageUtil.toByteBufferAccessor(response, version).buffer()));
        return answer + "\t" + records.stream().map(TokenOracle::encoded).collect(Collectors.joining(","));
    }

    private static String encoded(ApiMessageAndVersion record) {
        ObjectSerializationCache sizes = new ObjectSerializationCache();
        ByteBuffer buffer = ByteBuffer.allocate(MetadataRecordSerde.INSTANCE.recordSize(record, sizes));
        MetadataRecordSerde.INSTANCE.write(record, sizes, new ByteBufferAccessor(buffer));
        return Base64.getEncoder().encodeToString(buffer.array());
    }

    private static class Clock implements Time {
        @Override
        public long milliseconds() {
            return nowMs;
        }

        @Override
        public long nanoseconds() {
            return nowMs * 1_000_000;
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
