// A session of ioredis' Cluster: it finds every node from one, routes by itself, and goes on by itself when a leader dies.
import assert from 'node:assert/strict';
import readline from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { Cluster } from 'ioredis';

const hosts = process.env.DICTUM_HOSTS.split(',').map((one) => {
  const at = one.lastIndexOf(':');
  return { host: one.slice(0, at), port: Number(one.slice(at + 1)) };
});
const told = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]();
let protocol = 2;
let open = [];

/** A client that is told of one node only, closed after the step. */
function client(options = {}) {
  const one = new Cluster([hosts[0]], { redisOptions: { protocol }, ...options });
  one.on('error', () => {});
  open.push(one);
  return one;
}

async function until(condition, milliseconds = 20_000) {
  const last = Date.now() + milliseconds;
  for (;;) {
    const found = await condition();
    if (found) return found;
    assert(Date.now() < last, 'waited in vain');
    await sleep(10);
  }
}

const sum = (numbers) => numbers.reduce((a, b) => a + b, 0);
const onMasters = (r, ask) => Promise.all(r.nodes('master').map(ask));

const steps = {
  async topology(r) {
    await r.ping();
    assert.deepEqual(r.nodes('all').map((node) => node.options.port).sort(), hosts.map((one) => one.port).sort());
    assert.match(await r.cluster('INFO'), /cluster_state:ok/);
    assert.equal(await r.cluster('KEYSLOT', 'foo'), 12182);
    const slots = await r.cluster('SLOTS');
    assert.equal(sum(slots.map(([first, last]) => last - first + 1)), 16384);
  },

  async 'keys everywhere'(r) {
    const keys = Array.from({ length: 200 }, (_, number) => `k${number}`);
    await Promise.all(keys.map((key, number) => r.set(key, number)));
    assert.deepEqual(await Promise.all(keys.map((key) => r.get(key))), keys.map((_, number) => `${number}`));
    assert.equal(sum(await onMasters(r, (node) => node.dbsize())), 200);
    const met = [];
    await onMasters(r, async (node) => {
      for await (const page of node.scanStream({ count: 7 })) met.push(...page);
    });
    assert.deepEqual(met.sort(), keys.sort());
    assert.equal(await r.mset('{t}a', 1, '{t}b', 2), 'OK');
    assert.deepEqual(await r.mget('{t}a', '{t}b', '{t}c'), ['1', '2', null]);
    await assert.rejects(r.mget('a', 'b'), /CROSSSLOT/);
  },

  async 'pipelines and transactions'(r) {
    assert.deepEqual(await r.pipeline().set('{t}1', 1).incr('{t}1').hset('{t}h', 'f', 'v').exec(), [[null, 'OK'], [null, 2], [null, 1]]);
    assert.deepEqual(await r.multi().incr('{t}1').get('{t}1').exec(), [[null, 3], [null, '3']]);
    const automatic = client({ enableAutoPipelining: true });
    await Promise.all(Array.from({ length: 100 }, (_, number) => automatic.set(`p${number}`, number)));
    assert.equal(await automatic.get('p99'), '99');
  },

  async scripts(r) {
    r.defineCommand('add', { numberOfKeys: 1, lua: "return redis.call('incrby', KEYS[1], ARGV[1])" });
    for (let number = 0; number < 20; number++) assert.equal(await r.add(`sum${number}`, number), number);
  },

  async messages(r) {
    const listener = client();
    const heard = [];
    listener.on('message', (channel, message) => heard.push([channel, message]));
    await listener.subscribe('news');
    await r.publish('news', 'hello');
    await until(() => heard.length === 1);
    assert.deepEqual(heard, [['news', 'hello']]);
  },

  async 'sharded messages'(r) {
    const listener = client({ shardedSubscribers: true });
    const heard = [];
    listener.on('smessage', (channel, message) => heard.push([channel, message]));
    await listener.ssubscribe('shard');
    await r.spublish('shard', 'hello');
    await until(() => heard.length === 1);
    assert.deepEqual(heard, [['shard', 'hello']]);
  },

  async waits(r) {
    const waiting = client().blpop('queue', 20);
    await sleep(50);
    await r.rpush('queue', 'job');
    assert.deepEqual(await waiting, ['queue', 'job']);
  },

  async 'reads at replicas'(r) {
    await r.set('old', 1);
    const reader = client({ scaleReads: 'all' });
    await until(async () => (await Promise.all(Array.from({ length: 10 }, () => reader.get('old')))).every((it) => it === '1'));
  },

  async 'death of a leader'(r) {
    const acknowledged = Array.from({ length: 4 }, () => new Set());
    const errors = [];
    let stop = false;
    const writers = acknowledged.map(async (done, writer) => {
      for (let number = 0; !stop;) {
        try {
          if ((await r.set(`w${writer}:${number}`, number)) === 'OK') done.add(number);
          number += 1;
        } catch (problem) {
          errors.push(problem.message);
          await sleep(50);
        }
      }
    });
    const more = async () => {
      const wanted = acknowledged.map((done) => done.size + 100);
      await until(() => acknowledged.every((done, writer) => done.size >= wanted[writer]), 60_000);
    };
    await more();
    console.log('kill a leader');
    assert.equal((await told.next()).value, 'another leads');
    await more();
    console.log('start it again');
    assert.equal((await told.next()).value, 'it is back');
    await more();
    stop = true;
    await Promise.all(writers);
    for (const [writer, done] of acknowledged.entries()) {
      for (const number of done) assert.equal(await r.get(`w${writer}:${number}`), `${number}`, `w${writer}:${number} is lost`);
    }
    const kinds = [...new Set(errors)].sort().slice(0, 4).join('; ');
    console.log(`note ${sum(acknowledged.map((done) => done.size))} writes, ${errors.length} errors seen: ${kinds}`);
  },
};

for (protocol of [2, 3]) {
  for (const [name, step] of Object.entries(steps)) {
    const r = client();
    await r.ping();
    await onMasters(r, (node) => node.flushall());
    await step(r);
    open.forEach((one) => one.disconnect());
    open = [];
    console.log(`ok ${name} (RESP${protocol})`);
  }
}
process.exit(0);
