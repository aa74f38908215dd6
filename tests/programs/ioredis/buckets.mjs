// A session of ioredis: how a client chooses a database or a bucket, and what becomes of a wrong choice.
import assert from 'node:assert/strict';
import { Redis } from 'ioredis';

const hosts = process.env.DICTUM_HOSTS.split(',');
const onDictum = process.env.DICTUM_SERVER === 'dictum';
let protocol = 2;
let open = [];
let uncaught = 0;
// Of this kind alone; there may be more than one for one client.
process.on('unhandledRejection', (problem) => {
  if (problem.command?.args[0] !== 'NaN') throw problem;
  uncaught += 1;
});

/** A client of one node, closed after the step; `errors` are its events. */
function kept(one) {
  one.errors = [];
  one.on('error', (problem) => one.errors.push(problem.message));
  open.push(one);
  return one;
}

function client(options = {}, node = 0) {
  const at = hosts[node].lastIndexOf(':');
  return kept(new Redis({ host: hosts[node].slice(0, at), port: Number(hosts[node].slice(at + 1)), protocol, retryStrategy: null, ...options }));
}

/** A client by a URL: `before` stands in front of the host, `after` behind the port. */
const byUrl = (before, after, node = 0) => kept(new Redis(`redis://${before}${hosts[node]}${after}`, { protocol, retryStrategy: null }));

const steps = {
  async 'database by number'(r) {
    const [five, same] = [client({ db: 5 }), byUrl('', '/5', 1)];
    assert.equal(await five.set('k', 'five'), 'OK');
    assert.equal(await same.get('k'), 'five');
    assert.equal(await r.get('k'), null);
    await r.set('k', 'zero');
    assert.equal(await same.get('k'), 'five');
  },

  async 'bucket by name'(r) {
    if (!onDictum) return;
    await r.call('DICTUM.BUCKET', 'CREATE', 'users');
    // SELECT at another node waits until that node knows the bucket; AUTH does not, and is refused there for some milliseconds.
    await client({}, 1).select('users');
    const [users, same] = [client({ username: 'users', password: 'any' }), byUrl('users:any@', '', 1)];
    assert.equal(await users.set('k', 'users'), 'OK');
    assert.equal(await same.get('k'), 'users');
    assert.equal(await r.get('k'), null);
    await r.set('k', 'zero');
    assert.equal(await same.get('k'), 'users');
    // A name alone is sent, with an empty password.
    assert.equal(await byUrl('users@', '').get('k'), 'users');
    assert.equal(await client({ username: 'users' }).get('k'), 'users');
    await r.call('DICTUM.BUCKET', 'DROP', 'users', 'CONFIRM');
  },

  async 'wrong number'(r) {
    for (const wrong of [client({ db: 16 }), byUrl('', '/16')]) {
      // The library goes on after a refused SELECT, with an event alone.
      if (onDictum) await assert.rejects(wrong.set('k', 'wrong'), /no database is selected/);
      else assert.equal(await wrong.set('k', 'wrong'), 'OK');
      assert.match(wrong.errors[0], /DB index/);
    }
    assert.equal(await r.get('k'), onDictum ? null : 'wrong');
  },

  async 'wrong name'(r) {
    for (const wrong of [client({ username: 'nobody', password: 'any' }), byUrl('nobody:any@', ''), byUrl('nobody@', '')]) {
      await assert.rejects(wrong.set('k', 'wrong'), /WRONGPASS|Connection is closed/);
      assert.match(wrong.errors[0], /WRONGPASS/);
    }
    assert.equal(await r.get('k'), null);
  },

  async 'a path that is no number'(r) {
    // It is sent as SELECT NaN, and nobody can catch the refusal.
    uncaught = 0;
    const wrong = byUrl('', '/users');
    if (onDictum) await assert.rejects(wrong.set('k', 'wrong'), /no database is selected/);
    else assert.equal(await wrong.set('k', 'wrong'), 'OK');
    assert.deepEqual(wrong.errors, []);
    while (!uncaught) await wrong.ping();
    assert.equal(await r.get('k'), onDictum ? null : 'wrong');
  },
};

for (protocol of [2, 3]) {
  for (const [name, step] of Object.entries(steps)) {
    const r = client();
    await r.flushall();
    await step(r);
    open.forEach((one) => one.disconnect());
    open = [];
    console.log(`ok ${name} (RESP${protocol})`);
  }
}
process.exit(0);
