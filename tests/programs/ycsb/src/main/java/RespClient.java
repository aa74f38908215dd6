import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.DataInputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.Vector;
import java.util.concurrent.atomic.AtomicInteger;
import site.ycsb.ByteArrayByteIterator;
import site.ycsb.ByteIterator;
import site.ycsb.DB;
import site.ycsb.DBException;
import site.ycsb.Status;

/**
 * YCSB's operations over RESP, as its Redis binding does them: a record is a hash; a sorted set beside them has all keys
 * in order, for scans. Each thread has a connection of its own, to one node after the other of the property `hosts`.
 */
public class RespClient extends DB {
    private static final AtomicInteger CLIENTS = new AtomicInteger();
    private static final String INDEX = "_indices";
    private DataInputStream in;
    private OutputStream out;

    @Override
    public void init() throws DBException {
        String[] hosts = getProperties().getProperty("hosts").split(",");
        String host = hosts[CLIENTS.getAndIncrement() % hosts.length];
        int colon = host.lastIndexOf(':');
        try {
            Socket socket = new Socket(host.substring(0, colon), Integer.parseInt(host.substring(colon + 1)));
            socket.setTcpNoDelay(true);
            in = new DataInputStream(new BufferedInputStream(socket.getInputStream()));
            out = new BufferedOutputStream(socket.getOutputStream());
        } catch (IOException problem) {
            throw new DBException(problem);
        }
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private void send(List<byte[]> words) throws IOException {
        out.write(bytes("*" + words.size() + "\r\n"));
        for (byte[] word : words) {
            out.write(bytes("$" + word.length + "\r\n"));
            out.write(word);
            out.write(bytes("\r\n"));
        }
    }

    private void send(String... words) throws IOException {
        List<byte[]> all = new ArrayList<>();
        for (String word : words) all.add(bytes(word));
        send(all);
    }

    private String line() throws IOException {
        StringBuilder text = new StringBuilder();
        for (int next = in.readUnsignedByte(); next != '\r'; next = in.readUnsignedByte()) text.append((char) next);
        in.readUnsignedByte();
        return text.toString();
    }

    /** One answer: a byte array, a Long, a list of answers, null or a String; an error is thrown. */
    private Object answer() throws IOException {
        out.flush();
        String head = line();
        String rest = head.substring(1);
        switch (head.charAt(0)) {
            case '+':
                return rest;
            case ':':
                return Long.valueOf(rest);
            case '$':
                if (rest.equals("-1")) return null;
                byte[] value = new byte[Integer.parseInt(rest)];
                in.readFully(value);
                in.skipBytes(2);
                return value;
            case '*':
                List<Object> list = new ArrayList<>();
                for (int left = Integer.parseInt(rest); left > 0; left--) list.add(answer());
                return list;
            default:
                throw new IOException(rest);
        }
    }

    private static Status failed(IOException problem) {
        System.err.println("FAILED " + problem);
        return Status.ERROR;
    }

    private void ask(String key, Set<String> fields) throws IOException {
        if (fields == null) {
            send("HGETALL", key);
            return;
        }
        List<byte[]> words = new ArrayList<>(List.of(bytes("HMGET"), bytes(key)));
        for (String field : fields) words.add(bytes(field));
        send(words);
    }

    private Map<String, ByteIterator> record(Set<String> fields) throws IOException {
        Map<String, ByteIterator> found = new HashMap<>();
        List<?> values = (List<?>) answer();
        if (fields == null) {
            for (int i = 0; i < values.size(); i += 2) {
                found.put(new String((byte[]) values.get(i), StandardCharsets.UTF_8), new ByteArrayByteIterator((byte[]) values.get(i + 1)));
            }
        } else {
            int i = 0;
            for (String field : fields) {
                byte[] value = (byte[]) values.get(i++);
                if (value != null) found.put(field, new ByteArrayByteIterator(value));
            }
        }
        return found;
    }

    @Override
    public Status read(String table, String key, Set<String> fields, Map<String, ByteIterator> result) {
        try {
            ask(key, fields);
            result.putAll(record(fields));
            return result.isEmpty() ? Status.NOT_FOUND : Status.OK;
        } catch (IOException problem) {
            return failed(problem);
        }
    }

    @Override
    public Status scan(String table, String start, int count, Set<String> fields, Vector<HashMap<String, ByteIterator>> result) {
        try {
            send("ZRANGEBYLEX", INDEX, "[" + start, "+", "LIMIT", "0", "" + count);
            List<?> keys = (List<?>) answer();
            for (Object key : keys) ask(new String((byte[]) key, StandardCharsets.UTF_8), fields);
            for (Object key : keys) result.add(new HashMap<>(record(fields)));
            boolean whole = !keys.isEmpty() && result.stream().noneMatch(Map::isEmpty);
            return whole && new String((byte[]) keys.get(0), StandardCharsets.UTF_8).equals(start) ? Status.OK : Status.UNEXPECTED_STATE;
        } catch (IOException problem) {
            return failed(problem);
        }
    }

    private void put(String key, Map<String, ByteIterator> values) throws IOException {
        List<byte[]> words = new ArrayList<>(List.of(bytes("HSET"), bytes(key)));
        values.forEach((field, value) -> {
            words.add(bytes(field));
            words.add(value.toArray());
        });
        send(words);
    }

    @Override
    public Status update(String table, String key, Map<String, ByteIterator> values) {
        try {
            put(key, values);
            return answer().equals(0L) ? Status.OK : Status.UNEXPECTED_STATE;
        } catch (IOException problem) {
            return failed(problem);
        }
    }

    @Override
    public Status insert(String table, String key, Map<String, ByteIterator> values) {
        try {
            send("MULTI");
            put(key, values);
            send("ZADD", INDEX, "0", key);
            send("EXEC");
            for (int i = 0; i < 3; i++) answer();
            return answer().equals(List.of((long) values.size(), 1L)) ? Status.OK : Status.UNEXPECTED_STATE;
        } catch (IOException problem) {
            return failed(problem);
        }
    }

    @Override
    public Status delete(String table, String key) {
        try {
            send("MULTI");
            send("DEL", key);
            send("ZREM", INDEX, key);
            send("EXEC");
            for (int i = 0; i < 3; i++) answer();
            return answer().equals(List.of(1L, 1L)) ? Status.OK : Status.NOT_FOUND;
        } catch (IOException problem) {
            return failed(problem);
        }
    }
}
