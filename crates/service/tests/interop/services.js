// What etcd's lock, lease and election services answer over gRPC, line by line. Node's etcd3 has no functions for locks and
// elections of the server, so that this calls them with the gRPC library and the descriptions of etcd's services.

const grpc = require('@grpc/grpc-js');
const loader = require('@grpc/proto-loader');

const [address, protos] = process.argv.slice(2);
const files = ['etcd/rpc.proto', 'etcd/lock.proto', 'etcd/election.proto'];
const services = grpc.loadPackageDefinition(
  loader.loadSync(files, { includeDirs: [protos], keepCase: true, longs: String, defaults: true }));

function connect(Service) {
  return new Service(address, grpc.credentials.createInsecure());
}

const lock = connect(services.v3lockpb.Lock);
const lease = connect(services.etcdserverpb.Lease);
const kv = connect(services.etcdserverpb.KV);
const election = connect(services.v3electionpb.Election);

function call(client, method, request) {
  return new Promise((resolve, reject) =>
    client[method](request, (error, answer) => error ? reject(error) : resolve(answer)));
}

// An error as a program sees it.
async function refusal(promise) {
  return promise.then(() => 'no error', error => `${grpc.status[error.code]}: ${error.details}`);
}

async function grant() {
  return (await call(lease, 'LeaseGrant', { TTL: 100 })).ID;
}

async function exists(key) {
  return (await call(kv, 'Range', { key })).kvs.length;
}

// Reads the messages of a stream one at a time.
function reader(stream) {
  const messages = stream[Symbol.asyncIterator]();
  return async () => (await messages.next()).value;
}

async function locks() {
  const [first, second] = [await grant(), await grant()];
  const held = await call(lock, 'Lock', { name: Buffer.from('jobs'), lease: first });
  const again = await call(lock, 'Lock', { name: Buffer.from('jobs'), lease: first });
  console.log('the same again:', held.key.equals(again.key), held.header.revision === again.header.revision);
  console.log('key:', held.key.toString() === `jobs/${BigInt(first).toString(16)}`);
  const waits = call(lock, 'Lock', { name: Buffer.from('jobs'), lease: second });
  await call(lock, 'Unlock', { key: held.key });
  const next = await waits;
  console.log('revision rises:', BigInt(next.header.revision) > BigInt(held.header.revision));
  // A key that is gone unlocks nobody.
  await call(lock, 'Unlock', { key: held.key });
  console.log('still held:', await exists(next.key));
  await call(lease, 'LeaseRevoke', { ID: second });
  console.log('after its lease:', await exists(next.key));
}

async function leases() {
  const ID = await grant();
  const keeper = lease.LeaseKeepAlive();
  const answer = reader(keeper);
  keeper.write({ ID });
  console.log('kept alive:', (await answer()).TTL);
  console.log('listed:', (await call(lease, 'LeaseLeases', {})).leases.some(listed => listed.ID === ID));
  await call(lease, 'LeaseRevoke', { ID });
  keeper.write({ ID });
  console.log('kept alive after its end:', (await answer()).TTL);
  keeper.end();
  console.log('time to live:', (await call(lease, 'LeaseTimeToLive', { ID })).TTL);
  console.log('revoked twice:', await refusal(call(lease, 'LeaseRevoke', { ID })));
  console.log('unknown lease:', await refusal(call(lock, 'Lock', { name: Buffer.from('jobs'), lease: 4711 })));
}

async function elections() {
  const name = Buffer.from('boss');
  const campaign = async (value, id) =>
    (await call(election, 'Campaign', { name, lease: id, value: Buffer.from(value) })).leader;
  const leader = async () => (await call(election, 'Leader', { name })).kv.value.toString();
  console.log('nobody:', await refusal(leader()));
  const [first, second] = [await grant(), await grant()];
  const alice = await campaign('alice', first);
  const stream = election.Observe({ name });
  const message = reader(stream);
  const observed = async () => (await message()).kv.value.toString();
  console.log('observed:', await observed());
  await call(election, 'Proclaim', { leader: alice, value: Buffer.from('alice again') });
  console.log('observed:', await observed());
  const waits = campaign('bob', second);
  await call(election, 'Resign', { leader: alice });
  const bob = await waits;
  console.log('observed:', await observed());
  console.log('leader:', await leader());
  console.log('revision rises:', BigInt(bob.rev) > BigInt(alice.rev));
  // Whoever has resigned speaks for nobody.
  console.log('late:', await refusal(call(election, 'Proclaim', { leader: alice, value: Buffer.from('late') })));
}

async function main() {
  await locks();
  await leases();
  await elections();
  console.log('end');
}

// A stream that is still open must not keep it running.
main().then(() => process.exit(0), error => {
  console.log('failed:', error);
  process.exit(1);
});
