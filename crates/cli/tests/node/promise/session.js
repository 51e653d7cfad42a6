// Holds a lock with Node's etcd3, and says on CLOCK_MONOTONIC when it has it and when it has lost it.
//
// The library goes by the time that it asked for, not by what it is told. So whoever uses it takes the first failure to renew for the loss.

const { Etcd3 } = require('etcd3');

function say(what) {
  console.log(what, process.hrtime.bigint().toString());
}

async function main() {
  const client = new Etcd3({ hosts: process.argv[2] });
  const lease = client.lease(60);
  await lease.grant();
  const lost = new Promise(resolve => {
    lease.on('keepaliveFailed', resolve);
    lease.on('lost', resolve);
  });
  const put = lease.put('jobs').value('node');
  const { succeeded } = await client.if('jobs', 'Create', '==', 0).then(put).commit();
  if (!succeeded) throw new Error('someone else has the lock');
  say('held');
  await lost;
  say('lost');
  // The test ends it.
  setInterval(() => {}, 1000);
}

main().catch(error => {
  console.error(error);
  process.exit(1);
});
