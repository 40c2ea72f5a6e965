// Clients from npm against the UDP edge. Prints a JSON object: for each question what was seen.
//
//     stun_clients.js MODULES HOST PORT_OF_PLAIN_LISTENER
'use strict';

const { createRequire } = require('node:module');

const [, , modules, host, port] = process.argv;
const load = createRequire(modules + '/');
// A gathering ends within a second; this long is a failure.
const PATIENCE_MS = 10_000;
const seen = {};

function stun() {
  return new Promise((done) => {
    load('stun').request(`${host}:${port}`, (error, answer) => {
      const address = error ? error.message : answer.getXorAddress().address;
      seen['stun plain'] = address === host ? 'own address' : address;
      done();
    });
  });
}

function datachannel() {
  const library = load('node-datachannel');
  const peer = new library.PeerConnection('player', { iceServers: [`stun:${host}:${port}`] });
  const found = [];
  const reflexive = (candidate) => candidate.includes(` ${host} `) && candidate.includes('typ srflx');
  return new Promise((done) => {
    const end = () => {
      clearTimeout(timer);
      seen['node-datachannel gathers'] = found.some(reflexive) ? 'own address' : found.join('; ');
      peer.close();
      library.cleanup();
      done();
    };
    const timer = setTimeout(end, PATIENCE_MS);
    // Its "complete" may overtake the candidates.
    peer.onLocalCandidate((candidate) => {
      found.push(candidate);
      if (reflexive(candidate)) end();
    });
    peer.createDataChannel('game');
  });
}

async function werift() {
  const { Connection } = load('werift-ice');
  const ice = new Connection(true, { stunServer: [host, Number(port)] });
  await ice.gatherCandidates();
  const found = ice.localCandidates.map((candidate) => `${candidate.type} ${candidate.host}`);
  seen['werift-ice gathers'] = found.includes(`srflx ${host}`) ? 'own address' : found.join('; ');
}

stun().then(datachannel).then(werift).then(() => {
  console.log(JSON.stringify(seen));
  process.exit(0);
});
