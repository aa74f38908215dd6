// A session of go-redis: how a client chooses a database or a bucket, and what becomes of a wrong choice.
package main

import (
	"fmt"

	"github.com/redis/go-redis/v9"
)

// chosen is a client that chooses by its options.
func chosen(node int, change func(*redis.Options)) *redis.Client {
	options := &redis.Options{Addr: hosts[node], Protocol: protocol}
	change(options)
	return redis.NewClient(options)
}

// byURL is a client by a URL: before stands in front of the host, after behind the port.
func byURL(node int, before, after string) *redis.Client {
	options := must(redis.ParseURL("redis://" + before + hosts[node] + after))
	options.Protocol = protocol
	return redis.NewClient(options)
}

func database(number int) func(*redis.Options) {
	return func(options *redis.Options) { options.DB = number }
}

func user(name, password string) func(*redis.Options) {
	return func(options *redis.Options) { options.Username, options.Password = name, password }
}

// apart checks that both clients see the same data, and that r sees others.
func apart(r, one, same *redis.Client) {
	defer one.Close()
	defer same.Close()
	is("OK")(one.Set(ctx, "k", "apart", 0).Result())
	is("apart")(same.Get(ctx, "k").Result())
	none(r.Get(ctx, "k").Result())
	is("OK")(r.Set(ctx, "k", "zero", 0).Result())
	is("apart")(same.Get(ctx, "k").Result())
}

// writesNothing checks that a client that has chosen wrongly gets that error, and database 0 no key.
func writesNothing(r, wrong *redis.Client, how string) {
	defer wrong.Close()
	refused(wrong.Set(ctx, "k", "wrong", 0).Err(), how)
	none(r.Get(ctx, "k").Result())
}

var bucketSteps = []step{
	{"database by number", false, func(r *redis.Client) {
		apart(r, chosen(0, database(5)), byURL(1, "", "/5"))
	}},
	{"bucket by name", true, func(r *redis.Client) {
		must(r.Do(ctx, "dictum.bucket", "create", "users").Result())
		// SELECT at another node waits until that node knows the bucket; AUTH does not, and is refused there for some milliseconds.
		other := client(1)
		defer other.Close()
		must(other.Do(ctx, "select", "users").Result())
		apart(r, chosen(0, user("users", "any")), byURL(1, "users:any@", ""))
		must(r.Do(ctx, "dictum.bucket", "drop", "users", "confirm").Result())
	}},
	{"wrong number", false, func(r *redis.Client) {
		writesNothing(r, chosen(0, database(16)), "DB index")
		writesNothing(r, byURL(0, "", "/16"), "DB index")
	}},
	{"wrong name", false, func(r *redis.Client) {
		writesNothing(r, chosen(0, user("nobody", "any")), "WRONGPASS")
		writesNothing(r, byURL(0, "nobody:any@", ""), "WRONGPASS")
		// The library itself refuses a path that is no number.
		_, err := redis.ParseURL("redis://" + hosts[0] + "/users")
		refused(err, "invalid database number")
	}},
	{"passed over by the library", false, func(r *redis.Client) {
		// A user without a password is not sent, and the client is in database 0.
		for _, silent := range []*redis.Client{chosen(0, user("nobody", "")), byURL(0, "nobody@", "")} {
			is("OK")(silent.Set(ctx, "k", "zero", 0).Result())
			is(int64(1))(r.Del(ctx, "k").Result())
			silent.Close()
		}
	}},
}

func playBuckets() {
	for protocol = 2; protocol <= 3; protocol++ {
		for _, step := range bucketSteps {
			if step.newer && !onDictum {
				continue
			}
			r := client(0)
			must(r.FlushAll(ctx).Result())
			step.do(r)
			r.Close()
			fmt.Printf("ok %s (RESP%d)\n", step.name, protocol)
		}
	}
}
