import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.BooleanSupplier;
import redis.clients.jedis.AbstractPipeline;
import redis.clients.jedis.AbstractTransaction;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.GeoCoordinate;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.JedisPooled;
import redis.clients.jedis.JedisPubSub;
import redis.clients.jedis.RedisProtocol;
import redis.clients.jedis.Response;
import redis.clients.jedis.StreamEntryID;
import redis.clients.jedis.args.ExpiryOption;
import redis.clients.jedis.args.GeoUnit;
import redis.clients.jedis.args.ListDirection;
import redis.clients.jedis.exceptions.JedisDataException;
import redis.clients.jedis.json.Path2;
import redis.clients.jedis.params.HGetExParams;
import redis.clients.jedis.params.HSetExParams;
import redis.clients.jedis.params.ScanParams;
import redis.clients.jedis.params.SetParams;
import redis.clients.jedis.params.XAddParams;
import redis.clients.jedis.params.XAutoClaimParams;
import redis.clients.jedis.params.XReadGroupParams;
import redis.clients.jedis.params.XReadParams;
import redis.clients.jedis.params.ZRangeParams;
import redis.clients.jedis.resps.ScanResult;
import redis.clients.jedis.resps.StreamEntry;
import redis.clients.jedis.resps.Tuple;

/** A session of Jedis: what its users do all day, over RESP2 and RESP3. */
public class Session {
    static final String[] HOSTS = System.getenv("DICTUM_HOSTS").split(",");
    static final boolean DICTUM = "dictum".equals(System.getenv("DICTUM_SERVER"));
    static RedisProtocol protocol = RedisProtocol.RESP2;

    interface Step {
        void play(JedisPooled r) throws Exception;
    }

    interface Call<T> {
        T ask(JedisPooled r);
    }

    static HostAndPort address(int node) {
        return HostAndPort.from(HOSTS[node]);
    }

    static DefaultJedisClientConfig config() {
        return DefaultJedisClientConfig.builder().protocol(protocol).socketTimeoutMillis(30_000).build();
    }

    static JedisPooled client(int node) {
        return new JedisPooled(address(node), config());
    }

    static void check(boolean right, String what) {
        if (!right) throw new AssertionError(what);
    }

    static void equal(Object got, Object want) {
        check(Objects.deepEquals(got, want), "got " + got + ", want " + want);
    }

    static void refused(Runnable call, String how) {
        try {
            call.run();
        } catch (JedisDataException problem) {
            check(problem.getMessage().contains(how), problem.getMessage());
            return;
        }
        throw new AssertionError("was not refused with " + how);
    }

    static void until(BooleanSupplier condition) throws InterruptedException {
        long last = System.nanoTime() + 20_000_000_000L;
        while (!condition.getAsBoolean()) {
            check(System.nanoTime() < last, "waited in vain");
            Thread.sleep(10);
        }
    }

    /** What the call answers that waits at another node while the other thing is done. */
    static <T> T waits(int node, Call<T> call, Runnable then) throws Exception {
        AtomicReference<Object> answer = new AtomicReference<>();
        try (JedisPooled other = client(node); JedisPooled asking = client(node)) {
            Thread thread = new Thread(() -> {
                try {
                    answer.set(call.ask(other));
                } catch (RuntimeException problem) {
                    answer.set(problem);
                }
            });
            thread.start();
            until(() -> !thread.isAlive() || asking.info("clients").contains("blocked_clients:1"));
            if (answer.get() instanceof RuntimeException problem) throw problem;
            then.run();
            thread.join();
        }
        if (answer.get() instanceof RuntimeException problem) throw problem;
        @SuppressWarnings("unchecked")
        T got = (T) answer.get();
        return got;
    }

    static Set<String> set(String... members) {
        return new HashSet<>(Arrays.asList(members));
    }

    static void connections(JedisPooled r) {
        equal(r.ping(), "PONG");
        equal(r.echo("hé\r\n"), "hé\r\n");
        try (Jedis one = new Jedis(address(0), config())) {
            check(one.clientInfo().contains("resp=" + (protocol == RedisProtocol.RESP3 ? 3 : 2)), one.clientInfo());
            equal(one.clientSetname("session"), "OK");
            equal(one.clientGetname(), "session");
            check(one.info("server").contains("tcp_port:" + address(0).getPort()), "tcp_port");
            equal(one.configGet("appendonly").keySet(), set("appendonly"));
        }
        refused(() -> r.sendCommand(() -> "NO-SUCH-THING".getBytes(StandardCharsets.UTF_8)), "unknown command");
    }

    static void strings(JedisPooled r) {
        equal(r.set("s", "1"), "OK");
        equal(r.set("s", "2", SetParams.setParams().nx()), null);
        equal(r.setGet("s", "2"), "1");
        equal(r.incrBy("s", 40), 42L);
        equal(r.incrByFloat("s", 0.5), 42.5);
        equal(r.append("s", "!"), 5L);
        equal(r.mset("s1", "a", "s2", "b"), "OK");
        equal(r.mget("s1", "none", "s2"), Arrays.asList("a", null, "b"));
        equal(r.getDel("s1"), "a");
        byte[] raw = new byte[256];
        for (int i = 0; i < 256; i++) raw[i] = (byte) i;
        r.set("raw".getBytes(), raw);
        check(Arrays.equals(r.get("raw".getBytes()), raw), "bytes changed on their way");
        equal(r.setbit("bits", 7, true), false);
        equal(r.bitcount("bits"), 1L);
        equal(r.bitfield("field", "SET", "u8", "0", "200", "OVERFLOW", "SAT", "INCRBY", "u8", "0", "100"), List.of(0L, 255L));
        refused(() -> r.lpush("s", "x"), "WRONGTYPE");
        refused(() -> r.incr("s"), "not an integer");
    }

    static void keys(JedisPooled r) throws Exception {
        r.mset("k1", "1", "k2", "2");
        equal(r.exists("k1", "k2", "k3"), 2L);
        equal(r.rename("k1", "k3"), "OK");
        equal(r.copy("k3", "k4", false), true);
        equal(r.expire("k2", 100), 1L);
        equal(r.expire("k2", 50, ExpiryOption.GT), 0L);
        check(r.ttl("k2") > 90, "TTL");
        equal(r.restore("k5", 0, r.dump("k2")), "OK");
        equal(r.get("k5"), "2");
        r.psetex("short", 30, "1");
        until(() -> !r.exists("short"));
    }

    static void hashes(JedisPooled r) {
        equal(r.hset("h", Map.of("a", "1", "b", "two")), 2L);
        equal(r.hgetAll("h"), Map.of("a", "1", "b", "two"));
        equal(r.hmget("h", "a", "x"), Arrays.asList("1", null));
        equal(r.hincrBy("h", "a", 5), 6L);
        equal(r.hincrByFloat("h", "a", 0.5), 6.5);
        equal(r.hdel("h", "a", "x"), 1L);
        Map<String, String> wide = new HashMap<>();
        for (int i = 0; i < 1000; i++) wide.put("f" + i, "" + i);
        r.hset("wide", wide);
        Map<String, String> found = new HashMap<>();
        String cursor = "0";
        do {
            ScanResult<Map.Entry<String, String>> page = r.hscan("wide", cursor, new ScanParams().count(50));
            page.getResult().forEach(entry -> found.put(entry.getKey(), entry.getValue()));
            cursor = page.getCursor();
        } while (!cursor.equals("0"));
        equal(found, wide);
    }

    static void fieldsThatExpire(JedisPooled r) throws Exception {
        r.hset("hx", Map.of("a", "1", "b", "2", "c", "3"));
        equal(r.hexpire("hx", 100, "a", "none"), List.of(1L, -2L));
        equal(r.hexpire("hx", 50, ExpiryOption.GT, "a"), List.of(0L));
        check(r.httl("hx", "a").get(0) > 90, "HTTL");
        equal(r.hpersist("hx", "a"), List.of(1L));
        equal(r.hpexpire("hx", 30, "a"), List.of(1L));
        until(() -> !r.hexists("hx", "a"));
        equal(r.hgetex("hx", HGetExParams.hGetExParams().ex(100), "b"), List.of("2"));
        equal(r.hsetex("hx", HSetExParams.hSetExParams().px(60_000), "d", "4"), 1L);
        equal(r.hgetdel("hx", "b", "c"), List.of("2", "3"));
        equal(r.hgetAll("hx"), Map.of("d", "4"));
    }

    static void lists(JedisPooled r) throws Exception {
        equal(r.rpush("l", "a", "b", "c", "d"), 4L);
        equal(r.lrange("l", 0, -1), List.of("a", "b", "c", "d"));
        equal(r.lpop("l", 2), List.of("a", "b"));
        equal(r.lmove("l", "l2", ListDirection.RIGHT, ListDirection.LEFT), "d");
        equal(r.lmpop(ListDirection.LEFT, 5, "none", "l2").getValue(), List.of("d"));
        equal(r.blpop(0.05, "none"), null);
        equal(waits(1, other -> other.blpop(20, "first", "second"), () -> r.rpush("second", "here")), List.of("second", "here"));
        equal(waits(2, other -> other.blmove("from", "to", ListDirection.RIGHT, ListDirection.LEFT, 20),
                () -> r.rpush("from", "moved")), "moved");
        equal(r.lrange("to", 0, -1), List.of("moved"));
    }

    static void sets(JedisPooled r) {
        equal(r.sadd("a", "1", "2", "3"), 3L);
        equal(r.sadd("b", "2", "3", "4"), 3L);
        equal(r.smembers("a"), set("1", "2", "3"));
        equal(r.smismember("a", "1", "9"), List.of(true, false));
        equal(r.sinter("a", "b"), set("2", "3"));
        equal(r.sunion("a", "b"), set("1", "2", "3", "4"));
        equal(r.sintercard(1, "a", "b"), 1L);
        equal(r.sdiffstore("c", "a", "b"), 1L);
        equal(r.spop("c"), "1");
    }

    static void sortedSets(JedisPooled r) throws Exception {
        equal(r.zadd("z", Map.of("one", 1.0, "two", 2.0, "end", Double.POSITIVE_INFINITY)), 3L);
        equal(r.zincrby("z", 0.5, "two"), 2.5);
        equal(r.zrangeWithScores("z", 0, -1),
                List.of(new Tuple("one", 1.0), new Tuple("two", 2.5), new Tuple("end", Double.POSITIVE_INFINITY)));
        equal(r.zrange("z", ZRangeParams.zrangeByScoreParams(2, 3)), List.of("two"));
        equal(r.zrank("z", "two"), 1L);
        equal(r.zmscore("z", "two", "none"), Arrays.asList(2.5, null));
        equal(r.zadd("w", 10, "two"), 1L);
        equal(r.zunionstore("u", "z", "w"), 3L);
        equal(r.zscore("u", "two"), 12.5);
        equal(r.zpopmin("z"), new Tuple("one", 1.0));
        equal(waits(1, other -> other.bzpopmin(20, "late"), () -> r.zadd("late", 7, "m")).getValue(), new Tuple("m", 7.0));
    }

    static void sketchesAndPlaces(JedisPooled r) {
        for (int i = 0; i < 1000; i++) r.pfadd("p", "" + i);
        check(Math.abs(r.pfcount("p") - 1000) < 50, "PFCOUNT");
        equal(r.geoadd("g", Map.of("Palermo", new GeoCoordinate(13.361389, 38.115556), "Catania", new GeoCoordinate(15.087269, 37.502669))), 2L);
        equal(r.geodist("g", "Palermo", "Catania", GeoUnit.KM), 166.2742);
        equal(r.geosearch("g", new GeoCoordinate(15, 37), 200, GeoUnit.KM).size(), 2);
    }

    static void streams(JedisPooled r) {
        List<StreamEntryID> ids = new ArrayList<>();
        for (int i = 0; i < 10; i++) ids.add(r.xadd("x", Map.of("n", "" + i), XAddParams.xAddParams()));
        List<StreamEntry> read = r.xread(XReadParams.xReadParams().count(2), Map.of("x", ids.get(0))).get(0).getValue();
        equal(read.get(0).getID(), ids.get(1));
        equal(read.get(1).getFields(), Map.of("n", "2"));
        equal(r.xgroupCreate("x", "group", new StreamEntryID("0-0"), false), "OK");
        refused(() -> r.xgroupCreate("x", "group", new StreamEntryID("0-0"), false), "BUSYGROUP");
        List<StreamEntry> taken = r.xreadGroup("group", "alice", XReadGroupParams.xReadGroupParams().count(4),
                Map.of("x", StreamEntryID.XREADGROUP_UNDELIVERED_ENTRY)).get(0).getValue();
        equal(taken.stream().map(StreamEntry::getID).toList(), ids.subList(0, 4));
        equal(r.xack("x", "group", ids.get(0)), 1L);
        equal(r.xpending("x", "group").getConsumerMessageCount(), Map.of("alice", 3L));
        var claimed = r.xautoclaim("x", "group", "carol", 0, new StreamEntryID("0-0"), XAutoClaimParams.xAutoClaimParams().count(10));
        equal(claimed.getKey(), new StreamEntryID("0-0"));
        equal(claimed.getValue().size(), 3);
        equal(r.xinfoGroups("x").get(0).getPending(), 3L);
        equal(r.xinfoStream("x").getLength(), 10L);
        equal(r.xtrim("x", 4, false), 6L);
        equal(r.xrange("x", "-", "+").size(), 4);
    }

    static void pipelines(JedisPooled r) {
        try (AbstractPipeline pipe = r.pipelined()) {
            Response<Long> last = null;
            for (int i = 0; i < 5000; i++) last = pipe.incr("counter");
            Response<Long> wrong = pipe.lpush("counter", "x");
            pipe.sync();
            equal(last.get(), 5000L);
            refused(wrong::get, "WRONGTYPE");
        }
    }

    static void transactions(JedisPooled r) throws Exception {
        try (AbstractTransaction multi = r.multi()) {
            multi.set("t", "1");
            Response<Long> count = multi.incr("t");
            equal(multi.exec(), List.of("OK", 2L));
            equal(count.get(), 2L);
        }
        try (AbstractTransaction multi = r.transaction(false); JedisPooled other = client(1)) {
            multi.watch("t");
            other.set("t", "100");
            multi.multi();
            multi.set("t", "1");
            equal(multi.exec(), null);
        }
        equal(r.get("t"), "100");
        List<Thread> threads = new ArrayList<>();
        for (int i = 0; i < 3; i++) {
            int node = i;
            threads.add(new Thread(() -> {
                try (Jedis own = new Jedis(address(node), config())) {
                    for (int done = 0; done < 20; ) {
                        own.watch("sum");
                        String value = own.get("sum");
                        var multi = own.multi();
                        multi.set("sum", "" + (value == null ? 1 : Integer.parseInt(value) + 1));
                        if (multi.exec() != null) done++;
                    }
                }
            }));
        }
        for (Thread thread : threads) thread.start();
        for (Thread thread : threads) thread.join();
        equal(r.get("sum"), "60");
    }

    static void publishAndSubscribe(JedisPooled r) throws Exception {
        List<String> heard = new CopyOnWriteArrayList<>();
        JedisPubSub listener = new JedisPubSub() {
            @Override
            public void onMessage(String channel, String text) {
                heard.add(channel + "=" + text);
            }

            @Override
            public void onPMessage(String pattern, String channel, String text) {
                heard.add(pattern + "/" + channel + "=" + text);
            }
        };
        try (JedisPooled elsewhere = client(1)) {
            Thread thread = new Thread(() -> elsewhere.subscribe(listener, "news"));
            thread.start();
            until(() -> r.publish("news", "hello") == 1);
            listener.psubscribe("news.*");
            until(() -> r.publish("news.sport", "1:0") == 1);
            until(() -> heard.contains("news.*/news.sport=1:0"));
            equal(heard.get(0), "news=hello");
            listener.unsubscribe();
            listener.punsubscribe();
            thread.join();
        }
    }

    static void scans(JedisPooled r) {
        Set<String> want = new TreeSet<>();
        try (AbstractPipeline pipe = r.pipelined()) {
            for (int i = 0; i < 2000; i++) {
                pipe.set("scan:" + i, "" + i);
                if (("" + i).startsWith("1")) want.add("scan:" + i);
            }
        }
        Set<String> found = new TreeSet<>();
        var iteration = r.scanIteration(200, "scan:1*");
        while (!iteration.isIterationCompleted()) found.addAll(iteration.nextBatchList());
        equal(found, want);
        equal(r.dbSize(), 2000L);
    }

    static void documents(JedisPooled r) {
        Map<String, Object> document = new LinkedHashMap<>();
        document.put("name", "Ada");
        document.put("tags", List.of("x"));
        document.put("age", 36);
        equal(r.jsonSetWithEscape("doc", Path2.ROOT_PATH, document), "OK");
        equal(r.jsonGet("doc", Path2.of("$.name")).toString(), "[\"Ada\"]");
        // Jedis sends 1.0, so what comes back is a floating-point number.
        check(r.jsonNumIncrBy("doc", Path2.of("$.age"), 1).toString().matches("\\[37(.0)?]"), "JSON.NUMINCRBY");
        equal(r.jsonArrAppendWithEscape("doc", Path2.of("$.tags"), "y"), List.of(2L));
        equal(r.jsonGet("doc", Path2.of("$.tags")).toString(), "[[\"x\",\"y\"]]");
        equal(r.jsonDel("doc", Path2.of("$.age")), 1L);
        equal(r.jsonGet("none", Path2.ROOT_PATH), null);
    }

    static void readsElsewhere(JedisPooled r) {
        try (JedisPooled second = client(1); JedisPooled third = client(2)) {
            for (int i = 0; i < 200; i++) {
                r.set("seen", "" + i);
                equal(second.get("seen"), "" + i);
                equal(third.get("seen"), "" + i);
            }
        }
    }

    static void scripts(JedisPooled r) {
        equal(r.eval("return {KEYS[1], ARGV[1], 3}", List.of("k"), List.of("a")), List.of("k", "a", 3L));
        String sha = r.scriptLoad("return redis.call('incrby', KEYS[1], ARGV[1])");
        equal(r.evalsha(sha, 1, "n", "5"), 5L);
        equal(r.scriptExists(List.of(sha, "0".repeat(40))), List.of(true, false));
        equal(r.evalReadonly("return redis.call('get', KEYS[1])", List.of("n"), List.of()), "5");
        refused(() -> r.eval("return redis.error_reply('boom')"), "boom");
        r.scriptFlush();
        refused(() -> r.evalsha(sha, 1, "n", "5"), "NOSCRIPT");
    }

    static void readsThatWait(JedisPooled r) throws Exception {
        var read = waits(1, other -> other.xread(XReadParams.xReadParams().block(20_000), Map.of("waited", StreamEntryID.XREAD_NEW_ENTRY)),
                () -> r.xadd("waited", Map.of("a", "1"), XAddParams.xAddParams()));
        equal(read.get(0).getValue().get(0).getFields(), Map.of("a", "1"));
        r.xgroupCreate("waited", "g", StreamEntryID.XGROUP_LAST_ENTRY, false);
        read = waits(2, other -> other.xreadGroup("g", "c", XReadGroupParams.xReadGroupParams().block(20_000),
                Map.of("waited", StreamEntryID.XREADGROUP_UNDELIVERED_ENTRY)),
                () -> r.xadd("waited", Map.of("a", "2"), XAddParams.xAddParams()));
        equal(read.get(0).getValue().get(0).getFields(), Map.of("a", "2"));
        long began = System.nanoTime();
        equal(r.xread(XReadParams.xReadParams().block(200), Map.of("waited", StreamEntryID.XREAD_NEW_ENTRY)), null);
        check(System.nanoTime() - began >= 190_000_000L, "answered too soon");
    }

    static Map<String, Step> steps(String part) {
        Map<String, Step> steps = new LinkedHashMap<>();
        if (part.equals("scripts")) {
            steps.put("scripts", Session::scripts);
        } else if (part.equals("stream-waits")) {
            steps.put("reads that wait", Session::readsThatWait);
        } else {
            steps.put("connections", Session::connections);
            steps.put("strings", Session::strings);
            steps.put("keys", Session::keys);
            steps.put("hashes", Session::hashes);
            if (DICTUM) steps.put("fields that expire", Session::fieldsThatExpire);
            steps.put("lists", Session::lists);
            steps.put("sets", Session::sets);
            steps.put("sorted sets", Session::sortedSets);
            steps.put("sketches and places", Session::sketchesAndPlaces);
            steps.put("streams", Session::streams);
            steps.put("pipelines", Session::pipelines);
            steps.put("transactions", Session::transactions);
            steps.put("publish and subscribe", Session::publishAndSubscribe);
            steps.put("scans", Session::scans);
            if (DICTUM) steps.put("documents", Session::documents);
            steps.put("reads elsewhere", Session::readsElsewhere);
        }
        return steps;
    }

    public static void main(String[] words) throws Exception {
        for (RedisProtocol version : List.of(RedisProtocol.RESP2, RedisProtocol.RESP3)) {
            protocol = version;
            for (var step : steps(words[0]).entrySet()) {
                try (JedisPooled r = client(0)) {
                    r.flushAll();
                    step.getValue().play(r);
                }
                System.out.println("ok " + step.getKey() + " (" + version + ")");
            }
        }
        System.exit(0);
    }
}
