// A session of go-redis: what its users do all day, over RESP2 and RESP3.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"reflect"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

var (
	ctx      = context.Background()
	hosts    = strings.Split(os.Getenv("DICTUM_HOSTS"), ",")
	onDictum = os.Getenv("DICTUM_SERVER") == "dictum"
	protocol = 2
)

type step struct {
	name  string
	newer bool // needs commands newer than Redis 7.0
	do    func(r *redis.Client)
}

// fail ends the session with what was found instead.
func fail(format string, words ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", words...)
	panic("the step is not right")
}

func equal(got, want any) {
	if !reflect.DeepEqual(got, want) {
		fail("got %#v, want %#v", got, want)
	}
}

// is checks an answer and that there was no error.
func is[T any](want T) func(T, error) {
	return func(got T, err error) {
		if err != nil {
			fail("error: %v (wanted %#v)", err, want)
		}
		equal(got, want)
	}
}

func must[T any](got T, err error) T {
	if err != nil {
		fail("error: %v", err)
	}
	return got
}

func refused(err error, how string) {
	if err == nil || !strings.Contains(err.Error(), how) {
		fail("error %v, want one with %q", err, how)
	}
}

func none[T any](got T, err error) {
	if !errors.Is(err, redis.Nil) {
		fail("got %#v, %v; want nil", got, err)
	}
}

func until(condition func() bool) {
	last := time.Now().Add(20 * time.Second)
	for !condition() {
		if time.Now().After(last) {
			fail("waited in vain")
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func sorted(list []string) []string { sort.Strings(list); return list }

func client(node int) *redis.Client {
	return redis.NewClient(&redis.Options{Addr: hosts[node], Protocol: protocol})
}

func waiters(node int) string {
	r := client(node)
	defer r.Close()
	for _, line := range strings.Split(must(r.Info(ctx, "clients").Result()), "\r\n") {
		if count, found := strings.CutPrefix(line, "blocked_clients:"); found {
			return count
		}
	}
	return "?"
}

// waits starts the call at another node, waits until it waits there, does the other thing and returns the call's answer.
func waits[T any](node int, call func(r *redis.Client) (T, error), then func()) T {
	r := client(node)
	defer r.Close()
	type answer struct {
		got T
		err error
	}
	answers := make(chan answer)
	go func() { got, err := call(r); answers <- answer{got, err} }()
	until(func() bool { return waiters(node) == "1" })
	then()
	found := <-answers
	return must(found.got, found.err)
}

func main() {
	switch os.Args[1] {
	case "cluster":
		playCluster()
		return
	case "buckets":
		playBuckets()
		return
	}
	for protocol = 2; protocol <= 3; protocol++ {
		for _, one := range map[string][]step{"main": ordinary, "scripts": scripted, "stream-waits": waiting}[os.Args[1]] {
			if one.newer && !onDictum {
				continue
			}
			r := client(0)
			must(r.FlushAll(ctx).Result())
			one.do(r)
			r.Close()
			fmt.Printf("ok %s (RESP%d)\n", one.name, protocol)
		}
	}
}

var ordinary = []step{
	{"connections", false, func(r *redis.Client) {
		is("PONG")(r.Ping(ctx).Result())
		is("hé\r\n")(r.Echo(ctx, "hé\r\n").Result())
		equal(must(r.ClientInfo(ctx).Result()).Resp, protocol)
		if must(r.ClientID(ctx).Result()) < 1 || len(must(r.Command(ctx).Result())) < 200 {
			fail("no identifier, or too few commands")
		}
		refused(r.Do(ctx, "NO-SUCH-THING").Err(), "unknown command")
	}},
	{"strings", false, func(r *redis.Client) {
		is("OK")(r.Set(ctx, "s", "1", 0).Result())
		is(false)(r.SetNX(ctx, "s", "2", 0).Result())
		is("1")(r.SetArgs(ctx, "s", "2", redis.SetArgs{Get: true}).Result())
		is(int64(42))(r.IncrBy(ctx, "s", 40).Result())
		is(42.5)(r.IncrByFloat(ctx, "s", 0.5).Result())
		is(int64(5))(r.Append(ctx, "s", "!").Result())
		is("42")(r.GetRange(ctx, "s", 0, 1).Result())
		is("OK")(r.MSet(ctx, "s1", "a", "s2", "b").Result())
		is([]any{"a", nil, "b"})(r.MGet(ctx, "s1", "none", "s2").Result())
		is("a")(r.GetEx(ctx, "s1", time.Minute).Result())
		if left := must(r.PTTL(ctx, "s1").Result()); left <= 0 || left > time.Minute {
			fail("PTTL %v", left)
		}
		is("a")(r.GetDel(ctx, "s1").Result())
		none(r.Get(ctx, "s1").Result())
		is(int64(0))(r.SetBit(ctx, "bits", 7, 1).Result())
		is(int64(1))(r.BitCount(ctx, "bits", nil).Result())
		is([]int64{0, 255})(r.BitField(ctx, "field", "SET", "u8", 0, 200, "OVERFLOW", "SAT", "INCRBY", "u8", 0, 100).Result())
		raw := make([]byte, 256)
		for i := range raw {
			raw[i] = byte(i)
		}
		must(r.Set(ctx, "raw", raw, 0).Result())
		if !bytes.Equal(must(r.Get(ctx, "raw").Bytes()), raw) {
			fail("bytes changed on their way")
		}
		refused(r.LPush(ctx, "s", "x").Err(), "WRONGTYPE")
		refused(r.Incr(ctx, "s").Err(), "not an integer")
	}},
	{"keys", false, func(r *redis.Client) {
		must(r.MSet(ctx, "k1", "1", "k2", "2").Result())
		is(int64(2))(r.Exists(ctx, "k1", "k2", "k3").Result())
		is("string")(r.Type(ctx, "k1").Result())
		is("OK")(r.Rename(ctx, "k1", "k3").Result())
		is(int64(1))(r.Copy(ctx, "k3", "k4", 0, false).Result())
		is(int64(2))(r.Unlink(ctx, "k3", "k4").Result())
		is(true)(r.Expire(ctx, "k2", 100*time.Second).Result())
		is(false)(r.ExpireGT(ctx, "k2", 50*time.Second).Result())
		held := must(r.Dump(ctx, "k2").Result())
		is("OK")(r.Restore(ctx, "k5", 0, held).Result())
		is("2")(r.Get(ctx, "k5").Result())
		must(r.Set(ctx, "short", "1", 30*time.Millisecond).Result())
		until(func() bool { return must(r.Exists(ctx, "short").Result()) == 0 })
	}},
	{"hashes", false, func(r *redis.Client) {
		type person struct {
			Name string  `redis:"name"`
			Age  int     `redis:"age"`
			Size float64 `redis:"size"`
		}
		is(int64(3))(r.HSet(ctx, "h", person{"Ada", 36, 1.5}).Result())
		var back person
		if err := r.HGetAll(ctx, "h").Scan(&back); err != nil {
			fail("%v", err)
		}
		equal(back, person{"Ada", 36, 1.5})
		is(int64(37))(r.HIncrBy(ctx, "h", "age", 1).Result())
		is([]any{"37", nil})(r.HMGet(ctx, "h", "age", "x").Result())
		is([]string{"age", "name", "size"})(sorted(must(r.HKeys(ctx, "h").Result())), nil)
		wide := map[string]string{}
		for i := range 1000 {
			wide[fmt.Sprint("f", i)] = fmt.Sprint(i)
		}
		must(r.HSet(ctx, "wide", wide).Result())
		found, scan := map[string]string{}, r.HScan(ctx, "wide", 0, "", 50).Iterator()
		for scan.Next(ctx) {
			field := scan.Val()
			scan.Next(ctx)
			found[field] = scan.Val()
		}
		equal(found, wide)
		none(r.HGet(ctx, "h", "none").Result())
	}},
	{"fields that expire", true, func(r *redis.Client) {
		must(r.HSet(ctx, "hx", "a", 1, "b", 2, "c", 3).Result())
		is([]int64{1, -2})(r.HExpire(ctx, "hx", 100*time.Second, "a", "none").Result())
		is([]int64{0})(r.HExpireWithArgs(ctx, "hx", 50*time.Second, redis.HExpireArgs{GT: true}, "a").Result())
		if left := must(r.HTTL(ctx, "hx", "a", "b").Result()); left[0] < 90 || left[1] != -1 {
			fail("HTTL %v", left)
		}
		is([]int64{1})(r.HPersist(ctx, "hx", "a").Result())
		is([]int64{1})(r.HPExpire(ctx, "hx", 30*time.Millisecond, "a").Result())
		until(func() bool { return !must(r.HExists(ctx, "hx", "a").Result()) })
		is([]string{"2"})(r.HGetEX(ctx, "hx", "b").Result())
		is(int64(1))(r.HSetEXWithArgs(ctx, "hx", &redis.HSetEXOptions{ExpirationType: redis.HSetEXExpirationEX, ExpirationVal: 60}, "d", "4").Result())
		is([]string{"2", "3"})(r.HGetDel(ctx, "hx", "b", "c").Result())
		is(map[string]string{"d": "4"})(r.HGetAll(ctx, "hx").Result())
	}},
	{"lists", false, func(r *redis.Client) {
		is(int64(6))(r.RPush(ctx, "l", "a", "b", "c", "d", "e", "f").Result())
		is(int64(7))(r.LInsertBefore(ctx, "l", "b", "x").Result())
		is([]string{"a", "x", "b", "c", "d", "e", "f"})(r.LRange(ctx, "l", 0, -1).Result())
		is([]string{"a", "x"})(r.LPopCount(ctx, "l", 2).Result())
		is(int64(1))(r.LPos(ctx, "l", "c", redis.LPosArgs{}).Result())
		is("f")(r.LMove(ctx, "l", "l2", "RIGHT", "LEFT").Result())
		key, values, err := r.LMPop(ctx, "LEFT", 5, "none", "l2").Result()
		is("l2")(key, err)
		equal(values, []string{"f"})
		none(r.BLPop(ctx, time.Second, "none").Result())
		got := waits(1, func(r *redis.Client) ([]string, error) {
			return r.BLPop(ctx, 20*time.Second, "first", "second").Result()
		},
			func() { must(r.RPush(ctx, "second", "here").Result()) })
		equal(got, []string{"second", "here"})
		moved := waits(2, func(r *redis.Client) (string, error) {
			return r.BLMove(ctx, "from", "to", "RIGHT", "LEFT", 20*time.Second).Result()
		}, func() { must(r.RPush(ctx, "from", "moved").Result()) })
		equal(moved, "moved")
		is([]string{"moved"})(r.LRange(ctx, "to", 0, -1).Result())
	}},
	{"sets", false, func(r *redis.Client) {
		is(int64(3))(r.SAdd(ctx, "a", 1, 2, 3).Result())
		is(int64(3))(r.SAdd(ctx, "b", 2, 3, 4).Result())
		is([]bool{true, false})(r.SMIsMember(ctx, "a", 1, 9).Result())
		equal(sorted(must(r.SInter(ctx, "a", "b").Result())), []string{"2", "3"})
		equal(sorted(must(r.SUnion(ctx, "a", "b").Result())), []string{"1", "2", "3", "4"})
		is(int64(1))(r.SInterCard(ctx, 1, "a", "b").Result())
		is(int64(1))(r.SDiffStore(ctx, "c", "a", "b").Result())
		is("1")(r.SPop(ctx, "c").Result())
		is(map[string]struct{}{"1": {}, "2": {}, "3": {}})(r.SMembersMap(ctx, "a").Result())
		is(int64(1))(r.SRem(ctx, "a", 1, 99).Result())
	}},
	{"sorted sets", false, func(r *redis.Client) {
		is(int64(3))(r.ZAdd(ctx, "z", redis.Z{Score: 1, Member: "one"}, redis.Z{Score: 2, Member: "two"}, redis.Z{Score: math.Inf(1), Member: "end"}).Result())
		is(2.5)(r.ZIncrBy(ctx, "z", 0.5, "two").Result())
		is([]redis.Z{{Score: 1, Member: "one"}, {Score: 2.5, Member: "two"}, {Score: math.Inf(1), Member: "end"}})(r.ZRangeWithScores(ctx, "z", 0, -1).Result())
		is([]string{"two"})(r.ZRangeArgs(ctx, redis.ZRangeArgs{Key: "z", Start: "(1", Stop: "100", ByScore: true}).Result())
		is(int64(1))(r.ZRank(ctx, "z", "two").Result())
		is([]float64{2.5, 0})(r.ZMScore(ctx, "z", "two", "none").Result())
		is(int64(2))(r.ZCount(ctx, "z", "1", "3").Result())
		must(r.ZAdd(ctx, "w", redis.Z{Score: 10, Member: "two"}).Result())
		is(int64(3))(r.ZUnionStore(ctx, "u", &redis.ZStore{Keys: []string{"z", "w"}, Weights: []float64{2, 1}}).Result())
		is(15.0)(r.ZScore(ctx, "u", "two").Result())
		is([]redis.Z{{Score: 1, Member: "one"}})(r.ZPopMin(ctx, "z").Result())
		got := waits(1, func(r *redis.Client) (*redis.ZWithKey, error) {
			return r.BZPopMax(ctx, 20*time.Second, "late").Result()
		},
			func() { must(r.ZAdd(ctx, "late", redis.Z{Score: 7, Member: "m"}).Result()) })
		equal(*got, redis.ZWithKey{Key: "late", Z: redis.Z{Score: 7, Member: "m"}})
	}},
	{"sketches and places", false, func(r *redis.Client) {
		for i := range 1000 {
			must(r.PFAdd(ctx, "p", i).Result())
		}
		if count := must(r.PFCount(ctx, "p").Result()); count < 950 || count > 1050 {
			fail("PFCOUNT %d", count)
		}
		is(int64(2))(r.GeoAdd(ctx, "g", &redis.GeoLocation{Name: "Palermo", Longitude: 13.361389, Latitude: 38.115556},
			&redis.GeoLocation{Name: "Catania", Longitude: 15.087269, Latitude: 37.502669}).Result())
		is([]string{"Catania", "Palermo"})(r.GeoSearch(ctx, "g", &redis.GeoSearchQuery{Longitude: 15, Latitude: 37, Radius: 200, RadiusUnit: "km", Sort: "ASC"}).Result())
		is(166.2742)(r.GeoDist(ctx, "g", "Palermo", "Catania", "km").Result())
	}},
	{"streams", false, func(r *redis.Client) {
		var ids []string
		for i := range 10 {
			ids = append(ids, must(r.XAdd(ctx, &redis.XAddArgs{Stream: "x", Values: []any{"n", i}}).Result()))
		}
		read := must(r.XRead(ctx, &redis.XReadArgs{Streams: []string{"x", ids[0]}, Count: 2, Block: -1}).Result())
		equal(read, []redis.XStream{{Stream: "x", Messages: []redis.XMessage{{ID: ids[1], Values: map[string]any{"n": "1"}}, {ID: ids[2], Values: map[string]any{"n": "2"}}}}})
		is("OK")(r.XGroupCreate(ctx, "x", "group", "0").Result())
		refused(r.XGroupCreate(ctx, "x", "group", "0").Err(), "BUSYGROUP")
		taken := must(r.XReadGroup(ctx, &redis.XReadGroupArgs{Group: "group", Consumer: "alice", Streams: []string{"x", ">"}, Count: 4, Block: -1}).Result())
		equal(len(taken[0].Messages), 4)
		is(int64(1))(r.XAck(ctx, "x", "group", ids[0]).Result())
		pending := must(r.XPending(ctx, "x", "group").Result())
		equal(*pending, redis.XPending{Count: 3, Lower: ids[1], Higher: ids[3], Consumers: map[string]int64{"alice": 3}})
		claimed := must(r.XClaim(ctx, &redis.XClaimArgs{Stream: "x", Group: "group", Consumer: "bob", Messages: []string{ids[1]}}).Result())
		equal(claimed[0].ID, ids[1])
		messages, next, err := r.XAutoClaim(ctx, &redis.XAutoClaimArgs{Stream: "x", Group: "group", Consumer: "carol", Start: "0", Count: 10}).Result()
		is("0-0")(next, err)
		equal(len(messages), 3)
		groups := must(r.XInfoGroups(ctx, "x").Result())
		equal([]any{groups[0].Name, groups[0].Pending, groups[0].Lag, groups[0].EntriesRead}, []any{"group", int64(3), int64(6), int64(4)})
		equal(must(r.XInfoStream(ctx, "x").Result()).Length, int64(10))
		equal(len(must(r.XInfoStreamFull(ctx, "x", 5).Result()).Entries), 5)
		is(int64(6))(r.XTrimMaxLen(ctx, "x", 4).Result())
		equal(len(must(r.XRange(ctx, "x", "-", "+").Result())), 4)
	}},
	{"pipelines", false, func(r *redis.Client) {
		answers := must(r.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			for range 5000 {
				pipe.Incr(ctx, "counter")
			}
			return nil
		}))
		equal(answers[4999].(*redis.IntCmd).Val(), int64(5000))
	}},
	{"transactions", false, func(r *redis.Client) {
		answers := must(r.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
			pipe.Set(ctx, "t", 1, 0)
			pipe.Incr(ctx, "t")
			pipe.HSet(ctx, "th", "f", "v")
			return nil
		}))
		equal(answers[1].(*redis.IntCmd).Val(), int64(2))
		var group sync.WaitGroup
		for worker := range 3 {
			group.Add(1)
			go func() {
				defer group.Done()
				own := client(worker)
				defer own.Close()
				for done := 0; done < 20; {
					err := own.Watch(ctx, func(tx *redis.Tx) error {
						value, err := tx.Get(ctx, "sum").Int()
						if err != nil && !errors.Is(err, redis.Nil) {
							return err
						}
						_, err = tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error { pipe.Set(ctx, "sum", value+1, 0); return nil })
						return err
					}, "sum")
					if err == nil {
						done++
					} else if !errors.Is(err, redis.TxFailedErr) {
						fail("%v", err)
					}
				}
			}()
		}
		group.Wait()
		is("60")(r.Get(ctx, "sum").Result())
	}},
	{"publish and subscribe", false, func(r *redis.Client) {
		elsewhere := client(1)
		defer elsewhere.Close()
		listener := elsewhere.Subscribe(ctx, "news")
		defer listener.Close()
		if err := listener.PSubscribe(ctx, "news.*"); err != nil {
			fail("%v", err)
		}
		messages := listener.Channel()
		until(func() bool { return must(r.Publish(ctx, "news", "hello").Result()) == 1 })
		message := <-messages
		equal([]string{message.Channel, message.Payload}, []string{"news", "hello"})
		until(func() bool { return must(r.Publish(ctx, "news.sport", "1:0").Result()) == 1 })
		for message = <-messages; message.Payload == "hello"; message = <-messages {
		}
		equal([]string{message.Pattern, message.Channel, message.Payload}, []string{"news.*", "news.sport", "1:0"})
		shard := elsewhere.SSubscribe(ctx, "shard")
		defer shard.Close()
		must(shard.Receive(ctx))
		until(func() bool { return must(r.SPublish(ctx, "shard", "x").Result()) == 1 })
		equal((<-shard.Channel()).Payload, "x")
	}},
	{"scans", false, func(r *redis.Client) {
		want := map[string]bool{}
		must(r.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			for i := range 2000 {
				pipe.Set(ctx, fmt.Sprint("scan:", i), i, 0)
				if strings.HasPrefix(fmt.Sprint(i), "1") {
					want[fmt.Sprint("scan:", i)] = true
				}
			}
			return nil
		}))
		got := map[string]bool{}
		for scan := r.Scan(ctx, 0, "scan:1*", 200).Iterator(); scan.Next(ctx); {
			got[scan.Val()] = true
		}
		equal(slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
		is(int64(2000))(r.DBSize(ctx).Result())
	}},
	{"documents", true, func(r *redis.Client) {
		is("OK")(r.JSONSet(ctx, "doc", "$", map[string]any{"name": "Ada", "tags": []string{"x"}, "age": 36}).Result())
		is(`["Ada"]`)(r.JSONGet(ctx, "doc", "$.name").Result())
		is("[37]")(r.JSONNumIncrBy(ctx, "doc", "$.age", 1).Result())
		is([]int64{2})(r.JSONArrAppend(ctx, "doc", "$.tags", `"y"`).Result())
		is("OK")(r.JSONMerge(ctx, "doc", "$", `{"name":null,"new":true}`).Result())
		is(`[{"age":37,"new":true,"tags":["x","y"]}]`)(sortedObject(must(r.JSONGet(ctx, "doc", "$").Result())), nil)
		is(int64(1))(r.JSONDel(ctx, "doc", "$.new").Result())
		none(r.JSONGet(ctx, "none", "$").Result())
	}},
	{"reads elsewhere", false, func(r *redis.Client) {
		second, third := client(1), client(2)
		defer second.Close()
		defer third.Close()
		for i := range 200 {
			must(r.Set(ctx, "seen", i, 0).Result())
			is(fmt.Sprint(i))(second.Get(ctx, "seen").Result())
			is(fmt.Sprint(i))(third.Get(ctx, "seen").Result())
		}
	}},
	{"many goroutines", false, func(r *redis.Client) {
		var group sync.WaitGroup
		for range 50 {
			group.Add(1)
			go func() {
				defer group.Done()
				for range 100 {
					must(r.Incr(ctx, "sum").Result())
				}
			}()
		}
		group.Wait()
		is("5000")(r.Get(ctx, "sum").Result())
	}},
}

var scripted = []step{
	{"scripts", false, func(r *redis.Client) {
		is(any([]any{"k", "a", int64(3)}))(r.Eval(ctx, "return {KEYS[1], ARGV[1], 3}", []string{"k"}, "a").Result())
		add := redis.NewScript("return redis.call('incrby', KEYS[1], ARGV[1])")
		is(5)(add.Run(ctx, r, []string{"n"}, 5).Int())
		is([]bool{true})(add.Exists(ctx, r).Result())
		must(r.ScriptFlush(ctx).Result())
		is(7)(add.Run(ctx, r, []string{"n"}, 2).Int())
		is(any("7"))(r.EvalRO(ctx, "return redis.call('get', KEYS[1])", []string{"n"}).Result())
		refused(r.Eval(ctx, "return redis.error_reply('boom')", nil).Err(), "boom")
	}},
}

var waiting = []step{
	{"reads that wait", false, func(r *redis.Client) {
		read := waits(1, func(r *redis.Client) ([]redis.XStream, error) {
			return r.XRead(ctx, &redis.XReadArgs{Streams: []string{"waited", "$"}, Block: 20 * time.Second}).Result()
		}, func() { must(r.XAdd(ctx, &redis.XAddArgs{Stream: "waited", Values: []any{"a", 1}}).Result()) })
		equal(read[0].Messages[0].Values, map[string]any{"a": "1"})
		is("OK")(r.XGroupCreate(ctx, "waited", "g", "$").Result())
		read = waits(2, func(r *redis.Client) ([]redis.XStream, error) {
			return r.XReadGroup(ctx, &redis.XReadGroupArgs{Group: "g", Consumer: "c", Streams: []string{"waited", ">"}, Block: 20 * time.Second}).Result()
		}, func() { must(r.XAdd(ctx, &redis.XAddArgs{Stream: "waited", Values: []any{"a", 2}}).Result()) })
		equal(read[0].Messages[0].Values, map[string]any{"a": "2"})
		began := time.Now()
		none(r.XRead(ctx, &redis.XReadArgs{Streams: []string{"waited", "$"}, Block: 200 * time.Millisecond}).Result())
		if waited := time.Since(began); waited < 190*time.Millisecond {
			fail("answered after %v", waited)
		}
	}},
}

// sortedObject returns a one-object JSON array with its fields in order.
func sortedObject(text string) string {
	fields := strings.Split(strings.TrimSuffix(strings.TrimPrefix(text, "[{"), "}]"), ",\"")
	for i := range fields {
		fields[i] = strings.TrimPrefix(fields[i], "\"")
	}
	sort.Strings(fields)
	return "[{\"" + strings.Join(fields, ",\"") + "}]"
}
