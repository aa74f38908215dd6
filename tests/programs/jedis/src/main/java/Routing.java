import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.BooleanSupplier;
import org.apache.commons.pool2.impl.GenericObjectPoolConfig;
import redis.clients.jedis.ClusterPipeline;
import redis.clients.jedis.Connection;
import redis.clients.jedis.ConnectionPool;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.JedisCluster;
import redis.clients.jedis.JedisPubSub;
import redis.clients.jedis.JedisShardedPubSub;
import redis.clients.jedis.RedisProtocol;
import redis.clients.jedis.Response;
import redis.clients.jedis.params.ScanParams;
import redis.clients.jedis.resps.ScanResult;
import redis.clients.jedis.util.JedisClusterCRC16;

/** A session of JedisCluster: it finds every node from one, routes by itself, and goes on by itself when a leader dies. */
public class Routing {
    static final String[] HOSTS = System.getenv("DICTUM_HOSTS").split(",");
    static RedisProtocol protocol = RedisProtocol.RESP2;

    interface Step {
        void play(JedisCluster r) throws Exception;
    }

    /** A client that is told of one node only. */
    static JedisCluster client() {
        var config = DefaultJedisClientConfig.builder().protocol(protocol).socketTimeoutMillis(5_000).build();
        return new JedisCluster(Set.of(HostAndPort.from(HOSTS[0])), config, 5, new GenericObjectPoolConfig<Connection>());
    }

    static void check(boolean right, String what) {
        if (!right) throw new AssertionError(what);
    }

    static void equal(Object got, Object want) {
        check(Objects.deepEquals(got, want), "got " + got + ", want " + want);
    }

    static void until(int seconds, BooleanSupplier condition) throws InterruptedException {
        long last = System.nanoTime() + seconds * 1_000_000_000L;
        while (!condition.getAsBoolean()) {
            check(System.nanoTime() < last, "waited in vain");
            Thread.sleep(10);
        }
    }

    /** Asks each master by itself. */
    static void onMasters(JedisCluster r, java.util.function.Consumer<Jedis> ask) {
        for (Map.Entry<String, ConnectionPool> node : r.getClusterNodes().entrySet()) {
            try (Jedis one = new Jedis(node.getValue().getResource())) {
                if (one.clusterMyId() != null && one.clusterNodes().lines().anyMatch(line -> line.contains("myself,master"))) ask.accept(one);
            }
        }
    }

    static final Map<String, Step> STEPS = new LinkedHashMap<>();

    static {
        STEPS.put("topology", r -> {
            equal(new TreeSet<>(r.getClusterNodes().keySet()), new TreeSet<>(Arrays.asList(HOSTS)));
            equal(JedisClusterCRC16.getSlot("foo"), 12182);
            try (Jedis one = new Jedis(HostAndPort.from(HOSTS[1]))) {
                equal(one.clusterKeySlot("foo"), 12182L);
                check(one.clusterInfo().contains("cluster_state:ok"), "the cluster is not well");
                equal(one.clusterShards().stream().flatMap(shard -> shard.getSlots().stream())
                    .mapToLong(range -> range.get(1) - range.get(0) + 1).sum(), 16384L);
            }
        });
        STEPS.put("keys everywhere", r -> {
            Set<String> keys = new TreeSet<>(), met = new TreeSet<>();
            for (int number = 0; number < 200; number++) {
                keys.add("k" + number);
                equal(r.set("k" + number, "" + number), "OK");
            }
            for (int number = 0; number < 200; number++) equal(r.get("k" + number), "" + number);
            long[] size = {0};
            onMasters(r, one -> size[0] += one.dbSize());
            equal(size[0], 200L);
            List<String> all = new ArrayList<>();
            onMasters(r, one -> {
                String cursor = "0";
                do {
                    ScanResult<String> page = one.scan(cursor, new ScanParams().count(7));
                    all.addAll(page.getResult());
                    cursor = page.getCursor();
                } while (!cursor.equals("0"));
            });
            met.addAll(all);
            equal(met, keys);
            equal(all.size(), 200);
            equal(r.mset("{t}a", "1", "{t}b", "2"), "OK");
            equal(r.mget("{t}a", "{t}b", "{t}c"), Arrays.asList("1", "2", null));
        });
        STEPS.put("types and pipelines", r -> {
            equal(r.hset("h", Map.of("f", "v")), 1L);
            equal(r.zadd("z", 1, "a"), 1L);
            equal(r.rpush("l", "1", "2"), 2L);
            List<Response<String>> answers = new ArrayList<>();
            try (ClusterPipeline pipe = r.pipelined()) {
                for (int number = 0; number < 100; number++) {
                    pipe.set("p" + number, "" + number);
                    answers.add(pipe.get("p" + number));
                }
                pipe.sync();
            }
            for (int number = 0; number < 100; number++) equal(answers.get(number).get(), "" + number);
        });
        STEPS.put("scripts", r -> {
            for (int number = 0; number < 20; number++) {
                equal(r.eval("return redis.call('incrby', KEYS[1], ARGV[1])", List.of("sum" + number), List.of("" + number)), (long) number);
            }
        });
        STEPS.put("messages", r -> {
            List<String> heard = new CopyOnWriteArrayList<>();
            JedisPubSub listener = new JedisPubSub() {
                @Override
                public void onMessage(String channel, String message) {
                    heard.add(message);
                    unsubscribe();
                }
            };
            Thread thread = new Thread(() -> r.subscribe(listener, "news"));
            thread.start();
            until(20, listener::isSubscribed);
            r.publish("news", "hello");
            thread.join();
            JedisShardedPubSub shard = new JedisShardedPubSub() {
                @Override
                public void onSMessage(String channel, String message) {
                    heard.add(message);
                    sunsubscribe();
                }
            };
            Thread sharded = new Thread(() -> r.ssubscribe(shard, "shard"));
            sharded.start();
            until(20, shard::isSubscribed);
            r.spublish("shard", "hello shard");
            sharded.join();
            equal(heard, List.of("hello", "hello shard"));
        });
        STEPS.put("waits", r -> {
            Thread pusher = new Thread(() -> r.rpush("queue", "job"));
            pusher.start();
            equal(r.blpop(20, "queue"), List.of("queue", "job"));
            pusher.join();
        });
        STEPS.put("death of a leader", Routing::deathOfALeader);
    }

    static void deathOfALeader(JedisCluster r) throws Exception {
        int writers = 4;
        List<List<Integer>> acknowledged = new ArrayList<>();
        Map<String, Integer> errors = new ConcurrentHashMap<>();
        AtomicBoolean stop = new AtomicBoolean();
        List<Thread> threads = new ArrayList<>();
        for (int writer = 0; writer < writers; writer++) {
            List<Integer> done = java.util.Collections.synchronizedList(new ArrayList<>());
            acknowledged.add(done);
            String prefix = "w" + writer + ":";
            threads.add(new Thread(() -> {
                for (int number = 0; !stop.get();) {
                    try {
                        if ("OK".equals(r.set(prefix + number, "" + number))) done.add(number);
                        number++;
                    } catch (RuntimeException problem) {
                        errors.merge(problem.getClass().getSimpleName() + ": " + problem.getMessage(), 1, Integer::sum);
                        try {
                            Thread.sleep(50);
                        } catch (InterruptedException end) {
                            return;
                        }
                    }
                }
            }));
        }
        threads.forEach(Thread::start);
        BufferedReader told = new BufferedReader(new InputStreamReader(System.in));
        more(acknowledged);
        System.out.println("kill a leader");
        equal(told.readLine(), "another leads");
        more(acknowledged);
        System.out.println("start it again");
        equal(told.readLine(), "it is back");
        more(acknowledged);
        stop.set(true);
        for (Thread thread : threads) thread.join();
        int total = 0;
        for (int writer = 0; writer < writers; writer++) {
            for (int number : acknowledged.get(writer)) equal(r.get("w" + writer + ":" + number), "" + number);
            total += acknowledged.get(writer).size();
        }
        System.out.println("note " + total + " writes, errors seen: " + new TreeMap<>(errors));
    }

    static void more(List<List<Integer>> acknowledged) throws InterruptedException {
        int[] wanted = acknowledged.stream().mapToInt(done -> done.size() + 100).toArray();
        until(60, () -> {
            for (int writer = 0; writer < wanted.length; writer++) {
                if (acknowledged.get(writer).size() < wanted[writer]) return false;
            }
            return true;
        });
    }

    public static void main(String[] words) throws Exception {
        for (RedisProtocol one : new RedisProtocol[] {RedisProtocol.RESP2, RedisProtocol.RESP3}) {
            protocol = one;
            for (Map.Entry<String, Step> step : STEPS.entrySet()) {
                try (JedisCluster r = client()) {
                    onMasters(r, Jedis::flushAll);
                    step.getValue().play(r);
                }
                System.out.println("ok " + step.getKey() + " (" + one + ")");
            }
        }
        System.exit(0);
    }
}
