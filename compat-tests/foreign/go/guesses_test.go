// What franz-go's kadm takes a broker for, by its ApiVersions: kminion and Redpanda Console show this guess.
//
// The broker is asked at KGO_SEEDS, and its answer is then completed, one missing key after the other.
package foreign

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

const patience = 30 * time.Second

// decisive has the keys that decide the guess, the oldest first, and what is guessed of a broker without that key.
var decisive = []struct {
	key   kmsg.Key
	guess string
}{
	{kmsg.AlterClientQuotas, "between v2.5 and v2.6"},
	{kmsg.AlterUserSCRAMCredentials, "between v2.6 and v2.7"},
	{kmsg.ConsumerGroupHeartbeat, "between v3.6 and v3.7"},
	{kmsg.ConsumerGroupDescribe, "between v3.7 and v3.8"},
}

const (
	withoutYounger = "at least v3.9"
	complete       = "v4.3"
)

func TestTheGuessFollowsFromTheOldestMissingKey(t *testing.T) {
	answer := asked(t)
	for _, each := range decisive {
		if lacks(answer, each.key) {
			t.Logf("without %s: %s", each.key.Name(), each.guess)
			if found := guess(answer); found != each.guess {
				t.Errorf("without %s: guessed %s, not %s", each.key.Name(), found, each.guess)
			}
			add(answer, each.key)
		}
	}
	younger := missing(answer)
	if len(younger) > 0 {
		if found := guess(answer); found != withoutYounger {
			t.Errorf("without %d younger keys: guessed %s, not %s", len(younger), found, withoutYounger)
		}
		add(answer, younger...)
	}
	if found := guess(answer); found != complete {
		t.Errorf("with every key: guessed %s, not %s", found, complete)
	}
}

func TestKeysThatAreServedHaveTheVersionsOfTheRelease(t *testing.T) {
	here := kversion.FromApiVersionsResponse(asked(t))
	kversion.V4_3_0().EachMaxKeyVersion(func(key, version int16) {
		if found, served := here.LookupMaxKeyVersion(key); served && found != version {
			t.Errorf("%s: %d, not %d", kmsg.NameForKey(key), found, version)
		}
	})
}

func asked(t *testing.T) *kmsg.ApiVersionsResponse {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(os.Getenv("KGO_SEEDS"), ",")...))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	answers, err := kadm.NewClient(client).ApiVersions(ctx)
	if err != nil || len(answers) == 0 {
		t.Fatalf("no broker answered: %v", err)
	}
	broker := answers.Sorted()[0]
	if broker.Err != nil {
		t.Fatal(broker.Err)
	}
	if found := guess(broker.Raw()); found != broker.VersionGuess() {
		t.Fatalf("kadm guesses %s, kversion %s", broker.VersionGuess(), found)
	}
	return broker.Raw()
}

func guess(answer *kmsg.ApiVersionsResponse) string {
	return kversion.FromApiVersionsResponse(answer).VersionGuess()
}

func lacks(answer *kmsg.ApiVersionsResponse, key kmsg.Key) bool {
	return !kversion.FromApiVersionsResponse(answer).HasKey(key.Int16())
}

// missing returns the release's keys that the answer lacks; those of client metrics need a plug-in there too.
func missing(answer *kmsg.ApiVersionsResponse) []kmsg.Key {
	var keys []kmsg.Key
	kversion.V4_3_0().EachMaxKeyVersion(func(number, _ int16) {
		key := kmsg.Key(number)
		plugged := key == kmsg.GetTelemetrySubscriptions || key == kmsg.PushTelemetry
		if lacks(answer, key) && !plugged {
			keys = append(keys, key)
		}
	})
	return keys
}

// add lets the answer have these keys too, with the versions of the release.
func add(answer *kmsg.ApiVersionsResponse, keys ...kmsg.Key) {
	kversion.V4_3_0().EachMaxKeyVersion(func(number, version int16) {
		if slices.Contains(keys, kmsg.Key(number)) {
			added := kmsg.NewApiVersionsResponseApiKey()
			added.ApiKey, added.MaxVersion = number, version
			answer.ApiKeys = append(answer.ApiKeys, added)
		}
	})
}
