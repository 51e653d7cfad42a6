// What Node's consul shows its user of sessions, locks and watches, line by line.

const Consul = require('consul');

const [host, port] = process.argv[2].split(':');

function changes(watch) {
  const seen = [];
  let wake = () => {};
  watch.on('change', data => {
    seen.push(data);
    wake();
  });
  return async done => {
    for (;;) {
      const found = seen.findIndex(done);
      if (found >= 0) {
        return seen.splice(0, found + 1).pop();
      }
      await new Promise(resolve => { wake = resolve; });
    }
  };
}

async function main() {
  const consul = new Consul({ host, port });
  console.log('leader:', (await consul.status.leader()).length > 0);
  console.log('node:', (await consul.agent.self()).Config.NodeName);
  const [one, two] = await Promise.all(['one', 'two'].map(async name =>
    (await consul.session.create({ name, ttl: '60s', lockdelay: '0s' })).ID));
  console.log('session:', (await consul.session.get(one)).Name);
  console.log('renewed:', (await consul.session.renew(one))[0].ID === one);
  console.log('sessions:', (await consul.session.list()).map(session => session.Name).sort().join());

  const acquire = (session, value) => consul.kv.set({ key: 'jobs/nightly', value, acquire: session });
  console.log('first acquires:', await acquire(one, 'first'));
  console.log('second acquires:', await acquire(two, 'second'));
  const held = await consul.kv.get('jobs/nightly');
  console.log('held:', held.Value, held.Session === one, held.LockIndex > 0);
  console.log('keys:', await consul.kv.keys('jobs/'));

  const watch = consul.watch({ method: consul.kv.get, options: { key: 'jobs/nightly', wait: '20s' } });
  const next = changes(watch);
  await next(data => data && data.Session === one);
  console.log('second releases what it has not:', await consul.kv.set({ key: 'jobs/nightly', value: '', release: two }));
  console.log('first releases:', await consul.kv.set({ key: 'jobs/nightly', value: '', release: one }));
  await next(data => !data || !data.Session);
  console.log('second acquires:', await acquire(two, 'second'));
  console.log('watch:', (await next(data => data && data.Session === two)).Value);
  watch.end();

  await consul.session.destroy(two);
  console.log('free again:', await acquire(one, 'first'));
  await acquire(two, 'late').catch(error => console.log('refused:', error.message.includes('invalid session')));
  console.log('end');
}

// What still watches must not keep it.
main().then(() => process.exit(0), error => {
  console.log('failed:', error);
  process.exit(1);
});
