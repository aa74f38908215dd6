// A session of ioredis: what its users do all day, over RESP2 and RESP3.
import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';

const hosts = process.env.DICTUM_HOSTS.split(',').map((one) => {
  const at = one.lastIndexOf(':');
  return { host: one.slice(0, at), port: Number(one.slice(at + 1)) };
});
const onDictum = process.env.DICTUM_SERVER === 'dictum';
let protocol = 2;
let open = [];

/** A client of one node, closed after the step. */
function client(node = 0, options = {}) {
  const one = new Redis({ ...hosts[node], protocol, ...options });
  open.push(one);
  return one;
}

async function until(condition) {
  const last = Date.now() + 20_000;
  for (;;) {
    const found = await condition();
    if (found) return found;
    assert(Date.now() < last, 'waited in vain');
    await sleep(10);
  }
}


/** What the call answers that waits at another node while the other thing is done. */
async function waits(node, call, then) {
  const answer = call(client(node));
  const asking = client(node);
  await until(async () => /blocked_clients:1/.test(await asking.info('clients')));
  await then();
  return await answer;
}

const plain = (value) => JSON.parse(JSON.stringify(value instanceof Map ? Object.fromEntries(value) : value));

const main = {
  async connections(r) {
    assert.equal(await r.ping(), 'PONG');
    assert.equal(await r.echo('hé\r\n'), 'hé\r\n');
    assert.equal(r.status, 'ready');
    await r.client('SETNAME', 'session');
    assert.match(await r.client('LIST'), /name=session/);
    assert.match(await r.client('INFO'), new RegExp(`resp=${protocol}`));
    assert.match(await r.info('server'), new RegExp(`tcp_port:${hosts[0].port}`));
    assert((await r.command('COUNT')) > 200);
    await assert.rejects(r.call('NO-SUCH-THING'), /unknown command/);
  },

  async strings(r) {
    assert.equal(await r.set('s', '1'), 'OK');
    assert.equal(await r.set('s', '2', 'NX'), null);
    assert.equal(await r.set('s', '2', 'EX', 100, 'GET'), '1');
    assert.equal(await r.incrby('s', 40), 42);
    assert.equal(Number(await r.incrbyfloat('s', 0.5)), 42.5);
    assert.equal(await r.append('s', '!'), 5);
    assert.equal(await r.mset({ s1: 'a', s2: 'b' }), 'OK');
    assert.deepEqual(await r.mget('s1', 'none', 's2'), ['a', null, 'b']);
    assert.equal(await r.getdel('s1'), 'a');
    const raw = Buffer.from(Array.from({ length: 256 }, (_, i) => i));
    await r.set('raw', raw);
    assert(raw.equals(await r.getBuffer('raw')));
    assert.equal(await r.setbit('bits', 7, 1), 0);
    assert.deepEqual(await r.bitfield('field', 'SET', 'u8', 0, 200, 'OVERFLOW', 'SAT', 'INCRBY', 'u8', 0, 100), [0, 255]);
    await assert.rejects(r.lpush('s', 'x'), /^ReplyError: WRONGTYPE/);
    await r.psetex('short', 30, '1');
    await until(async () => (await r.exists('short')) === 0);
    assert.equal(await r.restore('copy', 0, await r.dumpBuffer('s2')), 'OK');
    assert.equal(await r.get('copy'), 'b');
  },

  async hashes(r) {
    assert.equal(await r.hset('h', { a: 1, b: 'two' }), 2);
    assert.deepEqual(plain(await r.hgetall('h')), { a: '1', b: 'two' });
    assert.deepEqual(await r.hmget('h', 'a', 'x'), ['1', null]);
    assert.equal(await r.hincrby('h', 'a', 5), 6);
    assert.equal(await r.hdel('h', 'a', 'x'), 1);
    await r.hset('wide', Object.fromEntries(Array.from({ length: 1000 }, (_, i) => [`f${i}`, i])));
    const found = new Map();
    for await (const page of r.hscanStream('wide', { count: 50 })) {
      for (let i = 0; i < page.length; i += 2) found.set(page[i], page[i + 1]);
    }
    assert.equal(found.size, 1000);
    assert.equal(found.get('f999'), '999');
  },

  async 'fields that expire+'(r) {
    await r.hset('hx', { a: 1, b: 2, c: 3 });
    assert.deepEqual(await r.hexpire('hx', 100, 'FIELDS', 2, 'a', 'none'), [1, -2]);
    const left = await r.httl('hx', 'FIELDS', 2, 'a', 'b');
    assert(left[0] > 90 && left[1] === -1);
    assert.deepEqual(await r.hpersist('hx', 'FIELDS', 1, 'a'), [1]);
    assert.deepEqual(await r.hpexpire('hx', 30, 'FIELDS', 1, 'a'), [1]);
    await until(async () => (await r.hexists('hx', 'a')) === 0);
    assert.deepEqual(await r.call('HGETEX', 'hx', 'EX', 100, 'FIELDS', 1, 'b'), ['2']);
    assert.deepEqual(await r.call('HGETDEL', 'hx', 'FIELDS', 2, 'b', 'c'), ['2', '3']);
    assert.equal(await r.exists('hx'), 0);
  },

  async lists(r) {
    assert.equal(await r.rpush('l', 'a', 'b', 'c', 'd'), 4);
    assert.deepEqual(await r.lrange('l', 0, -1), ['a', 'b', 'c', 'd']);
    assert.deepEqual(await r.lpop('l', 2), ['a', 'b']);
    assert.equal(await r.lmove('l', 'l2', 'RIGHT', 'LEFT'), 'd');
    assert.deepEqual(await r.lmpop(2, 'none', 'l2', 'LEFT', 'COUNT', 5), ['l2', ['d']]);
    assert.equal(await r.blpop('none', 0.05), null);
    assert.deepEqual(await waits(1, (other) => other.blpop('first', 'second', 20), () => r.rpush('second', 'here')), ['second', 'here']);
    assert.equal(await waits(2, (other) => other.blmove('from', 'to', 'RIGHT', 'LEFT', 20), () => r.rpush('from', 'moved')), 'moved');
    assert.deepEqual(await r.lrange('to', 0, -1), ['moved']);
  },

  async sets(r) {
    assert.equal(await r.sadd('a', 1, 2, 3), 3);
    assert.equal(await r.sadd('b', [2, 3, 4]), 3);
    assert.deepEqual([...(await r.smembers('a'))].sort(), ['1', '2', '3']);
    assert.deepEqual(await r.smismember('a', 1, 9), [1, 0]);
    assert.deepEqual([...(await r.sinter('a', 'b'))].sort(), ['2', '3']);
    assert.equal(await r.sintercard(2, 'a', 'b', 'LIMIT', 1), 1);
    assert.equal(await r.sdiffstore('c', 'a', 'b'), 1);
    assert.equal(await r.spop('c'), '1');
    const found = new Set();
    await r.sadd('many', ...Array.from({ length: 1000 }, (_, i) => i));
    for await (const page of r.sscanStream('many', { count: 100 })) page.forEach((one) => found.add(one));
    assert.equal(found.size, 1000);
  },

  async 'sorted sets'(r) {
    assert.equal(await r.zadd('z', 1, 'one', 2, 'two', '+inf', 'end'), 3);
    assert.equal(Number(await r.zincrby('z', 0.5, 'two')), 2.5);
    assert.deepEqual(await r.zrange('z', '(1', 100, 'BYSCORE'), ['two']);
    assert.deepEqual((await r.zrange('z', 0, 1, 'WITHSCORES')).flat().map(String), ['one', '1', 'two', '2.5']);
    assert.equal(await r.zrank('z', 'two'), 1);
    assert.equal(await r.zadd('w', 10, 'two'), 1);
    assert.equal(await r.zunionstore('u', 2, 'z', 'w', 'WEIGHTS', 2, 1), 3);
    assert.equal(Number(await r.zscore('u', 'two')), 15);
    assert.deepEqual((await r.zpopmin('z')).flat().map(String), ['one', '1']);
    const late = await waits(1, (other) => other.bzpopmin('late', 20), () => r.zadd('late', 7, 'm'));
    assert.deepEqual(late.map(String), ['late', 'm', '7']);
  },

  async 'sketches and places'(r) {
    await r.pfadd('p', ...Array.from({ length: 1000 }, (_, i) => i));
    assert(Math.abs((await r.pfcount('p')) - 1000) < 50);
    assert.equal(await r.geoadd('g', 13.361389, 38.115556, 'Palermo', 15.087269, 37.502669, 'Catania'), 2);
    assert.deepEqual(await r.geosearch('g', 'FROMLONLAT', 15, 37, 'BYRADIUS', 200, 'km', 'ASC'), ['Catania', 'Palermo']);
  },

  async streams(r) {
    const ids = [];
    for (let i = 0; i < 10; i++) ids.push(await r.xadd('x', '*', 'n', i));
    const entries = (read) => (read instanceof Map ? [...read.entries()] : Array.isArray(read) ? read : Object.entries(read));
    assert.deepEqual(entries(await r.xread('COUNT', 2, 'STREAMS', 'x', ids[0])), [['x', [[ids[1], ['n', '1']], [ids[2], ['n', '2']]]]]);
    assert.equal(await r.xgroup('CREATE', 'x', 'group', '0'), 'OK');
    await assert.rejects(r.xgroup('CREATE', 'x', 'group', '0'), /BUSYGROUP/);
    const [[, taken]] = entries(await r.xreadgroup('GROUP', 'group', 'alice', 'COUNT', 4, 'STREAMS', 'x', '>'));
    assert.deepEqual(taken.map(([id]) => id), ids.slice(0, 4));
    assert.equal(await r.xack('x', 'group', ids[0]), 1);
    assert.deepEqual(await r.xpending('x', 'group'), [3, ids[1], ids[3], [['alice', '3']]]);
    assert.equal((await r.xclaim('x', 'group', 'bob', 0, ids[1]))[0][0], ids[1]);
    const [next, claimed] = await r.xautoclaim('x', 'group', 'carol', 0, '0', 'COUNT', 10);
    assert.equal(next, '0-0');
    assert.equal(claimed.length, 3);
    assert.equal(await r.xtrim('x', 'MAXLEN', 4), 6);
    assert.equal((await r.xrange('x', '-', '+')).length, 4);
    assert.equal((await r.xinfo('CONSUMERS', 'x', 'group')).length, 3);
  },

  async pipelines(r) {
    const pipe = r.pipeline();
    for (let i = 0; i < 5000; i++) pipe.incr('counter');
    const answers = await pipe.exec();
    assert.deepEqual(answers[4999], [null, 5000]);
    const mixed = await r.pipeline().set('a', 'x').lpush('a', 1).get('a').exec();
    assert.equal(mixed[0][1], 'OK');
    assert.match(mixed[1][0].message, /WRONGTYPE/);
    assert.equal(mixed[2][1], 'x');
    const automatic = client(0, { enableAutoPipelining: true });
    const all = await Promise.all(Array.from({ length: 500 }, () => automatic.incr('automatic')));
    assert.deepEqual(all, Array.from({ length: 500 }, (_, i) => i + 1));
  },

  async transactions(r) {
    assert.deepEqual(await r.multi().set('t', 1).incr('t').hset('th', 'f', 'v').exec(), [[null, 'OK'], [null, 2], [null, 1]]);
    const other = client(1);
    await r.watch('t');
    await other.set('t', 100);
    assert.equal(await r.multi().set('t', 1).exec(), null);
    assert.equal(await r.get('t'), '100');
    await Promise.all([0, 1, 2].map(async (node) => {
      const own = client(node);
      for (let done = 0; done < 20;) {
        await own.watch('sum');
        const value = Number(await own.get('sum'));
        if (await own.multi().set('sum', value + 1).exec()) done++;
      }
    }));
    assert.equal(await r.get('sum'), '60');
  },

  async 'publish and subscribe'(r) {
    const listener = client(1);
    const heard = [];
    listener.on('message', (channel, text) => heard.push([channel, text]));
    listener.on('pmessage', (pattern, channel, text) => heard.push([pattern, channel, text]));
    assert.equal(await listener.subscribe('news'), 1);
    assert.equal(await listener.psubscribe('news.*'), 2);
    await until(async () => (await r.publish('news', 'hello')) === 1);
    await client(2).publish('news.sport', '1:0');
    await until(() => heard.length >= 2 && heard.at(-1).length === 3);
    assert.deepEqual(heard[0], ['news', 'hello']);
    assert.deepEqual(heard.at(-1), ['news.*', 'news.sport', '1:0']);
    assert.deepEqual(await r.pubsub('NUMSUB', 'news'), ['news', 1]);
    const shard = client(1);
    shard.on('smessage', (channel, text) => heard.push(['shard', channel, text]));
    await shard.ssubscribe('pieces');
    await until(async () => (await r.spublish('pieces', 'x')) === 1);
    await until(() => heard.some(([kind, channel, text]) => kind === 'shard' && channel === 'pieces' && text === 'x'));
  },

  async scans(r) {
    const pipe = r.pipeline();
    for (let i = 0; i < 2000; i++) pipe.set(`scan:${i}`, i);
    await pipe.exec();
    const found = new Set();
    for await (const page of r.scanStream({ match: 'scan:1*', count: 200 })) page.forEach((key) => found.add(key));
    assert.deepEqual([...found].sort(), Array.from({ length: 2000 }, (_, i) => `scan:${i}`).filter((key) => key[5] === '1').sort());
    assert.equal(await r.dbsize(), 2000);
  },

  async 'documents+'(r) {
    assert.equal(await r.call('JSON.SET', 'doc', '$', '{"name":"Ada","tags":["x"]}'), 'OK');
    assert.deepEqual(JSON.parse(await r.call('JSON.GET', 'doc', '$.name')), ['Ada']);
    assert.deepEqual(await r.call('JSON.ARRAPPEND', 'doc', '$.tags', '"y"'), [2]);
  },

  async 'keys with a prefix'(r) {
    const prefixed = client(0, { keyPrefix: 'app:' });
    await prefixed.set('k', '1');
    await prefixed.lpush('list', 'a', 'b');
    assert.deepEqual((await r.keys('app:*')).sort(), ['app:k', 'app:list']);
    assert.deepEqual(await prefixed.sort('list', 'ALPHA'), ['a', 'b']);
  },

  async 'reads elsewhere'(r) {
    const others = [client(1), client(2)];
    for (let i = 0; i < 200; i++) {
      await r.set('seen', i);
      assert.deepEqual(await Promise.all(others.map((one) => one.get('seen'))), [String(i), String(i)]);
    }
  },
};

const scripts = {
  async scripts(r) {
    assert.deepEqual(await r.eval('return {KEYS[1], ARGV[1], 3}', 1, 'k', 'a'), ['k', 'a', 3]);
    r.defineCommand('add', { numberOfKeys: 1, lua: "return redis.call('incrby', KEYS[1], ARGV[1])" });
    assert.equal(await r.add('n', 5), 5);
    await r.script('FLUSH');
    assert.equal(await r.add('n', 2), 7, 'a script that is gone is loaded again');
    assert.deepEqual(await r.pipeline().add('n', 1).get('n').exec(), [[null, 8], [null, '8']]);
    assert.deepEqual(await r.multi().add('n', 1).exec(), [[null, 9]]);
    const sha = await r.script('LOAD', "return redis.call('get', KEYS[1])");
    assert.equal(await r.evalsha(sha, 1, 'n'), '9');
    await assert.rejects(r.eval("return redis.error_reply('boom')", 0), /boom/);
  },
};

const streamWaits = {
  async 'reads that wait'(r) {
    const fields = (read) => (read instanceof Map ? [...read.values()][0] : Array.isArray(read) ? read[0][1] : Object.values(read)[0])[0][1];
    const read = await waits(1, (other) => other.xread('BLOCK', 20_000, 'STREAMS', 'waited', '$'), () => r.xadd('waited', '*', 'a', 1));
    assert.deepEqual(fields(read), ['a', '1']);
    await r.xgroup('CREATE', 'waited', 'g', '$');
    const grouped = await waits(2, (other) => other.xreadgroup('GROUP', 'g', 'c', 'BLOCK', 20_000, 'STREAMS', 'waited', '>'),
      () => r.xadd('waited', '*', 'a', 2));
    assert.deepEqual(fields(grouped), ['a', '2']);
    const began = Date.now();
    assert.equal(await r.xread('BLOCK', 200, 'STREAMS', 'waited', '$'), null);
    assert(Date.now() - began >= 190);
  },
};

for (protocol of [2, 3]) {
  for (const [name, step] of Object.entries({ main, scripts, 'stream-waits': streamWaits }[process.argv[2]])) {
    if (name.endsWith('+') && !onDictum) continue;
    const r = client();
    await r.flushall();
    await step(r);
    open.forEach((one) => one.disconnect());
    open = [];
    console.log(`ok ${name.replace('+', '')} (RESP${protocol})`);
  }
}
