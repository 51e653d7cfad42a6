// What Node's etcd3 shows its user of locks, leases and elections, line by line.

const { Etcd3 } = require('etcd3');

const hosts = `http://${process.argv[2]}`;

function next(emitter, event) {
  return new Promise((resolve, reject) => {
    emitter.once(event, resolve);
    emitter.once('error', reject);
  });
}

async function locks(client, other) {
  const first = client.lock('jobs').ttl(30);
  await first.acquire();
  console.log('first has it');
  await other.lock('jobs').acquire().catch(error => console.log('second:', error.name, error.message));
  await first.release();
  const answer = await other.lock('jobs').do(async () => 'done inside');
  console.log(answer);
  await client.lock('jobs').do(async () => {
    throw new Error('thrown inside');
  }).catch(error => console.log(error.message));
  const again = client.lock('jobs');
  await again.acquire();
  console.log('free again, lease', (await again.leaseId()).length > 0);
  await again.release();
}

async function elections(client, other) {
  const first = client.election('boss', 30).campaign('alice');
  await next(first, 'elected');
  const observer = await other.election('boss').observe();
  while (observer.leader() !== 'alice') {
    await next(observer, 'change');
  }
  console.log('leader:', observer.leader());
  await first.proclaim('alice two');
  while (observer.leader() !== 'alice two') {
    await next(observer, 'change');
  }
  console.log('leader:', await other.election('boss').leader());
  const second = other.election('boss', 30).campaign('bob');
  await next(second, '_isWaiting');
  const elected = next(second, 'elected');
  await first.resign();
  await elected;
  while (observer.leader() !== 'bob') {
    await next(observer, 'change');
  }
  console.log('leader:', observer.leader());
  await second.resign();
  console.log('leader:', await client.election('boss').leader());
}

async function main() {
  const [client, other] = [new Etcd3({ hosts }), new Etcd3({ hosts })];
  await locks(client, other);
  await elections(client, other);
  console.log('end');
}

// What still watches must not keep it.
main().then(() => process.exit(0), error => {
  console.log('failed:', error);
  process.exit(1);
});
