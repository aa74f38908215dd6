// A session of go-redis' ClusterClient: it finds every node from one, routes by itself, and goes on by itself when a leader dies.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

type clusterStep struct {
	name string
	do   func(r *redis.ClusterClient)
}

// clusterClient is told of one node only. By itself go-redis reads the topology again once a minute and when it is redirected, and what goes to a dead
// node is not redirected.
func clusterClient(change func(*redis.ClusterOptions)) *redis.ClusterClient {
	options := &redis.ClusterOptions{Addrs: hosts[:1], Protocol: protocol, ClusterStateReloadInterval: time.Second}
	if change != nil {
		change(options)
	}
	return redis.NewClusterClient(options)
}

func untilSo(seconds int, condition func() bool) {
	last := time.Now().Add(time.Duration(seconds) * time.Second)
	for !condition() {
		if time.Now().After(last) {
			fail("waited in vain")
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func numbered(prefix string, count int) []string {
	names := make([]string, count)
	for number := range names {
		names[number] = fmt.Sprintf("%s%d", prefix, number)
	}
	return names
}

var clusterSteps = []clusterStep{
	{"topology", func(r *redis.ClusterClient) {
		is(int64(12182))(r.ClusterKeySlot(ctx, "foo").Result())
		slots := 0
		for _, one := range must(r.ClusterSlots(ctx).Result()) {
			slots += one.End - one.Start + 1
		}
		equal(slots, 16384)
		slots = 0
		for _, shard := range must(r.ClusterShards(ctx).Result()) {
			for _, one := range shard.Slots {
				slots += int(one.End - one.Start + 1)
			}
		}
		equal(slots, 16384)
		var met []string
		var lock sync.Mutex
		must(0, r.ForEachShard(ctx, func(_ context.Context, node *redis.Client) error {
			lock.Lock()
			defer lock.Unlock()
			met = append(met, node.Options().Addr)
			return nil
		}))
		slices.Sort(met)
		equal(met, slices.Sorted(slices.Values(hosts)))
		links := must(r.ClusterLinks(ctx).Result())
		equal(len(links), 4)
	}},
	{"keys everywhere", func(r *redis.ClusterClient) {
		keys := numbered("k", 200)
		for _, key := range keys {
			is("OK")(r.Set(ctx, key, key, 0).Result())
		}
		for _, key := range keys {
			is(key)(r.Get(ctx, key).Result())
		}
		is(int64(200))(r.DBSize(ctx).Result())
		var met []string
		var lock sync.Mutex
		must(0, r.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
			all := node.Scan(ctx, 0, "", 7).Iterator()
			for all.Next(ctx) {
				lock.Lock()
				met = append(met, all.Val())
				lock.Unlock()
			}
			return all.Err()
		}))
		slices.Sort(met)
		equal(met, slices.Sorted(slices.Values(keys)))
		is("OK")(r.MSet(ctx, "{t}a", 1, "{t}b", 2).Result())
		is([]any{"1", "2", nil})(r.MGet(ctx, "{t}a", "{t}b", "{t}c").Result())
		refused(r.Do(ctx, "sunion", "a", "b").Err(), "CROSSSLOT")
		is(int64(2))(r.ClusterCountKeysInSlot(ctx, int(must(r.ClusterKeySlot(ctx, "{t}a").Result()))).Result())
	}},
	{"pipelines and transactions", func(r *redis.ClusterClient) {
		commands := must(r.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			for _, key := range numbered("p", 100) {
				pipe.Set(ctx, key, key, 0)
				pipe.Get(ctx, key)
			}
			return nil
		}))
		equal(commands[199].(*redis.StringCmd).Val(), "p99")
		must(r.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
			pipe.Set(ctx, "{t}1", 1, 0)
			pipe.Incr(ctx, "{t}1")
			return nil
		}))
		must(0, r.Watch(ctx, func(tx *redis.Tx) error {
			before := must(tx.Get(ctx, "{t}1").Int())
			_, err := tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
				pipe.Set(ctx, "{t}1", before+1, 0)
				return nil
			})
			return err
		}, "{t}1"))
		is("3")(r.Get(ctx, "{t}1").Result())
	}},
	{"scripts", func(r *redis.ClusterClient) {
		add := redis.NewScript("return redis.call('incrby', KEYS[1], ARGV[1])")
		for number, key := range numbered("sum", 20) {
			is(number)(add.Run(ctx, r, []string{key}, number).Int())
		}
	}},
	{"messages", func(r *redis.ClusterClient) {
		listener := r.Subscribe(ctx, "news")
		defer listener.Close()
		must(listener.Receive(ctx))
		must(r.Publish(ctx, "news", "hello").Result())
		equal(must(listener.ReceiveMessage(ctx)).Payload, "hello")
		shard := r.SSubscribe(ctx, "shard")
		defer shard.Close()
		must(shard.Receive(ctx))
		must(r.SPublish(ctx, "shard", "hello").Result())
		equal(must(shard.ReceiveMessage(ctx)).Payload, "hello")
	}},
	{"waits", func(r *redis.ClusterClient) {
		go func() {
			time.Sleep(50 * time.Millisecond)
			r.RPush(ctx, "queue", "job")
		}()
		is([]string{"queue", "job"})(r.BLPop(ctx, 20*time.Second, "queue").Result())
	}},
	{"reads at replicas", func(r *redis.ClusterClient) {
		must(r.Set(ctx, "old", 1, 0).Result())
		reader := clusterClient(func(options *redis.ClusterOptions) { options.RouteRandomly = true })
		defer reader.Close()
		untilSo(20, func() bool {
			for range 10 {
				if reader.Get(ctx, "old").Val() != "1" {
					return false
				}
			}
			return true
		})
	}},
	{"death of a leader", func(r *redis.ClusterClient) {
		const writers = 4
		var lock sync.Mutex
		var group sync.WaitGroup
		acknowledged := [writers][]int{}
		errors := map[string]int{}
		stop := make(chan struct{})
		for writer := range writers {
			group.Add(1)
			go func() {
				defer group.Done()
				for number := 0; ; {
					select {
					case <-stop:
						return
					default:
					}
					err := r.Set(ctx, fmt.Sprintf("w%d:%d", writer, number), number, 0).Err()
					lock.Lock()
					if err == nil {
						acknowledged[writer] = append(acknowledged[writer], number)
						number++
					} else {
						errors[err.Error()]++
					}
					lock.Unlock()
					if err != nil {
						time.Sleep(50 * time.Millisecond)
					}
				}
			}()
		}
		counts := func() (counts [writers]int) {
			lock.Lock()
			defer lock.Unlock()
			for writer := range writers {
				counts[writer] = len(acknowledged[writer])
			}
			return
		}
		more := func() {
			before := counts()
			untilSo(60, func() bool {
				for writer, count := range counts() {
					if count < before[writer]+100 {
						return false
					}
				}
				return true
			})
		}
		told := bufio.NewScanner(os.Stdin)
		more()
		fmt.Println("kill a leader")
		equal(told.Scan() && told.Text() == "another leads", true)
		more()
		fmt.Println("start it again")
		equal(told.Scan() && told.Text() == "it is back", true)
		more()
		close(stop)
		group.Wait()
		total := 0
		for writer, numbers := range acknowledged {
			for _, number := range numbers {
				is(fmt.Sprint(number))(r.Get(ctx, fmt.Sprintf("w%d:%d", writer, number)).Result())
			}
			total += len(numbers)
		}
		fmt.Printf("note %d writes, errors seen: %v\n", total, errors)
	}},
}

func playCluster() {
	for protocol = 2; protocol <= 3; protocol++ {
		for _, step := range clusterSteps {
			r := clusterClient(nil)
			must(0, r.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error { return node.FlushAll(ctx).Err() }))
			step.do(r)
			r.Close()
			fmt.Printf("ok %s (RESP%d)\n", step.name, protocol)
		}
	}
}
