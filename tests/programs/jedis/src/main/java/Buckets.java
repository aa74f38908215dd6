import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.JedisPooled;
import redis.clients.jedis.RedisProtocol;

/** A session of Jedis: how a client chooses a database or a bucket, and what becomes of a wrong choice. */
public class Buckets {
    static final String[] HOSTS = System.getenv("DICTUM_HOSTS").split(",");
    static final boolean DICTUM = "dictum".equals(System.getenv("DICTUM_SERVER"));
    static RedisProtocol protocol = RedisProtocol.RESP2;

    interface Choice {
        JedisPooled client();
    }

    static DefaultJedisClientConfig.Builder config() {
        return DefaultJedisClientConfig.builder().protocol(protocol);
    }

    static JedisPooled chosen(DefaultJedisClientConfig.Builder config) {
        return new JedisPooled(HostAndPort.from(HOSTS[0]), config.build());
    }

    /** A client by a URL: {@code before} stands in front of the host, {@code after} behind the port. */
    static JedisPooled byUrl(int node, String before, String after) {
        return new JedisPooled("redis://" + before + HOSTS[node] + after + "?protocol=" + protocol.version());
    }

    static void equal(Object got, Object want) {
        if (!Objects.equals(got, want)) throw new AssertionError("got " + got + ", want " + want);
    }

    /** Both clients see the same data, and r sees others. */
    static void apart(JedisPooled r, JedisPooled one, JedisPooled same) {
        try (one; same) {
            equal(one.set("k", "apart"), "OK");
            equal(same.get("k"), "apart");
            equal(r.get("k"), null);
            equal(r.set("k", "zero"), "OK");
            equal(same.get("k"), "apart");
        }
    }

    /** A client that has chosen wrongly gets that error from the server or the library, and database 0 no key. */
    static void writesNothing(JedisPooled r, String how, Choice choice) {
        String said = "nothing";
        try (JedisPooled wrong = choice.client()) {
            wrong.set("k", "wrong");
        } catch (RuntimeException problem) {
            said = "";
            for (Throwable one = problem; one != null; one = one.getCause()) said += one + "; ";
        }
        if (!said.contains(how)) throw new AssertionError("said " + said + ", and should say " + how);
        equal(r.get("k"), null);
    }

    /** The bucket `users`, for a while. */
    static void withUsers(Runnable step) {
        try (Jedis one = new Jedis(HostAndPort.from(HOSTS[0])); Jedis other = new Jedis(HostAndPort.from(HOSTS[1]))) {
            one.sendCommand(() -> "DICTUM.BUCKET".getBytes(), "CREATE", "users");
            // SELECT at another node waits until that node knows the bucket; AUTH does not, and is refused there for some milliseconds.
            other.sendCommand(() -> "SELECT".getBytes(), "users");
            step.run();
            one.sendCommand(() -> "DICTUM.BUCKET".getBytes(), "DROP", "users", "CONFIRM");
        }
    }

    static Map<String, java.util.function.Consumer<JedisPooled>> steps() {
        Map<String, java.util.function.Consumer<JedisPooled>> steps = new LinkedHashMap<>();
        steps.put("database by number", r -> apart(r, chosen(config().database(5)), byUrl(1, "", "/5")));
        if (DICTUM) {
            steps.put("bucket by name", r -> withUsers(
                () -> apart(r, chosen(config().user("users").password("any")), byUrl(1, "users:any@", ""))));
        }
        steps.put("wrong number", r -> {
            writesNothing(r, "DB index", () -> chosen(config().database(16)));
            writesNothing(r, "DB index", () -> byUrl(0, "", "/16"));
        });
        steps.put("wrong name", r -> {
            writesNothing(r, "WRONGPASS", () -> chosen(config().user("nobody").password("any")));
            writesNothing(r, "WRONGPASS", () -> byUrl(0, "nobody:any@", ""));
            // The library itself refuses a path that is no number.
            writesNothing(r, "NumberFormatException", () -> byUrl(0, "", "/users"));
        });
        steps.put("a user without a password", r -> {
            // In a URL, and with a protocol that is said, the library fails by itself.
            writesNothing(r, "NullPointerException", () -> chosen(config().user("nobody")));
            writesNothing(r, "Password not provided in uri", () -> byUrl(0, "nobody@", ""));
            // With none that is said, as usual, nothing is sent, and the client is in database 0.
            try (JedisPooled silent = chosen(DefaultJedisClientConfig.builder().user("nobody"))) {
                equal(silent.set("k", "zero"), "OK");
                equal(r.get("k"), "zero");
            }
        });
        return steps;
    }

    public static void main(String[] words) {
        for (RedisProtocol version : List.of(RedisProtocol.RESP2, RedisProtocol.RESP3)) {
            protocol = version;
            for (var step : steps().entrySet()) {
                try (JedisPooled r = chosen(config())) {
                    r.flushAll();
                    step.getValue().accept(r);
                }
                System.out.println("ok " + step.getKey() + " (" + version + ")");
            }
        }
        System.exit(0);
    }
}
