// A session of node-redis: how a client chooses a database or a bucket, and what becomes of a wrong choice.
import assert from 'node:assert/strict';
import { createClient } from 'redis';

const hosts = process.env.DICTUM_HOSTS.split(',');
const onDictum = process.env.DICTUM_SERVER === 'dictum';
let protocol = 2;
let open = [];

/** A client of one node, connected, closed after the step: by a URL whose parts are said, or by options. */
async function client({ before = '', after = '', node = 0, ...options } = {}) {
  const url = `redis://${before}${hosts[node]}${after}`;
  const one = createClient({ url, RESP: protocol, socket: { reconnectStrategy: false }, ...options });
  one.on('error', () => {});
  open.push(one);
  return await one.connect();
}

/** Such a client must not connect, so that no command of it is sent. */
const refused = (options, how) => assert.rejects(client(options).then((one) => one.set('k', 'wrong')), how);

const steps = {
  async 'database by number'(r) {
    const [five, same] = [await client({ database: 5 }), await client({ after: '/5', node: 1 })];
    assert.equal(await five.set('k', 'five'), 'OK');
    assert.equal(await same.get('k'), 'five');
    assert.equal(await r.get('k'), null);
    await r.set('k', 'zero');
    assert.equal(await same.get('k'), 'five');
  },

  async 'bucket by name'(r) {
    if (!onDictum) return;
    await r.sendCommand(['DICTUM.BUCKET', 'CREATE', 'users']);
    // SELECT at another node waits until that node knows the bucket; AUTH does not, and is refused there for some milliseconds.
    await (await client({ node: 1 })).sendCommand(['SELECT', 'users']);
    const [users, same] = [await client({ username: 'users', password: 'any' }), await client({ before: 'users:any@', node: 1 })];
    assert.equal(await users.set('k', 'users'), 'OK');
    assert.equal(await same.get('k'), 'users');
    assert.equal(await r.get('k'), null);
    await r.set('k', 'zero');
    assert.equal(await same.get('k'), 'users');
    await r.sendCommand(['DICTUM.BUCKET', 'DROP', 'users', 'CONFIRM']);
  },

  async 'wrong number'(r) {
    await refused({ database: 16 }, /DB index/);
    await refused({ after: '/16' }, /DB index/);
    assert.equal(await r.get('k'), null);
  },

  async 'wrong name'(r) {
    await refused({ username: 'nobody', password: 'any' }, /WRONGPASS/);
    await refused({ before: 'nobody:any@' }, /WRONGPASS/);
    // The library itself refuses a path that is no number.
    await refused({ after: '/users' }, /Invalid pathname/);
    assert.equal(await r.get('k'), null);
  },

  async 'passed over by the library'(r) {
    if (protocol === 2) {
      // Over RESP2 a name alone is sent, with an empty password.
      await refused({ before: 'nobody@' }, /WRONGPASS/);
      assert.equal(await r.get('k'), null);
    } else {
      // Over RESP3, the usual protocol, it is not sent, and the client is in database 0.
      assert.equal(await (await client({ before: 'nobody@' })).set('k', 'zero'), 'OK');
      assert.equal(await r.get('k'), 'zero');
    }
  },
};

for (protocol of [2, 3]) {
  for (const [name, step] of Object.entries(steps)) {
    const r = await client();
    await r.flushAll();
    await step(r);
    open.forEach((one) => one.isOpen && one.destroy());
    open = [];
    console.log(`ok ${name} (RESP${protocol})`);
  }
}
process.exit(0);
