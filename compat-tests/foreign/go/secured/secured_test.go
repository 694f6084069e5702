// Sarama and franz-go log in and encrypt: each protocol and mechanism, wrong passwords and certificates.
//
// The addresses of the listeners, the certificate to trust and the user are in the environment.
package secured

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
	xdgscram "github.com/xdg-go/scram"
)

const (
	patience = 60 * time.Second
	records  = 100
)

var protocols = []string{"SSL", "SASL_PLAINTEXT", "SASL_SSL"}

var mechanisms = []string{"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"}

// way is a listener, and a mechanism where it has logins.
type way struct{ protocol, mechanism string }

func ways() []way {
	var found []way
	for _, protocol := range protocols {
		if protocol == "SSL" {
			found = append(found, way{protocol, ""})
			continue
		}
		for _, mechanism := range mechanisms {
			found = append(found, way{protocol, mechanism})
		}
	}
	return found
}

func (each way) name() string { return strings.Trim(each.protocol+" "+each.mechanism, " ") }

func (each way) server(t *testing.T) string { return variable(t, "FOREIGN_"+each.protocol) }

func (each way) isEncrypted() bool { return strings.HasSuffix(each.protocol, "SSL") }

func variable(t *testing.T, name string) string {
	t.Helper()
	found := os.Getenv(name)
	if found == "" {
		t.Fatalf("%s is not set", name)
	}
	return found
}

func newTopic(t *testing.T) string {
	t.Helper()
	random := make([]byte, 4)
	if _, err := rand.Read(random); err != nil {
		t.Fatal(err)
	}
	return "secured-" + hex.EncodeToString(random)
}

func trusting(t *testing.T) *tls.Config {
	t.Helper()
	content, err := os.ReadFile(variable(t, "FOREIGN_CA"))
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(content) {
		t.Fatal("no certificate in FOREIGN_CA")
	}
	return &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
}

// franz-go

func franzGo(t *testing.T, each way, password string, more ...kgo.Opt) *kgo.Client {
	t.Helper()
	options := append([]kgo.Opt{kgo.SeedBrokers(each.server(t)), kgo.AllowAutoTopicCreation()}, more...)
	if each.isEncrypted() {
		options = append(options, kgo.DialTLSConfig(trusting(t)))
	}
	if mechanism := saslOf(t, each.mechanism, password); mechanism != nil {
		options = append(options, kgo.SASL(mechanism))
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

func saslOf(t *testing.T, mechanism, password string) sasl.Mechanism {
	t.Helper()
	user := variable(t, "FOREIGN_USER")
	switch mechanism {
	case "PLAIN":
		return plain.Auth{User: user, Pass: password}.AsMechanism()
	case "SCRAM-SHA-256":
		return scram.Auth{User: user, Pass: password}.AsSha256Mechanism()
	case "SCRAM-SHA-512":
		return scram.Auth{User: user, Pass: password}.AsSha512Mechanism()
	}
	return nil
}

func TestFranzGoWritesAndReads(t *testing.T) {
	for _, each := range ways() {
		t.Run(each.name(), func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			topic, password := newTopic(t), variable(t, "FOREIGN_PASSWORD")
			producer := franzGo(t, each, password)
			for number := range records {
				record := &kgo.Record{Topic: topic, Value: []byte{byte(number)}}
				if err := producer.ProduceSync(ctx, record).FirstErr(); err != nil {
					t.Fatal(err)
				}
			}
			consumer := franzGo(t, each, password, kgo.ConsumeTopics(topic), kgo.ConsumerGroup(topic),
				kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
			read := make(map[byte]int)
			for len(read) < records {
				fetches := consumer.PollFetches(ctx)
				if err := fetches.Err(); err != nil {
					t.Fatal(err)
				}
				fetches.EachRecord(func(record *kgo.Record) { read[record.Value[0]]++ })
			}
		})
	}
}

func TestFranzGoLearnsThatThePasswordIsWrong(t *testing.T) {
	for _, each := range ways() {
		if each.mechanism == "" {
			continue
		}
		t.Run(each.name(), func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			if err := franzGo(t, each, "guessed").Ping(ctx); !errors.Is(err, kerr.SaslAuthenticationFailed) {
				t.Fatalf("not SASL_AUTHENTICATION_FAILED but %v", err)
			}
		})
	}
}

// Sarama

func saramaConfig(t *testing.T, each way, password string) *sarama.Config {
	t.Helper()
	config := sarama.NewConfig()
	config.Version = sarama.MaxVersion
	config.Producer.Return.Successes = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Metadata.Retry.Max = 20
	config.Net.TLS.Enable = each.isEncrypted()
	if each.isEncrypted() {
		config.Net.TLS.Config = trusting(t)
	}
	if each.mechanism != "" {
		config.Net.SASL.Enable = true
		config.Net.SASL.Mechanism = sarama.SASLMechanism(each.mechanism)
		config.Net.SASL.User, config.Net.SASL.Password = variable(t, "FOREIGN_USER"), password
		config.Net.SASL.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient {
			return &conversation{hash: map[string]xdgscram.HashGeneratorFcn{
				"SCRAM-SHA-256": sha256.New, "SCRAM-SHA-512": sha512.New,
			}[each.mechanism]}
		}
	}
	return config
}

// conversation is Sarama's interface to a SCRAM client, which it does not bring itself.
type conversation struct {
	hash xdgscram.HashGeneratorFcn
	talk *xdgscram.ClientConversation
}

func (c *conversation) Begin(user, password, authorization string) error {
	client, err := c.hash.NewClient(user, password, authorization)
	if err != nil {
		return err
	}
	c.talk = client.NewConversation()
	return nil
}

func (c *conversation) Step(challenge string) (string, error) { return c.talk.Step(challenge) }

func (c *conversation) Done() bool { return c.talk.Done() }

func TestSaramaWritesAndReads(t *testing.T) {
	for _, each := range ways() {
		t.Run(each.name(), func(t *testing.T) {
			config, topic := saramaConfig(t, each, variable(t, "FOREIGN_PASSWORD")), newTopic(t)
			producer, err := sarama.NewSyncProducer([]string{each.server(t)}, config)
			if err != nil {
				t.Fatal(err)
			}
			defer producer.Close()
			for number := range records {
				message := &sarama.ProducerMessage{Topic: topic, Value: sarama.ByteEncoder{byte(number)}}
				if _, _, err := producer.SendMessage(message); err != nil {
					t.Fatal(err)
				}
			}
			consumer, err := sarama.NewConsumer([]string{each.server(t)}, config)
			if err != nil {
				t.Fatal(err)
			}
			defer consumer.Close()
			partition, err := consumer.ConsumePartition(topic, 0, sarama.OffsetOldest)
			if err != nil {
				t.Fatal(err)
			}
			defer partition.Close()
			select {
			case message := <-partition.Messages():
				if len(message.Value) != 1 {
					t.Fatalf("read %v", message.Value)
				}
			case <-time.After(patience):
				t.Fatal("nothing was read")
			}
		})
	}
}

func TestSaramaLearnsThatThePasswordIsWrong(t *testing.T) {
	for _, each := range ways() {
		if each.mechanism == "" {
			continue
		}
		t.Run(each.name(), func(t *testing.T) {
			config := saramaConfig(t, each, "guessed")
			config.Metadata.Retry.Max = 0
			_, err := sarama.NewClient([]string{each.server(t)}, config)
			if !errors.Is(err, sarama.ErrSASLAuthenticationFailed) {
				t.Fatalf("not ErrSASLAuthenticationFailed but %v", err)
			}
		})
	}
}

func TestAClientThatTrustsAnotherAuthorityDoesNotConnect(t *testing.T) {
	config := saramaConfig(t, way{"SSL", ""}, "")
	config.Metadata.Retry.Max = 0
	config.Net.TLS.Config.RootCAs = x509.NewCertPool()
	_, err := sarama.NewClient([]string{variable(t, "FOREIGN_SSL")}, config)
	var unknown x509.UnknownAuthorityError
	if err == nil || !(errors.As(err, &unknown) || strings.Contains(err.Error(), "unknown authority")) {
		t.Fatalf("not an unknown authority but %v", err)
	}
}
